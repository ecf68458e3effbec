//! Drain, pin and rebalance.

use holdfast_statemachine::change::MoveReason;
use holdfast_statemachine::command::{Drain, Pin, PutNode, PutSettings, Rebalance, Undrain, Unpin};
use holdfast_statemachine::outcome::Ineligible;
use holdfast_statemachine::row::Policy;
use holdfast_statemachine::{Action, Event, Key, Rejection, Row};

use crate::machine::Machine;
use crate::scene::{Scene, chosen_from, external, ip, on_both, pool, put_egress, put_node};

on_both!(
    a_drain_empties_and_keeps_empty,
    a_drain_without_room_is_refused,
    a_drain_ends_with_its_node,
    a_pin_moves_once,
    a_pin_is_refused,
    a_pinned_address_fails_over,
    a_rebalance_is_bounded,
    a_rebalance_leaves_pinned_ones,
    a_plan_on_old_placements_is_refused,
    consistent_hash_refuses,
);

fn scene<M: Machine>(nodes: &[&str], egresses: i64) -> Scene<M> {
    let mut scene = Scene::new();
    scene.pool(pool(external("x"), "", &["1.1.1.0/24"]));
    for name in nodes {
        scene.node(put_node(name));
    }
    for i in 1..=egresses {
        scene.egress(put_egress(&format!("e{i}"), i, vec![chosen_from("x")]));
    }
    scene
}

fn drain(node: &str, force: bool) -> Action {
    Action::Drain(Drain { node: node.into(), force })
}

fn pin(egress: &str, node: &str) -> Action {
    Action::Pin(Pin { egress: egress.into(), address: None, node: node.into() })
}

fn rebalance(max_moves: u32, at: Option<u64>) -> Action {
    Action::Rebalance(Rebalance { max_moves, at })
}

fn load<M: Machine>(scene: &Scene<M>, node: &str) -> usize {
    let rows = scene.machine.rows().into_values();
    rows.filter(|row| matches!(row, Row::Placement(row) if &*row.node == node)).count()
}

fn a_drain_empties_and_keeps_empty<M: Machine>() {
    let mut scene = scene::<M>(&["a"], 4);
    scene.node(put_node("b"));
    let outcome = scene.act(drain("a", false));
    assert_eq!(outcome.moves.len(), 4);
    assert!(outcome.moves.iter().all(|m| m.from.as_deref() == Some("a") && m.to.as_deref() == Some("b")));
    assert!(!scene.act(drain("a", false)).changed);
    // Over NotReady and back it stays drained.
    scene.node(PutNode { ready: false, ..put_node("a") });
    scene.node(put_node("a"));
    scene.node(PutNode { uid: "another".into(), ..put_node("a") });
    scene.egress(put_egress("e9", 9, vec![chosen_from("x")]));
    assert_eq!(load(&scene, "a"), 0);
    scene.act(Action::Undrain(Undrain { node: "a".into() }));
    assert_eq!(load(&scene, "a"), 0, "nothing comes back by itself");
    assert_eq!(scene.attempt(drain("nowhere", false)).expect_err("no such Node").code(), "Unknown");
}

fn a_drain_without_room_is_refused<M: Machine>() {
    let mut scene = scene::<M>(&["a"], 3);
    scene.node(PutNode { capacity: Some(1), ..put_node("b") });
    let refused = scene.attempt(drain("a", false)).expect_err("two are left");
    assert_eq!(refused, Rejection::NoRoom { node: "a".into(), left: 2, carried: 3 });
    assert!(scene.changes.is_empty());
    let outcome = scene.act(drain("a", true));
    assert_eq!(outcome.moves.iter().filter(|m| m.to.is_none()).count(), 2);
    let outcome = scene.act(Action::Undrain(Undrain { node: "a".into() }));
    assert_eq!(outcome.moves.len(), 2, "the homeless find it again");
}

fn a_drain_ends_with_its_node<M: Machine>() {
    let mut scene = scene::<M>(&["a"], 1);
    scene.act(drain("a", true));
    scene.delete_node("a");
    scene.node(put_node("a"));
    assert_eq!(load(&scene, "a"), 1);
}

fn pinned<M: Machine>(scene: &Scene<M>, address: &str) -> bool {
    matches!(scene.row(&Key::Placement(ip(address))), Some(Row::Placement(row)) if row.pinned)
}

