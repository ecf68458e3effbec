//! Pods that no watch has shown yet. Each kind is watched by itself, and one watch may lag behind another: before
//! addresses of a StatefulSet go, the Pods that may run with them are asked for by name, and bound. What was not seen is
//! no proof that it is not there.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use holdfast_statemachine::command::{Owner, StatefulSetId};
use holdfast_statemachine::{Action, Held, Name, Rejection};
use kube::Api;
use tracing::info;

use super::key::Key;
use super::office::Office;
use super::requests;
use super::watched::{Pods, Watched};
use crate::ledger::{Ledger, Unproposed};
use crate::objects::Kind;
use crate::translate;

/// Questions at once.
const AT_ONCE: usize = 16;
/// Commands in one entry.
const ENTRY: usize = 256;
/// Until a watch should have shown a Pod that was bound before it did.
const SHOWN: Duration = Duration::from_secs(5);

/// Why it is not known whether there are such Pods.
pub enum Unknown {
    /// This replica leads no longer.
    Deposed,
    /// To be asked again.
    Again(String),
}

/// Binds the Pods of these ordinals of a StatefulSet, where there are any.
pub async fn bind<L: Ledger>(office: &Arc<Office<L>>, id: &StatefulSetId, held: Held) -> Result<(), Unknown> {
    let asked = stream::iter(held).map(|(ordinal, held)| ask(office, id.clone(), ordinal, held));
    let found = asked.buffered(AT_ONCE).try_filter_map(|found| std::future::ready(Ok(found)));
    let found: Vec<_> = found.try_collect().await.map_err(Unknown::Again)?;
    let mut entries: VecDeque<_> = found.chunks(ENTRY).collect();
    while let Some(entry) = entries.pop_front() {
        let proposed = office.propose(entry.iter().map(|(_, action)| action.clone()).collect()).await;
        let outcomes = match proposed {
            Ok(outcomes) => outcomes,
            Err(Unproposed::NotLeader) => return Err(Unknown::Deposed),
            Err(Unproposed::TooLarge(_)) if entry.len() > 1 => {
                let (first, rest) = entry.split_at(entry.len() / 2);
                entries.extend([first, rest]);
                continue;
            }
            Err(Unproposed::Again(why) | Unproposed::TooLarge(why)) => return Err(Unknown::Again(why)),
        };
        for ((key, action), outcome) in entry.iter().zip(outcomes) {
            match outcome {
                Ok(_) => ahead(office, key, action),
                Err(Rejection::StaleTerm { .. }) => return Err(Unknown::Deposed),
                Err(rejection) => return Err(Unknown::Again(rejection.to_string())),
            }
        }
    }
    Ok(())
}

/// The ledger knows of a Pod before the cache does.
fn ahead<L: Ledger>(office: &Office<L>, key: &Key, action: &Action) {
    let Action::Grant(grant) = action else { return };
    let Owner::Pod(pod) = &grant.owner else { return };
    if office.cache.get(key).is_some_and(|live| live.uid == pod.uid) {
        return;
    }
    info!(object = %key, "it is there, though no watch has shown it");
    office.ahead.told(key, &pod.uid);
    // Nor may a watch ever show it: if it goes before that, it is found to be gone when it is asked for.
    office.decisions.add_after(key.clone(), SHOWN);
}

/// The Pod of an ordinal, asked for without resourceVersion: the newest state.
async fn ask<L: Ledger>(
    office: &Arc<Office<L>>,
    id: StatefulSetId,
    ordinal: u32,
    held: BTreeMap<IpAddr, Name>,
) -> Result<Option<(Key, Action)>, String> {
    let key = Key { kind: Kind::Pod, namespace: id.namespace.clone(), name: format!("{}-{ordinal}", id.name).into() };
    let pods = Api::<Watched<Pods>>::namespaced(office.client.clone(), &key.namespace);
    let pod = requests::answered(pods.get_opt(&key.name)).await.map_err(|error| format!("{key}: {error}"))?;
    let namespace = office.cache.namespace(&key.namespace);
    let member = pod.and_then(|pod| {
        let object = pod.live.object.as_ref().ok()?;
        translate::member(object, namespace.as_ref(), (id, ordinal), &held)
    });
    Ok(member.map(|action| (key, action)))
}
