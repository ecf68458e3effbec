//! Stands in for the kubelets: Pods get a Node, run, have an address, and go when they are told to.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Binding, Namespace, ObjectReference, Pod};
use kube::api::{DeleteParams, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::scene::{self, Kind};

/// The addresses that Pods get, in turn, follow this one. They are not those of any pool.
const FIRST: u32 = Ipv4Addr::new(10, 244, 0, 1).to_bits();
/// Namespaces a pool's names may stand in.
const POOLS: &str = "ipam.antrea.io/ippools";

/// Which addresses Pods get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// Those that are reserved for them, once their pools' status says so; where they draw from none, others.
    Reserved,
    /// Others: the ledger is not asked.
    Others,
}

/// Runs until it is dropped.
pub struct Kubelet(JoinHandle<()>);

impl Kubelet {
    /// Takes care of the Pods of a namespace. Nobody is asked for their addresses.
    pub fn start(client: Client, namespace: &str) -> Kubelet {
        let pods = Api::<Pod>::namespaced(client.clone(), namespace);
        Kubelet::run(client, pods, Addresses::Others)
    }

    /// Takes care of the Pods of all namespaces of scenes.
    pub fn of_scenes(client: Client, addresses: Addresses) -> Kubelet {
        let pods = Api::<Pod>::all(client.clone());
        Kubelet::run(client, pods, addresses)
    }

