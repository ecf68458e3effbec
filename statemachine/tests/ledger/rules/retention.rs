//! How long what is not wanted is kept: retention of ordinals, cool-down of addresses.

use holdfast_statemachine::command::{ReserveSpec, Retention};
use holdfast_statemachine::outcome::Note;
use holdfast_statemachine::row::Holder;
use holdfast_statemachine::{Action, Event, Key};

use crate::machine::Machine;
use crate::scene::{Scene, ip, ip_pool, on_both, pool, spec};

on_both!(
    scaled_ordinals_by_rule,
    a_retention_ends_when_wanted_again,
    a_changed_duration_counts_anew,
    after_the_set_is_deleted,
    freed_addresses_cool,
    a_cooling_address_is_open_to_its_former_holder,
    a_cooling_address_is_the_last_choice,
    deadlines_come_before_commands,
);

fn scene<M: Machine>(cool_down: u64) -> Scene<M> {
    let mut scene = Scene::new();
    let mut put = pool(ip_pool("p"), "10.0.0.1/24", &["10.0.0.10-10.0.0.13"]);
    put.cool_down = cool_down;
    scene.pool(put);
    scene
}

fn rule(replicas: u32, when_scaled: Retention, when_deleted: Retention) -> ReserveSpec {
    ReserveSpec { when_scaled, when_deleted, ..spec(replicas, &["p"]) }
}

/// Two ordinals, the second of which had a Pod.
fn scaled<M: Machine>(when_scaled: Retention) -> Scene<M> {
    let mut scene = scene::<M>(0);
    scene.reserve("s", rule(2, when_scaled, Retention::Release));
    scene.bind("s", 1, "p1", &["p"]);
    scene.reserve("s", rule(1, when_scaled, Retention::Release));
    scene.unbind("s", 1, "p1");
    scene
}

fn scaled_ordinals_by_rule<M: Machine>() {
    let mut kept = scaled::<M>(Retention::Retain);
    kept.after(1_000_000_000);
    assert_eq!(kept.addresses("s").len(), 2);
    assert_eq!(scaled::<M>(Retention::Release).addresses("s").len(), 1);
    assert_eq!(scaled::<M>(Retention::After(0)).addresses("s").len(), 1);
    let mut timed = scaled::<M>(Retention::After(1_000));
    timed.after(999);
    assert_eq!(timed.addresses("s").len(), 2);
    timed.after(1);
    assert_eq!(timed.addresses("s"), ["0 10.0.0.10"]);
}

fn a_retention_ends_when_wanted_again<M: Machine>() {
    let mut scene = scaled::<M>(Retention::After(1_000));
    scene.reserve("s", rule(2, Retention::After(1_000), Retention::Release));
    let ended = |event: &Event| matches!(event, Event::Retained { ordinal: 1, until: None, .. });
    assert!(scene.changes.iter().any(|change| ended(&change.event)));
    scene.after(5_000);
    assert_eq!(scene.addresses("s").len(), 2);
}

fn a_changed_duration_counts_anew<M: Machine>() {
    let mut scene = scaled::<M>(Retention::After(1_000));
    scene.after(900);
    scene.reserve("s", rule(1, Retention::After(500), Retention::Release));
    scene.after(499);
    assert_eq!(scene.addresses("s").len(), 2);
    scene.after(1);
    assert_eq!(scene.addresses("s").len(), 1);
}

fn after_the_set_is_deleted<M: Machine>() {
    let mut scene = scene::<M>(0);
    scene.reserve("s", rule(2, Retention::Retain, Retention::After(1_000)));
    scene.bind("s", 0, "p0", &["p"]);
    scene.bind("s", 1, "p1", &["p"]);
    scene.unbind("s", 1, "p1");
    scene.release_set("s");
    assert_eq!(scene.addresses("s").len(), 2, "one bound, one retained");
    scene.after(1_000);
    assert_eq!(scene.addresses("s"), ["0 10.0.0.10"]);
    scene.unbind("s", 0, "p0");
    assert_eq!(scene.addresses("s").len(), 1);
    // Recreated in time, it finds its address again.
    scene.reserve("s", rule(2, Retention::Retain, Retention::After(1_000)));
    assert_eq!(scene.addresses("s"), ["0 10.0.0.10", "1 10.0.0.11"]);
}

fn freed_addresses_cool<M: Machine>() {
    let mut scene = scene::<M>(1_000);
    scene.hold("p", &["10.0.0.10"]);
    scene.release("10.0.0.10");
    assert!(scene.row(&Key::Cooling(ip("10.0.0.10"))).is_some());
    let other = scene.attempt_grant("vm", &["p"], &[]).expect("free");
    assert_eq!(other.granted[0].first, ip("10.0.0.11"));
    scene.after(1_000);
    assert!(matches!(&scene.changes[..], [change] if change.event == Event::Cooled { address: ip("10.0.0.10") }));
    let later = scene.attempt_grant("later", &["p"], &[]).expect("free");
    assert_eq!(later.granted[0].first, ip("10.0.0.10"));
}

fn a_cooling_address_is_open_to_its_former_holder<M: Machine>() {
    let mut scene = scene::<M>(1_000);
    scene.attempt_grant("vm", &["p"], &[]).expect("free");
    scene.release("vm");
    let again = scene.attempt_grant("vm", &["p"], &[]).expect("free");
    assert_eq!(again.granted[0].first, ip("10.0.0.10"));
    assert!(again.notes.is_empty());
    // What a reservation freed itself counts as open when it grows.
    let mut scene = self::scene::<M>(1_000);
    scene.reserve("s", spec(3, &["p"]));
    scene.reserve("s", spec(1, &["p"]));
    scene.reserve("s", spec(3, &["p"]));
    assert_eq!(scene.addresses("s"), ["0 10.0.0.10", "1 10.0.0.11", "2 10.0.0.12"]);
}

fn a_cooling_address_is_the_last_choice<M: Machine>() {
    let mut scene = scene::<M>(1_000);
    scene.hold("p", &["10.0.0.10", "10.0.0.11", "10.0.0.12", "10.0.0.13"]);
    scene.release("10.0.0.12");
    let outcome = scene.attempt_grant("vm", &["p"], &[]).expect("the only one");
    assert_eq!(outcome.granted[0].first, ip("10.0.0.12"));
    assert!(
        matches!(&outcome.notes[..], [Note::WasCooling { former: Holder::Named { name, .. } }] if &**name == "10.0.0.12")
    );
    scene.release("10.0.0.13");
    let named = scene.attempt_grant("by-name", &["p"], &["10.0.0.13"]).expect("asked for by name");
    assert_eq!(named.notes.len(), 1);
}

fn deadlines_come_before_commands<M: Machine>() {
    let mut scene = scaled::<M>(Retention::After(1_000));
    scene.hold("p", &["10.0.0.12", "10.0.0.13"]);
    scene.time += 1_000;
    let outcome = scene.attempt_grant("vm", &["p"], &["10.0.0.11"]).expect("freed in the same entry");
    assert!(outcome.changed);
    // Time never runs backwards.
    scene.time -= 5_000;
    scene.act(Action::PutPool(pool(ip_pool("q"), "10.0.0.1/24", &["10.0.0.20-10.0.0.21"])));
    assert!(scene.changes.iter().all(|change| change.at == scene.time + 5_000));
}
