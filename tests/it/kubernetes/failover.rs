//! The leader lost while everything is being made: the next one goes on, and nothing goes back.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::scene::{
    Api, Kind, Recorder, Scene, World, cidr, egress, entries, external_pool, name_of, namespace_of, node, pool, set,
};

/// StatefulSets, and as many Egresses.
const COUNT: usize = 300;

/// Makes them, one after the other; how many there are is counted.
async fn make(api: Api, namespace: String, made: watch::Sender<usize>) {
    for number in 0..COUNT {
        let replicas = u32::try_from(number % 5 + 1).expect("small");
        api.create(Kind::StatefulSet, &set(&namespace, &format!("s{number:03}"), replicas, "pods")).await;
        let fields = json!({"externalIPPool": "external"});
        api.create(Kind::Egress, &egress(&format!("e{number:03}"), &fields)).await;
        made.send_modify(|made| *made += 1);
    }
}

async fn prepared() -> Option<(Scene, String)> {
    let scene = Scene::start().await?;
    scene.api.create(Kind::IpPool, &pool("pods", &[cidr("10.64.0.0/20")], "10.64.0.1", 16)).await;
    scene.api.create(Kind::ExternalIpPool, &external_pool("external", &[cidr("192.0.2.0/23")])).await;
    for number in 0..10 {
        scene.api.create(Kind::Node, &node(&format!("node{number}"))).await;
    }
    let namespace = scene.namespace("failover").await;
    Some((scene, namespace))
}

/// Every reservation is one block, and every Egress is placed.
fn whole(world: &World, sets: usize) {
    let pool = &world.pools["pods"];
    let mut wanted = 0;
    for set in world.sets.values().filter(|set| name_of(set) != "holdfast") {
        let replicas = set["spec"]["replicas"].as_u64().expect("a number");
        wanted += replicas;
        let held = entries(pool, namespace_of(set), name_of(set));
        let addresses: Vec<u32> =
            held.iter().map(|it| it.1.parse::<std::net::Ipv4Addr>().expect("an address").to_bits()).collect();
        assert_eq!(addresses.len() as u64, replicas, "{}", name_of(set));
        assert!(addresses.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{}: {held:?}", name_of(set));
    }
    assert_eq!(pool["status"]["usage"]["used"], wanted);
    assert_eq!(world.sets.len() - 1, sets);
    let nodes: BTreeMap<_, _> =
        world.egresses.iter().map(|(name, it)| (name, it["status"]["egressNode"].as_str())).collect();
    assert!(nodes.values().all(|node| node.is_some_and(|node| !node.is_empty())), "{nodes:?}");
    assert_eq!(world.rows.placements.len(), world.egresses.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_killed_three_times_while_600_objects_are_made() {
    let Some((mut scene, namespace)) = prepared().await else { return };
    let mut recorder = Recorder::start(&scene.api).await;
    let (sender, mut made) = watch::channel(0);
    let making = tokio::spawn(make(scene.api.clone(), namespace, sender));
    for part in 1..=3 {
        made.wait_for(|made| *made >= COUNT / 4 * part).await.expect("they are being made");
        let leader = scene.leader().await;
        scene.group.kill(leader);
        scene.group.start_replica(leader);
    }
    making.await.expect("all are made");
    let world = scene.settled().await;
    whole(&world, COUNT);
    let versions = recorder.never_fell();
    assert!(versions > 2 * COUNT, "{versions}");
    let memory = scene.control_plane().most_memory();
    println!("{versions} versions; the control plane had at most {} MiB resident", memory >> 20);
    assert!(memory < 4 << 30, "{memory}");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_stood_still_past_its_lease_changes_nothing_any_more() {
    let Some((scene, namespace)) = prepared().await else { return };
    let mut recorder = Recorder::start(&scene.api).await;
    let first = scene.leader().await;
    let process = |scene: &Scene| scene.group.replicas[first].as_ref().expect("it runs").id();
    let id = process(&scene);
    // It stands still in the middle of its work, with commands and writes on their way.
    let (sender, mut made) = watch::channel(0);
    let making = tokio::spawn(make(scene.api.clone(), namespace.clone(), sender));
    made.wait_for(|made| *made >= 20).await.expect("they are being made");
    scene.group.replicas[first].as_ref().expect("it runs").stop();
    scene.leader_but(Some(first)).await;
    // What is decided meanwhile is not what it knows.
    made.wait_for(|made| *made >= 60).await.expect("they are being made");
    for number in 0..20 {
        scene.api.delete(Kind::Egress, "", &format!("e{number:03}")).await;
        let pool = json!({"spec": {"template": {"metadata": {"labels": {"seen": "1"}}}}});
        scene.api.patch(Kind::StatefulSet, &namespace, &format!("s{number:03}"), &pool).await;
        scene.scale(&namespace, &format!("s{number:03}"), 7).await;
    }
    making.abort();
    drop(making.await);
    let before = scene.settled().await;
    scene.group.replicas[first].as_ref().expect("it runs").go_on();
    // It takes part again.
    let takes_part = |rows: &super::scene::Rows| rows.index >= before.rows.index;
    scene.ledger("all that was decided", takes_part).await;
    scene.group.holdfast(&["check", "--timeout", "60s"]).expect(0);
    let after = scene.settled().await;
    assert_eq!(process(&scene), id, "it was not started anew");
    let held = |world: &World| -> Vec<(String, Value)> {
        let status = |(name, it): (&String, &Value)| (name.clone(), it["status"].clone());
        world.egresses.iter().map(status).chain(world.pools.iter().map(status)).collect()
    };
    assert_eq!(held(&after), held(&before));
    recorder.never_fell();
    scene.end().await;
}
