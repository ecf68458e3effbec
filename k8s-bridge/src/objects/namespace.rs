//! `v1` Namespace.

use serde::Deserialize;

use super::ObjectMeta;

/// A Namespace: read for its annotations.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Namespace {
    /// Metadata.
    pub metadata: ObjectMeta,
}
