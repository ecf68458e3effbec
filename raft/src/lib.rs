//! Holdfast's replication: three or five replicas agree on one log, and each applies it to its ledger.
mod config;
mod error;
mod log_check;
mod log_record;
mod log_store;
mod node;
mod peer;
mod snapshot_dir;
mod status;
mod types;

pub use config::{Limits, NodeConfig, SnapshotPolicy, Timings};
pub use error::{Error, MemberError, ProposeError, ReadError};
pub use node::{Node, Proposed};
pub use peer::PeerService;
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
