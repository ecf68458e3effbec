//! `apps/v1` StatefulSet.

use std::collections::BTreeMap;

use holdfast_statemachine::Name;
use serde::Deserialize;

use super::metadata::null_is_default;
use super::{ObjectMeta, PodSpec};

/// A StatefulSet.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct StatefulSet {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: StatefulSetSpec,
    /// What the controller says; `None` in most manifests.
    #[serde(default)]
    pub status: Option<StatefulSetStatus>,
}

/// `spec` of a StatefulSet.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct StatefulSetSpec {
    /// How many Pods; 1 where it is not said.
    #[serde(default)]
    pub replicas: Option<u32>,
    /// How they are numbered.
    #[serde(default, deserialize_with = "null_is_default")]
    pub ordinals: Ordinals,
    /// What each Pod is made from.
    pub template: PodTemplate,
}

/// `spec.ordinals` of a StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Ordinals {
    /// The first Pod's number.
    #[serde(default, deserialize_with = "null_is_default")]
    pub start: u32,
}

/// `spec.template` of a StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct PodTemplate {
    /// Metadata of the Pods to be.
    #[serde(default, deserialize_with = "null_is_default")]
    pub metadata: TemplateMeta,
    /// What the Pods are to be.
    #[serde(default, deserialize_with = "null_is_default")]
    pub spec: PodSpec,
}

/// Metadata of a Pod template; it has no name of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct TemplateMeta {
    /// Annotations.
    #[serde(default, deserialize_with = "null_is_default")]
    pub annotations: BTreeMap<Name, Name>,
}

/// `status` of a StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatefulSetStatus {
    /// The revision of the template that Pods not yet updated have.
    #[serde(default)]
    pub current_revision: Option<Name>,
    /// The revision of the newest template that the controller has seen.
    #[serde(default)]
    pub update_revision: Option<Name>,
    /// The `metadata.generation` that the controller has seen.
    #[serde(default)]
    pub observed_generation: Option<i64>,
}
