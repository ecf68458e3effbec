//! Opening a store, and putting another in its place.
//!
//! Inside the directory a file `CURRENT` names the sled database in use, `rows-N`. It is replaced by rename, so that a
//! store is either the former one or the new one, whole, after a crash at any step; what `CURRENT` does not name is
//! what is left of a crash, and is removed.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, RwLock};
use std::time::Duration;

use super::disk::{Disk, Loaded, sync_path};
use super::write::Writer;
use super::{Store, StoreError, exclusive, lock, shared};
use crate::snapshot::{self, SnapshotInfo};

/// How to open a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// What sled may keep of its pages in memory, bytes.
    pub cache_bytes: u64,
    /// Old values set aside while a snapshot is written may take up to so many bytes; beyond, the snapshot fails.
    pub aside_bytes: usize,
    /// The time, in seconds since the Unix epoch: part of the name of what is set aside.
    pub now_seconds: u64,
}

impl Default for Options {
    /// 64 MiB of sled's pages, 128 MiB of old values, no time.
    fn default() -> Options {
        Options { cache_bytes: 64 << 20, aside_bytes: 128 << 20, now_seconds: 0 }
    }
}

/// A store that was opened.
#[derive(Debug)]
pub struct Opened {
    /// The store; empty and at no position if something was set aside.
    pub store: Store,
    /// What was there and did not open or did not check.
    pub set_aside: Option<SetAside>,
}

/// A directory that was renamed because it is damaged.
#[derive(Debug)]
pub struct SetAside {
    /// Its name now: that of the store, `.bad-`, the time, `-` and one word that says why.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: StoreError,
}

const CURRENT: &str = "CURRENT";

impl Store {
    /// Opens the store in `dir`, or makes one. What is there but does not open or does not check is renamed aside, and
    /// an empty store takes its place: the caller then rebuilds it from snapshot and log.
    ///
    /// Errors are of the surroundings: in use, no permission, no space.
    pub fn open(dir: &Path, options: Options) -> Result<Opened, StoreError> {
        fs::create_dir_all(dir).map_err(StoreError::io("create", dir))?;
        let lock = take_lock(dir)?;
        let (opened, set_aside) = match open_current(dir, &options) {
            Ok(opened) => (opened, None),
            Err(why) if is_damage(&why) => {
                let aside = set_aside(dir, &options, why)?;
                (open_current(dir, &options)?, Some(aside))
            }
            Err(error) => return Err(error),
        };
        let (disk, Loaded { ledger, meta, tail }) = opened;
        let store = Store {
            dir: dir.to_owned(),
            options,
            disk: RwLock::new(disk),
            ledger: RwLock::new(ledger),
            meta: RwLock::new(meta),
            tail: RwLock::new(tail),
            writer: Mutex::new(Writer::default()),
            views: Mutex::default(),
            _lock: lock,
        };
        Ok(Opened { store, set_aside })
    }

    /// Puts a snapshot in the store's place. It is verified first; until the last step, one rename, a crash leaves the
    /// former store, and after it the new one.
    pub fn install(&self, path: &Path) -> Result<SnapshotInfo, StoreError> {
        let info = snapshot::verify(path)?;
        let mut writer = lock(&self.writer);
        let number = number_of(shared(&self.disk).path()).unwrap_or(0) + 1;
        let fresh = self.dir.join(format!("rows-{number}"));
        remove(&fresh)?;
        let disk = Disk::open(&fresh, self.options.cache_bytes)?;
        snapshot::fill(path, &disk)?;
        let Loaded { ledger, meta, tail } = disk.load()?;
        if meta != info.meta {
            return Err(StoreError::Damaged(format!("{meta:?} came out of a snapshot of {:?}", info.meta)));
        }
        disk.sync()?;
        set_current(&self.dir, number)?;
        writer.begin_anew();
        let former = {
            let mut views = lock(&self.views);
            let (mut now, mut rows) = (exclusive(&self.disk), exclusive(&self.ledger));
            views.drain(..).for_each(|view| lock(&view).replace());
            *exclusive(&self.meta) = meta;
            *exclusive(&self.tail) = tail;
            *rows = ledger;
            std::mem::replace(&mut *now, disk)
        };
        let path = former.path().to_owned();
        drop(former);
        remove(&path)?;
        Ok(info)
    }
}

