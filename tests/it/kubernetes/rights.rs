//! What the ServiceAccount of `deploy/rbac.yaml` may do.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::PostParams;
use kube::{Api, Client};

use super::base::apply_base;
use super::control_plane;

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
