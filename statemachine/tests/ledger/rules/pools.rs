//! Pools that overlap, shrink, go, and come back.

use holdfast_statemachine::command::{Observe, Observed};
use holdfast_statemachine::outcome::Note;
use holdfast_statemachine::row::{Holder, RetiredRow};
use holdfast_statemachine::{Action, Event, Key, PoolId, Row, Waiting};

use crate::machine::Machine;
use crate::scene::{Scene, asked_of, chosen_from, external, ip, ip_pool, on_both, pool, put_egress, set, spec};

on_both!(
    an_overlap_waits,
    a_range_still_held_waits,
    a_retired_pool_gives_nothing_and_counts_for_overlap,
    a_pool_put_again_takes_over_what_is_inside,
    another_uid_keeps_what_is_inside,
    a_reservation_follows_its_recreated_pool,
    a_running_pod_keeps_its_address_in_a_recreated_pool,
    egress_addresses_outside_new_ranges,
    a_retired_row_is_told_only_when_it_changes,
    an_asked_address_outside_a_new_pool_waits,
    observed_holders_win,
);

fn p(texts: &[&str]) -> holdfast_statemachine::command::PutPool {
    pool(ip_pool("p"), "10.0.0.1/24", texts)
}

fn retired<M: Machine>(scene: &Scene<M>, id: PoolId) -> Option<RetiredRow> {
    match scene.row(&Key::Retired(id))? {
        Row::Retired(row) => Some(row),
        _ => None,
    }
}

fn an_overlap_waits<M: Machine>() {
    let mut scene = Scene::<M>::new();
    scene.pool(p(&["10.0.0.10-10.0.0.19"]));
    let outcome = scene.pool(pool(external("x"), "", &["10.0.1.0/24", "10.0.0.18-10.0.0.25"]));
    let [Waiting::PoolOverlap { range, with }] = &outcome.waiting[..] else { panic!("{:?}", outcome.waiting) };
    assert_eq!((range.to_string(), with), ("10.0.0.18-10.0.0.19".to_owned(), &ip_pool("p")));
    let egress = scene.egress(put_egress("e", 1, vec![chosen_from("x")]));
    assert_eq!(egress.waiting[0].code(), "Exhausted", "known, without addresses");
    scene.pool(p(&["10.0.0.10-10.0.0.17"]));
    assert_eq!(scene.egress_addresses("e"), ["10.0.1.1"]);
}

fn a_range_still_held_waits<M: Machine>() {
    let mut scene = Scene::<M>::new();
    scene.pool(p(&["10.0.0.10-10.0.0.19"]));
    scene.hold("p", &["10.0.0.15", "10.0.0.17"]);
    let outcome = scene.pool(p(&["10.0.0.10-10.0.0.14"]));
    assert!(matches!(&outcome.waiting[..], [Waiting::RangeStillHeld { address, held: 2, .. }]
        if *address == ip("10.0.0.15")));
    let still = scene.attempt_grant("vm", &["p"], &["10.0.0.19"]).expect("the ranges last accepted are in force");
    assert!(still.changed);
    for name in ["10.0.0.15", "10.0.0.17", "vm"] {
        scene.release(name);
    }
    let outside = scene.attempt_grant("late", &["p"], &["10.0.0.19"]).expect_err("in force now");
    assert_eq!(outside.code(), "AddressOutside");
}

fn a_retired_pool_gives_nothing_and_counts_for_overlap<M: Machine>() {
    let mut scene = Scene::<M>::new();
    scene.pool(p(&["10.0.0.10-10.0.0.19"]));
    scene.hold("p", &["10.0.0.15"]);
    let outcome = scene.delete_pool(ip_pool("p"));
    assert_eq!(outcome.notes, [Note::Retired { held: 1 }]);
    assert_eq!(scene.attempt_grant("vm", &["p"], &[]).expect_err("gone").code(), "Unknown");
    scene.pool(pool(ip_pool("q"), "10.0.0.1/24", &["10.0.0.19-10.0.0.20"]));
    assert_eq!(scene.attempt_grant("vm", &["q"], &[]).expect_err("waits").code(), "PoolExhausted");
    scene.release("10.0.0.15");
    assert!(retired(&scene, ip_pool("p")).is_none());
    scene.attempt_grant("vm", &["q"], &[]).expect("in force");
}

