//! The ledger and its rows in sled, with the history of its changes.
//!
//! sled's flush does not survive a loss of power, and need not: what is stored here can always be made again from a
//! snapshot and the log. So one rule covers every kind of damage: what does not open, or does not check, is set aside,
//! and the store begins empty, at no position. The caller then rebuilds it.
//!
//! One entry is one sled batch: rows, history, and the store's own record ([`Meta`]) with the caller's position.
//! One thread at a time writes; readers see the ledger behind a lock that is never held while sled works.

mod concern;
mod disk;
mod error;
mod feed;
mod history;
mod interval;
mod key;
mod meta;
mod open;
mod scan;
mod write;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use concern::owner_text;
pub use error::StoreError;
pub use interval::{Edge, Interval, Subject};
pub use key::{decode_key, encode_key};
pub use meta::{Extent, Meta};
pub use open::{Opened, Options, SetAside};
pub use scan::SnapshotScan;

use crate::{Change, Ledger, Revision};
use disk::Found;
pub(crate) use disk::{Disk, sync_path};
pub(crate) use key::META;
use scan::View;
use write::Writer;

/// A ledger, its rows in sled and its history. Shared by reference; every method may be called from any thread.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    options: Options,
    /// Replaced as a whole when a snapshot is installed.
    disk: RwLock<Disk>,
    ledger: RwLock<Ledger>,
    /// As in the latest batch.
    meta: RwLock<Meta>,
    /// Where the changes are found that the stored index does not cover yet, by ascending revision.
    tail: RwLock<Vec<Found>>,
    /// Held for the length of every write: one writer at a time.
    writer: Mutex<Writer>,
    /// Snapshots being read.
    views: Mutex<Vec<Arc<Mutex<View>>>>,
    /// Keeps other processes out.
    _lock: std::fs::File,
}

impl Store {
    /// The store's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Reads the ledger as of the latest entry. Entries wait for the reader: keep it short.
    pub fn read<T>(&self, read: impl FnOnce(&Ledger) -> T) -> T {
        read(&shared(&self.ledger))
    }

    /// What the caller gave with the latest entry; `None` before the first.
    pub fn position(&self) -> Option<Vec<u8>> {
        shared(&self.meta).position.clone()
    }

    /// The digest of all rows but the history. Equal on replicas that applied the same entries.
    pub fn digest(&self) -> u128 {
        shared(&self.meta).digest
    }

    /// The store's own record, all of one entry.
    pub fn meta(&self) -> Meta {
        shared(&self.meta).clone()
    }

    /// Which changes are kept.
    pub fn history_extent(&self) -> Extent {
        shared(&self.meta).history
    }

    /// The changes right after a revision, at most `limit`, ascending and without a gap; none if it is the latest, or one
    /// that this replica has yet to reach. [`StoreError::TooOld`] if the history no longer has the first of them.
    pub fn changes(&self, after: Revision, limit: usize) -> Result<Vec<Change>, StoreError> {
        history::changes(&shared(&self.disk), self.history_extent(), after, limit)
    }

    /// Hands all that is written to the operating system, so that it survives the end of the process; not a loss of power.
    pub fn flush(&self) -> Result<(), StoreError> {
        shared(&self.disk).flush()
    }
}

// A panic while a lock is held leaves at worst a half-applied entry in memory. The writer notes that a write began and
// takes no further one, so readers may still be served what is there.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shared<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn exclusive<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
