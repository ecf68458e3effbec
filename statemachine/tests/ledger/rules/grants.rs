//! Grants to named owners and Pods outside StatefulSets, and whose command counts.

use holdfast_statemachine::command::{Gone, Grant, ObjectId, Owner, OwnerRef, PodOwner, ReleaseGrant, Sweep};
use holdfast_statemachine::outcome::Note;
use holdfast_statemachine::row::Holder;
use holdfast_statemachine::{Action, Command, Event, Key, PoolKind, Source};

use crate::machine::Machine;
use crate::scene::{Scene, chosen_from, external, ip, ip_pool, on_both, pool, put_egress, put_node, set, spec};

on_both!(
    a_grant_again_changes_nothing,
    one_of_each_family_or_none,
    what_is_held_or_outside,
    a_named_owner_is_taken_over,
    a_pod_of_the_same_name_is_new,
    a_refused_grant_frees_nothing,
    releases_name_what_they_release,
    a_pod_bound_elsewhere_does_not_hide_a_grant,
    other_sources_are_refused,
    a_stale_term_changes_nothing,
    a_sweep_takes_what_is_unchanged,
    a_sweep_judges_before_it_takes,
    a_refused_command_undoes_nothing,
);

fn scene<M: Machine>() -> Scene<M> {
    let mut scene = Scene::new();
    scene.pool(pool(ip_pool("four"), "10.0.0.1/24", &["10.0.0.10-10.0.0.11"]));
    scene.pool(pool(ip_pool("six"), "fd00::1/64", &["fd00::10-fd00::10"]));
    scene
}

fn owner(name: &str, uid: &str) -> Owner {
    Owner::Named { name: name.into(), uid: uid.into() }
}

fn pod(uid: &str) -> Owner {
    Owner::Pod(PodOwner {
        namespace: "n".into(),
        name: "pod".into(),
        uid: uid.into(),
        container_id: None,
        interface: None,
        ordinal: None,
    })
}

fn grant(owner: Owner, pools: &[&str]) -> Action {
    let pools = pools.iter().map(|name| (*name).into()).collect();
    Action::Grant(Grant { owner, kind: PoolKind::IpPool, pools, addresses: Vec::new() })
}

fn release(owner: OwnerRef, uid: &str, revision: Option<u64>) -> Action {
    Action::ReleaseGrant(ReleaseGrant { owner, uid: uid.into(), revision })
}

fn a_grant_again_changes_nothing<M: Machine>() {
    let mut scene = scene::<M>();
    let first = scene.act(grant(owner("vm", "u"), &["four"]));
    let again = scene.act(grant(owner("vm", "u"), &["four"]));
    assert!(!again.changed);
    assert_eq!(again.granted, first.granted);
    let more = scene.attempt(grant(owner("vm", "u"), &["four", "six"])).expect_err("it holds no IPv6");
    assert_eq!(more.code(), "OwnerHolds");
}

fn one_of_each_family_or_none<M: Machine>() {
    let mut scene = scene::<M>();
    let both = scene.act(grant(owner("a", "u"), &["six", "four"]));
    assert_eq!(both.granted.iter().map(|g| g.first).collect::<Vec<_>>(), [ip("10.0.0.10"), ip("fd00::10")]);
    let none = scene.attempt(grant(owner("b", "u"), &["six", "four"])).expect_err("one IPv6 only");
    assert_eq!(none.code(), "PoolExhausted");
    assert_eq!(scene.held(&ip_pool("four")), ["10.0.0.10"]);
}

fn what_is_held_or_outside<M: Machine>() {
    let mut scene = scene::<M>();
    scene.hold("four", &["10.0.0.10"]);
    let held = scene.attempt_grant("b", &["four"], &["10.0.0.10"]).expect_err("held");
    assert_eq!(held.code(), "AddressHeld");
    let outside = scene.attempt_grant("b", &["four"], &["10.0.0.12"]).expect_err("outside");
    assert_eq!(outside.code(), "AddressOutside");
    let twice = scene.attempt_grant("b", &["four"], &["10.0.0.10", "10.0.0.11"]).expect_err("two of one family");
    assert_eq!(twice.code(), "Malformed");
    assert_eq!(scene.attempt_grant("", &["four"], &[]).expect_err("nobody").code(), "Malformed");
    assert_eq!(scene.attempt_grant("b", &[], &[]).expect_err("nowhere").code(), "Malformed");
    assert_eq!(scene.attempt_grant("b", &["gone"], &[]).expect_err("no such pool").code(), "Unknown");
}

