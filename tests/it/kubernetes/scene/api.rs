//! Objects of any kind as JSON.

use std::time::Duration;

use kube::Client;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::await_condition;
use serde_json::Value;

use super::PATIENCE;

/// A kind of object that tests make or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `v1` Namespace.
    Namespace,
    /// `v1` Node.
    Node,
    /// `v1` Pod.
    Pod,
    /// `v1` Secret.
    Secret,
    /// `v1` Service.
    Service,
    /// `v1` ServiceAccount.
    ServiceAccount,
    /// `apps/v1` StatefulSet.
    StatefulSet,
    /// `events.k8s.io/v1` Event.
    Event,
    /// IPPool.
    IpPool,
    /// ExternalIPPool.
    ExternalIpPool,
    /// Egress.
    Egress,
    /// Antrea's own word that its controller runs.
    AntreaControllerInfo,
    /// `apiextensions.k8s.io/v1` `CustomResourceDefinition`.
    Definition,
}

impl Kind {
    /// Its name in manifests.
    pub fn name(self) -> &'static str {
        self.described().2
    }

    /// Group, version, name, plural.
    fn described(self) -> (&'static str, &'static str, &'static str, &'static str) {
        match self {
            Kind::Namespace => ("", "v1", "Namespace", "namespaces"),
            Kind::Node => ("", "v1", "Node", "nodes"),
            Kind::Pod => ("", "v1", "Pod", "pods"),
            Kind::Secret => ("", "v1", "Secret", "secrets"),
            Kind::Service => ("", "v1", "Service", "services"),
            Kind::ServiceAccount => ("", "v1", "ServiceAccount", "serviceaccounts"),
            Kind::StatefulSet => ("apps", "v1", "StatefulSet", "statefulsets"),
            Kind::Event => ("events.k8s.io", "v1", "Event", "events"),
            Kind::IpPool => ("crd.antrea.io", "v1beta1", "IPPool", "ippools"),
            Kind::ExternalIpPool => ("crd.antrea.io", "v1beta1", "ExternalIPPool", "externalippools"),
            Kind::Egress => ("crd.antrea.io", "v1beta1", "Egress", "egresses"),
            Kind::AntreaControllerInfo => ("crd.antrea.io", "v1beta1", "AntreaControllerInfo", "antreacontrollerinfos"),
            Kind::Definition => ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"),
        }
    }

    fn resource(self) -> ApiResource {
        let (group, version, kind, plural) = self.described();
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
    }
}

/// All objects, for one client.
#[derive(Clone)]
pub struct Api {
    /// The client.
    pub client: Client,
}

impl Api {
    /// What this client may see.
    pub fn new(client: Client) -> Api {
        Api { client }
    }

    /// The objects of a kind; of all namespaces, or none, where it is empty.
    pub fn of(&self, kind: Kind, namespace: &str) -> kube::Api<DynamicObject> {
        let resource = kind.resource();
        if namespace.is_empty() {
            kube::Api::all_with(self.client.clone(), &resource)
        } else {
            kube::Api::namespaced_with(self.client.clone(), namespace, &resource)
        }
    }

    /// Makes an object.
    pub async fn create(&self, kind: Kind, object: &Value) -> Value {
        self.try_create(kind, object).await.unwrap_or_else(|error| panic!("{kind:?} {object}: {error}"))
    }

    /// The same, where it may be refused.
    pub async fn try_create(&self, kind: Kind, object: &Value) -> Result<Value, kube::Error> {
        let (group, version, name, _) = kind.described();
        let mut object = object.clone();
        object["apiVersion"] = if group.is_empty() { version.into() } else { format!("{group}/{version}").into() };
        object["kind"] = name.into();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        let made = self.of(kind, &namespace).create(&PostParams::default(), &object).await?;
        Ok(value(&made))
    }

    /// Changes an object by a merge patch.
    pub async fn patch(&self, kind: Kind, namespace: &str, name: &str, patch: &Value) -> Value {
        let done = self.of(kind, namespace).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        value(&done.unwrap_or_else(|error| panic!("{kind:?} {namespace} {name} {patch}: {error}")))
    }

    /// The same, if it is there.
    pub async fn patch_if_there(&self, kind: Kind, namespace: &str, name: &str, patch: &Value) {
        let done = self.of(kind, namespace).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        gone_or(done.map(drop));
    }

