//! Votes and entries on disk. Nothing is acknowledged before it is synced.

#![allow(clippy::result_large_err, reason = "openraft's errors are returned as it wants them")]

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{EntryPayload, LogState, OptionalSend, RaftLogReader, StorageIOError};
use raft_log::RaftLog;
use raft_log::api::raft_log_writer::RaftLogWriter;
use tokio::sync::oneshot;

use crate::Error;
use crate::config::APPEND_BYTES;
use crate::identity::write_synced;
use crate::log_check::check_log;
use crate::log_record::{LogTypes, RecordId, RecordPayload, RecordVote};
use crate::types::{Entry, LogId, Proposal, StorageError, TypeConfig, Vote};

/// Size of a log file. Purged entries are freed a file at a time.
const CHUNK_BYTES: usize = 32 << 20;
/// Entries kept in memory for followers that are a little behind, and for applying.
const CACHE_BYTES: usize = 64 << 20;
/// Read ahead while opening.
const READ_BYTES: usize = 1 << 20;

/// Votes and entries on disk. Cheap to clone; all clones are one log.
#[derive(Clone, Debug)]
pub struct LogStore {
    log: Arc<RwLock<RaftLog<LogTypes>>>,
    dir: PathBuf,
    /// A file that says that this log was used; see [`LogStore::open`].
    used: PathBuf,
    /// Bytes of entries appended since it was opened, and before that what was on disk.
    appended: Arc<AtomicU64>,
}

/// What to tell once records are on disk.
pub enum Flushed {
    /// openraft, about entries.
    Entries(LogFlushed<TypeConfig>),
    /// Whoever waits.
    Waiter(oneshot::Sender<io::Result<()>>),
}

impl raft_log::Callback for Flushed {
    fn send(self, result: io::Result<()>) {
        match self {
            Flushed::Entries(callback) => callback.log_io_completed(result),
            // Nobody waits any more: the replica is stopping.
            Flushed::Waiter(waiter) => drop(waiter.send(result)),
        }
    }
}

impl LogStore {
    /// Opens the log, or makes an empty one. A last record cut short by a crash is dropped; any other damage
    /// is refused with the file and the place in it.
    ///
    /// `used` is a file beside the log, made when the first vote is on disk. A log that is empty though that
    /// file is there has lost what this replica promised: [`Error::LogLost`], with `name` to name it.
    pub fn open(dir: &Path, used: &Path, name: &str) -> Result<LogStore, Error> {
        std::fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
        let mut config = raft_log::Config::new(dir.display());
        config.log_cache_capacity = Some(CACHE_BYTES);
        config.wal.chunk_max_size = Some(CHUNK_BYTES);
        config.wal.read_buffer_size = Some(READ_BYTES);
        // openraft has one append outstanding: waiting for more would only delay it.
        config.wal.flush_batch_wait = Some(Duration::ZERO);
        check_log(dir)?;
        let log = RaftLog::open(Arc::new(config)).map_err(|error| Error::Damaged {
            path: dir.to_owned(),
            offset: 0,
            why: error.to_string(),
        })?;
        let appended = Arc::new(AtomicU64::new(log.on_disk_size()));
        let (dir, used) = (dir.to_owned(), used.to_owned());
        let store = LogStore { log: Arc::new(RwLock::new(log)), dir, used, appended };
        if store.is_unused() && store.used.exists() {
            return Err(Error::LogLost { path: store.dir, name: name.to_owned() });
        }
        Ok(store)
    }

    /// Whether it holds neither a vote nor an entry, nor ever did.
    pub fn is_unused(&self) -> bool {
        let log = self.read();
        let state = log.log_state();
        state.vote().is_none() && state.last().is_none()
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its size on disk, bytes.
    pub fn disk_bytes(&self) -> u64 {
        self.read().on_disk_size()
    }

    /// Bytes of entries appended so far; only differences mean something.
    pub fn appended_bytes(&self) -> u64 {
        self.appended.load(Ordering::Relaxed)
    }

    /// The last entry that it no longer has.
    pub fn purged(&self) -> Option<LogId> {
        self.read().log_state().purged().map(|id| id.0)
    }

    fn read(&self) -> RwLockReadGuard<'_, RaftLog<LogTypes>> {
        self.log.read().expect("nothing panics while it holds the log")
    }

