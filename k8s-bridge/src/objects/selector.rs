//! A Kubernetes label selector, as written.

use std::collections::BTreeMap;

use holdfast_statemachine::Name;
use serde::{Deserialize, Serialize};

use super::metadata::null_is_default;

/// A label selector; `{}` matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels that must be there with these values.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<Name, Name>,
    /// Requirements that must all hold.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// One requirement of a selector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelSelectorRequirement {
    /// The label.
    pub key: Name,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: Name,
    /// Values, for `In` and `NotIn`.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Name>,
}
