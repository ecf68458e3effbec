//! A StatefulSet deleted and made again under its name: what the new one does not want goes as the former one said.

use holdfast_statemachine::adopt::{Adopt, AdoptItem, AdoptedBy, Mode};
use holdfast_statemachine::command::{Gone, ObjectId, ReserveSpec, Retention, Sweep};
use holdfast_statemachine::row::OrdinalRow;
use holdfast_statemachine::{Action, Event, Key, Row};

use crate::machine::Machine;
use crate::scene::{Scene, ip, ip_pool, on_both, pod_of, pool, set, spec};

on_both!(
    what_is_not_wanted_is_freed,
    what_is_not_wanted_is_kept_for_its_time,
    one_that_never_had_a_pod_is_freed_at_once,
    what_was_scaled_away_before_is_left_too,
    wanted_again_it_is_the_new_ones,
    a_pod_of_one_that_is_left_changes_nothing,
    a_deletion_that_was_seen_counts_as_well,
    a_running_retention_under_another_rule_counts_anew,
    the_first_mark_stays,
    the_end_of_the_new_one_changes_nothing,
    one_that_names_no_pools_leaves_no_less,
    beside_antrea_it_is_freed,
    without_a_uid_nothing_is_left,
    what_was_adopted_with_a_uid_is_left,
    a_pod_goes_on_with_what_it_has,
);

const AFTER: Retention = Retention::After(1_000);

fn rule(replicas: u32, when_scaled: Retention, when_deleted: Retention) -> ReserveSpec {
    ReserveSpec { when_scaled, when_deleted, ..spec(replicas, &["p"]) }
}

fn begun<M: Machine>(mut scene: Scene<M>) -> Scene<M> {
    scene.pool(pool(ip_pool("p"), "10.0.0.1/24", &["10.0.0.10-10.0.0.13"]));
    scene
}

/// Three ordinals of the StatefulSet `s` of UID `u`, the last two with Pods.
fn former<M: Machine>(when_deleted: Retention) -> Scene<M> {
    let mut scene = begun(Scene::<M>::new());
    scene.reserve("s", rule(3, Retention::Retain, when_deleted));
    scene.bind("s", 1, "p1", &["p"]);
    scene.bind("s", 2, "p2", &["p"]);
    scene
}

/// All but the first of three ordinals left: `p2` was gone before, `p1` is there.
fn taken_over<M: Machine>(when_deleted: Retention) -> Scene<M> {
    let mut scene = former::<M>(when_deleted);
    scene.unbind("s", 2, "p2");
    scene.reserve_as("s", "new", spec(1, &["p"]));
    scene
}

fn ordinals<M: Machine>(scene: &Scene<M>) -> Vec<u32> {
    let text = scene.addresses("s").into_iter();
    text.map(|line| line.split(' ').next().and_then(|first| first.parse().ok()).expect("an ordinal")).collect()
}

fn row<M: Machine>(scene: &Scene<M>, ordinal: u32) -> Option<OrdinalRow> {
    match scene.row(&Key::Ordinal(set("s"), ordinal))? {
        Row::Ordinal(row) => Some(row),
        other => panic!("{other:?} is no ordinal"),
    }
}

fn left<M: Machine>(scene: &Scene<M>, ordinal: u32) -> Option<Retention> {
    row(scene, ordinal).and_then(|row| row.left)
}

fn retained<M: Machine>(scene: &Scene<M>, ordinal: u32) -> Option<u64> {
    row(scene, ordinal).and_then(|row| row.retained_until)
}

/// Whichever is seen first, the ends of the Pods or the new StatefulSet, and whatever that one says of its own.
fn what_is_not_wanted_is_freed<M: Machine>() {
    for release in [Retention::Release, Retention::After(0)] {
        for when_scaled in [Retention::Retain, Retention::Release, AFTER] {
            let mut before = former::<M>(release);
            before.unbind("s", 1, "p1");
            before.unbind("s", 2, "p2");
            before.reserve_as("s", "new", rule(1, when_scaled, AFTER));
            assert_eq!(ordinals(&before), [0]);

            let mut after = former::<M>(release);
            after.reserve_as("s", "new", rule(1, when_scaled, AFTER));
            assert_eq!(ordinals(&after), [0, 1, 2], "their Pods run");
            assert_eq!((left(&after, 0), left(&after, 1), left(&after, 2)), (None, Some(release), Some(release)));
            after.unbind("s", 2, "p2");
            after.unbind("s", 1, "p1");
            assert_eq!(ordinals(&after), [0]);
            assert_eq!(before.addresses("s"), after.addresses("s"));
        }
    }
}

