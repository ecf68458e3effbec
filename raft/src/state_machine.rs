//! The ledger as openraft sees it: it applies entries, and is taken and replaced by snapshots.

#![allow(clippy::result_large_err, reason = "openraft's errors are returned as it wants them")]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use holdfast_statemachine::codec::{self, Kind};
use holdfast_statemachine::store::{Meta, Options};
use holdfast_statemachine::{self as ledger, Millis, Revision, Store, StoreError};
use openraft::storage::RaftStateMachine;
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder, Snapshot, StorageIOError};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::Error;
use crate::leader_clock::wall_clock;
use crate::snapshot_dir::{SnapshotDir, SnapshotFile, meta_of};
use crate::types::{Entry, LogId, Proposal, Reply, SnapshotMeta, StorageError, StoredMembership, TypeConfig};

/// How far the ledger is: what the store keeps with each entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Position {
    /// The last entry applied.
    pub(crate) applied: Option<LogId>,
    /// The membership in force there.
    pub(crate) membership: StoredMembership,
}

impl Position {
    /// `None`: a store that is empty.
    pub(crate) fn decode(bytes: Option<&[u8]>) -> Result<Position, Error> {
        let Some(bytes) = bytes else { return Ok(Position::default()) };
        codec::decode(Kind::Position, bytes).map_err(|error| Error::Store(error.to_string()))
    }

    fn encode(&self) -> Result<Vec<u8>, StorageError> {
        codec::encode(Kind::Position, self).map_err(|error| StorageIOError::write_state_machine(&error).into())
    }
}

/// The last log index applied to a store when its record was as given: its digest and its history are those of that
/// index.
pub fn applied_index(meta: &Meta) -> Option<u64> {
    Position::decode(meta.position.as_deref()).ok()?.applied.map(|id| id.index)
}

/// How far the ledger is, for those who wait for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Applied {
    /// The last entry applied.
    pub(crate) log_id: Option<LogId>,
    /// The ledger's revision there.
    pub(crate) revision: Revision,
    /// The ledger's time there, and when it was applied here.
    pub(crate) time: Option<(Millis, Instant)>,
}

impl Applied {
    /// The ledger's time now: since the last entry it goes on as the monotonic clock does, and it is never
    /// behind the wall clock. What a leader here would stamp, roughly.
    pub(crate) fn now(&self) -> Millis {
        let ledger = self.time.map_or(0, |(time, since)| {
            time.saturating_add(u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX))
        });
        wall_clock().max(ledger)
    }

    /// The index of the last entry applied.
    pub(crate) fn index(&self) -> Option<u64> {
        self.log_id.map(|id| id.index)
    }
}

/// The ledger as openraft sees it.
#[derive(Debug)]
pub struct StateMachine {
    store: Arc<Store>,
    snapshots: Arc<SnapshotDir>,
    position: Position,
    applied: watch::Sender<Applied>,
}

impl StateMachine {
    /// Over a store that is at least as far as the newest snapshot.
    pub(crate) fn new(store: Arc<Store>, snapshots: Arc<SnapshotDir>) -> Result<StateMachine, Error> {
        let position = Position::decode(store.position().as_deref())?;
        let revision = store.read(|ledger| ledger.tables().clock().revision);
        let applied = Applied { log_id: position.applied, revision, time: None };
        Ok(StateMachine { store, snapshots, position, applied: watch::Sender::new(applied) })
    }

    /// Over a store and snapshots in these directories.
    pub fn open(ledger: &Path, snapshots: &Path) -> Result<StateMachine, Error> {
        let opened = Store::open(ledger, Options::default()).map_err(|error| Error::Store(error.to_string()))?;
        StateMachine::new(Arc::new(opened.store), Arc::new(SnapshotDir::open(snapshots, 1)?))
    }

    /// How far it is, whenever that changes.
    pub(crate) fn applied(&self) -> watch::Receiver<Applied> {
        self.applied.subscribe()
    }

    fn apply_entry(&mut self, entry: Entry) -> Result<Reply, StorageError> {
        let id = entry.log_id;
        self.position.applied = Some(id);
        match entry.payload {
            EntryPayload::Blank => self.advance(id),
            EntryPayload::Membership(membership) => {
                tracing::info!(index = id.index, ?membership, "the members changed");
                self.position.membership = StoredMembership::new(Some(id), membership);
                self.advance(id)
            }
            EntryPayload::Normal(proposal) => self.apply_proposal(id, &proposal),
        }
    }

