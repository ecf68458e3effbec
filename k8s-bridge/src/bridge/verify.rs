//! Objects that a list does not show are asked for one by one before anything of theirs is released: absence from a
//! cache is never proof.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{StreamExt, stream};
use holdfast_statemachine::command::{Gone, ObjectId, Sweep};
use holdfast_statemachine::{Action, Name, Rejection, Source};
use kube::{Api, Client, Resource};
use tracing::{info, warn};

use super::decide::{self, Deposed};
use super::key::Key;
use super::office::Office;
use super::requests;
use super::unseen::{self, Unknown};
use super::watched::{self, Watchable, Watched};
use crate::ledger::{Ledger, Unproposed};
use crate::objects::Kind;
use crate::translate;

/// Questions at once.
const AT_ONCE: usize = 16;
/// Objects in one entry.
const ENTRY: usize = 500;

/// Releases what the ledger holds for objects that are gone: all that the first lists do not show.
pub async fn sweep<L: Ledger>(office: &Arc<Office<L>>) -> Result<(), Deposed> {
    let mut declared = BTreeMap::new();
    for kind in Kind::ALL {
        let live = office.cache.all(kind);
        declared.extend(live.iter().filter_map(|(_, live)| translate::declared(live.object.as_ref().ok()?)));
        // One that cannot be read is there all the same.
        declared.extend(live.iter().filter_map(|(key, live)| Some((key.object()?, live.uid.clone()))));
    }
    let gone = office.ledger.read(|ledger| translate::gone(ledger.tables(), &Source::Kubernetes, &declared));
    if gone.is_empty() {
        return Ok(());
    }
    info!(objects = gone.len(), "the lists do not show these: asking for each");
    verify(office, gone.into_iter().map(|(object, _)| object).collect()).await
}

/// Does so, for as long as this replica leads, for whatever may be gone.
pub async fn run<L: Ledger>(office: Arc<Office<L>>) {
    loop {
        let keys = office.unproven.take().await;
        let objects = keys.iter().filter_map(Key::object).collect();
        if verify(&office, objects).await.is_err() {
            // The office is about to end.
            std::future::pending::<()>().await;
        }
    }
}

async fn verify<L: Ledger>(office: &Arc<Office<L>>, objects: Vec<ObjectId>) -> Result<(), Deposed> {
    let asked = stream::iter(objects).map(|object| {
        let office = office.clone();
        async move { ask(&office, object).await }
    });
    let mut gone = asked.buffer_unordered(AT_ONCE).filter_map(std::future::ready).ready_chunks(ENTRY);
    while let Some(gone) = gone.next().await {
        release(office, gone).await?;
    }
    Ok(())
}

/// What the ledger records of an object that the API server says is not there.
async fn ask<L: Ledger>(office: &Arc<Office<L>>, object: ObjectId) -> Option<Gone> {
    let key = Key::of(&object);
    let (recorded, revision) =
        office.ledger.read(|ledger| (ledger.recorded(&object), ledger.tables().clock().revision));
    let Some((_, uid)) = recorded.filter(|(source, _)| *source == Source::Kubernetes) else {
        // Nothing of it is held, whether it is gone or not.
        if office.cache.get(&key).is_none() {
            decide::forget(office, &key);
        }
        return None;
    };
    match requests::answered(uid_of(&office.client, &key)).await {
        // The watch will show it, also one that takes over what a former StatefulSet had.
        Ok(Some(there)) if there == uid || matches!(object, ObjectId::Reservation(_)) => {
            again(office, &key);
            None
        }
        Ok(there) => {
            if there.is_none() {
                decide::forget(office, &key);
            }
            let may_run_on = there.is_some() || matches!(object, ObjectId::Reservation(_));
            if may_run_on && !bind_unseen(office, &object).await {
                again(office, &key);
                return None;
            }
            let recorded = office.ledger.read(|ledger| ledger.recorded(&object));
            if recorded.is_some_and(|(_, recorded)| recorded != uid) {
                // Its successor was bound.
                office.decisions.add(key);
                return None;
            }
            Some(Gone { object, uid, unchanged_since: revision })
        }
        Err(error) => {
            warn!(object = %key, error, "whether it is gone is asked again");
            office.report.failed(&format_args!("{key}: {error}"));
            again(office, &key);
            None
        }
    }
}

