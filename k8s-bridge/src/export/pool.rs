//! IPPool and ExternalIPPool.

use std::net::IpAddr;
use std::ops::Bound;

use holdfast_statemachine::command::{Operator, PutPool, RangeSpec, Selector, Subnet};
use holdfast_statemachine::ledger::Usage;
use holdfast_statemachine::row::{GrantRow, Holder, PodRef, PoolRow};
use holdfast_statemachine::{Ledger, PoolId, Range};

use super::status::{
    Condition, ExternalIpPoolStatus, Holdfast, IpAddressState, IpPoolStatus, Owner, PodOwner, StatefulSetOwner,
};
use super::{Metadata, Whole};
use crate::objects::{
    ExternalIpPoolSpec, IpPoolSpec, IpRange, Kind, LabelSelector, LabelSelectorRequirement, SubnetInfo,
};
use crate::translate::{annotations, duration};

/// The addresses held in a pool's ranges in force that follow `after`, ascending, at most `limit`. What is left of a
/// deleted pool of the same name is no part of it.
pub fn entries(ledger: &Ledger, row: &PoolRow, after: Option<IpAddr>, limit: usize) -> Vec<IpAddressState> {
    let mut ranges = row.ranges.clone();
    ranges.sort_unstable_by_key(|range| range.first());
    let grants = ledger.tables().grants();
    let above = |range: &Range| after.is_none_or(|after| range.last() > after);
    let held = ranges.into_iter().filter(above).flat_map(|range| {
        let from = match after.filter(|after| *after >= range.first()) {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(range.first()),
        };
        grants.range((from, Bound::Included(range.last())))
    });
    held.take(limit).map(|(address, grant)| entry(ledger, *address, grant)).collect()
}

fn entry(ledger: &Ledger, address: IpAddr, grant: &GrantRow) -> IpAddressState {
    let (phase, owner) = match &grant.holder {
        Holder::Ordinal { id, ordinal, .. } => {
            let pod = ledger.pod_using(address).map(pod_owner);
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
    IpAddressState { ip_address: address, phase, owner }
}

fn pod_owner(pod: &PodRef) -> PodOwner {
    PodOwner {
        name: pod.name.clone(),
        namespace: pod.namespace.clone(),
        container_id: pod.container_id.clone(),
        if_name: pod.interface.clone(),
    }
}

pub(super) fn ip_pool_whole(
    ledger: &Ledger,
    id: &PoolId,
    row: &PoolRow,
    cluster: &str,
) -> Whole<IpPoolSpec, IpPoolStatus> {
    let held = entries(ledger, row, None, usize::MAX);
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

/// `status` of an IPPool whose addresses held are these [`entries`].
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
