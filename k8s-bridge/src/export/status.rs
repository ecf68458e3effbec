//! The `status` of the three kinds, as Kubernetes holds it.

use std::net::IpAddr;

use holdfast_statemachine::{Name, ledger};
use serde::Serialize;

use super::time;

/// The largest number that every JSON reader holds exactly, 2^53 - 1.
const LARGEST: u128 = (1 << 53) - 1;

/// `status` of an IPPool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IpPoolStatus {
    /// Every address held, ascending.
    pub ip_addresses: Vec<IpAddressState>,
    /// How full it is.
    pub usage: Usage,
    /// `Exhausted` and `Ready`.
    pub conditions: Vec<Condition>,
    /// Where this was read.
    pub holdfast: Holdfast,
}

/// `status` of an ExternalIPPool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExternalIpPoolStatus {
    /// How full it is.
    pub usage: Usage,
    /// `Exhausted` and `Ready`.
    pub conditions: Vec<Condition>,
    /// Where this was read.
    pub holdfast: Holdfast,
}

/// `status` of an Egress. A static one has neither addresses nor conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EgressStatus {
    /// The Node of the first address that has one; else empty.
    #[serde(rename = "egressNode")]
    pub egress_node: Name,
    /// The first address that has a Node; else empty.
    #[serde(rename = "egressIP")]
    pub egress_ip: String,
    /// Every address granted, in the order of the spec.
    #[serde(rename = "egressIPs", skip_serializing_if = "Vec::is_empty")]
    pub egress_ips: Vec<EgressAddress>,
    /// `IPAllocated` and `IPAssigned`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Where this was read.
    pub holdfast: Holdfast,
}

/// How full a pool is; no number above 2^53 - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Usable.
    pub total: u64,
    /// Held.
    pub used: u64,
    /// Not held.
    pub free: u64,
}

impl From<ledger::Usage> for Usage {
    fn from(usage: ledger::Usage) -> Usage {
        let capped = |n: u128| u64::try_from(n.min(LARGEST)).expect("2^53 - 1 fits 64 bits");
        Usage { total: capped(usage.total), used: capped(usage.used), free: capped(usage.free) }
    }
}

/// Which state of which ledger this is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Holdfast {
    /// The id of the replicas' group.
    pub cluster: Name,
    /// The index of the last log entry that changed this object's rows.
    pub index: u64,
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// `Ready`, ...
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// `True` or `False`.
    pub status: &'static str,
    /// When the row that it tells of last changed.
    pub last_transition_time: String,
    /// One word.
    pub reason: &'static str,
    /// One line.
    pub message: String,
}

impl Condition {
    pub(super) fn new(kind: &'static str, holds: bool, at: u64, reason: &'static str, message: String) -> Condition {
        let status = if holds { "True" } else { "False" };
        Condition { kind, status, last_transition_time: time(at), reason, message }
    }
}

/// One address held, of an IPPool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IpAddressState {
    /// The address.
    pub ip_address: IpAddr,
    /// `Reserved`: held for an ordinal that no Pod uses now; `Allocated`: in use.
    pub phase: &'static str,
    /// Who holds it.
    pub owner: Owner,
}

/// Who holds an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// The Pod that uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodOwner>,
    /// The StatefulSet that it is held for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stateful_set: Option<StatefulSetOwner>,
    /// An owner that is neither: a VM, a person, another allocator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
}

/// A Pod that uses an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PodOwner {
    /// Name.
    pub name: Name,
    /// Namespace.
    pub namespace: Name,
    /// The sandbox, where known.
    #[serde(rename = "containerID", skip_serializing_if = "Option::is_none")]
    pub container_id: Option<Name>,
    /// The interface, where known.
    #[serde(rename = "ifName", skip_serializing_if = "Option::is_none")]
    pub if_name: Option<Name>,
}

/// A StatefulSet's ordinal that an address is held for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatefulSetOwner {
    /// Name.
    pub name: Name,
    /// Namespace.
    pub namespace: Name,
    /// The ordinal.
    pub index: u32,
}

/// One address of an Egress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EgressAddress {
    /// The address.
    pub ip: IpAddr,
    /// Its Node; empty while it has none.
    pub node: Name,
}
