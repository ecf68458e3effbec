//! What a replica says of itself and of its group.

use std::time::Duration;

use holdfast_statemachine::Revision;

use crate::{ClusterId, NodeId};

/// What a replica says of itself and of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The group; `None` before formation.
    pub cluster: Option<ClusterId>,
    /// This replica's id.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// Where the others reach it.
    pub address: String,
    /// How far it is.
    pub phase: Phase,
    /// Its part in the group.
    pub role: Role,
    /// The current term.
    pub term: u64,
    /// The leader, if one is known.
    pub leader: Option<MemberId>,
    /// The last index in its log.
    pub last_log: Option<u64>,
    /// The last index known to be committed.
    pub committed: Option<u64>,
    /// The last index applied.
    pub applied: Option<u64>,
    /// The last index in its newest snapshot.
    pub snapshot: Option<u64>,
    /// The last index that its log no longer has.
    pub purged: Option<u64>,
    /// The ledger's revision here.
    pub revision: Revision,
    /// Size of the log on disk, bytes.
    pub log_bytes: u64,
    /// How far this replica's clock is ahead of the ledger's, milliseconds. `None` before the first entry.
    pub clock_skew_ms: Option<i64>,
    /// Free space where its data is, bytes.
    pub free_bytes: u64,
    /// How old a read here may be; see [`Node::staleness`](crate::Node::staleness).
    pub staleness: Option<Duration>,
    /// The members, by name.
    pub members: Vec<MemberStatus>,
}

/// How far a replica is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It waits for the others to form a group.
    Forming {
        /// What it waits for.
        why: String,
    },
    /// Its directory is empty, and the group is formed: it takes no part until it replaces its former self.
    AwaitingReplacement {
        /// What to do, with the command that does it.
        why: String,
    },
    /// It takes part.
    Member,
}

/// A replica's part in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It belongs to no group yet.
    None,
    /// It gets entries and does not vote.
    Learner,
    /// It votes.
    Follower,
    /// It stands for election.
    Candidate,
    /// It leads.
    Leader,
    /// It is stopping or has failed.
    Stopped,
}

/// A member by id, name and address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberId {
    /// Its id.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// Where the others reach it.
    pub address: String,
}

/// A member as this replica sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Who.
    pub id: MemberId,
    /// Whether it votes.
    pub voter: bool,
    /// Whether it leads.
    pub leader: bool,
    /// The last index that its log is known to share with the leader's; known to the leader alone.
    pub matched: Option<u64>,
    /// Its free space when the leader last asked, bytes; known to the leader alone.
    pub free_bytes: Option<u64>,
}
