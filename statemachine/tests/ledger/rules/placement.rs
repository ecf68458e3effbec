//! Egress addresses and where they are: what stays, what moves, and in which order the homeless find a Node.

use holdfast_statemachine::change::MoveReason;
use holdfast_statemachine::command::{PutNode, PutSettings};
use holdfast_statemachine::row::Policy;
use holdfast_statemachine::{Action, Event};

use crate::machine::Machine;
use crate::scene::{Scene, asked_of, chosen_from, external, ip, on_both, pool, put_egress, put_node};

on_both!(
    asked_and_chosen,
    items_are_matched_by_pool,
    malformed_egresses,
    creation_keys,
    a_failed_node_moves_its_own_alone,
    homeless_addresses_in_order,
    a_capacity_cut_takes_the_last,
    selectors_and_labels,
    siblings_on_different_nodes,
    spread_takes_the_emptiest,
    changing_the_policy,
    an_address_freed_loses_its_node,
    capacities_are_clamped,
);

fn scene<M: Machine>(nodes: &[&str]) -> Scene<M> {
    let mut scene = Scene::new();
    scene.pool(pool(external("x"), "", &["1.1.1.0/24"]));
    for name in nodes {
        scene.node(put_node(name));
    }
    scene
}

fn holding(name: &str, capacity: i64) -> PutNode {
    PutNode { capacity: Some(capacity), ..put_node(name) }
}

fn down(name: &str) -> PutNode {
    PutNode { ready: false, ..put_node(name) }
}

fn asked_and_chosen<M: Machine>() {
    let mut scene = scene::<M>(&[]);
    scene.egress(put_egress("e", 1, vec![chosen_from("x")]));
    let item = |scene: &Scene<M>| scene.egress_row("e").items[0].clone();
    assert_eq!((item(&scene).asked, item(&scene).chosen), (None, Some(ip("1.1.1.1"))));
    // Written back into the spec, it is still what the ledger chose.
    assert!(!scene.egress(put_egress("e", 1, vec![asked_of("x", "1.1.1.1")])).changed);
    assert_eq!(item(&scene).chosen, Some(ip("1.1.1.1")));
    scene.egress(put_egress("e", 1, vec![asked_of("x", "1.1.1.7")]));
    assert_eq!((item(&scene).asked, item(&scene).chosen), (Some(ip("1.1.1.7")), None));
    assert_eq!(scene.held(&external("x")), ["1.1.1.7"]);
    scene.egress(put_egress("e", 1, vec![chosen_from("x")]));
    assert_eq!(item(&scene).chosen, Some(ip("1.1.1.1")));
}

fn items_are_matched_by_pool<M: Machine>() {
    let mut scene = scene::<M>(&[]);
    scene.pool(pool(external("y"), "", &["2.2.2.0/24"]));
    scene.egress(put_egress("e", 1, vec![chosen_from("x"), chosen_from("y")]));
    assert_eq!(scene.egress_addresses("e"), ["1.1.1.1", "2.2.2.1"]);
    scene.egress(put_egress("e", 1, vec![chosen_from("y"), asked_of("x", "1.1.1.9")]));
    assert_eq!(scene.egress_addresses("e"), ["2.2.2.1", "1.1.1.9"]);
    scene.egress(put_egress("e", 1, vec![asked_of("x", "1.1.1.9"), chosen_from("z")]));
    assert_eq!(scene.egress_addresses("e"), ["1.1.1.9", "UnknownPool"]);
    assert!(scene.held(&external("y")).is_empty());
}

fn malformed_egresses<M: Machine>() {
    let mut scene = scene::<M>(&[]);
    let fixed = |address: &str| holdfast_statemachine::command::EgressItem { pool: None, address: Some(ip(address)) };
    let mut nothing = fixed("1.1.1.1");
    nothing.address = None;
    let table = [
        vec![],
        vec![chosen_from("x"), fixed("1.1.1.1")],
        vec![chosen_from("x"), chosen_from("x")],
        vec![asked_of("x", "1.1.1.1"), asked_of("y", "1.1.1.1")],
        vec![nothing],
        (0..17).map(|i| chosen_from(&i.to_string())).collect(),
    ];
    for items in table {
        let refused = scene.attempt(Action::PutEgress(put_egress("e", 1, items))).expect_err("malformed");
        assert_eq!(refused.code(), "Malformed");
    }
    let mut long = put_egress("e", 1, vec![chosen_from("x")]);
    long.rest = "x".repeat(16 * 1024 + 1).into();
    assert_eq!(scene.attempt(Action::PutEgress(long)).expect_err("too long").code(), "Malformed");
}

