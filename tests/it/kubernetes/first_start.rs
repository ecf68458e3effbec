//! The first start: what Antrea wrote before is what the ledger begins with.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Range;

use holdfast_api::v1::WatchRequest;
use holdfast_api::v1::event::Event;
use serde_json::{Value, json};

use super::scene::{
    Api, Held, Kind, PATIENCE, PAUSE, Recorder, Rows, Scene, Stage, World, egress, external_pool, node, pool, range,
    reserved, run_of, set, set_up,
};
use super::{Addresses, Kubelet};
use crate::fixtures::Group;

/// An entry of a Pod outside of reservations.
fn of_pod(address: &str, namespace: &str, pod: &str) -> Value {
    let mut entry = json!({"ipAddress": address, "owner": {}});
    set_up(&mut entry, namespace, pod, &format!("c-{pod}"));
    entry
}

/// An entry of a StatefulSet's ordinal whose Pod runs.
fn of_ordinal(address: &str, namespace: &str, set: &str, index: u32) -> Value {
    let mut entry = reserved(address, namespace, set, index);
    set_up(&mut entry, namespace, &format!("{set}-{index}"), &format!("c-{set}-{index}"));
    entry
}

/// Entries of successive ordinals.
fn each(
    first: &str,
    ordinals: Range<u32>,
    (namespace, set): (&str, &str),
    entry: fn(&str, &str, &str, u32) -> Value,
) -> Vec<Value> {
    let addresses = run_of(first, ordinals.len().try_into().expect("few"));
    ordinals.zip(addresses).map(|(ordinal, address)| entry(&address, namespace, set, ordinal)).collect()
}

/// What Antrea's controller and agents do.
impl Stage {
    /// Writes the list of the pool `pods`.
    async fn lists(&self, entries: &[Value]) {
        let status = json!({"status": {"ipAddresses": entries, "usage": {"total": 51, "used": entries.len()}}});
        self.api.patch_status(Kind::IpPool, "", "pods", "antrea-agent", &status).await;
    }

    /// Waits until these Pods of a StatefulSet have an address.
    async fn has_run(&self, namespace: &str, set: &str, ordinals: Range<u32>) {
        for ordinal in ordinals {
            let has = |pod: Option<&Value>| pod.is_some_and(|pod| pod["status"]["podIP"].is_string());
            self.api.until(Kind::Pod, namespace, &format!("{set}-{ordinal}"), "an address", has).await;
        }
    }

