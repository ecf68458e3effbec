use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holdfast_statemachine::store::Options;
use holdfast_statemachine::{Entry, PoolKind, Store, StoreError, snapshot};
use proptest::prelude::*;

use crate::fixture::{any_entries, apply_all, entry, grant, open, options, position, put_pool, release};

/// Entries that give and take addresses all over a pool, so that rows before and behind any reader change.
fn churn(entries: u64) -> Vec<Entry> {
    let mut all = vec![entry(1, vec![put_pool(PoolKind::IpPool, 0), put_pool(PoolKind::IpPool, 1)])];
    for index in 2..=entries {
        let owner = |n: u64| format!("owner-{}", (n * 7_919) % 400);
        let pool = u8::try_from(index % 2).unwrap();
        all.push(entry(
            index,
            vec![grant(&owner(index), pool), release(&owner(index + 200)), grant(&owner(index * 3), pool)],
        ));
    }
    all
}

#[test]
fn a_snapshot_taken_while_entries_are_applied_is_of_the_entry_it_was_begun_at() {
    let dir = tempfile::tempdir().unwrap();
    let entries = churn(1_500);
    let (before, after) = entries.split_at(700);
    let store = Arc::new(open(&dir.path().join("a")));
    apply_all(&store, before);
    let expected = store.meta();

    let scan = store.begin_snapshot();
    let file = dir.path().join("snapshot");
    let go = Arc::new(AtomicBool::new(false));
    let info = std::thread::scope(|threads| {
        let writing = threads.spawn({
            let go = Arc::clone(&go);
            let file = file.clone();
            move || {
                while !go.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                scan.write_to(&file).unwrap()
            }
        });
        // Half of the entries before the first key is read, the rest while the others are.
        apply_all(&store, &after[..400]);
        go.store(true, Ordering::Release);
        apply_all(&store, &after[400..]);
        writing.join().unwrap()
    });
    assert_eq!(info.meta, expected);
    assert_eq!(snapshot::verify(&file).unwrap(), info);
    assert_ne!(store.digest(), expected.digest);

    let other = Arc::new(open(&dir.path().join("b")));
    apply_all(&other, &entries[..20]);
    other.install(&file).unwrap();
    assert_eq!(other.check().unwrap(), expected);
    apply_all(&other, after);
    assert_eq!(other.meta(), store.meta());
    assert_eq!(other.check().unwrap(), store.meta());
    drop(other);
    assert_eq!(open(&dir.path().join("b")).meta(), store.meta());
}

#[test]
fn every_byte_of_a_file_counts() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(open(&dir.path().join("a")));
    apply_all(&store, &churn(4));
    let file = dir.path().join("snapshot");
    store.begin_snapshot().write_to(&file).unwrap();
    let bytes = fs::read(&file).unwrap();
    let bad = dir.path().join("bad");
    let refused = |bytes: &[u8], what: &str| {
        fs::write(&bad, bytes).unwrap();
        assert!(matches!(snapshot::verify(&bad), Err(StoreError::Snapshot { .. })), "{what}");
    };
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        refused(&flipped, &format!("byte {at} flipped"));
    }
    for length in 0..bytes.len() {
        refused(&bytes[..length], &format!("cut to {length}"));
    }
    refused(&[&bytes[..], &[0]].concat(), "one byte more");
    let before = store.meta();
    assert!(store.install(&bad).is_err());
    assert_eq!(store.check().unwrap(), before);
    store.advance(b"goes on").unwrap();
}

#[test]
fn a_snapshot_that_would_take_too_much_memory_fails_alone() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("a"), Options { aside_bytes: 4_000, ..options() }).unwrap().store;
    let store = Arc::new(store);
    let entries = churn(300);
    apply_all(&store, &entries[..200]);
    let scan = store.begin_snapshot();
    apply_all(&store, &entries[200..]);
    assert!(scan.aside_bytes() > 4_000);
    let file = dir.path().join("snapshot");
    assert!(matches!(scan.write_to(&file), Err(StoreError::SnapshotOverrun { .. })));
    assert!(fs::read_dir(dir.path()).unwrap().all(|item| item.unwrap().path().is_dir() || !file.exists()));
    store.begin_snapshot().write_to(&file).unwrap();
    assert_eq!(snapshot::info(&file).unwrap().meta, store.meta());
}

#[test]
fn a_snapshot_of_a_store_that_was_replaced_fails() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(open(&dir.path().join("a")));
    apply_all(&store, &churn(3));
    let file = dir.path().join("snapshot");
    store.begin_snapshot().write_to(&file).unwrap();
    let scan = store.begin_snapshot();
    store.install(&file).unwrap();
    assert!(matches!(scan.write_to(&dir.path().join("late")), Err(StoreError::SnapshotReplaced)));
}

#[test]
fn what_a_crash_leaves_beside_the_store_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let meta = {
        let store = Arc::new(open(dir.path()));
        apply_all(&store, &churn(5));
        store.meta()
    };
    // As an installation leaves it that ended before the rename: the new database half built, CURRENT not replaced.
    fs::create_dir(dir.path().join("rows-2")).unwrap();
    fs::write(dir.path().join("rows-2/db"), b"half").unwrap();
    fs::write(dir.path().join("CURRENT.new"), b"rows-2\n").unwrap();
    assert_eq!(open(dir.path()).meta(), meta);
    assert!(!dir.path().join("rows-2").exists());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_installed_snapshot_is_the_store_it_was_taken_of(entries in any_entries(40), at in 0..40usize) {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (Arc::new(open(&dir.path().join("a"))), Arc::new(open(&dir.path().join("b"))));
        let at = at.min(entries.len());
        apply_all(&a, &entries[..at]);
        let scan = a.begin_snapshot();
        let meta = a.meta();
        apply_all(&a, &entries[at..]);
        scan.write_to(&dir.path().join("snapshot")).unwrap();
        b.advance(&position(0)).unwrap();
        b.install(&dir.path().join("snapshot")).unwrap();
        prop_assert_eq!(b.check().unwrap(), meta);
        apply_all(&b, &entries[at..]);
        prop_assert_eq!(b.check().unwrap(), a.meta());
    }
}
