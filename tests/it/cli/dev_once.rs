//! `holdfast dev DIR --once`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::fixtures::{Ran, command, examples, manifests, run};

fn dev_once(more: &[&str]) -> Ran {
    run(command().arg("dev").arg(examples()).arg("--once").args(more))
}

#[test]
fn the_examples_show_blocks_both_families_a_wait_with_its_numbers_and_why_an_egress_has_no_node() {
    let ran = dev_once(&[]).expect(0);
    let postgres = ran.line("shop/postgres");
    assert!(postgres.contains("Granted") && postgres.contains("10.20.0.10-12, fd00:20::2-4"), "{postgres}");
    let kafka = ran.line("shop/kafka");
    assert!(
        kafka.contains(" 10.20.0.13-16 ") && kafka.contains(" 10.20.0.17-18 "),
        "a block and its headroom: {kafka}"
    );
    let redis = ran.line("cache/redis");
    assert!(redis.contains("Pending") && redis.contains("12 needed, 16 free, largest free run 8"), "{redis}");
    let lab = ran.line("lab-tests");
    assert!(lab.contains("192.0.2.10") && lab.contains("Unplaced   1 NotReady, 4 SelectorMismatch"), "{lab}");
    for (node, why) in [("gateway-1", "SelectorMismatch"), ("worker-3", "NotReady")] {
        assert!(ran.out.lines().any(|line| line.starts_with(&format!("  {node}")) && line.ends_with(why)), "{ran:#?}");
    }
    let gateway = ran.line("gateway-1");
    assert!(gateway.contains("Ready      2            2"), "full: {gateway}");
}

fn objects(list: &Value) -> Vec<(&str, &str)> {
    let items = list["items"].as_array().expect("a list");
    items
        .iter()
        .map(|item| (item["kind"].as_str().expect("a kind"), item["metadata"]["name"].as_str().expect("a name")))
        .collect()
}

#[test]
fn json_is_what_kubernetes_will_hold_sorted_by_kind_and_name() {
    let list = dev_once(&["-o", "json"]).expect(0).json();
    assert_eq!((list["apiVersion"].as_str(), list["kind"].as_str()), (Some("v1"), Some("List")));
    let objects = objects(&list);
    assert!(objects.is_sorted(), "{objects:?}");
    let kinds: BTreeSet<&str> = objects.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, BTreeSet::from(["Egress", "ExternalIPPool", "IPPool"]));
    let find = |name: &str| {
        list["items"].as_array().into_iter().flatten().find(|item| item["metadata"]["name"] == name).expect("is there")
    };
    let web = find("web");
    assert_eq!(web["spec"]["egressIP"], web["status"]["egressIP"], "what was chosen is in the spec");
    assert!(web["status"]["egressNode"].is_string());
    let reserved = find("pods-v6")["status"]["ipAddresses"].as_array().expect("entries").clone();
    let entries: Vec<(&str, u64)> = reserved
        .iter()
        .map(|entry| {
            let index = entry["owner"]["statefulSet"]["index"].as_u64().expect("an index");
            (entry["ipAddress"].as_str().expect("an address"), index)
        })
        .collect();
    assert_eq!(entries, [("fd00:20::2", 0), ("fd00:20::3", 1), ("fd00:20::4", 2)]);
}

#[test]
fn yaml_reads_as_the_same_objects_and_applies_again() {
    let json = dev_once(&["-o", "json"]).expect(0).json();
    let yaml = dev_once(&["-o", "yaml"]).expect(0).out;
    let read: Value = serde_saphyr::from_str(&yaml).expect("is YAML");
    assert_eq!(objects(&read), objects(&json));
    let again = manifests(&yaml);
    run(command().arg("dev").arg(again.path()).arg("--once")).expect(0);
}

#[test]
fn the_policy_is_chosen() {
    let ran = run(command().arg("dev").arg(examples()).args(["--once", "--policy", "consistent-hash", "-o", "json"]));
    assert_eq!(objects(&ran.expect(0).json()).len(), 12);
}