    fn advance(&self, id: LogId) -> Result<Reply, StorageError> {
        let position = self.position.encode()?;
        self.store.advance(&position).map_err(|error| StorageIOError::apply(id, &error))?;
        Ok(Reply::default())
    }

    fn apply_proposal(&self, id: LogId, proposal: &Proposal) -> Result<Reply, StorageError> {
        let (proposed_at, commands) = proposal.decode().map_err(|error| {
            let error = Error::Undecodable { index: id.index, why: error.to_string() };
            StorageIOError::apply(id, &error)
        })?;
        let entry = ledger::Entry { index: id.index, term: id.leader_id.term, proposed_at, commands };
        let position = self.position.encode()?;
        let applied = self.store.apply(&entry, &position).map_err(|error| StorageIOError::apply(id, &error))?;
        for change in &applied.changes {
            let (revision, cause, event) = (change.revision, &change.cause, &change.event);
            tracing::debug!(index = id.index, revision, ?cause, ?event, "changed");
        }
        let clock = self.store.read(|ledger| ledger.tables().clock());
        Ok(Reply { outcomes: applied.outcomes, revision: clock.revision })
    }

    fn announce(&self) {
        let clock = self.store.read(|ledger| ledger.tables().clock());
        let time = (clock.time > 0).then(|| (clock.time, Instant::now()));
        self.applied.send_replace(Applied { log_id: self.position.applied, revision: clock.revision, time });
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), StorageError> {
        Ok((self.position.applied, self.position.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Reply>, StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut replies = Vec::new();
        for entry in entries {
            replies.push(self.apply_entry(entry)?);
        }
        self.announce();
        Ok(replies)
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        SnapshotBuilder { store: self.store.clone(), snapshots: self.snapshots.clone() }
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<SnapshotFile>, StorageError> {
        Ok(Box::new(self.snapshots.part()))
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: Box<SnapshotFile>) -> Result<(), StorageError> {
        let failed = |error: Error| StorageIOError::write_snapshot(Some(meta.signature()), &error);
        let (store, path) = (self.store.clone(), snapshot.path.clone());
        let installed = tokio::task::spawn_blocking(move || store.install(&path)).await;
        let installed = installed.map_err(|error| failed(Error::Store(error.to_string())))?;
        installed.map_err(|error| failed(Error::Store(error.to_string())))?;
        self.snapshots.keep(&snapshot, meta).map_err(failed)?;
        self.position = Position::decode(self.store.position().as_deref()).map_err(failed)?;
        tracing::info!(index = self.position.applied.map(|id| id.index), "the ledger was replaced by a snapshot");
        self.announce();
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<TypeConfig>>, StorageError> {
        Ok(self.snapshots.newest().map(|(meta, file)| Snapshot { meta, snapshot: Box::new(file) }))
    }
}

/// Takes a snapshot while entries go on being applied.
#[derive(Debug)]
pub struct SnapshotBuilder {
    store: Arc<Store>,
    snapshots: Arc<SnapshotDir>,
}

impl SnapshotBuilder {
    /// The store fixes the point of the snapshot when the scan begins, and sets old values aside for it. If
    /// more changes than it may set aside, another scan begins.
    fn build(&self) -> Result<(SnapshotMeta, SnapshotFile), Error> {
        let part = self.snapshots.part();
        loop {
            match self.store.begin_snapshot().write_to(&part.path) {
                Ok(info) => {
                    let meta = meta_of(&info)?;
                    let file = self.snapshots.keep(&part, &meta)?;
                    tracing::info!(snapshot = meta.snapshot_id, "took a snapshot");
                    return Ok((meta, file));
                }
                Err(StoreError::SnapshotOverrun { bytes, allowed }) => {
                    tracing::warn!(bytes, allowed, "too much changed during a snapshot; taking another");
                }
                Err(StoreError::SnapshotReplaced) => {
                    if let Some(newest) = self.snapshots.newest() {
                        return Ok(newest);
                    }
                }
                Err(error) => return Err(Error::Store(error.to_string())),
            }
        }
    }
}

impl RaftSnapshotBuilder<TypeConfig> for SnapshotBuilder {
    async fn build_snapshot(&mut self) -> Result<Snapshot<TypeConfig>, StorageError> {
        let builder = SnapshotBuilder { store: self.store.clone(), snapshots: self.snapshots.clone() };
        let built = tokio::task::spawn_blocking(move || builder.build()).await;
        let built = built.map_err(|error| StorageIOError::write_snapshot(None, &error))?;
        let (meta, file) = built.map_err(|error| StorageIOError::write_snapshot(None, &error))?;
        Ok(Snapshot { meta, snapshot: Box::new(file) })
    }
}
