//! From an object to what the ledger decided about it, over a real Kubernetes API server: how long until a watch shows it.
//!
//! `cargo bench --bench bridge -- --runs 3`
//!
//! etcd, kube-apiserver, kube-controller-manager (which makes the Pods), three replicas and this program share the
//! machine. Objects are created one after the other; times are from the call that creates an object to the event of
//! this program's own watch.

#![allow(dead_code, unused_imports, reason = "the tests use all of it")]

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::{Duration, Instant};

use clap::Parser;
use futures::StreamExt;
use kube::core::DynamicObject;
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

#[path = "../tests/it/fixtures/mod.rs"]
mod fixtures;
#[path = "../tests/it/kubernetes/mod.rs"]
mod kubernetes;

use kubernetes::scene::{Api, Kind, Scene, egress, external_pool, node, pool, range, ready, set};

/// How long the last event may take: only a run that fails takes this long.
const PATIENCE: Duration = Duration::from_mins(3);
/// Replicas of each StatefulSet.
const REPLICAS: u32 = 5;

#[derive(Parser)]
#[command(about = "How long until a watch shows what the ledger decided, over a real Kubernetes API server")]
struct Options {
    /// Runs of each measure; medians are printed.
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// StatefulSets of five in a run.
    #[arg(long, value_delimiter = ',', default_value = "1,100,300")]
    sets: Vec<usize>,
    /// Egresses in a run.
    #[arg(long, value_delimiter = ',', default_value = "200,1000")]
    egresses: Vec<usize>,
    /// Said by `cargo bench`; changes nothing.
    #[arg(long, hide = true)]
    bench: bool,
}

/// One run, in milliseconds.
#[derive(Clone, Copy)]
struct Run {
    /// From the first create to the last event.
    whole: f64,
    /// From the last create to the last event; none if it came before.
    after: f64,
    /// Half of the objects waited at most so long.
    p50: f64,
}

#[tokio::main]
async fn main() {
    let options = Options::parse();
    println!("{:<52} {:>10} {:>16} {:>10}", "", "whole, ms", "after last, ms", "p50, ms");
    for &count in &options.sets {
        let mut runs = Vec::new();
        for _ in 0..options.runs {
            runs.push(reservations(count).await);
        }
        print(&format!("{count} StatefulSets of {REPLICAS}, to IPPool.status"), &runs);
    }
    for &count in &options.egresses {
        let mut runs = Vec::new();
        for _ in 0..options.runs {
            runs.push(addresses(count).await);
        }
        print(&format!("{count} Egresses, to spec.egressIP"), &runs);
    }
    let mut lost = Vec::new();
    for _ in 0..options.runs {
        lost.push(failover().await);
    }
    print("a Node lost: 1,000 Egresses on 10 Nodes of 120", &lost);
}

fn print(what: &str, runs: &[Run]) {
    let median = |of: fn(&Run) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    println!(
        "{what:<52} {:>10.0} {:>16.0} {:>10.0}",
        median(|it| it.whole),
        median(|it| it.after),
        median(|it| it.p50)
    );
}

async fn scene() -> Scene {
    let scene = Scene::start().await.expect("these tests are not turned off");
    // Adopting, on a first start, is not what is measured.
    let working = |out: &str| out.contains(": working");
    while !working(&scene.group.holdfast(&["status"]).out) {}
    scene
}

/// Objects of a kind as a watch shows them, with the time at which it did.
fn seen(api: &Api, kind: Kind) -> (UnboundedReceiver<(Instant, Value)>, JoinHandle<()>) {
    let objects = api.of(kind, "");
    let (tell, told) = unbounded_channel();
    let task = tokio::spawn(async move {
        let mut events = pin!(watcher(objects, watcher::Config::default()));
        while let Some(event) = events.next().await {
            if let Ok(Event::Apply(object) | Event::InitApply(object)) = event {
                let object: DynamicObject = object;
                let mut value = object.data;
                value["name"] = object.metadata.name.unwrap_or_default().into();
                if tell.send((Instant::now(), value)).is_err() {
                    return;
                }
            }
        }
    });
    (told, task)
}

/// When each of `count` objects was first as wanted.
async fn all(
    told: &mut UnboundedReceiver<(Instant, Value)>,
    count: usize,
    done: impl Fn(&Value) -> Vec<String>,
) -> BTreeMap<String, Instant> {
    let mut first = BTreeMap::new();
    while first.len() < count {
        let next = tokio::time::timeout(PATIENCE, told.recv()).await;
        let (at, object) =
            next.unwrap_or_else(|_| panic!("{} of {count} were seen", first.len())).expect("the watch goes on");
        for name in done(&object) {
            first.entry(name).or_insert(at);
        }
    }
    first
}

fn run(created: &BTreeMap<String, Instant>, last_created: Instant, seen: &BTreeMap<String, Instant>) -> Run {
    let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
    let first = *created.values().min().expect("something was created");
    let last = *seen.values().max().expect("something was seen");
    let mut waits: Vec<f64> =
        created.iter().map(|(name, at)| millis(seen[name].saturating_duration_since(*at))).collect();
    waits.sort_by(f64::total_cmp);
    Run {
        whole: millis(last - first),
        after: millis(last.saturating_duration_since(last_created)),
        p50: waits[waits.len() / 2],
    }
}

