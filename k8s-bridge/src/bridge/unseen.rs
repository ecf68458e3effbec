//! Pods that no watch has shown yet. Each kind is watched by itself, and one watch may lag behind another: before
//! addresses of a StatefulSet go that no Pod is bound to, the Pods that may run with them are asked for by name, and
//! bound. What was not seen is no proof that it is not there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use holdfast_statemachine::command::StatefulSetId;
use holdfast_statemachine::{Action, Rejection};
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

/// Binds the Pods of these ordinals of a StatefulSet, where there are any. The ordinals hold these addresses.
pub async fn bind<L: Ledger>(
    office: &Arc<Office<L>>,
    id: &StatefulSetId,
    unbound: BTreeMap<u32, BTreeSet<IpAddr>>,
) -> Result<(), Unknown> {
    let asked = stream::iter(unbound).map(|(ordinal, held)| ask(office, id.clone(), ordinal, held));
    let answers: Vec<_> = asked.buffered(AT_ONCE).collect().await;
    let found: Result<Vec<_>, String> = answers.into_iter().filter_map(Result::transpose).collect();
    let found = found.map_err(Unknown::Again)?;
    for entry in found.chunks(ENTRY) {
        for (key, _) in entry {
            info!(object = %key, "it is there, though no watch has shown it");
            // Nor may a watch ever show it: if it goes before that, it is found to be gone when it is asked for.
            office.decisions.add_after(key.clone(), SHOWN);
        }
        let outcomes = office.propose(entry.iter().map(|(_, action)| action.clone()).collect()).await;
        let outcomes = outcomes.map_err(|error| match error {
            Unproposed::NotLeader => Unknown::Deposed,
            Unproposed::Again(why) | Unproposed::TooLarge(why) => Unknown::Again(why),
        })?;
        for outcome in outcomes {
            match outcome {
                Ok(_) => {}
                Err(Rejection::StaleTerm { .. }) => return Err(Unknown::Deposed),
                Err(rejection) => return Err(Unknown::Again(rejection.to_string())),
            }
        }
    }
    Ok(())
}

/// The Pod of an ordinal, asked for without resourceVersion: the newest state.
async fn ask<L: Ledger>(
    office: &Arc<Office<L>>,
    id: StatefulSetId,
    ordinal: u32,
    held: BTreeSet<IpAddr>,
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
