use std::sync::Arc;

use holdfast_statemachine::command::{Action, PutPool, RangeSpec, Selector};
use holdfast_statemachine::{Ledger, PoolKind, Store, StoreError};
use proptest::prelude::*;

use crate::fixture::{any_entries, apply_all, entry, grant, name, open, options, pool_id, position, put_pool};

fn rows(ledger: &Ledger) -> Vec<(holdfast_statemachine::Key, holdfast_statemachine::Row)> {
    ledger.tables().rows().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_store_opened_again_is_the_same(entries in any_entries(60)) {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::new();
        let (meta, changes) = {
            let store = open(dir.path());
            for entry in &entries {
                let applied = store.apply(entry, &position(entry.index)).unwrap();
                let expected = ledger.apply(entry);
                prop_assert_eq!(&applied.outcomes, &expected.outcomes);
                prop_assert_eq!(&applied.changes, &expected.changes);
            }
            let store = Arc::new(store);
            prop_assert_eq!(store.recompute_digest().unwrap(), store.digest());
            let first = store.history_extent().first - 1;
            (store.meta(), store.changes(first, usize::MAX).unwrap())
        };
        let store = Arc::new(open(dir.path()));
        prop_assert_eq!(store.meta(), meta);
        prop_assert_eq!(store.position(), Some(position(entries.len() as u64)));
        prop_assert_eq!(store.read(rows), rows(&ledger));
        prop_assert_eq!(store.check().unwrap(), store.meta());
        let first = store.history_extent().first - 1;
        prop_assert_eq!(store.changes(first, usize::MAX).unwrap(), changes);
    }

    #[test]
    fn stopping_anywhere_changes_nothing(entries in any_entries(40), stop in 0..40usize) {
        let (once, twice) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let through = open(once.path());
        apply_all(&through, &entries);
        let stop = stop.min(entries.len());
        apply_all(&open(twice.path()), &entries[..stop]);
        let resumed = open(twice.path());
        apply_all(&resumed, &entries[stop..]);
        prop_assert_eq!(resumed.meta(), through.meta());
    }
}

#[test]
fn the_digest_depends_on_rows_and_not_on_how_they_came() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (a, b) = (open(a.path()), open(b.path()));
    assert_eq!(a.digest(), 0);
    let commands = [put_pool(PoolKind::IpPool, 0), grant("one", 0), grant("two", 0)];
    a.apply(&entry(1, commands.to_vec()), b"x").unwrap();
    b.apply(&entry(1, commands[..2].to_vec()), b"x").unwrap();
    assert_ne!(a.digest(), b.digest());
    b.apply(&entry(1, commands[2..].to_vec()), b"another position").unwrap();
    assert_eq!(a.digest(), b.digest());
}

#[test]
fn a_position_alone_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    {
        let store = open(dir.path());
        assert_eq!(store.position(), None);
        store.advance(b"a membership").unwrap();
    }
    assert_eq!(open(dir.path()).position().as_deref(), Some(&b"a membership"[..]));
}

#[test]
fn a_store_in_use_is_not_opened_again_and_not_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    assert!(matches!(Store::open(dir.path(), options()), Err(StoreError::InUse { .. })));
    drop(store);
    open(dir.path());
}

/// Rows of more than one part: a pool of many ranges, which grows, shrinks and goes.
#[test]
fn long_rows_are_kept_whole() {
    let put = |ranges: u32| {
        let range = |n: u32| {
            let first = std::net::Ipv4Addr::from(0x0a00_0000 + 8 * n);
            RangeSpec::StartEnd(name(&first.to_string()), name(&first.to_string()))
        };
        Action::PutPool(PutPool {
            pool: pool_id(PoolKind::ExternalIpPool, "large"),
            uid: name("uid"),
            ranges: (0..ranges).map(range).collect(),
            subnet: None,
            node_selector: Selector::default(),
            cool_down: 0,
        })
    };
    let dir = tempfile::tempdir().unwrap();
    for (index, ranges) in (1..).zip([1, 2_000, 5_000, 600, 3_000, 1]) {
        let store = Arc::new(open(dir.path()));
        let scan = store.begin_snapshot();
        let before = store.meta();
        store.apply(&entry(index, vec![put(ranges)]), &position(index)).unwrap();
        assert_eq!(store.check().unwrap(), store.meta());
        let file = dir.path().with_added_extension("snapshot");
        scan.write_to(&file).unwrap();
        assert_eq!(holdfast_statemachine::snapshot::verify(&file).unwrap().meta, before);
        let other = tempfile::tempdir().unwrap();
        let other = Arc::new(open(other.path()));
        other.install(&file).unwrap();
        assert_eq!(other.check().unwrap(), before);
    }
}