fn take_lock(dir: &Path) -> Result<File, StoreError> {
    let path = dir.with_added_extension("lock");
    let open = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = open.map_err(StoreError::io("open", &path))?;
    patiently(|| match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse { dir: dir.to_owned() }),
        Err(TryLockError::Error(source)) => Err(StoreError::io("lock", &path)(source)),
    })?;
    Ok(file)
}

/// Tries for a second to get hold of something in use: a process that ends, and sled's threads after a database was
/// closed, hold on to their locks for a moment.
pub(super) fn patiently<T>(mut attempt: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
    for _ in 0..100 {
        match attempt() {
            Err(StoreError::InUse { .. }) => std::thread::sleep(Duration::from_millis(10)),
            done => return done,
        }
    }
    attempt()
}

fn open_current(dir: &Path, options: &Options) -> Result<(Disk, Loaded), StoreError> {
    let number = if let Some(number) = read_current(dir)? {
        number
    } else {
        set_current(dir, 1)?;
        1
    };
    let path = dir.join(format!("rows-{number}"));
    for item in fs::read_dir(dir).map_err(StoreError::io("list", dir))? {
        let other = item.map_err(StoreError::io("list", dir))?.path();
        if other != path && number_of(&other).is_some() {
            remove(&other)?;
        }
    }
    let disk = Disk::open(&path, options.cache_bytes)?;
    let loaded = disk.load()?;
    Ok((disk, loaded))
}

/// The number of the database in use; `None` for a directory without any.
fn read_current(dir: &Path) -> Result<Option<u64>, StoreError> {
    let path = dir.join(CURRENT);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let mut items = fs::read_dir(dir).map_err(StoreError::io("list", dir))?;
            let any = items.any(|item| item.is_ok_and(|item| number_of(&item.path()).is_some()));
            return if any { Err(StoreError::Damaged(format!("{CURRENT} is missing"))) } else { Ok(None) };
        }
        Err(error) => return Err(StoreError::io("read", &path)(error)),
    };
    let number = text.strip_suffix(b"\n").and_then(|line| number_of(Path::new(std::str::from_utf8(line).ok()?)));
    number.map(Some).ok_or_else(|| StoreError::Damaged(format!("{CURRENT} names no database")))
}

fn number_of(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix("rows-")?.parse().ok()
}

fn set_current(dir: &Path, number: u64) -> Result<(), StoreError> {
    let (path, fresh) = (dir.join(CURRENT), dir.join("CURRENT.new"));
    fs::write(&fresh, format!("rows-{number}\n")).map_err(StoreError::io("write", &fresh))?;
    sync_path(&fresh)?;
    fs::rename(&fresh, &path).map_err(StoreError::io("rename", &fresh))?;
    sync_path(dir)
}

fn remove(path: &Path) -> Result<(), StoreError> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(StoreError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Whether an error says that what is stored is bad, and not that the surroundings are.
fn is_damage(error: &StoreError) -> bool {
    use std::io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    match error {
        StoreError::Sled(sled::Error::Io(error)) => {
            matches!(error.kind(), InvalidData | InvalidInput | Other | UnexpectedEof)
        }
        StoreError::Sled(_) | StoreError::Value { .. } | StoreError::Damaged(_) => true,
        _ => false,
    }
}

fn set_aside(dir: &Path, options: &Options, why: StoreError) -> Result<SetAside, StoreError> {
    let word = match &why {
        StoreError::Sled(_) => "unreadable",
        StoreError::Value { source: crate::codec::CodecError::Version { .. }, .. } => "version",
        StoreError::Value { .. } => "value",
        _ => "damaged",
    };
    let mut path = dir.with_added_extension(format!("bad-{}-{word}", options.now_seconds));
    let mut more = 1;
    while path.exists() {
        more += 1;
        path = dir.with_added_extension(format!("bad-{}-{word}-{more}", options.now_seconds));
    }
    fs::rename(dir, &path).map_err(StoreError::io("rename", dir))?;
    fs::create_dir_all(dir).map_err(StoreError::io("create", dir))?;
    if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        sync_path(parent)?;
    }
    Ok(SetAside { path, why })
}
