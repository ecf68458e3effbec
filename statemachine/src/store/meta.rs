use serde::{Deserialize, Serialize};

use crate::Revision;

/// What the store holds, written with every batch: whoever opens it can tell whether all of it is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// What the caller gave with the last entry, uninterpreted; `None` before the first.
    pub position: Option<Vec<u8>>,
    /// The sum, modulo 2^128, of XXH3-128 of (key, value) over all rows but the history.
    pub digest: u128,
    /// How many rows, without the history.
    pub rows: u64,
    /// Which changes are kept.
    pub history: Extent,
    /// Changes before this revision are found by the index that is stored; those from it on are looked through.
    pub indexed: Revision,
}

impl Meta {
    /// Of a store without a row.
    pub(crate) fn empty() -> Meta {
        Meta { position: None, digest: 0, rows: 0, history: Extent { first: 1, next: 1 }, indexed: 1 }
    }
}

/// The changes that the history keeps: all of `first..next`, without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// The oldest revision kept.
    pub first: Revision,
    /// One more than the latest revision kept; equal to `first` if none is.
    pub next: Revision,
}

impl Extent {
    /// How many changes are kept.
    pub fn count(self) -> u64 {
        self.next - self.first
    }

    /// The latest revision kept, or 0.
    pub fn last(self) -> Revision {
        self.next - 1
    }
}
