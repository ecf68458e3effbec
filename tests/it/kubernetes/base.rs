//! `deploy/`: what an operator applies, and what becomes of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Container, EnvVar, Pod};
use kube::Api;
use kube::api::DeleteParams;
use kube::runtime::wait::await_condition;

use super::scene::{Kind, Stage, pool, range, set};
use super::{ControlPlane, Kubelet, control_plane};
use crate::fixtures::{Process, command, free_addresses, run};

/// Applies the kustomize base as it stands, once.
pub fn apply_base(control_plane: &ControlPlane) {
    static APPLIED: OnceLock<()> = OnceLock::new();
    APPLIED.get_or_init(|| {
        let base = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy");
        control_plane.kubectl(&["apply", "--server-side", "--validate=strict", "-k", base]).expect(0);
    });
}

/// The Pod that the controller made for an ordinal.
async fn made(pods: &Api<Pod>, ordinal: usize) -> Pod {
    let name = format!("holdfast-{ordinal}");
    let there = |pod: Option<&Pod>| pod.is_some();
    let pod = await_condition(pods.clone(), &name, there).await.expect("the API server answers");
    pod.expect("the condition says so")
}

/// A container's environment as its process would have it, but for secrets, of which there is none.
fn environment(pod: &Pod, container: &Container) -> BTreeMap<String, String> {
    let mut known = BTreeMap::new();
    for variable in container.env.iter().flatten() {
        if let Some(value) = value(pod, variable, &known) {
            known.insert(variable.name.clone(), value);
        }
    }
    known
}

fn value(pod: &Pod, variable: &EnvVar, known: &BTreeMap<String, String>) -> Option<String> {
    let Some(from) = &variable.value_from else { return Some(expanded(variable.value.as_deref()?, known)) };
    if let Some(secret) = &from.secret_key_ref {
        assert_eq!(secret.optional, Some(true), "{} can be missing", secret.name);
        return None;
    }
    let path = &from.field_ref.as_ref().expect("a field or a secret").field_path;
    match path.as_str() {
        "metadata.name" => pod.metadata.name.clone(),
        "metadata.namespace" => pod.metadata.namespace.clone(),
        path => panic!("{path} is known when the Pod runs"),
    }
}

/// `$(NAME)` replaced by what is known of it, as the kubelet does.
fn expanded(text: &str, known: &BTreeMap<String, String>) -> String {
    known.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("$({name})"), value))
}

/// A process with the arguments and the environment of a Pod, on loopback: `places` maps what cannot be the same
/// here to what is.
fn replica(pod: &Pod, places: &BTreeMap<String, String>) -> Command {
    let container = &pod.spec.as_ref().expect("a Pod has a spec").containers[0];
    let environment = environment(pod, container);
    let here = |text: &str| places.iter().fold(text.to_owned(), |text, (there, here)| text.replace(there, here));
    let mut replica = command();
    replica.args(container.args.iter().flatten().map(|arg| here(&expanded(arg, &environment))));
    replica.envs(environment.iter().map(|(name, value)| (name, here(value))));
    replica
}

/// Where a Pod's names, ports and volumes are on this machine.
fn places(addresses: &[String], ordinal: usize, directory: &Path) -> BTreeMap<String, String> {
    let name =
        |(i, address): (usize, &String)| (format!("holdfast-{i}.holdfast-peers.holdfast.svc:7601"), address.clone());
    let mut places: BTreeMap<String, String> = addresses.iter().enumerate().map(name).collect();
    places.insert("0.0.0.0:7601".to_owned(), addresses[ordinal].clone());
    let data = directory.join(ordinal.to_string());
    places.insert("/var/lib/holdfast".to_owned(), data.to_str().expect("text").to_owned());
    places
}

