//! Egresses, ExternalIPPools and Nodes: addresses, and the Nodes that carry them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::scene::{Kind, Rows, Scene, World, cidr, egress, external_pool, node, range, ready};

/// Each Egress, with its Node; no Node is none.
type Placed<'a> = &'a [(&'a str, &'a str)];

impl Scene {
    /// Waits until these Egresses are on these Nodes.
    async fn placed(&self, wanted: Placed<'_>) {
        for (name, node) in wanted {
            let on = |egress: Option<&Value>| {
                egress.is_some_and(|egress| egress["status"]["egressNode"].as_str() == Some(node))
            };
            self.api.until(Kind::Egress, "", name, &format!("the Node {node:?}"), on).await;
        }
    }

    /// Makes Nodes that are Ready.
    async fn nodes(&self, names: &[&str]) {
        for name in names {
            self.api.create(Kind::Node, &node(name)).await;
        }
    }

    /// Changes a Node, and waits until the ledger knows it as it is now. `change` is a merge patch of its metadata.
    async fn change_node(&self, name: &str, mut change: Value) {
        let version = self.rows().await.revision.to_string();
        change["labels"]["changed"] = version.as_str().into();
        self.api.patch(Kind::Node, "", name, &json!({"metadata": change})).await;
        let known = |rows: &Rows| rows.nodes.get(name).and_then(|row| row.labels.get("changed")) == Some(&version);
        self.ledger(&format!("the change of {name}"), known).await;
    }

    /// Sets how many addresses a Node may carry; `null` for as many as the others.
    async fn capacity(&self, name: &str, capacity: impl Into<Value>) {
        let capacity: Value = capacity.into();
        self.change_node(name, json!({"annotations": {"node.antrea.io/max-egress-ips": capacity}})).await;
    }

    /// Says of a Node that it is Ready, or not.
    async fn ready(&self, name: &str, status: &str) {
        let patch = json!({"status": {"conditions": [ready(status)]}});
        self.api.patch_status(Kind::Node, "", name, "kubelet", &patch).await;
    }

    /// Waits until an Egress has this address in its spec; `null` for none.
    async fn address(&self, name: &str, address: impl Into<Value>) {
        let address: Value = address.into();
        let has = |egress: Option<&Value>| egress.is_some_and(|egress| egress["spec"]["egressIP"] == address);
        self.api.until(Kind::Egress, "", name, &format!("spec.egressIP {address}"), has).await;
    }
}

/// Where every Egress address is, and since which revision.
fn epochs(world: &World) -> BTreeMap<String, (String, String, u64)> {
    let epoch = |row: &holdfast_api::v1::PlacementRow| {
        let revision = row.stamp.as_ref().expect("a stamp").revision;
        (row.address.clone(), row.node.clone(), revision)
    };
    world.rows.placements.values().map(|row| (row.egress.clone(), epoch(row))).collect()
}

/// The Egresses that are elsewhere than before, or have another address, or none.
fn moved(before: &World, after: &World) -> Vec<String> {
    let (before, after) = (epochs(before), epochs(after));
    let mut names: Vec<_> = before.keys().chain(after.keys()).cloned().collect();
    names.sort();
    names.dedup();
    names.into_iter().filter(|name| before.get(name) != after.get(name)).collect()
}

/// Addresses of Antrea's own vectors, in the order of their Egresses.
const ABC: [(&str, &str); 3] = [("a", "1.1.1.1"), ("b", "1.1.1.11"), ("c", "1.1.1.21")];

async fn abc(scene: &Scene) {
    for (name, address) in ABC {
        let fields = json!({"externalIPPool": "external", "egressIP": address});
        scene.api.create(Kind::Egress, &egress(name, &fields)).await;
    }
}

/// As Antrea places, everything is computed anew at each change.
async fn as_antrea() -> Option<Scene> {
    let scene = Scene::start().await?;
    scene.group.holdfast(&["settings", "set", "--policy", "consistent-hash"]).expect(0);
    let external = external_pool("external", &[range("1.1.1.1", "1.1.1.30")]);
    scene.api.create(Kind::ExternalIpPool, &external).await;
    Some(scene)
}