fn a_pool_put_again_takes_over_what_is_inside<M: Machine>() {
    let mut scene = Scene::<M>::new();
    scene.pool(p(&["10.0.0.10-10.0.0.19"]));
    scene.hold("p", &["10.0.0.11", "10.0.0.18"]);
    scene.delete_pool(ip_pool("p"));
    let outcome = scene.pool(p(&["10.0.0.10-10.0.0.14"]));
    assert_eq!(outcome.notes, [Note::Retired { held: 1 }]);
    let left = retired(&scene, ip_pool("p")).expect("one address is left outside");
    assert_eq!(left.ranges.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.0.15-10.0.0.19"]);
    scene.release("10.0.0.11");
    assert!(retired(&scene, ip_pool("p")).is_some());
    scene.release("10.0.0.18");
    assert!(retired(&scene, ip_pool("p")).is_none());
}

fn another_uid_keeps_what_is_inside<M: Machine>() {
    let mut scene = Scene::<M>::new();
    scene.pool(p(&["10.0.0.10-10.0.0.19"]));
    scene.hold("p", &["10.0.0.11", "10.0.0.18"]);
    let before = scene.row(&Key::Grant(ip("10.0.0.11")));
    let mut new = p(&["10.0.0.10-10.0.0.14"]);
    new.uid = "another".into();
    scene.pool(new);
    assert_eq!(scene.row(&Key::Grant(ip("10.0.0.11"))), before, "untouched");
    assert!(scene.changes.iter().all(|change| !matches!(change.event, Event::Released { .. })));
    assert!(retired(&scene, ip_pool("p")).is_some());
    assert!(!scene.delete_pool(ip_pool("p")).changed, "of the former UID");
}

fn a_reservation_follows_its_recreated_pool<M: Machine>() {
    let mut scene = Scene::<M>::new();
    scene.pool(p(&["10.0.0.10-10.0.0.12"]));
    scene.reserve("s", spec(2, &["p"]));
    scene.delete_pool(ip_pool("p"));
    assert_eq!(scene.waiting("s"), [Waiting::UnknownPool { pools: vec![ip_pool("p")] }]);
    assert_eq!(scene.addresses("s").len(), 2, "kept");
    scene.pool(p(&["10.0.0.11-10.0.0.19"]));
    assert!(scene.waiting("s").is_empty());
    assert_eq!(scene.addresses("s"), ["0 10.0.0.12", "1 10.0.0.11"], "what is inside is kept");
}

fn a_running_pod_keeps_its_address_in_a_recreated_pool<M: Machine>() {
    let mut scene = Scene::<M>::new();
    scene.pool(p(&["10.0.0.10-10.0.0.12"]));
    scene.reserve("s", spec(1, &["p"]));
    scene.bind("s", 0, "u1", &["p"]);
    scene.delete_pool(ip_pool("p"));
    scene.pool(p(&["10.0.0.20-10.0.0.22"]));
    let running = Holder::Ordinal { id: set("s"), ordinal: 0, former: true };
    assert_eq!(scene.holder("10.0.0.10"), Some(running), "its Pod still runs with it");
    scene.unbind("s", 0, "u1");
    scene.bind("s", 0, "u2", &["p"]);
    assert_eq!(scene.holder("10.0.0.10"), None, "no Pod runs with it any more");
    assert_eq!(scene.addresses("s"), ["0 10.0.0.20"]);
}

fn egress_addresses_outside_new_ranges<M: Machine>() {
    let mut scene = Scene::<M>::new();
    scene.pool(pool(external("x"), "", &["10.1.0.0/30"]));
    scene.egress(put_egress("chosen", 1, vec![chosen_from("x")]));
    scene.egress(put_egress("asked", 2, vec![asked_of("x", "10.1.0.2")]));
    let outcome = scene.pool(pool(external("x"), "", &["10.1.0.8-10.1.0.9"]));
    assert!(
        matches!(&outcome.waiting[..], [Waiting::RangeStillHeld { address, held: 1, .. }]
        if *address == ip("10.1.0.2")),
        "what the ledger chose does not count"
    );
    scene.delete_egress("asked");
    assert_eq!(scene.egress_addresses("chosen"), ["10.1.0.8"]);
}

fn a_retired_row_is_told_only_when_it_changes<M: Machine>() {
    let mut scene = Scene::<M>::new();
    scene.pool(pool(external("x"), "", &["10.1.0.8-10.1.0.9"]));
    let owner = holdfast_statemachine::command::Owner::Named { name: "vm".into(), uid: "".into() };
    scene.act(Action::Grant(holdfast_statemachine::command::Grant {
        owner,
        kind: external("x").kind,
        pools: vec!["x".into()],
        addresses: Vec::new(),
    }));
    scene.delete_pool(external("x"));
    scene.pool(pool(external("x"), "", &["10.1.0.0/30"]));
    scene.egress(put_egress("e", 1, vec![chosen_from("x")]));
    // The Egress's address is outside the new ranges; it never was the retired row's.
    scene.pool(pool(external("x"), "", &["10.1.0.2-10.1.0.4"]));
    assert_eq!(scene.egress_addresses("e"), ["10.1.0.2"]);
    assert!(scene.changes.iter().all(|change| !matches!(change.event, Event::Retired { .. })));
}

fn an_asked_address_outside_a_new_pool_waits<M: Machine>() {
    let mut scene = Scene::<M>::new();
    scene.pool(pool(external("x"), "", &["10.1.0.0/30"]));
    scene.egress(put_egress("asked", 2, vec![asked_of("x", "10.1.0.2")]));
    let mut new = pool(external("x"), "", &["10.1.0.8-10.1.0.9"]);
    new.uid = "another".into();
    scene.pool(new);
    assert_eq!(scene.egress_addresses("asked"), ["AddressOutside"]);
    assert_eq!(scene.egress_row("asked").items[0].asked, Some(ip("10.1.0.2")), "never replaced");
}

fn observed_holders_win<M: Machine>() {
    let mut scene = Scene::<M>::new();
    scene.pool(p(&["10.0.0.10-10.0.0.19"]));
    scene.reserve("s", spec(2, &["p"]));
    scene.bind("s", 1, "p1", &["p"]);
    let entry = |address: &str| Observed { address: ip(address), owner: "them".into(), ordinal: None };
    let observe = |entries| Action::Observe(Observe { pool: "p".into(), entries });
    scene.act(observe(["10.0.0.10", "10.0.0.11", "10.0.0.15", "10.9.9.9"].map(entry).to_vec()));
    let them = Some(Holder::Observed { owner: "them".into() });
    assert_eq!((scene.holder("10.0.0.10"), scene.holder("10.0.0.15")), (them.clone(), them));
    assert_eq!(scene.addresses("s"), ["0 10.0.0.12", "1 10.0.0.11"], "planned anew; a bound Pod's is left");
    scene.act(observe(vec![entry("10.0.0.10")]));
    assert_eq!(scene.holder("10.0.0.15"), None);
    let unknown = scene.attempt(Action::Observe(Observe { pool: "q".into(), entries: Vec::new() }));
    assert_eq!(unknown.expect_err("no such pool").code(), "Unknown");
}
