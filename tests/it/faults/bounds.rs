//! What runs full: queues and disks.

use std::path::Path;
use std::process::Command;

use futures::future::join_all;
use holdfast_api::ClientError;
use holdfast_api::v1::Consistency;
use rustix::process::Signal;

use super::ask::{grant, holder, only, propose, put_pool, release};
use super::group::{Group, eventually};
use super::serial;

/// What waits is bounded: the rest is refused at once, and done when asked for again.
#[tokio::test]
async fn more_than_may_wait_is_refused_at_once() {
    let _alone = serial().await;
    let (waiting, entry, clients) = (8, 4, 100);
    let group = Group::formed(3, &["--waiting-commands", "8", "--entry-commands", "4"]).await;
    let pool = propose([put_pool("pods", "10.0.0.0/16")]);
    group.client().propose_repeatedly(pool).await.expect("a group that is formed");
    let leader = group.leader().await;
    let followers: Vec<_> = (0..3).filter(|number| *number != leader).collect();
    // Nothing is committed meanwhile, so everything waits.
    for number in &followers {
        group.signal(*number, Signal::STOP);
    }
    let client = group.client_of(leader);
    let (answers, mut first) = tokio::sync::mpsc::unbounded_channel();
    let asked: Vec<_> = (0..clients)
        .map(|number| {
            let (client, answers) = (client.clone(), answers.clone());
            tokio::spawn(async move {
                let answer = client.propose(propose([grant(&format!("owner-{number}"), "pods", None)])).await;
                // The test may have heard enough.
                drop(answers.send(answer.clone()));
                answer
            })
        })
        .collect();
    for _ in 0..clients - waiting - entry {
        let answer = first.recv().await.expect("each client says what it heard");
        let refused = answer.expect_err("nothing can be committed");
        assert!(matches!(refused, ClientError::Overloaded { .. }), "{refused:?}");
    }
    for number in &followers {
        group.signal(*number, Signal::CONT);
    }
    let answers = join_all(asked).await.into_iter().map(|answer| answer.expect("no client panics"));
    let refused = answers.filter(|answer| matches!(answer, Err(ClientError::Overloaded { .. }))).count();
    assert!(refused >= clients - waiting - entry, "{refused}");
    eventually("it goes on by itself", async || {
        group.client().propose(propose([grant("later", "pods", None)])).await.ok()
    })
    .await;
    group.assert_equal_digests().await;
    println!("{refused} of {clients} at once were refused, with room for {waiting} and {entry} in flight");
}

/// A small file system for a replica's data, gone when it is dropped.
struct Disk<'a>(&'a Path);

impl Disk<'_> {
    /// `None`: this process may not mount.
    fn mount(at: &Path, bytes: u64) -> Option<Disk<'_>> {
        std::fs::create_dir_all(at).expect("creates");
        let size = format!("size={bytes}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(Disk(at))
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).output();
    }
}

/// While two of three disks are nearly full nothing takes addresses; what frees them and what reads goes on.
#[tokio::test]
async fn on_full_disks_only_what_takes_is_refused() {
    let _alone = serial().await;
    let (size, watermark) = (256 << 20, 64 << 20);
    let mut group = Group::new(3, &["--disk-watermark", &watermark.to_string()]);
    let places: Vec<_> = group.replicas.iter().map(|replica| replica.data.clone()).collect();
    let disks: Vec<_> = places.iter().filter_map(|place| Disk::mount(place, size)).collect();
    if disks.len() < places.len() {
        println!("skipped: file systems cannot be mounted here (root can)");
        return;
    }
    (0..3).for_each(|number| group.start(number));
    group.leader().await;
    let client = group.client();
    let setup =
        propose([put_pool("pods", "10.0.0.0/24"), grant("a", "pods", None), grant("b", "pods", Some("10.0.0.9"))]);
    client.propose_repeatedly(setup).await.expect("a group that is formed");
    for full in &places[1..] {
        let filler = vec![0; usize::try_from(size - watermark).expect("fits")];
        std::fs::write(full.join("filler"), filler).expect("there is room");
    }
    let refused = eventually("the leader learns that the disks are full", async || {
        let answer = client.propose(propose([grant("c", "pods", Some("10.0.0.10"))])).await;
        let taken = answer.is_ok();
        if taken {
            client.propose_repeatedly(propose([release("c")])).await.expect("what frees goes on");
        }
        answer.err()
    })
    .await;
    assert_eq!(refused, ClientError::DiskFull { voters_with_room: 1, quorum: 2 });
    // In one call with what frees, what takes is refused as well: nothing of it is done.
    let both = client.propose(propose([release("a"), grant("d", "pods", None)])).await;
    assert!(matches!(both, Err(ClientError::DiskFull { .. })), "{both:?}");
    let freed = client.propose(propose([release("b")])).await.expect("what frees goes on");
    assert!(only(freed).expect("a release is never refused").changed);
    let read = client.get_grant(holder("10.0.0.9", Consistency::Linearizable)).await.expect("what reads goes on");
    assert_eq!(read.grant, None);
    for full in &places[1..] {
        std::fs::remove_file(full.join("filler")).expect("removes");
    }
    eventually("it takes again by itself", async || {
        client.propose(propose([grant("c", "pods", Some("10.0.0.10"))])).await.ok()
    })
    .await;
    group.assert_equal_digests().await;
    drop(group);
    drop(disks);
}
