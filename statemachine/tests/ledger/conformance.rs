//! What Antrea does, line by line, and where Holdfast differs: pools, reservations, Egress scheduling.

use holdfast_statemachine::command::{Contiguity, PutSettings, ReserveSpec};
use holdfast_statemachine::row::{Holder, Policy};
use holdfast_statemachine::{Action, Ledger, PoolId, PoolKind, Rejection, Waiting};

use crate::machine::Machine;
use crate::scene::{
    Scene, asked_of, chosen_from, external, ip_pool, on_both, pod_of, pool, put_egress, put_node, set, spec,
};

on_both!(
    usable_addresses,
    malformed_pools,
    immutable_subnet,
    a_block_for_each_size,
    first_fit,
    an_address_returns_to_its_ordinal,
    a_reservation_is_tried_again,
    scaling_up_takes_what_is_next,
    several_pools_and_families,
    fixed_addresses_for_several_replicas,
    the_first_ordinal_counts,
    running_pods_keep_their_addresses,
    a_recreated_set_has_its_own_size,
    a_sweep_knows_pods_by_uid,
    one_pool_holds_thousands,
    three_addresses_on_three_nodes,
    nine_steps,
    ring_alone,
    egress_from_a_pool_of_two_ranges,
    egress_asking_for_an_address,
    egress_without_its_pool,
    egress_waits_for_a_freed_address,
);

fn one_pool<M: Machine>(texts: &[&str]) -> Scene<M> {
    let mut scene = Scene::new();
    scene.pool(pool(ip_pool("p"), "1.1.1.1/24", texts));
    scene
}

/// Takes addresses from a pool, one owner each, until it is exhausted.
fn give_all<M: Machine>(scene: &mut Scene<M>, id: &PoolId) -> Vec<String> {
    let mut given = Vec::new();
    for i in 0..100 {
        let owner = holdfast_statemachine::command::Owner::Named { name: format!("o{i}").into(), uid: "".into() };
        let grant = holdfast_statemachine::command::Grant {
            owner,
            kind: id.kind,
            pools: vec![id.name.clone()],
            addresses: Vec::new(),
        };
        match scene.attempt(Action::Grant(grant)) {
            Ok(outcome) => given.push(outcome.granted[0].first.to_string()),
            Err(Rejection::PoolExhausted { .. }) => return given,
            Err(other) => panic!("{other}"),
        }
    }
    given
}

fn usable_addresses<M: Machine>() {
    type Line<'a> = (PoolKind, &'a str, &'a [&'a str], usize, &'a [&'a str]);
    let table: &[Line<'_>] = &[
        (PoolKind::IpPool, "10.2.2.1/24", &["10.2.2.100-10.2.2.120"], 21, &["10.2.2.100"]),
        (
            PoolKind::IpPool,
            "10.2.2.1/24",
            &["10.2.2.100-10.2.2.101", "10.2.2.0/28"],
            16,
            &["10.2.2.100", "10.2.2.101", "10.2.2.2", "10.2.2.3"],
        ),
        (
            PoolKind::IpPool,
            "2001::1/64",
            &["2001::1000-2001::1000", "2001::/124"],
            15,
            &["2001::1000", "2001::2", "2001::3", "2001::4"],
        ),
        (PoolKind::ExternalIpPool, "", &["1.1.1.0/30"], 2, &["1.1.1.1", "1.1.1.2"]),
        (PoolKind::ExternalIpPool, "", &["2021:2::aaa0/124"], 15, &["2021:2::aaa1"]),
        (PoolKind::IpPool, "10.2.2.1/28", &["10.2.2.0/28"], 13, &["10.2.2.2"]),
        (PoolKind::IpPool, "10.2.2.3/24", &["10.2.2.2-10.2.2.5"], 3, &["10.2.2.2", "10.2.2.4"]),
        (PoolKind::ExternalIpPool, "1.1.1.2/24", &["1.1.1.0/29"], 5, &["1.1.1.1", "1.1.1.3"]),
        (PoolKind::ExternalIpPool, "", &["1.1.1.0/31"], 2, &["1.1.1.0", "1.1.1.1"]),
        (PoolKind::ExternalIpPool, "", &["1.1.1.7/32", "1.1.1.9/32"], 2, &["1.1.1.7", "1.1.1.9"]),
        (PoolKind::ExternalIpPool, "", &["fd00::8/127"], 2, &["fd00::8", "fd00::9"]),
        (PoolKind::ExternalIpPool, "", &["fd00::8/128"], 1, &["fd00::8"]),
        (PoolKind::IpPool, "10.2.2.1/24", &["10.2.2.13/29"], 7, &["10.2.2.9"]),
    ];
    for (kind, subnet, texts, total, first) in table {
        let mut scene = Scene::<M>::new();
        let id = PoolId { kind: *kind, name: "p".into() };
        let outcome = scene.pool(pool(id.clone(), subnet, texts));
        assert!(outcome.waiting.is_empty(), "{texts:?}");
        let given = give_all(&mut scene, &id);
        assert_eq!(given.len(), *total, "{texts:?}");
        assert_eq!(given[..first.len()], **first, "{texts:?}");
    }
}

