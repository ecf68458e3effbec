//! The ledger: its rows, what is derived from them, and the one function that changes both.

use std::collections::BTreeSet;

use crate::Millis;
use crate::change::Change;
use crate::command::Entry;
use crate::outcome::{Outcome, Rejection};
use crate::row::{Key, Row};
use crate::tables::Tables;

/// The state machine. Equal logs make equal ledgers.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    tables: Tables,
}

/// What one entry did.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    /// One for each command, in order.
    pub outcomes: Vec<Result<Outcome, Rejection>>,
    /// What changed, by ascending revision, without gaps.
    pub changes: Vec<Change>,
    /// The rows that were put or removed: what [`Tables::row`] says of each now is what is to be stored.
    pub touched: BTreeSet<Key>,
}

/// Rows that cannot be a ledger's.
#[derive(Debug, thiserror::Error)]
#[error("row {key:?}: {why}")]
pub struct BadRow {
    /// Which row.
    pub key: Key,
    /// What is wrong with it.
    pub why: &'static str,
}

impl Ledger {
    /// An empty ledger, at revision 0.
    pub fn new() -> Ledger {
        Ledger::default()
    }

    /// The ledger that has these rows. All that is derived is computed anew.
    pub fn from_rows(rows: impl IntoIterator<Item = (Key, Row)>) -> Result<Ledger, BadRow> {
        let mut ledger = Ledger::new();
        for (key, row) in rows {
            if !ledger.tables.restore(key.clone(), row) {
                return Err(BadRow { key, why: "its value is of another kind" });
            }
        }
        Ok(ledger)
    }

    /// Applies one entry. Cannot fail: what is not possible is an outcome.
    pub fn apply(&mut self, entry: &Entry) -> Applied {
        let _ = entry;
        Applied { touched: self.tables.take_touched(), ..Applied::default() }
    }

    /// All rows, for reading.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// When an entry should be applied even if nobody has a command: the next end of a retention or cool-down.
    pub fn next_deadline(&self) -> Option<Millis> {
        None
    }
}
