//! An API server of a few objects in memory, which can be told to fail.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;

const ROOT: &str = "/apis/crd.antrea.io/v1beta1/";

/// A request that was made.
#[derive(Clone, Debug)]
pub struct Made {
    pub method: Method,
    /// As in `egresses/web/status`; of Events the whole path.
    pub path: String,
    pub body: Value,
    /// What it was answered with.
    pub code: u16,
}

/// The server.
#[derive(Clone)]
pub struct Api(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    made: watch::Sender<Vec<Made>>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    version: u64,
    /// What the next writes of an object are answered with, instead of being done.
    answers: VecDeque<(String, u16, Value)>,
}

impl Api {
    pub fn new() -> Api {
        Api(Arc::new(Shared { state: Mutex::default(), made: watch::Sender::default() }))
    }

    pub fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move { api.answer(request).await }
        });
        Client::new(service, "default")
    }

    /// Puts an object as somebody else would. Returns it as it is then.
    pub fn put(&self, path: &str, change: impl FnOnce(&mut Value)) -> Value {
        let mut state = self.0.state.lock().expect("nobody panicked");
        state.version += 1;
        let version = state.version.to_string();
        let object = state.objects.entry(path.to_owned()).or_insert(Value::Null);
        change(object);
        object["metadata"]["resourceVersion"] = version.into();
        object.clone()
    }

    pub fn get(&self, path: &str) -> Value {
        self.0.state.lock().expect("nobody panicked").objects.get(path).cloned().unwrap_or_default()
    }

    /// Somebody deletes an object.
    pub fn remove(&self, path: &str) {
        self.0.state.lock().expect("nobody panicked").objects.remove(path);
    }

    /// The next write of an object is answered so.
    pub fn fail_next(&self, path: &str, code: u16, details: Value) {
        self.0.state.lock().expect("nobody panicked").answers.push_back((path.to_owned(), code, details));
    }

    /// All requests made so far.
    pub fn made(&self) -> watch::Receiver<Vec<Made>> {
        self.0.made.subscribe()
    }

    async fn answer(&self, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
        let (parts, body) = request.into_parts();
        let bytes = body.collect_bytes().await?;
        let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let manager = parts.uri.query().and_then(|query| query.split_once("fieldManager=")).map_or("", |(_, it)| it);
        let path = parts.uri.path().strip_prefix(ROOT).unwrap_or(parts.uri.path()).to_owned();
        let (code, answer) = self.decide(&parts.method, &path, &body, manager);
        self.0.made.send_modify(|made| made.push(Made { method: parts.method, path, body, code }));
        let status = StatusCode::from_u16(code).expect("is a code");
        let response = Response::builder().status(status).body(Body::from(answer.to_string().into_bytes()));
        Ok(response.expect("is a response"))
    }

    fn decide(&self, method: &Method, path: &str, body: &Value, manager: &str) -> (u16, Value) {
        if path.contains("events.k8s.io") {
            return (201, body.clone());
        }
        let mut state = self.0.state.lock().expect("nobody panicked");
        if *method != Method::GET
            && let Some(at) = state.answers.iter().position(|(of, ..)| path.starts_with(of.as_str()))
            && let Some((_, code, details)) = state.answers.remove(at)
        {
            return failure(code, &details);
        }
        let (name, part) = match path.strip_suffix("/status") {
            Some(name) => (name, "status"),
            None => (path, "spec"),
        };
        let version = state.version + 1;
        let Some(object) = state.objects.get_mut(name) else { return failure(404, &Value::Null) };
        if *method == Method::GET {
            return (200, object.clone());
        }
        if body["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] {
            return failure(409, &Value::Null);
        }
        if part == "status" {
            object["status"] = body["status"].clone();
        } else {
            for (field, value) in body["spec"].as_object().into_iter().flatten() {
                match value {
                    Value::Null => drop(object["spec"].as_object_mut().map(|spec| spec.remove(field))),
                    value => object["spec"][field] = value.clone(),
                }
            }
        }
        object["metadata"]["resourceVersion"] = version.to_string().into();
        sign(object, manager, part);
        let answer = object.clone();
        state.version = version;
        (200, answer)
    }
}

/// Makes a writer the one who manages all of a part.
pub fn sign(object: &mut Value, manager: &str, part: &str) {
    let subresource = if part == "status" { "status" } else { "" };
    let fields: Vec<String> = object[part].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    let mut owned = serde_json::Map::new();
    for field in fields {
        let inner = if field == "holdfast" { json!({"f:cluster": {}, "f:index": {}}) } else { json!({}) };
        owned.insert(format!("f:{field}"), inner);
    }
    let entry = json!({
        "manager": manager,
        "operation": "Update",
        "subresource": subresource,
        "time": jiff::Timestamp::now().to_string(),
        "fieldsV1": {format!("f:{part}"): owned},
    });
    let managers = &mut object["metadata"]["managedFields"];
    if !managers.is_array() {
        *managers = json!([]);
    }
    let managers = managers.as_array_mut().expect("is one");
    managers.retain(|it| it["subresource"] != subresource);
    managers.push(entry);
}

fn failure(code: u16, details: &Value) -> (u16, Value) {
    (
        code,
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "told to", "reason": "Told", "details": details}),
    )
}
