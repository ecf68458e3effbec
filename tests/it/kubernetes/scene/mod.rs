//! A group of real replicas that follow a real API server, which they have for themselves.

mod api;
mod check;
mod ledger;
mod objects;
mod pool_view;
mod recorder;
mod stage;
mod way;

use std::collections::BTreeSet;
use std::ops::Deref;
use std::time::{Duration, Instant};

use holdfast_api::Client;
use holdfast_api::v1::{MemberListRequest, WatchRequest};
use serde_json::Value;

pub use api::{Api, Kind};
pub use check::{World, findings};
pub use ledger::{Held, Rows};
pub use objects::*;
pub use pool_view::{entries, run_of};
pub use recorder::Recorder;
pub use stage::{Stage, name_of, namespace_of};

use crate::fixtures::Group;

/// How long anything may take: only a test that fails takes this long.
pub const PATIENCE: Duration = Duration::from_mins(1);
/// Between two questions whose answer no event announces.
pub const PAUSE: Duration = Duration::from_millis(50);

/// A stage, and three replicas that follow it. They are killed when it is dropped.
pub struct Scene {
    /// The replicas.
    pub group: Group,
    stage: Stage,
}

impl Deref for Scene {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

impl Scene {
    /// An empty stage, and three replicas that follow it; `None` where these tests are turned off.
    pub async fn start() -> Option<Scene> {
        Some(Stage::empty().await?.play(&[]))
    }

    /// Starts three replicas on a stage, with these options.
    pub fn of(stage: Stage, options: &[&str]) -> Scene {
        let kubeconfig = stage.kubeconfig().to_str().expect("text").to_owned();
        let options = [&[stage.mode()], options].concat();
        let group = Group::start_with(3, &options, &[("KUBECONFIG", &kubeconfig)]);
        Scene { group, stage }
    }

    /// A client of the ledger.
    pub fn ledger_client(&self) -> Client {
        let client = Client::new(&self.group.endpoints).expect("endpoints");
        client.with_timeout(Duration::from_secs(20))
    }

    /// Waits until a replica leads. Which.
    pub async fn leader(&self) -> usize {
        self.leader_but(None).await
    }

