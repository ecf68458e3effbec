//! A way to the API server on which a test says what passes, and when.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::future::BoxFuture;
use kube::Client;
use serde_json::json;
use tokio::net::TcpListener;

use super::Stage;
use crate::fixtures::free_addresses;

type Toll = dyn Fn(&Parts) -> BoxFuture<'static, Option<Response>> + Send + Sync;

struct Way {
    client: Client,
    toll: Box<Toll>,
}

impl Stage {
    /// Leads the bridge over such a way. The toll of each request is an answer in the API server's place, or none, when
    /// the request may pass.
    pub async fn lead_over(
        &self,
        toll: impl Fn(&Parts) -> BoxFuture<'static, Option<Response>> + Send + Sync + 'static,
    ) {
        let address = free_addresses(1).remove(0);
        let listener = TcpListener::bind(&address).await.expect("the address is free");
        // It asks with the bridge's rights.
        let client = self.control_plane().client_of("holdfast", "holdfast").await;
        let routes = Router::new().fallback(pass).with_state(Arc::new(Way { client, toll: Box::new(toll) }));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "way", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "way", "user": {}}],
            "contexts": [{"name": "way", "context": {"cluster": "way", "user": "way"}}],
            "current-context": "way",
        });
        std::fs::write(self.kubeconfig(), config.to_string()).expect("writes");
    }
}

async fn pass(State(way): State<Arc<Way>>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    if let Some(answer) = (way.toll)(&parts).await {
        return answer;
    }
    let body = to_bytes(body, 4 << 20).await.expect("it is whole");
    parts.headers = of_content(&parts.headers);
    let asked = axum::http::Request::from_parts(parts, kube::client::Body::from(body.to_vec()));
    match way.client.send(asked).await {
        Ok(answer) => {
            let (mut parts, body) = answer.into_parts();
            parts.headers = of_content(&parts.headers);
            Response::from_parts(parts, Body::new(body))
        }
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

/// What a body is, and what is to come back; other headers are of one hop.
fn of_content(headers: &HeaderMap) -> HeaderMap {
    let kept = [ACCEPT, CONTENT_TYPE].into_iter();
    kept.filter_map(|name| headers.get(&name).cloned().map(|value| (name, value))).collect()
}
