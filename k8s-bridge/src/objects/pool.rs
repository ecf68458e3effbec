//! `crd.antrea.io/v1beta1` IPPool and ExternalIPPool.

use holdfast_statemachine::Name;
use serde::{Deserialize, Serialize};

use super::metadata::null_is_default;
use super::{LabelSelector, ObjectMeta};

/// Addresses for Pods.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct IpPool {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: IpPoolSpec,
}

/// `spec` of an IPPool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpPoolSpec {
    /// In the order in which they are given from.
    #[serde(default, deserialize_with = "null_is_default")]
    pub ip_ranges: Vec<IpRange>,
    /// The subnet that the addresses belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet_info: Option<SubnetInfo>,
}

/// Addresses for Egress.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ExternalIpPool {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: ExternalIpPoolSpec,
}

/// `spec` of an ExternalIPPool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalIpPoolSpec {
    /// In the order in which they are given from.
    #[serde(default, deserialize_with = "null_is_default")]
    pub ip_ranges: Vec<IpRange>,
    /// The subnet that the addresses belong to, where they have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet_info: Option<SubnetInfo>,
    /// Which Nodes may carry the addresses; `{}` matches every Node.
    pub node_selector: LabelSelector,
}

/// One item of `ipRanges`: either `cidr`, or `start` and `end`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IpRange {
    /// A network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cidr: Option<Name>,
    /// The lowest address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Name>,
    /// The highest address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Name>,
}

/// `subnetInfo` of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubnetInfo {
    /// The gateway's address.
    pub gateway: Name,
    /// Bits of the network.
    pub prefix_length: u32,
    /// 802.1Q tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u32>,
}
