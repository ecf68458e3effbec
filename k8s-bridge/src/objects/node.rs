//! `v1` Node.

use holdfast_statemachine::Name;
use jiff::Timestamp;
use serde::Deserialize;

use super::ObjectMeta;
use super::metadata::null_is_default;

/// A Node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Node {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What the kubelet and the node controller say.
    #[serde(default, deserialize_with = "null_is_default")]
    pub status: NodeStatus,
}

/// `status` of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct NodeStatus {
    /// Conditions.
    #[serde(default, deserialize_with = "null_is_default")]
    pub conditions: Vec<NodeCondition>,
}

/// One condition of a Node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct NodeCondition {
    /// `Ready`, ...
    #[serde(rename = "type")]
    pub kind: Name,
    /// `True`, `False` or `Unknown`.
    pub status: Name,
    /// When `status` last changed.
    #[serde(default, rename = "lastTransitionTime")]
    pub since: Option<Timestamp>,
}
