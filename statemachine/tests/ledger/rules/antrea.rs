//! Mode `antrea`: others allocate from the same pools.

use holdfast_statemachine::adopt::{Adopt, Mode};
use holdfast_statemachine::command::{
    Drain, Observe, Observed, Pin, PutSettings, Rebalance, Reserve, ReserveSpec, Retention, Unpin,
};
use holdfast_statemachine::row::{Holder, Policy};
use holdfast_statemachine::{Action, Key, Row};

use crate::machine::Machine;
use crate::scene::{Scene, chosen_from, external, ip, ip_pool, on_both, pool, put_egress, put_node, set, spec};

on_both!(
    the_mode_is_not_for_a_ledger_with_pools,
    what_the_mode_does_not_allow_is_refused,
    a_pool_gives_what_antrea_gives,
    retention_ends_with_the_stateful_set,
    one_fixed_address_a_family,
    an_entry_of_our_own_ordinal_is_no_conflict,
    a_block_reserved_by_another_becomes_the_reservations_own,
    a_running_pods_address_is_superseded_not_lost,
    an_entry_beside_one_that_is_seen_is_anothers,
    an_entry_for_nothing_wanted_is_anothers,
);

fn beside<M: Machine>() -> Scene<M> {
    let mut scene = Scene::new();
    scene.act(Action::Adopt(Adopt::Begin { mode: Mode::Antrea }));
    scene.pool(pool(ip_pool("p"), "10.0.0.1/24", &["10.0.0.10-10.0.0.29"]));
    scene.act(Action::Adopt(Adopt::End));
    scene
}

/// An entry that is reserved for an ordinal of `s`.
fn reserved(ordinal: u32, address: &str) -> Observed {
    Observed { address: ip(address), owner: format!("s {ordinal}").into(), ordinal: Some((set("s"), ordinal)) }
}

fn see<M: Machine>(scene: &mut Scene<M>, entries: &[Observed]) -> bool {
    scene.act(Action::Observe(Observe { pool: "p".into(), entries: entries.to_vec() })).changed
}

fn the_mode_is_not_for_a_ledger_with_pools<M: Machine>() {
    let mut scene = Scene::<M>::new();
    scene.pool(pool(ip_pool("p"), "10.0.0.1/24", &["10.0.0.10-10.0.0.29"]));
    let refused = scene.attempt(Action::Adopt(Adopt::Begin { mode: Mode::Antrea }));
    assert_eq!(refused.expect_err("its ranges would be others").code(), "Mode");
    assert_eq!(scene.row(&Key::Adoption), None);
}

fn what_the_mode_does_not_allow_is_refused<M: Machine>() {
    let mut scene = beside::<M>();
    scene.pool(pool(external("x"), "", &["10.1.0.1-10.1.0.4"]));
    scene.node(put_node("node1"));
    scene.egress(put_egress("e", 1, vec![chosen_from("x")]));
    assert_eq!(scene.node_of("10.1.0.1"), "node1");
    let settings = |policy| {
        Action::PutSettings(PutSettings { policy: Some(policy), default_capacity: Some(7), ..PutSettings::default() })
    };
    for action in [
        Action::Drain(Drain { node: "node1".into(), force: true }),
        Action::Pin(Pin { egress: "e".into(), address: None, node: "node1".into() }),
        Action::Unpin(Unpin { egress: "e".into(), address: None }),
        Action::Rebalance(Rebalance { max_moves: 1, at: None }),
        settings(Policy::Sticky),
    ] {
        assert_eq!(scene.attempt(action.clone()).expect_err("not allowed").code(), "Mode", "{action:?}");
    }
    assert_eq!(scene.attempt_grant("vm", &["p"], &[]).expect_err("no Pod").code(), "Mode");
    assert!(scene.act(settings(Policy::ConsistentHash)).changed, "the capacity may change");
    let Some(Row::Settings(row)) = scene.row(&Key::Settings) else { panic!("settings") };
    assert_eq!((row.policy, row.default_capacity), (Policy::ConsistentHash, 7));
}

fn a_pool_gives_what_antrea_gives<M: Machine>() {
    let mut scene = beside::<M>();
    scene.pool(pool(ip_pool("small"), "10.2.0.1/24", &["10.2.0.8/32", "10.2.0.16/31"]));
    scene.reserve("s", spec(1, &["small"]));
    assert_eq!(scene.addresses("s"), ["0 10.2.0.17"]);
    scene.reserve("t", spec(1, &["small"]));
    assert_eq!(scene.waiting("t")[0].code(), "Exhausted");
}

fn retention_ends_with_the_stateful_set<M: Machine>() {
    let mut scene = beside::<M>();
    let kept = ReserveSpec { when_deleted: Retention::After(60_000), ..spec(2, &["p"]) };
    scene.reserve("s", kept);
    scene.bind("s", 0, "a", &["p"]);
    scene.bind("s", 1, "b", &["p"]);
    scene.unbind("s", 1, "b");
    scene.release_set("s");
    assert_eq!(scene.addresses("s"), ["0 10.0.0.10"], "what a Pod runs with stays");
    scene.unbind("s", 0, "a");
    assert_eq!(scene.row(&Key::Reservation(set("s"))), None);
}

