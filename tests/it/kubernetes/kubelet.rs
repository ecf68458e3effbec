//! Stands in for the kubelets: Pods of a namespace get a Node, run, have an address, and go when they are told to.

use std::net::Ipv4Addr;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod};
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde_json::json;
use tokio::task::JoinHandle;

/// The addresses that Pods get, in turn, follow this one. They are not those of any pool: the ledger does not ask.
const FIRST: u32 = Ipv4Addr::new(10, 244, 0, 1).to_bits();

/// Runs until it is dropped.
pub struct Kubelet(JoinHandle<()>);

impl Kubelet {
    /// Takes care of the Pods of a namespace.
    pub fn start(client: Client, namespace: &str) -> Kubelet {
        let pods = Api::<Pod>::namespaced(client, namespace);
        Kubelet(tokio::spawn(async move {
            let mut given = 0;
            let mut changed = std::pin::pin!(watcher(pods.clone(), watcher::Config::default()).applied_objects());
            loop {
                match changed.try_next().await {
                    Ok(Some(pod)) => tend(&pods, &pod, &mut given).await,
                    Ok(None) => return,
                    // The watcher lists again by itself.
                    Err(error) => eprintln!("kubelet: {error}"),
                }
            }
        }))
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn tend(pods: &Api<Pod>, pod: &Pod, given: &mut u32) {
    let name = pod.metadata.name.as_deref().expect("a Pod has a name");
    let done = if pod.metadata.deletion_timestamp.is_some() {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        pods.delete(name, &now).await.map(drop)
    } else if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none()) {
        bind(pods, name).await
    } else if pod.status.as_ref().is_none_or(|status| status.pod_ip.is_none()) {
        *given += 1;
        run(pods, name, Ipv4Addr::from_bits(FIRST + *given)).await
    } else {
        Ok(())
    };
    match done {
        // It is gone, or was bound, before we saw it: what follows will show.
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {}
        done => done.expect("the API server takes it"),
    }
}

async fn bind(pods: &Api<Pod>, name: &str) -> Result<(), kube::Error> {
    let node = ObjectReference { kind: Some("Node".into()), name: Some("node".into()), ..ObjectReference::default() };
    let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
    let binding = Binding { metadata, target: node };
    let _: serde_json::Value = pods.create_subresource("binding", name, &PostParams::default(), &binding).await?;
    Ok(())
}

async fn run(pods: &Api<Pod>, name: &str, address: Ipv4Addr) -> Result<(), kube::Error> {
    let status = json!({"status": {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }});
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.map(drop)
}
