//! Writes of which nobody hears what became: they are told as such, and repeating them is safe.

use std::time::Duration;

use holdfast_api::v1::{GetSettingsRequest, HolderRef, ListGrantsRequest, holder_ref};
use holdfast_api::{Client, ClientError};
use rustix::process::Signal;

use super::ask::{grant, only, propose, put_pool, release};
use super::group::{Group, eventually};
use super::load::Load;
use super::proxy::Proxy;
use super::{seed, serial};

async fn formed_with_pool() -> Group {
    let group = Group::formed(3, &[]).await;
    let pool = propose([put_pool("pods", "10.0.0.0/24")]);
    group.client().propose_repeatedly(pool).await.expect("a group that is formed");
    group
}

/// The addresses that an owner holds.
async fn held_by(client: &Client, owner: &str) -> Vec<String> {
    let holder = Some(HolderRef { holder: Some(holder_ref::Holder::Named(owner.to_owned())) });
    let request = ListGrantsRequest { holder, ..ListGrantsRequest::default() };
    let grants = client.list_grants(request).await.expect("a group that is whole").grants;
    grants.into_iter().map(|grant| grant.address).collect()
}

/// The reply is lost on its way: the write was done, and its repetition finds it done.
#[tokio::test]
async fn a_write_whose_reply_is_lost_is_unknown_and_safe_to_repeat() {
    let _alone = serial().await;
    let group = formed_with_pool().await;
    for number in 0..3 {
        let owner = format!("owner-{number}");
        let proxy = Proxy::to(&group.replicas[number].address).await;
        let client = Client::new([&proxy.address]).expect("a good endpoint");
        // The connection is there, so that the cut hits the reply.
        client.get_settings(GetSettingsRequest::default()).await.expect("through the proxy");
        proxy.cut_next_reply();
        let lost = client.propose(propose([grant(&owner, "pods", None)])).await;
        assert!(matches!(lost, Err(ClientError::FateUnknown { .. })), "{lost:?}");
        assert_eq!(proxy.cuts(), 1);
        let held = held_by(&group.client(), &owner).await;
        let again = client.propose(propose([grant(&owner, "pods", None)])).await.expect("the proxy goes on");
        let outcome = only(again).expect("it is held");
        assert!(!outcome.changed, "it was done before: {outcome:?}");
        assert_eq!(held, [outcome.granted[0].first.clone()]);
        // A release, likewise.
        proxy.cut_next_reply();
        let lost = client.propose(propose([release(&owner)])).await;
        assert!(matches!(lost, Err(ClientError::FateUnknown { .. })), "{lost:?}");
        let again = client.propose_repeatedly(propose([release(&owner)])).await.expect("the proxy goes on");
        assert!(!only(again).expect("a release is never refused").changed);
        assert_eq!(held_by(&group.client(), &owner).await, Vec::<String>::new());
    }
    group.assert_equal_digests().await;
}

/// The leader dies with a write that no other replica has answered for: it may be done or not, and the
/// client hears so. Repeated, it is done once.
#[tokio::test]
async fn a_write_in_flight_when_the_leader_dies_is_unknown_and_safe_to_repeat() {
    let _alone = serial().await;
    let mut group = formed_with_pool().await;
    for round in 0..3 {
        let owner = format!("owner-{round}");
        let leader = group.leader().await;
        let followers: Vec<_> = (0..3).filter(|number| *number != leader).collect();
        let logged = group.status(leader).await.expect("it leads").last_log_index;
        // Stopped, not dead: the leader's log grows, and nothing is committed.
        for number in &followers {
            group.signal(*number, Signal::STOP);
        }
        let client = group.client_of(leader);
        let request = propose([grant(&owner, "pods", None)]);
        let write = tokio::spawn(async move { client.propose(request).await });
        eventually("the write is in the leader's log", async || {
            let status = group.status(leader).await.ok()?;
            (status.last_log_index > logged).then_some(())
        })
        .await;
        group.kill(leader);
        let lost = write.await.expect("the client does not panic");
        assert!(matches!(lost, Err(ClientError::FateUnknown { .. })), "{lost:?}");
        for number in &followers {
            group.signal(*number, Signal::CONT);
        }
        group.leader().await;
        let client = group.client().with_timeout(Duration::from_secs(20));
        let again = client.propose_repeatedly(propose([grant(&owner, "pods", None)])).await;
        let outcome = only(again.expect("two of three run")).expect("there is room");
        group.start(leader);
        group.assert_equal_digests().await;
        assert_eq!(held_by(&group.client(), &owner).await, [outcome.granted[0].first.clone()], "once");
    }
}

/// A leader that is told to stop hands its lead over: it ends with 0, and no client hears of an unknown fate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_told_to_stop_loses_nothing() {
    let _alone = serial().await;
    let mut group = Group::formed(3, &[]).await;
    let mut load = Load::start(&group, 16, seed()).await;
    for _ in 0..3 {
        load.progress().await;
        let leader = group.leader().await;
        let term = group.status(leader).await.expect("it leads").term;
        group.signal(leader, Signal::TERM);
        let ended = group.ended(leader).await;
        assert_eq!(ended.code(), Some(0), "{}", group.log(leader));
        let next = group.leader().await;
        let status = group.status(next).await.expect("it leads");
        assert_eq!(status.term, term + 1, "one election, which it asked for");
        load.progress().await;
        group.start(leader);
    }
    load.stop().await;
    group.assert_equal_digests().await;
    let counts = load.check(&group).await;
    assert_eq!(counts.unknown, 0, "{counts:?}");
    println!("the leader was told to stop 3 times: {counts:?}");
}
