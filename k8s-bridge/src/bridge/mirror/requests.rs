//! The requests that change an object, and what their failures mean.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde_json::{Value, json};

use crate::bridge::key::Key;
use crate::bridge::requests::{PATIENCE, why};
use crate::bridge::watched::{Egresses, ExternalIpPools, IpPools, Live, Watchable, Watched};
use crate::objects::Kind;

/// How the bridge calls itself in `metadata.managedFields`.
pub const MANAGER: &str = crate::bridge::FIELD_MANAGER;

/// Why a request was not done.
#[derive(Debug)]
pub enum Failure {
    /// There is no such object.
    Gone,
    /// The object has changed.
    Conflict,
    /// To be tried again, after this long if the API server says so.
    Again(Option<Duration>, String),
}

/// The object now, as the API server itself holds it.
pub async fn get(client: &Client, key: &Key) -> Result<Arc<Live>, Failure> {
    async fn get<T: Watchable>(client: &Client, key: &Key) -> Result<Arc<Live>, Failure>
    where
        Watched<T>: Resource<DynamicType = ()>,
    {
        let api: Api<Watched<T>> = Watched::<T>::api(client.clone());
        done(api.get(&key.name)).await
    }
    match key.kind {
        Kind::IpPool => get::<IpPools>(client, key).await,
        Kind::ExternalIpPool => get::<ExternalIpPools>(client, key).await,
        Kind::Egress => get::<Egresses>(client, key).await,
        _ => Err(Failure::Gone),
    }
}

/// Writes the status of that version of the object.
pub async fn put_status(client: &Client, key: &Key, version: &str, status: &Value) -> Result<Arc<Live>, Failure> {
    async fn put<T: Watchable>(client: &Client, key: &Key, body: &Body<'_>) -> Result<Arc<Live>, Failure>
    where
        Watched<T>: Resource<DynamicType = ()>,
    {
        let api: Api<Watched<T>> = Watched::<T>::api(client.clone());
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        done(api.replace_subresource("status", &key.name, &params, body)).await
    }
    let body = Body {
        api_version: key.kind.api_version(),
        kind: key.kind.name(),
        metadata: Metadata { name: &key.name, resource_version: version },
        status,
    };
    match key.kind {
        Kind::IpPool => put::<IpPools>(client, key, &body).await,
        Kind::ExternalIpPool => put::<ExternalIpPools>(client, key, &body).await,
        Kind::Egress => put::<Egresses>(client, key, &body).await,
        _ => Err(Failure::Gone),
    }
}

/// Changes these fields of the spec of that version of an Egress.
pub async fn patch_spec(client: &Client, key: &Key, version: &str, fields: &Value) -> Result<Arc<Live>, Failure> {
    let api: Api<Watched<Egresses>> = Watched::<Egresses>::api(client.clone());
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let patch = Patch::Merge(json!({"metadata": {"resourceVersion": version}, "spec": fields}));
    done(api.patch(&key.name, &params, &patch)).await
}

/// The API server takes the rest of the object from what it has.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata<'a>,
    status: &'a Value,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    name: &'a str,
    resource_version: &'a str,
}

async fn done<T>(request: impl Future<Output = Result<Watched<T>, kube::Error>>) -> Result<Arc<Live>, Failure> {
    match tokio::time::timeout(PATIENCE, request).await {
        Ok(Ok(object)) => Ok(object.live),
        Ok(Err(error)) => Err(meaning(&error)),
        Err(_) => Err(Failure::Again(None, format!("no answer within {} s", PATIENCE.as_secs()))),
    }
}

fn meaning(error: &kube::Error) -> Failure {
    if let kube::Error::Api(status) = error {
        match status.code {
            404 => return Failure::Gone,
            409 => return Failure::Conflict,
            _ => {}
        }
        let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        let after = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
        return Failure::Again(after, why(error));
    }
    Failure::Again(None, why(error))
}