fn creation_keys<M: Machine>() {
    let mut scene = scene::<M>(&[]);
    let mut put = put_egress("e", 1, vec![chosen_from("x")]);
    put.created = None;
    let revision = scene.egress(put.clone()).revision;
    let key = scene.egress_row("e").created;
    assert_eq!((key.seconds, key.revision), (1_000, revision - 1), "the second of the entry, the revision of its Put");
    put.created = Some(5);
    assert!(!scene.egress(put.clone()).changed, "a timestamp seen later changes nothing");
    put.uid = "another".into();
    scene.egress(put);
    let key = scene.egress_row("e").created;
    assert_eq!((key.seconds, key.revision), (5, 0));
}

fn where_all_are<M: Machine>(scene: &Scene<M>) -> Vec<(String, String)> {
    scene.held(&external("x")).into_iter().map(|address| (address.clone(), scene.node_of(&address))).collect()
}

fn a_failed_node_moves_its_own_alone<M: Machine>() {
    let mut scene = scene::<M>(&["a", "b", "c"]);
    for i in 0..9 {
        scene.egress(put_egress(&format!("e{i}"), i, vec![chosen_from("x")]));
    }
    let before = where_all_are(&scene);
    scene.node(down("b"));
    for ((address, was), (_, is)) in before.iter().zip(where_all_are(&scene)) {
        assert_eq!(was == "b", *was != is, "{address} was on {was} and is on {is}");
    }
    for change in scene.changes.iter().skip(1) {
        assert!(matches!(&change.event, Event::Placed { from: Some(from), why: MoveReason::NodeNotReady, .. }
            if &**from == "b"));
    }
    // A Node that returns gets nothing back by itself.
    scene.node(put_node("b"));
    assert!(scene.moved().is_empty());
}

fn homeless_addresses_in_order<M: Machine>() {
    let mut scene = scene::<M>(&[]);
    scene.node(holding("a", 1));
    for (name, created) in [("late", 9), ("early", 1), ("middle", 5)] {
        scene.egress(put_egress(name, created, vec![chosen_from("x")]));
    }
    assert_eq!(scene.node_of("1.1.1.1"), "a", "the first to come; a placement stays");
    scene.delete_egress("late");
    assert_eq!(scene.node_of("1.1.1.2"), "a", "the oldest of those without a Node");
    assert_eq!(scene.node_of("1.1.1.3"), "none");
    scene.node(holding("a", 2));
    assert_eq!(scene.node_of("1.1.1.3"), "a");
}

fn a_capacity_cut_takes_the_last<M: Machine>() {
    let mut scene = scene::<M>(&["a"]);
    for i in 0..3 {
        scene.egress(put_egress(&format!("e{i}"), i, vec![chosen_from("x")]));
    }
    let pin = holdfast_statemachine::command::Pin { egress: "e2".into(), address: None, node: "a".into() };
    scene.act(Action::Pin(pin));
    scene.node(holding("a", 1));
    let carried: Vec<_> = where_all_are(&scene).into_iter().filter(|(_, node)| node == "a").collect();
    assert_eq!(carried.len(), 1);
    assert_eq!(carried[0].0, "1.1.1.3", "unpinned ones go first");
}