fn malformed_pools<M: Machine>() {
    let table: &[(PoolKind, &str, &[&str], &str)] = &[
        (PoolKind::IpPool, "", &["10.2.2.4-10.2.2.5"], "spec.subnetInfo"),
        (PoolKind::IpPool, "10.2.2/24", &["10.2.2.4-10.2.2.5"], "spec.subnetInfo.gateway"),
        (PoolKind::IpPool, "10.2.2.1/0", &["10.2.2.4-10.2.2.5"], "spec.subnetInfo.prefixLength"),
        (PoolKind::IpPool, "10.2.2.1/32", &["10.2.2.4-10.2.2.5"], "spec.subnetInfo.prefixLength"),
        (PoolKind::IpPool, "fd00::1/128", &["fd00::4-fd00::5"], "spec.subnetInfo.prefixLength"),
        (PoolKind::ExternalIpPool, "", &[], "spec.ipRanges"),
        (PoolKind::ExternalIpPool, "", &["1.1.1.4-1.1.1.5", "1.1.1.0/33"], "spec.ipRanges[1].cidr"),
        (PoolKind::ExternalIpPool, "", &["1.1.1-1.1.1.5"], "spec.ipRanges[0].start"),
        (PoolKind::ExternalIpPool, "", &["1.1.1.4-x"], "spec.ipRanges[0].end"),
        (PoolKind::ExternalIpPool, "", &["1.1.1.4-fd00::1"], "spec.ipRanges[0].end"),
        (PoolKind::ExternalIpPool, "", &["1.1.1.5-1.1.1.4"], "spec.ipRanges[0].end"),
        (PoolKind::IpPool, "10.2.2.1/24", &["10.2.2.4-10.2.3.5"], "spec.ipRanges[0]"),
        (PoolKind::ExternalIpPool, "", &["1.1.1.4-1.1.1.5", "fd00::/64"], "spec.ipRanges[1]"),
        (PoolKind::ExternalIpPool, "", &["1.1.1.4-1.1.1.5", "1.1.1.5-1.1.1.6"], "spec.ipRanges[1]"),
    ];
    for (kind, subnet, texts, expected) in table {
        let mut scene = Scene::<M>::new();
        let id = PoolId { kind: *kind, name: "p".into() };
        match scene.attempt(Action::PutPool(pool(id, subnet, texts))) {
            Err(Rejection::Malformed { field, .. }) => assert!(field.starts_with(expected), "{texts:?}: {field}"),
            other => panic!("{texts:?}: {other:?}"),
        }
        assert!(scene.changes.is_empty());
    }
    let mut tagged = pool(ip_pool("p"), "10.2.2.1/24", &["10.2.2.4-10.2.2.5"]);
    tagged.subnet.as_mut().expect("it has one").vlan = Some(4095);
    let refused = Scene::<M>::new().attempt(Action::PutPool(tagged)).expect_err("4094 is the last");
    assert_eq!(refused.code(), "Malformed");
}

