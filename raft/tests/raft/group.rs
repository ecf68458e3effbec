//! A group at work: proposals, leaders lost and handed over, restarts.

use std::time::{Duration, Instant};

use holdfast_raft::{ProposeError, Role};

use holdfast_statemachine::command::{Grant, Owner, OwnerRef, PutPool, RangeSpec, ReleaseGrant, Selector, Subnet};
use holdfast_statemachine::{Action, Command, PoolId, PoolKind, Source};

use crate::cluster::{Cluster, put_node, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_replica_takes_a_proposal() {
    let cluster = Cluster::formed(3).await;
    for (i, replica) in cluster.replicas.values().enumerate() {
        let proposed = replica.node.propose(vec![put_node(&format!("n{i}"))], soon()).await.expect("it is done");
        assert_eq!(proposed.outcomes.len(), 1, "one outcome a command");
    }
    cluster.agree().await;
    for replica in cluster.replicas.values() {
        assert_eq!(replica.node.read(|ledger| ledger.tables().nodes().len()), 3);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_replicas_work_with_two_gone() {
    let mut cluster = Cluster::formed(5).await;
    for _ in 0..2 {
        let leader = cluster.leader().await;
        cluster.kill(&leader);
        let other = cluster.replicas.keys().next().expect("some are left").clone();
        cluster.node(&other).ready(soon()).await.expect("another leads");
        let proposed = cluster.node(&other).propose(vec![put_node(&leader)], soon()).await;
        assert!(matches!(proposed, Ok(_) | Err(ProposeError::Unknown { .. })), "{proposed:?}");
    }
    cluster.start_all().await;
    cluster.ready().await;
    cluster.agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_callers_share_entries() {
    let cluster = Cluster::formed(3).await;
    let leader = cluster.node(&cluster.leader().await).clone();
    let before = leader.applied_index().expect("it leads");
    let callers = (0..200).map(|i| {
        let leader = leader.clone();
        tokio::spawn(async move { leader.propose(vec![put_node(&format!("n{i}"))], soon()).await })
    });
    let mut indexes = Vec::new();
    for caller in callers.collect::<Vec<_>>() {
        indexes.push(caller.await.expect("no panic").expect("it is done").index);
    }
    indexes.sort_unstable();
    indexes.dedup();
    assert!(indexes.len() < 200, "{} entries for 200 callers", indexes.len());
    assert!(indexes[0] > before);
    assert_eq!(leader.read(|ledger| ledger.tables().nodes().len()), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_much_is_refused_at_once() {
    let cluster = Cluster::formed_tuned(1, |config| {
        config.limits.waiting_commands = 8;
        config.limits.entry_commands = 8;
    })
    .await;
    let node = cluster.node("a").clone();
    let too_large = node.propose((0..9).map(|i| put_node(&format!("n{i}"))).collect(), soon()).await;
    assert_eq!(too_large, Err(ProposeError::TooLarge { unit: "commands", size: 9, max: 8 }));
    let callers = (0..100).map(|i| {
        let node = node.clone();
        tokio::spawn(async move { node.propose(vec![put_node(&format!("n{i}"))], soon()).await })
    });
    let (mut done, mut refused) = (0, 0);
    for caller in callers.collect::<Vec<_>>() {
        match caller.await.expect("no panic") {
            Ok(_) => done += 1,
            Err(ProposeError::Overloaded { .. }) => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(done >= 1 && done + refused == 100, "{done} done, {refused} refused");
    assert_eq!(node.read(|ledger| ledger.tables().nodes().len()), done, "what is refused is not done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_restarts_with_all_it_had() {
    let mut cluster = Cluster::formed(3).await;
    let names: Vec<String> = cluster.replicas.keys().cloned().collect();
    for i in 0..20 {
        let node = cluster.node(&names[i % 3]);
        node.propose(vec![put_node(&format!("n{i}"))], soon()).await.expect("it is done");
    }
    cluster.agree().await;
    let digest = cluster.node("a").store().digest();
    for name in &names {
        cluster.kill(name);
    }
    cluster.start_all().await;
    cluster.ready().await;
    cluster.agree().await;
    assert_eq!(cluster.node("a").store().digest(), digest);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_quorum_the_fate_is_unknown_and_a_repeat_is_safe() {
    let mut cluster = Cluster::formed(3).await;
    let leader = cluster.leader().await;
    let others: Vec<String> = cluster.replicas.keys().filter(|name| **name != leader).cloned().collect();
    for other in &others {
        cluster.kill(other);
    }
    let moment = Instant::now() + Duration::from_millis(300);
    let lost = cluster.node(&leader).propose(vec![put_node("n")], moment).await;
    assert!(matches!(lost, Err(ProposeError::Unknown { .. })), "{lost:?}");
    for other in &others {
        cluster.start(other).await;
    }
    cluster.ready().await;
    let node = cluster.node(&others[0]);
    node.propose(vec![put_node("n")], soon()).await.expect("it is done");
    cluster.agree().await;
    assert_eq!(cluster.node(&leader).read(|ledger| ledger.tables().nodes().len()), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_stops_hands_over_and_no_proposal_is_lost() {
    let mut cluster = Cluster::formed(3).await;
    let leader = cluster.leader().await;
    let client = cluster.node(&cluster.follower().await).clone();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let load = tokio::spawn(async move {
        let mut done = 0;
        while !*stopped.borrow() {
            client.propose(vec![put_node(&format!("n{done}"))], soon()).await.expect("it is done");
            done += 1;
        }
        done
    });
    let term = cluster.node(&leader).status().await.term;
    cluster.replicas.remove(&leader).expect("it runs").shutdown().await;
    let next = cluster.leader().await;
    assert!(cluster.node(&next).status().await.term > term);
    cluster.node(&next).propose(vec![put_node("last")], soon()).await.expect("it is done");
    stop.send(true).expect("the load runs");
    let done = load.await.expect("every proposal was done, though the leader changed");
    cluster.agree().await;
    assert_eq!(cluster.node(&next).read(|ledger| ledger.tables().nodes().len()), done + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lead_goes_where_it_is_sent() {
    let cluster = Cluster::formed(3).await;
    let (leader, heir) = (cluster.leader().await, cluster.follower().await);
    cluster.node(&heir).transfer_leadership(Some(&heir), soon()).await.expect("it is handed over");
    assert_eq!(cluster.leader().await, heir);
    assert_eq!(cluster.node(&leader).status().await.role, Role::Follower);
    cluster.node(&leader).propose(vec![put_node("n")], soon()).await.expect("it is done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_must_not_be_forwarded_is_not() {
    let cluster = Cluster::formed(3).await;
    let (leader, follower) = (cluster.leader().await, cluster.follower().await);
    let refused = cluster.node(&follower).propose_here(vec![put_node("n")], soon()).await;
    let id = cluster.node(&leader).id();
    assert_eq!(refused, Err(ProposeError::NotLeader { leader: Some(id) }));
    cluster.node(&leader).propose_here(vec![put_node("n")], soon()).await.expect("the leader does it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_falls_due_is_applied_though_nobody_proposes() {
    let cluster = Cluster::formed(3).await;
    let node = cluster.node("a");
    let command = |action| Command { source: Source::Api, only_in_term: None, action };
    let pool = PutPool {
        pool: PoolId { kind: PoolKind::IpPool, name: "p".into() },
        uid: "p".into(),
        ranges: vec![RangeSpec::Cidr("10.0.0.0/24".into())],
        subnet: Some(Subnet { gateway: "10.0.0.1".into(), prefix_length: 24, vlan: None }),
        node_selector: Selector::default(),
        cool_down: 300,
    };
    let owner = Owner::Named { name: "vm".into(), uid: "1".into() };
    let grant = Grant { owner, kind: PoolKind::IpPool, pools: vec!["p".into()], addresses: Vec::new() };
    let release = ReleaseGrant { owner: OwnerRef::Named("vm".into()), uid: "1".into(), revision: None };
    let commands =
        vec![command(Action::PutPool(pool)), command(Action::Grant(grant)), command(Action::ReleaseGrant(release))];
    let proposed = node.propose(commands, soon()).await.expect("it is done");
    assert!(proposed.outcomes.iter().all(Result::is_ok), "{:?}", proposed.outcomes);
    node.read_index(soon()).await.expect("it is confirmed");
    let mut revision = node.subscribe();
    let cooled = async {
        while node.read(|ledger| !ledger.tables().cooling().is_empty()) {
            revision.changed().await.expect("it runs");
        }
    };
    tokio::time::timeout_at(soon().into(), cooled).await.expect("the cool-down ends by itself");
    assert!(node.applied_index() > Some(proposed.index), "by an entry of its own");
    cluster.agree().await;
}
