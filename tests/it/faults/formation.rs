//! How a group comes to be, with crashes on the way, and how a replica that lost its data comes back.

use std::path::Path;

use holdfast_api::v1::{MemberListRequest, MemberReplaceRequest, Role};

use super::ask::{grant, only, propose, put_pool};
use super::group::{Group, eventually};
use super::serial;

/// A replica writes this before it takes part in a group.
fn record(data: &Path) -> std::path::PathBuf {
    data.join("group")
}

/// The replica that leads the formation is killed as soon as each of the records is on a disk, and another
/// time all are.
#[tokio::test]
async fn a_crash_at_each_step_of_formation_is_harmless() {
    let _alone = serial().await;
    for step in 0..4 {
        for all in [false, true] {
            let mut group = Group::new(3, &[]);
            (0..3).for_each(|number| group.start(number));
            // 0 to 2: the record is on this replica's disk; 3: it leads.
            if step < 3 {
                let record = record(&group.replicas[step].data);
                while !record.exists() {
                    std::thread::yield_now();
                }
            } else {
                group.leader().await;
            }
            let killed = if all { 0..3 } else { 0..1 };
            killed.clone().for_each(|number| group.kill(number));
            killed.for_each(|number| group.start(number));
            group.leader().await;
            let made = group.client().propose_repeatedly(propose([put_pool("pods", "10.0.0.0/24")])).await;
            only(made.expect("a group that is formed")).expect("a good pool");
            let statuses = group.assert_equal_digests().await;
            assert_eq!(statuses.len(), 3, "step {step}");
            for status in &statuses {
                assert_eq!(status.cluster_id, statuses[0].cluster_id, "step {step}");
                assert_eq!(status.members.iter().filter(|member| member.voter).count(), 3, "step {step}");
            }
        }
    }
}

/// The same flags start the same group again, one at a time or all at once.
#[tokio::test]
async fn starting_again_is_harmless() {
    let _alone = serial().await;
    let mut group = Group::new(3, &[]);
    // The first one alone cannot form a group, and waits.
    group.start(0);
    let forming = eventually("it answers", async || group.status(0).await.ok()).await;
    assert_eq!((forming.role(), forming.cluster_id.as_str()), (Role::Unformed, ""));
    group.kill(0);
    (0..3).rev().for_each(|number| group.start(number));
    group.leader().await;
    let formed = group.settled().await;
    for round in 0..2 {
        (0..3).for_each(|number| group.kill(number));
        (0..3).for_each(|number| group.start((number + round) % 3));
        group.leader().await;
        let again = group.assert_equal_digests().await;
        let who = |all: &[holdfast_api::v1::StatusResponse]| {
            all.iter().map(|it| (it.name.clone(), it.id, it.cluster_id.clone())).collect::<Vec<_>>()
        };
        assert_eq!(who(&again), who(&formed));
    }
}

/// A replica whose directory is empty takes no part until it is put in its former self's place.
#[tokio::test]
async fn an_empty_directory_facing_a_formed_group_waits_to_be_replaced() {
    let _alone = serial().await;
    let mut group = Group::formed(3, &[]).await;
    let client = group.client();
    let setup = propose([put_pool("pods", "10.0.0.0/24"), grant("before", "pods", None)]);
    client.propose_repeatedly(setup).await.expect("a group that is formed");
    // The first one: it is the one that would form a group.
    let former = group.status(0).await.expect("it runs").id;
    group.kill(0);
    std::fs::remove_dir_all(&group.replicas[0].data).expect("removes");
    group.start(0);
    let waiting = eventually("it says that it is to be replaced", async || {
        let status = group.status(0).await.ok()?;
        status.warnings.iter().any(|text| text.contains("holdfast member replace r0")).then_some(status)
    })
    .await;
    assert_eq!(waiting.role(), Role::Unformed);
    assert_ne!(waiting.id, former, "an id whose data is lost is never used again");
    assert!(group.log(0).contains("holdfast member replace r0"), "{}", group.log(0));
    assert!(group.runs(0));
    let others = holdfast_api::Client::new(&group.endpoints()[1..]).expect("good endpoints");
    let members = others.member_list(MemberListRequest {}).await.expect("two of three run").members;
    assert!(members.iter().any(|member| member.id == former), "{members:?}");

    let replace = MemberReplaceRequest { name: "r0".to_owned(), address: String::new() };
    let others = others.with_timeout(std::time::Duration::from_secs(30));
    let members = others.member_replace(replace).await.expect("an empty replica is there").members;
    assert_eq!(
        members.iter().map(|member| (member.name.as_str(), member.voter)).collect::<Vec<_>>(),
        [("r0", true), ("r1", true), ("r2", true)]
    );
    assert!(members.iter().all(|member| member.id != former), "{members:?}");
    assert_eq!(group.assert_equal_digests().await.len(), 3);
    // It votes, and its log counts: without one of the others the group goes on.
    group.kill(1);
    group.leader().await;
    let after = client.propose_repeatedly(propose([grant("after", "pods", None)])).await;
    only(after.expect("two of three run")).expect("there is room");
}
