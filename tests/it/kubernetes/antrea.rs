//! Mode `antrea`: the same list has other writers, who do what antrea-controller and the agents do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kube::api::{DynamicObject, PostParams};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::scene::{Api, Held, Kind, PATIENCE, PAUSE, Rows, Scene, Stage, entries, pool, range, run_of, set};
use super::{Addresses, Kubelet};

/// Replicas beside Antrea, on an API server with its definitions.
async fn scene() -> Option<(Scene, Kubelet)> {
    let scene = Stage::beside_antrea().await?.play(&[]);
    let kubelet = Kubelet::of_scenes(scene.api.client.clone(), Addresses::Reserved);
    Some((scene, kubelet))
}

/// The list of a pool.
fn list(pool: &Value) -> Vec<Value> {
    pool["status"]["ipAddresses"].as_array().cloned().unwrap_or_default()
}

fn address(entry: &Value) -> &str {
    entry["ipAddress"].as_str().expect("an address")
}

/// As antrea-controller reserves for a StatefulSet.
fn reserved(address: &str, namespace: &str, set: &str, index: u32) -> Value {
    json!({
        "ipAddress": address,
        "phase": "Reserved",
        "owner": {"statefulSet": {"name": set, "namespace": namespace, "index": index}},
    })
}

/// As an agent that sets a Pod up changes an entry.
fn set_up(entry: &mut Value, namespace: &str, pod: &str, container: &str) {
    entry["phase"] = "Allocated".into();
    entry["owner"]["pod"] = json!({"name": pod, "namespace": namespace, "containerID": container, "ifName": "eth0"});
}

/// As an agent that takes a Pod of a StatefulSet down.
fn take_down(entry: &mut Value) {
    entry["phase"] = "Reserved".into();
    entry["owner"].as_object_mut().expect("an owner").remove("pod");
}

/// Reads a pool, changes its list and writes it over that version; again, if somebody else was faster.
async fn change(api: &Api, name: &str, mut change: impl FnMut(&mut Vec<Value>)) {
    let pools = api.of(Kind::IpPool, "");
    loop {
        let mut pool = pools.get(name).await.expect("is there");
        let mut list = pool.data["status"]["ipAddresses"].as_array().cloned().unwrap_or_default();
        change(&mut list);
        if write(api, name, &mut pool, list).await {
            return;
        }
    }
}

/// Whether nobody else was faster.
async fn write(api: &Api, name: &str, pool: &mut DynamicObject, list: Vec<Value>) -> bool {
    if !pool.data["status"].is_object() {
        pool.data["status"] = json!({});
    }
    pool.data["status"]["ipAddresses"] = list.into();
    let writer = PostParams { field_manager: Some("antrea-agent".into()), ..PostParams::default() };
    match api.of(Kind::IpPool, "").replace_status(name, &writer, pool).await {
        Ok(_) => true,
        Err(kube::Error::Api(status)) if status.code == 409 => false,
        Err(error) => panic!("{error}"),
    }
}

/// Another writer at work.
struct Writer {
    api: Api,
    pool: &'static str,
    name: &'static str,
    dice: StdRng,
    /// Entries that are as this writer left them until it changes them again, by address.
    mine: BTreeMap<String, Value>,
    pods: u32,
    writes: u32,
    conflicts: u32,
}

impl Writer {
    fn start(api: &Api, pool: &'static str, name: &'static str, span: Duration) -> JoinHandle<Writer> {
        let seed = rand::random();
        eprintln!("writer {name}: seed {seed}");
        let mut writer = Writer {
            api: api.clone(),
            pool,
            name,
            dice: StdRng::seed_from_u64(seed),
            mine: BTreeMap::new(),
            pods: 0,
            writes: 0,
            conflicts: 0,
        };
        let end = Instant::now() + span;
        tokio::spawn(async move {
            while Instant::now() < end {
                writer.turn().await;
            }
            writer
        })
    }

