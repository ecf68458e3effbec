//! Snapshots, replicas that were away, damaged files, full disks.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use holdfast_raft::{FreeSpace, Node, NodeConfig, ProposeError};
use holdfast_statemachine::command::{DeleteNode, Grant, Owner};
use holdfast_statemachine::{Action, Command, PoolKind, Source};

use crate::cluster::{Cluster, Replica, put_node, soon};

fn eager_snapshots(config: &mut NodeConfig) {
    config.snapshots.entries = 50;
    config.snapshots.keep_entries = 5;
}

async fn propose(node: &Node, from: usize, count: usize) {
    for i in from..from + count {
        node.propose(vec![put_node(&format!("n{i}"))], soon()).await.expect("it is done");
    }
}

async fn wait_purged(node: &Node, index: u64) {
    let give_up = soon();
    while node.status().await.purged < Some(index) {
        assert!(Instant::now() < give_up, "the log is purged behind a snapshot: {:?}", node.status().await);
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_was_away_catches_up_by_snapshot() {
    let mut cluster = Cluster::formed_tuned(3, eager_snapshots).await;
    let away = cluster.follower().await;
    let last = cluster.node(&away).status().await.last_log.expect("it has entries");
    cluster.kill(&away);
    let leader = cluster.leader().await;
    propose(cluster.node(&leader), 0, 200).await;
    wait_purged(cluster.node(&leader), last + 1).await;
    cluster.start(&away).await;
    cluster.ready().await;
    cluster.agree().await;
    assert!(cluster.node(&away).status().await.snapshot > Some(last));
    // And again from its own files.
    cluster.kill(&away);
    cluster.start(&away).await;
    cluster.ready().await;
    cluster.agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_that_is_gone_or_noise_is_rebuilt() {
    let mut cluster = Cluster::formed_tuned(3, eager_snapshots).await;
    propose(cluster.node("a"), 0, 120).await;
    let victim = cluster.follower().await;
    wait_purged(cluster.node(&victim), 10).await;
    for noise in [false, true] {
        cluster.kill(&victim);
        let ledger = cluster.data_dir(&victim).join("ledger");
        if noise {
            overwrite(&ledger);
        } else {
            fs::remove_dir_all(&ledger).expect("it is there");
        }
        cluster.start(&victim).await;
        cluster.ready().await;
        cluster.agree().await;
    }
}

fn overwrite(dir: &std::path::Path) {
    for item in fs::read_dir(dir).expect("it is there") {
        let path = item.expect("it can be listed").path();
        if path.is_dir() {
            overwrite(&path);
        } else {
            let length = fs::metadata(&path).expect("it is there").len();
            let noise: Vec<u8> = (0..length).map(|i| u8::try_from(i * 7 % 251).expect("below 251")).collect();
            fs::write(&path, noise).expect("it is written");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_log_is_not_taken_for_an_empty_one() {
    let mut cluster = Cluster::formed(3).await;
    cluster.kill("b");
    fs::remove_dir_all(cluster.data_dir("b").join("log")).expect("it is there");
    let error = Replica::start(cluster.config("b")).await.err().expect("it refuses");
    assert!(error.to_string().contains("holdfast member replace b"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proposals_go_on_while_a_snapshot_is_taken() {
    let cluster = Cluster::formed(1).await;
    let node = cluster.node("a");
    for batch in 0..20 {
        let commands = (0..1_000).map(|i| put_node(&format!("n{batch}-{i}"))).collect();
        node.propose(commands, soon()).await.expect("it is done");
    }
    node.take_snapshot().await.expect("it is asked for");
    let mut during = 0;
    let give_up = soon();
    while node.status().await.snapshot.is_none() {
        assert!(Instant::now() < give_up, "the snapshot is taken");
        node.propose(vec![put_node(&format!("m{during}"))], soon()).await.expect("it is done");
        during += 1;
    }
    assert!(during > 0, "the snapshot was there before the first proposal");
    assert!(node.status().await.applied > node.status().await.snapshot);
}

static FREE: AtomicU64 = AtomicU64::new(0);

fn command(action: Action) -> Command {
    Command { source: Source::Api, only_in_term: None, action }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_disks_are_full_only_what_takes_addresses_is_refused() {
    FREE.store(1_000, Ordering::Release);
    let cluster = Cluster::formed_tuned(3, |config| {
        config.disk_watermark = 500;
        config.free_space = FreeSpace::new(|_| Ok(FREE.load(Ordering::Acquire)));
    })
    .await;
    let node = cluster.node(&cluster.follower().await);
    let owner = Owner::Named { name: "vm".into(), uid: "".into() };
    let grant = Grant { owner, kind: PoolKind::IpPool, pools: vec!["p".into()], addresses: Vec::new() };
    let grant = command(Action::Grant(grant));
    let delete = command(Action::DeleteNode(DeleteNode { name: "n".into(), uid: "n".into() }));
    node.propose(vec![grant.clone()], soon()).await.expect("there is space");
    FREE.store(100, Ordering::Release);
    let give_up = soon();
    loop {
        match node.propose(vec![grant.clone()], soon()).await {
            Err(ProposeError::DiskFull { watermark, free }) => {
                assert_eq!((watermark, free.len()), (500, 3));
                break;
            }
            Ok(_) => assert!(Instant::now() < give_up, "the leader learns that the disks are full"),
            Err(error) => panic!("{error}"),
        }
    }
    node.propose(vec![delete], soon()).await.expect("what frees goes on");
    FREE.store(1_000, Ordering::Release);
    while node.propose(vec![grant.clone()], soon()).await.is_err() {
        assert!(Instant::now() < give_up, "it recovers by itself");
    }
}
