//! Reads: linearizable on any replica, and stale ones that say how old they are.

use std::time::{Duration, Instant};

use holdfast_raft::ReadError;

use crate::cluster::{Cluster, put_node, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_replica_reads_what_was_acknowledged() {
    let cluster = Cluster::formed(3).await;
    let leader = cluster.node(&cluster.leader().await).clone();
    for i in 1..=50 {
        leader.propose(vec![put_node(&format!("n{i}"))], soon()).await.expect("it is done");
        for (name, replica) in &cluster.replicas {
            replica.node.read_index(soon()).await.expect("it is confirmed");
            assert_eq!(replica.node.read(|ledger| ledger.tables().nodes().len()), i, "on {name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_readers_are_served() {
    let cluster = Cluster::formed(3).await;
    let follower = cluster.node(&cluster.follower().await).clone();
    let readers = (0..500).map(|_| {
        let follower = follower.clone();
        tokio::spawn(async move { follower.read_index(soon()).await })
    });
    for reader in readers.collect::<Vec<_>>() {
        reader.await.expect("no panic").expect("it is confirmed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_without_a_quorum_confirms_nothing_but_reads_stale() {
    let mut cluster = Cluster::formed(3).await;
    let leader = cluster.leader().await;
    cluster.node(&leader).propose(vec![put_node("n")], soon()).await.expect("it is done");
    let others: Vec<String> = cluster.replicas.keys().filter(|name| **name != leader).cloned().collect();
    for other in others {
        cluster.kill(&other);
    }
    let node = cluster.node(&leader);
    let read = node.read_index(Instant::now() + Duration::from_millis(300)).await;
    assert!(matches!(read, Err(ReadError::Deadline { .. })), "{read:?}");
    assert_eq!(node.read(|ledger| ledger.tables().nodes().len()), 1);
    assert!(node.staleness().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_knows_how_old_it_is() {
    let cluster = Cluster::formed(3).await;
    let follower = cluster.node(&cluster.follower().await);
    follower.read_index(soon()).await.expect("it is confirmed");
    let give_up = soon();
    while follower.staleness().is_none() {
        assert!(Instant::now() < give_up, "it has heard from its leader, and all is applied");
        tokio::task::yield_now().await;
    }
}
