//! Whether somebody else changed what is the ledger's to say, and who. Pure.

use holdfast_statemachine::Name;

use super::requests::MANAGER;
use crate::bridge::watched::{Live, Manager};

/// Who, where the object does not tell.
const UNKNOWN: &str = "an unknown writer";

/// Whoever changed the status of an object since it was last written here; `None` if nobody did.
///
/// `written`: the object as our last write in this term left it, if it is known.
pub fn of_status(there: &Live, written: Option<&Live>, cluster: &str) -> Option<Name> {
    let others = || there.managers.iter().filter(|manager| is_other(manager, "status") && manager.owns(&["status"]));
    if let Some(written) = written {
        return (there.status != written.status).then(|| newest(others()).unwrap_or_else(|| UNKNOWN.into()));
    }
    // Whoever wrote it before we first did changed nothing of ours.
    if there.status.pointer("/holdfast/cluster").and_then(|it| it.as_str()) != Some(cluster) {
        return None;
    }
    let ours = there.managers.iter().filter(|it| &*it.manager == MANAGER && &*it.subresource == "status");
    let ours = ours.filter_map(|manager| manager.time).max();
    newest(others().filter(|manager| manager.time > ours))
}

/// Whoever last changed the spec of an object, but us.
pub fn of_spec(there: &Live) -> Name {
    newest(there.managers.iter().filter(|manager| is_other(manager, ""))).unwrap_or_else(|| UNKNOWN.into())
}

fn is_other(manager: &Manager, subresource: &str) -> bool {
    &*manager.manager != MANAGER && &*manager.subresource == subresource
}

fn newest<'a>(managers: impl Iterator<Item = &'a Manager>) -> Option<Name> {
    managers.max_by_key(|manager| manager.time).map(|manager| manager.manager.clone())
}