fn selectors_and_labels<M: Machine>() {
    let mut scene = scene::<M>(&["plain"]);
    let mut zoned = pool(external("zoned"), "", &["3.3.3.0/24"]);
    zoned.node_selector.match_labels.insert("zone".into(), "z".into());
    scene.pool(zoned);
    scene.egress(put_egress("e", 1, vec![chosen_from("zoned")]));
    assert_eq!(scene.node_of("3.3.3.1"), "none");
    let labelled = |os: &str| {
        let mut node = put_node("in-zone");
        node.labels.insert("zone".into(), "z".into());
        node.labels.insert("kubernetes.io/os".into(), os.into());
        node
    };
    scene.node(labelled("windows"));
    assert_eq!(scene.node_of("3.3.3.1"), "none");
    scene.node(labelled("linux"));
    assert_eq!(scene.node_of("3.3.3.1"), "in-zone");
    scene.node(put_node("in-zone"));
    assert_eq!(scene.node_of("3.3.3.1"), "none");
    // The selector is in force at once.
    scene.pool(pool(external("zoned"), "", &["3.3.3.0/24"]));
    assert_ne!(scene.node_of("3.3.3.1"), "none");
}

fn siblings_on_different_nodes<M: Machine>() {
    let mut scene = scene::<M>(&["a", "b"]);
    for (name, range) in [("y", "2.2.2.0/24"), ("z", "3.3.3.0/24")] {
        scene.pool(pool(external(name), "", &[range]));
    }
    scene.egress(put_egress("e", 1, vec![chosen_from("x"), chosen_from("y"), chosen_from("z")]));
    let nodes = ["1.1.1.1", "2.2.2.1", "3.3.3.1"].map(|address| scene.node_of(address));
    assert_ne!(nodes[0], nodes[1], "another eligible Node is there");
    assert_ne!(nodes[2], "none", "siblings' Nodes are better than none");
}

fn spread_takes_the_emptiest<M: Machine>() {
    let mut scene = scene::<M>(&["a", "b", "c"]);
    scene.act(Action::PutSettings(PutSettings { policy: Some(Policy::Spread), ..PutSettings::default() }));
    for i in 0..9 {
        scene.egress(put_egress(&format!("e{i}"), i, vec![chosen_from("x")]));
    }
    for node in ["a", "b", "c"] {
        let carried = where_all_are(&scene).iter().filter(|(_, on)| on == node).count();
        assert_eq!(carried, 3, "Node {node}");
    }
}

fn changing_the_policy<M: Machine>() {
    let mut scene = scene::<M>(&["node1", "node2"]);
    let policy = |policy| Action::PutSettings(PutSettings { policy: Some(policy), ..PutSettings::default() });
    scene.egress(put_egress("A", 1, vec![asked_of("x", "1.1.1.1")]));
    assert_eq!(scene.node_of("1.1.1.1"), "node1");
    scene.node(down("node1"));
    scene.node(put_node("node1"));
    assert_eq!(scene.node_of("1.1.1.1"), "node2", "sticky");
    scene.act(policy(Policy::ConsistentHash));
    assert_eq!(scene.node_of("1.1.1.1"), "node1", "from nothing");
    for moving in [Policy::Sticky, Policy::Spread] {
        scene.act(policy(moving));
        assert!(scene.moved().is_empty());
    }
    let out_of_bounds = PutSettings { default_capacity: Some(256), ..PutSettings::default() };
    assert_eq!(scene.attempt(Action::PutSettings(out_of_bounds)).expect_err("255 at most").code(), "Malformed");
}

fn an_address_freed_loses_its_node<M: Machine>() {
    let mut scene = scene::<M>(&["a"]);
    scene.egress(put_egress("e", 1, vec![chosen_from("x")]));
    scene.delete_egress("e");
    let events: Vec<_> = scene.changes.iter().map(|change| &change.event).collect();
    assert!(matches!(
        &events[..],
        [Event::Deleted(_), Event::Unplaced { why: MoveReason::AddressGone, .. }, Event::Released { .. }]
    ));
}

fn capacities_are_clamped<M: Machine>() {
    let mut scene = scene::<M>(&[]);
    for (asked, used) in [(-1, 0), (256, 255)] {
        let outcome = scene.node(holding("a", asked));
        assert_eq!(outcome.notes, [holdfast_statemachine::outcome::Note::CapacityClamped { asked, used }]);
    }
    assert!(scene.node(holding("a", 255)).notes.is_empty());
}
