//! What is told of Pods.

use std::time::Instant;

use serde_json::{Value, json};

use super::scene::{Kind, PATIENCE, PAUSE, Scene, pool, range, set};
use super::{Addresses, Kubelet};

/// One Event for each Pod that runs without the address that is its own, though the Pod is seen many times; also where
/// the Pod ran before it had one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_runs_without_its_address_is_told_of_once() {
    let Some(scene) = Scene::start().await else { return };
    let _kubelet = Kubelet::of_scenes(scene.api.client.clone(), Addresses::Others);
    let space = scene.namespace("pods").await;
    // Its Pod runs before there is a pool.
    scene.api.create(Kind::StatefulSet, &set(&space, "early", 1, "pods")).await;
    let runs = |pod: Option<&Value>| pod.is_some_and(|pod| pod["status"]["podIP"].is_string());
    scene.api.until(Kind::Pod, &space, "early-0", "an address", runs).await;
    scene.event(Kind::StatefulSet, "early", "Waiting").await;
    scene.api.create(Kind::IpPool, &pool("pods", &[range("10.9.0.10", "10.9.0.19")], "10.9.0.1", 24)).await;
    let told = scene.event(Kind::Pod, "early-0", "AddressNotUsed").await;
    assert!(told.contains("10.9.0.10") && told.contains("10.244."), "{told}");
    scene.api.create(Kind::StatefulSet, &set(&space, "late", 1, "pods")).await;
    let told = scene.event(Kind::Pod, "late-0", "AddressNotUsed").await;
    assert!(told.contains("10.9.0.11"), "{told}");
    // Seen again, nothing more is told.
    for step in 0..3 {
        let label = json!({"metadata": {"annotations": {"step": step.to_string()}}});
        scene.api.patch(Kind::Pod, &space, "late-0", &label).await;
    }
    // What is told again is counted, a while later. Of something else, told later, it has been.
    scene.settled().await;
    for times in 1..=2 {
        scene.edited_and_put_right("pods", &json!({"usage": {"used": 6 + times}}), times).await;
    }
    let deadline = Instant::now() + PATIENCE;
    while scene.events(Kind::IpPool, "pods", "StatusRestored").await.iter().all(|it| it["series"]["count"] != 2) {
        assert!(Instant::now() < deadline, "a repeat is not counted");
        tokio::time::sleep(PAUSE).await;
    }
    for name in ["early-0", "late-0"] {
        let events = scene.events(Kind::Pod, name, "AddressNotUsed").await;
        assert_eq!(events.len(), 1, "{events:#?}");
        assert!(events[0]["series"].is_null(), "{events:#?}");
    }
    scene.settled().await;
    scene.end().await;
}
