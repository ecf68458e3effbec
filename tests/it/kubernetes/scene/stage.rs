//! The API server without anything that a former test left, and the bridge's way into it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use holdfast_bridge::crds;
use k8s_openapi::api::authentication::v1::BoundObjectReference;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::base::apply_base;
use super::super::{ControlPlane, Exclusive, whole_control_plane};
use super::api::{Api, Kind};
use super::{PATIENCE, PAUSE, Scene, egress, external_pool, pool, range, set};

/// The bridge's user.
pub const USER: &str = "system:serviceaccount:holdfast:holdfast";

/// The control plane, emptied, for one test alone.
pub struct Stage {
    /// Its objects, as the administrator sees them.
    pub api: Api,
    control_plane: Exclusive,
    directory: TempDir,
    /// Lines of the audit log that are not of this test.
    asked_before: usize,
    /// Whether the definitions are as if Antrea had installed them.
    beside_antrea: bool,
}

impl Stage {
    /// Waits until all pools, Egresses, Nodes, StatefulSets and Pods of former tests are gone. `None` where these
    /// tests are turned off.
    pub async fn empty() -> Option<Stage> {
        let control_plane = whole_control_plane()?;
        apply_base(&control_plane);
        let api = Api::new(control_plane.client().await);
        clear(&api).await;
        let directory = tempfile::tempdir().expect("a temporary directory");
        let asked_before = control_plane.audit().len();
        let stage = Stage { api, control_plane, directory, asked_before, beside_antrea: false };
        stage.rotate_token().await;
        let kubeconfig = stage.control_plane.kubeconfig_for(&stage.token_file());
        std::fs::write(stage.kubeconfig(), kubeconfig).expect("writes");
        Some(stage)
    }

    /// The same as Antrea leaves it: its definitions lack the label of ours. The bridge has the rights of that mode.
    pub async fn beside_antrea() -> Option<Stage> {
        let mut stage = Stage::empty().await?;
        stage.beside_antrea = true;
        let label = format!("{}-", crds::LABEL);
        let plane = stage.control_plane();
        plane.kubectl(&[&["label", "customresourcedefinition"], &crds::NAMES[..], &[&label]].concat()).expect(0);
        let rights = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/antrea/rbac.yaml");
        let apply = ["apply", "--server-side", "--validate=strict", "--namespace=holdfast", "-f", rights];
        plane.kubectl(&apply).expect(0);
        Some(stage)
    }