/// Counted from when it was neither wanted nor bound: from the new StatefulSet, or from the end of the Pod.
fn what_is_not_wanted_is_kept_for_its_time<M: Machine>() {
    for when_scaled in [Retention::Retain, Retention::Release, Retention::After(300)] {
        let mut scene = former::<M>(AFTER);
        scene.unbind("s", 2, "p2");
        scene.after(400);
        scene.reserve_as("s", "new", rule(1, when_scaled, Retention::Release));
        let end = scene.time + 1_000;
        assert_eq!((retained(&scene, 1), retained(&scene, 2)), (None, Some(end)));
        scene.after(400);
        scene.unbind("s", 1, "p1");
        assert_eq!((retained(&scene, 1), retained(&scene, 2)), (Some(end + 400), Some(end)));
        // What the new one says of its own later is not said of these.
        scene.reserve_as("s", "new", rule(1, Retention::After(7), Retention::After(8)));
        scene.after(599);
        assert_eq!(ordinals(&scene), [0, 1, 2]);
        scene.after(1);
        assert_eq!(ordinals(&scene), [0, 1]);
        scene.after(400);
        assert_eq!(ordinals(&scene), [0]);
    }
}

fn one_that_never_had_a_pod_is_freed_at_once<M: Machine>() {
    let mut scene = begun(Scene::<M>::new());
    scene.reserve("s", rule(3, Retention::Retain, AFTER));
    scene.reserve_as("s", "new", spec(1, &["p"]));
    assert_eq!(ordinals(&scene), [0]);
}

/// It was kept until its StatefulSet is deleted, and that is what happened.
fn what_was_scaled_away_before_is_left_too<M: Machine>() {
    let mut scene = former::<M>(Retention::Release);
    scene.unbind("s", 2, "p2");
    scene.reserve("s", rule(2, Retention::Retain, Retention::Release));
    assert_eq!(ordinals(&scene), [0, 1, 2]);
    scene.reserve_as("s", "new", rule(2, Retention::Retain, Retention::Release));
    assert_eq!(ordinals(&scene), [0, 1]);
    assert_eq!(left(&scene, 1), None, "it is wanted");
}

fn wanted_again_it_is_the_new_ones<M: Machine>() {
    for rule in [Retention::Release, AFTER] {
        let mut scene = taken_over::<M>(rule);
        assert_eq!(left(&scene, 1), Some(rule));
        scene.reserve_as("s", "new", spec(3, &["p"]));
        assert_eq!(scene.addresses("s"), ["0 10.0.0.10", "1 10.0.0.11", "2 10.0.0.12"]);
        assert_eq!((left(&scene, 1), left(&scene, 2), retained(&scene, 2)), (None, None, None));
        // Scaled away now, it is kept as the new one says.
        scene.unbind("s", 1, "p1");
        scene.reserve_as("s", "new", spec(1, &["p"]));
        assert_eq!(left(&scene, 1), None);
        scene.after(1_000_000);
        assert!(ordinals(&scene).contains(&1));
    }
}

/// Bound is not wanted: its Pod may be of the former StatefulSet, or of nobody's.
fn a_pod_of_one_that_is_left_changes_nothing<M: Machine>() {
    let mut scene = taken_over::<M>(AFTER);
    scene.bind("s", 2, "again", &["p"]);
    assert_eq!((left(&scene, 2), retained(&scene, 2)), (Some(AFTER), None));
    scene.after(5_000);
    assert_eq!(ordinals(&scene), [0, 1, 2]);
    scene.unbind("s", 2, "again");
    assert_eq!(retained(&scene, 2), Some(scene.time + 1_000));
    scene.after(1_000);
    assert_eq!(ordinals(&scene), [0, 1]);
}