    /// A Pod that is there runs with this address.
    async fn runs_with(&self, namespace: &str, pod: &str, address: &str) {
        self.api.until(Kind::Pod, namespace, pod, "a Pod", |pod| pod.is_some()).await;
        let status = json!({"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]});
        self.api.patch_status(Kind::Pod, namespace, pod, "kubelet", &json!({"status": status})).await;
    }

    /// Makes a Pod of no StatefulSet that runs with this address.
    async fn loose(&self, namespace: &str, name: &str, address: &str) {
        let metadata = json!({"namespace": namespace, "name": name, "annotations": {"ipam.antrea.io/ippools": "pods"}});
        let pod = json!({"metadata": metadata, "spec": {"containers": [{"name": "only", "image": "none"}]}});
        self.api.create(Kind::Pod, &pod).await;
        self.runs_with(namespace, name, address).await;
    }

    /// Makes an Egress whose address this writer put there; an agent says that this Node carries it, if one does.
    async fn egress(&self, name: &str, writer: &str, address: &str, node: &str) {
        self.api.create(Kind::Egress, &egress(name, &json!({"externalIPPool": "external"}))).await;
        self.api.patch_as(Kind::Egress, name, writer, &json!({"spec": {"egressIP": address}})).await;
        if !node.is_empty() {
            let status = json!({"status": {"egressNode": node, "egressIP": address}});
            self.api.patch_status(Kind::Egress, "", name, "antrea-agent", &status).await;
        }
    }

    /// Makes a Service that has this load-balancer address of the pool `external`.
    async fn service(&self, namespace: &str, name: &str, address: &str) {
        let annotations = json!({"service.antrea.io/external-ip-pool": "external"});
        let service = json!({
            "metadata": {"namespace": namespace, "name": name, "annotations": annotations},
            "spec": {"type": "LoadBalancer", "selector": {"app": name}, "ports": [{"port": 80}]},
        });
        self.api.create(Kind::Service, &service).await;
        let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": address}]}}});
        self.api.patch_status(Kind::Service, namespace, name, "antrea-controller", &status).await;
    }

    /// Makes Nodes, and the pools `pods`, 10.9.0.10 to this, and `external`.
    async fn pools(&self, last: &str) {
        for name in ["node1", "node2", "node3"] {
            self.api.create(Kind::Node, &node(name)).await;
        }
        self.api.create(Kind::IpPool, &pool("pods", &[range("10.9.0.10", last)], "10.9.0.1", 24)).await;
        self.api.create(Kind::ExternalIpPool, &external_pool("external", &[range("1.1.1.1", "1.1.1.30")])).await;
    }
}

/// StatefulSets and Pods as they are left: one whole, one scaled down, one whose Pods have addresses of no
/// reservation, a Pod of none, and one StatefulSet without anything. The entries.
async fn leave_pods(stage: &Stage, space: &str) -> Vec<Value> {
    let mut list = each("10.9.0.20", 0..3, (space, "web"), reserved);
    list.extend(each("10.9.0.30", 0..3, (space, "scaled"), reserved));
    stage.lists(&list).await;
    for (name, replicas) in [("web", 3), ("scaled", 3), ("flying", 2), ("late", 2)] {
        stage.api.create(Kind::StatefulSet, &set(space, name, replicas, "pods")).await;
    }
    stage.has_run(space, "web", 0..3).await;
    stage.has_run(space, "scaled", 0..3).await;
    stage.api.patch(Kind::StatefulSet, space, "scaled", &json!({"spec": {"replicas": 1}})).await;
    for pod in ["scaled-1", "scaled-2"] {
        stage.api.until(Kind::Pod, space, pod, "no Pod", |pod| pod.is_none()).await;
    }
    stage.runs_with(space, "flying-0", "10.9.0.40").await;
    stage.runs_with(space, "flying-1", "10.9.0.41").await;
    stage.loose(space, "loose", "10.9.0.45").await;
    let mut list = each("10.9.0.20", 0..3, (space, "web"), of_ordinal);
    list.extend(each("10.9.0.30", 0..1, (space, "scaled"), of_ordinal));
    list.extend(each("10.9.0.31", 1..3, (space, "scaled"), reserved));
    list.push(of_pod("10.9.0.40", space, "flying-0"));
    list.push(of_pod("10.9.0.41", space, "flying-1"));
    list.push(of_pod("10.9.0.45", space, "loose"));
    stage.lists(&list).await;
    list
}

/// Each Egress with its address and Node. By the ring they would be on node1, node3 and node1.
const PLACED: [(&str, &str, &str); 3] =
    [("chosen", "1.1.1.1", "node2"), ("asked", "1.1.1.11", "node2"), ("second", "1.1.1.21", "node3")];

async fn leave_egresses(stage: &Stage, space: &str) {
    // First in every order, and without anything: it must not get what the others have.
    stage.api.create(Kind::Egress, &egress("a-new-one", &json!({"externalIPPool": "external"}))).await;
    for (name, address, node) in PLACED {
        let writer = if name == "asked" { "kubectl" } else { "antrea-controller" };
        stage.egress(name, writer, address, node).await;
    }
    stage.service(space, "balanced", "1.1.1.2").await;
}

/// Whose an entry is; what else it says is not compared.
fn owner(entry: &Value) -> String {
    let set = &entry["owner"]["statefulSet"];
    let of = if set.is_object() { set } else { &entry["owner"]["pod"] };
    format!("{}/{} {}", of["namespace"], of["name"], of["index"])
}

fn owners(list: &[Value]) -> BTreeMap<String, String> {
    list.iter().map(|entry| (entry["ipAddress"].as_str().expect("an address").to_owned(), owner(entry))).collect()
}

/// No version of any object showed anything else than what was left.
fn nothing_moved(recorder: &Recorder, left: &[Value]) {
    let left = owners(left);
    for version in recorder.of(Kind::IpPool, "pods") {
        let now = owners(version["status"]["ipAddresses"].as_array().expect("a list"));
        let lost: Vec<_> = left.iter().filter(|(address, owner)| now.get(*address) != Some(owner)).collect();
        assert!(lost.is_empty(), "{lost:?} of {version:#?}");
    }
    for (name, address, node) in PLACED {
        let versions = recorder.of(Kind::Egress, name);
        for version in &versions {
            let (spec, status) = (&version["spec"], &version["status"]);
            let now = (&spec["egressIP"], &status["egressIP"], &status["egressNode"]);
            assert_eq!(now, (&json!(address), &json!(address), &json!(node)), "{name}");
        }
        assert!(versions.iter().any(|it| it["status"]["holdfast"].is_object()), "{name} was never written");
    }
}

/// All that ever changed, in order.
async fn feed(scene: &Scene) -> Vec<Event> {
    let last = scene.rows().await.revision;
    let mut watch = scene.ledger_client().watch(WatchRequest { after_revision: Some(0), ..WatchRequest::default() });
    let mut events = Vec::new();
    loop {
        let next = tokio::time::timeout(PATIENCE, watch.next()).await.expect("goes on").expect("goes on");
        let reached = next.changes.last().is_some_and(|change| change.revision >= last);
        events.extend(next.changes.into_iter().filter_map(|change| change.event?.event));
        if reached {
            return events;
        }
    }
}

/// Addresses granted before the adoption began, until it ended, and since.
async fn granted(scene: &Scene) -> [BTreeSet<String>; 3] {
    let mut granted = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
    let mut at = 0;
    for event in feed(scene).await {
        match event {
            Event::AdoptionBegun(_) => at += 1,
            Event::AdoptionEnded(conflicts) => {
                assert_eq!(conflicts, 0);
                at += 1;
            }
            Event::Granted(it) => drop(granted[at].insert(it.address)),
            _ => {}
        }
    }
    assert_eq!(at, 2, "it began and ended once");
    granted
}

/// What the ledger says that must be the same under each leader.
#[derive(Debug, PartialEq, Eq)]
struct Kept {
    held: BTreeMap<IpAddr, Held>,
    /// On which Node, and since which revision.
    placed: BTreeMap<IpAddr, (String, u64)>,
    adoption: String,
}

fn kept(rows: &Rows) -> Kept {
    let revision = |row: &holdfast_api::v1::PlacementRow| row.stamp.as_ref().expect("a stamp").revision;
    Kept {
        held: rows.grants.iter().map(|(address, grant)| (*address, grant.held.clone())).collect(),
        placed: rows.placements.iter().map(|(address, row)| (*address, (row.node.clone(), revision(row)))).collect(),
        adoption: format!("{:?}", rows.adoption),
    }
}

fn holder<'a>(rows: &'a Rows, address: &str) -> &'a Held {
    &rows.grants[&address.parse::<IpAddr>().expect("an address")].held
}

