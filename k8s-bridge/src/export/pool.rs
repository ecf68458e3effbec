//! IPPool and ExternalIPPool.

use std::collections::BTreeMap;
use std::net::IpAddr;

use holdfast_statemachine::command::{Operator, PutPool, RangeSpec, Selector, StatefulSetId, Subnet};
use holdfast_statemachine::ledger::Usage;
use holdfast_statemachine::row::{BoundPod, Holder, PodRef, PoolRow};
use holdfast_statemachine::{Family, Ledger, Name, PoolId, Tables};

use super::status::{
    Condition, ExternalIpPoolStatus, Holdfast, IpAddressState, IpPoolStatus, Owner, PodOwner, StatefulSetOwner,
};
use super::{Metadata, Whole};
use crate::objects::{
    ExternalIpPoolSpec, IpPoolSpec, IpRange, Kind, LabelSelector, LabelSelectorRequirement, SubnetInfo,
};
use crate::translate::{annotations, duration};

/// Every address held, by pool and ascending, retired pools' included: one pass over all grants.
pub fn holders(tables: &Tables) -> BTreeMap<PoolId, Vec<IpAddressState>> {
    let used = used_by_pods(tables);
    let mut pools = BTreeMap::<PoolId, Vec<IpAddressState>>::new();
    for (address, grant) in tables.grants() {
        let (phase, owner) = match &grant.holder {
            Holder::Ordinal { id, ordinal, .. } => {
                let pod = used.get(address).map(|pod| pod_owner(pod));
                let (name, namespace) = (id.name.clone(), id.namespace.clone());
                let stateful_set = Some(StatefulSetOwner { name, namespace, index: *ordinal });
                let phase = if pod.is_some() { "Allocated" } else { "Reserved" };
                (phase, Owner { pod, stateful_set, name: None })
            }
            Holder::Pod { pod, .. } => ("Allocated", Owner { pod: Some(pod_owner(pod)), ..Owner::default() }),
            Holder::Named { name, .. } | Holder::Egress { name } | Holder::Observed { owner: name } => {
                ("Allocated", Owner { name: Some(name.clone()), ..Owner::default() })
            }
        };
        let state = IpAddressState { ip_address: *address, phase, owner };
        pools.entry(grant.pool.clone()).or_default().push(state);
    }
    pools
}

fn pod_owner(pod: &PodRef) -> PodOwner {
    PodOwner {
        name: pod.name.clone(),
        namespace: pod.namespace.clone(),
        container_id: pod.container_id.clone(),
        if_name: pod.interface.clone(),
    }
}

/// One address of an ordinal.
struct Held<'a> {
    address: IpAddr,
    pool: &'a Name,
    former: bool,
}

/// The addresses that the ordinals' Pods use, with the Pod.
fn used_by_pods(tables: &Tables) -> BTreeMap<IpAddr, &PodRef> {
    let mut held = BTreeMap::<(&StatefulSetId, u32, Family), Vec<Held<'_>>>::new();
    for (address, grant) in tables.grants() {
        if let Holder::Ordinal { id, ordinal, former } = &grant.holder {
            let one = Held { address: *address, pool: &grant.pool.name, former: *former };
            held.entry((id, *ordinal, Family::of(*address))).or_default().push(one);
        }
    }
    let mut used = BTreeMap::new();
    for ((id, ordinal), row) in tables.ordinals() {
        let Some(bound) = &row.pod else { continue };
        for family in Family::ALL {
            if let Some(address) = held.get(&(id, *ordinal, family)).and_then(|held| used_of(held, bound)) {
                used.insert(address, &bound.pod);
            }
        }
    }
    used
}

