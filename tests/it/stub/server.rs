//! Answers lists and watches as an API server does: fifty thousand Pods of 8 KiB, and nothing of the other kinds.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Pods that the stub holds.
pub const PODS: usize = 50_000;
/// The bytes of each, about.
const POD_BYTES: usize = 8 << 10;
/// Stands for a Pod's number, five digits.
const NUMBER: &str = "<number>";

/// A stand-in that runs until it is dropped, with its runtime.
pub struct Stub {
    /// How often all Pods were listed to the end.
    pub listed: watch::Receiver<usize>,
    expire: watch::Sender<usize>,
    address: String,
}

struct Shared {
    listed: watch::Sender<usize>,
    /// Counts the times at which all watches were told that they are too old.
    expired: watch::Receiver<usize>,
    /// Any Pod, with marks where each has its own number.
    pod: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Asked {
    limit: Option<usize>,
    #[serde(rename = "continue")]
    from: Option<usize>,
    watch: bool,
}

impl Stub {
    /// Starts it on an address of loopback.
    pub async fn start(address: &str) -> Stub {
        let listener = TcpListener::bind(address).await.expect("the address is free");
        let (listed, receiver) = watch::channel(0);
        let (expire, expired) = watch::channel(0);
        let shared = Arc::new(Shared { listed, expired, pod: pod().to_string() });
        let routes = Router::new().fallback(answer).with_state(shared);
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Stub { listed: receiver, expire, address: address.to_owned() }
    }

    /// Tells every watch that it is too old: whoever follows must list again.
    pub fn expire_watches(&self) {
        self.expire.send_modify(|times| *times += 1);
    }

    /// A kubeconfig that leads here.
    pub fn kubeconfig(&self, directory: &Path) -> PathBuf {
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "stub", "cluster": {"server": format!("http://{}", self.address)}}],
            "users": [{"name": "stub", "user": {}}],
            "contexts": [{"name": "stub", "context": {"cluster": "stub", "user": "stub"}}],
            "current-context": "stub",
        });
        let path = directory.join("kubeconfig");
        std::fs::write(&path, config.to_string()).expect("writes");
        path
    }
}

async fn answer(State(shared): State<Arc<Shared>>, Query(asked): Query<Asked>, uri: Uri) -> Response {
    let path = uri.path();
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let kind = match segments.last().copied() {
        _ if path.contains("/customresourcedefinitions/") => return Json(definition(path)).into_response(),
        Some(
            kind @ ("pods" | "nodes" | "namespaces" | "services" | "statefulsets" | "ippools" | "externalippools"
            | "egresses"),
        ) => kind,
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    if asked.watch {
        return watching(shared.expired.clone());
    }
    if kind != "pods" {
        return Json(list(kind, None)).into_response();
    }
    let from = asked.from.unwrap_or(0);
    let to = PODS.min(from + asked.limit.unwrap_or(PODS));
    let more = (to < PODS).then(|| to.to_string());
    if more.is_none() {
        shared.listed.send_modify(|times| *times += 1);
    }
    // Written as text: building four hundred megabytes of values would take the test's time.
    let pods: Vec<String> = (from..to).map(|at| shared.pod.replace(NUMBER, &format!("{at:05}"))).collect();
    let whole = list(kind, more).to_string().replace("[]", &format!("[{}]", pods.join(",")));
    ([("content-type", "application/json")], whole).into_response()
}

/// JSON without another dependency's feature.
struct Json(Value);

impl IntoResponse for Json {
    fn into_response(self) -> Response {
        ([("content-type", "application/json")], self.0.to_string()).into_response()
    }
}

/// Stays open and says nothing until the watches expire.
fn watching(mut expired: watch::Receiver<usize>) -> Response {
    expired.mark_unchanged();
    let gone = json!({"type": "ERROR", "object": {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410,
    }});
    let lines = stream::once(async move {
        drop(expired.changed().await);
        Ok::<_, Infallible>(Bytes::from(format!("{gone}\n")))
    });
    Body::from_stream(lines).into_response()
}

fn definition(path: &str) -> Value {
    let name = path.rsplit('/').next().unwrap_or_default();
    json!({
        "apiVersion": "meta.k8s.io/v1",
        "kind": "PartialObjectMetadata",
        "metadata": {"name": name, "labels": {"holdfast.dev/crds": "standalone"}},
    })
}

/// A list without items.
fn list(kind: &str, more: Option<String>) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": format!("{kind}List"),
        "metadata": {"resourceVersion": "1", "continue": more.unwrap_or_default()},
        "items": [],
    })
}

/// Environment, volumes and managed fields: what makes real Pods large.
fn filler() -> Value {
    let variables: Vec<Value> =
        (0..POD_BYTES / 64).map(|at| json!({"name": format!("VARIABLE_{at:04}"), "value": "a".repeat(20)})).collect();
    json!(variables)
}

fn pod() -> Value {
    json!({
        "metadata": {
            "name": format!("some-deployment-7d4b9c6f5d-{NUMBER}"),
            "namespace": "team",
            "uid": format!("00000000-0000-4000-8000-0000000{NUMBER}"),
            "resourceVersion": format!("1{NUMBER}"),
            "creationTimestamp": "2026-11-30T08:00:00Z",
            "labels": {"app": "some-deployment", "pod-template-hash": "7d4b9c6f5d"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "some-deployment-7d4b9c6f5d",
                "uid": "11111111-0000-4000-8000-000000000000", "controller": true,
            }],
        },
        "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "image", "env": filler()}]},
        "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}]},
    })
}