fn a_named_owner_is_taken_over<M: Machine>() {
    let mut scene = scene::<M>();
    let first = scene.act(grant(owner("vm", "old"), &["four"]));
    let second = scene.act(grant(owner("vm", "new"), &["four"]));
    assert_eq!(second.granted[0].first, first.granted[0].first);
    assert!(second.granted[0].revision > first.granted[0].revision);
    assert!(matches!(&scene.changes[..], [change] if matches!(change.event, Event::Transferred { .. })));
    assert!(!scene.act(release(OwnerRef::Named("vm".into()), "old", None)).changed);
}

fn a_pod_of_the_same_name_is_new<M: Machine>() {
    let mut scene = scene::<M>();
    scene.act(grant(pod("old"), &["four"]));
    scene.act(grant(pod("new"), &["four"]));
    let events: Vec<_> = scene.changes.iter().map(|change| &change.event).collect();
    assert!(matches!(&events[..], [Event::Released { .. }, Event::Granted { .. }]));
    assert!(matches!(scene.holder("10.0.0.10"), Some(Holder::Pod { pod, .. }) if &*pod.uid == "new"));
}

fn a_refused_grant_frees_nothing<M: Machine>() {
    let mut scene = scene::<M>();
    scene.act(grant(owner("vm", "u"), &["six"]));
    scene.act(grant(pod("old"), &["four"]));
    let refused = scene.attempt(grant(pod("new"), &["four", "six"])).expect_err("IPv6 is held");
    assert_eq!(refused.code(), "PoolExhausted");
    assert!(scene.changes.is_empty());
    assert!(matches!(scene.holder("10.0.0.10"), Some(Holder::Pod { pod, .. }) if &*pod.uid == "old"));
}

fn releases_name_what_they_release<M: Machine>() {
    let mut scene = scene::<M>();
    let granted = scene.act(grant(owner("vm", "u"), &["four"])).granted[0].revision;
    let named = OwnerRef::Named("vm".into());
    for (uid, revision) in [("other", None), ("u", Some(granted + 1)), ("u", Some(0))] {
        let outcome = scene.act(release(named.clone(), uid, revision));
        let stands = Note::NotHeld { held_by_uid: Some("u".into()), revision: Some(granted) };
        assert_eq!(outcome.notes, [stands], "{uid} {revision:?}");
    }
    assert!(scene.act(release(named.clone(), "u", Some(granted))).changed);
    let again = scene.act(release(named, "u", Some(granted)));
    assert_eq!(again.notes, [Note::NotHeld { held_by_uid: None, revision: None }]);
}

/// A Pod of the same name is bound under another UID: what the first holds outside reservations is still released.
fn a_pod_bound_elsewhere_does_not_hide_a_grant<M: Machine>() {
    let mut scene = scene::<M>();
    let bound = Owner::Pod(PodOwner { ordinal: Some((set("s"), 0)), ..crate::scene::pod_of("s", 0, "bound") });
    scene.act(grant(bound, &["four"]));
    let plain = Owner::Pod(PodOwner { ordinal: None, ..crate::scene::pod_of("s", 0, "plain") });
    scene.act(grant(plain, &["four"]));
    let outcome = scene.act(release(OwnerRef::Pod("n".into(), "s-0".into()), "plain", None));
    assert!(outcome.changed);
    assert!(scene.held(&ip_pool("four")).is_empty());
}

