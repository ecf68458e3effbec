//! Pod.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use holdfast_statemachine::command::{Grant, Owner, OwnerRef, PodOwner, ReleaseGrant, StatefulSetId};
use holdfast_statemachine::{Action, Name, PoolKind};

use super::said::Said;
use super::{annotations, uid};
use crate::objects::{Kind, Namespace, Object, ObjectMeta, Pod};

/// Whether a Pod uses its addresses no longer: its phase is `Succeeded` or `Failed`. One that is being deleted still
/// does, until it is gone from the API.
pub fn is_gone(pod: &Pod) -> bool {
    matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"))
}

/// - Gone: its grant is released, whoever owns it now: an orphan keeps its ordinal until then.
/// - A StatefulSet's, with pools of its own annotation or else its Namespace's: bound to its ordinal.
/// - Any other yields nothing: it asks for its address itself, through the CNI plugin, when it is set up.
pub(super) fn pod(pod: &Pod, namespace: Option<&Namespace>, said: &mut Said) -> Option<Action> {
    let metadata = &pod.metadata;
    let uid = uid(Kind::Pod, metadata);
    if pod.spec.host_network {
        return None;
    }
    if is_gone(pod) {
        // Whatever its annotations say.
        let owner = OwnerRef::Pod(metadata.namespace(), metadata.name.clone());
        return Some(Action::ReleaseGrant(ReleaseGrant { owner, uid, revision: None }));
    }
    let key = annotations::POOLS;
    let own = said.annotation("metadata", &metadata.annotations, key, annotations::pools);
    let set = stateful_set_of(metadata)?;
    let pools = own.unwrap_or_else(|| said.namespace_pools(namespace));
    if pools.is_empty() {
        return None;
    }
    let Some(ordinal) = ordinal_of(&metadata.name, &set) else {
        said.note(format!("belongs to StatefulSet {set}, but is not named {set}-<ordinal>: passed over"));
        return None;
    };
    Some(bound(metadata, uid, (StatefulSetId { namespace: metadata.namespace(), name: set }, ordinal), pools))
}

fn bound(metadata: &ObjectMeta, uid: Name, ordinal: (StatefulSetId, u32), pools: Vec<Name>) -> Action {
    let owner = PodOwner {
        namespace: metadata.namespace(),
        name: metadata.name.clone(),
        uid,
        container_id: None,
        interface: None,
        ordinal: Some(ordinal),
    };
    Action::Grant(Grant { owner: Owner::Pod(owner), kind: PoolKind::IpPool, pools, addresses: Vec::new() })
}

/// The Pod that has the name of an ordinal's, bound to it if it may use the addresses that the ordinal holds, each with
/// its pool: it runs with one of them, whatever else is said of it by now; or it draws from pools, and belongs to that
/// StatefulSet or to nobody any more.
pub fn member(
    object: &Object,
    namespace: Option<&Namespace>,
    ordinal: (StatefulSetId, u32),
    held: &BTreeMap<IpAddr, Name>,
) -> Option<Action> {
    let Object::Pod(pod) = object else { return None };
    let metadata = &pod.metadata;
    if pod.spec.host_network || is_gone(pod) {
        return None;
    }
    let has = pod.status.pod_ips.iter().filter_map(|it| held.get(&it.ip.parse().ok()?));
    let mut pools: Vec<Name> = has.cloned().collect();
    let set = stateful_set_of(metadata);
    if metadata.controller().is_none() || set.is_some_and(|set| set == ordinal.0.name) {
        let mut said = Said::about(object.reference());
        let own = said.annotation("metadata", &metadata.annotations, annotations::POOLS, annotations::pools);
        pools.extend(own.unwrap_or_else(|| said.namespace_pools(namespace)));
    }
    let mut seen = BTreeSet::new();
    pools.retain(|pool| seen.insert(pool.clone()));
    (!pools.is_empty()).then(|| bound(metadata, uid(Kind::Pod, metadata), ordinal, pools))
}

/// The StatefulSet that controls a Pod.
fn stateful_set_of(metadata: &ObjectMeta) -> Option<Name> {
    let owner = metadata.controller()?;
    let is_set = &*owner.kind == Kind::StatefulSet.name() && owner.api_version.starts_with("apps/");
    is_set.then(|| owner.name.clone())
}

/// The number in `<set>-<number>`, as the StatefulSet controller writes it: no sign, no leading zero.
fn ordinal_of(name: &str, set: &str) -> Option<u32> {
    let digits = name.strip_prefix(set)?.strip_prefix('-')?;
    digits.parse().ok().filter(|ordinal: &u32| ordinal.to_string() == digits)
}
