//! What can go wrong, with names and numbers.

use std::path::PathBuf;

/// Why a replica cannot start, or must stop.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory of the replica could not be read or written.
    #[error("{what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("{} is damaged at byte {offset}: {why}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Where in it, in bytes from its start.
        offset: u64,
        /// What is wrong there.
        why: String,
    },
    /// The data directory belongs to another replica.
    #[error("{} belongs to the replica {found}, not to {name}", path.display())]
    OtherReplica {
        /// Which file says so.
        path: PathBuf,
        /// The name in it.
        found: String,
        /// The name configured.
        name: String,
    },
    /// The replica has voted or stored entries, and they are gone: it must not take part under its old id.
    #[error(
        "{} is gone, but this replica has used it: empty its data directory and run `holdfast member replace {name}`",
        path.display()
    )]
    LogLost {
        /// Where the log should be.
        path: PathBuf,
        /// The replica's name.
        name: String,
    },
    /// The state machine's store failed.
    #[error("the ledger's store: {0}")]
    Store(String),
    /// The log ends before what the state machine and the snapshots need.
    #[error(
        "entries up to {purged} are no longer in the log, and neither the ledger nor a snapshot has them: empty this \
         replica's data directory and run `holdfast member replace {name}`"
    )]
    Hole {
        /// The last index that the log no longer has.
        purged: u64,
        /// The replica's name.
        name: String,
    },
    /// An entry of the log that this release cannot read.
    #[error("entry {index} cannot be read: {why}")]
    Undecodable {
        /// Its index.
        index: u64,
        /// What the codec said.
        why: String,
    },
    /// The configuration makes no sense.
    #[error("{key}: {why}")]
    Config {
        /// The field of [`NodeConfig`](crate::NodeConfig).
        key: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// Raft stopped.
    #[error("raft stopped: {0}")]
    Raft(String),
}

impl Error {
    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { what, path, source }
    }
}

/// Why a proposal has no outcome. Only after [`Unknown`](ProposeError::Unknown) may it have been done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Too much waits already. Nothing was done; try again later.
    #[error("too many proposals wait ({commands} commands, {bytes} bytes)")]
    Overloaded {
        /// Commands that wait.
        commands: usize,
        /// Their size.
        bytes: usize,
    },
    /// More than one entry may hold. Nothing was done.
    #[error("{size} {unit} in one proposal, at most {max}")]
    TooLarge {
        /// What was counted: `commands` or `bytes`.
        unit: &'static str,
        /// How many.
        size: usize,
        /// How many are allowed.
        max: usize,
    },
    /// Fewer than a quorum of voters have free space above the watermark, and the commands take addresses.
    /// Nothing was done; releases still go through.
    #[error("too few replicas have {watermark} bytes of free space: {free:?}")]
    DiskFull {
        /// What each should have free, bytes.
        watermark: u64,
        /// The voters and what they have, where known.
        free: Vec<(String, Option<u64>)>,
    },
    /// The proposal may or may not be done, now or later. Repeating it is safe: commands are idempotent.
    #[error("fate unknown: {why}")]
    Unknown {
        /// What happened.
        why: String,
    },
    /// It was not sent before the deadline. Nothing was done.
    #[error("not sent before the deadline: {why}")]
    Deadline {
        /// The last thing that stood in the way.
        why: String,
    },
    /// This replica does not lead, and the proposal must not be forwarded. Nothing was done.
    #[error("this replica does not lead")]
    NotLeader {
        /// Who does, if known.
        leader: Option<crate::NodeId>,
    },
    /// This replica belongs to no group yet. Nothing was done.
    #[error("not ready: {why}")]
    NotReady {
        /// What it waits for.
        why: String,
    },
    /// This replica is stopping. Nothing was done.
    #[error("this replica is stopping")]
    Stopping,
}

/// Why a read cannot be linearizable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Leadership was not confirmed before the deadline.
    #[error("not confirmed before the deadline: {why}")]
    Deadline {
        /// The last thing that stood in the way.
        why: String,
    },
    /// This replica belongs to no group yet.
    #[error("not ready: {why}")]
    NotReady {
        /// What it waits for.
        why: String,
    },
    /// This replica is stopping.
    #[error("this replica is stopping")]
    Stopping,
}

/// Why the members were not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// No member has this name.
    #[error("no member is named {name}")]
    Unknown {
        /// The name.
        name: String,
    },
    /// The change makes no sense as things are.
    #[error("{why}")]
    Refused {
        /// Why.
        why: String,
    },
    /// It did not come to an end before the deadline. It may still, and repeating it is safe.
    #[error("not done before the deadline: {why}")]
    Deadline {
        /// How far it came.
        why: String,
    },
    /// This replica belongs to no group yet.
    #[error("not ready: {why}")]
    NotReady {
        /// What it waits for.
        why: String,
    },
}