fn other_sources_are_refused<M: Machine>() {
    let mut scene = scene::<M>();
    scene.pool(pool(external("x"), "", &["10.1.0.0/30"]));
    scene.reserve("s", spec(1, &["four"]));
    scene.egress(put_egress("e", 1, vec![chosen_from("x")]));
    scene.node(put_node("node"));
    scene.act(grant(owner("vm", "u"), &["six"]));
    let manifests = || Source::Manifests("set".into());
    let refused = [
        Action::PutPool(pool(external("x"), "", &["10.1.0.0/29"])),
        Action::Reserve(holdfast_statemachine::command::Reserve {
            id: set("s"),
            uid: "u".into(),
            spec: spec(0, &["four"]),
        }),
        Action::PutEgress(put_egress("e", 1, vec![chosen_from("y")])),
        Action::PutNode(put_node("node")),
        Action::DeleteNode(holdfast_statemachine::command::DeleteNode { name: "node".into(), uid: "u".into() }),
        release(OwnerRef::Named("vm".into()), "u", None),
    ];
    for action in refused {
        let refused = scene.attempt_from(manifests(), action).expect_err("another source's");
        assert_eq!(refused.code(), "OtherSource");
        assert!(scene.changes.is_empty());
    }
    // A drain names no declared object of its own; a grant may be ended through the API.
    let drain = holdfast_statemachine::command::Drain { node: "node".into(), force: true };
    scene.attempt_from(Source::Api, Action::Drain(drain)).expect("open to every source");
    scene.attempt_from(Source::Api, release(OwnerRef::Named("vm".into()), "u", None)).expect("through the API");
}

fn a_stale_term_changes_nothing<M: Machine>() {
    let mut scene = scene::<M>();
    let command = |only_in_term, action| Command { source: Source::Kubernetes, only_in_term, action };
    let outcomes = scene.commands(vec![
        command(Some(0), grant(owner("late", "u"), &["four"])),
        command(Some(1), grant(owner("timely", "u"), &["four"])),
    ]);
    assert_eq!(outcomes[0].as_ref().expect_err("another term").code(), "StaleTerm");
    assert!(outcomes[1].is_ok());
    assert!(matches!(scene.holder("10.0.0.10"), Some(Holder::Named { name, .. }) if &*name == "timely"));
}

fn a_sweep_takes_what_is_unchanged<M: Machine>() {
    let mut scene = scene::<M>();
    let noted = scene.node(put_node("gone")).revision;
    scene.node(put_node("changed"));
    scene.node(put_node("another"));
    let item = |name: &str, uid: &str, unchanged_since| Gone {
        object: ObjectId::Node(name.into()),
        uid: uid.into(),
        unchanged_since,
    };
    let gone = vec![
        item("gone", "u", noted),
        item("changed", "u", noted),
        item("another", "v", u64::MAX),
        item("nothing", "u", u64::MAX),
        item("gone", "u", noted),
    ];
    let outcome = scene.act(Action::Sweep(Sweep { gone }));
    assert_eq!(outcome.notes, [Note::LeftAlone { objects: 4 }]);
    assert!(scene.row(&Key::Node("gone".into())).is_none());
    assert!(scene.row(&Key::Node("changed".into())).is_some());
    let many = Sweep { gone: vec![item("x", "u", 0); 1001] };
    assert_eq!(scene.attempt(Action::Sweep(many)).expect_err("too many").code(), "Malformed");
}

/// What an earlier item of the same sweep does to an object is no change since the list.
fn a_sweep_judges_before_it_takes<M: Machine>() {
    let mut scene = scene::<M>();
    let noted = scene.reserve("s", spec(1, &["four"])).revision;
    let item = |object| Gone { object, uid: "u".into(), unchanged_since: noted };
    let gone = vec![item(ObjectId::Pool(ip_pool("four"))), item(ObjectId::Reservation(set("s")))];
    let outcome = scene.act(Action::Sweep(Sweep { gone }));
    assert!(outcome.notes.is_empty());
    assert!(scene.row(&Key::Reservation(set("s"))).is_none());
}

fn a_refused_command_undoes_nothing<M: Machine>() {
    let mut scene = scene::<M>();
    let outcomes = scene.entry(vec![
        grant(owner("a", "u"), &["four"]),
        grant(owner("b", "u"), &["nowhere"]),
        grant(owner("c", "u"), &["four"]),
    ]);
    assert_eq!(outcomes.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(scene.held(&ip_pool("four")), ["10.0.0.10", "10.0.0.11"]);
}
