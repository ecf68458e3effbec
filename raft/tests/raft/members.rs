//! Formation from the outside, replacement, learners.

use std::fs;

use holdfast_raft::{MemberError, Phase, ProposeError};

use crate::cluster::{Cluster, free_address, put_node, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_waits_for_all_its_founders() {
    let mut cluster = Cluster::new(3);
    cluster.start("a").await;
    cluster.start("b").await;
    cluster.wait_phase("a", |phase| matches!(phase, Phase::Forming { why } if why.contains("waiting for c"))).await;
    let early = cluster.node("a").propose(vec![put_node("n")], soon()).await;
    assert!(matches!(early, Err(ProposeError::NotReady { .. })), "{early:?}");
    cluster.start("c").await;
    cluster.ready().await;
    let groups: Vec<_> = cluster.replicas.values().map(|replica| replica.node.cluster()).collect();
    assert!(groups[0].is_some() && groups.iter().all(|group| *group == groups[0]), "{groups:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_token_forms_no_group() {
    let mut cluster = Cluster::new(2);
    cluster.start("a").await;
    let mut config = cluster.config("b");
    "another".clone_into(&mut config.cluster_token);
    let b = crate::cluster::Replica::start(config).await.expect("it starts");
    cluster.replicas.insert("b".to_owned(), b);
    cluster.wait_phase("a", |phase| matches!(phase, Phase::Forming { why } if why.contains("token"))).await;
    cluster.kill("b");
    cluster.start("b").await;
    cluster.ready().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_replica_takes_no_part_until_it_replaces_its_former_self() {
    let mut cluster = Cluster::formed(3).await;
    cluster.node("a").propose(vec![put_node("n")], soon()).await.expect("it is done");
    for name in ["c", "a"] {
        let former = cluster.node(name).id();
        cluster.kill(name);
        fs::remove_dir_all(cluster.data_dir(name)).expect("its data is gone");
        cluster.start(name).await;
        let command = format!("holdfast member replace {name}");
        cluster
            .wait_phase(name, |phase| matches!(phase, Phase::AwaitingReplacement { why } if why.contains(&command)))
            .await;
        let refused = cluster.node(name).propose(vec![put_node("m")], soon()).await;
        assert!(matches!(refused, Err(ProposeError::NotReady { .. })), "{refused:?}");
        cluster.node("b").ready(soon()).await.expect("two are enough");
        cluster.node("b").replace(name, None, soon()).await.expect("it is replaced");
        cluster.ready().await;
        let members = cluster.node("b").members().await;
        assert_eq!(members.len(), 3, "{members:?}");
        assert!(members.iter().all(|member| member.voter && member.id.node != former), "{members:?}");
        cluster.agree().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_is_lost_is_replaced() {
    let cluster = Cluster::formed(3).await;
    let refused = cluster.node("a").replace("b", None, soon()).await;
    assert!(matches!(refused, Err(MemberError::Refused { .. })), "{refused:?}");
    let refused = cluster.node("b").replace("x", None, soon()).await;
    assert_eq!(refused, Err(MemberError::Unknown { name: "x".to_owned() }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_moves_to_another_address() {
    let mut cluster = Cluster::formed(3).await;
    cluster.kill("b");
    fs::remove_dir_all(cluster.data_dir("b")).expect("its data is gone");
    let address = free_address();
    cluster.members[1].1.clone_from(&address);
    cluster.start("b").await;
    cluster.node("a").ready(soon()).await.expect("two are enough");
    cluster.node("a").replace("b", Some(&address), soon()).await.expect("it is replaced");
    cluster.ready().await;
    cluster.agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_grows_and_shrinks() {
    let mut cluster = Cluster::formed(1).await;
    cluster.node("a").propose(vec![put_node("n")], soon()).await.expect("it is done");
    for name in ["b", "c"] {
        let address = free_address();
        let founders = cluster.members.clone();
        cluster.members.push((name.to_owned(), address.clone()));
        let mut config = cluster.config(name);
        config.initial_members = founders;
        let replica = crate::cluster::Replica::start(config).await.expect("it starts");
        cluster.replicas.insert(name.to_owned(), replica);
        cluster.node("a").add_learner(name, &address, soon()).await.expect("it is added");
        cluster.node("a").add_learner(name, &address, soon()).await.expect("a repeat changes nothing");
        cluster.node("a").promote(name, soon()).await.expect("it votes");
    }
    cluster.agree().await;
    assert_eq!(cluster.node("c").members().await.iter().filter(|member| member.voter).count(), 3);
    cluster.node("a").transfer_leadership(Some("c"), soon()).await.expect("it is handed over");
    cluster.node("b").remove("a", soon()).await.expect("it leaves");
    cluster.kill("a");
    cluster.node("b").propose(vec![put_node("m")], soon()).await.expect("two go on");
    assert_eq!(cluster.node("b").members().await.len(), 2);
}