    /// Changes the status of an object by a merge patch, as this writer.
    pub async fn patch_status(&self, kind: Kind, namespace: &str, name: &str, writer: &str, patch: &Value) -> Value {
        let writer = PatchParams { field_manager: Some(writer.to_owned()), ..PatchParams::default() };
        let done = self.of(kind, namespace).patch_status(name, &writer, &Patch::Merge(patch)).await;
        value(&done.unwrap_or_else(|error| panic!("{kind:?} {namespace} {name} {patch}: {error}")))
    }

    /// Changes an object by a merge patch, as this writer.
    pub async fn patch_as(&self, kind: Kind, name: &str, writer: &str, patch: &Value) -> Value {
        let writer = PatchParams { field_manager: Some(writer.to_owned()), ..PatchParams::default() };
        let done = self.of(kind, "").patch(name, &writer, &Patch::Merge(patch)).await;
        value(&done.unwrap_or_else(|error| panic!("{kind:?} {name} {patch}: {error}")))
    }

    /// Deletes an object, if it is there; what it owns follows.
    pub async fn delete(&self, kind: Kind, namespace: &str, name: &str) {
        let background =
            DeleteParams { propagation_policy: Some(PropagationPolicy::Background), ..DeleteParams::default() };
        self.delete_with(kind, namespace, name, &background).await;
    }

    /// The same, and what it owns stays.
    pub async fn orphan(&self, kind: Kind, namespace: &str, name: &str) {
        let orphan = DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
        self.delete_with(kind, namespace, name, &orphan).await;
    }

    /// The same, without waiting for whoever has it in use.
    pub async fn delete_now(&self, kind: Kind, namespace: &str, name: &str) {
        let free = serde_json::json!({"metadata": {"finalizers": null}});
        if kind == Kind::Pod {
            let free = self.of(kind, namespace).patch(name, &PatchParams::default(), &Patch::Merge(free)).await;
            gone_or(free.map(drop));
        }
        let now = DeleteParams {
            grace_period_seconds: Some(0),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        self.delete_with(kind, namespace, name, &now).await;
    }

    async fn delete_with(&self, kind: Kind, namespace: &str, name: &str, how: &DeleteParams) {
        gone_or(self.of(kind, namespace).delete(name, how).await.map(drop));
    }

    /// An object as it is now.
    pub async fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<Value> {
        self.of(kind, namespace).get_opt(name).await.expect("the API server answers").as_ref().map(value)
    }

    /// All objects of a kind.
    pub async fn list(&self, kind: Kind) -> Vec<Value> {
        self.list_in(kind, "").await
    }

    /// All objects of a kind in a namespace.
    pub async fn list_in(&self, kind: Kind, namespace: &str) -> Vec<Value> {
        let listed = self.of(kind, namespace).list(&ListParams::default()).await.expect("the API server answers");
        let (_, _, name, _) = kind.described();
        let with_kind = |object: &DynamicObject| {
            let mut object = value(object);
            object["kind"] = name.into();
            object
        };
        listed.items.iter().map(with_kind).collect()
    }

    /// Waits until an object is as wanted.
    pub async fn until(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        what: &str,
        wanted: impl Fn(Option<&Value>) -> bool,
    ) -> Option<Value> {
        self.until_within(PATIENCE, (kind, namespace, name), what, wanted).await
    }

    /// The same, where it may take another time than usual.
    pub async fn until_within(
        &self,
        patience: Duration,
        (kind, namespace, name): (Kind, &str, &str),
        what: &str,
        wanted: impl Fn(Option<&Value>) -> bool,
    ) -> Option<Value> {
        let object = self.of(kind, namespace);
        let fits = |object: Option<&DynamicObject>| wanted(object.map(value).as_ref());
        if let Ok(found) = tokio::time::timeout(patience, await_condition(object, name, fits)).await {
            found.expect("the API server answers").as_ref().map(value)
        } else {
            let now = self.get(kind, namespace, name).await;
            panic!("{kind:?} {namespace} {name} does not come to have {what}: {now:#?}")
        }
    }
}

/// An object as JSON.
pub fn value(object: &DynamicObject) -> Value {
    serde_json::to_value(object).expect("it was JSON")
}

/// It may be gone already.
fn gone_or(done: Result<(), kube::Error>) {
    match done {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        done => done.expect("the API server takes it"),
    }
}
