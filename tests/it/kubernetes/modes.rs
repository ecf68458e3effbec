//! Whose the objects are is asked before anything is done; and when a Node counts as there.

use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::scene::{Kind, PATIENCE, PAUSE, Rows, Scene, Stage, egress, external_pool, node, range};
use crate::fixtures::{Process, command, free_addresses};

/// So long ago, as Kubernetes writes it.
fn ago(minutes: i64) -> String {
    (Timestamp::now() - SignedDuration::from_mins(minutes)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A group of one replica.
struct Alone {
    directory: TempDir,
    address: String,
}

impl Alone {
    fn new() -> Alone {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Alone { directory, address: free_addresses(1).swap_remove(0) }
    }

    /// Starts it in a mode.
    fn serve(&self, stage: &Stage, mode: &str) -> Process {
        let mut serve = command();
        serve.args(["serve", "--name", "a", "--listen", &self.address, "--cluster-token", "test"]);
        serve.args(["--initial-members", &format!("a={}", self.address), "--disk-watermark", "0"]);
        serve.args(["--log-format", "json", mode]).arg("--data-dir").arg(self.directory.path());
        serve.env("KUBECONFIG", stage.kubeconfig());
        Process::start(&mut serve)
    }

    /// What it says on standard error when it ends, which it does by itself and not well.
    #[track_caller]
    fn refuses(&self, stage: &Stage, mode: &str) -> String {
        let mut process = self.serve(stage, mode);
        let code = process.end();
        let said = process.seen();
        // The log is JSON.
        let last = said.iter().find(|line| line.starts_with("holdfast: "));
        assert_eq!(code, 1, "{said:#?}");
        last.unwrap_or_else(|| panic!("it says nothing: {said:#?}")).clone()
    }

    /// Starts it, and waits until it has begun to work.
    #[track_caller]
    fn works(&self, stage: &Stage, mode: &str) {
        let mut process = self.serve(stage, mode);
        process.line(|line| line.contains("\"adopted\""));
        process.terminate();
        assert_eq!(process.end(), 0);
    }

    /// Starts it in the mode that it began in, and waits until it follows the API.
    #[track_caller]
    fn works_on(&self, stage: &Stage) {
        let mut process = self.serve(stage, "--kubernetes");
        process.line(|line| line.contains("\"listed\""));
        process.terminate();
        assert_eq!(process.end(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mode_that_does_not_fit_the_definitions_ends_the_replica() {
    let label = "holdfast.dev/crds: standalone";
    let Some(stage) = Stage::empty().await else { return };
    let said = Alone::new().refuses(&stage, "--kubernetes=antrea");
    assert!(said.contains("egresses.crd.antrea.io") && said.contains(label), "{said}");
    assert!(said.contains("--kubernetes=standalone"), "{said}");
    drop(stage);
    let Some(stage) = Stage::beside_antrea().await else { return };
    let said = Alone::new().refuses(&stage, "--kubernetes");
    assert!(said.contains("egresses.crd.antrea.io") && said.contains(label), "{said}");
    assert!(said.contains("deploy/crds") && said.contains("--kubernetes=antrea"), "{said}");
    // Nothing was written to find that out.
    assert_eq!(stage.writes(), Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_keeps_the_mode_that_it_began_in() {
    let Some(stage) = Stage::empty().await else { return };
    let (ours, theirs) = (Alone::new(), Alone::new());
    ours.works(&stage, "--kubernetes");
    drop(stage);
    let Some(stage) = Stage::beside_antrea().await else { return };
    let said = ours.refuses(&stage, "--kubernetes=antrea");
    assert!(said.contains("mode antrea: this group adopted") && said.contains("in mode standalone"), "{said}");
    theirs.works(&stage, "--kubernetes=antrea");
    drop(stage);
    let Some(stage) = Stage::empty().await else { return };
    let said = theirs.refuses(&stage, "--kubernetes");
    assert!(said.contains("mode standalone: this group adopted") && said.contains("in mode antrea"), "{said}");
    ours.works_on(&stage);
}

/// The kind in which antrea-controller says that it runs, until it is dropped.
struct Heartbeats<'a>(&'a Stage);

const HEARTBEATS: &str = "antreacontrollerinfos.crd.antrea.io";

impl Heartbeats<'_> {
    /// Defines the kind, with one heartbeat at this time.
    async fn define<'a>(stage: &'a Stage, at: &str) -> Heartbeats<'a> {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = json!({
            "metadata": {"name": HEARTBEATS},
            "spec": {
                "group": "crd.antrea.io",
                "scope": "Cluster",
                "names": {
                    "kind": "AntreaControllerInfo",
                    "plural": "antreacontrollerinfos",
                    "singular": "antreacontrollerinfo",
                },
                "versions": [
                    {"name": "v1beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}},
                ],
            },
        });
        stage.api.create(Kind::Definition, &definition).await;
        let heartbeats = Heartbeats(stage);
        let deadline = Instant::now() + PATIENCE;
        let info = json!({"metadata": {"name": "antrea-controller"}, "controllerConditions": condition(at)});
        while let Err(error) = stage.api.try_create(Kind::AntreaControllerInfo, &info).await {
            assert!(Instant::now() < deadline, "the kind is not served: {error}");
            tokio::time::sleep(PAUSE).await;
        }
        heartbeats
    }

    /// Its last heartbeat was at this time.
    async fn beat(&self, at: &str) {
        let patch = json!({"controllerConditions": condition(at)});
        self.0.api.patch(Kind::AntreaControllerInfo, "", "antrea-controller", &patch).await;
    }
}

fn condition(at: &str) -> Value {
    json!([{"type": "ControllerHealthy", "status": "True", "lastHeartbeatTime": at}])
}

impl Drop for Heartbeats<'_> {
    fn drop(&mut self) {
        let plane = self.0.control_plane();
        let gone = plane.kubectl(&["delete", "customresourcedefinition", HEARTBEATS, "--timeout=60s"]);
        // One panic is enough.
        assert!(gone.code == 0 || std::thread::panicking(), "{gone:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mode_standalone_ends_while_antrea_controller_is_at_work() {
    let Some(stage) = Stage::empty().await else { return };
    let now = ago(0);
    let heartbeats = Heartbeats::define(&stage, &now).await;
    let said = Alone::new().refuses(&stage, "--kubernetes");
    assert!(said.contains("antrea-controller is at work") && said.contains(&now), "{said}");
    assert_eq!(stage.writes(), Vec::<Value>::new());
    heartbeats.beat(&ago(6)).await;
    Alone::new().works(&stage, "--kubernetes");
}

impl Scene {
    /// Says of a Node whether it is Ready, and since when; and waits until the ledger knows the Node as it is then.
    async fn says(&self, name: &str, status: &str, since: &str) -> Rows {
        let mut ready = super::scene::ready(status);
        ready["lastTransitionTime"] = since.into();
        let patch = json!({"status": {"conditions": [ready]}});
        self.api.patch_status(Kind::Node, "", name, "kubelet", &patch).await;
        let mark = self.rows().await.revision.to_string();
        self.api.patch(Kind::Node, "", name, &json!({"metadata": {"labels": {"mark": mark}}})).await;
        let known = |rows: &Rows| rows.nodes[name].labels.get("mark") == Some(&mark);
        self.ledger(&format!("the change of {name}"), known).await
    }

    /// Waits until the only Egress address is on this Node.
    async fn carried_by(&self, node: &str) -> Rows {
        self.ledger(&format!("the address on {node}"), |rows| on(rows).0 == node).await
    }
}

/// Where the only Egress address is, and since which revision.
fn on(rows: &Rows) -> (String, u64) {
    let row = rows.placements.values().next();
    row.map_or((String::new(), 0), |row| (row.node.clone(), row.stamp.as_ref().expect("a stamp").revision))
}

/// Two Nodes, and one Egress, which is on node1.
async fn one_on_node1(options: &[&str]) -> Option<Scene> {
    let scene = Stage::empty().await?.play(options);
    for name in ["node1", "node2"] {
        scene.api.create(Kind::Node, &node(name)).await;
        scene.ledger(name, |rows| rows.nodes.contains_key(name)).await;
    }
    scene.api.create(Kind::ExternalIpPool, &external_pool("external", &[range("1.1.1.1", "1.1.1.9")])).await;
    scene.api.create(Kind::Egress, &egress("only", &json!({"externalIPPool": "external"}))).await;
    scene.carried_by("node1").await;
    Some(scene)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_ready_stays_in_use_during_its_grace() {
    let Some(scene) = one_on_node1(&["--node-grace", "1h"]).await else { return };
    let before = on(&scene.rows().await);
    for status in ["False", "Unknown"] {
        let rows = scene.says("node1", status, &ago(0)).await;
        assert!(rows.nodes["node1"].ready, "{status}");
        assert_eq!(on(&rows), before, "{status}");
    }
    // Another one does not have to wait because this one does.
    let rows = scene.says("node2", "False", &ago(61)).await;
    assert!(!rows.nodes["node2"].ready && rows.nodes["node1"].ready);
    let rows = scene.says("node2", "True", &ago(0)).await;
    assert!(rows.nodes["node2"].ready, "one that returns is there at once");
    assert_eq!(on(&rows), before);
    let rows = scene.says("node1", "Unknown", &ago(61)).await;
    assert!(!rows.nodes["node1"].ready);
    assert_eq!(on(&rows).0, "node2");
    scene.settled().await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_returns_is_used_once_it_is_stable() {
    let Some(scene) = one_on_node1(&["--node-stable", "1h"]).await else { return };
    let rows = scene.says("node1", "False", &ago(0)).await;
    assert!(!rows.nodes["node1"].ready, "one that goes is gone at once");
    assert_eq!(on(&rows).0, "node2");
    let rows = scene.says("node1", "True", &ago(0)).await;
    assert!(!rows.nodes["node1"].ready);
    // Even where no other could carry it.
    scene.api.delete(Kind::Node, "", "node2").await;
    let gone = scene.ledger("no node2", |rows| !rows.nodes.contains_key("node2")).await;
    assert_eq!(on(&gone).0, "");
    let rows = scene.says("node1", "True", &ago(61)).await;
    assert!(rows.nodes["node1"].ready);
    assert_eq!(on(&rows).0, "node1");
    // One that was never there before does not return.
    scene.api.create(Kind::Node, &node("node3")).await;
    scene.ledger("node3", |rows| rows.nodes.get("node3").is_some_and(|row| row.ready)).await;
    scene.settled().await;
    scene.end().await;
}
