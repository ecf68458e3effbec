//! `v1` Pod.

use holdfast_statemachine::Name;
use serde::Deserialize;

use super::ObjectMeta;
use super::metadata::null_is_default;

/// A Pod.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Pod {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default, deserialize_with = "null_is_default")]
    pub spec: PodSpec,
    /// What the kubelet says.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status: PodStatus,
}

/// `spec` of a Pod or of a Pod template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    /// Whether it uses its Node's addresses.
    #[serde(default, deserialize_with = "null_is_default")]
    pub host_network: bool,
}

/// `status` of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed`, `Unknown`.
    #[serde(default)]
    pub phase: Option<Name>,
    /// The addresses that it has, as the kubelet says.
    #[serde(default, rename = "podIPs", deserialize_with = "null_is_default")]
    pub pod_ips: Vec<PodIp>,
}

/// One item of `status.podIPs`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PodIp {
    /// The address.
    #[serde(default)]
    pub ip: Name,
}
