//! The Kubernetes kinds that Holdfast reads, with exactly the fields that it uses.
//!
//! Fields that are not listed are passed over; a listed field of another type is an error. `null` is as good
//! as a field that is not there.

mod egress;
mod metadata;
mod namespace;
mod node;
mod pod;
mod pool;
mod selector;
mod stateful_set;

use std::fmt;

use holdfast_statemachine::Name;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use egress::{AppliedTo, Bandwidth, Egress, EgressSpec};
pub use metadata::{ObjectMeta, OwnerReference};
pub use namespace::Namespace;
pub use node::{Node, NodeCondition, NodeStatus};
pub use pod::{Pod, PodIp, PodSpec, PodStatus};
pub use pool::{ExternalIpPool, ExternalIpPoolSpec, IpPool, IpPoolSpec, IpRange, SubnetInfo};
pub use selector::{LabelSelector, LabelSelectorRequirement};
pub use stateful_set::{Ordinals, PodTemplate, StatefulSet, StatefulSetSpec, StatefulSetStatus, TemplateMeta};

use crate::problem::{FieldProblem, shown};

/// The kinds, in the order in which objects are proposed to the ledger; Namespaces only modify others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `v1` Namespace.
    Namespace,
    /// `crd.antrea.io/v1beta1` IPPool.
    IpPool,
    /// `crd.antrea.io/v1beta1` ExternalIPPool.
    ExternalIpPool,
    /// `v1` Node.
    Node,
    /// `v1` Pod.
    Pod,
    /// `apps/v1` StatefulSet.
    StatefulSet,
    /// `crd.antrea.io/v1beta1` Egress.
    Egress,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 7] =
        [Kind::Namespace, Kind::IpPool, Kind::ExternalIpPool, Kind::Node, Kind::Pod, Kind::StatefulSet, Kind::Egress];

    /// As in an object's `kind`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Namespace => "Namespace",
            Kind::IpPool => "IPPool",
            Kind::ExternalIpPool => "ExternalIPPool",
            Kind::Node => "Node",
            Kind::Pod => "Pod",
            Kind::StatefulSet => "StatefulSet",
            Kind::Egress => "Egress",
        }
    }

    /// As in an object's `apiVersion`.
    pub fn api_version(self) -> &'static str {
        match self {
            Kind::Namespace | Kind::Node | Kind::Pod => "v1",
            Kind::StatefulSet => "apps/v1",
            Kind::IpPool | Kind::ExternalIpPool | Kind::Egress => "crd.antrea.io/v1beta1",
        }
    }

    /// Whether its objects live in a namespace.
    pub fn namespaced(self) -> bool {
        matches!(self, Kind::Pod | Kind::StatefulSet)
    }

    /// The kind of this name in this API version, if it is one that is read.
    pub fn find(api_version: &str, name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name && kind.api_version() == api_version)
    }
}

/// Names one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    /// Its kind, as written.
    pub kind: Name,
    /// Its namespace, if its kind lives in one.
    pub namespace: Option<Name>,
    /// Its name; may be empty where it is not known.
    pub name: Name,
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        match &self.namespace {
            Some(namespace) => write!(f, " {namespace}/{}", self.name),
            None if self.name.is_empty() => Ok(()),
            None => write!(f, " {}", self.name),
        }
    }
}

/// One object.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// See [`Kind::Namespace`].
    Namespace(Namespace),
    /// See [`Kind::IpPool`].
    IpPool(Box<IpPool>),
    /// See [`Kind::ExternalIpPool`].
    ExternalIpPool(Box<ExternalIpPool>),
    /// See [`Kind::Node`].
    Node(Box<Node>),
    /// See [`Kind::Pod`].
    Pod(Box<Pod>),
    /// See [`Kind::StatefulSet`].
    StatefulSet(Box<StatefulSet>),
    /// See [`Kind::Egress`].
    Egress(Box<Egress>),
}

impl Object {
    /// Reads an object of a kind. The problem names the field by its path inside the object.
    pub fn from_value(kind: Kind, value: &Value) -> Result<Object, FieldProblem> {
        Ok(match kind {
            Kind::Namespace => Object::Namespace(typed(kind, value)?),
            Kind::IpPool => Object::IpPool(Box::new(typed(kind, value)?)),
            Kind::ExternalIpPool => Object::ExternalIpPool(Box::new(typed(kind, value)?)),
            Kind::Node => Object::Node(Box::new(typed(kind, value)?)),
            Kind::Pod => Object::Pod(Box::new(typed(kind, value)?)),
            Kind::StatefulSet => Object::StatefulSet(Box::new(typed(kind, value)?)),
            Kind::Egress => Object::Egress(Box::new(typed(kind, value)?)),
        })
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Object::Namespace(_) => Kind::Namespace,
            Object::IpPool(_) => Kind::IpPool,
            Object::ExternalIpPool(_) => Kind::ExternalIpPool,
            Object::Node(_) => Kind::Node,
            Object::Pod(_) => Kind::Pod,
            Object::StatefulSet(_) => Kind::StatefulSet,
            Object::Egress(_) => Kind::Egress,
        }
    }

    /// Its metadata.
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Object::Namespace(object) => &object.metadata,
            Object::IpPool(object) => &object.metadata,
            Object::ExternalIpPool(object) => &object.metadata,
            Object::Node(object) => &object.metadata,
            Object::Pod(object) => &object.metadata,
            Object::StatefulSet(object) => &object.metadata,
            Object::Egress(object) => &object.metadata,
        }
    }

    /// Its kind, namespace and name.
    pub fn reference(&self) -> ObjectRef {
        let kind = self.kind();
        let metadata = self.metadata();
        ObjectRef {
            kind: kind.name().into(),
            namespace: kind.namespaced().then(|| metadata.namespace()),
            name: metadata.name.clone(),
        }
    }
}

