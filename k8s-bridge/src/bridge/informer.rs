//! Follows one kind of object: what is seen goes to the cache, its keys to the queues.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use kube::Resource;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Config, Event, watcher};
use tokio::sync::watch;

use super::backoff::Pauses;
use super::key::Key;
use super::office::Office;
use super::watched::{Live, Watchable, Watched};
use crate::ledger::Ledger;
use crate::objects::{Kind, Object};

/// Objects in one page of a list.
const PAGE: u32 = 500;

/// Follows a kind until it is dropped. `listed` becomes true with the first complete list.
///
/// Lists ask for the newest state (no resourceVersion): what they show was there after this replica won.
pub async fn follow<T, L>(office: Arc<Office<L>>, listed: watch::Sender<bool>)
where
    T: Watchable,
    Watched<T>: Resource<DynamicType = ()>,
    L: Ledger,
{
    let config = Config::default().page_size(PAGE);
    let events = watcher(Watched::<T>::api(office.client.clone()), config).filter(|event| {
        // A version that is forgotten is no failure: what is there is listed, at once.
        let expired = matches!(event, Err(watcher::Error::WatchError(status)) if status.code == 410);
        std::future::ready(!expired)
    });
    let mut events = pin!(events.backoff(Pauses::default()));
    // Keys that the list in progress has shown.
    let mut shown = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => shown.clear(),
            Ok(Event::InitApply(object)) => {
                shown.insert(object.key());
                seen(&office, &object);
            }
            Ok(Event::Apply(object)) => seen(&office, &object),
            Ok(Event::Delete(object)) => {
                let key = object.key();
                office.cache.delete(key.clone(), object.live.uid.clone());
                queue(&office, key, None);
            }
            Ok(Event::InitDone) => {
                let lost: Vec<Key> =
                    office.cache.keys(T::KIND).into_iter().filter(|key| !shown.contains(key)).collect();
                office.cache.forget(&lost);
                for key in lost {
                    queue(&office, key, None);
                }
                shown = BTreeSet::new();
                if listed.send_replace(true) {
                    tracing::info!(kind = T::KIND.name(), "listed again");
                }
            }
            // The watcher tries again, slower each time.
            Err(error) => {
                tracing::warn!(kind = T::KIND.name(), %error, "the Kubernetes API is not followed");
                office.report.failed(&format_args!("{}: {error}", T::KIND.name()));
            }
        }
    }
}

fn seen<T: Watchable, L: Ledger>(office: &Office<L>, object: &Watched<T>) {
    let key = object.key();
    let before = office.cache.apply(key.clone(), object.live.clone());
    if before.as_ref().is_some_and(|before| before.resource_version == object.live.resource_version) {
        return;
    }
    queue(office, key, before.as_deref());
}

/// Whoever may have to do something about this object is told.
fn queue<L: Ledger>(office: &Office<L>, key: Key, before: Option<&Live>) {
    match key.kind {
        Kind::Namespace => {
            // Its annotation may name pools for all that is in it. Most changes are of something else.
            let now = office.cache.get(&key);
            if annotations(before) != annotations(now.as_deref()) {
                for kind in [Kind::Pod, Kind::StatefulSet] {
                    office.decisions.add_all(office.cache.keys_in(kind, &key.name));
                }
            }
        }
        Kind::IpPool | Kind::ExternalIpPool | Kind::Egress => {
            office.mirror.add(key.clone());
            office.decisions.add(key);
        }
        Kind::Node | Kind::Pod | Kind::StatefulSet => office.decisions.add(key),
    }
}

fn annotations(
    live: Option<&Live>,
) -> Option<&std::collections::BTreeMap<holdfast_statemachine::Name, holdfast_statemachine::Name>> {
    match &live?.object {
        Ok(Object::Namespace(namespace)) if !namespace.metadata.annotations.is_empty() => {
            Some(&namespace.metadata.annotations)
        }
        _ => None,
    }
}
