//! Holdfast's replication: three or five replicas agree on one log, and each applies it to its ledger.
//!
//! [`Node`] is the handle. Below it, openraft decides; [`log_store`] keeps votes and entries in raft-log, and
//! [`state_machine`] the ledger in sled; `peer` carries messages. What openraft lacks is here: one entry for
//! many callers, one confirmation for many readers, forwarding, formation, replacement, hand-over.
//!
//! This crate must never know about Kubernetes or about clients' gRPC.

mod config;
mod contact;
mod deadlines;
mod error;
mod formation;
mod forward;
mod identity;
mod leader_clock;
mod log_check;
mod log_record;
#[doc(hidden)]
pub mod log_store;
mod members;
mod node;
mod observer;
mod peer;
mod proposer;
mod read_rounds;
mod replica;
#[doc(hidden)]
pub mod snapshot_dir;
mod space;
#[doc(hidden)]
pub mod state_machine;
mod status;
#[doc(hidden)]
pub mod types;

pub use config::{Limits, NodeConfig, SnapshotPolicy, Timings};
pub use error::{Error, MemberError, ProposeError, ReadError};
pub use node::{Node, Proposed};
pub use peer::PeerService;
pub use space::FreeSpace;
pub use state_machine::applied_index;
pub use status::{MemberId, MemberStatus, Phase, Role, Status};

/// A replica's id: random, kept in its data directory, never derived from its name and never used again
/// after its data is lost.
pub type NodeId = u64;

/// A group's id: random, drawn at its formation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct ClusterId(pub u64);

impl std::fmt::Display for ClusterId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
