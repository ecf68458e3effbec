//! Pod.

use std::collections::BTreeSet;
use std::net::IpAddr;

use holdfast_statemachine::command::{Grant, Owner, OwnerRef, PodOwner, ReleaseGrant, StatefulSetId};
use holdfast_statemachine::{Action, Name, PoolKind};

use super::said::Said;
use super::{annotations, uid};
use crate::objects::{Kind, Namespace, Object, ObjectMeta, Pod, PodIp};

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

/// The Pod that has the name of an ordinal's, bound to it if it may use the addresses that the ordinal holds: it belongs
/// to that StatefulSet or to nobody any more, and draws from pools, or runs with one of the addresses, whatever the
/// annotations say by now.
pub fn member(
    object: &Object,
    namespace: Option<&Namespace>,
    ordinal: (StatefulSetId, u32),
    held: &BTreeSet<IpAddr>,
) -> Option<Action> {
    let Object::Pod(pod) = object else { return None };
    let metadata = &pod.metadata;
    if pod.spec.host_network || is_gone(pod) {
        return None;
    }
    let is_orphan = metadata.controller().is_none();
    if !is_orphan && stateful_set_of(metadata).is_none_or(|set| set != ordinal.0.name) {
        return None;
    }
    let mut said = Said::about(object.reference());
    let own = said.annotation("metadata", &metadata.annotations, annotations::POOLS, annotations::pools);
    let pools = own.unwrap_or_else(|| said.namespace_pools(namespace));
    let runs_with = |ip: &PodIp| ip.ip.parse().is_ok_and(|ip| held.contains(&ip));
    let uses = !pools.is_empty() || pod.status.pod_ips.iter().any(runs_with);
    uses.then(|| bound(metadata, uid(Kind::Pod, metadata), ordinal, pools))
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
