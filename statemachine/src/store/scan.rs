//! A view of all that is stored, as of one entry, while later entries go on.
//!
//! sled cannot iterate over a fixed view. So a reader goes through the keys in order, a few at a time, and whoever
//! writes meanwhile sets aside for it the old values of the keys ahead of it. What is set aside is counted, and bounded
//! by [`Options::aside_bytes`](super::Options::aside_bytes). New changes of the history need no such care: their
//! revisions say that they are later.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use sled::IVec;
use xxhash_rust::xxh3::xxh3_128;

use super::concern::hashes;
use super::disk::{Disk, Found, decode_row, decode_value, key_text, parts, row_digest};
use super::key::{CHANGES, INDEX, ROWS, ROWS_END, revision_of};
use super::{Meta, Store, StoreError, lock, shared};
use crate::codec::Kind;
use crate::{Change, Ledger, Revision};

/// Keys read in one step. Entries wait for a step, so it is short.
const STEP_KEYS: usize = 256;
/// What an entry of a map costs beside its key and value, roughly, bytes.
const ENTRY_BYTES: usize = 64;

/// What one reader has yet to read.
#[derive(Debug)]
pub(super) struct View {
    /// Everything before it is read.
    next: Vec<u8>,
    /// Changes from this revision on came later.
    history_end: Revision,
    /// Values as they were, of keys from `next` on that were changed since; `None`: there was none.
    aside: BTreeMap<IVec, Option<IVec>>,
    bytes: usize,
    allowed: usize,
    replaced: bool,
}

impl View {
    /// Sets aside what a batch overwrites ahead of the reader.
    pub(super) fn note(&mut self, old: &[(IVec, Option<IVec>)]) {
        if self.bytes > self.allowed {
            return;
        }
        for (key, value) in old {
            if key[..] >= self.next[..] && !self.later(key) && !self.aside.contains_key(key) {
                self.bytes += weight(key, value.as_ref());
                self.aside.insert(key.clone(), value.clone());
            }
        }
        if self.bytes > self.allowed {
            self.aside.clear();
        }
    }

    /// The store was replaced: there is nothing more to read.
    pub(super) fn replace(&mut self) {
        self.replaced = true;
    }

    fn later(&self, key: &[u8]) -> bool {
        revision_of(key).is_some_and(|revision| revision >= self.history_end)
    }

    /// The next keys and values, ascending, as they were. `false` after the last.
    fn step(&mut self, disk: &Disk, items: &mut Vec<(IVec, IVec)>) -> Result<bool, StoreError> {
        if self.replaced {
            return Err(StoreError::SnapshotReplaced);
        }
        if self.bytes > self.allowed {
            return Err(StoreError::SnapshotOverrun { bytes: self.bytes, allowed: self.allowed });
        }
        let mut found = BTreeMap::new();
        let mut last = None;
        for item in disk.tree.range(&self.next[..]..).take(STEP_KEYS) {
            let (key, value) = item?;
            if !self.later(&key) {
                found.insert(key.clone(), value);
            }
            last = Some(key);
        }
        let mut behind = std::mem::take(&mut self.aside);
        if let Some(last) = &last {
            self.next = [&last[..], &[0]].concat();
            self.aside = behind.split_off(&self.next[..]);
        }
        for (key, value) in behind {
            self.bytes -= weight(&key, value.as_ref());
            match value {
                Some(value) => found.insert(key, value),
                None => found.remove(&key),
            };
        }
        items.extend(found);
        Ok(last.is_some())
    }
}

fn weight(key: &IVec, value: Option<&IVec>) -> usize {
    key.len() + value.map_or(0, |value| value.len()) + ENTRY_BYTES
}

/// All that is stored, as of the entry at which it was begun. Holds old values until it is dropped.
#[derive(Debug)]
pub struct SnapshotScan {
    store: Arc<Store>,
    view: Arc<Mutex<View>>,
    meta: Meta,
    revision: Revision,
}

impl SnapshotScan {
    /// The store's own record as of that entry.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The ledger's revision as of that entry.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Bytes of old values set aside and not yet read.
    pub fn aside_bytes(&self) -> usize {
        lock(&self.view).bytes
    }

    /// The next keys and values as stored, ascending, appended to `items`; `false` after the last.
    pub(crate) fn step(&mut self, items: &mut Vec<(IVec, IVec)>) -> Result<bool, StoreError> {
        let disk = shared(&self.store.disk);
        lock(&self.view).step(&disk, items)
    }
}

impl Drop for SnapshotScan {
    fn drop(&mut self) {
        lock(&self.store.views).retain(|view| !Arc::ptr_eq(view, &self.view));
    }
}

impl Store {
    /// Begins a view of all that is stored as of the latest entry. It waits for an entry being written, no longer.
    pub fn begin_snapshot(self: &Arc<Store>) -> SnapshotScan {
        let _writer = lock(&self.writer);
        let meta = self.meta();
        let view = Arc::new(Mutex::new(View {
            next: vec![ROWS],
            history_end: meta.history.next,
            aside: BTreeMap::new(),
            bytes: 0,
            allowed: self.options.aside_bytes,
            replaced: false,
        }));
        lock(&self.views).push(Arc::clone(&view));
        let revision = meta.history.last();
        SnapshotScan { store: Arc::clone(self), view, meta, revision }
    }

