//! A process that ends without closing its store.

use std::env;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use holdfast_statemachine::{Entry, PoolKind};

use crate::fixture::{apply_all, entry, grant, open, put_pool, release};

const DIR: &str = "HOLDFAST_TEST_CRASH_DIR";

fn entries() -> Vec<Entry> {
    let mut all = vec![entry(1, vec![put_pool(PoolKind::IpPool, 0)])];
    all.extend((2..3_000).map(|n| {
        entry(n, vec![grant(&format!("owner-{}", n % 150), 0), release(&format!("owner-{}", (n * 7) % 150))])
    }));
    all
}

/// Not a test of its own: the process that crashes.
#[test]
fn crashing() {
    let Some(dir) = env::var_os(DIR) else { return };
    let store = open(Path::new(&dir));
    let all = entries();
    let (flushed, rest) = all.split_at(1_000);
    apply_all(&store, flushed);
    store.flush().unwrap();
    apply_all(&store, rest);
    std::process::abort();
}

#[test]
fn after_a_crash_the_store_is_that_of_one_entry_and_goes_on_from_it() {
    let (root, clean) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = root.path().join("state");
    let crashed = Command::new(env::current_exe().unwrap())
        .args(["--exact", "crash::crashing", "--nocapture"])
        .env(DIR, &dir)
        .output()
        .unwrap();
    assert!(!crashed.status.success());

    let store = Arc::new(open(&dir));
    let position = String::from_utf8(store.position().expect("it was flushed")).unwrap();
    let index: usize = position.strip_prefix("entry ").unwrap().parse().unwrap();
    assert!((1_000..3_000).contains(&index), "{index}");
    assert_eq!(store.check().unwrap(), store.meta());

    let expected = open(clean.path());
    let entries = entries();
    apply_all(&expected, &entries[..index]);
    assert_eq!(store.meta(), expected.meta());
    apply_all(&expected, &entries[index..]);
    apply_all(&store, &entries[index..]);
    assert_eq!(store.meta(), expected.meta());
}
