//! The ledger: who holds which address, and which Node carries which Egress address.
//!
//! [`Ledger`] is a pure, synchronous, deterministic state machine. One function changes it,
//! [`Ledger::apply`], which takes one [`Entry`] of a totally ordered log and returns an outcome for
//! each of its commands. [`Store`] keeps the ledger's rows in sled, one atomic batch an entry.
//!
//! This crate must never know about Raft, tokio, Kubernetes, a clock or randomness: two replicas that
//! apply the same entries must hold the same rows, byte for byte.

pub mod address;
pub mod adopt;
pub mod change;
pub mod codec;
pub mod command;
pub mod free_space;
pub mod ledger;
pub mod outcome;
pub mod pool_spec;
pub mod row;
pub mod run_set;
pub mod scheduler;
pub mod snapshot;
pub mod store;
pub mod tables;

use std::sync::Arc;

pub use address::{Family, Range};
pub use adopt::{Adopt, Conflict, Mode};
pub use change::{Cause, Change, Event};
pub use command::{Action, Command, Entry, Source};
pub use ledger::{Applied, Held, Ledger};
pub use outcome::{Outcome, Rejection, Waiting};
pub use row::{Key, PoolId, PoolKind, Row};
pub use scheduler::Scheduler;
pub use store::{Store, StoreError};
pub use tables::Tables;

/// A name or an id: cheap to copy, shared by every row that mentions it.
pub type Name = Arc<str>;
/// Milliseconds since the Unix epoch, as stamped by the leader that proposed an entry.
pub type Millis = u64;
/// A position in the ledger's own history. Every change takes the next one; the first is 1.
pub type Revision = u64;
