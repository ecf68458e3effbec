//! A bridge's mirror between a ledger in memory and an API server in memory. What an informer would show, tests show.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use holdfast_statemachine::command::Entry;
use holdfast_statemachine::row::Holder;
use holdfast_statemachine::{Action, Change, Command, Ledger as Rows, Revision, Source};
use kube::client::Client;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::api::{Api, Made};
use crate::bridge::Options;
use crate::bridge::backoff::Backoff;
use crate::bridge::cache::Cache;
use crate::bridge::key::Key;
use crate::bridge::office::{Office, Refusals, Told};
use crate::bridge::queue::Queue;
use crate::bridge::recorder::Recorder;
use crate::bridge::report::{Report, State};
use crate::bridge::watched::{Egresses, ExternalIpPools, IpPools, Watchable};
use crate::ledger::{Gap, Ledger, Outcomes, Unproposed};
use crate::objects::{Kind, Object};
use crate::translate;

pub const CLUSTER: &str = "c";
const PATIENCE: Duration = Duration::from_secs(20);

/// A ledger whose only replica always leads.
#[derive(Clone)]
pub struct InMemory(Arc<Shared>);

struct Shared {
    rows: RwLock<Rows>,
    changes: Mutex<Vec<Change>>,
    revision: watch::Sender<Revision>,
    leads: watch::Sender<Option<u64>>,
}

impl InMemory {
    fn new() -> InMemory {
        InMemory(Arc::new(Shared {
            rows: RwLock::new(Rows::new()),
            changes: Mutex::default(),
            revision: watch::Sender::new(0),
            leads: watch::Sender::new(Some(1)),
        }))
    }

    /// One entry.
    pub fn apply(&self, actions: Vec<Action>) {
        let commands =
            actions.into_iter().map(|action| Command { source: Source::Kubernetes, only_in_term: None, action });
        for outcome in self.enter(commands.collect()) {
            outcome.expect("is accepted");
        }
    }

    fn enter(&self, commands: Vec<Command>) -> Outcomes {
        let mut rows = self.0.rows.write().expect("nobody panicked");
        let index = rows.tables().clock().revision + 100;
        let applied = rows.apply(&Entry { index, term: 1, proposed_at: 1_796_025_600_000, commands });
        self.0.changes.lock().expect("nobody panicked").extend(applied.changes);
        self.0.revision.send_replace(rows.tables().clock().revision);
        applied.outcomes
    }
}

impl Ledger for InMemory {
    fn cluster(&self) -> Option<String> {
        Some(CLUSTER.to_owned())
    }

    fn leads(&self) -> watch::Receiver<Option<u64>> {
        self.0.leads.subscribe()
    }

    async fn propose(&self, commands: Vec<Command>) -> Result<Outcomes, Unproposed> {
        Ok(self.enter(commands))
    }

    fn read<T>(&self, read: impl FnOnce(&Rows) -> T) -> T {
        read(&self.0.rows.read().expect("nobody panicked"))
    }

    fn revision(&self) -> watch::Receiver<Revision> {
        self.0.revision.subscribe()
    }

    fn held_before(&self, _: IpAddr) -> Option<Holder> {
        None
    }

    fn changes(&self, after: Revision, limit: usize) -> Result<Vec<Change>, Gap> {
        let changes = self.0.changes.lock().expect("nobody panicked");
        Ok(changes.iter().filter(|change| change.revision > after).take(limit).cloned().collect())
    }
}

/// All of it. The mirror ends with it.
pub struct Scene {
    pub api: Api,
    pub ledger: InMemory,
    pub office: Arc<Office<InMemory>>,
    made: watch::Receiver<Vec<Made>>,
    tasks: JoinSet<()>,
}