/// What each replica's bridge tells of itself, by the replica's name.
fn bridges(scene: &Scene) -> BTreeMap<String, Value> {
    let status = scene.group.holdfast(&["status", "-o", "json"]).expect(0).json();
    let replicas = status["replicas"].as_array().expect("replicas").iter();
    let bridges: BTreeMap<String, Value> =
        replicas.map(|it| (it["name"].as_str().expect("a name").to_owned(), it["kubernetes"].clone())).collect();
    assert_eq!(bridges.len(), 3, "{status:#?}");
    bridges
}

/// What was passed over, as the one replica tells that adopted; and which that is.
fn passed_over(scene: &Scene) -> (String, Vec<(String, String)>) {
    let bridges = bridges(scene);
    let mut telling = bridges.iter().filter(|(_, bridge)| bridge["passedOver"] != json!([]));
    let (name, bridge) = telling.next().unwrap_or_else(|| panic!("{bridges:#?}"));
    assert!(telling.next().is_none(), "{bridges:#?}");
    let listed = bridge["passedOver"].as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let listed: Vec<_> = listed.map(|it| (text(&it["object"]), text(&it["why"]))).collect();
    assert_eq!(bridge["passedOverTotal"], listed.len());
    (name.clone(), listed)
}

/// The conflicts that each replica tells of.
fn conflicts(scene: &Scene) -> Vec<String> {
    let told: Vec<Value> = bridges(scene).into_values().collect();
    assert!(told.iter().all(|it| it["conflicts"] == told[0]["conflicts"]), "{told:#?}");
    let conflicts: Vec<String> = serde_json::from_value(told[0]["conflicts"].clone()).expect("texts");
    assert_eq!(told[0]["conflictsTotal"], conflicts.len());
    conflicts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_antrea_left_stays_where_it_is() {
    let Some(stage) = Stage::empty().await else { return };
    let _kubelet = Kubelet::of_scenes(stage.api.client.clone(), Addresses::Reserved);
    let space = stage.namespace("left").await;
    stage.pools("10.9.0.60").await;
    let left = leave_pods(&stage, &space).await;
    leave_egresses(&stage, &space).await;
    let mut recorder = Recorder::start(&stage.api).await;
    let mut scene = stage.play(&[]);
    let world = scene.settled().await;
    assert_eq!(conflicts(&scene), Vec::<String>::new());
    nothing_moved(&recorder, &left);
    for (name, address, node) in PLACED {
        assert_eq!(*holder(&world.rows, address), Held::Egress(name.into()));
        assert_eq!(world.rows.placements[&address.parse::<IpAddr>().expect("an address")].node, node);
        let item = &world.rows.egresses[name].items[0];
        let (asked, chosen) = if name == "asked" { (Some(address), None) } else { (None, Some(address)) };
        assert_eq!((item.asked.as_deref(), item.chosen.as_deref()), (asked, chosen), "{name}");
    }
    assert_eq!(*holder(&world.rows, "1.1.1.2"), Held::Other(format!("Service {space}/balanced")));
    assert_eq!(*holder(&world.rows, "10.9.0.45"), Held::Other(format!("{space}/loose")));

    // What was not there before was chosen when all else was known, and not before.
    let [before, adopted, since] = granted(&scene).await;
    let all: BTreeSet<String> =
        owners(&left).into_keys().chain(PLACED.map(|it| it.1.to_owned())).chain(["1.1.1.2".to_owned()]).collect();
    assert_eq!((before, adopted), (BTreeSet::new(), all));
    let new = run_of("10.9.0.10", 4).into_iter().chain(["1.1.1.3".to_owned()]).collect();
    assert_eq!(since, new);
    scene.holds("pods", (&space, "flying"), 0, &run_of("10.9.0.10", 2)).await;
    scene.holds("pods", (&space, "late"), 0, &run_of("10.9.0.12", 2)).await;
    goes_on(&scene, &space).await;
    same_under_others(&mut scene, &space).await;
    recorder.never_fell();
    external_pool_goes(&scene, &space).await;
    scene.end().await;
}

/// Antrea's work is taken over: what is new gets what is free, and what was kept is used.
async fn goes_on(scene: &Scene, space: &str) {
    scene.api.create(Kind::StatefulSet, &set(space, "new", 2, "pods")).await;
    scene.holds("pods", (space, "new"), 0, &run_of("10.9.0.14", 2)).await;
    scene.scale(space, "scaled", 3).await;
    let pods = scene.runs(space, "scaled", 0..3).await;
    let addresses: Vec<_> = pods.values().map(|pod| pod["status"]["podIP"].as_str().expect("an address")).collect();
    assert_eq!(addresses, run_of("10.9.0.30", 3));
    // A Pod made anew has the address of its reservation, and gives back what it ran with.
    let told = scene.event(Kind::Pod, "flying-0", "AddressNotUsed").await;
    assert!(told.contains("10.9.0.40") && told.contains("10.9.0.10"), "{told}");
    scene.api.delete(Kind::Pod, space, "flying-0").await;
    let again = |pod: Option<&Value>| pod.is_some_and(|pod| pod["status"]["podIP"] == "10.9.0.10");
    scene.api.until(Kind::Pod, space, "flying-0", "its own address", again).await;
    let freed = |rows: &Rows| !rows.grants.contains_key(&"10.9.0.40".parse().expect("an address"));
    scene.ledger("10.9.0.40 as free", freed).await;
    scene.api.create(Kind::Egress, &egress("new", &json!({"externalIPPool": "external"}))).await;
    let fourth = |egress: Option<&Value>| egress.is_some_and(|it| it["spec"]["egressIP"] == "1.1.1.4");
    scene.api.until(Kind::Egress, "", "new", "an address", fourth).await;
}

/// A new leader, and a later start, adopt nothing: what the ledger says is put back.
async fn same_under_others(scene: &mut Scene, space: &str) {
    let before = kept(&scene.settled().await.rows);
    let leader = scene.leader().await;
    scene.group.kill(leader);
    scene.leader_but(Some(leader)).await;
    scene.group.start_replica(leader);
    scene.seen().await;
    assert_eq!(kept(&scene.settled().await.rows), before);

    (0..3).for_each(|at| scene.group.kill(at));
    let pool = scene.api.get(Kind::IpPool, "", "pods").await.expect("is there");
    let mut list = pool["status"]["ipAddresses"].as_array().expect("a list").clone();
    list.push(reserved("10.9.0.50", space, "web", 3));
    scene.lists(&list).await;
    let status = json!({"status": {"egressNode": "node1", "egressIP": "1.1.1.1"}});
    scene.api.patch_status(Kind::Egress, "", "chosen", "antrea-agent", &status).await;
    (0..3).for_each(|at| scene.group.start_replica(at));
    scene.leader().await;
    let after = scene.settled().await;
    assert_eq!(kept(&after.rows), before);
    assert_eq!(after.egresses["chosen"]["status"]["egressNode"], "node2");
}

/// Chosen addresses go with their pool; a user's stays where it was written, and a Service's is held on.
async fn external_pool_goes(scene: &Scene, space: &str) {
    scene.api.delete(Kind::ExternalIpPool, "", "external").await;
    let has = |address: Value| move |egress: Option<&Value>| egress.is_some_and(|it| it["spec"]["egressIP"] == address);
    for name in ["chosen", "second"] {
        scene.api.until(Kind::Egress, "", name, "no address", has(Value::Null)).await;
    }
    scene.condition(Kind::Egress, "asked", "IPAllocated", "False", "AllocationError").await;
    let world = scene.settled().await;
    assert_eq!(world.egresses["asked"]["spec"]["egressIP"], "1.1.1.11");
    assert_eq!(*holder(&world.rows, "1.1.1.2"), Held::Other(format!("Service {space}/balanced")));
}

/// Objects that contradict each other; each line that claims what another has, or that nobody can have, comes first.
async fn leave_contradictions(stage: &Stage, space: &str) {
    let kubelet = Kubelet::of_scenes(stage.api.client.clone(), Addresses::Reserved);
    stage.lists(&each("10.9.0.10", 0..2, (space, "web"), reserved)).await;
    for (name, replicas) in [("web", 2), ("rival", 1)] {
        stage.api.create(Kind::StatefulSet, &set(space, name, replicas, "pods")).await;
    }
    stage.has_run(space, "web", 0..2).await;
    // Nobody gives the rival's Pod what its entry is going to say.
    drop(kubelet);
    for (name, address) in [("loose", "10.9.0.12"), ("holder", "10.9.0.13"), ("other", "10.9.0.14")] {
        stage.loose(space, name, address).await;
    }
    let rival = |address: &str, index| reserved(address, space, "rival", index);
    stage
        .lists(&[
            rival("10.9.0.10", 0),
            rival("10.9.0.11", 1),
            rival("10.9.0.12", 2),
            of_pod("10.9.0.13", space, "other"),
            of_pod("10.9.0.13", space, "holder"),
            rival("10.9.0.200", 3),
            of_ordinal("10.9.0.10", space, "web", 0),
            // The agent has not come to say that its Pod runs.
            reserved("10.9.0.11", space, "web", 1),
            of_ordinal("10.9.0.15", space, "gone", 0),
            reserved("10.9.0.300", space, "web", 1),
            json!({"ipAddress": "10.9.0.16", "owner": {"name": ""}}),
        ])
        .await;
    // Antrea lets pools overlap; here the first one gives what is in both.
    stage.api.create(Kind::IpPool, &pool("wide", &[range("10.9.0.14", "10.9.0.99")], "10.9.0.1", 24)).await;
    let list = json!({"status": {"ipAddresses": [of_pod("10.9.0.14", space, "other")]}});
    stage.api.patch_status(Kind::IpPool, "", "wide", "antrea-agent", &list).await;

    stage.egress("first", "kubectl", "1.1.1.1", "node1").await;
    stage.egress("second", "kubectl", "1.1.1.1", "").await;
    stage.egress("third", "kubectl", "1.1.1.2", "node1").await;
    stage.egress("fourth", "antrea-controller", "1.1.1.1", "").await;
    stage.service(space, "balanced", "1.1.1.2").await;
}

/// Waits until so many Events about an object say this; each says it once.
async fn told(scene: &Scene, kind: Kind, name: &str, reason: &str, addresses: &[&str]) {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let events = scene.events(kind, name, reason).await;
        let notes: Vec<_> = events.iter().map(|event| event["note"].as_str().expect("text")).collect();
        if notes.len() >= addresses.len() {
            assert_eq!(notes.len(), addresses.len(), "{notes:#?}");
            for address in addresses {
                let of: Vec<_> = notes.iter().filter(|note| note.contains(address)).collect();
                assert_eq!(of.len(), 1, "{address}: {notes:#?}");
            }
            assert!(events.iter().all(|event| event["series"].is_null()), "{events:#?}");
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{kind:?} {name} {reason}: {notes:#?}");
        tokio::time::sleep(PAUSE).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contradictions_are_told_one_by_one_and_take_nothing_from_a_running_pod() {
    let Some(stage) = Stage::empty().await else { return };
    let space = stage.namespace("contradict").await;
    stage.pools("10.9.0.29").await;
    leave_contradictions(&stage, &space).await;
    let mut scene = stage.play(&[]);
    scene.ledger("what was left", |rows| rows.adoption.as_ref().is_some_and(|row| row.complete)).await;
    // What cannot be read there is gone.
    let written = |pool: Option<&Value>| pool.is_some_and(|pool| pool["status"]["holdfast"].is_object());
    scene.api.until(Kind::IpPool, "", "pods", "the ledger's word", written).await;
    keeps_what_runs(&scene.settled().await, &space);

    let rival = ["10.9.0.10 ", "10.9.0.11 ", "10.9.0.12 ", "10.9.0.200 "];
    told(&scene, Kind::StatefulSet, "rival", "AdoptConflict", &rival).await;
    told(&scene, Kind::Pod, "other", "AdoptConflict", &["10.9.0.13 ", "10.9.0.14 "]).await;
    for (name, address) in [("second", "1.1.1.1 "), ("third", "1.1.1.2 "), ("fourth", "1.1.1.1 ")] {
        told(&scene, Kind::Egress, name, "AdoptConflict", &[address]).await;
    }
    let nobodys = ["10.9.0.15", "10.9.0.16", "10.9.0.300"];
    told(&scene, Kind::IpPool, "pods", "NotAdopted", &nobodys).await;
    let listed = conflicts(&scene);
    assert_eq!(listed.len(), 9, "{listed:#?}");
    let log = scene.log();
    let warned = |text: &str| log.iter().filter(|line| line.contains("WARN") && line.contains(text)).count();
    for conflict in &listed {
        assert_eq!(warned(conflict), 1, "{conflict}: {log:#?}");
    }
    for address in nobodys {
        assert_eq!(warned(address), 1, "{address}: {log:#?}");
    }
    tells_what_nobody_has(&mut scene, nobodys, &listed).await;

    // Every address that is left is given; those of running Pods are not.
    let _kubelet = Kubelet::of_scenes(scene.api.client.clone(), Addresses::Reserved);
    scene.holds("pods", (&space, "rival"), 0, &run_of("10.9.0.15", 1)).await;
    scene.api.create(Kind::StatefulSet, &set(&space, "fill", 14, "pods")).await;
    scene.holds("pods", (&space, "fill"), 0, &run_of("10.9.0.16", 14)).await;
    scene.runs(&space, "fill", 0..14).await;
    scene.runs(&space, "rival", 0..1).await;
    let world = scene.settled().await;
    keeps_what_runs(&world, &space);
    assert_eq!(world.pools["pods"]["status"]["usage"]["free"], 0);
    no_address_twice(&scene.api).await;
    scene.end().await;
}

/// What was passed over is told beside the conflicts, by whoever adopted, and for as long as its process runs; the
/// conflicts by all, for ever.
async fn tells_what_nobody_has(scene: &mut Scene, addresses: [&str; 3], conflicts_told: &[String]) {
    let (adopter, listed) = passed_over(scene);
    assert_eq!(listed.len(), addresses.len(), "{listed:#?}");
    for address in addresses {
        let of: Vec<_> =
            listed.iter().filter(|(object, why)| object == "IPPool pods" && why.contains(address)).collect();
        assert_eq!(of.len(), 1, "{address}: {listed:#?}");
        assert!(
            !conflicts_told.iter().any(|conflict| conflict.contains(&format!("{address} "))),
            "{conflicts_told:#?}"
        );
    }
    let in_text = |scene: &Scene| {
        let text = scene.group.holdfast(&["status"]).expect(0).out;
        let line = |(object, why): &(String, String)| format!("  passed over on the first start: {object}: {why}");
        let told = |wanted: &String| text.lines().filter(|line| *line == wanted.as_str()).count();
        assert!(listed.iter().all(|it| told(&line(it)) == 1), "{text}");
        let conflict = |conflict: &String| format!("  conflict on the first start: {conflict}");
        assert!(conflicts_told.iter().all(|it| told(&conflict(it)) == 1), "{text}");
    };
    in_text(scene);
    let at = (0..3).find(|at| Group::name(*at) == adopter).expect("a replica");
    if scene.leader().await == at {
        scene.group.holdfast(&["leader", "transfer"]).expect(0);
    }
    scene.leader_but(Some(at)).await;
    scene.seen().await;
    assert_eq!(passed_over(scene), (adopter, listed.clone()));
    in_text(scene);
    scene.group.kill(at);
    scene.group.start_replica(at);
    scene.leader().await;
    scene.seen().await;
    assert_eq!(conflicts(scene), conflicts_told);
    let told: Vec<_> = bridges(scene).into_values().map(|bridge| bridge["passedOver"].clone()).collect();
    assert_eq!(told, vec![json!([]); 3]);
}

/// Each running Pod has the address that it ran with, and the Egresses what nobody had before them.
fn keeps_what_runs(world: &World, space: &str) {
    let rows = &world.rows;
    let ordinal =
        |ordinal| Held::Ordinal { namespace: space.to_owned(), name: "web".to_owned(), ordinal, former: false };
    assert_eq!(*holder(rows, "10.9.0.10"), ordinal(0));
    assert_eq!(*holder(rows, "10.9.0.11"), ordinal(1));
    for (name, address) in [("loose", "10.9.0.12"), ("holder", "10.9.0.13"), ("other", "10.9.0.14")] {
        assert_eq!(*holder(rows, address), Held::Other(format!("{space}/{name}")));
    }
    assert_eq!(*holder(rows, "1.1.1.1"), Held::Egress("first".into()));
    assert_eq!(*holder(rows, "1.1.1.2"), Held::Other(format!("Service {space}/balanced")));
    let spec = |name: &str| world.egresses[name]["spec"]["egressIP"].clone();
    // What a user wrote stands there; what was chosen is chosen anew.
    assert_eq!((spec("second"), spec("third"), spec("fourth")), (json!("1.1.1.1"), json!("1.1.1.2"), json!("1.1.1.3")));
}

/// No two Pods run with one address.
async fn no_address_twice(api: &Api) {
    let mut seen = BTreeMap::new();
    for pod in api.list(Kind::Pod).await {
        if let Some(address) = pod["status"]["podIP"].as_str() {
            let twice = seen.insert(address.to_owned(), pod["metadata"]["name"].clone());
            assert_eq!(twice, None, "{address} of {}", pod["metadata"]["name"]);
        }
    }
}