#[tokio::test]
async fn replicas_with_the_arguments_of_the_pods_form_a_group() {
    let Some(stage) = Stage::empty().await else { return };
    let control_plane = stage.control_plane();
    let pods = Api::<Pod>::namespaced(control_plane.client().await, "holdfast");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let addresses = free_addresses(3);
    let mut replicas = Vec::new();
    for ordinal in 0..3 {
        let pod = made(&pods, ordinal).await;
        let spec = pod.spec.as_ref().expect("a Pod has a spec");
        assert_eq!(spec.service_account_name.as_deref(), Some("holdfast"));
        assert_eq!(spec.enable_service_links, Some(false));
        let volume = spec.volumes.iter().flatten().find(|volume| volume.name == "data").expect("a volume");
        let claim = volume.persistent_volume_claim.as_ref().expect("that is claimed");
        assert_eq!(claim.claim_name, format!("data-holdfast-{ordinal}"));
        // What a Pod finds mounted, a process is told.
        let mut replica = replica(&pod, &places(&addresses, ordinal, directory.path()));
        replicas.push(Process::start(replica.env("KUBECONFIG", stage.kubeconfig())));
    }
    for replica in &mut replicas {
        replica.line(|line| line.contains("ready") && !line.contains("not ready"));
    }
    let namespace = stage.namespace("base").await;
    let only = [range("10.77.0.10", "10.77.0.12")];
    stage.api.create(Kind::IpPool, &pool("base", &only, "10.77.0.1", 24)).await;
    stage.api.create(Kind::StatefulSet, &set(&namespace, "base", 3, "base")).await;
    let reserved = |pool: Option<&serde_json::Value>| pool.is_some_and(|pool| pool["status"]["usage"]["used"] == 3);
    stage.api.until(Kind::IpPool, "", "base", "three addresses reserved", reserved).await;
    let client = |args: &[&str]| run(command().args(args).env("HOLDFAST_ENDPOINTS", addresses.join(",")));
    client(&["leader", "show", "--timeout", "60s"]).expect(0);
    let status = client(&["status", "-o", "json", "--timeout", "60s"]).expect(0);
    for ordinal in 0..3 {
        assert!(status.out.contains(&format!("holdfast-{ordinal}")), "{status:#?}");
        assert!(directory.path().join(ordinal.to_string()).exists(), "its data is in its volume");
    }
    client(&["check", "--timeout", "60s"]).expect(0);
    for mut replica in replicas {
        replica.terminate();
        assert_eq!(replica.end(), 0, "{:#?}", replica.seen());
    }
}

/// Three replicas in one process, over the current kubeconfig.
#[tokio::test]
async fn dev_follows_the_cluster_of_the_kubeconfig() {
    let Some(stage) = Stage::empty().await else { return };
    let mut dev = command();
    dev.args(["dev", "--kubernetes", "--listen", &free_addresses(3).join(",")]);
    let mut dev = Process::start(dev.env("KUBECONFIG", stage.kubeconfig()));
    dev.line(|line| line.contains("following the Kubernetes API"));
    let namespace = stage.namespace("dev").await;
    let only = [range("10.78.0.10", "10.78.0.12")];
    stage.api.create(Kind::IpPool, &pool("dev", &only, "10.78.0.1", 24)).await;
    stage.api.create(Kind::StatefulSet, &set(&namespace, "dev", 3, "dev")).await;
    let reserved = |pool: Option<&serde_json::Value>| pool.is_some_and(|pool| pool["status"]["usage"]["used"] == 3);
    stage.api.until(Kind::IpPool, "", "dev", "three addresses reserved", reserved).await;
    dev.line(|line| line.contains("10.78.0.12 of IPPool dev granted"));
    dev.terminate();
    assert_eq!(dev.end(), 0, "{:#?}", dev.seen());
}

#[tokio::test]
async fn the_stateful_set_is_ready_once_its_pods_run_and_a_pod_that_goes_is_made_again() {
    let Some(control_plane) = control_plane() else { return };
    apply_base(&control_plane);
    let client = control_plane.client().await;
    let _kubelet = Kubelet::start(client.clone(), "holdfast");
    let ready = |set: Option<&StatefulSet>| {
        set.and_then(|set| set.status.as_ref()).is_some_and(|status| status.ready_replicas == Some(3))
    };
    let sets = Api::<StatefulSet>::namespaced(client.clone(), "holdfast");
    await_condition(sets, "holdfast", ready).await.expect("the API server answers");
    let pods = Api::<Pod>::namespaced(client, "holdfast");
    let uid = pods.get("holdfast-1").await.expect("is there").metadata.uid;
    pods.delete("holdfast-1", &DeleteParams::default()).await.expect("is there");
    let another_runs = |pod: Option<&Pod>| {
        pod.is_some_and(|pod| pod.metadata.uid != uid && pod.status.as_ref().is_some_and(|it| it.pod_ip.is_some()))
    };
    await_condition(pods.clone(), "holdfast-1", another_runs).await.expect("the API server answers");
}

#[test]
fn the_base_applies_again_without_a_change() {
    let Some(control_plane) = control_plane() else { return };
    apply_base(&control_plane);
    let versions = || {
        let of_cluster = ["get", "namespace/holdfast", "clusterrole/holdfast", "clusterrolebinding/holdfast"];
        let of_namespace =
            ["get", "-n=holdfast", "serviceaccount/holdfast", "service/holdfast", "service/holdfast-peers"];
        let version = |item: &serde_json::Value| item["metadata"]["resourceVersion"].clone();
        let read = |args: &[&str]| control_plane.kubectl(&[args, &["-o", "json"]].concat()).expect(0).json();
        let lists = [read(&of_cluster), read(&of_namespace)];
        lists.iter().filter_map(|list| list["items"].as_array()).flatten().map(version).collect::<Vec<_>>()
    };
    let before = versions();
    assert_eq!(before.len(), 6);
    let base = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy");
    control_plane.kubectl(&["apply", "--server-side", "--validate=strict", "-k", base]).expect(0);
    assert_eq!(versions(), before);
}
