//! Our definitions: what an API server takes and refuses under them.

use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::control_plane;
use crate::fixtures::{Dev, examples, holdfast};

fn resource(kind: &str) -> ApiResource {
    let plural = match kind {
        "IPPool" => "ippools",
        "ExternalIPPool" => "externalippools",
        "Egress" => "egresses",
        kind => panic!("{kind} is none of ours"),
    };
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("crd.antrea.io", "v1beta1", kind), plural)
}

fn objects(client: &Client, kind: &str) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &resource(kind))
}

/// Server-side apply, without force, with every field checked.
fn strictly() -> PatchParams {
    PatchParams::apply("holdfast-tests").validation_strict()
}

fn named(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "crd.antrea.io/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// Applies a spec without storing it: what would be stored, or why not.
async fn tried(client: &Client, kind: &str, spec: &Value) -> Result<Value, String> {
    let patch = Patch::Apply(named(kind, "tried", spec));
    match objects(client, kind).patch("tried", &strictly().dry_run(), &patch).await {
        Ok(object) => Ok(object.data["spec"].clone()),
        Err(kube::Error::Api(status)) => Err(status.message),
        Err(error) => panic!("{error}"),
    }
}

async fn all_taken(kind: &str, specs: &[Value]) {
    let Some(control_plane) = control_plane() else { return };
    let client = control_plane.client().await;
    for spec in specs {
        assert_eq!(tried(&client, kind, spec).await.as_ref(), Ok(spec), "{kind} {spec}");
    }
}

async fn all_refused(kind: &str, specs: &[(Value, &str)]) {
    let Some(control_plane) = control_plane() else { return };
    let client = control_plane.client().await;
    for (spec, why) in specs {
        let refusal = tried(&client, kind, spec).await.expect_err(&format!("must be refused: {kind} {spec}"));
        assert!(refusal.contains(why), "{kind} {spec}: {refusal}");
    }
}

fn pool(ranges: &Value, gateway: &str, prefix_length: u32) -> Value {
    json!({"ipRanges": ranges, "subnetInfo": {"gateway": gateway, "prefixLength": prefix_length}})
}

fn external(ranges: &Value) -> Value {
    json!({"ipRanges": ranges, "nodeSelector": {}})
}

fn many(count: u32) -> Value {
    let one = |i: u32| json!({"start": format!("10.9.{}.{}", i / 250, i % 250), "end": format!("10.9.{}.{}", i / 250, i % 250)});
    (0..count).map(one).collect()
}

#[tokio::test]
async fn pools_that_are_taken() {
    let longest = "2001:0db8:0000:0000:0000:0000:0000:0001";
    all_taken(
        "IPPool",
        &[
            pool(&json!([{"start": "10.2.2.100", "end": "10.2.2.120"}]), "10.2.2.1", 24),
            pool(&json!([{"start": "10.2.2.100", "end": "10.2.2.101"}, {"cidr": "10.2.2.0/28"}]), "10.2.2.1", 24),
            // An address of another text than ours, and bits behind the prefix, as Antrea's formats take them.
            pool(&json!([{"start": longest, "end": longest}]), "2001:DB8::2", 64),
            pool(&json!([{"cidr": "10.2.2.77/28"}]), "10.2.2.1", 24),
            pool(&json!([{"start": "2001::1000", "end": "2001::1000"}, {"cidr": "2001::/124"}]), "2001::1", 64),
            // The ledger says what it thinks of order in IPv6, of overlap and of no ranges at all.
            pool(&json!([{"start": "2001::9", "end": "2001::1"}]), "2001::1", 64),
            pool(&json!([{"cidr": "10.2.2.0/28"}, {"cidr": "10.2.2.0/28"}]), "10.2.2.1", 24),
            pool(&json!([]), "10.2.2.1", 24),
            pool(&json!([{"start": "0.0.0.0", "end": "127.255.255.255"}]), "0.0.0.1", 1),
            pool(&json!([{"start": "9.255.255.255", "end": "10.0.0.0"}]), "8.0.0.1", 5),
            pool(&json!([{"cidr": "10.2.2.0/31"}]), "10.2.2.1", 31),
            pool(&json!([{"cidr": "2001::/127"}]), "2001::1", 127),
            pool(&many(256), "10.9.200.1", 16),
            json!({
                "ipRanges": [{"cidr": "10.2.2.0/28"}],
                "subnetInfo": {"gateway": "10.2.2.1", "prefixLength": 24, "vlan": 4094},
            }),
        ],
    )
    .await;
    all_taken(
        "ExternalIPPool",
        &[
            external(&json!([{"cidr": "1.1.1.0/30"}])),
            external(&json!([{"cidr": "1.1.1.0/30"}, {"start": "1.1.2.10", "end": "1.1.2.20"}])),
            external(&json!([{"cidr": "2021:2::aaa0/124"}])),
            external(&many(256)),
            json!({
                "ipRanges": [{"cidr": "1.1.1.0/30"}],
                "subnetInfo": {"gateway": "1.1.1.1", "prefixLength": 24, "vlan": 0},
                "nodeSelector": {
                    "matchLabels": {"a/b": "c", "empty": ""},
                    "matchExpressions": [{"key": "k", "operator": "NotIn", "values": ["v"]}],
                },
            }),
        ],
    )
    .await;
}

#[tokio::test]
async fn pools_that_are_refused() {
    let start = |text: &str| json!([{"start": text, "end": "10.2.2.120"}]);
    let cidr = |text: &str| json!([{"cidr": text}]);
    let rules: Vec<(Value, &str)> = vec![
        (json!([{"start": "10.2.2.1", "end": "2001::1"}]), "start and end must be of one family"),
        (json!([{"start": "2001::1", "end": "10.2.2.1"}]), "start and end must be of one family"),
        (json!([{"start": "10.2.2.9", "end": "10.2.2.8"}]), "start must not be above end"),
        (json!([{"start": "10.2.10.0", "end": "10.2.9.255"}]), "start must not be above end"),
        (json!([{"cidr": "10.2.2.0/28"}, {"start": "200.0.0.0", "end": "100.0.0.0"}]), "start must not be above end"),
        (json!([{"cidr": "10.2.2.0/28"}, {"cidr": "2001::/124"}]), "all ranges must be of one family"),
        (json!([{"cidr": "2001::/124"}, {"start": "10.2.2.8", "end": "10.2.2.9"}]), "all ranges must be of one family"),
        (many(257), "must have at most 256 items"),
        (start("10.2.2.256"), "spec.ipRanges[0].start"),
        (start("010.2.2.2"), "leading zero"),
        (start("::ffff:10.2.2.2"), "spec.ipRanges[0].start"),
        (start(""), "spec.ipRanges[0].start"),
        (cidr("10.2.2.0"), "spec.ipRanges[0].cidr"),
        (cidr("10.2.2.0/33"), "spec.ipRanges[0].cidr"),
        (json!([{"start": "10.2.2.2"}]), "spec.ipRanges[0]"),
        (json!([{}]), "spec.ipRanges[0]"),
        (json!([{"cidr": "10.2.2.0/28", "start": "10.2.2.2", "end": "10.2.2.3"}]), "spec.ipRanges[0]"),
        (json!([{"cidr": "10.2.2.0/28", "step": 1}]), "field not declared in schema"),
    ];
    let as_ip_pools: Vec<_> = rules.iter().map(|(ranges, why)| (pool(ranges, "10.2.2.1", 8), *why)).collect();
    all_refused("IPPool", &as_ip_pools).await;
    let as_external: Vec<_> = rules.iter().map(|(ranges, why)| (external(ranges), *why)).collect();
    all_refused("ExternalIPPool", &as_external).await;
    all_refused("ExternalIPPool", &[(json!({"ipRanges": [{"cidr": "1.1.1.0/30"}]}), "spec.nodeSelector")]).await;
}

#[tokio::test]
async fn subnets_that_are_refused() {
    let outside = "every range must lie inside the subnet";
    let at_most = "prefixLength must be at most 31 with an IPv4 gateway";
    let cases = [
        (json!([{"start": "10.2.1.255", "end": "10.2.2.10"}]), "10.2.2.1", 24, outside),
        (json!([{"start": "10.2.2.250", "end": "10.2.3.0"}]), "10.2.2.1", 24, outside),
        (json!([{"cidr": "10.2.2.0/28"}, {"cidr": "10.2.2.0/23"}]), "10.2.2.1", 24, outside),
        (json!([{"cidr": "10.2.3.0/28"}]), "10.2.2.1", 24, outside),
        (json!([{"cidr": "2001:1::/80"}]), "2001::1", 64, outside),
        (json!([{"cidr": "2001::/80"}]), "10.2.2.1", 24, outside),
        (json!([{"cidr": "10.2.2.0/28"}]), "2001::1", 24, outside),
        (json!([{"cidr": "10.2.2.0/28"}]), "10.2.2.1", 32, at_most),
        (json!([{"cidr": "10.2.2.0/28"}]), "10.2.2.1", 64, at_most),
        (json!([{"cidr": "10.2.2.0/28"}]), "10.2.2.1", 0, "spec.subnetInfo.prefixLength"),
        (json!([{"cidr": "2001::/124"}]), "2001::1", 128, "spec.subnetInfo.prefixLength"),
        (json!([{"cidr": "10.2.2.0/28"}]), "gateway", 24, "spec.subnetInfo.gateway"),
    ];
    let specs: Vec<_> = cases.iter().map(|(ranges, gateway, n, why)| (pool(ranges, gateway, *n), *why)).collect();
    all_refused("IPPool", &specs).await;
    let external = |(mut spec, why): (Value, _)| {
        spec["nodeSelector"] = json!({});
        (spec, why)
    };
    all_refused("ExternalIPPool", &specs.into_iter().map(external).collect::<Vec<_>>()).await;
    let mut vlan = pool(&json!([{"cidr": "10.2.2.0/28"}]), "10.2.2.1", 24);
    vlan["subnetInfo"]["vlan"] = 4095.into();
    all_refused("IPPool", &[(vlan, "spec.subnetInfo.vlan"), (json!({"ipRanges": []}), "spec.subnetInfo")]).await;
}

fn egress(fields: &Value) -> Value {
    let mut spec = json!({"appliedTo": {}});
    for (name, value) in fields.as_object().expect("fields") {
        spec[name] = value.clone();
    }
    spec
}

#[tokio::test]
async fn egresses_that_are_taken() {
    let names: Vec<String> = (0..16).map(|i| format!("pool-{i}")).collect();
    let addresses: Vec<String> = (0..16).map(|i| format!("1.1.1.{i}")).collect();
    all_taken(
        "Egress",
        &[
            egress(&json!({"egressIP": "1.1.1.1"})),
            egress(&json!({"egressIP": "2021::1", "externalIPPool": "p"})),
            egress(&json!({"externalIPPool": "p", "bandwidth": {"rate": "100M", "burst": "1.5Gi"}})),
            egress(&json!({"externalIPPool": "p", "bandwidth": {"rate": "500000", "burst": "200k"}})),
            egress(&json!({"egressIPs": ["", "2021::1", "1.1.1.1"], "externalIPPools": ["a", "b", "c"]})),
            egress(&json!({"externalIPPools": names, "egressIPs": addresses})),
            egress(&json!({"egressIPs": ["1.1.1.1"]})),
            json!({
                "appliedTo": {
                    "podSelector": {"matchLabels": {"app": "web"}},
                    "namespaceSelector": {"matchExpressions": [{"key": "env", "operator": "In", "values": ["a", "b"]}]},
                },
                "egressIP": "1.1.1.1",
            }),
        ],
    )
    .await;
}

#[tokio::test]
async fn egresses_that_are_refused() {
    let names: Vec<String> = (0..17).map(|i| format!("pool-{i}")).collect();
    let addresses: Vec<String> = (0..17).map(|i| format!("1.1.1.{i}")).collect();
    let bandwidth =
        |rate: &str, burst: &str| egress(&json!({"egressIP": "1.1.1.1", "bandwidth": {"rate": rate, "burst": burst}}));
    let label = json!({"podSelector": {"matchLabels": {"app": "no spaces"}}});
    let operator = json!({"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}});
    all_refused(
        "Egress",
        &[
            (bandwidth("fast", "200M"), "rate must be a quantity"),
            (bandwidth("100M", "100 M"), "burst must be a quantity"),
            (bandwidth("", "1"), "rate must be a quantity"),
            (egress(&json!({"egressIP": "1.1.1.1", "bandwidth": {"rate": "1M"}})), "spec.bandwidth.burst"),
            (egress(&json!({})), "spec"),
            (json!({"egressIP": "1.1.1.1"}), "spec.appliedTo"),
            (egress(&json!({"egressIP": "1.1.1.1", "egressIPs": ["1.1.1.1"]})), "spec"),
            (egress(&json!({"externalIPPool": "a", "externalIPPools": ["a"]})), "spec"),
            (egress(&json!({"egressIP": "", "externalIPPool": "a"})), "spec.egressIP"),
            (egress(&json!({"egressIP": "1.1.1"})), "spec.egressIP"),
            (egress(&json!({"egressIPs": ["1.1.1.1", "here"]})), "spec.egressIPs[1]"),
            (egress(&json!({"externalIPPools": names})), "must have at most 16 items"),
            (egress(&json!({"egressIPs": addresses})), "must have at most 16 items"),
            (json!({"appliedTo": label, "egressIP": "1.1.1.1"}), "spec.appliedTo.podSelector.matchLabels"),
            (json!({"appliedTo": operator, "egressIP": "1.1.1.1"}), "Unsupported value: \"Is\""),
            (egress(&json!({"egressIP": "1.1.1.1", "egressNode": "a"})), "field not declared in schema"),
        ],
    )
    .await;
}

#[tokio::test]
async fn gateway_and_prefix_length_of_an_ip_pool_alone_cannot_be_changed() {
    let Some(control_plane) = control_plane() else { return };
    let client = control_plane.client().await;
    let spec = |gateway: &str, prefix_length: u32, vlan: u32, to: u32| {
        let ranges = json!([{"start": "10.3.2.8", "end": format!("10.3.2.{to}")}]);
        let mut spec = pool(&ranges, gateway, prefix_length);
        spec["subnetInfo"]["vlan"] = vlan.into();
        spec
    };
    for (kind, fixed) in [("IPPool", true), ("ExternalIPPool", false)] {
        let put = async |mut spec: Value| {
            if !fixed {
                spec["nodeSelector"] = json!({});
            }
            let patch = Patch::Apply(named(kind, "subnet-fixed", &spec));
            let put = objects(&client, kind).patch("subnet-fixed", &strictly(), &patch).await;
            put.map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(put(spec("10.3.2.1", 24, 5, 20)).await, Ok(()));
        assert_eq!(put(spec("10.3.2.1", 24, 6, 30)).await, Ok(()), "ranges and vlan may change");
        for (changed, why) in [
            (spec("10.3.2.2", 24, 6, 30), "gateway cannot be changed"),
            (spec("10.3.2.1", 25, 6, 30), "prefixLength cannot be changed"),
        ] {
            match (fixed, put(changed).await) {
                (true, Err(refusal)) => assert!(refusal.contains(why), "{kind}: {refusal}"),
                (false, Ok(())) => {}
                (_, other) => panic!("{kind}, {why}: {other:?}"),
            }
        }
        objects(&client, kind).delete("subnet-fixed", &kube::api::DeleteParams::default()).await.expect("deleted");
    }
}

#[test]
fn the_examples_apply_unchanged() {
    let Some(control_plane) = control_plane() else { return };
    for (file, count) in [("30-pools.yaml", 6), ("60-egresses.yaml", 6)] {
        let path = examples().join(file);
        let path = path.to_str().expect("text");
        let written = std::fs::read_to_string(path).expect("reads");
        let written: Vec<Value> = serde_saphyr::from_multiple(&written).expect("is YAML");
        let args = ["apply", "--server-side", "--validate=strict", "--dry-run=server", "-o", "json", "-f", path];
        let applied = control_plane.kubectl(&args).expect(0).json();
        let applied = applied["items"].as_array().expect("a list");
        assert_eq!((applied.len(), written.len()), (count, count));
        for (applied, written) in applied.iter().zip(&written) {
            assert_eq!(applied["spec"], written["spec"]);
        }
    }
}

#[tokio::test]
async fn a_status_that_the_ledger_exports_is_taken_whole() {
    let Some(control_plane) = control_plane() else { return };
    let dev = Dev::start(&examples());
    let exported = dev.holdfast(&["export", "-o", "json"]).expect(0).json();
    let client = control_plane.client().await;
    let items = exported["items"].as_array().expect("a list");
    assert_eq!(items.len(), 12);
    for item in items {
        let kind = item["kind"].as_str().expect("a kind");
        let name = format!("exported-{}", item["metadata"]["name"].as_str().expect("a name"));
        let api = objects(&client, kind);
        let whole = named(kind, &name, &item["spec"]);
        api.patch(&name, &strictly(), &Patch::Apply(whole)).await.expect("the spec is taken");
        let mut status = named(kind, &name, &item["spec"]);
        status.as_object_mut().expect("an object").remove("spec");
        status["status"] = item["status"].clone();
        let conditions = status.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
        for condition in conditions.into_iter().flatten() {
            condition["observedGeneration"] = 1.into();
        }
        let taken = api.patch_status(&name, &strictly(), &Patch::Apply(&status)).await.expect("the status is taken");
        assert_eq!(taken.data["status"], status["status"], "{kind} {name}");
    }
    let columns = |kind: &str| {
        let table = control_plane.kubectl(&["get", kind]).expect(0).out;
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let row = table.lines().find(|line| line.starts_with("exported-")).map(words).expect("a row");
        (table.lines().next().map(words).expect("a head").join(" "), row)
    };
    assert_eq!(columns("ipp").0, "NAME TOTAL USED AGE");
    assert_eq!(columns("eip").0, "NAME TOTAL USED AGE");
    assert_eq!(columns("eg").0, "NAME EGRESSIP AGE NODE");
    assert_eq!(columns("eip").1[..2], ["exported-anywhere", "8"]);
    for item in items {
        let name = format!("exported-{}", item["metadata"]["name"].as_str().expect("a name"));
        let api = objects(&client, item["kind"].as_str().expect("a kind"));
        api.delete(&name, &kube::api::DeleteParams::default()).await.expect("deleted");
    }
}

#[test]
fn the_command_prints_what_is_checked_in_and_it_says_whose_it_is() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/crds/crd.antrea.io.yaml");
    let checked_in = std::fs::read_to_string(path).expect("is there");
    assert_eq!(holdfast(&["crds"]).expect(0).out, checked_in, "stale: holdfast crds > deploy/crds/crd.antrea.io.yaml");
    let Some(control_plane) = control_plane() else { return };
    let ours = control_plane.kubectl(&["get", "crd", "-l", "holdfast.dev/crds=standalone", "-o", "name"]).expect(0).out;
    let names: Vec<&str> = ours.lines().filter_map(|line| line.split_once('/')).map(|(_, name)| name).collect();
    assert_eq!(names, ["egresses.crd.antrea.io", "externalippools.crd.antrea.io", "ippools.crd.antrea.io"]);
}