    /// The same, of the others than this one.
    pub async fn leader_but(&self, not: Option<usize>) -> usize {
        let asked = self.group.endpoints.iter().enumerate().filter(|(at, _)| Some(*at) != not);
        let asked = Client::new(asked.map(|(_, endpoint)| endpoint)).expect("endpoints");
        let asked = asked.with_timeout(Duration::from_secs(1));
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Ok(answer) = asked.member_list(MemberListRequest::default()).await
                && let Some(leads) = answer.members.iter().find(|member| member.leader)
                && let Some(at) = self.group.endpoints.iter().position(|endpoint| *endpoint == leads.address)
                && Some(at) != not
            {
                return at;
            }
            assert!(Instant::now() < deadline, "no replica comes to lead");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// All that the ledger holds.
    pub async fn rows(&self) -> Rows {
        Rows::read(&self.ledger_client()).await
    }

    /// Waits until the ledger is as wanted.
    pub async fn ledger(&self, what: &str, wanted: impl Fn(&Rows) -> bool) -> Rows {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let rows = self.rows().await;
            if wanted(&rows) {
                return rows;
            }
            assert!(Instant::now() < deadline, "the ledger does not come to hold {what}: {rows:#?}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// All that the API server and the ledger hold.
    pub async fn world(&self) -> World {
        World { rows: self.rows().await, ..World::of(&self.api).await }
    }

    /// Waits until objects, their status and the ledger say what they must, all at once.
    pub async fn settled(&self) -> World {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let world = self.world().await;
            let findings = findings(&world);
            if findings.is_empty() {
                return world;
            }
            assert!(Instant::now() <= deadline, "it does not come to rest: {findings:#?}\n{}", world.told());
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Waits until everything that was done to objects before this was called has been seen by the bridge, and what
    /// it proposed then is decided.
    pub async fn seen(&self) {
        self.stage.curtain().await;
    }

    /// Waits until the bridge that is at work says this of itself.
    pub async fn bridge(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.group.holdfast(&["status", "-o", "json", "--timeout", "30s"]).expect(0).json();
            let replicas = status["replicas"].as_array().expect("a list");
            // One that leads no longer may not know it yet.
            let working = replicas.iter().filter(|replica| replica["kubernetes"]["phase"] == "working");
            let newest = working.max_by_key(|replica| replica["term"].as_u64());
            if let Some(bridge) = newest.map(|replica| &replica["kubernetes"]).filter(|bridge| wanted(bridge)) {
                return bridge.clone();
            }
            assert!(Instant::now() < deadline, "the bridge does not come to say {what}: {status:#}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// How often a bridge of a replica that runs came into office. What it counts, remembers of objects and is about to
    /// tell ends with its office.
    pub fn offices(&mut self) -> usize {
        self.log().iter().filter(|line| line.contains("the bridge is in office")).count()
    }

    /// What a replica that runs has logged so far, of all of them.
    pub fn log(&mut self) -> Vec<String> {
        self.group.replicas.iter_mut().flatten().flat_map(|replica| replica.said().to_vec()).collect()
    }

    /// Events about an object that have this reason.
    pub async fn events(&self, kind: Kind, name: &str, reason: &str) -> Vec<Value> {
        let about = |event: &Value| {
            event["reason"] == reason && event["regarding"]["kind"] == kind.name() && event["regarding"]["name"] == name
        };
        self.api.list(Kind::Event).await.into_iter().filter(about).collect()
    }

    /// Waits for an Event about an object that has this reason. Its note.
    pub async fn event(&self, kind: Kind, name: &str, reason: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let events = self.events(kind, name, reason).await;
            if let Some(event) = events.last() {
                return event["note"].as_str().expect("text").to_owned();
            }
            let told: Vec<_> = self.api.list(Kind::Event).await;
            let told: Vec<_> =
                told.iter().map(|it| format!("{} {}: {}", it["regarding"]["name"], it["reason"], it["note"])).collect();
            assert!(Instant::now() < deadline, "no Event {reason} about {kind:?} {name}: {told:#?}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// What must hold at the end of every scene: nothing was forbidden to the bridge, and every replica's ledger is
    /// whole and the same.
    pub async fn end(self) {
        // (That a namespace which is being deleted takes nothing new is no question of rights. An API server that has
        // just started may not have read the roles yet: then the same is allowed a moment later.)
        let asked = self.asked();
        let what = |event: &Value| {
            let object = &event["objectRef"];
            [&event["verb"], &object["apiGroup"], &object["resource"], &object["subresource"]].map(Value::to_string)
        };
        let decided = |event: &&Value, how: &str| event["annotations"]["authorization.k8s.io/decision"] == how;
        let allowed: BTreeSet<_> = asked.iter().filter(|event| decided(event, "allow")).map(what).collect();
        let forbidden = asked.iter().filter(|event| decided(event, "forbid") && !allowed.contains(&what(event)));
        let forbidden: Vec<_> = forbidden.collect();
        assert!(forbidden.is_empty(), "{forbidden:#?}");
        self.check().await;
    }

    /// Every replica's ledger is whole, and all are the same.
    pub async fn check(&self) {
        let checked = self.group.holdfast(&["check", "--timeout", "60s", "-o", "json"]);
        if checked.code == 0 {
            return;
        }
        let mut told = Vec::new();
        for endpoint in &self.group.endpoints {
            let client = Client::new([endpoint]).expect("an endpoint");
            let mut watch = client.watch(WatchRequest { after_revision: Some(0), ..WatchRequest::default() });
            let mut changes = Vec::new();
            while let Ok(Ok(next)) = tokio::time::timeout(Duration::from_secs(1), watch.next()).await {
                changes.extend(next.changes.into_iter().map(|change| format!("{change:?}")));
            }
            told.push(changes);
        }
        let longest = told.iter().map(Vec::len).max().unwrap_or_default();
        let differ = (0..longest).find(|at| told.iter().any(|of| of.get(*at) != told[0].get(*at))).unwrap_or(longest);
        let around = |changes: &Vec<String>| {
            changes.iter().skip(differ.saturating_sub(6)).take(12).cloned().collect::<Vec<_>>().join("\n")
        };
        let around: Vec<_> = told.iter().map(around).collect();
        panic!("{checked:#?}\nthe replicas' changes differ from the {differ}. on:\n{}", around.join("\n\n"));
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (at, replica) in self.group.replicas.iter_mut().enumerate() {
                let said = replica.as_mut().map(|replica| replica.said().to_vec()).unwrap_or_default();
                eprintln!("replica {at} ends with:\n{}", said[said.len().saturating_sub(40)..].join("\n"));
            }
        }
    }
}
