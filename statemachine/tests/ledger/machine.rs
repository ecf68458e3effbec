//! What the ledger and its naive model have in common, so that one scenario judges both.

use std::collections::BTreeMap;

use holdfast_statemachine::{Change, Entry, Key, Ledger, Outcome, Rejection, Row};

/// Outcomes, one a command, and changes.
pub type Answer = (Vec<Result<Outcome, Rejection>>, Vec<Change>);

/// Something that applies entries as `docs/rules.md` says.
pub trait Machine: Clone {
    /// An empty one.
    fn empty() -> Self;
    /// Applies one entry.
    fn apply(&mut self, entry: &Entry) -> Answer;
    /// All rows.
    fn rows(&self) -> BTreeMap<Key, Row>;
}

impl Machine for Ledger {
    fn empty() -> Ledger {
        Ledger::new()
    }

    fn apply(&mut self, entry: &Entry) -> Answer {
        let applied = Ledger::apply(self, entry);
        (applied.outcomes, applied.changes)
    }

    fn rows(&self) -> BTreeMap<Key, Row> {
        self.tables().rows().collect()
    }
}
