//! Pods and templates: binding by UID, adoption, and pools changed under a running StatefulSet.

use holdfast_statemachine::command::{Reserve, ReserveSpec};
use holdfast_statemachine::{Action, Event, Key};

use crate::machine::Machine;
use crate::scene::{Scene, ip_pool, on_both, pool, set, spec};

on_both!(
    a_pod_is_known_by_its_uid,
    another_uid_means_the_former_is_gone,
    pods_seen_before_their_set,
    an_orphan_is_adopted,
    a_late_release_frees_nothing,
    the_old_block_stays_until_settled,
    the_old_block_stays_while_a_pod_uses_it,
    rolling_back,
    growth_while_pools_change,
);

fn scene<M: Machine>() -> Scene<M> {
    let mut scene = Scene::new();
    scene.pool(pool(ip_pool("old"), "10.0.0.1/24", &["10.0.0.10-10.0.0.19"]));
    scene.pool(pool(ip_pool("new"), "10.0.0.1/24", &["10.0.0.20-10.0.0.29"]));
    scene
}

fn moving(replicas: u32, pool: &str) -> ReserveSpec {
    ReserveSpec { settled: false, ..spec(replicas, &[pool]) }
}

fn a_pod_is_known_by_its_uid<M: Machine>() {
    let mut scene = scene::<M>();
    scene.reserve("s", spec(2, &["old"]));
    let first = scene.bind("s", 1, "uid", &["old"]);
    assert!(first.changed);
    // The same Pod, now said to be another ordinal's, or nobody's: nothing changes.
    let again = scene.bind("s", 0, "uid", &["old"]);
    assert!(!again.changed);
    assert_eq!(again.granted, first.granted);
}

fn another_uid_means_the_former_is_gone<M: Machine>() {
    let mut scene = scene::<M>();
    scene.reserve("s", spec(2, &["old"]));
    scene.bind("s", 1, "first", &["old"]);
    scene.bind("s", 1, "second", &["old"]);
    let events: Vec<_> = scene.changes.iter().map(|change| &change.event).collect();
    assert!(matches!(&events[..], [Event::Unbound { pod: a, .. }, Event::Bound { pod: b, .. }]
        if &*a.uid == "first" && &*b.uid == "second"));
    assert!(!scene.unbind("s", 1, "first").changed, "a late delete of the former one");
}

fn pods_seen_before_their_set<M: Machine>() {
    let mut scene = scene::<M>();
    let outcome = scene.bind("s", 3, "p3", &["old"]);
    assert!(outcome.changed && outcome.granted.is_empty());
    scene.reserve("s", spec(2, &["old"]));
    assert_eq!(scene.addresses("s").len(), 2);
    scene.unbind("s", 3, "p3");
    assert!(scene.row(&Key::Ordinal(set("s"), 3)).is_some(), "retained, as the spec says");
    scene.release_set("s");
    assert!(scene.row(&Key::Reservation(set("s"))).is_none());
}

fn an_orphan_is_adopted<M: Machine>() {
    let mut scene = scene::<M>();
    scene.reserve("s", spec(2, &["old"]));
    scene.bind("s", 0, "p0", &["old"]);
    scene.release_set("s");
    scene.act(Action::Reserve(Reserve { id: set("s"), uid: "adopter".into(), spec: spec(2, &["old"]) }));
    assert_eq!(scene.addresses("s"), ["0 10.0.0.10", "1 10.0.0.11"]);
    // The former one's delete comes again: another's UID.
    assert!(!scene.release_set("s").changed);
}

fn a_late_release_frees_nothing<M: Machine>() {
    let mut scene = scene::<M>();
    scene.reserve("s", spec(1, &["old"]));
    scene.bind("s", 0, "p0", &["old"]);
    scene.unbind("s", 0, "p0");
    let late = scene.unbind("s", 0, "p0");
    assert!(!late.changed && late.notes.len() == 1);
    assert_eq!(scene.addresses("s").len(), 1);
}

fn the_old_block_stays_until_settled<M: Machine>() {
    let mut scene = scene::<M>();
    scene.reserve("s", spec(2, &["old"]));
    scene.reserve("s", moving(2, "new"));
    assert_eq!(scene.addresses("s"), ["0 10.0.0.20", "0 10.0.0.10!", "1 10.0.0.21", "1 10.0.0.11!"]);
    let old = scene.bind("s", 0, "p0", &["old"]);
    assert_eq!(old.granted[0].first.to_string(), "10.0.0.10", "its own annotation says the block");
    let new = scene.bind("s", 1, "p1", &["new"]);
    assert_eq!(new.granted[0].first.to_string(), "10.0.0.21");
    scene.bind("s", 0, "p0-new", &["new"]);
    assert_eq!(scene.addresses("s").len(), 4, "not settled yet");
    scene.reserve("s", spec(2, &["new"]));
    assert_eq!(scene.addresses("s"), ["0 10.0.0.20", "1 10.0.0.21"]);
}

fn the_old_block_stays_while_a_pod_uses_it<M: Machine>() {
    let mut scene = scene::<M>();
    scene.reserve("s", spec(2, &["old"]));
    scene.bind("s", 0, "p0", &["old"]);
    scene.reserve("s", spec(2, &["new"]));
    assert_eq!(scene.addresses("s").len(), 4, "one Pod of the old template runs");
    scene.unbind("s", 0, "p0");
    assert_eq!(scene.addresses("s"), ["0 10.0.0.20", "1 10.0.0.21"]);
}

fn rolling_back<M: Machine>() {
    let mut scene = scene::<M>();
    scene.reserve("s", spec(2, &["old"]));
    scene.bind("s", 0, "p0", &["old"]);
    scene.reserve("s", moving(2, "new"));
    scene.reserve("s", moving(2, "old"));
    assert_eq!(scene.addresses("s"), ["0 10.0.0.10", "0 10.0.0.20!", "1 10.0.0.11", "1 10.0.0.21!"]);
    assert!(scene.changes.iter().all(|change| !matches!(change.event, Event::Granted { .. } | Event::Released { .. })));
    scene.reserve("s", spec(2, &["old"]));
    assert_eq!(scene.addresses("s"), ["0 10.0.0.10", "1 10.0.0.11"]);
}

fn growth_while_pools_change<M: Machine>() {
    let mut scene = scene::<M>();
    scene.reserve("s", spec(2, &["old"]));
    scene.hold("new", &["10.0.0.20", "10.0.0.22", "10.0.0.24", "10.0.0.26", "10.0.0.28"]);
    scene.reserve("s", moving(3, "new"));
    // Three that have none of the new pool, all of them together.
    assert_eq!(scene.addresses("s"), ["0 10.0.0.21", "0 10.0.0.10!", "1 10.0.0.23", "1 10.0.0.11!", "2 10.0.0.25"]);
}