/// The Pods of a StatefulSet that is gone are there, and what is retained of it is: both as it said.
fn a_deletion_that_was_seen_counts_as_well<M: Machine>() {
    let mut scene = former::<M>(AFTER);
    scene.release_set("s");
    scene.unbind("s", 2, "p2");
    let end = scene.time + 1_000;
    scene.after(300);
    scene.reserve_as("s", "new", spec(1, &["p"]));
    assert_eq!((retained(&scene, 1), retained(&scene, 2)), (None, Some(end)), "one rule, whoever is declared");
    assert!(!scene.changes.iter().any(|change| matches!(change.event, Event::Retained { .. })));
    scene.unbind("s", 1, "p1");
    scene.after(700);
    assert_eq!(ordinals(&scene), [0, 1]);
    scene.after(300);
    assert_eq!(ordinals(&scene), [0]);

    let mut scene = former::<M>(Retention::Release);
    scene.release_set("s");
    scene.reserve_as("s", "new", spec(1, &["p"]));
    scene.unbind("s", 1, "p1");
    scene.unbind("s", 2, "p2");
    assert_eq!(ordinals(&scene), [0]);
    // Of the same UID it is the same one, of which nothing was left.
    let mut scene = former::<M>(Retention::Release);
    scene.release_set("s");
    scene.reserve("s", spec(1, &["p"]));
    assert_eq!(left(&scene, 1), None);
    scene.unbind("s", 1, "p1");
    assert_eq!(ordinals(&scene), [0, 1, 2]);
}

fn a_running_retention_under_another_rule_counts_anew<M: Machine>() {
    for (when_scaled, from_the_command) in [(Retention::After(600), true), (Retention::Retain, true), (AFTER, false)] {
        let mut scene = former::<M>(AFTER);
        scene.unbind("s", 2, "p2");
        scene.reserve("s", rule(2, when_scaled, AFTER));
        let scaled = scene.time;
        scene.after(500);
        scene.reserve_as("s", "new", rule(2, when_scaled, Retention::Release));
        let counted = if from_the_command { scene.time } else { scaled };
        assert_eq!((left(&scene, 2), retained(&scene, 2)), (Some(AFTER), Some(counted + 1_000)));
    }
    let mut scene = former::<M>(Retention::Release);
    scene.unbind("s", 2, "p2");
    scene.reserve("s", rule(2, AFTER, Retention::Release));
    assert_eq!(ordinals(&scene), [0, 1, 2]);
    scene.reserve_as("s", "new", rule(2, AFTER, Retention::Release));
    assert_eq!(ordinals(&scene), [0, 1]);
}

/// The second StatefulSet leaves what it had itself; what it never wanted was left to it already.
fn the_first_mark_stays<M: Machine>() {
    let mut scene = former::<M>(AFTER);
    scene.reserve_as("s", "second", rule(2, Retention::Retain, Retention::After(50)));
    scene.reserve_as("s", "third", rule(1, Retention::Retain, Retention::Release));
    assert_eq!((left(&scene, 1), left(&scene, 2)), (Some(Retention::After(50)), Some(AFTER)));
    scene.reserve_as("s", "fourth", rule(1, Retention::Retain, Retention::Release));
    assert_eq!((left(&scene, 1), left(&scene, 2)), (Some(Retention::After(50)), Some(AFTER)));
}

fn the_end_of_the_new_one_changes_nothing<M: Machine>() {
    // Kept longer than the new one would keep it, and counted on.
    let mut scene = taken_over::<M>(AFTER);
    let end = scene.time + 1_000;
    scene.after(200);
    scene.release_set_as("s", "new");
    assert_eq!((retained(&scene, 2), left(&scene, 1)), (Some(end), Some(AFTER)));
    scene.unbind("s", 1, "p1");
    assert_eq!(ordinals(&scene), [1, 2], "the new one's own is released");
    scene.after(1_000);
    assert_eq!(scene.row(&Key::Reservation(set("s"))), None);
    // And no longer.
    let mut scene = former::<M>(Retention::Release);
    scene.reserve_as("s", "new", rule(1, Retention::Retain, AFTER));
    scene.bind("s", 0, "p0", &["p"]);
    scene.release_set_as("s", "new");
    scene.unbind("s", 0, "p0");
    scene.unbind("s", 1, "p1");
    assert_eq!(ordinals(&scene), [0, 2], "the first is the new one's own");
}