impl Scene {
    /// Nothing is mirrored yet.
    pub fn new() -> Scene {
        let (api, ledger) = (Api::new(), InMemory::new());
        let client: Client = api.client();
        let office = Arc::new(Office {
            ledger: ledger.clone(),
            term: 1,
            since: 0,
            cluster: CLUSTER.to_owned(),
            client,
            options: Options::default(),
            cache: Cache::default(),
            decisions: Queue::default(),
            unproven: Queue::default(),
            backoff: Backoff::default(),
            mirror: Queue::default(),
            recorder: Recorder::default(),
            report: Arc::new(Report::default()),
            refusals: Refusals::default(),
            misaddressed: Told::default(),
            ahead: Told::default(),
        });
        let made = api.made();
        Scene { api, ledger, office, made, tasks: JoinSet::new() }
    }

    pub fn start(&mut self) {
        self.tasks.spawn(crate::bridge::mirror::follow(self.office.clone()));
        self.tasks.spawn(crate::bridge::mirror::run(self.office.clone()));
    }

    /// Somebody makes an object, the informer shows it, and the ledger is told.
    pub fn create(&self, path: &str, object: &Value) {
        self.edit(path, |there| *there = object.clone());
        let key = key(path);
        let live = self.office.cache.get(&key).expect("it was shown");
        self.ledger.apply(
            translate::translate(live.object.as_ref().expect("is readable"), None)
                .expect("is right")
                .action
                .into_iter()
                .collect(),
        );
    }

    /// Somebody changes an object, and the informer shows it.
    pub fn edit(&self, path: &str, change: impl FnOnce(&mut Value)) {
        self.api.put(path, change);
        self.show(path);
    }

    /// The informer shows an object as it is.
    pub fn show(&self, path: &str) {
        let object = self.api.get(path);
        let key = key(path);
        let (_, live) = match key.kind {
            Kind::IpPool => IpPools::keep(object),
            Kind::ExternalIpPool => ExternalIpPools::keep(object),
            _ => Egresses::keep(object),
        }
        .expect("is an object");
        self.office.cache.apply(key.clone(), Arc::new(live));
        self.office.mirror.add(key);
    }

    /// Waits until the requests made are such.
    pub async fn requests(&mut self, are: impl Fn(&[Made]) -> bool) -> Vec<Made> {
        let made = timeout(PATIENCE, self.made.wait_for(|made| are(made))).await;
        let made = made.ok().map(|made| made.expect("the server is there").clone());
        made.unwrap_or_else(|| panic!("{:#?}", self.made.borrow().clone()))
    }

    /// Waits until the bridge's report is such; each question lets the mirror go on.
    pub async fn report(&self, is: impl Fn(&State) -> bool) -> State {
        let asked = timeout(PATIENCE, async {
            loop {
                let state = self.office.report.state();
                if is(&state) {
                    return state;
                }
                tokio::task::yield_now().await;
            }
        });
        asked.await.unwrap_or_else(|_| panic!("{:#?}", self.office.report.state()))
    }

    /// Waits until nothing is to be written.
    pub async fn rest(&self) -> State {
        self.report(|state| state.unwritten == 0 && self.office.mirror.due() == 0).await
    }
}

fn key(path: &str) -> Key {
    let (plural, name) = path.split_once('/').expect("is a path");
    let kind = match plural {
        "ippools" => Kind::IpPool,
        "externalippools" => Kind::ExternalIpPool,
        _ => Kind::Egress,
    };
    Key::cluster(kind, name.into())
}

/// The parts of requests that tests look at: those of objects, in order.
pub fn writes(made: &[Made]) -> Vec<String> {
    let of_objects = made.iter().filter(|made| !made.path.contains("events.k8s.io"));
    of_objects.map(|made| format!("{} {} {}", made.method, made.path, made.code)).collect()
}

/// Whether an Event with this reason was made.
pub fn told(made: &[Made], reason: &str) -> bool {
    made.iter().any(|made| made.path.contains("events.k8s.io") && made.body["reason"] == reason)
}

/// The Node that carries addresses in tests.
pub fn node(name: &str) -> Action {
    let node = serde_json::json!({
        "metadata": {"name": name, "uid": name},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    let node = Object::Node(Box::new(serde_json::from_value(node).expect("is a Node")));
    translate::translate(&node, None).expect("is right").action.expect("asks for something")
}