fn immutable_subnet<M: Machine>() {
    let mut scene = one_pool::<M>(&["1.1.1.10-1.1.1.20"]);
    for subnet in ["1.1.1.2/24", "1.1.1.1/25"] {
        let put = pool(ip_pool("p"), subnet, &["1.1.1.10-1.1.1.20"]);
        assert_eq!(scene.attempt(Action::PutPool(put)).expect_err("immutable").code(), "Immutable");
    }
    let mut tagged = pool(ip_pool("p"), "1.1.1.1/24", &["1.1.1.10-1.1.1.20"]);
    tagged.subnet.as_mut().expect("it has one").vlan = Some(7);
    assert!(scene.pool(tagged).changed);
}

fn a_block_for_each_size<M: Machine>() {
    for (replicas, held) in [(5, 5), (11, 11), (7, 7), (20, 0)] {
        let mut scene = Scene::<M>::new();
        scene.pool(pool(ip_pool("p"), "10.2.2.1/24", &["10.2.2.100-10.2.2.110"]));
        let outcome = scene.reserve("s", spec(replicas, &["p"]));
        assert_eq!(scene.held(&ip_pool("p")).len(), held);
        assert_eq!(outcome.waiting.is_empty(), held > 0);
        if held == 0 {
            assert_eq!(outcome.waiting[0].code(), "Exhausted");
            continue;
        }
        assert_eq!(outcome.granted.len(), 1, "one run");
        assert_eq!((outcome.granted[0].count, outcome.granted[0].ordinal), (replicas, Some(0)));
        assert_eq!(scene.addresses("s")[0], "0 10.2.2.100");
        scene.release_set("s");
        assert!(scene.held(&ip_pool("p")).is_empty());
    }
}

fn required(replicas: u32, pools: &[&str]) -> ReserveSpec {
    ReserveSpec { contiguity: Contiguity::Required, ..spec(replicas, pools) }
}

fn first_fit<M: Machine>() {
    let mut scene = one_pool::<M>(&["1.1.1.0/24"]);
    scene.hold("p", &["1.1.1.13", "1.1.1.30"]);
    scene.reserve("s", required(15, &["p"]));
    let held = scene.addresses("s");
    assert_eq!((&*held[0], &*held[14]), ("0 1.1.1.14", "14 1.1.1.28"));

    let mut scene = one_pool::<M>(&["1.1.1.10-1.1.1.20"]);
    scene.hold("p", &["1.1.1.12", "1.1.1.16"]);
    let outcome = scene.reserve("s", required(5, &["p"]));
    assert_eq!(outcome.waiting[0].code(), "NoBlock");
    assert!(scene.addresses("s").is_empty());

    let mut scene = Scene::<M>::new();
    scene.pool(pool(ip_pool("p"), "1.1.1.1/1", &["1.1.1.10-1.1.1.20", "2.2.2.10-2.2.2.30"]));
    scene.hold("p", &["1.1.1.15", "2.2.2.15", "2.2.2.16"]);
    scene.reserve("s", required(10, &["p"]));
    let held = scene.addresses("s");
    assert_eq!((&*held[0], &*held[9]), ("0 2.2.2.17", "9 2.2.2.26"));

    let mut scene = Scene::<M>::new();
    scene.pool(pool(ip_pool("p"), "fd00::1/64", &["fd00::2-fd00::5", "fd00::10-fd00::12", "fd00::20-fd00::29"]));
    scene.reserve("s", required(10, &["p"]));
    let held = scene.addresses("s");
    assert_eq!((&*held[0], &*held[9]), ("0 fd00::20", "9 fd00::29"));
}

