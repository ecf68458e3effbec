//! The API server away, and not what it was when it is back.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::scene::{Kind, PATIENCE, PAUSE, Scene, Stage, egress, external_pool, node, pool, range, run_of, set};
use super::{Addresses, Kubelet};

/// How long the API server is away: as long as the longest pause between two attempts.
const AWAY: Duration = Duration::from_secs(30);

/// How often the bridge listed anything.
fn listed(scene: &Scene) -> usize {
    scene.asked().iter().filter(|event| event["verb"] == "list").count()
}

/// The kinds that are followed.
const FOLLOWED: [&str; 7] = ["Namespace", "IPPool", "ExternalIPPool", "Node", "Pod", "StatefulSet", "Egress"];

impl Scene {
    /// Waits until the watches of all kinds are up, or all are down: each tells since when, after this time, and why it
    /// is down; people read only of those that are. The status as they read it.
    async fn watches(&self, up: bool, after: Timestamp) -> String {
        let all = |bridge: &Value| bridge["watches"].as_array().expect("a list").iter().all(|watch| watch["up"] == up);
        let bridge = self.bridge(&format!("that it is {up} of all watches that they are up"), all).await;
        let watches = bridge["watches"].as_array().expect("a list");
        let kinds: Vec<_> = watches.iter().map(|watch| watch["kind"].as_str().expect("text")).collect();
        assert_eq!(kinds, FOLLOWED);
        for watch in watches {
            let since: Timestamp = watch["since"].as_str().expect("text").parse().expect("a time");
            assert!(since >= after && since <= Timestamp::now(), "{after}: {watch}");
            assert_eq!(watch["error"].as_str().is_some_and(|error| error.len() > 10), !up, "{watch}");
        }
        let text = self.group.holdfast(&["status"]).expect(0).out;
        let down: Vec<_> = text.lines().filter(|line| line.starts_with("  not followed: ")).collect();
        assert_eq!(down.len(), usize::from(!up), "{text}");
        let told = |kind: &&str| text.contains(&format!(" {kind} since "));
        assert!(up || FOLLOWED.iter().all(told), "{text}");
        text
    }
}

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
    for (name, used) in [("stays", 3), ("goes", 6)] {
        scene.api.create(Kind::StatefulSet, &set(&space, name, 3, "outage")).await;
        scene.used("outage", used, 21).await;
    }
    let before = scene.settled().await;
    scene.watches(true, Timestamp::UNIX_EPOCH).await;
    let processes: Vec<_> = scene.group.replicas.iter().flatten().map(crate::fixtures::Process::id).collect();
    drop(kubelet);
    scene.rotate_token().await;
    let stopped = Timestamp::now();
    scene.control_plane().stop_api_server();
    scene.control_plane().compact_etcd();
    // The ledger goes on without it.
    scene.group.holdfast(&["grant", "vm-7", "--pool", "outage", "--address", "10.2.2.110"]).expect(0);
    let carries = &before.rows.placements.values().next().expect("the Egress is placed").node;
    scene.group.holdfast(&["drain", carries]).expect(0);
    tokio::time::sleep(AWAY).await;
    scene.watches(false, stopped).await;
    let started = Timestamp::now();
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
    // The longest pause between two attempts, and as much again at random, may have just begun.
    let outage = (Kind::IpPool, "", "outage");
    scene.api.until_within(PATIENCE * 3, outage, "what was granted meanwhile", vm).await;
    let without = |pool: Option<&Value>| pool.is_some_and(|pool| pool["status"]["usage"]["used"] == 8);
    scene.api.until_within(PATIENCE * 3, outage, "what was made meanwhile, not what was deleted", without).await;
    scene.holds("outage", (&space, "stays"), 0, &run_of("10.2.2.100", 3)).await;
    let world = scene.settled().await;
    let nodes: Vec<_> = world.egresses.values().map(|it| it["status"]["egressNode"].as_str()).collect();
    assert!(nodes.iter().all(|node| node.is_some_and(|node| !node.is_empty() && node != carries)), "{nodes:?}");
    let after: Vec<_> = scene.group.replicas.iter().flatten().map(crate::fixtures::Process::id).collect();
    assert_eq!(after, processes, "none was started anew");
    let status = scene.watches(true, started).await;
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

/// A way to the API server that can be cut.
struct Way {
    /// Here it begins.
    from: String,
    /// Here it leads.
    to: String,
    /// Whoever passes bytes on, until this is dropped.
    open: Option<JoinSet<()>>,
}

impl Way {
    /// The kubeconfig of the stage leads this way from now on. It is not open yet.
    fn of(stage: &Stage) -> Way {
        let text = std::fs::read_to_string(stage.kubeconfig()).expect("is there");
        let mut config: Value = serde_json::from_str(&text).expect("is JSON");
        let server = &mut config["clusters"][0]["cluster"]["server"];
        let to = server.as_str().and_then(|url| url.strip_prefix("https://")).expect("a URL").to_owned();
        // The same host, so that the API server's certificate is right for it.
        let from = format!("{}:7690", to.rsplit_once(':').expect("a port").0);
        *server = format!("https://{from}").into();
        std::fs::write(stage.kubeconfig(), config.to_string()).expect("writes");
        Way { from, to, open: None }
    }

    async fn open(&mut self) {
        let listener = TcpListener::bind(&self.from).await.expect("nobody else is there");
        let to = self.to.clone();
        let mut passing = JoinSet::new();
        passing.spawn(async move {
            let mut each = JoinSet::new();
            while let Ok((mut here, _)) = listener.accept().await {
                let mut there = TcpStream::connect(&to).await.expect("it listens");
                each.spawn(async move { drop(copy_bidirectional(&mut here, &mut there).await) });
            }
        });
        self.open = Some(passing);
    }

    /// Whoever is on the way is cut off, and nobody comes in.
    async fn cut(&mut self) {
        self.open.take().expect("it is open").shutdown().await;
    }
}

/// An API server that was there all the time goes on with a watch from where it ended. If nothing has changed it shows
/// nothing: what says that the watch is up is that it was taken up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_goes_on_is_up_though_nothing_changes_and_nothing_is_listed() {
    let Some(stage) = Stage::empty().await else { return };
    let mut way = Way::of(&stage);
    way.open().await;
    let scene = stage.play(&[]);
    scene.seen().await;
    scene.watches(true, Timestamp::UNIX_EPOCH).await;
    let lists = listed(&scene);
    assert_eq!(lists, FOLLOWED.len() + 1, "and the Services");
    let cut = Timestamp::now();
    way.cut().await;
    let status = scene.watches(false, cut).await;
    assert!(status.contains("refused"), "{status}");
    let opened = Timestamp::now();
    way.open().await;
    scene.watches(true, opened).await;
    assert_eq!(listed(&scene), lists);
    scene.end().await;
}
