//! Files that are damaged while their replica is down.

use std::fs;
use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use super::ask::{grant, propose, put_pool};
use super::group::{Group, eventually};
use super::{long, seed, serial};

/// Snapshots are taken soon, and the log is purged behind them.
const SMALL: &[&str] = &["--snapshot-entries", "40", "--snapshot-keep-entries", "5"];

/// Puts so many entries of one grant each into the log.
async fn fill(group: &Group, prefix: &str, entries: usize) {
    let client = group.client();
    client.propose_repeatedly(propose([put_pool("pods", "10.0.0.0/16")])).await.expect("a group that is formed");
    for number in 0..entries {
        let request = propose([grant(&format!("{prefix}-{number}"), "pods", None)]);
        client.propose_repeatedly(request).await.expect("a group that is formed");
    }
}

/// The files of a directory by name, all below it.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for item in fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())) {
        let path = item.expect("an entry").path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

fn last_log_file(data: &Path) -> PathBuf {
    let mut logs = files(&data.join("log"));
    logs.retain(|path| path.extension().is_some_and(|extension| extension == "wal"));
    logs.pop().expect("a replica that ran has a log")
}

/// The log's last record, cut short as a crash cuts it: the replica opens without it and gets it again.
#[tokio::test]
async fn a_log_that_was_cut_short_is_completed() {
    let _alone = serial().await;
    let mut random = StdRng::seed_from_u64(seed());
    let mut group = Group::formed(3, &[]).await;
    let times = if long() { 40 } else { 4 };
    for round in 0..times {
        fill(&group, &format!("cut{round}"), 5).await;
        group.settled().await;
        // All go down: a leader that goes on knows what the replica had, and what is synced is never lost.
        (0..3).for_each(|number| group.kill(number));
        let log = last_log_file(&group.replicas[1].data);
        let bytes = fs::read(&log).expect("reads");
        let cut = random.random_range(1..60);
        fs::write(&log, &bytes[..bytes.len() - cut]).expect("writes");
        (0..3).for_each(|number| group.start(number));
        group.leader().await;
        let statuses = group.assert_equal_digests().await;
        assert_eq!(statuses.len(), 3, "with {cut} bytes cut off");
    }
    println!("the last record was cut {times} times: equal digests");
}

/// A byte of the log that is not what was written: the replica refuses to open it and says where, or the
/// byte is in nothing that counts. It never goes on with another state.
#[tokio::test]
async fn a_log_with_a_byte_flipped_is_refused() {
    let _alone = serial().await;
    let mut random = StdRng::seed_from_u64(seed());
    let mut group = Group::formed(3, &[]).await;
    fill(&group, "flip", 20).await;
    group.settled().await;
    group.kill(1);
    let log = last_log_file(&group.replicas[1].data);
    let bytes = fs::read(&log).expect("reads");
    let times = if long() { 200 } else { 8 };
    for round in 0..times {
        // The last record first, then anywhere.
        let from_end =
            if round < times / 2 { random.random_range(1..60) } else { random.random_range(60..bytes.len()) };
        let at = bytes.len() - from_end;
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << random.random_range(0..8);
        fs::write(&log, &flipped).expect("writes");
        let before = group.log(1).len();
        group.start(1);
        let ended = group.ended(1).await;
        let said = group.log(1)[before..].to_owned();
        assert!(!ended.success() && ended.code().is_some(), "byte {at} of {}: {ended}: {said}", bytes.len());
        assert!(said.contains("damaged at byte"), "byte {at} of {}: {said}", bytes.len());
        assert!(!said.contains("panicked"), "byte {at} of {}: {said}", bytes.len());
    }
    fs::write(&log, &bytes).expect("writes");
    group.start(1);
    group.assert_equal_digests().await;
    println!("{times} flipped bytes of the log were refused");
}

/// sled holds nothing that is not in the log and the snapshot.
#[tokio::test]
async fn a_store_that_is_lost_or_noise_is_rebuilt() {
    let _alone = serial().await;
    let mut random = StdRng::seed_from_u64(seed());
    let mut group = Group::formed(3, SMALL).await;
    for damage in ["deleted", "truncated", "noise"] {
        fill(&group, damage, 60).await;
        eventually("the log alone is not enough", async || {
            let status = group.status(2).await.ok()?;
            (status.purged_index.is_some() && status.snapshot_index > Some(0)).then_some(())
        })
        .await;
        group.settled().await;
        group.kill(2);
        let ledger = group.replicas[2].data.join("ledger");
        match damage {
            "deleted" => fs::remove_dir_all(&ledger).expect("removes"),
            "truncated" => {
                for path in files(&ledger) {
                    let bytes = fs::read(&path).expect("reads");
                    fs::write(&path, &bytes[..bytes.len() / 2]).expect("writes");
                }
            }
            _ => {
                for path in files(&ledger) {
                    let mut bytes = fs::read(&path).expect("reads");
                    random.fill_bytes(&mut bytes);
                    fs::write(&path, &bytes).expect("writes");
                }
            }
        }
        group.start(2);
        let statuses = group.assert_equal_digests().await;
        assert_eq!(statuses.len(), 3, "{damage}");
        assert!(!group.log(2).contains("panicked"), "{damage}: {}", group.log(2));
    }
}

/// A snapshot with a byte flipped is not used, though the replica has nothing else to rebuild from.
#[tokio::test]
async fn a_snapshot_with_a_byte_flipped_is_refused() {
    let _alone = serial().await;
    let mut random = StdRng::seed_from_u64(seed());
    let mut group = Group::formed(3, SMALL).await;
    fill(&group, "snapshot", 100).await;
    eventually("the log alone is not enough", async || group.status(2).await.ok()?.purged_index).await;
    group.settled().await;
    group.kill(2);
    let data = group.replicas[2].data.clone();
    let kept = data.with_extension("kept");
    copy(&data, &kept);
    let mut snapshots = files(&kept.join("snapshots"));
    snapshots.retain(|path| path.extension().is_some_and(|extension| extension == "snapshot"));
    assert!(!snapshots.is_empty());
    let times = if long() { 100 } else { 4 };
    for _ in 0..times {
        fs::remove_dir_all(&data).expect("removes");
        copy(&kept, &data);
        fs::remove_dir_all(data.join("ledger")).expect("removes");
        for snapshot in &snapshots {
            let mut bytes = fs::read(snapshot).expect("reads");
            let at = random.random_range(0..bytes.len());
            bytes[at] ^= 1 << random.random_range(0..8);
            fs::write(data.join("snapshots").join(snapshot.file_name().expect("a name")), bytes).expect("writes");
        }
        let before = group.log(2).len();
        group.start(2);
        let ended = group.ended(2).await;
        let said = group.log(2)[before..].to_owned();
        assert!(said.contains("broken snapshot") && !said.contains("panicked"), "{said}");
        assert!(!ended.success() && said.contains("no longer in the log"), "{ended}: {said}");
    }
    fs::remove_dir_all(&data).expect("removes");
    copy(&kept, &data);
    group.start(2);
    assert_eq!(group.assert_equal_digests().await.len(), 3);
    println!("{times} times snapshots with a flipped byte were refused");
}

fn copy(from: &Path, to: &Path) {
    for path in files(from) {
        let target = to.join(path.strip_prefix(from).expect("it is below"));
        fs::create_dir_all(target.parent().expect("it is below")).expect("creates");
        fs::copy(&path, target).expect("copies");
    }
}