    async fn turn(&mut self) {
        let mut pool = self.api.of(Kind::IpPool, "").get(self.pool).await.expect("is there");
        let mut list = pool.data["status"]["ipAddresses"].as_array().cloned().unwrap_or_default();
        self.check(&list);
        let mut mine = self.mine.clone();
        let what = self.dice.random_range(0..10);
        match what {
            0..4 => self.allocate(&mut list, &mut mine),
            4..6 => self.release(&mut list, &mut mine),
            6..9 => self.set_one_up(&mut list, &mut mine),
            _ => self.take_one_down(&mut list, &mut mine),
        }
        if write(&self.api, self.pool, &mut pool, list).await {
            self.mine = mine;
            self.writes += 1;
        } else {
            self.conflicts += 1;
        }
    }

    /// All that is this writer's is there to the byte, and no address is there twice.
    fn check(&self, list: &[Value]) {
        let mut there = BTreeMap::new();
        for entry in list {
            let twice = there.insert(address(entry), entry);
            assert!(twice.is_none(), "{}: {} is there twice: {list:#?}", self.name, address(entry));
        }
        for (address, entry) in &self.mine {
            let now = there.get(address.as_str()).map(ToString::to_string);
            assert_eq!(now, Some(entry.to_string()), "{}: {address}", self.name);
        }
    }

    /// A Pod of no StatefulSet is set up: the lowest free address, as Antrea's allocator gives, or any.
    fn allocate(&mut self, list: &mut Vec<Value>, mine: &mut BTreeMap<String, Value>) {
        let taken: BTreeSet<&str> = list.iter().map(address).collect();
        let free: Vec<String> = all_addresses().into_iter().filter(|it| !taken.contains(it.as_str())).collect();
        let chosen = if self.dice.random() { free.first() } else { free.choose(&mut self.dice) };
        let Some(chosen) = chosen.filter(|_| mine.len() < 150) else { return };
        self.pods += 1;
        let mut entry = json!({"ipAddress": chosen, "owner": {}});
        set_up(&mut entry, "others", &format!("{}-{}", self.name, self.pods), &format!("c{:032x}", self.pods));
        mine.insert(chosen.clone(), entry.clone());
        let at = self.dice.random_range(0..=list.len());
        list.insert(at, entry);
    }

    fn release(&mut self, list: &mut Vec<Value>, mine: &mut BTreeMap<String, Value>) {
        let own: Vec<String> =
            mine.iter().filter(|(_, entry)| entry["owner"]["statefulSet"].is_null()).map(|it| it.0.clone()).collect();
        if let Some(chosen) = own.choose(&mut self.dice) {
            mine.remove(chosen);
            list.retain(|entry| address(entry) != chosen);
        }
    }

    /// A Pod of a StatefulSet is set up with what is reserved for it.
    fn set_one_up(&mut self, list: &mut [Value], mine: &mut BTreeMap<String, Value>) {
        let mut reserved: Vec<&mut Value> = list.iter_mut().filter(|entry| entry["phase"] == "Reserved").collect();
        if reserved.is_empty() {
            return;
        }
        let at = self.dice.random_range(0..reserved.len());
        let entry = &mut *reserved[at];
        let owner = entry["owner"]["statefulSet"].clone();
        let pod = format!("{}-{}", owner["name"].as_str().expect("a name"), owner["index"]);
        self.pods += 1;
        set_up(entry, owner["namespace"].as_str().expect("a namespace"), &pod, &format!("s{:032x}", self.pods));
        mine.insert(address(entry).to_owned(), entry.clone());
    }

    fn take_one_down(&mut self, list: &mut [Value], mine: &mut BTreeMap<String, Value>) {
        let up: Vec<String> =
            mine.iter().filter(|(_, entry)| entry["owner"]["statefulSet"].is_object()).map(|it| it.0.clone()).collect();
        let Some(chosen) = up.choose(&mut self.dice) else { return };
        mine.remove(chosen);
        list.iter_mut().filter(|entry| address(entry) == chosen).for_each(take_down);
    }
}

