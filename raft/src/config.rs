//! What a replica is told at its start.

use std::path::PathBuf;
use std::time::Duration;

use crate::{Error, FreeSpace};

/// Everything that a replica is told at its start.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Its name, unique in the group; one of `initial_members` if it is to form one.
    pub name: String,
    /// Its own directory. Nothing else may write there.
    pub data_dir: PathBuf,
    /// `host:port` where the other replicas reach it.
    pub address: String,
    /// (name, `host:port`) of the replicas that form the group. The first one leads the formation. Read
    /// only while this replica belongs to no group.
    pub initial_members: Vec<(String, String)>,
    /// Replicas form a group only with those that have the same token.
    pub cluster_token: String,
    /// Bounds on proposals.
    pub limits: Limits,
    /// When snapshots are taken, and what is kept.
    pub snapshots: SnapshotPolicy,
    /// Raft's clocks.
    pub timings: Timings,
    /// While fewer than a quorum of voters have this many bytes free, what takes addresses is refused.
    pub disk_watermark: u64,
    /// How free space is found out.
    pub free_space: FreeSpace,
}

/// Bounds on proposals. Whatever exceeds one is refused at once, never queued.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Commands in one entry. An entry is applied in one go, so this bounds how long readers wait.
    pub entry_commands: usize,
    /// Bytes in one entry. An entry must fit in one append (at most 3 MiB), with room to spare.
    pub entry_bytes: usize,
    /// Commands that wait for a place in an entry.
    pub waiting_commands: usize,
    /// Their bytes.
    pub waiting_bytes: usize,
    /// Entries proposed and not yet applied. Two keep the disk busy while the followers answer.
    pub entries_in_flight: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            entry_commands: 1_024,
            entry_bytes: 1 << 20,
            waiting_commands: 16_384,
            waiting_bytes: 16 << 20,
            entries_in_flight: 1,
        }
    }
}

/// When snapshots are taken, and what is kept.
#[derive(Clone, Debug)]
pub struct SnapshotPolicy {
    /// After this many entries since the last one.
    pub entries: u64,
    /// After this many bytes of log since the last one.
    pub log_bytes: u64,
    /// Entries behind a snapshot that stay in the log, so that a replica that was away for a moment needs
    /// no snapshot.
    pub keep_entries: u64,
    /// Snapshot files that are kept; at least 1.
    pub keep_files: usize,
}

impl Default for SnapshotPolicy {
    fn default() -> SnapshotPolicy {
        SnapshotPolicy { entries: 100_000, log_bytes: 64 << 20, keep_entries: 1_000, keep_files: 2 }
    }
}

/// Raft's clocks.
#[derive(Clone, Debug)]
pub struct Timings {
    /// Between heartbeats, and how long one append may take, disk included.
    pub heartbeat: Duration,
    /// No replica stands for election earlier than this after it last heard of a leader.
    pub election_min: Duration,
    /// Nor later than this. Each replica has its own part of this window, so that two rarely tie. Also the
    /// time for which a replica that has heard from a leader votes for nobody else.
    pub election_max: Duration,
    /// How long opening a connection to a peer may take; well below `election_min`.
    pub connect: Duration,
    /// How long sending and installing a snapshot may take.
    pub snapshot: Duration,
    /// Between looks at free space, snapshots due, and members to ask during formation.
    pub housekeeping: Duration,
}

impl Default for Timings {
    fn default() -> Timings {
        Timings {
            heartbeat: Duration::from_millis(200),
            election_min: Duration::from_secs(1),
            election_max: Duration::from_secs(2),
            connect: Duration::from_millis(500),
            snapshot: Duration::from_mins(10),
            housekeeping: Duration::from_millis(500),
        }
    }
}

/// An append must stay below what a peer accepts in one message.
pub(crate) const APPEND_BYTES: usize = 3 << 20;
/// What a peer accepts in one message.
pub(crate) const MESSAGE_BYTES: usize = 8 << 20;

impl NodeConfig {
    /// A configuration with the default bounds and clocks.
    pub fn new(name: impl Into<String>, data_dir: impl Into<PathBuf>, address: impl Into<String>) -> NodeConfig {
        NodeConfig {
            name: name.into(),
            data_dir: data_dir.into(),
            address: address.into(),
            initial_members: Vec::new(),
            cluster_token: String::new(),
            limits: Limits::default(),
            snapshots: SnapshotPolicy::default(),
            timings: Timings::default(),
            disk_watermark: 256 << 20,
            free_space: FreeSpace::default(),
        }
    }

    /// Checks what types cannot.
    pub fn validate(&self) -> Result<(), Error> {
        let bad = |key, why: &str| Err(Error::Config { key, why: why.to_owned() });
        if self.name.is_empty() {
            return bad("name", "must not be empty");
        }
        for (i, (name, address)) in self.initial_members.iter().enumerate() {
            if name.is_empty() || address.is_empty() {
                return bad("initial_members", "each member has a name and an address");
            }
            if self.initial_members[..i].iter().any(|(n, a)| n == name || a == address) {
                return bad("initial_members", "names and addresses are unique");
            }
        }
        let limits = &self.limits;
        if limits.entry_commands == 0 || limits.entries_in_flight == 0 || limits.waiting_commands == 0 {
            return bad("limits", "bounds on commands and entries are at least 1");
        }
        if limits.entry_bytes == 0 || limits.entry_bytes > APPEND_BYTES * 2 / 3 {
            return bad("limits.entry_bytes", "1 to 2097152");
        }
        if self.snapshots.entries == 0 || self.snapshots.log_bytes == 0 || self.snapshots.keep_files == 0 {
            return bad("snapshots", "entries, log_bytes and keep_files are at least 1");
        }
        let timings = &self.timings;
        if timings.heartbeat.is_zero() || timings.election_min < timings.heartbeat * 2 {
            return bad("timings.election_min", "must be at least twice the heartbeat");
        }
        if timings.election_max < timings.election_min + Duration::from_millis(100) {
            return bad("timings.election_max", "must be at least 100 ms above election_min");
        }
        Ok(())
    }
}
