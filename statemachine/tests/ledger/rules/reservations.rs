//! What a reservation is given: families, preference, headroom, growth, fixed addresses, order of waiting.

use holdfast_statemachine::command::{Contiguity, ReserveSpec};
use holdfast_statemachine::outcome::Note;
use holdfast_statemachine::{Event, Family, Ledger, Waiting};

use crate::machine::Machine;
use crate::scene::{Scene, ip, ip_pool, on_both, pool, set, spec};

on_both!(
    both_families_or_none,
    every_wait_is_told,
    a_family_added_is_granted_to_all_together,
    pools_in_order_of_preference,
    scattered_before_the_next_pool,
    a_required_block_goes_to_the_next_pool,
    headroom_is_left_for_growth,
    headroom_goes_when_nothing_else_is_left,
    growth_past_its_block,
    shrinking,
    fixed_addresses_wait_whole,
    fixed_addresses_of_both_families,
    fixed_addresses_without_a_pool,
    waiters_in_order_of_their_first_wait,
    one_that_does_not_fit_is_passed_over,
    a_newer_request_keeps_its_place,
    nothing_is_recorded_for_nothing,
    a_pool_known_late_is_waited_for,
    what_it_frees_itself_wakes_it,
);

fn two_families<M: Machine>() -> Scene<M> {
    let mut scene = Scene::new();
    scene.pool(pool(ip_pool("four"), "10.0.0.1/24", &["10.0.0.10-10.0.0.19"]));
    scene.pool(pool(ip_pool("six"), "fd00::1/64", &["fd00::10-fd00::12"]));
    scene
}

fn both_families_or_none<M: Machine>() {
    let mut scene = two_families::<M>();
    scene.reserve("s", spec(4, &["four", "six"]));
    assert!(scene.addresses("s").is_empty(), "IPv6 has three");
    assert!(matches!(&scene.waiting("s")[..], [Waiting::Exhausted { family: Family::V6, .. }]));
    scene.reserve("s", spec(3, &["four", "six"]));
    assert_eq!(scene.addresses("s").len(), 6);
    assert!(scene.waiting("s").is_empty());
}

fn every_wait_is_told<M: Machine>() {
    let mut scene = two_families::<M>();
    let outcome = scene.reserve("s", spec(11, &["four", "six"]));
    let families: Vec<_> = outcome.waiting.iter().map(Waiting::code).collect();
    assert_eq!(families, ["Exhausted", "Exhausted"]);
    let outcome = scene.reserve("s", spec(11, &["four", "nowhere", "six"]));
    assert_eq!(outcome.waiting, [Waiting::UnknownPool { pools: vec![ip_pool("nowhere")] }]);
}

fn a_family_added_is_granted_to_all_together<M: Machine>() {
    let mut scene = two_families::<M>();
    scene.reserve("s", spec(4, &["four"]));
    scene.reserve("s", spec(4, &["four", "six"]));
    assert_eq!(scene.addresses("s").len(), 4, "IPv6 has three");
    scene.reserve("s", spec(3, &["four", "six"]));
    assert_eq!(scene.addresses("s")[..2], ["0 10.0.0.10", "0 fd00::10"]);
}

fn preference<M: Machine>() -> Scene<M> {
    let mut scene = Scene::new();
    scene.pool(pool(ip_pool("a"), "10.0.0.1/24", &["10.0.0.10-10.0.0.14"]));
    scene.pool(pool(ip_pool("b"), "10.0.0.1/24", &["10.0.0.20-10.0.0.29"]));
    scene
}

fn pools_in_order_of_preference<M: Machine>() {
    let mut scene = preference::<M>();
    scene.reserve("s", spec(6, &["a", "b"]));
    assert_eq!(scene.addresses("s")[0], "0 10.0.0.20", "the whole request in the first that fits");
    scene.reserve("t", spec(5, &["a", "b"]));
    assert_eq!(scene.addresses("t")[0], "0 10.0.0.10");
}

fn scattered_before_the_next_pool<M: Machine>() {
    let mut scene = preference::<M>();
    scene.hold("a", &["10.0.0.11", "10.0.0.13"]);
    scene.reserve("s", spec(3, &["a", "b"]));
    assert_eq!(scene.addresses("s"), ["0 10.0.0.10", "1 10.0.0.12", "2 10.0.0.14"]);
}

fn a_required_block_goes_to_the_next_pool<M: Machine>() {
    let mut scene = preference::<M>();
    scene.hold("a", &["10.0.0.11", "10.0.0.13"]);
    let required = |replicas| ReserveSpec { contiguity: Contiguity::Required, ..spec(replicas, &["a", "b"]) };
    scene.reserve("s", required(3));
    assert_eq!(scene.addresses("s")[0], "0 10.0.0.20");
    let outcome = scene.reserve("t", required(8));
    assert_eq!(outcome.waiting[0].code(), "Exhausted");
}

