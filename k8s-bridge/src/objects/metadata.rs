//! Metadata that every kind has.

use std::collections::BTreeMap;

use holdfast_statemachine::Name;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

/// `null` counts as a field that is not there.
pub(super) fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// `metadata`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectMeta {
    /// Name.
    pub name: Name,
    /// Namespace, as written.
    #[serde(default)]
    pub namespace: Option<Name>,
    /// UID, given by the Kubernetes API.
    #[serde(default)]
    pub uid: Option<Name>,
    /// Annotations.
    #[serde(default, deserialize_with = "null_is_default")]
    pub annotations: BTreeMap<Name, Name>,
    /// Labels.
    #[serde(default, deserialize_with = "null_is_default")]
    pub labels: BTreeMap<Name, Name>,
    /// When the Kubernetes API first stored it.
    #[serde(default)]
    pub creation_timestamp: Option<Timestamp>,
    /// When its deletion was asked for.
    #[serde(default)]
    pub deletion_timestamp: Option<Timestamp>,
    /// Whose it is.
    #[serde(default, deserialize_with = "null_is_default")]
    pub owner_references: Vec<OwnerReference>,
    /// Counts the changes of `spec`.
    #[serde(default)]
    pub generation: Option<i64>,
    /// Changes with every change of the object; given by the Kubernetes API.
    #[serde(default)]
    pub resource_version: Option<Name>,
}

impl ObjectMeta {
    /// The namespace; `default` where none is written, as with kubectl.
    pub fn namespace(&self) -> Name {
        self.namespace.clone().filter(|namespace| !namespace.is_empty()).unwrap_or_else(|| "default".into())
    }

    /// The owner that controls it, if one does.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller == Some(true))
    }
}

/// One item of `metadata.ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    /// The owner's API version.
    pub api_version: Name,
    /// The owner's kind.
    pub kind: Name,
    /// The owner's name.
    pub name: Name,
    /// The owner's UID.
    #[serde(default)]
    pub uid: Option<Name>,
    /// Whether it is the one that manages the object.
    #[serde(default)]
    pub controller: Option<bool>,
}
