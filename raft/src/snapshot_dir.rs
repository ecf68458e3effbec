//! The snapshot files of a replica.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use holdfast_statemachine::snapshot::{self, SnapshotInfo};

use crate::Error;
use crate::identity::sync_parent;
use crate::state_machine::Position;
use crate::types::SnapshotMeta;

/// A snapshot's file, complete or being received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFile {
    /// Where it is.
    pub path: PathBuf,
}

/// The directory of a replica's snapshots. A file has its final name only once it is whole and synced.
#[derive(Debug)]
pub(crate) struct SnapshotDir {
    dir: PathBuf,
    keep: usize,
    newest: Mutex<Option<(SnapshotMeta, SnapshotFile)>>,
    next_part: AtomicU64,
}

const WHOLE: &str = "snapshot";
const PART: &str = "part";

impl SnapshotDir {
    /// Opens the directory and finds the newest snapshot that checks. Those that do not are set aside; what a
    /// crash left unfinished is removed.
    pub(crate) fn open(dir: &Path, keep: usize) -> Result<SnapshotDir, Error> {
        std::fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
        let mut found = None;
        let mut files = list(dir)?;
        while let Some(path) = files.pop() {
            if path.extension().is_some_and(|extension| extension == PART || extension == "new") {
                std::fs::remove_file(&path).map_err(Error::io("remove", &path))?;
            } else if found.is_none() && path.extension().is_some_and(|extension| extension == WHOLE) {
                match check(&path) {
                    Ok(meta) => found = Some((meta, SnapshotFile { path })),
                    Err(why) => {
                        let aside = path.with_added_extension("bad");
                        tracing::error!(file = %path.display(), %why, "setting a broken snapshot aside");
                        std::fs::rename(&path, &aside).map_err(Error::io("rename", &path))?;
                    }
                }
            }
        }
        Ok(SnapshotDir { dir: dir.to_owned(), keep, newest: Mutex::new(found), next_part: AtomicU64::new(0) })
    }

    /// The newest snapshot.
    pub(crate) fn newest(&self) -> Option<(SnapshotMeta, SnapshotFile)> {
        self.lock().clone()
    }

    /// A name for a file to be written.
    pub(crate) fn part(&self) -> SnapshotFile {
        let number = self.next_part.fetch_add(1, Ordering::Relaxed);
        SnapshotFile { path: self.dir.join(format!("{number}.{PART}")) }
    }

    /// Gives a whole and synced file its final name, and removes those that are too many.
    pub(crate) fn keep(&self, part: &SnapshotFile, meta: &SnapshotMeta) -> Result<SnapshotFile, Error> {
        let path = self.dir.join(format!("{}.{WHOLE}", meta.snapshot_id));
        let mut newest = self.lock();
        std::fs::rename(&part.path, &path).map_err(Error::io("rename", &part.path))?;
        sync_parent(&path).map_err(Error::io("sync", &self.dir))?;
        let file = SnapshotFile { path };
        *newest = Some((meta.clone(), file.clone()));
        let mut files = list(&self.dir)?;
        files.retain(|path| path.extension().is_some_and(|extension| extension == WHOLE) && *path != file.path);
        for old in files.iter().rev().skip(self.keep - 1) {
            std::fs::remove_file(old).map_err(Error::io("remove", old))?;
        }
        Ok(file)
    }

    fn lock(&self) -> MutexGuard<'_, Option<(SnapshotMeta, SnapshotFile)>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads all of a snapshot file and says what it holds.
pub(crate) fn check(path: &Path) -> Result<SnapshotMeta, Error> {
    let info = snapshot::verify(path).map_err(|error| Error::Store(error.to_string()))?;
    meta_of(&info)
}

/// What a snapshot holds, in openraft's terms. Its id sorts as its last index does.
pub(crate) fn meta_of(info: &SnapshotInfo) -> Result<SnapshotMeta, Error> {
    let position = Position::decode(info.meta.position.as_deref())?;
    let last = position.applied;
    let (term, index) = last.map_or((0, 0), |id| (id.leader_id.term, id.index));
    Ok(SnapshotMeta {
        last_log_id: last,
        last_membership: position.membership,
        snapshot_id: format!("{index:020}-{term:010}"),
    })
}

fn list(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let items = std::fs::read_dir(dir).map_err(Error::io("list", dir))?;
    let mut files = Vec::new();
    for item in items {
        files.push(item.map_err(Error::io("list", dir))?.path());
    }
    files.sort();
    Ok(files)
}