fn an_address_returns_to_its_ordinal<M: Machine>() {
    let mut scene = one_pool::<M>(&["1.1.1.10-1.1.1.20"]);
    scene.reserve("s", spec(3, &["p"]));
    let first = scene.bind("s", 1, "a", &["p"]);
    assert_eq!(first.granted[0].first.to_string(), "1.1.1.11");
    scene.unbind("s", 1, "a");
    assert_eq!(scene.addresses("s"), ["0 1.1.1.10", "1 1.1.1.11", "2 1.1.1.12"]);
    let again = scene.bind("s", 1, "b", &["p"]);
    assert_eq!(again.granted[0].first.to_string(), "1.1.1.11");
    // Scaled down, an ordinal that had a Pod keeps its address until the StatefulSet is deleted.
    scene.unbind("s", 1, "b");
    scene.reserve("s", spec(1, &["p"]));
    assert_eq!(scene.addresses("s"), ["0 1.1.1.10", "1 1.1.1.11"]);
    scene.release_set("s");
    assert!(scene.addresses("s").is_empty());
}

fn a_reservation_is_tried_again<M: Machine>() {
    let mut scene = one_pool::<M>(&["1.1.1.10-1.1.1.12"]);
    scene.hold("p", &["1.1.1.11"]);
    assert_eq!(scene.reserve("s", spec(3, &["p"])).waiting[0].code(), "Exhausted");
    scene.release("1.1.1.11");
    assert_eq!(scene.addresses("s"), ["0 1.1.1.10", "1 1.1.1.11", "2 1.1.1.12"]);
    assert!(scene.waiting("s").is_empty());
}

fn scaling_up_takes_what_is_next<M: Machine>() {
    let mut scene = one_pool::<M>(&["1.1.1.10-1.1.1.20"]);
    scene.reserve("s", spec(2, &["p"]));
    scene.reserve("t", spec(0, &["p"]));
    scene.reserve("s", spec(3, &["p"]));
    assert_eq!(scene.addresses("s"), ["0 1.1.1.10", "1 1.1.1.11", "2 1.1.1.12"]);
}

fn several_pools_and_families<M: Machine>() {
    let mut scene = Scene::<M>::new();
    scene.pool(pool(ip_pool("four"), "1.1.1.1/24", &["1.1.1.10-1.1.1.12"]));
    scene.pool(pool(ip_pool("spare"), "1.1.1.1/24", &["1.1.1.20-1.1.1.29"]));
    scene.pool(pool(ip_pool("six"), "fd00::1/64", &["fd00::10-fd00::1f"]));
    scene.reserve("s", spec(2, &["four", "six"]));
    assert_eq!(scene.addresses("s"), ["0 1.1.1.10", "0 fd00::10", "1 1.1.1.11", "1 fd00::11"]);
    scene.reserve("t", spec(2, &["four", "spare"]));
    assert_eq!(scene.addresses("t"), ["0 1.1.1.20", "1 1.1.1.21"]);
}

fn fixed_addresses_for_several_replicas<M: Machine>() {
    let mut scene = one_pool::<M>(&["1.1.1.10-1.1.1.20"]);
    let fixed = ["1.1.1.15", "1.1.1.12"].map(crate::scene::ip).to_vec();
    let outcome = scene.reserve("s", ReserveSpec { fixed, ..spec(3, &["p"]) });
    assert_eq!(scene.addresses("s"), ["0 1.1.1.15", "1 1.1.1.12"]);
    let family = holdfast_statemachine::Family::V4;
    assert_eq!(outcome.waiting, [Waiting::FixedAddressMissing { family, first_ordinal: 2, count: 1 }]);
}

fn the_first_ordinal_counts<M: Machine>() {
    let mut scene = one_pool::<M>(&["1.1.1.10-1.1.1.20"]);
    scene.reserve("s", ReserveSpec { start: 5, ..spec(2, &["p"]) });
    assert_eq!(scene.addresses("s"), ["5 1.1.1.10", "6 1.1.1.11"]);
}

