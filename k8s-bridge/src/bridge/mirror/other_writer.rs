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

/// Whoever changed the spec of an object since we last wrote anything of it, as far as it tells: one who only takes a
/// field away leaves no trace.
pub fn of_spec(there: &Live) -> Name {
    let ours = there.managers.iter().filter(|manager| &*manager.manager == MANAGER).filter_map(|it| it.time).max();
    let since = there.managers.iter().filter(|manager| is_other(manager, "") && manager.time > ours);
    newest(since).unwrap_or_else(|| UNKNOWN.into())
}

fn is_other(manager: &Manager, subresource: &str) -> bool {
    &*manager.manager != MANAGER && &*manager.subresource == subresource
}

fn newest<'a>(managers: impl Iterator<Item = &'a Manager>) -> Option<Name> {
    managers.max_by_key(|manager| manager.time).map(|manager| manager.manager.clone())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::bridge::watched::{IpPools, Watchable};

    fn live(index: u64, managers: &Value) -> Arc<Live> {
        let (_, live) = IpPools::keep(json!({
            "metadata": {"name": "p", "managedFields": managers},
            "status": {"holdfast": {"cluster": "c", "index": index}},
        }))
        .expect("is kept");
        Arc::new(live)
    }

    fn manager(name: &str, time: &str) -> Value {
        json!({"manager": name, "subresource": "status", "time": time, "fieldsV1": {"f:status": {"f:usage": {}}}})
    }

    #[test]
    fn whoever_wrote_last_is_named() {
        let early = manager("holdfast", "2026-01-01T00:00:00Z");
        let late = manager("kubectl-edit", "2026-01-02T00:00:00Z");
        let before = manager("antrea-controller", "2025-01-02T00:00:00Z");
        let written = live(5, &json!([early]));
        let edited = live(4, &json!([before, early, late]));
        let name = |name: &str| Some(Name::from(name));
        assert_eq!(of_status(&edited, Some(&written), "c"), name("kubectl-edit"));
        assert_eq!(of_status(&live(5, &json!([early, late])), Some(&written), "c"), None);
        // Whoever only took something away is no manager of anything.
        assert_eq!(of_status(&live(4, &json!([early])), Some(&written), "c"), name(UNKNOWN));
        // In a new term the managers say so.
        assert_eq!(of_status(&edited, None, "c"), name("kubectl-edit"));
        assert_eq!(of_status(&live(5, &json!([before, early])), None, "c"), None);
        assert_eq!(of_status(&edited, None, "another"), None);
    }

    #[test]
    fn one_who_wrote_the_spec_before_us_took_nothing_away() {
        let spec = |name: &str, time: &str| json!({"manager": name, "time": time, "fieldsV1": {"f:spec": {}}});
        let ours = manager("holdfast", "2026-01-02T00:00:00Z");
        let before = spec("kubectl-create", "2026-01-01T00:00:00Z");
        assert_eq!(&*of_spec(&live(5, &json!([before, ours]))), UNKNOWN);
        let after = spec("kubectl-edit", "2026-01-03T00:00:00Z");
        assert_eq!(&*of_spec(&live(5, &json!([before, ours, after]))), "kubectl-edit");
    }
}
