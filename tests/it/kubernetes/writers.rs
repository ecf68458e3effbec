//! What the bridge writes, beside others who write the same objects: no more than its rights, and nothing where nothing
//! changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::IntoResponse;
use futures::FutureExt;
use holdfast_bridge::objects;
use serde_json::{Value, json};

use super::scene::{
    Kind, PATIENCE, PAUSE, Recorder, Rows, Scene, Stage, cidr, egress, external_pool, node, now, pool, range, ready,
    run_of, set,
};
use super::{Addresses, Kubelet};

/// Another writer of the bridge's objects.
const INTRUDER: &str = "intruder";

impl Scene {
    /// Changes the status of an IPPool as another writer, and waits until it is put right.
    pub async fn edited_and_put_right(&self, name: &str, edit: &Value, times: u64) {
        let right = self.api.get(Kind::IpPool, "", name).await.expect("is there")["status"].clone();
        self.api.patch_status(Kind::IpPool, "", name, INTRUDER, &json!({"status": edit})).await;
        let restored = |pool: Option<&Value>| pool.is_some_and(|pool| pool["status"] == right);
        self.api.until(Kind::IpPool, "", name, "its former status", restored).await;
        self.bridge(&format!("{times} repairs"), |bridge| bridge["repairs"] == times).await;
    }

    /// A StatefulSet of its own pool: once there is an Event about it, all that was to be told before is told.
    async fn marker(&self, space: &str, name: &str) {
        self.api.create(Kind::IpPool, &pool(name, &[range("10.9.9.10", "10.9.9.10")], "10.9.9.1", 24)).await;
        self.api.create(Kind::StatefulSet, &set(space, name, 1, name)).await;
        self.event(Kind::StatefulSet, name, "Reserved").await;
        self.runs(space, name, 0..1).await;
        self.api.delete(Kind::StatefulSet, space, name).await;
        self.used(name, 0, 1).await;
        self.event(Kind::StatefulSet, name, "Released").await;
        self.api.delete(Kind::IpPool, "", name).await;
    }
}

/// Waits until so many Pods are bound: from then on their pools' status changes no more.
async fn pods_are_known(scene: &Scene, pods: usize) {
    let all = |rows: &Rows| rows.ordinals.values().filter(|row| row.pod.is_some()).count() == pods;
    scene.ledger(&format!("{pods} Pods"), all).await;
}

