//! One entry, one batch.

use std::sync::{Arc, Mutex};

use sled::{Batch, IVec};

use super::concern::Concerns;
use super::disk::{Disk, PART_BYTES, parts, row_digest};
use super::key::{META, change_key, encode_key, part_key};
use super::scan::View;
use super::{Meta, Store, StoreError, exclusive, lock, shared};
use crate::codec::{self, CodecError, Kind};
use crate::{Applied, Change, Entry, Ledger, Millis, Revision};

/// Dropped from the history at the end of one entry, at most: so no entry takes long because a bound was lowered.
const TRIM_MAX: u64 = 1_000;

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
    concerns: Concerns,
    /// When the oldest change of the history was made, where known.
    oldest: Option<(Revision, Millis)>,
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

    /// Adds the changes, and the keys that they are found under.
    fn stage_changes(&mut self, stage: &mut Stage<'_>, changes: &[Change], meta: &mut Meta) -> Result<(), StoreError> {
        for change in changes {
            if change.revision != meta.history.next {
                return Err(StoreError::Damaged(format!(
                    "change {} does not follow change {}",
                    change.revision,
                    meta.history.last()
                )));
            }
            self.buffer.clear();
            codec::encode_into(Kind::Change, change, &mut self.buffer).map_err(unwritable(&change.revision))?;
            stage.put_new(&change_key(change.revision), &self.buffer);
            self.concerns.keys(change, |key| stage.put_new(key, &[]));
            meta.history.next += 1;
        }
        Ok(())
    }

    /// Drops the oldest changes beyond the bounds: by count first, then by age.
    fn trim(
        &mut self,
        stage: &mut Stage<'_>,
        changes: &[Change],
        meta: &mut Meta,
        bounds: Bounds,
    ) -> Result<(), StoreError> {
        for _ in 0..TRIM_MAX {
            let first = meta.history.first;
            if meta.history.count() == 0 {
                break;
            }
            let over = meta.history.count() > bounds.rows;
            if !over && self.oldest.is_some_and(|(revision, at)| revision == first && at >= bounds.since) {
                break;
            }
            let change = match changes.first().map(|change| first.checked_sub(change.revision)) {
                Some(Some(nth)) => usize::try_from(nth).ok().and_then(|nth| changes.get(nth)).cloned(),
                _ => stage.disk.change(first)?,
            };
            let change = change.ok_or_else(|| StoreError::Damaged(format!("change {first} is missing")))?;
            self.oldest = Some((first, change.at));
            if !over && change.at >= bounds.since {
                break;
            }
            let key = change_key(first);
            let old = stage.disk.value(&key)?;
            stage.put(&key, None, old)?;
            self.concerns.keys(&change, |key| stage.remove_empty(key));
            meta.history.first += 1;
        }
        Ok(())
    }
}

/// What the settings say of the history, at the time of an entry.
#[derive(Clone, Copy)]
struct Bounds {
    /// At most so many changes.
    rows: u64,
    /// None made before.
    since: Millis,
}

impl Bounds {
    fn of(ledger: &Ledger) -> Bounds {
        let settings = ledger.tables().settings();
        let since = ledger.tables().clock().time.saturating_sub(settings.history_age);
        Bounds { rows: settings.history_rows, since }
    }
}

/// A batch being made, and what it overwrites if a snapshot is being read.
struct Stage<'a> {
    disk: &'a Disk,
    batch: Batch,
    views: &'a [Arc<Mutex<View>>],
    old: Vec<(IVec, Option<IVec>)>,
}

impl Stage<'_> {
    /// Puts a value, or removes it. `old` is what stands there, whole.
    fn put(&mut self, key: &[u8], new: Option<&[u8]>, old: Option<IVec>) -> Result<(), StoreError> {
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
    fn put_new(&mut self, key: &[u8], value: &[u8]) {
        if value.len() <= PART_BYTES {
            self.batch.insert(key, value);
            return;
        }
        for (number, part) in (0u16..).zip(value.chunks(PART_BYTES)) {
            let key = if number == 0 { key.to_vec() } else { part_key(key, number) };
            self.batch.insert(key, part);
        }
    }

    /// Removes a key that has no value.
    fn remove_empty(&mut self, key: &[u8]) {
        self.batch.remove(key);
        if !self.views.is_empty() {
            self.old.push((IVec::from(key), Some(IVec::default())));
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

fn unwritable(key: &impl std::fmt::Debug) -> impl FnOnce(CodecError) -> StoreError {
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
        writer.stage_changes(&mut stage, &applied.changes, &mut meta)?;
        writer.trim(&mut stage, &applied.changes, &mut meta, bounds)?;
        stage.commit(&meta, &mut writer.buffer)?;
        *exclusive(&self.meta) = meta;
        writer.end();
        Ok(applied)
    }
}
