//! The types that openraft is instantiated with.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use holdfast_statemachine::codec::{self, CodecError, Kind};
use holdfast_statemachine::{Command, Millis, Outcome, Rejection, Revision};
use serde::{Deserialize, Serialize};

use crate::NodeId;
use crate::snapshot_dir::SnapshotFile;

openraft::declare_raft_types!(
    /// Holdfast's types, for openraft.
    pub TypeConfig:
        D = Proposal,
        R = Reply,
        NodeId = NodeId,
        Node = Member,
        Entry = openraft::Entry<TypeConfig>,
        SnapshotData = SnapshotFile,
);

/// Raft, with our types.
pub(crate) type Raft = openraft::Raft<TypeConfig>;
/// An entry of the log.
pub(crate) type Entry = openraft::Entry<TypeConfig>;
/// The position of an entry: term, leader, index.
pub(crate) type LogId = openraft::LogId<NodeId>;
/// Whom a replica has voted for.
pub(crate) type Vote = openraft::Vote<NodeId>;
/// A membership and where in the log it is.
pub(crate) type StoredMembership = openraft::StoredMembership<NodeId, Member>;
/// What a snapshot holds.
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<NodeId, Member>;
/// A membership.
pub(crate) type Membership = openraft::Membership<NodeId, Member>;
/// openraft's storage error: it ends the process.
pub(crate) type StorageError = openraft::StorageError<NodeId>;

/// A member's name and address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Unique in the group.
    pub name: String,
    /// `host:port` where the others reach it.
    pub address: String,
}

/// An entry's commands, encoded once by the leader: the same bytes go to the log, to the peers, and are
/// decoded when the entry is applied.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Vec<u8>", into = "Vec<u8>")]
pub struct Proposal {
    pub(crate) bytes: Bytes,
    /// Set once the entry is given to the log: from then on its fate is open. Only on the replica that
    /// proposed it.
    pub(crate) logged: Option<Arc<AtomicBool>>,
}

impl From<Bytes> for Proposal {
    fn from(bytes: Bytes) -> Proposal {
        Proposal { bytes, logged: None }
    }
}

impl From<Vec<u8>> for Proposal {
    fn from(bytes: Vec<u8>) -> Proposal {
        Bytes::from(bytes).into()
    }
}

impl From<Proposal> for Vec<u8> {
    fn from(proposal: Proposal) -> Vec<u8> {
        proposal.bytes.into()
    }
}

impl Proposal {
    /// The leader's time, and the commands in the order in which they are applied.
    pub(crate) fn encode(proposed_at: Millis, commands: &[&Command]) -> Result<Proposal, CodecError> {
        codec::encode(Kind::LogEntry, &(proposed_at, commands)).map(Proposal::from)
    }

    pub(crate) fn decode(&self) -> Result<(Millis, Vec<Command>), CodecError> {
        codec::decode(Kind::LogEntry, &self.bytes)
    }
}

/// What applying an entry came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// One for each command, in order.
    pub outcomes: Vec<Result<Outcome, Rejection>>,
    /// The ledger's revision after the entry.
    pub revision: Revision,
}
