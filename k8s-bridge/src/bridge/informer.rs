//! Follows one kind of object: what is seen goes to the cache, its keys to the queues.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use http::Request;
use kube::client::Body;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Client, Resource};
use tokio::sync::watch;
use tower::service_fn;

use super::backoff::Pauses;
use super::key::Key;
use super::office::Office;
use super::requests;
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
    office.report.watch_is_down(T::KIND, &"not listed yet");
    let config = Config::default().page_size(PAGE);
    let events = watcher(Watched::<T>::api(client(&office, T::KIND)), config).filter(|event| {
        // A version that is forgotten is no failure: what is there is listed, at once.
        let expired = matches!(event, Err(watcher::Error::WatchError(status)) if status.code == 410);
        if expired {
            office.report.watch_is_down(T::KIND, &"its version is forgotten: listed anew");
        }
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
                let why = why(&error);
                tracing::warn!(kind = T::KIND.name(), error = why, "the Kubernetes API is not followed");
                office.report.failed(&format_args!("{}: {why}", T::KIND.name()));
                office.report.watch_is_down(T::KIND, &why);
            }
        }
    }
}

fn why(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => requests::why(error),
        watcher::Error::WatchError(status) => requests::why(&kube::Error::Api(status.clone())),
        watcher::Error::NoResourceVersion => error.to_string(),
    }
}

/// The office's client, which tells that a watch of this kind is up when the API server takes one up. A watcher does not:
/// where one goes on and nothing has changed, it shows nothing.
fn client<L: Ledger>(office: &Arc<Office<L>>, kind: Kind) -> Client {
    let namespace = office.client.default_namespace().to_owned();
    let office = office.clone();
    let send = move |request: Request<Body>| {
        let office = office.clone();
        async move {
            let is_watch = request.uri().query().is_some_and(|query| query.split('&').any(|it| it == "watch=true"));
            let answer = office.client.send(request).await?;
            if is_watch && answer.status().is_success() {
                office.report.watch_is_up(kind);
            }
            Ok::<_, kube::Error>(answer)
        }
    };
    Client::new(service_fn(send), namespace)
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
