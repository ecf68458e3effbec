//! Pods that run though their watch has not shown them: it lags behind that of the StatefulSets.

use axum::http::request::Parts;
use futures::FutureExt;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::scene::{Kind, Rows, Stage, entries, pool, range, run_of, set};
use super::{Addresses, Kubelet};

/// No watch of Pods begins before this becomes true. What is listed is shown.
async fn no_pod_is_shown(stage: &Stage) -> watch::Sender<bool> {
    let (shown, show) = watch::channel(false);
    let toll = move |asked: &Parts| {
        let of_pods = asked.uri.path().ends_with("/pods");
        let watches = asked.uri.query().is_some_and(|query| query.contains("watch="));
        let mut show = show.clone();
        async move {
            if of_pods && watches {
                // It may be that the test is over.
                drop(show.wait_for(|show| *show).await);
            }
            None
        }
        .boxed()
    };
    stage.lead_over(toll).await;
    shown
}

/// The ordinals of a StatefulSet that have a Pod.
fn bound(rows: &Rows, set: &str) -> Vec<u32> {
    let of = rows.ordinals.iter().filter(|((_, name, _), row)| name == set && row.pod.is_some());
    of.map(|((.., ordinal), _)| *ordinal).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_that_no_watch_has_shown_keep_their_addresses() {
    let Some(stage) = Stage::empty().await else { return };
    let shown = no_pod_is_shown(&stage).await;
    let scene = stage.play(&[]);
    let _kubelet = Kubelet::of_scenes(scene.api.client.clone(), Addresses::Reserved);
    let space = scene.namespace("unseen").await;
    scene.api.create(Kind::IpPool, &pool("unseen", &[range("10.2.2.100", "10.2.2.120")], "10.2.2.1", 24)).await;
    // Once a status is written, all is listed.
    scene.used("unseen", 0, 21).await;
    let (orphans, scaled) = (run_of("10.2.2.100", 3), run_of("10.2.2.103", 3));
    for (name, addresses) in [("orphans", &orphans), ("scaled", &scaled)] {
        scene.api.create(Kind::StatefulSet, &set(&space, name, 3, "unseen")).await;
        scene.holds("unseen", (&space, name), 0, addresses).await;
        scene.runs(&space, name, 0..3).await;
    }
    let rows = scene.rows().await;
    assert_eq!((bound(&rows, "orphans"), bound(&rows, "scaled")), (vec![], vec![]), "no Pod was shown");

    // A Pod that is still there when its StatefulSet wants it no longer.
    let held = json!({"metadata": {"finalizers": ["scene.test/held"]}});
    scene.api.patch(Kind::Pod, &space, "scaled-2", &held).await;
    scene.scale(&space, "scaled", 2).await;
    scene.ledger("the Pod's address", |rows| bound(rows, "scaled") == [2]).await;
    // Pods that run on without their StatefulSet.
    scene.api.orphan(Kind::StatefulSet, &space, "orphans").await;
    scene.ledger("the Pods' addresses", |rows| bound(rows, "orphans") == [0, 1, 2]).await;
    scene.api.create(Kind::StatefulSet, &set(&space, "taker", 2, "unseen")).await;
    scene.holds("unseen", (&space, "taker"), 0, &run_of("10.2.2.106", 2)).await;
    scene.holds("unseen", (&space, "orphans"), 0, &orphans).await;

    // One goes before it is ever shown: nobody but the API server itself tells.
    scene.api.delete(Kind::Pod, &space, "orphans-2").await;
    scene.holds("unseen", (&space, "orphans"), 0, &orphans[..2]).await;
    shown.send_replace(true);
    scene.api.patch(Kind::Pod, &space, "scaled-2", &json!({"metadata": {"finalizers": null}})).await;
    let world = scene.settled().await;
    assert_eq!(entries(&world.pools["unseen"], &space, "orphans").len(), 2);
    scene.end().await;
}

/// The one that led had seen the StatefulSet and not its Pods. The next finds the StatefulSet gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_that_no_leader_has_seen_keep_their_addresses() {
    let Some(stage) = Stage::empty().await else { return };
    let shown = no_pod_is_shown(&stage).await;
    let mut scene = stage.play(&[]);
    let _kubelet = Kubelet::of_scenes(scene.api.client.clone(), Addresses::Reserved);
    let space = scene.namespace("unseen").await;
    scene.api.create(Kind::IpPool, &pool("unseen", &[range("10.2.2.100", "10.2.2.120")], "10.2.2.1", 24)).await;
    // Once a status is written, all is listed.
    scene.used("unseen", 0, 21).await;
    let addresses = run_of("10.2.2.100", 3);
    scene.api.create(Kind::StatefulSet, &set(&space, "web", 3, "unseen")).await;
    scene.holds("unseen", (&space, "web"), 0, &addresses).await;
    scene.runs(&space, "web", 0..3).await;
    for replica in 0..3 {
        scene.group.kill(replica);
    }
    scene.api.orphan(Kind::StatefulSet, &space, "web").await;
    scene.api.until(Kind::StatefulSet, &space, "web", "no StatefulSet", |it| it.is_none()).await;
    for replica in 0..3 {
        scene.group.start_replica(replica);
    }
    scene.ledger("the Pods' addresses", |rows| bound(rows, "web") == [0, 1, 2]).await;
    shown.send_replace(true);
    scene.seen().await;
    scene.settled().await;
    scene.holds("unseen", (&space, "web"), 0, &addresses).await;
    scene.end().await;
}

/// A Pod that was seen goes, its successor comes, and their StatefulSet goes, before any of it is shown but the latter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_took_a_seen_ones_place_keeps_its_address() {
    let Some(stage) = Stage::empty().await else { return };
    let shown = no_pod_is_shown(&stage).await;
    shown.send_replace(true);
    let mut scene = stage.play(&[]);
    let _kubelet = Kubelet::of_scenes(scene.api.client.clone(), Addresses::Reserved);
    let space = scene.namespace("unseen").await;
    scene.api.create(Kind::IpPool, &pool("unseen", &[range("10.2.2.100", "10.2.2.120")], "10.2.2.1", 24)).await;
    let addresses = run_of("10.2.2.100", 3);
    scene.api.create(Kind::StatefulSet, &set(&space, "web", 3, "unseen")).await;
    let pods = scene.runs(&space, "web", 0..3).await;
    scene.ledger("the Pods", |rows| bound(rows, "web") == [0, 1, 2]).await;
    for replica in 0..3 {
        scene.group.kill(replica);
    }
    shown.send_replace(false);
    for replica in 0..3 {
        scene.group.start_replica(replica);
    }
    // Once it is at work, the Pods are listed.
    scene.api.create(Kind::IpPool, &pool("later", &[range("10.2.3.100", "10.2.3.120")], "10.2.3.1", 24)).await;
    scene.used("later", 0, 21).await;
    scene.api.delete(Kind::Pod, &space, "web-2").await;
    let former = &pods[&2]["metadata"]["uid"];
    let another = |pod: Option<&Value>| {
        pod.is_some_and(|pod| pod["metadata"]["uid"] != *former && pod["status"]["podIP"] == "10.2.2.102")
    };
    scene.api.until(Kind::Pod, &space, "web-2", "another UID and the same address", another).await;
    scene.api.orphan(Kind::StatefulSet, &space, "web").await;
    scene.ledger("no StatefulSet", |rows| rows.reservations.values().all(|row| row.spec.is_none())).await;
    shown.send_replace(true);
    scene.seen().await;
    scene.settled().await;
    scene.holds("unseen", (&space, "web"), 0, &addresses).await;
    scene.end().await;
}
