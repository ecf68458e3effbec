//! Objects as the API server sends them, read straight into what is kept of them.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use holdfast_statemachine::Name;
use kube::api::ObjectMeta;
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Api, Client, Resource};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::key::Key;
use crate::objects::{self, Kind, Object};
use crate::problem::FieldProblem;
use crate::translate::annotations;

/// What is kept of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    /// The object; or what keeps it from being read.
    pub object: Result<Object, FieldProblem>,
    /// Its UID.
    pub uid: Name,
    /// Its version.
    pub resource_version: Name,
    /// `metadata.generation`, where its kind counts it.
    pub generation: Option<i64>,
    /// `status` of the kinds that the bridge writes; else null.
    pub status: Value,
    /// Who wrote what, of those kinds.
    pub managers: Vec<Manager>,
}

/// One item of `metadata.managedFields`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manager {
    /// The writer's name for itself.
    #[serde(default)]
    pub manager: Name,
    /// `status`, or empty for the object itself.
    #[serde(default)]
    pub subresource: Name,
    /// When it wrote last.
    #[serde(default)]
    pub time: Option<jiff::Timestamp>,
    /// Which fields are its own.
    #[serde(default, rename = "fieldsV1")]
    pub fields: Value,
}

impl Manager {
    /// Whether a field of the object, such as `["spec", "egressIP"]`, is its own.
    pub fn owns(&self, path: &[&str]) -> bool {
        path.iter().try_fold(&self.fields, |fields, name| fields.get(format!("f:{name}"))).is_some()
    }
}

/// A kind that is watched.
pub trait Watchable: Clone + fmt::Debug + Send + Sync + 'static {
    /// Which.
    const KIND: Kind;
    /// The path segment of its collection.
    const PLURAL: &'static str;
    /// Whether its objects live in a namespace, as kube says it.
    type Scope;
    /// What is read from the wire.
    type Wire: DeserializeOwned;

    /// What is kept of it.
    fn keep(wire: Self::Wire) -> Result<(objects::ObjectMeta, Live), String>;
}

/// An object of a kind, with the little that kube needs to know of it.
#[derive(Clone, Debug)]
pub struct Watched<T> {
    meta: ObjectMeta,
    /// What is kept of it; `None` where only its version was sent.
    pub live: Arc<Live>,
    kind: std::marker::PhantomData<T>,
}

impl<T: Watchable> Watched<T> {
    /// Its key.
    pub fn key(&self) -> Key {
        let name = |name: &Option<String>| Name::from(name.as_deref().unwrap_or_default());
        Key { kind: T::KIND, namespace: name(&self.meta.namespace), name: name(&self.meta.name) }
    }

    /// All objects of the kind.
    pub fn api(client: Client) -> Api<Watched<T>> {
        Api::all(client)
    }
}

impl<'de, T: Watchable> Deserialize<'de> for Watched<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (metadata, live) = T::keep(T::Wire::deserialize(deserializer)?).map_err(D::Error::custom)?;
        let text = |name: &Name| Some(name.to_string());
        let meta = ObjectMeta {
            name: text(&metadata.name),
            namespace: metadata.namespace.as_ref().and_then(text),
            uid: text(&live.uid),
            resource_version: text(&live.resource_version),
            ..ObjectMeta::default()
        };
        Ok(Watched { meta, live: Arc::new(live), kind: std::marker::PhantomData })
    }
}

impl<T: Watchable> Resource for Watched<T> {
    type DynamicType = ();
    type Scope = T::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        T::KIND.name().into()
    }

    fn group((): &()) -> Cow<'_, str> {
        T::KIND.api_version().rsplit_once('/').map_or("", |(group, _)| group).into()
    }

    fn version((): &()) -> Cow<'_, str> {
        T::KIND.api_version().rsplit_once('/').map_or(T::KIND.api_version(), |(_, version)| version).into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        T::PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

/// A kind whose objects are read into their own type at once.
macro_rules! typed {
    ($marker:ident, $type:ty, $kind:expr, $plural:literal, $scope:ty, $object:expr) => {
        #[doc = concat!("All ", $plural, ".")]
        #[derive(Clone, Debug)]
        pub struct $marker;

        impl Watchable for $marker {
            const KIND: Kind = $kind;
            const PLURAL: &'static str = $plural;
            type Scope = $scope;
            type Wire = $type;

            fn keep(mut wire: $type) -> Result<(objects::ObjectMeta, Live), String> {
                let metadata = wire.metadata.clone();
                trim($kind, &mut wire.metadata);
                let live = Live {
                    uid: metadata.uid.clone().unwrap_or_default(),
                    resource_version: metadata.resource_version.clone().unwrap_or_default(),
                    generation: metadata.generation,
                    object: Ok($object(wire)),
                    status: Value::Null,
                    managers: Vec::new(),
                };
                Ok((metadata, live))
            }
        }
    };
}

/// A kind of ours: an object that cannot be read does not keep the others from being read.
macro_rules! custom {
    ($marker:ident, $kind:expr, $plural:literal) => {
        #[doc = concat!("All ", $plural, ".")]
        #[derive(Clone, Debug)]
        pub struct $marker;

        impl Watchable for $marker {
            const KIND: Kind = $kind;
            const PLURAL: &'static str = $plural;
            type Scope = ClusterResourceScope;
            type Wire = Value;

            fn keep(wire: Value) -> Result<(objects::ObjectMeta, Live), String> {
                keep_custom($kind, wire)
            }
        }
    };
}

typed!(Namespaces, objects::Namespace, Kind::Namespace, "namespaces", ClusterResourceScope, Object::Namespace);
typed!(Nodes, objects::Node, Kind::Node, "nodes", ClusterResourceScope, |node| Object::Node(Box::new(node)));
typed!(Pods, objects::Pod, Kind::Pod, "pods", NamespaceResourceScope, |pod| Object::Pod(Box::new(pod)));
typed!(StatefulSets, objects::StatefulSet, Kind::StatefulSet, "statefulsets", NamespaceResourceScope, |set| {
    Object::StatefulSet(Box::new(set))
});
custom!(IpPools, Kind::IpPool, "ippools");
custom!(ExternalIpPools, Kind::ExternalIpPool, "externalippools");
custom!(Egresses, Kind::Egress, "egresses");

/// Drops what no rule reads: of fifty thousand Pods, it is most.
fn trim(kind: Kind, metadata: &mut objects::ObjectMeta) {
    if kind != Kind::Node {
        metadata.labels.clear();
    }
    metadata.annotations.retain(|key, _| annotations::is_read(key));
}

fn keep_custom(kind: Kind, mut wire: Value) -> Result<(objects::ObjectMeta, Live), String> {
    let metadata: objects::ObjectMeta =
        Deserialize::deserialize(wire.get("metadata").unwrap_or(&Value::Null)).map_err(|error| error.to_string())?;
    let managers = wire.pointer_mut("/metadata/managedFields").map(Value::take).unwrap_or_default();
    let status = wire.get_mut("status").map(Value::take).unwrap_or_default();
    let live = Live {
        object: Object::from_value(kind, &wire),
        uid: metadata.uid.clone().unwrap_or_default(),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
        generation: metadata.generation,
        status,
        managers: serde_json::from_value(managers).unwrap_or_default(),
    };
    Ok((metadata, live))
}
