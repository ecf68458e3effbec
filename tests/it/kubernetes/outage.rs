//! The API server away, and not what it was when it is back.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::scene::{Kind, PATIENCE, PAUSE, Scene, egress, external_pool, node, pool, range, run_of, set};
use super::{Addresses, Kubelet};

/// How long the API server is away: as long as the longest pause between two attempts.
const AWAY: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_that_was_away_forgot_its_past_and_takes_another_token() {
    let Some(scene) = Scene::start().await else { return };
    let kubelet = Kubelet::of_scenes(scene.api.client.clone(), Addresses::Others);
    let space = scene.namespace("outage").await;
    scene.api.create(Kind::IpPool, &pool("outage", &[range("10.2.2.100", "10.2.2.120")], "10.2.2.1", 24)).await;
    scene.api.create(Kind::ExternalIpPool, &external_pool("outage", &[range("1.1.1.1", "1.1.1.9")])).await;
    for name in ["node1", "node2"] {
        scene.api.create(Kind::Node, &node(name)).await;
    }
    scene.api.create(Kind::Egress, &egress("before", &json!({"externalIPPool": "outage"}))).await;
    for name in ["stays", "goes"] {
        scene.api.create(Kind::StatefulSet, &set(&space, name, 3, "outage")).await;
    }
    scene.used("outage", 6, 21).await;
    let before = scene.settled().await;
    let processes: Vec<_> = scene.group.replicas.iter().flatten().map(crate::fixtures::Process::id).collect();
    drop(kubelet);
    scene.rotate_token().await;
    scene.control_plane().stop_api_server();
    scene.control_plane().compact_etcd();
    // The ledger goes on without it.
    scene.group.holdfast(&["grant", "vm-7", "--pool", "outage", "--address", "10.2.2.110"]).expect(0);
    let carries = &before.rows.placements.values().next().expect("the Egress is placed").node;
    scene.group.holdfast(&["drain", carries]).expect(0);
    tokio::time::sleep(AWAY).await;
    scene.control_plane().start_api_server();
    // It changes before anybody has looked again, and the past is forgotten once more.
    scene.api.delete(Kind::StatefulSet, &space, "goes").await;
    scene.api.create(Kind::StatefulSet, &set(&space, "comes", 4, "outage")).await;
    scene.api.create(Kind::Egress, &egress("after", &json!({"externalIPPool": "outage"}))).await;
    scene.control_plane().compact_etcd();
    let _kubelet = Kubelet::of_scenes(scene.api.client.clone(), Addresses::Others);
    let vm = |pool: Option<&Value>| {
        let entries = pool.and_then(|pool| pool["status"]["ipAddresses"].as_array());
        entries.into_iter().flatten().any(|entry| entry["owner"]["name"] == "vm-7")
    };
    scene.api.until(Kind::IpPool, "", "outage", "what was granted meanwhile", vm).await;
    let without = |pool: Option<&Value>| pool.is_some_and(|pool| pool["status"]["usage"]["used"] == 8);
    scene.api.until(Kind::IpPool, "", "outage", "what was made meanwhile, and not what was deleted", without).await;
    scene.holds("outage", (&space, "stays"), 0, &run_of("10.2.2.100", 3)).await;
    let world = scene.settled().await;
    let nodes: Vec<_> = world.egresses.values().map(|it| it["status"]["egressNode"].as_str()).collect();
    assert!(nodes.iter().all(|node| node.is_some_and(|node| !node.is_empty() && node != carries)), "{nodes:?}");
    let after: Vec<_> = scene.group.replicas.iter().flatten().map(crate::fixtures::Process::id).collect();
    assert_eq!(after, processes, "none was started anew");
    let status = scene.group.holdfast(&["status"]).expect(0).out;
    assert!(status.contains("last error"), "{status}");
    scene.end().await;
}

/// Nothing changes, so nothing is written, though everything is listed anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_cluster_is_not_written_to() {
    let Some(scene) = Scene::start().await else { return };
    let _kubelet = Kubelet::of_scenes(scene.api.client.clone(), Addresses::Reserved);
    let space = scene.namespace("quiet").await;
    scene.api.create(Kind::IpPool, &pool("quiet", &[range("10.2.2.100", "10.2.2.120")], "10.2.2.1", 24)).await;
    scene.api.create(Kind::ExternalIpPool, &external_pool("quiet", &[range("1.1.1.1", "1.1.1.2")])).await;
    scene.api.create(Kind::Node, &node("node1")).await;
    for name in ["one", "two", "waits"] {
        scene.api.create(Kind::Egress, &egress(name, &json!({"externalIPPool": "quiet"}))).await;
    }
    scene.api.create(Kind::StatefulSet, &set(&space, "web", 3, "quiet")).await;
    scene.runs(&space, "web", 0..3).await;
    scene.settled().await;
    scene.seen().await;
    scene.settled().await;
    let index = scene.rows().await.index;
    let before = scene.writes().len();
    let listed = |scene: &Scene| scene.asked().iter().filter(|event| event["verb"] == "list").count();
    let lists = listed(&scene);
    // Something else changes, so that no watch of the bridge's is at the newest version, and can go on from there.
    scene.api.create(Kind::Secret, &json!({"metadata": {"name": "changes", "namespace": space}})).await;
    scene.control_plane().stop_api_server();
    scene.control_plane().compact_etcd();
    scene.control_plane().start_api_server();
    let deadline = Instant::now() + PATIENCE * 2;
    while listed(&scene) < lists + 7 {
        assert!(Instant::now() < deadline, "not all kinds are listed again");
        tokio::time::sleep(PAUSE).await;
    }
    // One object of each kind is made: what else is written was written for no reason.
    scene.seen().await;
    let of_others = |event: &Value| {
        let about = &event["objectRef"]["name"];
        event["objectRef"]["resource"] != "events" && !about.as_str().is_some_and(|it| it.starts_with("curtain-"))
    };
    let writes: Vec<_> = scene.writes().into_iter().skip(before).filter(of_others).collect();
    let brief: Vec<_> = writes.iter().map(|it| format!("{} {}", it["verb"], it["requestURI"])).collect();
    assert_eq!(brief, Vec::<String>::new());
    assert!(scene.rows().await.index > index);
    scene.end().await;
}