/// With the annotation gone from its own Pods it wants nothing, as one of no replicas.
fn one_that_names_no_pools_leaves_no_less<M: Machine>() {
    for (rule, kept) in [(Retention::Release, &[1][..]), (AFTER, &[1, 2][..])] {
        let mut scene = former::<M>(rule);
        scene.unbind("s", 2, "p2");
        scene.reserve_as("s", "new", spec(3, &[]));
        assert_eq!(ordinals(&scene), kept);
        scene.after(1_000);
        assert_eq!(ordinals(&scene), [1]);
    }
}

fn beside_antrea_it_is_freed<M: Machine>() {
    let mut scene = Scene::<M>::new();
    scene.act(Action::Adopt(Adopt::Begin { mode: Mode::Antrea }));
    scene.act(Action::Adopt(Adopt::End));
    let mut scene = begun(scene);
    scene.reserve("s", rule(3, Retention::Retain, AFTER));
    scene.bind("s", 1, "p1", &["p"]);
    scene.bind("s", 2, "p2", &["p"]);
    scene.unbind("s", 2, "p2");
    scene.reserve_as("s", "new", rule(1, Retention::Retain, AFTER));
    assert_eq!((ordinals(&scene), left(&scene, 1)), (vec![0, 1], Some(Retention::Release)));
    scene.unbind("s", 1, "p1");
    assert_eq!(ordinals(&scene), [0]);
}

/// Its Pods were seen before it was: they may be its own.
fn without_a_uid_nothing_is_left<M: Machine>() {
    let mut scene = begun(Scene::<M>::new());
    scene.bind("s", 2, "p2", &["p"]);
    scene.reserve("s", spec(1, &["p"]));
    assert_eq!((row(&scene, 2).is_some(), left(&scene, 2)), (true, None));
    let mut scene = adopted::<M>("");
    scene.reserve("s", spec(1, &["p"]));
    assert_eq!((ordinals(&scene), left(&scene, 2)), (vec![0, 2], None));
}

/// Adoption said whose it was.
fn what_was_adopted_with_a_uid_is_left<M: Machine>() {
    let mut scene = adopted::<M>("former");
    scene.bind("s", 3, "p3", &["p"]);
    scene.reserve("s", spec(1, &["p"]));
    assert_eq!((ordinals(&scene), left(&scene, 3)), (vec![0], Some(Retention::Release)));
}

/// An address of ordinal 2, of which nothing runs.
fn adopted<M: Machine>(uid: &str) -> Scene<M> {
    let mut scene = begun(Scene::<M>::new());
    scene.act(Action::Adopt(Adopt::Begin { mode: Mode::Standalone }));
    let by = AdoptedBy::Ordinal { id: set("s"), uid: uid.into(), ordinal: 2, pod: None, pools: vec!["p".into()] };
    let item = AdoptItem::Address { pool: ip_pool("p"), address: ip("10.0.0.12"), by };
    scene.act(Action::Adopt(Adopt::Held(vec![item])));
    scene.act(Action::Adopt(Adopt::End));
    scene
}

/// The mark leaves the stamp, by which the ledger sees what a Pod runs with and whether a sweep is older than it.
fn a_pod_goes_on_with_what_it_has<M: Machine>() {
    let mut scene = begun(Scene::<M>::new());
    scene.pool(pool(ip_pool("q"), "10.0.0.1/24", &["10.0.0.20-10.0.0.23"]));
    scene.reserve("s", spec(2, &["p"]));
    scene.bind("s", 1, "p1", &["p", "q"]);
    let bound = row(&scene, 1).expect("it is bound").stamp;
    scene.reserve("s", spec(2, &["q"]));
    let of_its = |scene: &Scene<M>| scene.addresses("s").split_off(2);
    assert_eq!(of_its(&scene), ["1 10.0.0.21", "1 10.0.0.11!"]);
    scene.reserve_as("s", "new", spec(1, &["q"]));
    assert_eq!(of_its(&scene), ["1 10.0.0.21", "1 10.0.0.11!"]);
    assert_eq!(row(&scene, 1).map(|row| (row.stamp, row.left)), Some((bound, Some(Retention::Release))));
    let object = ObjectId::Pod("n".into(), pod_of("s", 1, "").name);
    let gone = Gone { object, uid: "p1".into(), unchanged_since: bound.revision };
    scene.act(Action::Sweep(Sweep { gone: vec![gone] }));
    assert_eq!(ordinals(&scene), [0]);
}
