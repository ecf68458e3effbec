//! Writing the history: changes in blocks, an index of them in runs, and the oldest dropped.
//!
//! A block is what one entry changed, at most [`BLOCK_CHANGES`] of it. A run is the index of [`RUN_CHANGES`] changes:
//! pairs of a hash and a revision, sorted. So a change costs a fraction of a write, not several. Changes that no run
//! covers yet are found in memory, where at most `RUN_CHANGES` of them are kept.

use super::concern::hashes;
use super::disk::{Disk, Found};
use super::key::{CHANGES, INDEX, history_key};
use super::write::{Stage, unwritable};
use super::{Meta, StoreError};
use crate::codec::{self, Kind};
use crate::{Change, Ledger, Millis, Revision};

/// Changes stored in one value, at most: some 4 KiB, about what a part of a long value has.
const BLOCK_CHANGES: usize = 16;
/// Changes covered by one run of the index. Runs begin at revisions 1, 1 + `RUN_CHANGES`, ...
const RUN_CHANGES: u64 = 1_024;
/// Dropped from the history at the end of one entry, at most: so no entry takes long because a bound was lowered.
const TRIM_MAX: u64 = 1_000;

/// What the settings say of the history, at the time of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// At most so many changes.
    rows: u64,
    /// None made before.
    since: Millis,
}

impl Bounds {
    pub(super) fn of(ledger: &Ledger) -> Bounds {
        let settings = ledger.tables().settings();
        let since = ledger.tables().clock().time.saturating_sub(settings.history_age);
        Bounds { rows: settings.history_rows, since }
    }
}

/// What a writer of the history keeps from one entry to the next.
#[derive(Debug, Default)]
pub(super) struct Feed {
    /// Where this entry's changes are found.
    pub(super) found: Vec<Found>,
    /// The block of the oldest change kept, if it was read.
    oldest: Vec<Change>,
    text: String,
    buffer: Vec<u8>,
}

impl Feed {
    /// Adds an entry's changes to the batch.
    pub(super) fn put(&mut self, stage: &mut Stage<'_>, changes: &[Change], meta: &mut Meta) -> Result<(), StoreError> {
        self.found.clear();
        for block in changes.chunks(BLOCK_CHANGES) {
            let first = meta.history.next;
            for change in block {
                let (revision, next) = (change.revision, meta.history.next);
                if revision != next {
                    return Err(StoreError::Damaged(format!("change {revision} where {next} belongs")));
                }
                hashes(change, &mut self.text, |hash| self.found.push((hash, revision)));
                meta.history.next += 1;
            }
            self.buffer.clear();
            codec::encode_into(Kind::Changes, block, &mut self.buffer).map_err(unwritable(&first))?;
            stage.put_new(&history_key(CHANGES, first), &self.buffer);
        }
        Ok(())
    }

    /// Drops the oldest changes beyond the bounds, by count first, then by age; not those of this entry, which begin at
    /// `fresh`.
    pub(super) fn trim(
        &mut self,
        stage: &mut Stage<'_>,
        meta: &mut Meta,
        bounds: Bounds,
        fresh: Revision,
    ) -> Result<(), StoreError> {
        for _ in 0..TRIM_MAX {
            let first = meta.history.first;
            let over = meta.history.count() > bounds.rows;
            if first >= fresh || (!over && self.oldest(stage.disk, first)?.at >= bounds.since) {
                break;
            }
            self.oldest(stage.disk, first)?;
            let (begin, end) = (self.oldest[0].revision, self.oldest[self.oldest.len() - 1].revision);
            meta.history.first += 1;
            if first == end {
                stage.remove(&history_key(CHANGES, begin))?;
                self.oldest.clear();
            }
            if first.is_multiple_of(RUN_CHANGES) {
                stage.remove(&history_key(INDEX, first + 1 - RUN_CHANGES))?;
            }
        }
        Ok(())
    }

    fn oldest(&mut self, disk: &Disk, first: Revision) -> Result<&Change, StoreError> {
        let nth = |changes: &[Change]| changes.iter().position(|change| change.revision == first);
        if nth(&self.oldest).is_none() {
            self.oldest = disk.block(first)?;
        }
        let nth = nth(&self.oldest).ok_or_else(|| StoreError::Damaged(format!("change {first} is missing")))?;
        Ok(&self.oldest[nth])
    }

    /// Adds the runs that are full now. `tail` is what no run covered before this entry, by ascending revision.
    pub(super) fn index(&mut self, stage: &mut Stage<'_>, tail: &[Found], meta: &mut Meta) -> Result<(), StoreError> {
        if meta.history.next - meta.indexed < RUN_CHANGES {
            return Ok(());
        }
        let all = [tail, &self.found].concat();
        while meta.history.next - meta.indexed >= RUN_CHANGES {
            let (begin, end) = (meta.indexed, meta.indexed + RUN_CHANGES);
            let from = all.partition_point(|(_, revision)| *revision < begin.max(meta.history.first));
            let to = all.partition_point(|(_, revision)| *revision < end);
            meta.indexed = end;
            if from >= to {
                continue;
            }
            let mut run = all[from..to].to_vec();
            run.sort_unstable();
            self.buffer.clear();
            codec::encode_into(Kind::Index, &run, &mut self.buffer).map_err(unwritable(&begin))?;
            // A run covers changes older than itself, so a snapshot being read cannot tell its age from its key.
            stage.put(&history_key(INDEX, begin), Some(&self.buffer), None)?;
        }
        Ok(())
    }
}
