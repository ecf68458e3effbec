//! Each verb does what it says, for people and for programs.

use serde_json::Value;

use crate::fixtures::{Dev, examples};

#[test]
fn every_answer_for_programs_has_its_fields() {
    let dev = Dev::start(&examples());
    let cases: [(&[&str], &[&str]); 15] = [
        (&["pool", "list"], &["/revision", "/servedBy", "/items/0/largestFreeRun"]),
        (&["pool", "get", "pods-v4"], &["/item/ranges/0", "/item/used"]),
        (&["reservation", "list"], &["/items/0/waiting/reasons/0/tried/0/largestFreeRun", "/items/1/blocks/0/first"]),
        (&["reservation", "get", "shop/postgres"], &["/item/ordinals/2/addresses/1/address", "/item/ordinals/0/pod"]),
        (&["egress", "list", "--pool", "lab"], &["/items/0/addresses/0/unplaced"]),
        (&["egress", "get", "web"], &["/item/addresses/0/node", "/item/addresses/0/epoch"]),
        (&["node", "list"], &["/items/0/capacity", "/items/4/ready"]),
        (&["node", "get", "gateway-1"], &["/item/placements/0/address"]),
        (&["grant", "list", "--pool", "pods-v4"], &["/items/0/holder/ordinal", "/items/0/at"]),
        (&["grant", "get", "10.20.0.10"], &["/item/grant/holder/kind", "/item/pod"]),
        (&["explain", "egress", "lab-tests"], &["/items/0/counts/0/nodes", "/items/0/nodes/4/why"]),
        (&["history", "203.0.113.20"], &["/items/0/from/cause", "/items/1/holder/name"]),
        (&["settings", "get"], &["/item/policy", "/item/historyAgeMs"]),
        (&["status"], &["/replicas/2/digest", "/members/0/address", "/clusterId"]),
        (&["check"], &["/items/2/recomputedDigest"]),
    ];
    for (args, fields) in cases {
        let json = dev.holdfast(&[args, &["-o", "json"]].concat()).expect(0).json();
        for field in fields {
            assert!(!matches!(json.pointer(field), None | Some(Value::Null)), "{args:?}: no {field} in {json:#}");
        }
        let yaml = dev.holdfast(&[args, &["-o", "yaml"]].concat()).expect(0).out;
        serde_saphyr::from_str::<Value>(&yaml).unwrap_or_else(|error| panic!("{args:?}: {error}: {yaml}"));
    }
}

#[test]
fn explain_tells_numbers_and_nodes() {
    let dev = Dev::start(&examples());
    let redis = dev.holdfast(&["explain", "reservation", "cache/redis"]).expect(0).out;
    assert!(redis.contains("12 needed, 16 free, largest free run 8"), "{redis}");
    let lab = dev.holdfast(&["explain", "egress", "lab-tests"]).expect(0).out;
    assert!(
        lab.contains("has no Node: 1 NotReady, 4 SelectorMismatch") && lab.contains("worker-3    NotReady"),
        "{lab}"
    );
    let pool = dev.holdfast(&["explain", "pool", "pods-v4"]).expect(0).out;
    assert!(pool.contains("IPPool pods-v4 waits for nothing"), "{pool}");
}

#[test]
fn an_address_for_a_name_is_granted_once_found_in_history_and_released() {
    let dev = Dev::start(&examples());
    assert_eq!(
        dev.holdfast(&["grant", "vm", "--pool", "pods-v4"]).expect(0).out.trim(),
        "owner vm granted: 10.20.0.19"
    );
    assert_eq!(
        dev.holdfast(&["grant", "vm", "--pool", "pods-v4"]).expect(0).out.trim(),
        "owner vm unchanged: 10.20.0.19"
    );
    assert!(dev.holdfast(&["grant", "list", "--owner", "vm"]).expect(0).out.contains("10.20.0.19"));
    assert_eq!(dev.holdfast(&["release", "vm"]).expect(0).out.trim(), "owner vm released");
    assert!(dev.holdfast(&["grant", "release", "vm"]).expect(0).out.contains("it holds nothing"));
    let history = dev.holdfast(&["history", "--owner", "vm"]).expect(0).out;
    assert!(history.contains("Grant vm by api") && history.contains("ReleaseGrant vm by api"), "{history}");
}

#[test]
fn a_pinned_egress_stays_through_a_rebalance_and_settings_are_changed() {
    let dev = Dev::start(&examples());
    let node = dev.holdfast(&["egress", "get", "web", "-o", "json"]).expect(0).json();
    let node = node["item"]["addresses"][0]["node"].as_str().expect("a Node").to_owned();
    assert_eq!(dev.holdfast(&["pin", "web", &node]).expect(0).out.trim(), "Egress web pinned");
    dev.holdfast(&["rebalance", "--max-moves", "100"]).expect(0);
    let state = dev.holdfast(&["egress", "get", "web"]).expect(0).out;
    assert!(state.contains(&node) && state.contains("Pinned"), "{state}");
    dev.holdfast(&["rebalance", "--max-moves", "1", "--at", "1"]).expect(1);
    assert_eq!(dev.holdfast(&["unpin", "web"]).expect(0).out.trim(), "Egress web unpinned");
    dev.holdfast(&["settings", "set", "--default-capacity", "256"]).expect(1);
    dev.holdfast(&["settings", "set", "--default-capacity", "7", "--policy", "spread"]).expect(0);
    let settings = dev.holdfast(&["settings", "get"]).expect(0).out;
    assert!(settings.contains("spread") && settings.lines().any(|line| line == "default-capacity   7"), "{settings}");
}

#[test]
fn a_stale_read_says_so() {
    let dev = Dev::start(&examples());
    let ran = dev.holdfast(&["pool", "list", "--stale"]).expect(0);
    assert!(ran.err.contains("stale by"), "{ran:#?}");
    assert!(dev.holdfast(&["pool", "list", "--stale", "-o", "json"]).expect(0).json()["staleByMs"].is_u64());
}

#[test]
fn the_lead_is_handed_over_and_snapshots_are_taken() {
    let dev = Dev::start(&examples());
    let leader = dev.holdfast(&["leader", "show"]).expect(0).out;
    let other = if leader.trim() == "dev-3" { "dev-1" } else { "dev-3" };
    assert_eq!(dev.holdfast(&["leader", "transfer", "--to", other]).expect(0).out.trim(), other);
    assert_eq!(dev.holdfast(&["leader", "show"]).expect(0).out.trim(), other);
    let taken = dev.holdfast(&["snapshot", "-o", "json"]).expect(0).json();
    assert_eq!(taken["items"].as_array().map(Vec::len), Some(3), "{taken}");
    assert_eq!(dev.holdfast(&["member", "list"]).expect(0).out.lines().count(), 4);
}