    /// The mode that fits it, as an option.
    pub fn mode(&self) -> &'static str {
        if self.beside_antrea { "--kubernetes=antrea" } else { "--kubernetes" }
    }

    /// Whether Antrea's controller and agents write the same objects.
    pub fn is_beside_antrea(&self) -> bool {
        self.beside_antrea
    }

    /// Three replicas begin to follow it.
    pub fn play(self, options: &[&str]) -> Scene {
        Scene::of(self, options)
    }

    /// The control plane.
    pub fn control_plane(&self) -> &ControlPlane {
        &self.control_plane
    }

    /// The bridge's.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    fn token_file(&self) -> PathBuf {
        self.directory.path().join("token")
    }

    /// Gives the bridge another token of its ServiceAccount. The former one is good no longer.
    pub async fn rotate_token(&self) {
        static ROTATIONS: AtomicUsize = AtomicUsize::new(0);
        let former = self.api.list_in(Kind::Secret, "holdfast").await;
        let name = format!("token-{}", ROTATIONS.fetch_add(1, Ordering::Relaxed));
        let secret = json!({"metadata": {"name": name, "namespace": "holdfast"}});
        let secret = self.api.create(Kind::Secret, &secret).await;
        let bound = BoundObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Secret".into()),
            name: Some(name),
            uid: secret["metadata"]["uid"].as_str().map(Into::into),
        };
        let token = self.control_plane.token_of("holdfast", "holdfast", Some(bound)).await;
        write_at_once(&self.token_file(), &token);
        for secret in former {
            self.api.delete(Kind::Secret, "holdfast", name_of(&secret)).await;
        }
    }

    /// A new Namespace for this test. Its name begins with this.
    pub async fn namespace(&self, start: &str) -> String {
        static NAMESPACES: AtomicUsize = AtomicUsize::new(0);
        let name = format!("scene-{start}-{}", NAMESPACES.fetch_add(1, Ordering::Relaxed));
        self.api.create(Kind::Namespace, &json!({"metadata": {"name": name}})).await;
        // Pods cannot be made before their namespace has its ServiceAccount.
        self.api.until(Kind::ServiceAccount, &name, "default", "a ServiceAccount", |it| it.is_some()).await;
        name
    }

    /// What the bridge's user asked for since the test began, each request once.
    pub fn asked(&self) -> Vec<Value> {
        let all = self.control_plane.audit().into_iter().skip(self.asked_before);
        let bridge = all.filter(|event| event["user"]["username"] == USER);
        let mut seen = BTreeSet::new();
        // A watch is told when it begins and when it ends.
        bridge.filter(|event| seen.insert(event["auditID"].to_string())).collect()
    }

    /// Writes of the bridge's user so far.
    pub fn writes(&self) -> Vec<Value> {
        let write = |event: &Value| !["get", "list", "watch"].iter().any(|verb| event["verb"] == *verb);
        self.asked().into_iter().filter(write).collect()
    }

    /// Makes one object of each kind that is followed, and waits until the bridge has answered to each: what was done
    /// to objects of their kinds before was seen before. They are taken away again. (Beside Antrea nothing shows that a
    /// Pod was seen.)
    pub async fn curtain(&self) {
        static CURTAINS: AtomicUsize = AtomicUsize::new(0);
        let name = format!("curtain-{}", CURTAINS.fetch_add(1, Ordering::Relaxed));
        let namespace = self.namespace("curtain").await;
        // Documentation ranges: no test's own.
        let only = [range("198.51.100.10", "198.51.100.10")];
        self.api.create(Kind::IpPool, &pool(&name, &only, "198.51.100.1", 24)).await;
        if !self.beside_antrea {
            self.egress_curtain(&name).await;
        }
        self.api.create(Kind::StatefulSet, &set(&namespace, &name, 1, &name)).await;
        let phase = if self.beside_antrea { "Reserved" } else { "Allocated" };
        let has_phase = |it: Option<&Value>| {
            it.is_some_and(|it| it.pointer("/status/ipAddresses/0/phase").is_some_and(|it| it == phase))
        };
        self.api.until(Kind::IpPool, "", &name, "the Pod's address", has_phase).await;
        self.api.delete(Kind::StatefulSet, &namespace, &name).await;
        // The garbage collector may pause for a minute after an API server that was away.
        let pod = format!("{name}-0");
        self.api.until_within(PATIENCE * 3, (Kind::Pod, &namespace, &pod), "no Pod", |it| it.is_none()).await;
        self.api.delete(Kind::IpPool, "", &name).await;
        self.api.delete(Kind::Namespace, "", &namespace).await;
    }

    /// The part of it that is not followed beside Antrea.
    async fn egress_curtain(&self, name: &str) {
        let external = external_pool(name, &[range("203.0.113.10", "203.0.113.10")]);
        self.api.create(Kind::ExternalIpPool, &external).await;
        // A static Egress takes no room on any Node.
        self.api.create(Kind::Egress, &egress(name, &json!({"egressIP": "203.0.113.11"}))).await;
        for kind in [Kind::ExternalIpPool, Kind::Egress] {
            let written = |it: Option<&Value>| it.is_some_and(|it| it["status"]["holdfast"].is_object());
            self.api.until(kind, "", name, "a status", written).await;
            self.api.delete(kind, "", name).await;
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if self.beside_antrea {
            let base = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy");
            let restored = self.control_plane.kubectl(&["apply", "--server-side", "-k", base]);
            // One panic is enough.
            assert!(restored.code == 0 || std::thread::panicking(), "{restored:#?}");
        }
    }
}

/// A reader sees the former text or this one.
fn write_at_once(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).expect("writes");
    std::fs::rename(&new, path).expect("renames");
}

/// An object's name.
pub fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().expect("an object has a name")
}

/// An object's namespace; empty where its kind lives in none.
pub fn namespace_of(object: &Value) -> &str {
    object["metadata"]["namespace"].as_str().unwrap_or_default()
}

/// Whether an object is left of a former test.
fn is_left(object: &Value) -> bool {
    match object["kind"].as_str() {
        Some("Namespace") => name_of(object).starts_with("scene-"),
        // Those about objects without a namespace are in the default one, and would speak of a namesake.
        Some("Event") => true,
        _ => namespace_of(object).is_empty() || namespace_of(object).starts_with("scene-"),
    }
}

async fn clear(api: &Api) {
    // StatefulSets first, or they make their Pods again.
    let kinds = [
        Kind::StatefulSet,
        Kind::Pod,
        Kind::Egress,
        Kind::IpPool,
        Kind::ExternalIpPool,
        Kind::Node,
        Kind::Service,
        Kind::Event,
    ];
    let deadline = Instant::now() + PATIENCE;
    for kind in kinds {
        loop {
            let left: Vec<_> = api.list(kind).await.into_iter().filter(is_left).collect();
            if left.is_empty() {
                break;
            }
            assert!(Instant::now() < deadline, "{kind:?} of former tests do not go");
            for object in &left {
                api.delete_now(kind, namespace_of(object), name_of(object)).await;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
    // They are empty: how long they take to go is of no importance.
    for namespace in api.list(Kind::Namespace).await.into_iter().filter(is_left) {
        api.delete(Kind::Namespace, "", name_of(&namespace)).await;
    }
}
