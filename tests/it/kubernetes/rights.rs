//! What the ServiceAccount of `deploy/rbac.yaml`, or of `deploy/antrea/rbac.yaml`, may do, and does.

use std::collections::BTreeSet;
use std::time::Instant;

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::base::apply_base;
use super::control_plane;
use super::scene::{Kind, PATIENCE, PAUSE, Rows, Scene, Stage, egress, external_pool, node, pool, range, run_of, set};

/// Verb, group, `resource` or `resource/subresource`, and name or nothing.
type Asked<'a> = (&'a str, &'a str, &'a str, Option<&'a str>);

async fn may(client: &Client, (verb, group, resource, name): Asked<'_>) -> bool {
    let (resource, subresource) = resource.split_once('/').map_or((resource, None), |(one, other)| (one, Some(other)));
    let attributes = ResourceAttributes {
        verb: Some(verb.into()),
        group: Some(group.into()),
        resource: Some(resource.into()),
        subresource: subresource.map(Into::into),
        name: name.map(Into::into),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
    let review = SelfSubjectAccessReview { spec, ..Default::default() };
    let answer = Api::all(client.clone()).create(&PostParams::default(), &review).await.expect("it may ask");
    answer.status.expect("an answer").allowed
}

#[tokio::test]
async fn a_token_of_the_service_account_may_do_what_the_role_says_and_nothing_near_it() {
    let Some(control_plane) = control_plane() else { return };
    apply_base(&control_plane);
    let role = Api::<ClusterRole>::all(control_plane.client().await).get("holdfast").await.expect("is applied");
    let bridge = control_plane.client_of("holdfast", "holdfast").await;
    let mut granted = 0;
    for rule in role.rules.iter().flatten() {
        let names = rule.resource_names.iter().flatten().map(|name| Some(name.as_str()));
        let names: Vec<_> = if rule.resource_names.is_some() { names.collect() } else { vec![None] };
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                for asked in rule.verbs.iter().flat_map(|verb| names.iter().map(move |name| (verb, *name))) {
                    let asked: Asked<'_> = (asked.0, group, resource, asked.1);
                    assert!(!format!("{asked:?}").contains('*'), "{asked:?} is too much");
                    assert!(may(&bridge, asked).await, "{asked:?}");
                    granted += 1;
                }
            }
        }
    }
    assert!(granted > 20, "{granted}");
    let ours = "crd.antrea.io";
    for asked in [
        ("get", "", "secrets", None),
        ("get", "", "services", None),
        ("delete", "", "pods", None),
        ("patch", "", "pods/status", None),
        ("patch", "", "nodes", None),
        ("update", "apps", "statefulsets", None),
        ("patch", ours, "ippools", None),
        ("patch", ours, "externalippools", None),
        ("update", ours, "egresses", None),
        ("delete", ours, "egresses", None),
        ("create", ours, "ippools", None),
        ("get", ours, "antreacontrollerinfos", Some("another")),
        ("get", "apiextensions.k8s.io", "customresourcedefinitions", Some("tiers.crd.antrea.io")),
        ("patch", "apiextensions.k8s.io", "customresourcedefinitions", Some("ippools.crd.antrea.io")),
        ("get", "events.k8s.io", "events", None),
    ] {
        assert!(!may(&bridge, asked).await, "{asked:?}");
    }
    let user = "system:serviceaccount:holdfast:holdfast";
    let asked = control_plane.audit().iter().filter(|event| event["user"]["username"] == user).count();
    assert!(asked > granted, "each question is in the record: {asked}");
}

/// Group, resource with subresource, verb, and the object's name where only some may be named.
type Right = (String, String, String, String);