    fn run(client: Client, pods: Api<Pod>, addresses: Addresses) -> Kubelet {
        let everywhere = pods.resource_url().ends_with("/v1/pods");
        let pools = scene::Api::new(client.clone()).of(Kind::IpPool, "");
        let node = Tending { client, addresses, given: 0, waiting: BTreeMap::new(), pools: BTreeMap::new() };
        Kubelet(tokio::spawn(async move {
            let mut node = node;
            let config = watcher::Config::default;
            let pods = watcher(pods, config())
                .default_backoff()
                .applied_objects()
                .map_ok(|pod| Seen::Pod(Box::new(pod)))
                .boxed();
            let pools = watcher(pools, config())
                .default_backoff()
                .applied_objects()
                .map_ok(|pool| Seen::Pool(Box::new(pool)))
                .boxed();
            let mut seen = futures::stream::select(pods, pools);
            while let Some(seen) = seen.next().await {
                match seen {
                    Ok(Seen::Pod(pod)) if !everywhere || pod.namespace().is_some_and(|it| it.starts_with("scene-")) => {
                        node.tend(*pod).await;
                    }
                    Ok(Seen::Pod(_)) => {}
                    Ok(Seen::Pool(pool)) => node.read(&pool).await,
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

enum Seen {
    Pod(Box<Pod>),
    Pool(Box<DynamicObject>),
}

/// An address of an ordinal's Pod: the Pod's namespace and name, and the address.
type Entry = (String, String, IpAddr);

struct Tending {
    client: Client,
    addresses: Addresses,
    given: u32,
    /// Bound, without an address yet; by namespace and name.
    waiting: BTreeMap<(String, String), Pod>,
    /// What each pool's status says, by the pool's name.
    pools: BTreeMap<String, (bool, Vec<Entry>)>,
}

impl Tending {
    async fn tend(&mut self, pod: Pod) {
        let (namespace, name) = (pod.namespace().expect("a Pod has one"), pod.name_any());
        let pods = Api::<Pod>::namespaced(self.client.clone(), &namespace);
        let key = (namespace, name.clone());
        self.waiting.remove(&key);
        let done = if pod.metadata.deletion_timestamp.is_some() {
            // It alone: another one may have its name by now.
            let it = Preconditions { uid: pod.metadata.uid.clone(), resource_version: None };
            let now =
                DeleteParams { grace_period_seconds: Some(0), preconditions: Some(it), ..DeleteParams::default() };
            pods.delete(&name, &now).await.map(drop)
        } else if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none()) {
            bind(&pods, &name).await
        } else if pod.status.as_ref().is_none_or(|status| status.pod_ip.is_none()) {
            self.waiting.insert(key, pod);
            self.give().await;
            Ok(())
        } else {
            Ok(())
        };
        accept(done);
    }

    async fn read(&mut self, pool: &DynamicObject) {
        let entry = |entry: &Value| {
            let set = &entry["owner"]["statefulSet"];
            let pod = format!("{}-{}", set["name"].as_str()?, set["index"].as_u64()?);
            Some((set["namespace"].as_str()?.to_owned(), pod, entry["ipAddress"].as_str()?.parse().ok()?))
        };
        let entries = pool.data["status"]["ipAddresses"].as_array().into_iter().flatten().filter_map(entry).collect();
        let first = &pool.data["spec"]["ipRanges"][0];
        let v4 = !first.to_string().contains("::");
        self.pools.insert(pool.name_any(), (v4, entries));
        self.give().await;
    }

    /// Gives each Pod that waits its addresses, if they are known.
    async fn give(&mut self) {
        for (key, pod) in self.waiting.clone() {
            let addresses = match self.addresses {
                Addresses::Reserved => self.reserved(&pod).await,
                Addresses::Others => None,
            };
            let addresses = addresses.unwrap_or_else(|| {
                self.given += 1;
                vec![Ipv4Addr::from_bits(FIRST + self.given).into()]
            });
            if !addresses.is_empty() {
                self.waiting.remove(&key);
                accept(run(&Api::namespaced(self.client.clone(), &key.0), &key.1, &addresses).await);
            }
        }
    }

    /// One address of each family of the Pod's pools; none while one is missing; `None` if it draws from no pool.
    async fn reserved(&self, pod: &Pod) -> Option<Vec<IpAddr>> {
        let (namespace, name) = (pod.namespace()?, pod.name_any());
        let annotation = if let Some(own) = pod.annotations().get(POOLS) {
            own.clone()
        } else {
            let namespaces = Api::<Namespace>::all(self.client.clone());
            namespaces.get_opt(&namespace).await.ok()??.annotations().get(POOLS)?.clone()
        };
        let named: Vec<_> = annotation.split(',').map(str::trim).filter(|pool| !pool.is_empty()).collect();
        let mut families = BTreeMap::<bool, Option<IpAddr>>::new();
        for pool in &named {
            let Some((v4, entries)) = self.pools.get(*pool) else { return Some(Vec::new()) };
            let own = entries.iter().find(|(space, pod, _)| *space == namespace && *pod == name);
            let family = families.entry(!*v4).or_default();
            *family = family.or(own.map(|(_, _, address)| *address));
        }
        if families.is_empty() {
            return None;
        }
        Some(families.into_values().collect::<Option<Vec<_>>>().unwrap_or_default())
    }
}

fn accept(done: Result<(), kube::Error>) {
    match done {
        // It is gone, or was bound, before we saw it: what follows will show.
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {}
        // The API server is away: the watcher shows the Pod again when it is back.
        Err(error @ (kube::Error::HyperError(_) | kube::Error::Service(_))) => eprintln!("kubelet: {error}"),
        done => done.expect("the API server takes it"),
    }
}

async fn bind(pods: &Api<Pod>, name: &str) -> Result<(), kube::Error> {
    let node = ObjectReference { kind: Some("Node".into()), name: Some("node".into()), ..ObjectReference::default() };
    let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
    let binding = Binding { metadata, target: node };
    let _: Value = pods.create_subresource("binding", name, &PostParams::default(), &binding).await?;
    Ok(())
}

async fn run(pods: &Api<Pod>, name: &str, addresses: &[IpAddr]) -> Result<(), kube::Error> {
    let all: Vec<_> = addresses.iter().map(|address| json!({"ip": address})).collect();
    let status = json!({"status": {
        "phase": "Running",
        "podIP": addresses[0],
        "podIPs": all,
        "conditions": [{"type": "Ready", "status": "True"}],
    }});
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.map(drop)
}