fn running_pods_keep_their_addresses<M: Machine>() {
    let mut scene = one_pool::<M>(&["1.1.1.10-1.1.1.20"]);
    scene.reserve("s", spec(2, &["p"]));
    scene.bind("s", 0, "a", &["p"]);
    scene.release_set("s");
    assert_eq!(scene.addresses("s"), ["0 1.1.1.10"], "as with --cascade=orphan");
    scene.unbind("s", 0, "a");
    assert!(scene.addresses("s").is_empty());
    assert!(scene.row(&holdfast_statemachine::Key::Reservation(set("s"))).is_none());
}

fn a_recreated_set_has_its_own_size<M: Machine>() {
    let mut scene = one_pool::<M>(&["1.1.1.10-1.1.1.20"]);
    scene.reserve("s", spec(4, &["p"]));
    let new = holdfast_statemachine::command::Reserve { id: set("s"), uid: "new".into(), spec: spec(2, &["p"]) };
    scene.act(Action::Reserve(new));
    assert_eq!(scene.addresses("s"), ["0 1.1.1.10", "1 1.1.1.11"]);
    // The delete of the former one comes late, and finds nothing of its own.
    let late = scene.release_set("s");
    assert!(!late.changed && late.notes.len() == 1);
    assert_eq!(scene.addresses("s").len(), 2);
}

fn a_sweep_knows_pods_by_uid<M: Machine>() {
    use holdfast_statemachine::command::{Gone, ObjectId, Sweep};
    let mut scene = one_pool::<M>(&["1.1.1.10-1.1.1.20"]);
    scene.reserve("s", spec(1, &["p"]));
    scene.bind("s", 0, "new", &["p"]);
    let object = ObjectId::Pod("n".into(), pod_of("s", 0, "").name);
    let gone = |uid: &str| Gone { object: object.clone(), uid: uid.into(), unchanged_since: u64::MAX };
    let outcome = scene.act(Action::Sweep(Sweep { gone: vec![gone("old")] }));
    assert!(!outcome.changed && outcome.notes.len() == 1);
    assert!(scene.act(Action::Sweep(Sweep { gone: vec![gone("new")] })).changed);
}

fn one_pool_holds_thousands<M: Machine>() {
    let mut scene = Scene::<M>::new();
    scene.pool(pool(ip_pool("p"), "10.0.0.1/8", &["10.0.0.2-10.0.31.1"]));
    scene.reserve("s", spec(1500, &["p"]));
    assert_eq!(scene.held(&ip_pool("p")).len(), 1500);
}

fn hashing<M: Machine>(default_capacity: u32) -> Scene<M> {
    let mut scene = Scene::new();
    scene.act(Action::PutSettings(PutSettings {
        policy: Some(Policy::ConsistentHash),
        default_capacity: Some(default_capacity),
        ..PutSettings::default()
    }));
    scene.pool(pool(external("p"), "", &["1.1.1.0/24"]));
    scene
}

const ABC: [(&str, i64, &str); 3] = [("A", 1, "1.1.1.1"), ("B", 2, "1.1.1.11"), ("C", 3, "1.1.1.21")];

fn three_addresses_on_three_nodes<M: Machine>() {
    type Line<'a> = (&'a [(&'a str, Option<i64>)], u32, [&'a str; 3]);
    let table: &[Line<'_>] = &[
        (&[("node1", None), ("node2", None), ("node3", None)], 3, ["node1", "node3", "node1"]),
        (&[("node1", Some(0)), ("node2", Some(2)), ("node3", Some(0))], 3, ["node2", "node2", "none"]),
        (&[("node1", None), ("node2", None), ("node3", None)], 1, ["node1", "node3", "node2"]),
        (&[("node1", None), ("node3", None)], 1, ["node1", "node3", "none"]),
    ];
    for (nodes, default, expected) in table {
        for policy in [Policy::ConsistentHash, Policy::Sticky] {
            let mut scene = hashing::<M>(*default);
            scene.act(Action::PutSettings(PutSettings { policy: Some(policy), ..PutSettings::default() }));
            for (name, capacity) in *nodes {
                let mut node = put_node(name);
                node.capacity = *capacity;
                scene.node(node);
            }
            for (name, created, address) in ABC {
                scene.egress(put_egress(name, created, vec![asked_of("p", address)]));
            }
            assert_eq!(ABC.map(|(.., address)| scene.node_of(address)), *expected, "{nodes:?} {policy:?}");
        }
    }
}