/// Waits until the clock shows a later second than this one: objects tell times in seconds.
async fn after(second: &str) {
    while now().as_str() <= second {
        tokio::time::sleep(PAUSE).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_edits_by_hand_is_put_right_and_what_a_user_asks_for_is_not() {
    let Some(scene) = Scene::start().await else { return };
    let (api, space) = (scene.api.clone(), scene.namespace("edited").await);
    let mut recorder = Recorder::start(&api).await;
    api.create(Kind::Node, &node("node1")).await;
    api.create(Kind::IpPool, &pool("edited", &[range("10.2.2.100", "10.2.2.110")], "10.2.2.1", 24)).await;
    api.create(Kind::ExternalIpPool, &external_pool("edited", &[range("192.0.2.10", "192.0.2.30")])).await;
    api.create(Kind::StatefulSet, &set(&space, "web", 3, "edited")).await;
    api.create(Kind::Egress, &egress("chosen", &json!({"externalIPPool": "edited"}))).await;
    let asked = json!({"externalIPPool": "edited", "egressIP": "192.0.2.20"});
    api.create(Kind::Egress, &egress("asked", &asked)).await;
    pods_are_known(&scene, 3).await;
    let before = scene.settled().await;

    let entries = before.pools["edited"]["status"]["ipAddresses"].as_array().expect("a list").clone();
    assert_eq!(entries.len(), 3);
    let edit = json!({"ipAddresses": entries[1..], "usage": {"used": 9}});
    scene.edited_and_put_right("edited", &edit, 1).await;
    let told = scene.event(Kind::IpPool, "edited", "StatusRestored").await;
    assert!(told.starts_with("intruder had changed the status"), "{told}");

    let is = |path: &'static str, value: Value| {
        move |object: Option<&Value>| object.is_some_and(|object| object.pointer(path) == Some(&value))
    };
    let elsewhere = json!({"status": {"egressNode": "elsewhere"}});
    api.patch_status(Kind::Egress, "", "chosen", INTRUDER, &elsewhere).await;
    api.until(Kind::Egress, "", "chosen", "its Node", is("/status/egressNode", json!("node1"))).await;
    let told = scene.event(Kind::Egress, "chosen", "StatusRestored").await;
    assert!(told.starts_with("intruder had changed the status"), "{told}");

    let chosen = before.egresses["chosen"]["spec"]["egressIP"].clone();
    after(&now()).await;
    let taken_away = json!({"metadata": {"labels": {"edited": "yes"}}, "spec": {"egressIP": null}});
    api.patch_as(Kind::Egress, "chosen", INTRUDER, &taken_away).await;
    api.until(Kind::Egress, "", "chosen", "its address", is("/spec/egressIP", chosen.clone())).await;
    let told = scene.event(Kind::Egress, "chosen", "SpecRestored").await;
    assert!(told.starts_with("intruder had taken away the address"), "{told}");

    // It is asked for, whoever asks, and whether it can be had or not.
    for address in [json!("192.0.2.21"), chosen.clone()] {
        api.patch_as(Kind::Egress, "asked", INTRUDER, &json!({"spec": {"egressIP": address}})).await;
        scene.seen().await;
    }
    scene.settled().await;
    let versions = recorder.of(Kind::Egress, "asked");
    let mut shown: Vec<_> = versions.iter().map(|version| version["spec"]["egressIP"].clone()).collect();
    shown.dedup();
    assert_eq!(shown, [json!("192.0.2.20"), json!("192.0.2.21"), chosen]);
    let ours = |it: &&Value| it["manager"] == "holdfast" && !it["fieldsV1"]["f:spec"].is_null();
    let managers = versions.iter().flat_map(|it| it["metadata"]["managedFields"].as_array().expect("a list"));
    assert_eq!(managers.filter(ours).collect::<Vec<_>>(), [] as [&Value; 0]);
    assert!(scene.events(Kind::Egress, "asked", "SpecRestored").await.is_empty());
    let bridge = scene.bridge("anything", |_| true).await;
    // (How many repairs there were is counted from the last election on.)
    assert_eq!(bridge["contested"], json!([]));
    recorder.never_fell();
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fifth_repair_in_a_minute_is_the_last_for_a_minute_and_an_alarm_names_the_writer() {
    let Some(scene) = Scene::start().await else { return };
    let space = scene.namespace("contested").await;
    for (name, third) in [("contested", 2), ("quiet", 3)] {
        let ranges = [range(&format!("10.2.{third}.100"), &format!("10.2.{third}.110"))];
        scene.api.create(Kind::IpPool, &pool(name, &ranges, &format!("10.2.{third}.1"), 24)).await;
        scene.api.create(Kind::StatefulSet, &set(&space, name, 2, name)).await;
        scene.used(name, 2, 11).await;
    }
    pods_are_known(&scene, 4).await;
    scene.settled().await;
    for times in 1..=5 {
        let bridge = scene.bridge("anything", |_| true).await;
        assert_eq!(bridge["contested"], json!([]), "before {times}");
        scene.edited_and_put_right("contested", &json!({"usage": {"used": 6 + times}}), times).await;
    }
    let told = scene.event(Kind::IpPool, "contested", "Contested").await;
    assert!(told.starts_with("intruder keeps changing"), "{told}");
    let bridge = scene.bridge("an alarm", |bridge| bridge["contested"] != json!([])).await;
    assert_eq!(bridge["contested"], json!([{"object": "IPPool contested", "why": INTRUDER}]));

    // It stays as it is now; whatever is not contested is served as ever.
    let edit = json!({"status": {"usage": {"used": 99}}});
    let edited = scene.api.patch_status(Kind::IpPool, "", "contested", INTRUDER, &edit).await;
    scene.seen().await;
    scene.edited_and_put_right("quiet", &json!({"usage": {"used": 7}}), 6).await;
    scene.scale(&space, "quiet", 4).await;
    scene.holds("quiet", (&space, "quiet"), 0, &run_of("10.2.3.100", 4)).await;
    let bridge = scene.bridge("one object to write", |bridge| bridge["unwritten"] == 1).await;
    assert_eq!(bridge["repairs"], 6);
    let there = scene.api.get(Kind::IpPool, "", "contested").await.expect("is there");
    assert_eq!(there["metadata"]["resourceVersion"], edited["metadata"]["resourceVersion"]);
    assert_eq!(there["status"]["usage"]["used"], 99);
    assert_eq!(scene.events(Kind::IpPool, "contested", "Contested").await.len(), 1);
    scene.end().await;
}

/// Writes of the bridge, but the first so many and those about markers and curtains.
fn writes_since(scene: &Scene, first: usize) -> Vec<String> {
    let later = scene.writes().into_iter().skip(first);
    let brief = |it: &Value| format!("{} {} {}", it["stageTimestamp"], it["verb"], it["requestURI"]);
    let of_others = |it: &Value| {
        // An Event's name begins with that of its object.
        let name = it["objectRef"]["name"].as_str().unwrap_or_default();
        !["marker-", "curtain-"].iter().any(|start| name.starts_with(start))
    };
    later.filter(of_others).map(|it| brief(&it)).collect()
}

/// Pools, StatefulSets, Egresses and Nodes, all at rest, some of which wait for what they cannot have.
async fn at_rest(scene: &Scene, space: &str) {
    let api = &scene.api;
    for number in 0..3 {
        api.create(Kind::Node, &node(&format!("node{number}"))).await;
        let name = format!("pool{number}");
        let ranges = [range(&format!("10.2.{number}.100"), &format!("10.2.{number}.110"))];
        api.create(Kind::IpPool, &pool(&name, &ranges, &format!("10.2.{number}.1"), 24)).await;
        api.create(Kind::StatefulSet, &set(space, &name, 2 + number, &name)).await;
    }
    api.create(Kind::StatefulSet, &set(space, "too-large", 12, "pool0")).await;
    api.create(Kind::ExternalIpPool, &external_pool("external", &[range("192.0.2.10", "192.0.2.14")])).await;
    for number in 0..7 {
        api.create(Kind::Egress, &egress(&format!("egress{number}"), &json!({"externalIPPool": "external"}))).await;
    }
    for number in 0..3 {
        scene.runs(space, &format!("pool{number}"), 0..2 + number).await;
    }
    scene.settled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_when_all_is_listed_again_and_nothing_has_changed() {
    let Some(mut scene) = Scene::start().await else { return };
    let _kubelet = Kubelet::of_scenes(scene.api.client.clone(), Addresses::Reserved);
    let space = scene.namespace("quiet").await;
    at_rest(&scene, &space).await;
    scene.seen().await;
    scene.marker(&space, "marker-1").await;
    let world = scene.settled().await;
    let before = scene.writes().len();
    assert!(before > 20, "{before}");
    // The last change is of nothing that is followed: all watches are older than what etcd still knows.
    scene.api.create(Kind::Secret, &json!({"metadata": {"namespace": space, "name": "last"}})).await;
    scene.log();
    scene.control_plane().stop_api_server();
    scene.control_plane().compact_etcd();
    scene.control_plane().start_api_server();
    let deadline = Instant::now() + PATIENCE * 2;
    loop {
        let log = scene.log();
        let listed = |kind: &objects::Kind| {
            let kind = format!("\"{}\"", kind.name());
            log.iter().any(|line| line.contains("listed again") && line.contains(&kind))
        };
        let missing: Vec<_> = objects::Kind::ALL.into_iter().filter(|kind| !listed(kind)).collect();
        if missing.is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "not listed again: {missing:?}");
        tokio::time::sleep(PAUSE).await;
    }
    scene.seen().await;
    scene.marker(&space, "marker-2").await;
    assert_eq!(writes_since(&scene, before), [] as [&str; 0]);
    // Another leader lists anew, too.
    let first = scene.leader().await;
    scene.group.kill(first);
    scene.leader_but(Some(first)).await;
    scene.group.start_replica(first);
    scene.seen().await;
    scene.marker(&space, "marker-3").await;
    assert_eq!(writes_since(&scene, before), [] as [&str; 0]);
    // The markers' own were seen.
    assert!(scene.writes().len() > before + 10, "{}", scene.writes().len());
    let after = scene.settled().await;
    for (name, was) in world.pools.iter().chain(&world.externals).chain(&world.egresses) {
        let is = after.pools.get(name).or(after.externals.get(name)).or(after.egresses.get(name));
        assert_eq!(is.map(|it| &it["metadata"]["resourceVersion"]), Some(&was["metadata"]["resourceVersion"]));
    }
    scene.end().await;
}

/// An object's conditions: status, since when, and for which generation.
fn conditions(object: &Value) -> Vec<(String, String, String, u64)> {
    let conditions = object["status"]["conditions"].as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let told = conditions.map(|it| {
        let generation = it["observedGeneration"].as_u64().expect("a number");
        (text(&it["type"]), text(&it["status"]), text(&it["lastTransitionTime"]), generation)
    });
    told.collect()
}

fn index(object: &Value) -> u64 {
    object["status"]["holdfast"]["index"].as_u64().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_tells_the_last_change_the_generation_and_since_when() {
    let Some(scene) = Scene::start().await else { return };
    let (api, space) = (&scene.api, scene.namespace("since").await);
    let mut recorder = Recorder::start(api).await;
    api.create(Kind::IpPool, &pool("since", &[range("10.2.2.100", "10.2.2.103")], "10.2.2.1", 24)).await;
    api.create(Kind::IpPool, &pool("beside", &[range("10.2.3.100", "10.2.3.103")], "10.2.3.1", 24)).await;
    api.create(Kind::StatefulSet, &set(&space, "web", 1, "since")).await;
    api.create(Kind::Node, &node("node1")).await;
    api.create(Kind::ExternalIpPool, &external_pool("external", &[range("192.0.2.10", "192.0.2.14")])).await;
    api.create(Kind::Egress, &egress("egress", &json!({"externalIPPool": "external"}))).await;
    let first = scene.settled().await;
    let told = |pool: &Value, wanted: [(&str, &str, &str, u64); 2]| {
        let wanted = wanted.map(|(kind, status, since, of)| (kind.to_owned(), status.to_owned(), since.to_owned(), of));
        let mut told = conditions(pool);
        told.sort();
        assert_eq!(told, wanted);
    };
    let since = conditions(&first.pools["since"])[0].2.clone();
    let since_egress = conditions(&first.egresses["egress"]);
    after(&now()).await;

    // More is held: it tells so, and no condition flips.
    scene.scale(&space, "web", 3).await;
    scene.used("since", 3, 4).await;
    let second = scene.settled().await;
    let pool = &second.pools["since"];
    told(pool, [("Exhausted", "False", &since, 1), ("Ready", "True", &since, 1)]);
    assert!(index(pool) > index(&first.pools["since"]) && index(pool) <= second.rows.index);
    // What did not change tells nothing new.
    assert_eq!(second.pools["beside"], first.pools["beside"]);
    assert_eq!(second.egresses["egress"], first.egresses["egress"]);

    // Another spec.
    let larger = json!({"spec": {"ipRanges": [range("10.2.2.100", "10.2.2.104")]}});
    api.patch(Kind::IpPool, "", "since", &larger).await;
    scene.used("since", 3, 5).await;
    let third = scene.settled().await;
    let pool = &third.pools["since"];
    told(pool, [("Exhausted", "False", &since, 2), ("Ready", "True", &since, 2)]);
    assert!(index(pool) > index(&second.pools["since"]));

    // One condition flips, and tells since when; the other does not.
    let flipped_after = now();
    scene.scale(&space, "web", 5).await;
    scene.used("since", 5, 5).await;
    let exhausted = scene.condition(Kind::IpPool, "since", "Exhausted", "True", "NoneFree").await;
    let flipped = exhausted["lastTransitionTime"].as_str().expect("text").to_owned();
    assert!(flipped >= flipped_after && flipped > since, "{flipped} {flipped_after} {since}");
    let fourth = scene.settled().await;
    told(&fourth.pools["since"], [("Exhausted", "True", &flipped, 2), ("Ready", "True", &since, 2)]);

    // Of an Egress the same.
    let lost = json!({"status": {"conditions": [ready("False")]}});
    api.patch_status(Kind::Node, "", "node1", "kubelet", &lost).await;
    let unplaced =
        |egress: Option<&Value>| egress.is_some_and(|it| it["status"]["egressNode"].as_str().is_none_or(str::is_empty));
    api.until(Kind::Egress, "", "egress", "no Node", unplaced).await;
    let fifth = scene.settled().await;
    let egress = &fifth.egresses["egress"];
    assert!(index(egress) > index(&first.egresses["egress"]));
    let now = conditions(egress);
    let of = |all: &[(String, String, String, u64)], kind: &str| all.iter().find(|it| it.0 == kind).cloned();
    assert_eq!(of(&now, "IPAllocated"), of(&since_egress, "IPAllocated"));
    let (was, is) = (of(&since_egress, "IPAssigned").expect("is told"), of(&now, "IPAssigned").expect("is told"));
    assert!(was.1 == "True" && is.1 == "False" && is.2 > was.2, "{was:?} {is:?}");
    recorder.never_fell();
    scene.end().await;
}

/// A way to the API server on which every third write is told to come again. How many there were.
async fn busy(stage: &Stage) -> Arc<AtomicUsize> {
    let writes = Arc::new(AtomicUsize::new(0));
    let counted = writes.clone();
    let toll = move |asked: &Parts| {
        let again = asked.method != Method::GET && counted.fetch_add(1, Ordering::Relaxed) % 3 == 2;
        let later = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 429, "reason": "TooManyRequests",
            "message": "come again", "details": {"retryAfterSeconds": 1},
        });
        let head = [(RETRY_AFTER, "1"), (CONTENT_TYPE, "application/json")];
        let answer = again.then(|| (StatusCode::TOO_MANY_REQUESTS, head, later.to_string()).into_response());
        std::future::ready(answer).boxed()
    };
    stage.lead_over(toll).await;
    writes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_is_written_though_every_third_write_is_told_to_come_again() {
    let Some(stage) = Stage::empty().await else { return };
    let writes = busy(&stage).await;
    let scene = stage.play(&[]);
    let _kubelet = Kubelet::of_scenes(scene.api.client.clone(), Addresses::Reserved);
    let space = scene.namespace("busy").await;
    let api = &scene.api;
    let mut recorder = Recorder::start(api).await;
    api.create(Kind::IpPool, &pool("busy", &[cidr("10.64.0.0/24")], "10.64.0.1", 16)).await;
    api.create(Kind::ExternalIpPool, &external_pool("busy", &[cidr("192.0.2.0/24")])).await;
    for number in 0..10 {
        api.create(Kind::Node, &node(&format!("node{number}"))).await;
        api.create(Kind::StatefulSet, &set(&space, &format!("set{number}"), 3, "busy")).await;
        api.create(Kind::Egress, &egress(&format!("egress{number}"), &json!({"externalIPPool": "busy"}))).await;
    }
    scene.used("busy", 30, 254).await;
    for number in 0..10 {
        scene.event(Kind::StatefulSet, &format!("set{number}"), "Reserved").await;
    }
    let world = scene.settled().await;
    assert!(world.egresses.values().all(|it| it["spec"]["egressIP"].is_string()));
    let tried = writes.load(Ordering::Relaxed);
    // What it was told is told.
    let bridge = scene.bridge("nothing to write", |bridge| bridge["unwritten"] == 0).await;
    let why = bridge["lastError"]["why"].as_str().unwrap_or_default();
    assert!(tried > 30 && why.contains("429") && why.contains("come again"), "{tried} writes, {bridge:#}");
    recorder.never_fell();
    scene.end().await;
}