/// The addresses of the pool that has several writers.
fn all_addresses() -> Vec<String> {
    run_of("10.9.0.10", 700)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_as_fast_as_they_can_lose_nothing_and_take_nothing() {
    let Some((scene, _kubelet)) = scene().await else { return };
    let space = scene.namespace("writers").await;
    let all = all_addresses();
    let pool = pool("writers", &[range(&all[0], &all[all.len() - 1])], "10.9.0.1", 16);
    scene.api.create(Kind::IpPool, &pool).await;
    let span = Duration::from_secs(30);
    let end = Instant::now() + span;
    let writers = ["one", "two"].map(|name| Writer::start(&scene.api, "writers", name, span));
    let (mut made, mut living) = (0, BTreeMap::<String, u32>::new());
    let mut dice = StdRng::seed_from_u64(4);
    while Instant::now() < end {
        match dice.random_range(0..4) {
            0 | 1 if living.len() < 12 => {
                made += 1;
                let (name, replicas) = (format!("set-{made}"), dice.random_range(1..8));
                scene.api.create(Kind::StatefulSet, &set(&space, &name, replicas, "writers")).await;
                living.insert(name, replicas);
            }
            2 | 1 => {
                if let Some((name, replicas)) = living.iter_mut().nth(dice.random_range(0..12)) {
                    *replicas = dice.random_range(0..10);
                    scene.scale(&space, name, *replicas).await;
                }
            }
            _ => {
                if let Some(name) = living.keys().nth(dice.random_range(0..12)).cloned() {
                    living.remove(&name);
                    scene.api.delete(Kind::StatefulSet, &space, &name).await;
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    let mut mine = BTreeMap::new();
    for writer in writers {
        let writer = writer.await.expect("nothing of its was lost");
        eprintln!("writer {}: {} writes, {} conflicts", writer.name, writer.writes, writer.conflicts);
        assert!(writer.writes > 20, "{} writes", writer.writes);
        mine.extend(writer.mine);
    }
    eprintln!("{made} StatefulSets made, {} left", living.len());
    // Those of StatefulSets' Pods are taken down; the others stay as they are.
    change(&scene.api, "writers", |list| {
        let up = list.iter_mut().filter(|entry| entry["owner"]["statefulSet"].is_object());
        up.filter(|entry| entry["owner"]["pod"].is_object()).for_each(take_down);
    })
    .await;
    mine.retain(|_, entry| entry["owner"]["statefulSet"].is_null());
    at_rest(&scene, &space, &living, &mine).await;
    scene.end().await;
}

/// Waits until the list has exactly what others have there and what the ledger holds for these StatefulSets.
async fn at_rest(scene: &Scene, space: &str, living: &BTreeMap<String, u32>, others: &BTreeMap<String, Value>) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let pool = scene.api.get(Kind::IpPool, "", "writers").await.expect("is there");
        let rows = scene.rows().await;
        let mut found = Vec::new();
        for (name, replicas) in living {
            let there: BTreeSet<_> =
                entries(&pool, space, name).into_iter().map(|(index, ip, _)| (index, ip)).collect();
            let held = rows.addresses(space, name);
            let held: BTreeSet<_> = held
                .into_iter()
                .flat_map(|(ordinal, all)| all.into_iter().map(move |it| (u64::from(ordinal), it.to_string())))
                .collect();
            let ordinals: BTreeSet<u64> = there.iter().map(|(index, _)| *index).collect();
            if there != held || !(0..u64::from(*replicas)).all(|ordinal| ordinals.contains(&ordinal)) {
                found.push(format!("{name} of {replicas}: there {there:?}, held {held:?}"));
            }
        }
        let all: Vec<Value> = list(&pool);
        let unowned = |entry: &&Value| {
            let set = entry["owner"]["statefulSet"]["name"].as_str();
            set.is_some_and(|set| !living.contains_key(set))
        };
        found.extend(all.iter().filter(unowned).map(|entry| format!("of nobody: {entry}")));
        let mut unseen = others.clone();
        for entry in all.iter().filter(|entry| entry["owner"]["statefulSet"].is_null()) {
            if unseen.remove(address(entry)).as_ref() != Some(entry) {
                found.push(format!("changed: {entry}"));
            }
        }
        found.extend(unseen.values().map(|entry| format!("lost: {entry}")));
        let there: BTreeSet<String> = all.iter().map(|entry| address(entry).to_owned()).collect();
        let held: BTreeSet<String> = rows.grants.keys().map(ToString::to_string).collect();
        if there.len() != all.len() || there != held {
            let differ: Vec<_> = there.symmetric_difference(&held).collect();
            found.push(format!("{} entries, {} held: {differ:?}", all.len(), held.len()));
        }
        if found.is_empty() {
            return;
        }
        let status = || scene.group.holdfast(&["status", "-o", "json"]).out;
        assert!(Instant::now() < deadline, "it does not come to rest: {found:#?}; {}", status());
        tokio::time::sleep(PAUSE).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_of_live_pods_that_the_controller_drops_are_put_back_as_they_were() {
    let Some((scene, _kubelet)) = scene().await else { return };
    let api = &scene.api;
    let space = scene.namespace("dropped").await;
    api.create(Kind::IpPool, &pool("dropped", &[range("10.9.0.10", "10.9.0.30")], "10.9.0.1", 16)).await;
    api.create(Kind::StatefulSet, &set(&space, "web", 2, "dropped")).await;
    scene.holds("dropped", (&space, "web"), 0, &run_of("10.9.0.10", 2)).await;
    scene.runs(&space, "web", 0..2).await;
    // What the mode writes is what agents look for, and nothing else.
    let seen = api.get(Kind::IpPool, "", "dropped").await.expect("is there");
    let expected: Vec<Value> = (0..2).map(|at| reserved(&format!("10.9.0.1{at}"), &space, "web", at)).collect();
    assert_eq!(seen["status"], json!({"ipAddresses": expected}));
    change(api, "dropped", |list| set_up(&mut list[0], &space, "web-0", "c0")).await;
    let bound = |rows: &Rows| {
        rows.ordinals
            .values()
            .filter(|row| row.pod.is_some() && row.id.as_ref().is_some_and(|id| id.name == "web"))
            .count()
            == 2
    };
    scene.ledger("both Pods", bound).await;
    let mut as_it_was = expected.clone();
    set_up(&mut as_it_was[0], &space, "web-0", "c0");

    api.orphan(Kind::StatefulSet, &space, "web").await;
    api.until(Kind::StatefulSet, &space, "web", "an end", |it| it.is_none()).await;
    change(api, "dropped", Vec::clear).await;
    let back = |pool: Option<&Value>| pool.is_some_and(|pool| list(pool) == as_it_was);
    api.until(Kind::IpPool, "", "dropped", "the entries as they were", back).await;
    // A Pod that goes is taken down by its agent; nothing of it is kept.
    api.delete(Kind::Pod, &space, "web-0").await;
    api.until(Kind::Pod, &space, "web-0", "an end", |it| it.is_none()).await;
    change(api, "dropped", |list| list.iter_mut().for_each(take_down)).await;
    let one = |pool: Option<&Value>| pool.is_some_and(|pool| list(pool) == expected[1..]);
    api.until(Kind::IpPool, "", "dropped", "one entry", one).await;
    api.delete(Kind::Pod, &space, "web-1").await;
    let none = |pool: Option<&Value>| pool.is_some_and(|pool| list(pool).is_empty());
    api.until(Kind::IpPool, "", "dropped", "no entry", none).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_antrea_controller_reserved_first_is_kept_and_what_an_agent_took_is_planned_anew() {
    let Some((mut scene, _kubelet)) = scene().await else { return };
    let space = scene.namespace("first").await;
    scene.api.create(Kind::IpPool, &pool("first", &[range("10.9.0.10", "10.9.0.99")], "10.9.0.1", 16)).await;
    let theirs: Vec<Value> = (0..3).map(|at| reserved(&format!("10.9.0.5{at}"), &space, "web", at)).collect();
    change(&scene.api, "first", |list| *list = theirs.clone()).await;
    let observed =
        |rows: &Rows| rows.grants.values().filter(|grant| matches!(&grant.held, Held::Other(_))).count() == 3;
    scene.ledger("three observed", observed).await;
    scene.api.create(Kind::StatefulSet, &set(&space, "web", 3, "first")).await;
    let block = run_of("10.9.0.50", 3);
    let own = |rows: &Rows| {
        let held: Vec<_> = rows.addresses(&space, "web").into_values().flatten().map(|it| it.to_string()).collect();
        held == block && rows.grants.len() == 3
    };
    scene.ledger("the block as its own", own).await;
    scene.runs(&space, "web", 0..3).await;
    let seen = scene.api.get(Kind::IpPool, "", "first").await.expect("is there");
    assert_eq!(list(&seen), theirs);
    scene.scale(&space, "web", 4).await;
    scene.holds("first", (&space, "web"), 0, &run_of("10.9.0.50", 4)).await;

    // A Pod has what would have been given next.
    let mut taken = json!({"ipAddress": "10.9.0.54", "owner": {}});
    set_up(&mut taken, &space, "loose", "c");
    change(&scene.api, "first", |list| list.insert(0, taken.clone())).await;
    scene.scale(&space, "web", 5).await;
    let fifth = |pool: Option<&Value>| {
        pool.is_some_and(|pool| entries(pool, &space, "web").iter().any(|it| it.0 == 4) && list(pool)[0] == taken)
    };
    scene.api.until(Kind::IpPool, "", "first", "a fifth", fifth).await;
    // Entries that make no sense are told, and change nothing.
    let odd = json!({"ipAddress": "10.9.0.300", "phase": "Allocated", "owner": {}});
    change(&scene.api, "first", |list| list.push(odd.clone())).await;
    let told = scene.event(Kind::IpPool, "first", "BadEntry").await;
    assert!(told.contains("10.9.0.300"), "{told}");
    scene.scale(&space, "web", 6).await;
    let sixth = |pool: Option<&Value>| pool.is_some_and(|pool| entries(pool, &space, "web").len() == 6);
    scene.api.until(Kind::IpPool, "", "first", "a sixth", sixth).await;
    let seen = scene.api.get(Kind::IpPool, "", "first").await.expect("is there");
    assert!(list(&seen).contains(&odd) && list(&seen)[0] == taken, "{seen:#?}");
    // What the mode does not do, it says.
    let refused = scene.group.holdfast(&["grant", "vm", "--pool", "first"]);
    assert!(refused.code != 0 && refused.err.contains("antrea-controller drops"), "{refused:#?}");
    let log = scene.log();
    assert!(!log.iter().any(|line| line.contains("panicked")), "{log:#?}");
    scene.end().await;
}

#[test]
fn the_overlay_applies_under_strict_validation() {
    let Some(control_plane) = super::control_plane() else { return };
    super::base::apply_base(&control_plane);
    let overlay = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/antrea");
    let apply = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-k", overlay, "-o", "json"];
    let applied = control_plane.kubectl(&apply).expect(0).json();
    let objects = applied["items"].as_array().expect("objects");
    let kinds: BTreeSet<&str> = objects.iter().filter_map(|it| it["kind"].as_str()).collect();
    assert!(!kinds.contains("CustomResourceDefinition") && kinds.contains("PodDisruptionBudget"), "{kinds:?}");
    let replicas = objects.iter().find(|it| it["kind"] == "StatefulSet").expect("replicas");
    let args = &replicas["spec"]["template"]["spec"]["containers"][0]["args"];
    assert_eq!(args, &json!(["serve", "--kubernetes=antrea"]));
    // Whoever may do all that mode standalone does may do this.
    let rules = |objects: &[Value]| {
        let role = objects.iter().find(|it| it["kind"] == "ClusterRole").expect("rights").clone();
        let mut rights = BTreeSet::new();
        for rule in role["rules"].as_array().expect("rules") {
            let each = |field: &str| rule[field].as_array().expect("a list").clone();
            for resource in each("resources") {
                rights.extend(each("verbs").into_iter().map(|verb| format!("{} {resource} {verb}", rule["apiGroups"])));
            }
        }
        rights
    };
    let base = control_plane.kubectl(&["get", "clusterrole/holdfast", "-o", "json"]).expect(0).json();
    let (fewer, all) = (rules(objects), rules(&[base]));
    assert!(fewer.is_subset(&all) && fewer.len() < all.len(), "{fewer:#?}");
}
