//! Pod.

use holdfast_statemachine::command::{Grant, Owner, OwnerRef, PodOwner, ReleaseGrant, StatefulSetId};
use holdfast_statemachine::{Action, Name, PoolKind};

use super::said::Said;
use super::{annotations, uid};
use crate::objects::{Kind, Namespace, ObjectMeta, Pod};

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
    let owner = PodOwner {
        namespace: metadata.namespace(),
        name: metadata.name.clone(),
        uid,
        container_id: None,
        interface: None,
        ordinal: Some((StatefulSetId { namespace: metadata.namespace(), name: set }, ordinal)),
    };
    Some(Action::Grant(Grant { owner: Owner::Pod(owner), kind: PoolKind::IpPool, pools, addresses: Vec::new() }))
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
