//! `crd.antrea.io/v1beta1` Egress.

use holdfast_statemachine::Name;
use serde::{Deserialize, Serialize};

use super::metadata::null_is_default;
use super::{LabelSelector, ObjectMeta};

/// An Egress.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Egress {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: EgressSpec,
}

/// `spec` of an Egress. The singular and the plural fields exclude each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EgressSpec {
    /// Whose traffic.
    #[serde(rename = "appliedTo")]
    pub applied_to: AppliedTo,
    /// The one address.
    #[serde(rename = "egressIP", default, skip_serializing_if = "Option::is_none")]
    pub egress_ip: Option<Name>,
    /// Several addresses; the i-th is of the i-th pool, `""` is to be chosen.
    #[serde(
        rename = "egressIPs",
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub egress_ips: Vec<Name>,
    /// The pool of the one address.
    #[serde(rename = "externalIPPool", default, skip_serializing_if = "Option::is_none")]
    pub external_ip_pool: Option<Name>,
    /// The pools of several addresses.
    #[serde(
        rename = "externalIPPools",
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub external_ip_pools: Vec<Name>,
    /// How much traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
}

/// `appliedTo` of an Egress; `{}` selects nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppliedTo {
    /// Which Pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<LabelSelector>,
    /// Pods of which namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
}

/// `bandwidth` of an Egress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bandwidth {
    /// Bits a second, as a quantity: `10M`.
    pub rate: Name,
    /// Bits in a burst, as a quantity.
    pub burst: Name,
}
