//! The ledger, as the bridge sees it.

use std::net::IpAddr;

use holdfast_statemachine as statemachine;
use holdfast_statemachine::row::Holder;
use holdfast_statemachine::{Change, Command, Outcome, Rejection, Revision};
use tokio::sync::watch;

/// A replicated ledger. This crate declares it, and whoever runs replicas implements it.
pub trait Ledger: Clone + Send + Sync + 'static {
    /// The id of the replicas' group; `None` before it is formed.
    fn cluster(&self) -> Option<String>;

    /// The term in which this replica leads, once a read here has all that was decided before it; `None` while it
    /// does not lead.
    fn leads(&self) -> watch::Receiver<Option<u64>>;

    /// Puts these commands into one entry of the log, if this replica leads, and waits until it is applied here.
    fn propose(&self, commands: Vec<Command>) -> impl Future<Output = Result<Outcomes, Unproposed>> + Send;

    /// Reads the ledger as it is here. Entries wait while `read` runs: keep it short.
    fn read<T>(&self, read: impl FnOnce(&statemachine::Ledger) -> T) -> T;

    /// The ledger's revision here, whenever it changes.
    fn revision(&self) -> watch::Receiver<Revision>;

    /// Who held an address before whoever holds it now, if anybody does, as far as the history goes. Holders that are
    /// only observed are passed over.
    fn held_before(&self, address: IpAddr) -> Option<Holder>;

    /// At most `limit` changes that follow a revision, in order.
    fn changes(&self, after: Revision, limit: usize) -> Result<Vec<Change>, Gap>;
}

/// One for each command, in order.
pub type Outcomes = Vec<Result<Outcome, Rejection>>;

/// Why commands have no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unproposed {
    /// This replica leads no longer. Nothing was done.
    #[error("this replica leads no longer")]
    NotLeader,
    /// They are more than one entry takes: fewer at a time may do. Nothing was done.
    #[error("{0}")]
    TooLarge(String),
    /// Not now, or nobody knows whether: commands are declarative, so they may be tried again.
    #[error("{0}")]
    Again(String),
}

/// Changes that are no longer kept follow the revision asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the changes after revision {after} are no longer kept")]
pub struct Gap {
    /// The revision asked for.
    pub after: Revision,
}