fn headroom_is_left_for_growth<M: Machine>() {
    let mut scene = preference::<M>();
    scene.reserve("s", ReserveSpec { headroom: 2, ..spec(2, &["b"]) });
    scene.reserve("t", spec(2, &["b"]));
    assert_eq!(scene.addresses("t"), ["0 10.0.0.24", "1 10.0.0.25"]);
    scene.reserve("s", ReserveSpec { headroom: 2, ..spec(4, &["b"]) });
    assert_eq!(scene.addresses("s")[2..], ["2 10.0.0.22", "3 10.0.0.23"]);
}

fn headroom_goes_when_nothing_else_is_left<M: Machine>() {
    let mut scene = preference::<M>();
    scene.reserve("s", ReserveSpec { headroom: 8, ..spec(2, &["b"]) });
    let outcome = scene.reserve("t", spec(2, &["b"]));
    assert_eq!(scene.addresses("t"), ["0 10.0.0.22", "1 10.0.0.23"]);
    assert_eq!(outcome.notes, vec![Note::WasHeadroom { of: set("s") }; 2]);
    // By name it is given at once, and the outcome says so. What is held ends the headroom.
    let outcome = scene.attempt_grant("vm", &["b"], &["10.0.0.29"]).expect("free");
    assert!(outcome.notes.is_empty());
}

fn growth_past_its_block<M: Machine>() {
    let mut scene = preference::<M>();
    scene.reserve("s", spec(2, &["a", "b"]));
    scene.hold("a", &["10.0.0.12"]);
    scene.reserve("s", spec(3, &["a", "b"]));
    assert_eq!(scene.addresses("s"), ["0 10.0.0.10", "1 10.0.0.11", "2 10.0.0.13"]);
    // Its own pool first, though another is named before it.
    let mut scene = preference::<M>();
    scene.reserve("s", spec(2, &["b"]));
    scene.hold("b", &["10.0.0.22"]);
    scene.reserve("s", spec(3, &["a", "b"]));
    assert_eq!(scene.addresses("s")[2], "2 10.0.0.23");
}

fn shrinking<M: Machine>() {
    let mut scene = preference::<M>();
    scene.reserve("s", spec(4, &["a"]));
    scene.bind("s", 3, "p3", &["a"]);
    scene.reserve("s", spec(1, &["a"]));
    assert_eq!(scene.addresses("s"), ["0 10.0.0.10", "3 10.0.0.13"], "never had a Pod: freed; bound: kept");
    scene.unbind("s", 3, "p3");
    assert_eq!(scene.addresses("s").len(), 2, "retained until the StatefulSet is deleted");
    scene.reserve("s", spec(4, &["a"]));
    assert_eq!(scene.addresses("s")[3], "3 10.0.0.13", "wanted again");
}

fn fixed(replicas: u32, pools: &[&str], addresses: &[&str]) -> ReserveSpec {
    ReserveSpec { fixed: addresses.iter().map(|text| ip(text)).collect(), ..spec(replicas, pools) }
}

fn fixed_addresses_wait_whole<M: Machine>() {
    let mut scene = preference::<M>();
    scene.hold("a", &["10.0.0.12"]);
    let outcome = scene.reserve("s", fixed(2, &["a"], &["10.0.0.14", "10.0.0.12"]));
    assert!(matches!(&outcome.waiting[..], [Waiting::AddressHeld { address, .. }] if *address == ip("10.0.0.12")));
    assert!(scene.addresses("s").is_empty());
    scene.release("10.0.0.12");
    assert_eq!(scene.addresses("s"), ["0 10.0.0.14", "1 10.0.0.12"]);
    let outcome = scene.reserve("t", fixed(1, &["a"], &["10.0.0.99"]));
    assert_eq!(outcome.waiting[0].code(), "AddressOutside");
    // Items beyond the replicas are not held.
    scene.reserve("u", fixed(1, &["a"], &["10.0.0.10", "10.0.0.11"]));
    assert_eq!(scene.addresses("u"), ["0 10.0.0.10"]);
}

fn fixed_addresses_of_both_families<M: Machine>() {
    let mut scene = two_families::<M>();
    let put = fixed(3, &["four", "six"], &["10.0.0.15", "fd00::12", "10.0.0.11"]);
    let outcome = scene.reserve("s", put);
    assert_eq!(scene.addresses("s"), ["0 10.0.0.15", "0 fd00::12"], "the shortest list counts for both");
    let missing = |family, first_ordinal, count| Waiting::FixedAddressMissing { family, first_ordinal, count };
    assert_eq!(outcome.waiting, [missing(Family::V4, 2, 1), missing(Family::V6, 1, 2)]);
}

fn fixed_addresses_without_a_pool<M: Machine>() {
    let mut scene = two_families::<M>();
    let outcome = scene.reserve("s", fixed(1, &["four"], &["fd00::12"]));
    assert_eq!(outcome.waiting, [Waiting::AddressOutside { address: ip("fd00::12"), pools: Vec::new() }]);
    assert!(scene.addresses("s").is_empty());
}

