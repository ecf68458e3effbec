//! One term of office: what all parts of the bridge share while this replica leads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use holdfast_statemachine::{Action, Command, Name, Revision, Source};
use kube::Client;

use super::Options;
use super::backoff::Backoff;
use super::cache::Cache;
use super::key::Key;
use super::queue::Queue;
use super::recorder::Recorder;
use super::report::Report;
use crate::ledger::{Ledger, Outcomes, Unproposed};

/// Made when this replica wins, dropped when it leads no longer.
pub struct Office<L> {
    /// The ledger.
    pub ledger: L,
    /// The term in which this replica leads: no command of it counts in another.
    pub term: u64,
    /// The ledger's revision when this replica won.
    pub since: Revision,
    /// The id of the replicas' group.
    pub cluster: String,
    /// The Kubernetes API.
    pub client: Client,
    /// What was asked for.
    pub options: Options,
    /// What the informers have seen.
    pub cache: Cache,
    /// Objects that may ask something of the ledger.
    pub decisions: Queue,
    /// Objects that may be gone: to be asked for by name.
    pub unproven: Queue,
    /// How often objects failed.
    pub backoff: Backoff,
    /// Objects whose status, or spec, may not say what the ledger says.
    pub mirror: Queue,
    /// Tells people, by Events.
    pub recorder: Recorder,
    /// Tells of itself.
    pub report: Arc<Report>,
    /// What the ledger refused, for the conditions.
    pub refusals: Refusals,
    /// Pods of which it was told that they run without their address.
    pub misaddressed: Told,
    /// Pods that the ledger knows of, and the cache not yet.
    pub ahead: Told,
}

impl<L: Ledger> Office<L> {
    /// Commands of this source and of this term alone.
    pub fn command(&self, action: Action) -> Command {
        Command { source: Source::Kubernetes, only_in_term: Some(self.term), action }
    }

    /// Proposes actions as one entry.
    pub async fn propose(&self, actions: Vec<Action>) -> Result<Outcomes, Unproposed> {
        self.ledger.propose(actions.into_iter().map(|action| self.command(action)).collect()).await
    }
}

/// Objects of which something was told once, by the UID that they had then.
#[derive(Debug, Default)]
pub struct Told(Mutex<BTreeMap<Key, Name>>);

impl Told {
    /// Whether it was told of this very object.
    pub fn is_told(&self, key: &Key, uid: &Name) -> bool {
        self.lock().get(key) == Some(uid)
    }

    /// It is told.
    pub fn told(&self, key: &Key, uid: &Name) {
        self.lock().insert(key.clone(), uid.clone());
    }

    /// The object is gone.
    pub fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Key, Name>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Objects of ours that the ledger refused as they are written: what is in force there is an older state, or none.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<BTreeMap<Key, Refusal>>);

/// Why an object is not in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// One word for programs.
    pub code: &'static str,
    /// One line for people.
    pub message: String,
    /// The generation refused.
    pub generation: Option<i64>,
}

impl Refusals {
    /// Why this object is refused, if it is.
    pub fn get(&self, key: &Key) -> Option<Refusal> {
        self.lock().get(key).cloned()
    }

    /// Notes how it stands. Whether that is new.
    pub fn set(&self, key: &Key, refusal: Option<Refusal>) -> bool {
        let mut refusals = self.lock();
        match refusal {
            Some(refusal) if refusals.get(key) == Some(&refusal) => false,
            Some(refusal) => {
                refusals.insert(key.clone(), refusal);
                true
            }
            None => refusals.remove(key).is_some(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Key, Refusal>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
