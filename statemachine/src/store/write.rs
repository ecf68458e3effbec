//! One entry, one batch.

use std::sync::{Arc, Mutex};

use sled::{Batch, IVec};

use super::disk::{Disk, PART_BYTES, parts, row_digest};
use super::feed::{Bounds, Feed};
use super::key::{META, encode_key, part_key};
use super::scan::View;
use super::{Meta, Store, StoreError, exclusive, lock, shared};
use crate::codec::{self, CodecError, Kind};
use crate::{Applied, Entry, Ledger};

/// What only a writer needs. Its buffers are used again for every entry.
#[derive(Debug, Default)]
pub(super) struct Writer {
    /// A write began and did not end.
    failed: bool,
    /// Keys and values of the rows that the entry touched, one after the other.
    bytes: Vec<u8>,
    /// Where in `bytes` each row's key and value end; no value: the row is gone.
    ends: Vec<(usize, Option<usize>)>,
    buffer: Vec<u8>,
    feed: Feed,
}

impl Writer {
    /// Notes that a write begins, unless one before did not end.
    pub(super) fn begin(&mut self) -> Result<(), StoreError> {
        if self.failed {
            return Err(StoreError::Failed);
        }
        self.failed = true;
        Ok(())
    }

    /// Notes that it ended, memory and disk alike.
    pub(super) fn end(&mut self) {
        self.failed = false;
    }

    /// Another store takes the place of this one, whatever came of the last write.
    pub(super) fn begin_anew(&mut self) {
        *self = Writer::default();
    }

    /// Encodes the rows touched, as they are now.
    fn encode_rows(&mut self, ledger: &Ledger, applied: &Applied) -> Result<(), StoreError> {
        self.bytes.clear();
        self.ends.clear();
        for key in &applied.touched {
            encode_key(key, &mut self.bytes);
            let key_end = self.bytes.len();
            let value_end = match ledger.tables().row(key) {
                Some(row) => {
                    codec::encode_into(Kind::Row, &row, &mut self.bytes).map_err(unwritable(key))?;
                    Some(self.bytes.len())
                }
                None => None,
            };
            self.ends.push((key_end, value_end));
        }
        Ok(())
    }

    /// Adds the rows encoded to the batch, and what they change to the record.
    fn stage_rows(&mut self, stage: &mut Stage<'_>, meta: &mut Meta) -> Result<(), StoreError> {
        let mut start = 0;
        for (key_end, value_end) in &self.ends {
            let key = &self.bytes[start..*key_end];
            let value = value_end.map(|end| &self.bytes[*key_end..end]);
            start = value_end.unwrap_or(*key_end);
            let old = stage.disk.value(key)?;
            if old.as_deref() == value {
                continue;
            }
            if let Some(old) = &old {
                meta.rows -= 1;
                meta.digest = meta.digest.wrapping_sub(row_digest(key, old, &mut self.buffer));
            }
            if let Some(value) = value {
                meta.rows += 1;
                meta.digest = meta.digest.wrapping_add(row_digest(key, value, &mut self.buffer));
            }
            stage.put(key, value, old)?;
        }
        Ok(())
    }
}

/// A batch being made, and what it overwrites if a snapshot is being read.
pub(super) struct Stage<'a> {
    pub(super) disk: &'a Disk,
    batch: Batch,
    views: &'a [Arc<Mutex<View>>],
    old: Vec<(IVec, Option<IVec>)>,
}