fn nine_steps<M: Machine>() {
    let mut scene = hashing::<M>(2);
    let mut actions: Vec<Action> = ["node1", "node2"].map(|name| Action::PutNode(put_node(name))).to_vec();
    for (name, created, address) in ABC {
        actions.push(Action::PutEgress(put_egress(name, created, vec![asked_of("p", address)])));
    }
    scene.entry(actions);
    let check = |scene: &Scene<M>, moved: &[&str], expected: &[(&str, &str)]| {
        assert_eq!(scene.moved(), moved);
        for (address, node) in expected {
            assert_eq!(scene.node_of(address), *node, "{address}");
        }
    };
    check(&scene, &["A", "B", "C"], &[("1.1.1.1", "node1"), ("1.1.1.11", "node2"), ("1.1.1.21", "node1")]);
    scene.egress(put_egress("A", 1, vec![asked_of("p", "1.1.1.5")]));
    check(&scene, &["A"], &[("1.1.1.5", "node2")]);
    scene.delete_node("node2");
    check(&scene, &["A", "B", "C"], &[("1.1.1.5", "node1"), ("1.1.1.11", "node1"), ("1.1.1.21", "none")]);
    scene.delete_egress("A");
    check(&scene, &["A", "C"], &[("1.1.1.21", "node1")]);
    scene.egress(put_egress("D", 4, vec![asked_of("p", "1.1.1.1")]));
    check(&scene, &[], &[("1.1.1.1", "none")]);
    scene.node(put_node("node2"));
    check(&scene, &["B", "D"], &[("1.1.1.11", "node2"), ("1.1.1.21", "node1"), ("1.1.1.1", "node1")]);
    // `invalid-value` is no integer: the bridge puts the Node as without the annotation.
    scene.node(put_node("node1"));
    check(&scene, &[], &[]);
    let mut one = put_node("node1");
    one.capacity = Some(1);
    scene.node(one);
    check(&scene, &["D"], &[("1.1.1.1", "node2")]);
    scene.node(put_node("node1"));
    check(&scene, &["D"], &[("1.1.1.1", "node1")]);
}

fn ring_alone<M: Machine>() {
    for (nodes, expected) in [(1, "node-0"), (3, "node-1"), (10, "node-1"), (100, "node-79")] {
        let mut scene = hashing::<M>(255);
        let actions = (0..nodes).map(|i| Action::PutNode(put_node(&format!("node-{i}")))).collect();
        scene.entry(actions);
        scene.egress(put_egress("A", 1, vec![asked_of("p", "1.1.1.1")]));
        assert_eq!(scene.node_of("1.1.1.1"), expected);
    }
}

#[test]
fn hashes() {
    let table = [
        ("1.1.1.1", 218_290_772),
        ("1.1.1.11", 4_023_875_712),
        ("1.1.1.21", 3_304_729_411),
        ("0node1", 4_134_892_627),
        ("49node1", 2_717_440_519),
        ("0node2", 1_870_407_145),
        ("0node3", 410_719_615),
    ];
    for (text, hash) in table {
        assert_eq!(crc32fast::hash(text.as_bytes()), hash, "{text}");
    }
}

fn egress_from_a_pool_of_two_ranges<M: Machine>() {
    let mut scene = Scene::<M>::new();
    scene.pool(pool(external("p"), "", &["1.1.1.0/30", "1.1.2.10-1.1.2.20"]));
    scene.egress(put_egress("one", 1, vec![asked_of("p", "1.1.1.1")]));
    scene.egress(put_egress("two", 2, vec![asked_of("p", "1.1.1.2")]));
    let outcome = scene.egress(put_egress("three", 3, vec![chosen_from("p")]));
    assert_eq!(outcome.granted[0].first.to_string(), "1.1.2.10");
}

