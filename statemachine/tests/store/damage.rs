use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_statemachine::store::{Meta, Opened, encode_key};
use holdfast_statemachine::{Key, PoolKind, Store, StoreError};

use crate::fixture::{address, apply_all, entry, grant, open, options, put_pool};

/// A store with some rows, closed.
fn make(dir: &Path) -> Meta {
    let store = open(dir);
    let pool = || put_pool(PoolKind::IpPool, 0);
    let entries: Vec<_> = (1..200).map(|n| entry(n, vec![pool(), grant(&format!("owner-{n}"), 0)])).collect();
    apply_all(&store, &entries);
    store.flush().unwrap();
    store.meta()
}

/// Opens a damaged store: it is empty, and what was there is beside it, still there.
fn is_set_aside(dir: &Path, word: &str) -> StoreError {
    let Opened { store, set_aside } = Store::open(dir, options()).unwrap();
    let aside = set_aside.expect("set aside");
    assert_eq!(aside.path, dir.with_added_extension(format!("bad-1700000000-{word}")));
    assert!(aside.path.is_dir());
    assert_eq!(store.position(), None);
    assert_eq!(store.read(|ledger| ledger.tables().clock().revision), 0);
    apply_all(&store, &[entry(1, vec![put_pool(PoolKind::IpPool, 0), grant("someone", 0)])]);
    let digest = store.digest();
    drop(store);
    assert_eq!(open(dir).digest(), digest);
    aside.why
}

/// Opens what a closed store left. sled's threads hold on to their lock for a moment.
fn behind_its_back(dir: &Path) -> sled::Db {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match sled::open(dir.join("rows-1")) {
            Err(sled::Error::Io(error)) if Instant::now() < deadline => drop(error),
            opened => return opened.unwrap(),
        }
        std::thread::yield_now();
    }
}

/// Changes what sled holds, behind the store's back.
fn tamper(dir: &Path, change: impl FnOnce(&sled::Tree)) {
    let db = behind_its_back(dir);
    change(&db.open_tree("rows").unwrap());
    db.flush().unwrap();
}

fn grant_key() -> Vec<u8> {
    let mut key = Vec::new();
    encode_key(&Key::Grant(address(7)), &mut key);
    key
}

fn scene() -> (tempfile::TempDir, PathBuf, Meta) {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("state");
    let meta = make(&dir);
    (root, dir, meta)
}

#[test]
fn a_flipped_byte_of_a_row_is_found() {
    for at in [0, 3, 7, 12, 40] {
        let (_root, dir, _) = scene();
        tamper(&dir, |tree| {
            let mut row = tree.get(grant_key()).unwrap().unwrap().to_vec();
            row[at] ^= 4;
            tree.insert(grant_key(), row).unwrap();
        });
        assert!(matches!(is_set_aside(&dir, "value"), StoreError::Value { .. }));
    }
}

#[test]
fn another_version_is_found() {
    let (_root, dir, _) = scene();
    tamper(&dir, |tree| {
        let mut row = tree.get(grant_key()).unwrap().unwrap().to_vec();
        row[1] += 1;
        tree.insert(grant_key(), row).unwrap();
    });
    let why = is_set_aside(&dir, "version").to_string();
    assert!(why.contains("format version 2"), "{why}");
}

#[test]
fn a_missing_row_an_old_row_and_a_row_too_many_are_found() {
    type Tamper = fn(&sled::Tree);
    let cases: [Tamper; 6] = [
        |tree| drop(tree.remove(grant_key()).unwrap()),
        |tree| {
            let mut other = grant_key();
            *other.last_mut().unwrap() += 1;
            let row = tree.get(other).unwrap().unwrap();
            tree.insert(grant_key(), row).unwrap();
        },
        |tree| {
            let row = tree.get(grant_key()).unwrap().unwrap();
            tree.insert([&grant_key()[..2], &[99, 0, 0, 1]].concat(), row).unwrap();
        },
        |tree| drop(tree.remove([0u8]).unwrap()),
        // The newest changes, and the oldest.
        |tree| drop(tree.range([0x40u8]..[0x41]).next_back().map(|item| tree.remove(item.unwrap().0).unwrap())),
        |tree| drop(tree.range([0x40u8]..[0x41]).next().map(|item| tree.remove(item.unwrap().0).unwrap())),
    ];
    for tamper_with in cases {
        let (_root, dir, _) = scene();
        tamper(&dir, tamper_with);
        assert!(matches!(is_set_aside(&dir, "damaged"), StoreError::Damaged(_)));
    }
}

