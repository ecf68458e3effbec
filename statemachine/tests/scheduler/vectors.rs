//! What Antrea's scheduler decides, and what `sticky` must spare.

use super::*;

const A: &str = "1.1.1.1";
const B: &str = "1.1.1.11";
const C: &str = "1.1.1.21";

fn abc(policy: Policy, default_capacity: u32) -> Scheduler {
    let mut scheduler = with_pool(policy, default_capacity);
    for (egress, seconds, text) in [("A", 1, A), ("B", 2, B), ("C", 3, C)] {
        scheduler.put_address(ip(text), address(egress, seconds));
    }
    scheduler
}

/// Nodes and their own capacities, the default capacity, and where A, B and C go.
type Line<'a> = (&'a [(&'a str, Option<u32>)], u32, [Option<&'a str>; 3]);

#[test]
fn the_table_holds_under_every_policy_that_asks_the_ring() {
    let (one, two, three) = (Some("node1"), Some("node2"), Some("node3"));
    let all: &[(&str, Option<u32>)] = &[("node1", None), ("node2", None), ("node3", None)];
    let table: [Line; 4] = [
        (all, 3, [one, three, one]),
        (&[("node1", Some(0)), ("node2", Some(2)), ("node3", Some(0))], 3, [two, two, None]),
        (all, 1, [one, three, two]),
        (&[("node1", None), ("node3", None)], 1, [one, three, None]),
    ];
    for policy in [Policy::ConsistentHash, Policy::Sticky] {
        for (nodes, default_capacity, expected) in &table {
            let mut scheduler = abc(policy, *default_capacity);
            for (node, capacity) in *nodes {
                scheduler.put_node(&name(node), live(*capacity));
            }
            act(&mut scheduler);
            let places = [A, B, C].map(|text| node_of(&scheduler, text));
            assert_eq!(places.each_ref().map(Option::as_deref), *expected, "{policy:?}, {nodes:?}");
        }
    }
}

/// The Egresses whose placement changed, and where each is now.
fn changed(scheduler: &mut Scheduler) -> Vec<(String, Option<String>)> {
    let decisions = act(scheduler).into_iter();
    decisions.map(|decision| (decision.egress.to_string(), decision.to.map(|to| to.to_string()))).collect()
}

fn expect(pairs: &[(&str, Option<&str>)]) -> Vec<(String, Option<String>)> {
    pairs.iter().map(|(egress, node)| ((*egress).to_owned(), node.map(str::to_owned))).collect()
}

#[test]
fn the_sequence_changes_exactly_what_antrea_changes() {
    let (node1, node2) = (name("node1"), name("node2"));
    let mut scheduler = abc(Policy::ConsistentHash, 2);
    scheduler.put_node(&node1, live(None));
    scheduler.put_node(&node2, live(None));
    let first = expect(&[("A", Some("node1")), ("B", Some("node2")), ("C", Some("node1"))]);
    assert_eq!(changed(&mut scheduler), first, "1");

    assert_eq!(scheduler.remove_address(ip(A)), Some(node1.clone()));
    scheduler.put_address(ip("1.1.1.5"), address("A", 1));
    assert_eq!(changed(&mut scheduler), expect(&[("A", Some("node2"))]), "2");

    scheduler.remove_node("node2");
    let third = expect(&[("A", Some("node1")), ("B", Some("node1")), ("C", None)]);
    assert_eq!(changed(&mut scheduler), third, "3");

    assert_eq!(scheduler.remove_address(ip("1.1.1.5")), Some(node1.clone()));
    assert_eq!(changed(&mut scheduler), expect(&[("C", Some("node1"))]), "4");

    scheduler.put_address(ip(A), address("D", 4));
    assert_eq!(changed(&mut scheduler), expect(&[]), "5");
    assert_eq!(scheduler.homeless(), [ip(A)]);

    scheduler.put_node(&node2, live(None));
    assert_eq!(changed(&mut scheduler), expect(&[("B", Some("node2")), ("D", Some("node1"))]), "6");
    assert_eq!(node_of(&scheduler, C).as_deref(), Some("node1"));

    scheduler.put_node(&node1, live(None));
    assert_eq!(changed(&mut scheduler), expect(&[]), "7");

    scheduler.put_node(&node1, live(Some(1)));
    assert_eq!(changed(&mut scheduler), expect(&[("D", Some("node2"))]), "8");

    scheduler.put_node(&node1, live(None));
    assert_eq!(changed(&mut scheduler), expect(&[("D", Some("node1"))]), "9");
}

#[test]
fn the_ring_alone() {
    for (nodes, expected) in [(1, "node-0"), (3, "node-1"), (10, "node-1"), (100, "node-79")] {
        let mut scheduler = with_pool(Policy::Sticky, 255);
        for i in 0..nodes {
            scheduler.put_node(&name(&format!("node-{i}")), live(None));
        }
        scheduler.put_address(ip(A), address("A", 1));
        act(&mut scheduler);
        assert_eq!(node_of(&scheduler, A).as_deref(), Some(expected));
    }
}

