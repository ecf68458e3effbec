//! One sled database: reading and checking all of it, and values too long for one.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use sled::{Db, IVec, Tree};
use xxhash_rust::xxh3::xxh3_128;

use super::concern::hashes;
use super::key::{CHANGES, META, ROWS, ROWS_END, decode_key, history_key, part_key, revision_of};
use super::open::patiently;
use super::{Meta, StoreError};
use crate::codec::{self, Kind};
use crate::{Change, Key, Ledger, Revision, Row};

/// A longer value is cut into parts of this many bytes. sled writes up to 16 values as one page, again and again while
/// they change, and a page beyond 128 KiB goes to a file of its own, which it never syncs.
pub(crate) const PART_BYTES: usize = 4 * 1024;

/// One sled database, open.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) tree: Tree,
    db: Db,
    path: PathBuf,
}

impl Disk {
    /// Opens it, or makes a new one. sled panics on some kinds of damage: that too is an error here.
    pub(crate) fn open(path: &Path, cache_bytes: u64) -> Result<Disk, StoreError> {
        let config = sled::Config::new()
            .path(path)
            .cache_capacity(cache_bytes)
            .flush_every_ms(None)
            .mode(sled::Mode::HighThroughput);
        let db = patiently(|| guard(|| config.open().map_err(|error| in_use_or(path, error))))?;
        let tree = guard(|| Ok(db.open_tree("rows")?))?;
        Ok(Disk { tree, db, path: path.to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A value, put together from its parts.
    pub(crate) fn value(&self, key: &[u8]) -> Result<Option<IVec>, StoreError> {
        let Some(first) = self.tree.get(key)? else { return Ok(None) };
        let parts = parts(&first);
        if parts == 1 {
            return Ok(Some(first));
        }
        let mut whole = first.to_vec();
        for number in 1..parts {
            match self.tree.get(part_key(key, number))? {
                Some(part) => whole.extend_from_slice(&part),
                None => return Err(StoreError::Damaged(format!("part {number} of {} is missing", key_text(key)))),
            }
        }
        Ok(Some(IVec::from(whole)))
    }

    /// The changes stored together with this one; none if they are no longer there.
    pub(crate) fn block(&self, revision: Revision) -> Result<Vec<Change>, StoreError> {
        let mut keys = self.tree.range(&[CHANGES][..]..=&history_key(CHANGES, revision)[..]).keys();
        // Parts of a long value lie behind its key, and are longer.
        let Some(key) = keys.rfind(|key| key.as_ref().is_ok_and(|key| key.len() == 9) || key.is_err()).transpose()?
        else {
            return Ok(Vec::new());
        };
        let Some(value) = self.value(&key)? else { return Ok(Vec::new()) };
        let changes: Vec<Change> = decode_value(Kind::Changes, &key, &value)?;
        let (first, last) =
            (changes.first().map(|change| change.revision), changes.last().map(|change| change.revision));
        if first != revision_of(&key)
            || last.zip(first).map(|(last, first)| last - first + 1) != Some(changes.len() as u64)
        {
            return Err(StoreError::Damaged(format!("{} holds changes {first:?} to {last:?}", key_text(&key))));
        }
        Ok(if last >= Some(revision) { changes } else { Vec::new() })
    }

    /// All rows, checked: each decodes and is what its key says, and all together are what the store's own record says.
    pub(crate) fn load(&self) -> Result<Loaded, StoreError> {
        guard(|| self.load_unguarded())
    }

    fn load_unguarded(&self) -> Result<Loaded, StoreError> {
        let meta = match self.tree.get(META)? {
            Some(bytes) => decode_value(Kind::Meta, META, &bytes)?,
            None => Meta::empty(),
        };
        let mut rows = Vec::new();
        let mut digest = 0u128;
        let mut whole = Vec::new();
        let mut items = self.tree.range([ROWS]..[ROWS_END]);
        while let Some(item) = items.next() {
            let (key, first) = item?;
            whole.clear();
            whole.extend_from_slice(&first);
            for number in 1..parts(&first) {
                let (next, part) = items.next().transpose()?.unwrap_or_default();
                if next != part_key(&key, number) {
                    return Err(StoreError::Damaged(format!("part {number} of {} is missing", key_text(&key))));
                }
                whole.extend_from_slice(&part);
            }
            rows.push(decode_row(&key, &whole)?);
            digest = digest.wrapping_add(row_digest(&key, &whole, &mut Vec::new()));
        }
        self.compare(&meta, rows.len() as u64, digest)?;
        let ledger = Ledger::from_rows(rows).map_err(|bad| StoreError::Damaged(bad.to_string()))?;
        if ledger.tables().clock().revision != meta.history.last() {
            let (clock, last) = (ledger.tables().clock().revision, meta.history.last());
            return Err(StoreError::Damaged(format!("the clock is at revision {clock}, the history ends at {last}")));
        }
        let tail = self.tail(&meta)?;
        Ok(Loaded { ledger, meta, tail })
    }

    /// Where the changes that the stored index does not cover are found.
    fn tail(&self, meta: &Meta) -> Result<Vec<Found>, StoreError> {
        let mut tail = Vec::new();
        let mut text = String::new();
        let mut next = meta.indexed.max(meta.history.first);
        while next < meta.history.next {
            let block = self.block(next)?;
            if block.is_empty() {
                return Err(StoreError::Damaged(format!("change {next} is missing")));
            }
            for change in block.iter().filter(|change| change.revision >= next) {
                hashes(change, &mut text, |hash| tail.push((hash, change.revision)));
            }
            next = block.last().map_or(next, |change| change.revision) + 1;
        }
        Ok(tail)
    }

    fn compare(&self, meta: &Meta, rows: u64, digest: u128) -> Result<(), StoreError> {
        if (meta.rows, meta.digest) != (rows, digest) {
            return Err(StoreError::Damaged(format!(
                "{rows} rows with digest {digest:032x}, where {} with {:032x} were written",
                meta.rows, meta.digest
            )));
        }
        let blocks = || self.tree.range([CHANGES]..[CHANGES + 1]);
        let first = blocks().next().transpose()?.and_then(|(key, _)| revision_of(&key));
        let last = blocks().next_back().transpose()?.and_then(|(key, _)| revision_of(&key));
        let kept = meta.history;
        let right = match (first, last) {
            (Some(first), Some(last)) => {
                let ends = self.block(last)?.last().map(|change| change.revision) == Some(kept.last());
                kept.count() > 0 && ends && !self.block(kept.first)?.is_empty() && first <= kept.first
            }
            _ => kept.count() == 0,
        };
        if right { Ok(()) } else { Err(StoreError::Damaged(format!("the history is not {kept:?}"))) }
    }

    /// Hands all that is written to the operating system.
    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        self.db.flush()?;
        Ok(())
    }

    /// Makes all that is written survive a loss of power.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        self.flush()?;
        sync_all(&self.path)
    }
}

/// sled has no error of its own for a database that is locked.
fn in_use_or(path: &Path, error: sled::Error) -> StoreError {
    match &error {
        sled::Error::Io(io) if io.to_string().contains("could not acquire lock") => {
            StoreError::InUse { dir: path.to_owned() }
        }
        _ => StoreError::Sled(error),
    }
}

/// A change and one of the hashes that it is found by.
pub(crate) type Found = (u64, Revision);

/// All that is stored, but for most of the history.
pub(crate) struct Loaded {
    pub(crate) ledger: Ledger,
    pub(crate) meta: Meta,
    /// See [`Meta::indexed`].
    pub(crate) tail: Vec<Found>,
}

/// Syncs a directory and all below it.
fn sync_all(path: &Path) -> Result<(), StoreError> {
    for item in fs::read_dir(path).map_err(StoreError::io("list", path))? {
        let below = item.map_err(StoreError::io("list", path))?.path();
        if below.is_dir() {
            sync_all(&below)?;
        } else {
            sync_path(&below)?;
        }
    }
    sync_path(path)
}

/// Syncs one file or directory.
pub(crate) fn sync_path(path: &Path) -> Result<(), StoreError> {
    fs::File::open(path).and_then(|file| file.sync_all()).map_err(StoreError::io("sync", path))
}

fn guard<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(StoreError::Damaged(format!("sled gave up: {text}")))
    })
}