fn a_pin_moves_once<M: Machine>() {
    let mut scene = scene::<M>(&["a"], 1);
    scene.node(put_node("b"));
    let outcome = scene.act(pin("e1", "b"));
    assert_eq!(outcome.moves.len(), 1);
    assert!(
        matches!(&scene.changes[..], [change] if matches!(change.event, Event::Placed { why: MoveReason::Pin, .. }))
    );
    let epoch = scene.row(&Key::Placement(ip("1.1.1.1")));
    assert!(!scene.act(pin("e1", "b")).changed);
    scene.act(Action::Unpin(Unpin { egress: "e1".into(), address: None }));
    assert!(!pinned(&scene, "1.1.1.1"));
    scene.act(pin("e1", "b"));
    assert_eq!(scene.row(&Key::Placement(ip("1.1.1.1"))), epoch, "a pin in place keeps the epoch");
}

fn a_pin_is_refused<M: Machine>() {
    let mut scene = scene::<M>(&["a"], 2);
    scene.node(PutNode { capacity: Some(1), ..put_node("b") });
    scene.node(PutNode { ready: false, ..put_node("c") });
    scene.act(pin("e1", "b"));
    scene.act(pin("e1", "b"));
    for (egress, node) in [("none", "a"), ("e1", "none")] {
        assert_eq!(scene.attempt(pin(egress, node)).expect_err("unknown").code(), "Unknown");
    }
    let full = scene.attempt(pin("e2", "b")).expect_err("full");
    let why = Ineligible::AtCapacity { carried: 1, capacity: 1 };
    assert_eq!(full, Rejection::Ineligible { node: "b".into(), address: ip("1.1.1.2"), why });
    let down = scene.attempt(pin("e2", "c")).expect_err("down");
    assert!(matches!(down, Rejection::Ineligible { why: Ineligible::NotReady, .. }));
}

fn a_pinned_address_fails_over<M: Machine>() {
    let mut scene = scene::<M>(&["a", "b"], 1);
    scene.act(pin("e1", "b"));
    scene.node(PutNode { ready: false, ..put_node("b") });
    assert_eq!((scene.node_of("1.1.1.1"), pinned(&scene, "1.1.1.1")), ("a".to_owned(), false));
    scene.node(put_node("b"));
    assert_eq!(scene.node_of("1.1.1.1"), "a", "it returns only by a new pin");
}

fn a_rebalance_is_bounded<M: Machine>() {
    let mut scene = scene::<M>(&["a"], 6);
    scene.node(put_node("b"));
    let first = scene.act(rebalance(1, None));
    assert_eq!(first.moves.iter().map(|m| m.address).collect::<Vec<_>>(), [ip("1.1.1.1")], "the first in order");
    let rest = scene.act(rebalance(100, None));
    assert_eq!(rest.moves.len(), 2);
    assert_eq!((load(&scene, "a"), load(&scene, "b")), (3, 3));
    assert!(!scene.act(rebalance(100, None)).changed);
    assert_eq!(scene.attempt(rebalance(0, None)).expect_err("no moves").code(), "Malformed");
}

fn a_rebalance_leaves_pinned_ones<M: Machine>() {
    let mut scene = scene::<M>(&["a"], 4);
    for egress in ["e1", "e2", "e3"] {
        scene.act(pin(egress, "a"));
    }
    scene.node(put_node("b"));
    let outcome = scene.act(rebalance(10, None));
    assert_eq!(outcome.moves.iter().map(|m| &*m.egress).collect::<Vec<_>>(), ["e4"]);
}

fn a_plan_on_old_placements_is_refused<M: Machine>() {
    let mut scene = scene::<M>(&["a"], 4);
    scene.node(put_node("b"));
    let plan = scene.node(put_node("b")).revision;
    scene.delete_egress("e4");
    let refused = scene.attempt(rebalance(1, Some(plan))).expect_err("a placement ended since");
    assert_eq!(refused.code(), "PlacementsChanged");
    let now = scene.node(put_node("b")).revision;
    assert!(scene.act(rebalance(1, Some(now))).changed);
}

fn consistent_hash_refuses<M: Machine>() {
    let mut scene = scene::<M>(&["a", "b"], 2);
    scene.act(pin("e1", "b"));
    let hash = PutSettings { policy: Some(Policy::ConsistentHash), ..PutSettings::default() };
    scene.act(Action::PutSettings(hash));
    assert!(!pinned(&scene, "1.1.1.1"));
    for action in [pin("e1", "a"), rebalance(1, None)] {
        assert_eq!(scene.attempt(action).expect_err("not under this policy").code(), "Policy");
    }
    scene.act(drain("a", false));
    assert_eq!(load(&scene, "a"), 0, "out of the ring");
    let refused = scene.attempt(drain("b", false)).expect_err("no Node would be left");
    assert_eq!(refused.code(), "NoRoom");
}
