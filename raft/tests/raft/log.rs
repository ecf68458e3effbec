//! The log's files, cut and flipped byte by byte.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use holdfast_raft::Error;
use holdfast_raft::log_store::LogStore;
use holdfast_raft::types::{Proposal, TypeConfig};
use openraft::storage::{RaftLogStorage, RaftLogStorageExt};
use openraft::{CommittedLeaderId, Entry, EntryPayload, LogId, RaftLogReader, Vote};

fn open(dir: &Path) -> Result<LogStore, Error> {
    LogStore::open(&dir.join("log"), &dir.join("log-used"), "a")
}

fn entry(index: u64) -> Entry<TypeConfig> {
    let text = format!("what entry {index} holds");
    let payload = EntryPayload::Normal(Proposal::from(Bytes::from(text)));
    Entry { log_id: LogId::new(CommittedLeaderId::new(1, 7), index), payload }
}

async fn texts(log: &mut LogStore) -> Vec<String> {
    let entries = log.try_get_log_entries(0..).await.expect("it is read");
    let text = |entry: &Entry<TypeConfig>| match &entry.payload {
        EntryPayload::Normal(proposal) => String::from_utf8(Vec::from(proposal.clone())).expect("it is text"),
        other => panic!("{other:?}"),
    };
    entries.iter().map(text).collect()
}

/// A log of a vote and four entries, and its one file.
async fn made(dir: &Path) -> (PathBuf, Vec<u8>, usize) {
    let mut log = open(dir).expect("a new log opens");
    log.save_vote(&Vote::new_committed(1, 7)).await.expect("it is written");
    for index in 0..3 {
        log.blocking_append([entry(index)]).await.expect("it is written");
    }
    let mut files =
        fs::read_dir(dir.join("log")).expect("it is there").map(|item| item.expect("it can be listed").path());
    let file = files.find(|path| path.extension().is_some_and(|extension| extension == "wal"));
    let file = file.expect("a log has a file");
    let before = fs::read(&file).expect("it is read").len();
    log.blocking_append([entry(3)]).await.expect("it is written");
    drop(log);
    let bytes = fs::read(&file).expect("it is read");
    (file, bytes, before)
}

/// Makes this the one file of the log.
fn put(file: &Path, bytes: &[u8]) {
    for item in fs::read_dir(file.parent().expect("it is in a directory")).expect("it is there") {
        fs::remove_file(item.expect("it can be listed").path()).expect("it is removed");
    }
    fs::write(file, bytes).expect("it is written");
}

/// What there may be after damage: all entries but the damaged ones at the end, or a refusal that says where.
async fn check(dir: &Path, file: &Path, at: usize, whole: usize) -> Option<usize> {
    match open(dir) {
        Ok(mut log) => {
            let texts = texts(&mut log).await;
            for (index, text) in texts.iter().enumerate() {
                assert_eq!(*text, format!("what entry {index} holds"), "damage at {at}");
            }
            assert!(texts.len() == whole || texts.len() + 1 == whole, "damage at {at}: {} entries", texts.len());
            assert!(log.read_vote().await.expect("it is read").is_some(), "damage at {at}");
            Some(texts.len())
        }
        Err(Error::Damaged { path, offset, .. }) => {
            assert_eq!(path, file, "damage at {at}");
            assert!(offset <= at as u64, "damage at {at}, found at {offset}");
            None
        }
        Err(other) => panic!("damage at {at}: {other}"),
    }
}

#[tokio::test]
async fn a_last_record_cut_anywhere_is_dropped() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, bytes, before) = made(dir.path()).await;
    assert_eq!(check(dir.path(), &file, bytes.len(), 4).await, Some(4), "undamaged");
    for length in before..bytes.len() {
        put(&file, &bytes[..length]);
        assert_eq!(check(dir.path(), &file, length, 4).await, Some(3), "cut to {length} of {}", bytes.len());
        // A crash may leave the length that it should have, filled with zeros.
        let mut zeros = bytes[..before].to_vec();
        zeros.resize(length, 0);
        put(&file, &zeros);
        assert_eq!(check(dir.path(), &file, length, 4).await, Some(3), "zeros from {before} to {length}");
    }
}

#[tokio::test]
async fn a_last_record_with_a_byte_flipped_is_dropped_or_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, bytes, before) = made(dir.path()).await;
    let mut refused = 0;
    for at in before..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 0x55;
        put(&file, &bad);
        match check(dir.path(), &file, at, 4).await {
            None => refused += 1,
            Some(entries) => assert_eq!(entries, 3, "flipped at {at}"),
        }
    }
    assert!(refused > 0, "some of that cannot be a torn write");
}

#[tokio::test]
async fn damage_before_the_last_record_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, bytes, before) = made(dir.path()).await;
    for at in 0..before {
        for flip in [0x01, 0x80, 0xff] {
            let mut bad = bytes.clone();
            bad[at] ^= flip;
            put(&file, &bad);
            assert_eq!(check(dir.path(), &file, at, 4).await, None, "byte {at} flipped by {flip:02x} went unseen");
        }
    }
}

#[tokio::test]
async fn a_leader_that_starts_again_is_none() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut log = open(dir.path()).expect("an empty log");
    log.save_vote(&Vote::new_committed(3, 7)).await.expect("a vote");
    drop(log);
    let vote = open(dir.path()).expect("opens").read_vote().await.expect("reads");
    assert_eq!(vote, Some(Vote::new(3, 7)), "the vote stands, the office does not");
}

#[tokio::test]
async fn reads_for_a_peer_are_bounded() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut log = open(dir.path()).expect("a new log opens");
    let megabyte = |index| {
        let payload = EntryPayload::Normal(Proposal::from(Bytes::from(vec![1; 1 << 20])));
        Entry { log_id: LogId::new(CommittedLeaderId::new(1, 7), index), payload }
    };
    log.blocking_append((0..8).map(megabyte)).await.expect("it is written");
    let some = log.limited_get_log_entries(0, 8).await.expect("it is read");
    assert_eq!(some.len(), 2, "less than 3 MiB");
    let all = log.try_get_log_entries(0..8).await.expect("it is read");
    assert_eq!(all.len(), 8);
}
