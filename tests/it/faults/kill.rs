//! Replicas that are killed under load.

use holdfast_api::v1::GetSettingsRequest;
use rand::rngs::StdRng;
use rand::seq::index::sample;
use rand::{RngExt, SeedableRng};

use super::ask::{propose, put_pool};
use super::group::{Group, eventually};
use super::load::Load;
use super::{long, seed, serial};

/// Clients that write all the time.
const CLIENTS: usize = 16;

/// The leader is killed and started again, twenty times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_the_leader_is_killed() {
    let _alone = serial().await;
    let times = if long() { 200 } else { 20 };
    let seed = seed();
    let mut group = Group::formed(3, &[]).await;
    let mut load = Load::start(&group, CLIENTS, seed).await;
    let mut random = StdRng::seed_from_u64(seed);
    let mut terms = Vec::new();
    for _ in 0..times {
        // Somewhere in the middle of the work, not always at the same point.
        let enough = load.acknowledged() + random.random_range(1..200);
        eventually("grants are acknowledged", async || (load.acknowledged() >= enough).then_some(())).await;
        let leader = group.leader().await;
        terms.push(group.status(leader).await.map(|status| status.term).unwrap_or_default());
        group.kill(leader);
        let next = group.leader().await;
        assert_ne!(next, leader);
        load.progress().await;
        group.start(leader);
    }
    load.stop().await;
    let statuses = group.assert_equal_digests().await;
    assert_eq!(statuses.len(), 3);
    let counts = load.check(&group).await;
    assert!(counts.kept > times && counts.answered > times && counts.reads > 0 && counts.stale_reads > 0, "{counts:?}");
    println!(
        "the leader was killed {times} times (terms {:?} to {}): {counts:?}, all histories linearizable, \
         digest {} on all three at index {}",
        terms.first(),
        statuses[0].term,
        statuses[0].digest,
        statuses[0].applied_index,
    );
}

/// Two of three are killed at once: nothing goes on without a quorum, nothing is lost with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_goes_on_without_a_quorum_and_nothing_is_lost() {
    let _alone = serial().await;
    let rounds = if long() { 50 } else { 3 };
    let seed = seed();
    let mut group = Group::formed(3, &[]).await;
    let mut load = Load::start(&group, CLIENTS, seed).await;
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..rounds {
        load.progress().await;
        let pair = sample(&mut random, 3, 2).into_vec();
        for number in &pair {
            group.kill(*number);
        }
        // What was acknowledged before the second died may still be on its way to us.
        let left = (0..3).find(|number| !pair.contains(number)).expect("one of three");
        let client = group.client_of(left).with_timeout(std::time::Duration::from_secs(3));
        let refused = client.get_settings(GetSettingsRequest::default()).await;
        refused.expect_err("a read that claims to be of now needs a quorum");
        let before = load.acknowledged();
        let refused = client.propose(propose([put_pool("late", "10.9.0.0/24")])).await;
        refused.expect_err("a write needs a quorum");
        assert_eq!(load.acknowledged(), before, "acknowledged without a quorum");
        for number in &pair {
            group.start(*number);
        }
        group.leader().await;
        load.progress().await;
    }
    load.stop().await;
    group.assert_equal_digests().await;
    let counts = load.check(&group).await;
    println!("{rounds} pairs were killed: {counts:?}, all histories linearizable");
}
