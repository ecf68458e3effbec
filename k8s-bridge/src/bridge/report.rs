//! What the bridge says of itself.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use jiff::Timestamp;

use super::key::Key;

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

    /// Changes the state.
    pub fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
