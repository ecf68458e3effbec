//! What the bridge says of itself.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use holdfast_statemachine::row::AdoptionRow;
use jiff::Timestamp;

use super::key::Key;
use crate::objects::Kind;

/// Shared by all parts of the bridge; read by whoever asks a replica for its status.
#[derive(Debug, Default)]
pub struct Report {
    state: Mutex<State>,
}

/// The state of the bridge at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// What it does now.
    pub phase: Phase,
    /// Objects whose status is to be written, now or later.
    pub unwritten: usize,
    /// Since when there has been something to write, if there is.
    pub behind_since: Option<Instant>,
    /// The newest failure, and when. It stays when all is well again.
    pub last_error: Option<(Timestamp, String)>,
    /// Writes of status that the API server took.
    pub status_writes: u64,
    /// Writes of `spec.egressIP` that the API server took.
    pub spec_writes: u64,
    /// Objects put right after somebody else had written what is the ledger's to say.
    pub repairs: u64,
    /// Events written.
    pub events: u64,
    /// Events given up for want of budget.
    pub events_dropped: u64,
    /// Objects that another writer keeps changing, with that writer's name.
    pub contested: BTreeMap<Key, String>,
    /// Objects that cannot be read or that the ledger refuses, and why.
    pub refused: BTreeMap<Key, String>,
    /// Each kind that is followed: whether its changes are seen.
    pub watches: BTreeMap<Kind, Watch>,
    /// What the first start passed over, if it was this process that adopted. It stays when another replica leads.
    pub passed_over: PassedOver,
}

/// The watch of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Since when it is up, or down.
    pub since: Timestamp,
    /// Why it is down; `None` while it is up.
    pub down: Option<String>,
}

/// What the Kubernetes API said on the first start that was not adopted, and is in no contradiction to anything: its
/// owner is gone, or it cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassedOver {
    /// The first [`PassedOver::LISTED_MAX`], in the order in which they were met: the object, and why.
    pub listed: Vec<(Key, String)>,
    /// How many there were.
    pub total: u64,
}

impl PassedOver {
    /// As many as conflicts are kept.
    pub const LISTED_MAX: usize = AdoptionRow::CONFLICTS_MAX;
    /// The longest reason, in bytes: that of an Event's note. What was passed over may be of any length.
    const WHY_MAX: usize = 1_024;

    /// One more.
    pub fn add(&mut self, object: Key, mut why: String) {
        self.total += 1;
        if self.listed.len() < PassedOver::LISTED_MAX {
            why.truncate(why.floor_char_boundary(PassedOver::WHY_MAX));
            self.listed.push((object, why));
        }
    }
}

/// What the bridge does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Another replica leads, or none.
    #[default]
    Following,
    /// It asks whose the definitions are.
    Checking,
    /// It lists the objects.
    Listing,
    /// It takes over what the API says, on a first start.
    Adopting,
    /// It releases what is gone.
    Sweeping,
    /// It follows both sides.
    Working,
}

impl Report {
    /// The state now.
    pub fn state(&self) -> State {
        self.change(|state| state.clone())
    }

    /// Something failed that is tried again.
    pub fn failed(&self, why: &impl ToString) {
        self.change(|state| state.last_error = Some((Timestamp::now(), why.to_string())));
    }

    /// The API server shows what changes of a kind.
    pub fn watch_is_up(&self, kind: Kind) {
        self.watch(kind, None);
    }

    /// What changes of a kind is not seen.
    pub fn watch_is_down(&self, kind: Kind, why: &impl ToString) {
        self.watch(kind, Some(why.to_string()));
    }

    fn watch(&self, kind: Kind, down: Option<String>) {
        self.change(|state| {
            let watch = state.watches.get(&kind).filter(|watch| watch.down.is_some() == down.is_some());
            let since = watch.map_or_else(Timestamp::now, |watch| watch.since);
            state.watches.insert(kind, Watch { since, down });
        });
    }

    /// Changes the state.
    pub fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_tells_since_when_it_is_as_it_is_and_its_newest_error() {
        let report = Report::default();
        let watch = || report.state().watches[&Kind::Pod].clone();
        report.watch_is_down(Kind::Pod, &"one");
        let first = watch();
        report.watch_is_down(Kind::Pod, &"two");
        assert_eq!(watch(), Watch { since: first.since, down: Some("two".into()) });
        report.watch_is_up(Kind::Pod);
        let up = watch();
        assert!(up.since > first.since && up.down.is_none(), "{up:?}");
        report.watch_is_up(Kind::Pod);
        assert_eq!(watch(), up);
        report.watch_is_down(Kind::Pod, &"one");
        assert!(watch().since > up.since);
    }

    #[test]
    fn what_is_passed_over_is_counted_and_its_list_is_bounded() {
        let mut passed_over = PassedOver::default();
        for number in 0..300_u64 {
            passed_over.add(Key::cluster(Kind::IpPool, "p".into()), format!("{number:03}{}", "\u{fc}".repeat(600)));
        }
        assert_eq!((passed_over.total, passed_over.listed.len()), (300, PassedOver::LISTED_MAX));
        assert!(passed_over.listed.iter().all(|(_, why)| why.len() == 1_023 && why.ends_with('\u{fc}')));
        assert!(passed_over.listed[255].1.starts_with("255"));
    }
}