fn default_capacity(scene: &Scene, capacity: u32) {
    scene.group.holdfast(&["settings", "set", "--default-capacity", &capacity.to_string()]).expect(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn placements_of_antreas_vectors() {
    let Some(scene) = as_antrea().await else { return };
    let all = ["node1", "node2", "node3"];
    scene.nodes(&all).await;
    abc(&scene).await;
    default_capacity(&scene, 3);
    scene.placed(&[("a", "node1"), ("b", "node3"), ("c", "node1")]).await;
    scene.settled().await;
    for (name, capacity) in [("node1", "0"), ("node2", "2"), ("node3", "0")] {
        scene.capacity(name, capacity).await;
    }
    scene.placed(&[("a", "node2"), ("b", "node2"), ("c", "")]).await;
    scene.settled().await;
    for name in all {
        scene.capacity(name, Value::Null).await;
    }
    default_capacity(&scene, 1);
    scene.placed(&[("a", "node1"), ("b", "node3"), ("c", "node2")]).await;
    scene.api.delete(Kind::Node, "", "node2").await;
    scene.placed(&[("a", "node1"), ("b", "node3"), ("c", "")]).await;
    scene.settled().await;
    // The ring alone.
    for name in ["b", "c"] {
        scene.api.delete(Kind::Egress, "", name).await;
    }
    for name in ["node1", "node3"] {
        scene.api.delete(Kind::Node, "", name).await;
    }
    scene.placed(&[("a", "")]).await;
    let mut there = 0;
    for (count, wanted) in [(1, "node-0"), (3, "node-1"), (10, "node-1"), (100, "node-79")] {
        for number in there..count {
            scene.nodes(&[&format!("node-{number}")]).await;
        }
        there = count;
        scene.ledger("all Nodes", |rows| rows.nodes.len() == count).await;
        scene.placed(&[("a", wanted)]).await;
    }
    scene.settled().await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sequence_of_antreas_own_test() {
    let Some(scene) = as_antrea().await else { return };
    default_capacity(&scene, 2);
    scene.nodes(&["node1", "node2"]).await;
    abc(&scene).await;
    scene.placed(&[("a", "node1"), ("b", "node2"), ("c", "node1")]).await;
    let mut before = scene.settled().await;
    let mut step = async |number: u32, placed: Placed<'_>, changed: &[&str]| {
        scene.placed(placed).await;
        let after = scene.settled().await;
        assert_eq!(moved(&before, &after), changed, "step {number}");
        before = after;
    };
    scene.api.patch(Kind::Egress, "", "a", &json!({"spec": {"egressIP": "1.1.1.5"}})).await;
    step(2, &[("a", "node2"), ("b", "node2"), ("c", "node1")], &["a"]).await;
    scene.api.delete(Kind::Node, "", "node2").await;
    step(3, &[("a", "node1"), ("b", "node1"), ("c", "")], &["a", "b", "c"]).await;
    scene.api.delete(Kind::Egress, "", "a").await;
    step(4, &[("b", "node1"), ("c", "node1")], &["a", "c"]).await;
    let fields = json!({"externalIPPool": "external", "egressIP": "1.1.1.1"});
    scene.api.create(Kind::Egress, &egress("d", &fields)).await;
    step(5, &[("b", "node1"), ("c", "node1"), ("d", "")], &[]).await;
    scene.nodes(&["node2"]).await;
    step(6, &[("b", "node2"), ("c", "node1"), ("d", "node1")], &["b", "d"]).await;
    scene.capacity("node1", "invalid-value").await;
    step(7, &[("b", "node2"), ("c", "node1"), ("d", "node1")], &[]).await;
    scene.capacity("node1", "1").await;
    step(8, &[("b", "node2"), ("c", "node1"), ("d", "node2")], &["d"]).await;
    scene.capacity("node1", Value::Null).await;
    step(9, &[("b", "node2"), ("c", "node1"), ("d", "node1")], &["d"]).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_of_egresses() {
    let Some(scene) = Scene::start().await else { return };
    let api = &scene.api;
    scene.nodes(&["node1"]).await;
    let chosen = |name: &str| egress(name, &json!({"externalIPPool": "external"}));
    let asked = |name: &str, address: &str| egress(name, &json!({"externalIPPool": "external", "egressIP": address}));
    // An Egress may come before its pool.
    api.create(Kind::Egress, &chosen("first")).await;
    scene.condition(Kind::Egress, "first", "IPAllocated", "False", "AllocationError").await;
    let ranges = [cidr("1.1.1.0/30"), range("1.1.2.10", "1.1.2.12")];
    api.create(Kind::ExternalIpPool, &external_pool("external", &ranges)).await;
    scene.address("first", "1.1.1.1").await;
    scene.condition(Kind::Egress, "first", "IPAllocated", "True", "Allocated").await;
    let assigned = scene.condition(Kind::Egress, "first", "IPAssigned", "True", "Assigned").await;
    assert_eq!(assigned["message"], "decided for Node node1, not confirmed by an agent");
    api.create(Kind::Egress, &asked("second", "1.1.1.2")).await;
    api.create(Kind::Egress, &chosen("third")).await;
    scene.address("third", "1.1.2.10").await;
    // Outside; another's.
    for (name, address) in [("outside", "1.1.1.3"), ("taken", "1.1.1.1")] {
        api.create(Kind::Egress, &asked(name, address)).await;
        let why = scene.condition(Kind::Egress, name, "IPAllocated", "False", "AllocationError").await;
        assert!(why["message"].as_str().is_some_and(|it| it.contains(address)), "{why}");
        scene.condition(Kind::Egress, name, "IPAssigned", "False", "AssignmentError").await;
    }
    scene.settled().await;
    // None is left for the last: whoever frees one wakes it.
    for (name, address) in [("fourth", "1.1.2.11"), ("fifth", "1.1.2.12")] {
        api.create(Kind::Egress, &chosen(name)).await;
        scene.address(name, address).await;
    }
    api.create(Kind::Egress, &chosen("waits")).await;
    scene.condition(Kind::Egress, "waits", "IPAllocated", "False", "AllocationError").await;
    scene.condition(Kind::ExternalIpPool, "external", "Exhausted", "True", "NoneFree").await;
    let columns = scene.control_plane().kubectl(&["get", "eip", "external"]).expect(0).out;
    let columns: Vec<_> = columns.lines().nth(1).expect("a row").split_whitespace().take(3).collect();
    assert_eq!(columns, ["external", "5", "5"]);
    let columns = scene.control_plane().kubectl(&["get", "eg", "first"]).expect(0).out;
    let columns: Vec<_> = columns.lines().nth(1).expect("a row").split_whitespace().collect();
    assert_eq!((columns[1], columns[3]), ("1.1.1.1", "node1"));
    api.delete(Kind::Egress, "", "third").await;
    scene.address("waits", "1.1.2.10").await;
    api.delete(Kind::Egress, "", "first").await;
    scene.condition(Kind::Egress, "taken", "IPAllocated", "True", "Allocated").await;
    scene.settled().await;
    // Without its pool it is static: its address is nobody's business, and free for others.
    api.patch(Kind::Egress, "", "fifth", &json!({"spec": {"externalIPPool": null}})).await;
    let nothing = |egress: Option<&Value>| egress.is_some_and(|it| it["status"]["egressNode"] == "");
    api.until(Kind::Egress, "", "fifth", "no Node", nothing).await;
    api.create(Kind::Egress, &chosen("sixth")).await;
    scene.address("sixth", "1.1.2.12").await;
    scene.settled().await;
    // Another pool: another address.
    api.create(Kind::ExternalIpPool, &external_pool("another", &[range("1.1.4.1", "1.1.4.9")])).await;
    api.patch(Kind::Egress, "", "sixth", &json!({"spec": {"externalIPPool": "another"}})).await;
    scene.address("sixth", "1.1.4.1").await;
    api.patch(Kind::Egress, "", "sixth", &json!({"spec": {"externalIPPool": "external"}})).await;
    scene.address("sixth", "1.1.2.12").await;
    scene.settled().await;
    // The pool goes: so do the addresses that were chosen, and only they.
    api.delete(Kind::ExternalIpPool, "", "external").await;
    for name in ["fourth", "waits", "sixth"] {
        scene.address(name, Value::Null).await;
    }
    scene.condition(Kind::Egress, "second", "IPAllocated", "False", "AllocationError").await;
    scene.address("second", "1.1.1.2").await;
    scene.placed(&[("second", ""), ("fourth", "")]).await;
    scene.settled().await;
    // Made again with other ranges: others are chosen, in the order of the first wait.
    api.create(Kind::ExternalIpPool, &external_pool("external", &[range("1.1.3.1", "1.1.3.9")])).await;
    for name in ["fourth", "waits", "sixth"] {
        let has = |egress: Option<&Value>| {
            egress.is_some_and(|it| it["spec"]["egressIP"].as_str().is_some_and(|ip| ip.starts_with("1.1.3.")))
        };
        api.until(Kind::Egress, "", name, "an address of the new ranges", has).await;
    }
    scene.settled().await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_addresses_of_one_egress() {
    let Some(scene) = Scene::start().await else { return };
    scene.nodes(&["node1", "node2", "node3"]).await;
    for (name, address) in [("one", "1.1.1.1"), ("two", "1.1.2.1"), ("six", "2021::1")] {
        scene.api.create(Kind::ExternalIpPool, &external_pool(name, &[range(address, address)])).await;
    }
    let fields = json!({"externalIPPools": ["one", "two", "six", "none"], "egressIPs": ["", "1.1.2.1", ""]});
    scene.api.create(Kind::Egress, &egress("several", &fields)).await;
    let filled = |egress: Option<&Value>| {
        egress.is_some_and(|it| it["spec"]["egressIPs"] == json!(["1.1.1.1", "1.1.2.1", "2021::1", ""]))
    };
    scene.api.until(Kind::Egress, "", "several", "each address at its index", filled).await;
    let why = scene.condition(Kind::Egress, "several", "IPAllocated", "False", "AllocationError").await;
    assert!(why["message"].as_str().is_some_and(|it| it.contains("3 of 4")), "{why}");
    let world = scene.settled().await;
    let status = &world.egresses["several"]["status"];
    let nodes: std::collections::BTreeSet<_> =
        status["egressIPs"].as_array().expect("a list").iter().map(|it| it["node"].to_string()).collect();
    assert_eq!(nodes.len(), 3, "each on a Node of its own: {status}");
    assert_eq!(status["egressIP"], "1.1.1.1");
    scene.api.create(Kind::ExternalIpPool, &external_pool("none", &[range("1.1.4.1", "1.1.4.1")])).await;
    scene.condition(Kind::Egress, "several", "IPAllocated", "True", "Allocated").await;
    scene.condition(Kind::Egress, "several", "IPAssigned", "True", "Assigned").await;
    scene.settled().await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_goes_moves_what_it_carries_and_nothing_else() {
    let Some(scene) = Scene::start().await else { return };
    let api = &scene.api;
    scene.nodes(&["node1", "node2", "node3", "node4"]).await;
    for name in ["node1", "node2", "node3"] {
        api.patch(Kind::Node, "", name, &json!({"metadata": {"labels": {"egress": "yes"}}})).await;
    }
    let mut external = external_pool("external", &[range("1.1.1.1", "1.1.1.40")]);
    external["spec"]["nodeSelector"] = json!({"matchLabels": {"egress": "yes"}});
    api.create(Kind::ExternalIpPool, &external).await;
    for number in 0..20 {
        api.create(Kind::Egress, &egress(&format!("e{number:02}"), &json!({"externalIPPool": "external"}))).await;
    }
    scene.placed_somewhere(20).await;
    let carried = |world: &World, node: &str| {
        let on = epochs(world).into_iter().filter(|(_, (_, on, _))| on == node);
        on.map(|(name, _)| name).collect::<Vec<_>>()
    };
    let start = scene.settled().await;
    assert_eq!(carried(&start, "node4"), Vec::<String>::new(), "its label does not match");
    // Each change moves exactly what it made impossible.
    scene.ready("node1", "Unknown").await;
    let without = scene.emptied("node1").await;
    assert_eq!(moved(&start, &without), carried(&start, "node1"));
    scene.ready("node1", "True").await;
    scene.ledger("node1 again", |rows| rows.nodes["node1"].ready).await;
    let back = scene.settled().await;
    assert_eq!(moved(&without, &back), Vec::<String>::new(), "a Node that returns gets nothing back by itself");
    scene.change_node("node2", json!({"labels": {"egress": "no"}})).await;
    let relabelled = scene.emptied("node2").await;
    assert_eq!(moved(&back, &relabelled), carried(&back, "node2"));
    let on_three = carried(&relabelled, "node3");
    let kept = on_three.len() - 2;
    scene.capacity("node3", kept.to_string()).await;
    let cut = scene.settled().await;
    assert_eq!(moved(&relabelled, &cut), on_three[kept..], "the last in order go");
    api.delete(Kind::Node, "", "node3").await;
    let deleted = scene.emptied("node3").await;
    assert_eq!(moved(&cut, &deleted), carried(&cut, "node3"));
    assert_eq!(carried(&deleted, "node1").len(), 20);
    // More than a Node can carry is clamped, and said.
    scene.capacity("node1", "300").await;
    let told = scene.event(Kind::Node, "node1", "CapacityClamped").await;
    assert!(told.contains("300") && told.contains("255"), "{told}");
    assert_eq!(scene.rows().await.nodes["node1"].capacity, Some(255));
    // Too few for all: the others are homeless, and each says why.
    scene.capacity("node1", "5").await;
    scene.placed_somewhere(5).await;
    let last = scene.condition(Kind::Egress, "e19", "IPAssigned", "False", "AssignmentError").await;
    assert!(last["message"].as_str().is_some_and(|it| it.contains("1 AtCapacity")), "{last}");
    scene.settled().await;
    scene.end().await;
}

impl Scene {
    /// Waits until so many addresses are on Nodes.
    async fn placed_somewhere(&self, count: usize) {
        self.ledger("so many placements", |rows| rows.placements.len() == count).await;
    }

    /// Waits until a Node carries nothing, and all is at rest.
    async fn emptied(&self, node: &str) -> World {
        let empty = |rows: &Rows| rows.placements.values().all(|row| row.node != node);
        self.ledger(&format!("nothing on {node}"), empty).await;
        self.settled().await
    }
}