async fn reservations(count: usize) -> Run {
    let scene = scene().await;
    let namespace = scene.namespace("bench").await;
    let (mut told, watching) = seen(&scene.api, Kind::IpPool);
    scene.api.create(Kind::IpPool, &pool("bench", &[range("10.64.0.10", "10.64.31.250")], "10.64.0.1", 19)).await;
    let in_force = |it: Option<&Value>| it.is_some_and(|it| it["status"]["usage"]["total"].as_u64() > Some(0));
    scene.api.until(Kind::IpPool, "", "bench", "its addresses", in_force).await;
    // The API server's first StatefulSet takes it longer than others.
    scene.api.create(Kind::StatefulSet, &set(&namespace, "warm-up", 1, "")).await;
    // At rest: the next write of this pool goes at once.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let whole = |pool: &Value| {
        let mut held = BTreeMap::<String, u32>::new();
        for entry in pool["status"]["ipAddresses"].as_array().into_iter().flatten() {
            let name = entry["owner"]["statefulSet"]["name"].as_str().unwrap_or_default();
            *held.entry(name.to_owned()).or_default() += 1;
        }
        held.into_iter().filter(|(_, held)| *held == REPLICAS).map(|(name, _)| name).collect()
    };
    let watching_all = tokio::spawn(async move { all(&mut told, count, whole).await });
    let mut created = BTreeMap::new();
    for at in 0..count {
        let name = format!("set-{at:04}");
        created.insert(name.clone(), Instant::now());
        scene.api.create(Kind::StatefulSet, &set(&namespace, &name, REPLICAS, "bench")).await;
    }
    let last_created = Instant::now();
    let seen = watching_all.await.expect("all are seen");
    watching.abort();
    run(&created, last_created, &seen)
}

async fn create_egresses(scene: &Scene, count: usize) -> (BTreeMap<String, Instant>, Instant) {
    let mut created = BTreeMap::new();
    for at in 0..count {
        let name = format!("egress-{at:04}");
        created.insert(name.clone(), Instant::now());
        scene.api.create(Kind::Egress, &egress(&name, &json!({"externalIPPool": "bench"}))).await;
    }
    (created, Instant::now())
}

async fn addresses(count: usize) -> Run {
    let scene = scene().await;
    scene.api.create(Kind::ExternalIpPool, &external_pool("bench", &[range("10.96.0.1", "10.96.15.250")])).await;
    let (mut told, watching) = seen(&scene.api, Kind::Egress);
    let has_address = |egress: &Value| {
        let name = egress["name"].as_str().unwrap_or_default().to_owned();
        egress["spec"]["egressIP"].as_str().map(|_| name).into_iter().collect()
    };
    let watching_all = tokio::spawn(async move { all(&mut told, count, has_address).await });
    let (created, last_created) = create_egresses(&scene, count).await;
    let seen = watching_all.await.expect("all are seen");
    watching.abort();
    run(&created, last_created, &seen)
}

async fn failover() -> Run {
    const EGRESSES: usize = 1_000;
    let scene = scene().await;
    scene.api.create(Kind::ExternalIpPool, &external_pool("bench", &[range("10.96.0.1", "10.96.15.250")])).await;
    for at in 0..10 {
        let mut node = node(&format!("node-{at}"));
        node["metadata"]["annotations"] = json!({"node.antrea.io/max-egress-ips": "120"});
        scene.api.create(Kind::Node, &node).await;
    }
    let (mut told, watching) = seen(&scene.api, Kind::Egress);
    create_egresses(&scene, EGRESSES).await;
    let node_of = |egress: &Value| egress["status"]["egressNode"].as_str().unwrap_or_default().to_owned();
    let placed = |egress: &Value| {
        let name = egress["name"].as_str().unwrap_or_default().to_owned();
        if node_of(egress).is_empty() { vec![] } else { vec![name] }
    };
    all(&mut told, EGRESSES, placed).await;
    let carried: Vec<String> = scene
        .api
        .list(Kind::Egress)
        .await
        .iter()
        .filter(|egress| egress["status"]["egressNode"] == "node-3")
        .map(|egress| egress["metadata"]["name"].as_str().unwrap_or_default().to_owned())
        .collect();
    while told.try_recv().is_ok() {}
    let lost = Instant::now();
    let status = json!({"status": {"conditions": [ready("False")]}});
    scene.api.patch_status(Kind::Node, "", "node-3", "bench", &status).await;
    let elsewhere = |egress: &Value| {
        let name = egress["name"].as_str().unwrap_or_default().to_owned();
        let node = node_of(egress);
        if node.is_empty() || node == "node-3" || !carried.contains(&name) { vec![] } else { vec![name] }
    };
    let seen = all(&mut told, carried.len(), elsewhere).await;
    watching.abort();
    let created = carried.iter().map(|name| (name.clone(), lost)).collect();
    run(&created, lost, &seen)
}
