use std::io;
use std::path::{Path, PathBuf};

use crate::Revision;
use crate::codec::CodecError;

/// Why the store could not do something.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process, or another [`Store`](super::Store) of this one, has it open.
    #[error("{} is in use by another process", dir.display())]
    InUse {
        /// The store's directory.
        dir: PathBuf,
    },
    /// The operating system refused something.
    #[error("{}: cannot {what}: {source}", path.display())]
    Io {
        /// What was tried: `create`, `rename`, ...
        what: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// sled could not read or write.
    #[error("sled: {0}")]
    Sled(#[from] sled::Error),
    /// A stored value is not what its key says, or could not be written.
    #[error("value of {key}: {source}")]
    Value {
        /// The key, as text for people.
        key: String,
        /// What is wrong.
        source: CodecError,
    },
    /// What is stored does not hold together.
    #[error("{0}")]
    Damaged(String),
    /// A write failed before, so that memory and disk may differ. The store takes no more writes until it is opened anew.
    #[error("an earlier write failed: the store takes no more")]
    Failed,
    /// The change right after that revision is no longer in the history.
    #[error("the change after revision {after} is no longer kept: the oldest kept is {oldest}, the latest {newest}")]
    TooOld {
        /// What was asked for.
        after: Revision,
        /// The oldest change kept; one more than `newest` if none is.
        oldest: Revision,
        /// The latest change.
        newest: Revision,
    },
    /// A snapshot file that is damaged, cut short or not one.
    #[error("snapshot {}, byte {at}: {why}", path.display())]
    Snapshot {
        /// The file.
        path: PathBuf,
        /// Where the record begins that does not check.
        at: u64,
        /// What is wrong.
        why: String,
    },
    /// So much changed while a snapshot was written that its old values outgrew their bound. Nothing is lost: take another.
    #[error("{bytes} bytes of old values set aside for a snapshot, of {allowed} allowed")]
    SnapshotOverrun {
        /// Set aside.
        bytes: usize,
        /// [`Options::aside_bytes`](super::Options::aside_bytes).
        allowed: usize,
    },
    /// The store was replaced by an installed snapshot while this one was written.
    #[error("the store was replaced while its snapshot was written")]
    SnapshotReplaced,
}

impl StoreError {
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
        move |source| StoreError::Io { what, path: path.to_owned(), source }
    }
}
