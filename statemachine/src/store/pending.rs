//! What entries wrote and sled has yet to get.
//!
//! Every batch has sled end the buffer of its log: two writes, each waited for, and two threads woken, for each batch
//! however small. So the writes of successive entries are joined to one batch, and reads look here first. That gives up
//! nothing: what sled was given is as lost in a crash until sled's own threads have written it, and the log has it.

use std::collections::BTreeMap;
use std::ops::Bound;

use sled::{Batch, IVec};

/// A value put, or removed.
pub(super) type Put = (IVec, Option<IVec>);

/// Entries joined to one batch, at most: as many are applied again after a crash.
const ENTRIES_MAX: usize = 64;
/// Bytes of keys and values in one batch, about, at most.
const BYTES_MAX: usize = 1 << 20;

/// What entries wrote and sled has yet to get, all of whole entries.
#[derive(Debug, Default)]
pub(super) struct Pending {
    puts: BTreeMap<IVec, Option<IVec>>,
    entries: usize,
    bytes: usize,
}

impl Pending {
    /// Adds what one entry wrote, in its order.
    pub(super) fn add(&mut self, puts: Vec<Put>) {
        self.entries += 1;
        self.bytes +=
            puts.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, |it| it.len())).sum::<usize>();
        self.puts.extend(puts);
    }

    /// Whether it is time to hand it to sled.
    pub(super) fn is_due(&self) -> bool {
        self.entries >= ENTRIES_MAX || self.bytes >= BYTES_MAX
    }

    /// What stands here of a key: `None` nothing, `Some(None)` that it is removed.
    pub(super) fn get(&self, key: &[u8]) -> Option<&Option<IVec>> {
        self.puts.get(key)
    }

    /// The last key from `first` to `last` of this length that has a value here.
    pub(super) fn last(&self, first: &[u8], last: &[u8], length: usize) -> Option<&IVec> {
        let range = self.puts.range::<[u8], _>((Bound::Included(first), Bound::Included(last)));
        range.rev().find(|(key, value)| key.len() == length && value.is_some()).map(|(key, _)| key)
    }

    /// All of it as one batch; `None` if there is nothing.
    pub(super) fn batch(&self) -> Option<Batch> {
        if self.puts.is_empty() {
            return None;
        }
        let mut batch = Batch::default();
        for (key, value) in &self.puts {
            match value {
                Some(value) => batch.insert(key, value),
                None => batch.remove(key),
            }
        }
        Some(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, value: Option<&str>) -> Put {
        (IVec::from(key), value.map(IVec::from))
    }

    #[test]
    fn the_latest_put_counts() {
        let mut pending = Pending::default();
        pending.add(vec![put("a", Some("1")), put("b", Some("1")), put("a", Some("2"))]);
        pending.add(vec![put("b", None)]);
        assert_eq!(pending.get(b"a"), Some(&Some(IVec::from("2"))));
        assert_eq!(pending.get(b"b"), Some(&None));
        assert_eq!(pending.get(b"c"), None);
        assert_eq!(pending.last(b"a", b"b", 1), Some(&IVec::from("a")), "what is removed is no key");
        assert_eq!(pending.last(b"a", b"b", 2), None);
    }

    #[test]
    fn it_is_due_by_entries_and_by_bytes() {
        let mut pending = Pending::default();
        (1..ENTRIES_MAX).for_each(|_| pending.add(vec![put("a", Some("1"))]));
        assert!(!pending.is_due() && pending.batch().is_some());
        pending.add(Vec::new());
        assert!(pending.is_due());
        let mut pending = Pending::default();
        assert!(pending.batch().is_none());
        pending.add(vec![put("a", Some(&"x".repeat(BYTES_MAX)))]);
        assert!(pending.is_due());
    }
}