#[test]
fn a_change_missing_in_the_middle_is_found_by_a_check() {
    let (_root, dir, _) = scene();
    tamper(&dir, |tree| drop(tree.range([0x40u8]..[0x41]).nth(50).map(|item| tree.remove(item.unwrap().0).unwrap())));
    let opened = Store::open(&dir, options()).unwrap();
    // What the index does not cover yet is read at once, and so is everything here.
    assert!(opened.set_aside.is_some());
}

/// Every file of the database filled with bytes without a pattern.
#[test]
fn noise_is_set_aside() {
    for seed in 0..4u32 {
        let (_root, dir, _) = scene();
        for item in fs::read_dir(dir.join("rows-1")).unwrap() {
            let path = item.unwrap().path();
            if path.is_file() {
                let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
                let noise: Vec<u8> = std::iter::repeat_with(|| {
                    state ^= state << 13;
                    state ^= state >> 17;
                    state ^= state << 5;
                    state.to_le_bytes()[0]
                })
                .take(usize::try_from(path.metadata().unwrap().len()).unwrap())
                .collect();
                fs::write(&path, noise).unwrap();
            }
        }
        is_set_aside_or_empty(&dir);
    }
}

/// sled takes a database cut short for one that was not flushed: an older state, whole, is as good as an empty one,
/// because the caller goes on from its position.
#[test]
fn a_database_cut_short_is_set_aside_or_older() {
    for part in [0, 1, 2, 3] {
        let (_root, dir, meta) = scene();
        let file = dir.join("rows-1/db");
        let length = file.metadata().unwrap().len();
        fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(length * part / 4).unwrap();
        let store = Arc::new(Store::open(&dir, options()).unwrap().store);
        assert!(store.position().is_none() || store.check().unwrap() == store.meta());
        assert!(store.history_extent().last() <= meta.history.last());
    }
}

fn is_set_aside_or_empty(dir: &Path) {
    let Opened { store, set_aside } = Store::open(dir, options()).unwrap();
    assert_eq!(store.position(), None);
    assert_eq!(store.history_extent().count(), 0);
    assert!(set_aside.is_some(), "noise is not an empty database");
}

#[test]
fn a_store_deleted_or_without_its_pointer() {
    let (_root, dir, _) = scene();
    fs::remove_dir_all(&dir).unwrap();
    assert_eq!(open(&dir).position(), None);

    let (_root, dir, _) = scene();
    fs::remove_dir_all(dir.join("rows-1")).unwrap();
    assert_eq!(open(&dir).position(), None);

    let (_root, dir, _) = scene();
    fs::remove_file(dir.join("CURRENT")).unwrap();
    is_set_aside(&dir, "damaged");

    let (_root, dir, _) = scene();
    fs::write(dir.join("CURRENT"), "rows-one\n").unwrap();
    is_set_aside(&dir, "damaged");
}

#[test]
fn a_database_locked_by_another_is_not_damage() {
    let (_root, dir, meta) = scene();
    let other = behind_its_back(&dir);
    assert!(matches!(Store::open(&dir, options()), Err(StoreError::InUse { .. })));
    drop(other);
    assert_eq!(open(&dir).meta(), meta);
}

#[test]
fn names_of_what_is_set_aside_do_not_collide() {
    let (_root, dir, _) = scene();
    for more in ["", "-2", "-3"] {
        fs::write(dir.join("CURRENT"), "?").unwrap();
        let opened = Store::open(&dir, options()).unwrap();
        let path = dir.with_added_extension(format!("bad-1700000000-damaged{more}"));
        assert_eq!(opened.set_aside.unwrap().path, path);
    }
}
