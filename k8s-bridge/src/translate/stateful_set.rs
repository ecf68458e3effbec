//! StatefulSet.

use std::net::IpAddr;

use holdfast_statemachine::Name;
use holdfast_statemachine::command::{Contiguity, Reserve, ReserveSpec, Retention, StatefulSetId};

use super::said::Said;
use super::{annotations, uid};
use crate::objects::{Kind, Namespace, StatefulSet};

/// The most Pods of one StatefulSet that the ledger reserves for.
const REPLICAS_MAX: u32 = 1_000_000;
/// The end of the ordinals: what fits Kubernetes' int32.
const ORDINALS_END: u64 = 1 << 31;

/// One that names no pool, or uses its Nodes' network, asks for nothing: a Reserve without pools, which ends what an
/// earlier one wanted.
pub(super) fn reserve(set: &StatefulSet, namespace: Option<&Namespace>, said: &mut Said) -> Reserve {
    let metadata = &set.metadata;
    let (pools, fixed) = wanted(set, namespace, said);
    let replicas = set.spec.replicas.unwrap_or(1);
    let start = set.spec.ordinals.start;
    if replicas > REPLICAS_MAX {
        said.refuse("spec.replicas", &replicas.to_string(), format!("0..={REPLICAS_MAX}"));
    }
    if u64::from(start) + u64::from(replicas) > ORDINALS_END {
        let allowed = format!("start + replicas is at most {ORDINALS_END}");
        said.refuse("spec.ordinals.start", &start.to_string(), allowed);
    }
    let own = &metadata.annotations;
    let at = "metadata";
    Reserve {
        id: StatefulSetId { namespace: metadata.namespace(), name: metadata.name.clone() },
        uid: uid(Kind::StatefulSet, metadata),
        spec: ReserveSpec {
            start,
            replicas,
            pools,
            fixed,
            headroom: said.annotation(at, own, annotations::HEADROOM, annotations::headroom).unwrap_or(0),
            contiguity: said
                .annotation(at, own, annotations::CONTIGUOUS, annotations::contiguous)
                .unwrap_or(Contiguity::Preferred),
            when_scaled: said
                .annotation(at, own, annotations::WHEN_SCALED, annotations::when_scaled)
                .unwrap_or(Retention::Retain),
            when_deleted: said
                .annotation(at, own, annotations::WHEN_DELETED, annotations::when_deleted)
                .unwrap_or(Retention::Release),
            settled: settled(set),
        },
    }
}

/// The pools and the fixed addresses that its Pods are to use.
fn wanted(set: &StatefulSet, namespace: Option<&Namespace>, said: &mut Said) -> (Vec<Name>, Vec<IpAddr>) {
    let template = &set.spec.template;
    let own = &template.metadata.annotations;
    let at = "spec.template.metadata";
    let pools = said.annotation(at, own, annotations::POOLS, annotations::pools);
    let fixed = said.annotation(at, own, annotations::FIXED, annotations::fixed).unwrap_or_default();
    if template.spec.host_network {
        return (Vec::new(), Vec::new());
    }
    (pools.unwrap_or_else(|| said.namespace_pools(namespace)), fixed)
}

/// Whether no Pod of an older template is due: the controller has seen the newest template, and its current and
/// update revisions agree. Without a status nothing says otherwise.
fn settled(set: &StatefulSet) -> bool {
    let Some(status) = &set.status else { return true };
    let seen = match (set.metadata.generation, status.observed_generation) {
        (Some(generation), Some(observed)) => observed >= generation,
        _ => true,
    };
    seen && status.current_revision == status.update_revision
}
