//! Who holds an address, for programs.

use holdfast_statemachine::row::Holder;
use serde::Serialize;

/// Who holds an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HolderView {
    /// `StatefulSet`, `Owner`, `Pod`, `Egress` or `Observed`.
    pub kind: &'static str,
    /// Of a StatefulSet or a Pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Of a StatefulSet: which ordinal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordinal: Option<u32>,
    /// Of a StatefulSet: superseded, and kept while a Pod may use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub former: Option<bool>,
    /// Of an owner or a Pod; may be empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Of an owner or a Pod: who asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl HolderView {
    /// Who.
    pub fn of(holder: &Holder) -> HolderView {
        let plain = |kind, name: &str| HolderView {
            kind,
            namespace: None,
            name: name.to_owned(),
            ordinal: None,
            former: None,
            uid: None,
            source: None,
        };
        match holder {
            Holder::Ordinal { id, ordinal, former } => HolderView {
                namespace: Some(id.namespace.to_string()),
                ordinal: Some(*ordinal),
                former: Some(*former),
                ..plain("StatefulSet", &id.name)
            },
            Holder::Named { name, uid, source } => {
                HolderView { uid: Some(uid.to_string()), source: Some(source.to_string()), ..plain("Owner", name) }
            }
            Holder::Pod { pod, source } => HolderView {
                namespace: Some(pod.namespace.to_string()),
                uid: Some(pod.uid.to_string()),
                source: Some(source.to_string()),
                ..plain("Pod", &pod.name)
            },
            Holder::Egress { name } => plain("Egress", name),
            Holder::Observed { owner } => plain("Observed", owner),
        }
    }
}