fn egress_asking_for_an_address<M: Machine>() {
    let mut scene = Scene::<M>::new();
    scene.pool(pool(external("p"), "", &["1.1.1.0/30"]));
    scene.egress(put_egress("one", 1, vec![asked_of("p", "1.1.1.1")]));
    scene.egress(put_egress("outside", 2, vec![asked_of("p", "1.1.9.1")]));
    scene.egress(put_egress("held", 3, vec![asked_of("p", "1.1.1.1")]));
    assert_eq!(scene.egress_addresses("outside"), ["AddressOutside"]);
    assert_eq!(scene.egress_addresses("held"), ["AddressHeld"]);
    assert_eq!(scene.holder("1.1.1.1"), Some(Holder::Egress { name: "one".into() }));
}

fn egress_without_its_pool<M: Machine>() {
    let mut scene = Scene::<M>::new();
    scene.pool(pool(external("p"), "", &["1.1.1.0/30"]));
    scene.egress(put_egress("one", 1, vec![chosen_from("p")]));
    assert_eq!(scene.egress_addresses("one"), ["1.1.1.1"]);
    let mut untracked = asked_of("p", "1.1.1.1");
    untracked.pool = None;
    scene.egress(put_egress("one", 1, vec![untracked]));
    assert_eq!(scene.egress_addresses("one"), ["static"]);
    assert!(scene.held(&external("p")).is_empty());

    scene.egress(put_egress("two", 2, vec![chosen_from("p")]));
    scene.delete_pool(external("p"));
    assert_eq!(scene.egress_addresses("two"), ["UnknownPool"]);
    scene.pool(pool(external("p"), "", &["2.2.2.0/30"]));
    assert_eq!(scene.egress_addresses("two"), ["2.2.2.1"]);
}

fn egress_waits_for_a_freed_address<M: Machine>() {
    let mut scene = Scene::<M>::new();
    scene.pool(pool(external("p"), "", &["1.1.1.0/31"]));
    for (name, created) in [("one", 1), ("two", 2), ("three", 3)] {
        scene.egress(put_egress(name, created, vec![chosen_from("p")]));
    }
    assert_eq!(scene.egress_addresses("three"), ["Exhausted"]);
    scene.delete_egress("one");
    assert_eq!(scene.egress_addresses("three"), ["1.1.1.0"]);
}

/// 100 Nodes exactly full with 1,000 Egresses: whatever happens moves nothing that it does not make impossible.
#[test]
fn stickiness() {
    let mut scene = Scene::<Ledger>::new();
    scene.act(Action::PutSettings(PutSettings { default_capacity: Some(10), ..PutSettings::default() }));
    scene.pool(pool(external("p"), "", &["10.9.0.0/16"]));
    scene.entry((0..100).map(|i| Action::PutNode(put_node(&format!("node-{i}")))).collect());
    for i in 0..1000 {
        scene.egress(put_egress(&format!("e{i}"), i, vec![chosen_from("p")]));
    }
    let carried = |scene: &Scene<Ledger>, node: &str| {
        let rows = scene.machine.tables().placements().iter();
        rows.filter(|(_, row)| &*row.node == node).map(|(_, row)| row.egress.to_string()).collect::<Vec<_>>()
    };
    let mut on_it = carried(&scene, "node-7");
    on_it.sort_unstable();
    assert_eq!(on_it.len(), 10, "exactly full");
    let mut failed = put_node("node-7");
    failed.ready = false;
    scene.node(failed);
    assert_eq!(scene.moved(), on_it, "only what was on the Node that failed");
    scene.node(put_node("node-7"));
    assert_eq!(scene.moved(), on_it, "the homeless come back, nothing else moves");
    scene.delete_egress("e500");
    assert_eq!(scene.moved(), ["e500"]);
    scene.node(put_node("node-100"));
    assert!(scene.moved().is_empty(), "a Node that joins takes nothing");
}