fn waiters_in_order_of_their_first_wait<M: Machine>() {
    let mut scene = preference::<M>();
    scene.hold("a", &["10.0.0.10", "10.0.0.11", "10.0.0.12", "10.0.0.13", "10.0.0.14"]);
    scene.reserve("z", spec(1, &["a"]));
    scene.reserve("y", spec(1, &["a"]));
    scene.release("10.0.0.12");
    assert_eq!((scene.addresses("z").len(), scene.addresses("y").len()), (1, 0));
    scene.release("10.0.0.11");
    assert_eq!(scene.addresses("y"), ["0 10.0.0.11"]);
}

fn one_that_does_not_fit_is_passed_over<M: Machine>() {
    let mut scene = preference::<M>();
    scene.hold("a", &["10.0.0.10", "10.0.0.11", "10.0.0.12", "10.0.0.13", "10.0.0.14"]);
    scene.reserve("big", spec(3, &["a"]));
    scene.reserve("small", spec(1, &["a"]));
    scene.release("10.0.0.12");
    assert_eq!((scene.addresses("big").len(), scene.addresses("small").len()), (0, 1));
}

fn a_newer_request_keeps_its_place<M: Machine>() {
    let mut scene = preference::<M>();
    scene.hold("a", &["10.0.0.10", "10.0.0.11", "10.0.0.12", "10.0.0.13", "10.0.0.14"]);
    scene.reserve("first", spec(2, &["a"]));
    scene.reserve("second", spec(1, &["a"]));
    scene.reserve("first", spec(1, &["a"]));
    scene.release("10.0.0.12");
    assert_eq!((scene.addresses("first").len(), scene.addresses("second").len()), (1, 0));
}

fn nothing_is_recorded_for_nothing<M: Machine>() {
    let mut scene = preference::<M>();
    assert!(!scene.reserve("s", spec(3, &[])).changed);
    assert!(scene.row(&holdfast_statemachine::Key::Reservation(set("s"))).is_none());
    scene.reserve("s", spec(2, &["a"]));
    let again = scene.reserve("s", spec(2, &["a"]));
    assert!(!again.changed && again.granted.is_empty() && scene.changes.is_empty());
    // The annotation taken away: what is held stays until its Pod is gone.
    scene.bind("s", 1, "p1", &["a"]);
    scene.reserve("s", spec(2, &[]));
    assert_eq!(scene.addresses("s"), ["1 10.0.0.11"]);
    scene.unbind("s", 1, "p1");
    assert!(scene.addresses("s").is_empty());
}

/// What it needs of a pool is known only once the pool is; it is waited for from then on.
fn a_pool_known_late_is_waited_for<M: Machine>() {
    let mut scene = Scene::<M>::new();
    scene.reserve("s", spec(2, &["four", "six"]));
    scene.pool(pool(ip_pool("four"), "10.0.0.1/24", &["10.0.0.10-10.0.0.12"]));
    scene.hold("four", &["10.0.0.11", "10.0.0.12"]);
    scene.pool(pool(ip_pool("six"), "fd00::1/64", &["fd00::10-fd00::12"]));
    assert!(scene.addresses("s").is_empty(), "one IPv4 address is free");
    scene.release("10.0.0.12");
    assert_eq!(scene.addresses("s"), ["0 10.0.0.10", "0 fd00::10", "1 10.0.0.12", "1 fd00::11"]);
}

/// The only waiter, and it is helped by what its own command freed after the search.
fn what_it_frees_itself_wakes_it<M: Machine>() {
    let mut scene = preference::<M>();
    scene.reserve("s", spec(1, &["a"]));
    let outcome = scene.reserve("s", ReserveSpec { start: 1, ..fixed(1, &["a"], &["10.0.0.10"]) });
    assert!(outcome.waiting.is_empty());
    assert_eq!(scene.addresses("s"), ["1 10.0.0.10"]);
}

/// Too large to list: the ledger alone.
#[test]
fn very_large_pools() {
    let mut scene = Scene::<Ledger>::new();
    scene.pool(pool(ip_pool("eight"), "10.0.0.1/8", &["10.0.0.0/8"]));
    scene.pool(pool(ip_pool("subnet"), "fd00::1/64", &["fd00::/64"]));
    scene.reserve("s", spec(2, &["eight", "subnet"]));
    assert_eq!(scene.addresses("s"), ["0 10.0.0.2", "0 fd00::2", "1 10.0.0.3", "1 fd00::3"]);
    let last = scene.attempt_grant("last", &["eight", "subnet"], &["10.255.255.254", "fd00::ffff:ffff:ffff:ffff"]);
    assert_eq!(last.expect("usable").granted.len(), 2);
    let broadcast = scene.attempt_grant("broadcast", &["eight"], &["10.255.255.255"]);
    assert_eq!(broadcast.expect_err("never given").code(), "AddressOutside");
    let outcome = scene.reserve("many", spec(50_000, &["eight"]));
    assert_eq!((outcome.granted.len(), outcome.granted[0].count), (1, 50_000));
    assert_eq!(scene.changes.iter().filter(|change| matches!(change.event, Event::Granted { .. })).count(), 50_000);
}
