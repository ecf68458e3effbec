//! What is told of Pods.

use super::scene::{Kind, Scene, pool, range, set};
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
    let runs = |pod: Option<&serde_json::Value>| pod.is_some_and(|pod| pod["status"]["podIP"].is_string());
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
        let label = serde_json::json!({"metadata": {"annotations": {"step": step.to_string()}}});
        scene.api.patch(Kind::Pod, &space, "late-0", &label).await;
    }
    scene.event(Kind::StatefulSet, "late", "Reserved").await;
    for name in ["early-0", "late-0"] {
        let events = scene.events(Kind::Pod, name, "AddressNotUsed").await;
        assert_eq!(events.len(), 1, "{events:#?}");
        assert!(events[0]["series"].is_null(), "{events:#?}");
    }
    scene.settled().await;
    scene.end().await;
}