/// What a manifest grants.
fn granted(manifest: &str) -> BTreeSet<Right> {
    let path = format!("{}/deploy/{manifest}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("is there");
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("is YAML");
    let roles = objects.iter().filter(|object| object["kind"] == "ClusterRole");
    let mut rights = BTreeSet::new();
    for rule in roles.flat_map(|role| role["rules"].as_array().expect("rules")) {
        let each = |field: &str| -> Vec<String> {
            let texts = rule[field].as_array().unwrap_or_else(|| panic!("{field} of {rule}"));
            texts.iter().map(|text| text.as_str().expect("text").to_owned()).collect()
        };
        let names = if rule["resourceNames"].is_null() { vec![String::new()] } else { each("resourceNames") };
        for (group, resource) in
            each("apiGroups").iter().flat_map(|it| each("resources").into_iter().map(move |of| (it, of)))
        {
            for verb in each("verbs") {
                rights.extend(names.iter().map(|name| (group.clone(), resource.clone(), verb.clone(), name.clone())));
            }
        }
    }
    rights
}

/// What was used of it.
fn used(asked: &Value, granted: &BTreeSet<Right>) -> Right {
    let of = &asked["objectRef"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let resource = match (of["resource"].as_str(), of["subresource"].as_str()) {
        (None, _) => text(&asked["requestURI"]),
        (Some(resource), None) => resource.to_owned(),
        (Some(resource), Some(subresource)) => format!("{resource}/{subresource}"),
    };
    let right = (text(&of["apiGroup"]), resource, text(&asked["verb"]), text(&of["name"]));
    if granted.contains(&right) { right } else { (right.0, right.1, right.2, String::new()) }
}

/// One object of each kind that the mode follows, all named `gone`, and what is held for them; no kubelet, so that Pods
/// go at once.
async fn one_of_each(scene: &Scene, space: &str) {
    scene.api.create(Kind::IpPool, &pool("gone", &[range("10.2.2.100", "10.2.2.110")], "10.2.2.1", 24)).await;
    scene.api.create(Kind::StatefulSet, &set(space, "gone", 1, "gone")).await;
    let has_pod = |rows: &Rows| rows.ordinals.values().any(|row| row.pod.is_some());
    if scene.is_beside_antrea() {
        scene.holds("gone", (space, "gone"), 0, &run_of("10.2.2.100", 1)).await;
        scene.ledger("a Pod", has_pod).await;
        return;
    }
    scene.api.create(Kind::Node, &node("gone")).await;
    scene.api.create(Kind::ExternalIpPool, &external_pool("gone", &[range("192.0.2.10", "192.0.2.20")])).await;
    scene.api.create(Kind::Egress, &egress("gone", &json!({"externalIPPool": "gone"}))).await;
    scene.ledger("a Pod", has_pod).await;
    scene.settled().await;
}

/// Something is told twice of the StatefulSet `gone`, and counted: by whoever told it first, for as long as it leads.
async fn told_twice(scene: &mut Scene, space: &str) {
    let is_refused = |bridge: &Value| bridge["refused"].to_string().contains(&format!("StatefulSet {space}/gone"));
    for _ in 0..5 {
        let offices = scene.offices();
        for headroom in [json!("many"), Value::Null].iter().cycle().take(4) {
            let annotations = json!({"metadata": {"annotations": {"holdfast.dev/headroom": headroom}}});
            scene.api.patch(Kind::StatefulSet, space, "gone", &annotations).await;
            let as_wanted = |bridge: &Value| is_refused(bridge) != headroom.is_null();
            scene.bridge(&format!("what it thinks of headroom {headroom}"), as_wanted).await;
        }
        let deadline = Instant::now() + PATIENCE;
        while scene.offices() == offices {
            let told = scene.events(Kind::StatefulSet, "gone", "Refused").await;
            if told.iter().any(|it| it["series"]["count"].as_u64() >= Some(2)) {
                return;
            }
            assert!(Instant::now() < deadline, "a repeat is not counted: {told:#?}");
            tokio::time::sleep(PAUSE).await;
        }
    }
    panic!("no office lasts");
}

/// Makes the bridge do all that the mode does. Each right of the manifest is used, and no other.
async fn uses_what_is_granted(mut scene: Scene, manifest: &str) {
    let space = scene.namespace("rights").await;
    one_of_each(&scene, &space).await;
    told_twice(&mut scene, &space).await;
    // They go while nobody looks: each is asked for.
    (0..3).for_each(|replica| scene.group.kill(replica));
    scene.api.delete(Kind::StatefulSet, &space, "gone").await;
    scene.api.until(Kind::Pod, &space, "gone-0", "an end", |it| it.is_none()).await;
    for kind in [Kind::Egress, Kind::IpPool, Kind::ExternalIpPool, Kind::Node] {
        scene.api.delete(kind, "", "gone").await;
    }
    (0..3).for_each(|replica| scene.group.start_replica(replica));
    scene.leader().await;
    let released = |rows: &Rows| {
        rows.grants.is_empty()
            && rows.pools.is_empty()
            && rows.reservations.is_empty()
            && rows.egresses.is_empty()
            && rows.nodes.is_empty()
    };
    scene.ledger("nothing", released).await;
    scene.seen().await;
    let granted = granted(manifest);
    let used: BTreeSet<Right> = scene.asked().iter().map(|asked| used(asked, &granted)).collect();
    let unused: Vec<_> = granted.difference(&used).collect();
    let beyond: Vec<_> = used.difference(&granted).collect();
    assert!(unused.is_empty() && beyond.is_empty(), "granted, not used: {unused:#?}; used, not granted: {beyond:#?}");
    // Ends with nothing that was forbidden.
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_used_are_the_rights_granted() {
    let Some(scene) = Scene::start().await else { return };
    uses_what_is_granted(scene, "rbac.yaml").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_antrea_the_rights_used_are_the_rights_granted() {
    let Some(stage) = Stage::beside_antrea().await else { return };
    uses_what_is_granted(stage.play(&[]), "antrea/rbac.yaml").await;
}