/// The object that an untyped value says it is, for messages about it.
pub(crate) fn reference_of(value: &Value) -> ObjectRef {
    let text = |pointer| value.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    ObjectRef {
        kind: text("/kind").unwrap_or("object").into(),
        namespace: text("/metadata/namespace").map(Name::from),
        name: text("/metadata/name").unwrap_or_default().into(),
    }
}

fn typed<T: DeserializeOwned>(kind: Kind, value: &Value) -> Result<T, FieldProblem> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let object = ObjectRef { kind: kind.name().into(), ..reference_of(value) };
        let path = error.path().to_string();
        let message = error.inner().to_string();
        if let Some(field) = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
            let field = if path == "." { field.to_owned() } else { format!("{path}.{field}") };
            return FieldProblem::missing(&object, field, "it is required");
        }
        let held = error.path().iter().try_fold(value, |value, segment| match segment {
            serde_path_to_error::Segment::Seq { index } => value.get(index),
            serde_path_to_error::Segment::Map { key } => value.get(key),
            _ => None,
        });
        let allowed = match message.split_once(", expected ") {
            // What YAML takes for a number or a truth value was often meant as text: `no`, `1.20`.
            Some((_, "a string")) if matches!(held, Some(Value::Bool(_) | Value::Number(_))) => "a string, in quotes",
            Some((_, expected)) => expected,
            None => &message,
        };
        FieldProblem {
            object,
            field: path,
            value: held.map_or_else(|| "nothing".to_owned(), shown),
            allowed: allowed.to_owned(),
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(kind: Kind, value: &Value) -> (String, String, String) {
        let problem = Object::from_value(kind, value).expect_err("must be refused");
        (problem.field, problem.value, problem.allowed)
    }

    #[test]
    fn a_field_of_another_type_is_named_with_its_value_and_what_is_allowed() {
        let cases = [
            (Kind::Node, json!({}), ("metadata", "nothing", "it is required")),
            (Kind::Node, json!({"metadata": {}}), ("metadata.name", "nothing", "it is required")),
            (Kind::Node, json!({"metadata": {"name": 5}}), ("metadata.name", "5", "a string, in quotes")),
            (
                Kind::Node,
                json!({"metadata": {"name": "a", "labels": {"on": true}}}),
                ("metadata.labels.on", "true", "a string, in quotes"),
            ),
            (
                Kind::StatefulSet,
                json!({"metadata": {"name": "a"}, "spec": {"template": {}, "replicas": -1}}),
                ("spec.replicas", "-1", "u32"),
            ),
            (
                Kind::IpPool,
                json!({"metadata": {"name": "a"}, "spec": {"ipRanges": [{}, {"cidr": 7}]}}),
                ("spec.ipRanges[1].cidr", "7", "a string, in quotes"),
            ),
            (
                Kind::Egress,
                json!({"metadata": {"name": "a"}, "spec": {"egressIP": "1.1.1.1"}}),
                ("spec.appliedTo", "nothing", "it is required"),
            ),
        ];
        for (kind, value, (field, held, allowed)) in cases {
            assert_eq!(refused(kind, &value), (field.to_owned(), held.to_owned(), allowed.to_owned()), "{value}");
        }
    }

    #[test]
    fn a_time_that_is_none_is_refused_with_what_it_should_be() {
        let value = json!({"metadata": {"name": "a", "creationTimestamp": "yesterday"}});
        let (field, held, _) = refused(Kind::Namespace, &value);
        assert_eq!((field.as_str(), held.as_str()), ("metadata.creationTimestamp", "\"yesterday\""));
    }

    #[test]
    fn null_is_as_good_as_nothing_and_other_fields_are_passed_over() {
        let value = json!({
            "apiVersion": "v1", "kind": "Pod", "status": null, "extra": [1],
            "metadata": {
                "name": "a", "labels": null, "annotations": null, "creationTimestamp": null, "ownerReferences": null,
            },
            "spec": {"hostNetwork": null, "containers": [{"name": "x"}]},
        });
        let object = Object::from_value(Kind::Pod, &value).expect("is a Pod");
        assert_eq!(object.reference().to_string(), "Pod default/a");
        assert_eq!(object.metadata().annotations.len(), 0);
    }

    #[test]
    fn a_kind_is_found_by_its_version_too() {
        for kind in Kind::ALL {
            assert_eq!(Kind::find(kind.api_version(), kind.name()), Some(kind));
        }
        assert_eq!(Kind::find("crd.antrea.io/v1alpha2", "Egress"), None);
        assert_eq!(Kind::find("v1", "StatefulSet"), None);
    }
}
