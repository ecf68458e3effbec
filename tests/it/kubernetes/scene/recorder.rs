//! Every version of the objects that the bridge writes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::{StreamExt, TryStreamExt};
use kube::api::{ListParams, WatchEvent, WatchParams};
use serde_json::Value;
use tokio::task::JoinSet;

use super::api::{Api, Kind, value};
use super::stage::name_of;

/// The kinds that the bridge writes.
const WRITTEN: [Kind; 3] = [Kind::IpPool, Kind::ExternalIpPool, Kind::Egress];

/// Records until it is dropped.
pub struct Recorder {
    versions: Arc<Mutex<Versions>>,
    tasks: JoinSet<()>,
}

/// Versions by kind, name and UID, in their order.
type Versions = BTreeMap<(Kind, String, String), Vec<Value>>;

impl Recorder {
    /// Records from now on, and misses nothing: a watch that cannot go on where it ended fails the test.
    pub async fn start(api: &Api) -> Recorder {
        let versions = Arc::new(Mutex::new(Versions::new()));
        let mut tasks = JoinSet::new();
        for kind in WRITTEN {
            let objects = api.of(kind, "");
            let listed = objects.list(&ListParams::default()).await.expect("the API server answers");
            for object in &listed.items {
                take(&versions, kind, value(object));
            }
            let mut version = listed.metadata.resource_version.expect("a list has a version");
            let versions = versions.clone();
            tasks.spawn(async move {
                loop {
                    let from = objects.watch(&WatchParams::default(), &version).await.expect("goes on");
                    let mut from = from.boxed();
                    while let Some(event) = from.try_next().await.expect("goes on") {
                        match event {
                            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                                version = object.metadata.resource_version.clone().expect("has a version");
                                take(&versions, kind, value(&object));
                            }
                            WatchEvent::Deleted(object) => {
                                version = object.metadata.resource_version.clone().expect("has a version");
                            }
                            WatchEvent::Bookmark(mark) => version = mark.metadata.resource_version,
                            WatchEvent::Error(error) => panic!("{kind:?}: {error:?}"),
                        }
                    }
                }
            });
        }
        Recorder { versions, tasks }
    }

    /// The versions so far of the objects of this name.
    pub fn of(&self, kind: Kind, name: &str) -> Vec<Value> {
        let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let of = versions.iter().filter(|((of, named, _), _)| *of == kind && named == name);
        of.flat_map(|(_, versions)| versions.clone()).collect()
    }

    /// Fails where an object's status went back to an older state of the ledger. How many versions were seen.
    pub fn never_fell(&mut self) -> usize {
        // A task ends only by a panic.
        if let Some(Err(lost)) = self.tasks.try_join_next() {
            panic!("a version was missed: {lost}");
        }
        let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        for (object, versions) in versions.iter() {
            let indexes: Vec<_> = versions.iter().filter_map(|it| it["status"]["holdfast"]["index"].as_u64()).collect();
            assert!(indexes.is_sorted(), "{object:?} went back: {indexes:?}");
        }
        versions.values().map(Vec::len).sum()
    }
}

fn take(versions: &Mutex<Versions>, kind: Kind, object: Value) {
    let uid = object["metadata"]["uid"].as_str().expect("a UID").to_owned();
    let key = (kind, name_of(&object).to_owned(), uid);
    versions.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().push(object);
}