impl Stage<'_> {
    /// Puts a value, or removes it. `old` is what stands there, whole.
    pub(super) fn put(&mut self, key: &[u8], new: Option<&[u8]>, old: Option<IVec>) -> Result<(), StoreError> {
        let long = |value: &[u8]| value.len() > PART_BYTES;
        if new.is_some_and(long) || old.as_deref().is_some_and(long) {
            return self.put_parts(key, new.unwrap_or(&[]));
        }
        match new {
            Some(value) => self.batch.insert(key, value),
            None => self.batch.remove(key),
        }
        if !self.views.is_empty() {
            self.old.push((IVec::from(key), old));
        }
        Ok(())
    }

    /// Puts a value part by part, and removes the parts that a longer one before it had. Empty: there is none now.
    fn put_parts(&mut self, key: &[u8], new: &[u8]) -> Result<(), StoreError> {
        let before = self.disk.tree.get(key)?.as_deref().map_or(0, parts);
        let mut chunks = new.chunks(PART_BYTES);
        let now = u16::try_from(new.len().div_ceil(PART_BYTES)).unwrap_or(u16::MAX);
        for number in 0..before.max(now) {
            let key = if number == 0 { key.to_vec() } else { part_key(key, number) };
            let old = self.disk.tree.get(&key)?;
            match chunks.next() {
                Some(part) => self.batch.insert(&key[..], part),
                None => self.batch.remove(&key[..]),
            }
            if !self.views.is_empty() {
                self.old.push((IVec::from(key), old));
            }
        }
        Ok(())
    }

    /// Puts a value of the history under a key that was never used: snapshots know from its revision to leave it out.
    pub(super) fn put_new(&mut self, key: &[u8], value: &[u8]) {
        if value.len() <= PART_BYTES {
            self.batch.insert(key, value);
            return;
        }
        for (number, part) in (0u16..).zip(value.chunks(PART_BYTES)) {
            let key = if number == 0 { key.to_vec() } else { part_key(key, number) };
            self.batch.insert(key, part);
        }
    }

    /// Removes a value, if there is one.
    pub(super) fn remove(&mut self, key: &[u8]) -> Result<(), StoreError> {
        match self.disk.value(key)? {
            Some(old) => self.put(key, None, Some(old)),
            None => Ok(()),
        }
    }

    /// Writes the batch. Snapshots being read get what it overwrites ahead of them in the same step.
    fn commit(mut self, meta: &Meta, buffer: &mut Vec<u8>) -> Result<(), StoreError> {
        buffer.clear();
        codec::encode_into(Kind::Meta, meta, buffer).map_err(unwritable(&"the store's record"))?;
        self.batch.insert(META, &buffer[..]);
        let mut views: Vec<_> = self.views.iter().map(|view| lock(view)).collect();
        for view in &mut views {
            view.note(&self.old);
        }
        self.disk.tree.apply_batch(self.batch)?;
        Ok(())
    }
}

pub(super) fn unwritable(key: &impl std::fmt::Debug) -> impl FnOnce(CodecError) -> StoreError {
    move |source| StoreError::Value { key: format!("{key:?}"), source }
}

impl Store {
    /// Applies an entry to the ledger and writes what it changed, with the caller's position, in one batch.
    /// After an error the store takes no more writes.
    pub fn apply(&self, entry: &Entry, position: &[u8]) -> Result<Applied, StoreError> {
        self.apply_with(position, |ledger| ledger.apply(entry))
    }

    /// Writes the position of an entry that has no commands.
    pub fn advance(&self, position: &[u8]) -> Result<(), StoreError> {
        self.apply_with(position, |_| Applied::default()).map(drop)
    }

    pub(crate) fn apply_with(
        &self,
        position: &[u8],
        change: impl FnOnce(&mut Ledger) -> Applied,
    ) -> Result<Applied, StoreError> {
        let mut writer = lock(&self.writer);
        let writer = &mut *writer;
        writer.begin()?;
        let applied = change(&mut exclusive(&self.ledger));
        let bounds = {
            let ledger = shared(&self.ledger);
            writer.encode_rows(&ledger, &applied)?;
            Bounds::of(&ledger)
        };
        let mut meta = self.meta();
        meta.position = Some(position.to_vec());
        let disk = shared(&self.disk);
        let views = lock(&self.views);
        let mut stage = Stage { disk: &disk, batch: Batch::default(), views: &views, old: Vec::new() };
        writer.stage_rows(&mut stage, &mut meta)?;
        let fresh = meta.history.next;
        writer.feed.put(&mut stage, &applied.changes, &mut meta)?;
        writer.feed.trim(&mut stage, &mut meta, bounds, fresh)?;
        writer.feed.index(&mut stage, &shared(&self.tail), &mut meta)?;
        stage.commit(&meta, &mut writer.buffer)?;
        {
            let mut tail = exclusive(&self.tail);
            tail.extend_from_slice(&writer.feed.found);
            let covered = tail.partition_point(|(_, revision)| *revision < meta.indexed);
            tail.drain(..covered);
        }
        *exclusive(&self.meta) = meta;
        writer.end();
        Ok(applied)
    }
}