/// Which of an ordinal's addresses of one family, ascending, its Pod uses: the current one if the Pod's own pools
/// name its pool, else the lowest former one of such a pool, else the current one.
fn used_of(held: &[Held<'_>], bound: &BoundPod) -> Option<IpAddr> {
    let current = held.iter().find(|one| !one.former);
    let named = |one: &&Held<'_>| bound.pools.contains(one.pool);
    let of_former = || held.iter().filter(|one| one.former).find(named);
    current.filter(named).or_else(of_former).or(current).map(|one| one.address)
}

pub(super) fn ip_pool_whole(
    ledger: &Ledger,
    id: &PoolId,
    row: &PoolRow,
    cluster: &str,
    held: Vec<IpAddressState>,
) -> Whole<IpPoolSpec, IpPoolStatus> {
    let status = ip_pool_status(ledger, id, row, cluster, held);
    Whole::new(Kind::IpPool, metadata(id, &row.wanted), ip_pool_spec(&row.wanted), status)
}

pub(super) fn external_whole(
    ledger: &Ledger,
    id: &PoolId,
    row: &PoolRow,
    cluster: &str,
) -> Whole<ExternalIpPoolSpec, ExternalIpPoolStatus> {
    let status = external_ip_pool_status(ledger, id, row, cluster);
    Whole::new(Kind::ExternalIpPool, metadata(id, &row.wanted), external_ip_pool_spec(&row.wanted), status)
}

fn metadata(id: &PoolId, wanted: &PutPool) -> Metadata {
    let mut metadata = Metadata::new(&id.name, &wanted.uid);
    if wanted.cool_down > 0 {
        metadata.annotations.insert(annotations::COOL_DOWN, duration::format(wanted.cool_down));
    }
    metadata
}

/// `spec` of an IPPool, as it was put.
pub fn ip_pool_spec(wanted: &PutPool) -> IpPoolSpec {
    IpPoolSpec { ip_ranges: ranges(wanted), subnet_info: wanted.subnet.as_ref().map(subnet_info) }
}

/// `spec` of an ExternalIPPool, as it was put.
pub fn external_ip_pool_spec(wanted: &PutPool) -> ExternalIpPoolSpec {
    ExternalIpPoolSpec {
        ip_ranges: ranges(wanted),
        subnet_info: wanted.subnet.as_ref().map(subnet_info),
        node_selector: selector(&wanted.node_selector),
    }
}

fn ranges(wanted: &PutPool) -> Vec<IpRange> {
    let range = |range: &RangeSpec| match range {
        RangeSpec::Cidr(cidr) => IpRange { cidr: Some(cidr.clone()), ..IpRange::default() },
        RangeSpec::StartEnd(start, end) => IpRange { cidr: None, start: Some(start.clone()), end: Some(end.clone()) },
    };
    wanted.ranges.iter().map(range).collect()
}

fn subnet_info(subnet: &Subnet) -> SubnetInfo {
    SubnetInfo { gateway: subnet.gateway.clone(), prefix_length: subnet.prefix_length, vlan: subnet.vlan }
}

fn selector(selector: &Selector) -> LabelSelector {
    let requirement = |requirement: &holdfast_statemachine::command::Requirement| LabelSelectorRequirement {
        key: requirement.key.clone(),
        operator: match requirement.operator {
            Operator::In => "In",
            Operator::NotIn => "NotIn",
            Operator::Exists => "Exists",
            Operator::DoesNotExist => "DoesNotExist",
        }
        .into(),
        values: requirement.values.clone(),
    };
    LabelSelector {
        match_labels: selector.match_labels.clone(),
        match_expressions: selector.match_expressions.iter().map(requirement).collect(),
    }
}

/// `status` of an IPPool whose addresses `held` are [`holders`]'.
pub fn ip_pool_status(
    ledger: &Ledger,
    id: &PoolId,
    row: &PoolRow,
    cluster: &str,
    held: Vec<IpAddressState>,
) -> IpPoolStatus {
    let ExternalIpPoolStatus { usage, conditions, holdfast } = external_ip_pool_status(ledger, id, row, cluster);
    IpPoolStatus { ip_addresses: held, usage, conditions, holdfast }
}

/// `status` of an ExternalIPPool.
pub fn external_ip_pool_status(ledger: &Ledger, id: &PoolId, row: &PoolRow, cluster: &str) -> ExternalIpPoolStatus {
    let usage = ledger.usage(id).unwrap_or_default();
    let conditions = conditions(ledger, row, usage);
    ExternalIpPoolStatus { usage: usage.into(), conditions, holdfast: holdfast(row, cluster) }
}

fn holdfast(row: &PoolRow, cluster: &str) -> Holdfast {
    Holdfast { cluster: cluster.into(), index: row.stamp.index.max(row.used.index) }
}

fn conditions(ledger: &Ledger, row: &PoolRow, usage: Usage) -> Vec<Condition> {
    let changed = row.stamp.at.max(row.used.at);
    let exhausted = if usage.free == 0 {
        let message = match usage.total {
            0 => "it has no addresses".to_owned(),
            total => format!("none of {total} addresses is free"),
        };
        Condition::new("Exhausted", true, changed, "NoneFree", message)
    } else {
        let message = format!("{} of {} addresses are free", usage.free, usage.total);
        Condition::new("Exhausted", false, changed, "Free", message)
    };
    let ready = match &row.waiting {
        None => Condition::new("Ready", true, row.stamp.at, "InForce", "its ranges are in force".to_owned()),
        Some((_, waiting)) => {
            let kept = if row.ranges.is_empty() { "" } else { "; the ranges last accepted stay in force" };
            Condition::new(
                "Ready",
                false,
                row.stamp.at,
                waiting.code(),
                format!("waits: {}{kept}", ledger.refreshed(waiting)),
            )
        }
    };
    vec![exhausted, ready]
}