fn hundred_nodes(capacity: u32) -> Scheduler {
    let mut scheduler = with_pool(Policy::Sticky, capacity);
    for i in 0..100 {
        scheduler.put_node(&name(&format!("node-{i}")), live(None));
    }
    for i in 0..1_000_u32 {
        scheduler.put_address(IpAddr::from((0x0a00_0000 + i).to_be_bytes()), address(&format!("e{i}"), i64::from(i)));
    }
    assert_eq!(act(&mut scheduler).len(), 1_000);
    scheduler
}

#[test]
fn a_lost_node_moves_its_own_addresses_alone() {
    for capacity in [10, 12] {
        for lost in ["node-0", "node-17", "node-99"] {
            let mut scheduler = hundred_nodes(capacity);
            let carried = scheduler.addresses_on(lost);
            let mut gone = live(None);
            gone.ready = false;
            scheduler.put_node(&name(lost), gone);
            let decisions = act(&mut scheduler);
            assert_eq!(decisions.iter().map(|decision| decision.ip).collect::<Vec<_>>(), carried);
            assert!(decisions.iter().all(|decision| decision.from.as_deref() == Some(lost)));
            assert!(decisions.iter().all(|decision| decision.why == MoveReason::NodeNotReady));
            assert_eq!(decisions.iter().all(|decision| decision.to.is_none()), capacity == 10);
        }
    }
}

#[test]
fn what_joins_or_goes_moves_nothing_else() {
    let mut scheduler = hundred_nodes(12);
    scheduler.put_node(&name("node-100"), live(None));
    assert_eq!(act(&mut scheduler), []);
    scheduler.remove_address(ip("10.0.0.5"));
    assert_eq!(act(&mut scheduler), []);
}

#[test]
fn the_homeless_are_placed_in_order_when_room_appears() {
    let mut scheduler = with_pool(Policy::Sticky, 1);
    for (egress, seconds, text) in [("late", 3, "10.0.0.3"), ("early", 1, "10.0.0.1"), ("middle", 2, "10.0.0.2")] {
        scheduler.put_address(ip(text), address(egress, seconds));
    }
    assert_eq!(act(&mut scheduler), []);
    assert_eq!(scheduler.homeless(), ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(ip));
    scheduler.put_node(&name("n"), live(Some(2)));
    let placed: Vec<_> = act(&mut scheduler).into_iter().map(|decision| (decision.ip, decision.why)).collect();
    assert_eq!(placed, [(ip("10.0.0.1"), MoveReason::Homeless), (ip("10.0.0.2"), MoveReason::Homeless)]);
    let explanation = scheduler.explain(ip("10.0.0.3")).unwrap();
    assert_eq!((explanation.at_capacity, explanation.nodes.len()), (1, 1));
}

#[test]
fn capacity_is_clamped_and_a_cut_takes_the_last_unpinned_first() {
    let mut scheduler = with_pool(Policy::Sticky, 1_000);
    scheduler.put_node(&name("n"), live(Some(300)));
    assert_eq!(scheduler.capacity("n"), Some(255));
    scheduler.put_node(&name("n"), live(None));
    assert_eq!(scheduler.capacity("n"), Some(255));
    for i in 1..=4 {
        scheduler.put_address(ip(&format!("10.0.0.{i}")), address(&format!("e{i}"), i));
    }
    act(&mut scheduler);
    assert_eq!(scheduler.pin(ip("10.0.0.4"), "n"), Ok(None));
    scheduler.put_node(&name("n"), live(Some(2)));
    let left: Vec<_> = act(&mut scheduler).into_iter().map(|decision| (decision.ip, decision.why)).collect();
    assert_eq!(left, [(ip("10.0.0.2"), MoveReason::OverCapacity), (ip("10.0.0.3"), MoveReason::OverCapacity)]);
    scheduler.put_node(&name("n"), live(Some(0)));
    act(&mut scheduler);
    assert!(!scheduler.is_pinned(ip("10.0.0.4")), "a pin ends with its Node's room");
    assert_eq!((scheduler.load("n"), scheduler.homeless_count()), (0, 4));
}

#[test]
fn a_rebalance_does_not_bring_siblings_together() {
    let mut scheduler = with_pool(Policy::Sticky, 10);
    scheduler.put_node(&name("other"), live(None));
    scheduler.put_node(&name("own"), live(None));
    let at = |position: u32, node: &str| {
        let mut input = address("e", 1);
        input.order.1 = position;
        input.at = Some((name(node), false));
        input
    };
    scheduler.put_address(ip("10.0.0.1"), at(0, "own"));
    scheduler.put_address(ip("10.0.0.2"), at(1, "other"));
    for i in 3..=5 {
        let mut pinned = address(&format!("e{i}"), i);
        pinned.at = Some((name("own"), true));
        scheduler.put_address(ip(&format!("10.0.0.{i}")), pinned);
    }
    assert_eq!(act(&mut scheduler), []);
    assert_eq!(scheduler.rebalance(10), [], "its own Node is another than the sibling's");
    scheduler.put_node(&name("third"), live(None));
    let moves: Vec<_> = scheduler.rebalance(10).into_iter().map(|decision| (decision.ip, decision.to)).collect();
    assert_eq!(moves, [(ip("10.0.0.1"), Some(name("third")))]);
}