    /// The digest of the rows as they are stored, computed from nothing.
    pub fn recompute_digest(self: &Arc<Store>) -> Result<u128, StoreError> {
        self.check().map(|meta| meta.digest)
    }

    /// Reads all that is stored, as of the latest entry and while later ones go on, and checks that every value decodes,
    /// that the rows are those counted and digested and make a ledger without a violation, that the history has no gap, and that each of its
    /// changes is found by the addresses and owners that it concerns, and nothing else is.
    pub fn check(self: &Arc<Store>) -> Result<Meta, StoreError> {
        let mut scan = self.begin_snapshot();
        let mut tally = Tally::new(scan.meta.clone());
        let mut items = Vec::new();
        let mut more = true;
        while more {
            more = scan.step(&mut items)?;
            for (key, value) in items.drain(..) {
                tally.add(key, &value)?;
            }
        }
        tally.finish()
    }
}

/// Counts what a check reads.
struct Tally {
    meta: Meta,
    rows: Vec<(crate::Key, crate::Row)>,
    digest: u128,
    /// What must follow; 0 before the first change.
    next_change: Revision,
    /// What the changes are to be found by, less what is in the index: zero if that is the same.
    index: u128,
    text: String,
    buffer: Vec<u8>,
    /// A value of several parts: its key, what there is of it, how many parts are to come.
    partial: Option<(IVec, Vec<u8>, u16)>,
}

impl Tally {
    fn new(meta: Meta) -> Tally {
        Tally {
            meta,
            rows: Vec::new(),
            digest: 0,
            next_change: 0,
            index: 0,
            text: String::new(),
            buffer: Vec::new(),
            partial: None,
        }
    }

    fn add(&mut self, key: IVec, value: &[u8]) -> Result<(), StoreError> {
        if let Some((first, mut whole, more)) = self.partial.take() {
            if key.len() != first.len() + 2 || !key.starts_with(&first) {
                return Err(StoreError::Damaged(format!("{more} parts are missing before {}", key_text(&key))));
            }
            whole.extend_from_slice(value);
            if more > 1 {
                self.partial = Some((first, whole, more - 1));
                return Ok(());
            }
            return self.add_whole(&first, &whole);
        }
        match parts(value) {
            1 => self.add_whole(&key, value),
            parts => {
                self.partial = Some((key, value.to_vec(), parts - 1));
                Ok(())
            }
        }
    }

    fn add_whole(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let tag = key.first().copied().unwrap_or_default();
        if (ROWS..ROWS_END).contains(&tag) {
            self.rows.push(decode_row(key, value)?);
            self.digest = self.digest.wrapping_add(row_digest(key, value, &mut self.buffer));
        } else if tag == CHANGES {
            self.add_changes(key, decode_value(Kind::Changes, key, value)?)?;
        } else if tag == INDEX {
            let run: Vec<Found> = decode_value(Kind::Index, key, value)?;
            for found in run.into_iter().filter(|(_, revision)| *revision >= self.meta.history.first) {
                self.index = self.index.wrapping_sub(found_digest(found));
            }
        } else {
            return Err(StoreError::Damaged(format!("{} has no place here", key_text(key))));
        }
        Ok(())
    }

    fn add_changes(&mut self, key: &[u8], changes: Vec<Change>) -> Result<(), StoreError> {
        let first = changes.first().map(|change| change.revision);
        if first != revision_of(key) || (self.next_change > 0 && first != Some(self.next_change)) {
            return Err(StoreError::Damaged(format!("change {first:?} where {} belongs", self.next_change)));
        }
        for change in changes {
            let revision = change.revision;
            if self.next_change > 0 && revision != self.next_change {
                return Err(StoreError::Damaged(format!("change {revision} where {} belongs", self.next_change)));
            }
            self.next_change = revision + 1;
            if (self.meta.history.first..self.meta.indexed).contains(&revision) {
                let index = &mut self.index;
                hashes(&change, &mut self.text, |hash| *index = index.wrapping_add(found_digest((hash, revision))));
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Meta, StoreError> {
        let damaged = |what: String| Err(StoreError::Damaged(what));
        let said = self.meta;
        let mut meta = said.clone();
        meta.rows = self.rows.len() as u64;
        meta.digest = self.digest;
        if self.next_change > 0 || said.history.count() > 0 {
            meta.history.next = self.next_change;
        }
        if self.partial.is_some() || meta != said {
            return damaged(format!("{meta:?} is stored, where {said:?} was written"));
        }
        if self.index != 0 {
            return damaged("the history is not found by the addresses and owners that it concerns".to_owned());
        }
        let ledger = Ledger::from_rows(self.rows).map_err(|bad| StoreError::Damaged(bad.to_string()))?;
        match ledger.check().first() {
            None => Ok(meta),
            Some(violation) => damaged(violation.to_string()),
        }
    }
}

fn found_digest((hash, revision): Found) -> u128 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&hash.to_be_bytes());
    bytes[8..].copy_from_slice(&revision.to_be_bytes());
    xxh3_128(&bytes)
}