    fn write(&self) -> RwLockWriteGuard<'_, RaftLog<LogTypes>> {
        self.log.write().expect("nothing panics while it holds the log")
    }

    /// Entries from `start` to before `end`; no more than fit into `bytes`, but at least one.
    fn entries(&self, start: u64, end: u64, bytes: usize) -> Result<Vec<Entry>, StorageError> {
        let mut entries = Vec::new();
        let mut size = 0;
        for record in self.read().read(start, end.max(start)) {
            let (id, payload) = record.map_err(|error| StorageIOError::read_logs(&error))?;
            size += payload.bytes.len() + 64;
            if size > bytes && !entries.is_empty() {
                break;
            }
            let entry = payload.into_entry(id.0);
            entries.push(entry.map_err(|error| StorageIOError::read_log_at_index(id.0.index, &error))?);
        }
        Ok(entries)
    }
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, StorageError> {
        let start = match range.start_bound() {
            Bound::Included(index) => *index,
            Bound::Excluded(index) => index + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(index) => index + 1,
            Bound::Excluded(index) => *index,
            Bound::Unbounded => u64::MAX,
        };
        self.entries(start, end, usize::MAX)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, StorageError> {
        self.entries(start, end, APPEND_BYTES)
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = LogStore;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, StorageError> {
        let log = self.read();
        let state = log.log_state();
        let id = |id: Option<&RecordId>| id.map(|id| id.0);
        Ok(LogState { last_purged_log_id: id(state.purged()), last_log_id: id(state.last()) })
    }

    async fn get_log_reader(&mut self) -> LogStore {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), StorageError> {
        let (waiter, flushed) = oneshot::channel();
        {
            let mut log = self.write();
            log.save_vote(RecordVote(*vote)).map_err(|error| StorageIOError::write_vote(&error))?;
            log.flush(true, Some(Flushed::Waiter(waiter))).map_err(|error| StorageIOError::write_vote(&error))?;
        }
        match flushed.await {
            Ok(result) => result.map_err(|error| StorageIOError::write_vote(&error))?,
            Err(gone) => return Err(StorageIOError::write_vote(&gone).into()),
        }
        if !self.used.exists() {
            write_synced(&self.used, b"").map_err(|error| StorageIOError::write_vote(&error))?;
        }
        Ok(())
    }

    /// Read at a start. A replica that led then does not lead on: openraft would let it, at once and in the same
    /// term, while what it has applied may lack entries that it acknowledged. It has to be elected, and to apply an
    /// entry of the new term, like any other.
    async fn read_vote(&mut self) -> Result<Option<Vote>, StorageError> {
        let vote = self.read().log_state().vote().map(|vote: &RecordVote| vote.0);
        Ok(vote.map(|vote| Vote { committed: false, ..vote }))
    }

    // The committed index is not kept: sled keeps what is applied, and the leader says the rest.

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<TypeConfig>) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut bytes = 0;
        let mut log = self.write();
        for entry in entries {
            if let EntryPayload::Normal(Proposal { logged: Some(logged), .. }) = &entry.payload {
                logged.store(true, Ordering::Release);
            }
            let payload = RecordPayload::encode_entry(entry.payload);
            let payload = payload.map_err(|error| StorageIOError::write_log_entry(entry.log_id, &error))?;
            bytes += payload.bytes.len() as u64 + 64;
            log.append([(RecordId(entry.log_id), payload)])
                .map_err(|error| StorageIOError::write_log_entry(entry.log_id, &error))?;
        }
        log.flush(true, Some(Flushed::Entries(callback))).map_err(|error| StorageIOError::write_logs(&error))?;
        self.appended.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    async fn truncate(&mut self, since: LogId) -> Result<(), StorageError> {
        let mut log = self.write();
        log.truncate(since.index).map_err(|error| StorageIOError::write_logs(&error))?;
        // Not waited for: what is appended next is synced behind it.
        Ok(log.flush(false, None).map_err(|error| StorageIOError::write_logs(&error))?)
    }

    async fn purge(&mut self, upto: LogId) -> Result<(), StorageError> {
        let mut log = self.write();
        log.purge(RecordId(upto)).map_err(|error| StorageIOError::write_logs(&error))?;
        // Files go only once the purge itself is on disk; raft-log sees to it.
        Ok(log.flush(true, None).map_err(|error| StorageIOError::write_logs(&error))?)
    }
}