/// How many parts the value has whose first part this is.
pub(crate) fn parts(first: &[u8]) -> u16 {
    if first.len() < PART_BYTES {
        return 1;
    }
    let whole = codec::frame_bytes(first).unwrap_or(0);
    u16::try_from(whole.div_ceil(PART_BYTES)).unwrap_or(1).max(1)
}

/// What a row adds to the digest. The buffer is overwritten.
pub(crate) fn row_digest(key: &[u8], value: &[u8], buffer: &mut Vec<u8>) -> u128 {
    buffer.clear();
    buffer.extend_from_slice(key);
    buffer.extend_from_slice(value);
    xxh3_128(buffer)
}

pub(crate) fn decode_row(key: &[u8], value: &[u8]) -> Result<(Key, Row), StoreError> {
    let row = decode_value(Kind::Row, key, value)?;
    let key = decode_key(key).ok_or_else(|| StoreError::Damaged(format!("{} names no row", key_text(key))))?;
    Ok((key, row))
}

pub(crate) fn decode_value<T: serde::de::DeserializeOwned>(
    kind: Kind,
    key: &[u8],
    value: &[u8],
) -> Result<T, StoreError> {
    codec::decode(kind, value).map_err(|source| StoreError::Value { key: key_text(key), source })
}

/// A key for people to read.
pub(crate) fn key_text(key: &[u8]) -> String {
    match decode_key(key) {
        Some(key) => format!("{key:?}"),
        None => format!("key {}", key.escape_ascii()),
    }
}