fn one_fixed_address_a_family<M: Machine>() {
    let mut scene = beside::<M>();
    let reserve = |fixed: &[&str]| {
        let fixed = fixed.iter().map(|address| ip(address)).collect();
        let spec = ReserveSpec { fixed, ..spec(1, &["p"]) };
        Action::Reserve(Reserve { id: set("s"), uid: "u".into(), spec })
    };
    assert_eq!(scene.attempt(reserve(&["10.0.0.15", "10.0.0.16"])).expect_err("two").code(), "Malformed");
    scene.act(reserve(&["10.0.0.15"]));
    assert_eq!(scene.addresses("s"), ["0 10.0.0.15"]);
}

fn an_entry_of_our_own_ordinal_is_no_conflict<M: Machine>() {
    let mut scene = beside::<M>();
    scene.reserve("s", spec(3, &["p"]));
    let own = [reserved(0, "10.0.0.10"), reserved(1, "10.0.0.11"), reserved(2, "10.0.0.12")];
    assert!(!see(&mut scene, &own), "it agrees");
    assert!(!see(&mut scene, &own[..1]), "what is missing of the ledger's own is not freed");
    let swapped = [reserved(1, "10.0.0.10"), reserved(0, "10.0.0.11")];
    assert!(see(&mut scene, &swapped));
    assert_eq!(scene.addresses("s"), ["0 10.0.0.11", "1 10.0.0.10", "2 10.0.0.12"]);
    assert!(!see(&mut scene, &swapped));
}

fn a_block_reserved_by_another_becomes_the_reservations_own<M: Machine>() {
    let mut scene = beside::<M>();
    scene.reserve("s", spec(3, &["p"]));
    let theirs = [reserved(0, "10.0.0.11"), reserved(1, "10.0.0.12"), reserved(2, "10.0.0.13")];
    assert!(see(&mut scene, &theirs));
    assert_eq!(scene.addresses("s"), ["0 10.0.0.11", "1 10.0.0.12", "2 10.0.0.13"]);
    assert_eq!(scene.held(&ip_pool("p")).len(), 3, "no second block beside it");
    assert!(!see(&mut scene, &theirs));
    // They were there first, observed before the StatefulSet was known.
    let mut scene = beside::<M>();
    assert!(see(&mut scene, &theirs));
    assert!(matches!(scene.holder("10.0.0.11"), Some(Holder::Observed { .. })));
    scene.reserve("s", spec(3, &["p"]));
    assert!(see(&mut scene, &theirs));
    assert_eq!(scene.addresses("s"), ["0 10.0.0.11", "1 10.0.0.12", "2 10.0.0.13"]);
    assert_eq!(scene.held(&ip_pool("p")).len(), 3);
}

fn a_running_pods_address_is_superseded_not_lost<M: Machine>() {
    let mut scene = beside::<M>();
    scene.reserve("s", spec(2, &["p"]));
    scene.bind("s", 0, "a", &["p"]);
    see(&mut scene, &[reserved(0, "10.0.0.20"), reserved(1, "10.0.0.10")]);
    assert_eq!(scene.addresses("s"), ["0 10.0.0.20", "0 10.0.0.10!", "1 10.0.0.11"], "a bound Pod's is never taken");
    scene.unbind("s", 0, "a");
    assert_eq!(scene.addresses("s"), ["0 10.0.0.20", "1 10.0.0.11"]);
}

fn an_entry_beside_one_that_is_seen_is_anothers<M: Machine>() {
    let mut scene = beside::<M>();
    scene.reserve("s", spec(1, &["p"]));
    let both = [reserved(0, "10.0.0.10"), reserved(0, "10.0.0.20")];
    assert!(see(&mut scene, &both));
    assert_eq!(scene.addresses("s"), ["0 10.0.0.10"]);
    assert!(matches!(scene.holder("10.0.0.20"), Some(Holder::Observed { .. })));
    assert!(!see(&mut scene, &both));
    assert!(see(&mut scene, &both[1..]), "now the other one is all that is seen");
    assert_eq!(scene.addresses("s"), ["0 10.0.0.20"]);
}

fn an_entry_for_nothing_wanted_is_anothers<M: Machine>() {
    let mut scene = beside::<M>();
    scene.pool(pool(ip_pool("q"), "10.3.0.1/24", &["10.3.0.10-10.3.0.19"]));
    scene.reserve("s", ReserveSpec { start: 5, ..spec(1, &["p"]) });
    see(&mut scene, &[reserved(0, "10.0.0.20")]);
    assert!(matches!(scene.holder("10.0.0.20"), Some(Holder::Observed { .. })), "not an ordinal of it");
    scene.reserve("s", spec(1, &["q"]));
    see(&mut scene, &[reserved(0, "10.0.0.20")]);
    assert!(matches!(scene.holder("10.0.0.20"), Some(Holder::Observed { .. })), "not a pool of it");
    let fixed = ReserveSpec { fixed: vec![ip("10.0.0.15")], ..spec(1, &["p"]) };
    scene.reserve("s", fixed);
    see(&mut scene, &[reserved(0, "10.0.0.20")]);
    assert!(matches!(scene.holder("10.0.0.20"), Some(Holder::Observed { .. })), "not its fixed address");
    assert!(scene.addresses("s").contains(&"0 10.0.0.15".to_owned()));
}
