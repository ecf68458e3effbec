//! `holdfast dev` left running: what is written to its directory shows, with its reason.

use std::path::Path;

use crate::fixtures::{Dev, copied_examples};

fn edit(file: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(file).expect("reads");
    assert!(text.contains(from), "{from:?} is not in {}", file.display());
    std::fs::write(file, text.replace(from, to)).expect("writes");
}

/// Where each Egress address is.
fn placements(dev: &Dev) -> Vec<(String, Option<String>)> {
    let json = dev.holdfast(&["egress", "list", "-o", "json"]).expect(0).json();
    let addresses = json["items"].as_array().expect("items").iter().flat_map(|item| {
        item["addresses"].as_array().expect("addresses").iter().map(|it| {
            let text = |key: &str| it[key].as_str().map(str::to_owned);
            (text("address").unwrap_or_default(), text("node"))
        })
    });
    addresses.collect()
}

#[test]
fn a_node_that_fails_moves_its_own_egresses_and_no_others_and_says_why() {
    let directory = copied_examples();
    let mut dev = Dev::start(directory.path());
    let before = placements(&dev);
    let on_it = before.iter().filter(|(_, node)| node.as_deref() == Some("gateway-2")).count();
    assert!(on_it > 0, "{before:?}");
    let nodes = std::fs::read_to_string(directory.path().join("20-nodes.yaml")).expect("reads");
    let documents = nodes.split("\n---\n").map(|document| {
        let failed = document.contains("name: gateway-2");
        let status = if failed { "\nstatus:\n  conditions: [{type: Ready, status: \"False\"}]" } else { "" };
        format!("{document}{status}")
    });
    let nodes = documents.collect::<Vec<_>>().join("\n---\n");
    std::fs::write(directory.path().join("20-nodes.yaml"), nodes).expect("writes");
    for _ in 0..on_it {
        let line = dev.process.line(|line| line.contains(" Egress ") && line.contains(" Node gateway-2 "));
        assert!(
            line.contains("its Node is not ready") && line.contains("[PutNode gateway-2 by manifests:dev]"),
            "{line}"
        );
    }
    let after = placements(&dev);
    for ((address, was), (_, is)) in before.iter().zip(&after) {
        if was.as_deref() == Some("gateway-2") {
            assert_ne!(is.as_deref(), Some("gateway-2"), "{address}");
        } else {
            assert_eq!(was, is, "{address} need not move");
        }
    }
}

#[test]
fn an_object_gone_from_the_files_is_deleted_and_what_waits_is_met() {
    let directory = copied_examples();
    let mut dev = Dev::start(directory.path());
    edit(&directory.path().join("40-statefulsets.yaml"), "replicas: 12", "replicas: 8");
    dev.process.line(|line| line.contains("10.30.0.8 of IPPool cache-v4 granted to StatefulSet cache/redis ordinal 0"));
    dev.process.line(|line| line.contains("StatefulSet cache/redis no longer waits"));
    std::fs::remove_file(directory.path().join("60-egresses.yaml")).expect("is there");
    for _ in 0..6 {
        let line = dev.process.line(|line| line.starts_with("rev ") && line.contains(" gone  ["));
        assert!(line.contains("[DeleteEgress ") && line.contains(" by manifests:dev]"), "{line}");
    }
    let left = dev.holdfast(&["egress", "list", "-o", "json"]).expect(0).json();
    assert_eq!(left["items"].as_array().map(Vec::len), Some(0), "{left}");
}

#[test]
fn a_mistake_is_told_and_nothing_of_it_applied_until_it_is_mended() {
    let directory = copied_examples();
    let mut dev = Dev::start(directory.path());
    let pools = directory.path().join("30-pools.yaml");
    edit(&pools, "prefixLength: 24", "prefixLength: twenty");
    let line = dev.process.line(|line| line.contains("30-pools.yaml: document "));
    assert!(line.contains("spec.subnetInfo.prefixLength: \"twenty\" is not allowed"), "{line}");
    std::fs::write(directory.path().join("70-more.yaml"), "apiVersion: v1\nkind: Node\nmetadata: {name: late}\n")
        .expect("writes");
    dev.process.line(|line| line == "nothing was applied");
    dev.holdfast(&["node", "get", "late"]).expect(1);
    edit(&pools, "prefixLength: twenty", "prefixLength: 24");
    dev.process.line(|line| line.starts_with("rev ") && line.contains("Node late declared"));
}

#[test]
fn it_stops_when_asked_and_keeps_what_it_was_told_to_keep() {
    let directory = copied_examples();
    let data = tempfile::tempdir().expect("a temporary directory");
    let option = data.path().to_str().expect("text").to_owned();
    let mut dev = Dev::start_with(directory.path(), &["--data", &option]);
    dev.holdfast(&["grant", "vm", "--pool", "pods-v4"]).expect(0);
    let granted = dev.holdfast(&["grant", "list", "--owner", "vm"]).expect(0).out;
    dev.process.terminate();
    assert_eq!(dev.process.end(), 0, "{:#?}", dev.process.seen());
    drop(dev);
    let again = Dev::start_with(directory.path(), &["--data", &option]);
    assert_eq!(again.holdfast(&["grant", "list", "--owner", "vm"]).expect(0).out, granted);
}