/// Binds Pods that may run with addresses of what is gone, though nobody has seen them. Whether it is known that there
/// are no others.
async fn bind_unseen<L: Ledger>(office: &Arc<Office<L>>, object: &ObjectId) -> bool {
    let at_stake = office.ledger.read(|ledger| match object {
        ObjectId::Reservation(id) => Some((id.clone(), ledger.unbound(id))),
        ObjectId::Pod(namespace, name) => ledger.bound_to(namespace, name),
        _ => None,
    });
    let Some((id, held)) = at_stake else { return true };
    match unseen::bind(office, &id, held).await {
        Ok(()) => true,
        Err(Unknown::Deposed) => false,
        Err(Unknown::Again(why)) => {
            warn!(object = %Key::of(object), why, "whether its Pods are gone is asked again");
            office.report.failed(&why);
            false
        }
    }
}

/// It is looked at again: whoever finds nothing in the cache asks again.
fn again<L: Ledger>(office: &Office<L>, key: &Key) {
    office.decisions.add_after(key.clone(), office.backoff.failed(key));
}

async fn release<L: Ledger>(office: &Office<L>, gone: Vec<Gone>) -> Result<(), Deposed> {
    let keys: Vec<(ObjectId, Name)> = gone.iter().map(|gone| (gone.object.clone(), gone.uid.clone())).collect();
    for (object, _) in &keys {
        info!(object = %Key::of(object), "it is gone");
    }
    match office.propose(vec![Action::Sweep(Sweep { gone })]).await {
        Ok(outcomes) => {
            if outcomes.iter().any(|outcome| matches!(outcome, Err(Rejection::StaleTerm { .. }))) {
                return Err(Deposed);
            }
        }
        Err(Unproposed::NotLeader) => return Err(Deposed),
        Err(Unproposed::Again(why) | Unproposed::TooLarge(why)) => office.report.failed(&why),
    }
    // One that changed meanwhile was left alone.
    for (object, uid) in keys {
        let left = office.ledger.read(|ledger| ledger.recorded(&object)).is_some_and(|(_, recorded)| recorded == uid);
        let key = Key::of(&object);
        if left {
            again(office, &key);
        } else {
            office.backoff.succeeded(&key);
            if office.cache.get(&key).is_some() {
                // Another of its name was not looked at for the sake of the former one.
                office.decisions.add(key);
            }
        }
    }
    Ok(())
}

/// The UID of an object, asked for without resourceVersion: the newest state.
async fn uid_of(client: &Client, key: &Key) -> Result<Option<Name>, kube::Error> {
    let client = client.clone();
    match key.kind {
        // Nothing of a Namespace is held.
        Kind::Namespace => Ok(None),
        Kind::IpPool => get(Watched::<watched::IpPools>::api(client), key).await,
        Kind::ExternalIpPool => get(Watched::<watched::ExternalIpPools>::api(client), key).await,
        Kind::Egress => get(Watched::<watched::Egresses>::api(client), key).await,
        Kind::Node => get(Watched::<watched::Nodes>::api(client), key).await,
        Kind::Pod => get(Api::<Watched<watched::Pods>>::namespaced(client, &key.namespace), key).await,
        Kind::StatefulSet => get(Api::<Watched<watched::StatefulSets>>::namespaced(client, &key.namespace), key).await,
    }
}

async fn get<T: Watchable>(api: Api<Watched<T>>, key: &Key) -> Result<Option<Name>, kube::Error>
where
    Watched<T>: Resource<DynamicType = ()>,
{
    Ok(api.get_opt(&key.name).await?.map(|object| object.live.uid.clone()))
}
