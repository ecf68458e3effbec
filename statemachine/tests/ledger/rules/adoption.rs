//! Adoption: what an API says is held, before anything is chosen.

use holdfast_statemachine::adopt::{Adopt, AdoptItem, AdoptedBy, ConflictReason, Mode};
use holdfast_statemachine::command::{EgressItem, Gone, ObjectId, Owner, PodOwner, PutEgress, Sweep};
use holdfast_statemachine::outcome::Note;
use holdfast_statemachine::row::{AdoptionRow, Holder};
use holdfast_statemachine::{Action, Event, Key, Name, Outcome, PoolId, Row};

use crate::machine::Machine;
use crate::scene::{
    Scene, asked_of, chosen_from, external, ip, ip_pool, on_both, pod_of, pool, put_egress, put_node, set, spec,
};

on_both!(
    an_adoption_is_begun_once_and_in_one_mode,
    nothing_is_chosen_before_the_end,
    what_waits_is_served_in_order_at_the_end,
    an_ordinals_address_is_kept_by_a_later_reserve,
    ordinals_beyond_the_replicas_are_retained,
    the_first_told_keeps_an_address,
    a_running_pods_other_addresses_are_its_own,
    a_pod_bound_otherwise_keeps_its_address,
    pods_with_several_interfaces_lose_none,
    an_egress_keeps_what_it_has,
    what_an_egress_cannot_have_is_a_conflict,
    a_piece_again_changes_nothing,
    conflicts_beyond_the_first_are_counted_once,
    too_many_items_are_refused,
    what_was_never_declared_can_be_released_and_swept,
);

fn begin<M: Machine>() -> Scene<M> {
    let mut scene = Scene::new();
    scene.pool(pool(ip_pool("p"), "10.0.0.1/24", &["10.0.0.10-10.0.0.19"]));
    scene.pool(pool(external("x"), "", &["10.1.0.1-10.1.0.4"]));
    scene.node(put_node("node1"));
    scene.node(put_node("node2"));
    scene.act(Action::Adopt(Adopt::Begin { mode: Mode::Standalone }));
    scene
}

fn held<M: Machine>(scene: &mut Scene<M>, items: Vec<AdoptItem>) -> Outcome {
    scene.act(Action::Adopt(Adopt::Held(items)))
}

fn end<M: Machine>(scene: &mut Scene<M>) -> Outcome {
    scene.act(Action::Adopt(Adopt::End))
}

fn item(pool: PoolId, address: &str, by: AdoptedBy) -> AdoptItem {
    AdoptItem::Address { pool, address: ip(address), by }
}

fn ordinal(ordinal: u32, address: &str, pod: Option<PodOwner>) -> AdoptItem {
    let by = AdoptedBy::Ordinal { id: set("s"), uid: "u".into(), ordinal, pod, pools: vec!["p".into()] };
    item(ip_pool("p"), address, by)
}

fn named(name: &str, uid: &str, address: &str) -> AdoptItem {
    item(ip_pool("p"), address, AdoptedBy::Owner(Owner::Named { name: name.into(), uid: uid.into() }))
}

fn alone(uid: &str, address: &str) -> AdoptItem {
    let pod = PodOwner { name: "alone".into(), ordinal: None, ..pod_of("s", 0, uid) };
    item(ip_pool("p"), address, AdoptedBy::Owner(Owner::Pod(pod)))
}

fn egress(name: &str, items: Vec<EgressItem>, chosen: &[&str], placed: &[(&str, &str)]) -> AdoptItem {
    let put: PutEgress = put_egress(name, 1, items);
    let placed = placed.iter().map(|(address, node)| (ip(address), Name::from(*node))).collect();
    AdoptItem::Egress { put, chosen: chosen.iter().map(|address| ip(address)).collect(), placed }
}

fn adoption<M: Machine>(scene: &Scene<M>) -> AdoptionRow {
    match scene.row(&Key::Adoption) {
        Some(Row::Adoption(row)) => row,
        other => panic!("{other:?} is no adoption"),
    }
}

/// The codes of an outcome's conflicts.
fn conflicts(outcome: &Outcome) -> Vec<&'static str> {
    let code = |note: &Note| match note {
        Note::Conflict(conflict) => conflict.why.code(),
        other => panic!("{other:?} is no conflict"),
    };
    outcome.notes.iter().map(code).collect()
}

fn an_adoption_is_begun_once_and_in_one_mode<M: Machine>() {
    let mut scene = Scene::<M>::new();
    assert_eq!(scene.attempt(Action::Adopt(Adopt::Held(Vec::new()))).expect_err("not begun").code(), "NotAdopting");
    assert_eq!(scene.attempt(Action::Adopt(Adopt::End)).expect_err("not begun").code(), "NotAdopting");
    let mut scene = begin::<M>();
    let other = || Action::Adopt(Adopt::Begin { mode: Mode::Antrea });
    assert!(!scene.act(Action::Adopt(Adopt::Begin { mode: Mode::Standalone })).changed);
    assert_eq!(scene.attempt(other()).expect_err("another mode").code(), "OtherMode");
    assert!(end(&mut scene).changed);
    assert!(adoption(&scene).complete);
    assert!(!end(&mut scene).changed, "a lost reply");
    assert!(!scene.act(Action::Adopt(Adopt::Begin { mode: Mode::Standalone })).changed);
    assert!(adoption(&scene).complete);
    assert_eq!(scene.attempt(other()).expect_err("another mode").code(), "OtherMode");
    assert_eq!(scene.attempt(Action::Adopt(Adopt::Held(Vec::new()))).expect_err("ended").code(), "NotAdopting");
}

fn nothing_is_chosen_before_the_end<M: Machine>() {
    let mut scene = begin::<M>();
    let refused = |scene: &mut Scene<M>, action| scene.attempt(action).expect_err("not yet").code();
    let reserve = holdfast_statemachine::command::Reserve { id: set("s"), uid: "u".into(), spec: spec(1, &["p"]) };
    assert_eq!(refused(&mut scene, Action::Reserve(reserve)), "NotAdopted");
    assert_eq!(scene.attempt_grant("vm", &["p"], &[]).expect_err("not yet").code(), "NotAdopted");
    assert_eq!(refused(&mut scene, Action::PutEgress(put_egress("e", 1, vec![chosen_from("x")]))), "NotAdopted");
    held(&mut scene, vec![egress("e", vec![chosen_from("x")], &[], &[])]);
    assert_eq!(scene.egress_addresses("e"), ["NotAdopted"]);
    held(&mut scene, vec![egress("f", vec![asked_of("x", "10.1.0.1")], &[], &[])]);
    end(&mut scene);
    assert_eq!(scene.egress_addresses("f"), ["10.1.0.1"]);
    assert_eq!(scene.egress_addresses("e"), ["10.1.0.2"]);
}

fn what_waits_is_served_in_order_at_the_end<M: Machine>() {
    let mut scene = Scene::<M>::new();
    scene.pool(pool(ip_pool("p"), "10.0.0.1/24", &["10.0.0.10-10.0.0.12"]));
    scene.reserve("big", spec(4, &["p"]));
    scene.act(Action::Adopt(Adopt::Begin { mode: Mode::Standalone }));
    scene.pool(pool(external("x"), "", &["10.1.0.1-10.1.0.1"]));
    held(
        &mut scene,
        vec![egress("a", vec![chosen_from("x")], &[], &[]), egress("b", vec![chosen_from("x")], &[], &[])],
    );
    let mut wider = pool(ip_pool("p"), "10.0.0.1/24", &["10.0.0.10-10.0.0.15"]);
    wider.uid = "u".into();
    scene.pool(wider);
    assert_eq!(scene.addresses("big"), Vec::<String>::new(), "it could be met, but not before the end");
    end(&mut scene);
    assert_eq!(scene.addresses("big").len(), 4);
    assert_eq!(scene.egress_addresses("a"), ["10.1.0.1"]);
    assert_eq!(scene.egress_addresses("b"), ["Exhausted"], "it is told what it waits for now");
}

fn an_ordinals_address_is_kept_by_a_later_reserve<M: Machine>() {
    let mut scene = begin::<M>();
    let told =
        held(&mut scene, vec![ordinal(0, "10.0.0.14", Some(pod_of("s", 0, "a"))), ordinal(1, "10.0.0.15", None)]);
    assert_eq!(conflicts(&told), Vec::<&str>::new());
    end(&mut scene);
    scene.reserve("s", spec(3, &["p"]));
    assert_eq!(scene.addresses("s"), ["0 10.0.0.14", "1 10.0.0.15", "2 10.0.0.16"]);
    let Some(Row::Ordinal(row)) = scene.row(&Key::Ordinal(set("s"), 0)) else { panic!("ordinal 0") };
    assert_eq!(row.pod.expect("it is bound").pod.uid, "a".into());
}

fn ordinals_beyond_the_replicas_are_retained<M: Machine>() {
    let mut scene = begin::<M>();
    held(&mut scene, vec![ordinal(0, "10.0.0.14", None), ordinal(4, "10.0.0.18", None)]);
    end(&mut scene);
    scene.reserve("s", spec(1, &["p"]));
    assert_eq!(scene.addresses("s"), ["0 10.0.0.14", "4 10.0.0.18"], "as if it had had a Pod");
    scene.release_set("s");
    assert_eq!(scene.addresses("s"), Vec::<String>::new());
}

fn the_first_told_keeps_an_address<M: Machine>() {
    let mut scene = begin::<M>();
    let told = held(
        &mut scene,
        vec![
            ordinal(0, "10.0.0.10", None),
            named("vm", "1", "10.0.0.10"),
            named("vm", "1", "10.0.0.11"),
            named("vm", "2", "10.0.0.12"),
            ordinal(1, "10.0.0.99", None),
            item(ip_pool("none"), "10.0.0.13", AdoptedBy::Owner(Owner::Named { name: "a".into(), uid: "".into() })),
            ordinal(0, "10.0.0.14", None),
        ],
    );
    assert_eq!(conflicts(&told), ["Held", "OwnerHolds", "Outside", "UnknownPool", "OrdinalHolds"]);
    assert_eq!(scene.held(&ip_pool("p")), ["10.0.0.10", "10.0.0.11"]);
    assert_eq!(adoption(&scene).conflicts_total, 5);
    let Note::Conflict(first) = &told.notes[0] else { panic!("a conflict") };
    let by = Holder::Ordinal { id: set("s"), ordinal: 0, former: false };
    assert_eq!(first.why, ConflictReason::Held { by });
    assert_eq!(adoption(&scene).conflicts[0], *first);
    let told = scene.changes.iter().filter(|change| matches!(change.event, Event::Conflict(_))).count();
    assert_eq!(told, 5);
    end(&mut scene);
    assert!(matches!(scene.changes[0].event, Event::AdoptionEnded { conflicts: 5 }));
}

fn a_running_pods_other_addresses_are_its_own<M: Machine>() {
    let mut scene = begin::<M>();
    let pod = || Some(pod_of("s", 0, "a"));
    let told = held(&mut scene, vec![ordinal(0, "10.0.0.10", pod()), ordinal(0, "10.0.0.12", pod())]);
    assert_eq!(conflicts(&told), Vec::<&str>::new());
    assert!(matches!(scene.holder("10.0.0.12"), Some(Holder::Pod { pod, .. }) if &*pod.uid == "a"));
    end(&mut scene);
    scene.reserve("s", spec(3, &["p"]));
    assert!(scene.holder("10.0.0.12").is_some_and(|holder| matches!(holder, Holder::Pod { .. })));
    scene.unbind("s", 0, "a");
    assert_eq!(scene.holder("10.0.0.12"), None, "gone with its Pod");
    assert!(scene.addresses("s").contains(&"0 10.0.0.10".to_owned()));
}

fn a_pod_bound_otherwise_keeps_its_address<M: Machine>() {
    let mut scene = begin::<M>();
    let moved = PodOwner { ordinal: None, ..pod_of("s", 0, "a") };
    held(&mut scene, vec![ordinal(0, "10.0.0.10", Some(pod_of("s", 0, "a")))]);
    let told = held(
        &mut scene,
        vec![ordinal(1, "10.0.0.11", Some(moved)), ordinal(0, "10.0.0.12", Some(pod_of("s", 3, "b")))],
    );
    assert_eq!(conflicts(&told), ["PodBound", "OrdinalBound"]);
    let holds = |scene: &Scene<M>, address: &str, uid: &str| matches!(scene.holder(address), Some(Holder::Pod { pod, .. }) if &*pod.uid == uid);
    assert!(holds(&scene, "10.0.0.11", "a") && holds(&scene, "10.0.0.12", "b"));
    let Some(Row::Ordinal(row)) = scene.row(&Key::Ordinal(set("s"), 0)) else { panic!("ordinal 0") };
    assert_eq!(row.pod.expect("it is bound").pod.uid, "a".into());
}

fn pods_with_several_interfaces_lose_none<M: Machine>() {
    let mut scene = begin::<M>();
    let told = held(&mut scene, vec![alone("a", "10.0.0.10"), alone("a", "10.0.0.12")]);
    assert_eq!(conflicts(&told), Vec::<&str>::new());
    assert_eq!(scene.held(&ip_pool("p")), ["10.0.0.10", "10.0.0.12"]);
    end(&mut scene);
    let owner = Owner::Pod(PodOwner { name: "alone".into(), ordinal: None, ..pod_of("s", 0, "a") });
    let grant = holdfast_statemachine::command::Grant {
        owner,
        kind: holdfast_statemachine::PoolKind::IpPool,
        pools: vec!["p".into()],
        addresses: Vec::new(),
    };
    let again = scene.act(Action::Grant(grant));
    assert!(!again.changed);
    assert_eq!(again.granted.len(), 2);
    let swept = |uid: &str| {
        let object = ObjectId::Pod("n".into(), "alone".into());
        Action::Sweep(Sweep { gone: vec![Gone { object, uid: uid.into(), unchanged_since: u64::MAX }] })
    };
    assert!(!scene.act(swept("other")).changed);
    assert!(scene.act(swept("a")).changed, "what a Pod holds outside reservations is swept with it");
    assert_eq!(scene.held(&ip_pool("p")), Vec::<String>::new());
}

fn an_egress_keeps_what_it_has<M: Machine>() {
    let mut scene = begin::<M>();
    let told = held(
        &mut scene,
        vec![
            egress("a", vec![asked_of("x", "10.1.0.3")], &["10.1.0.3"], &[("10.1.0.3", "node2")]),
            egress("b", vec![asked_of("x", "10.1.0.4")], &[], &[("10.1.0.4", "node2"), ("10.1.0.9", "node1")]),
            egress("c", vec![asked_of("x", "10.1.0.1")], &[], &[("10.1.0.1", "gone")]),
        ],
    );
    assert_eq!(conflicts(&told), Vec::<&str>::new());
    assert_eq!((scene.node_of("10.1.0.3"), scene.node_of("10.1.0.4")), ("node2".into(), "node2".into()));
    assert_ne!(scene.node_of("10.1.0.1"), "none", "it is placed as usual");
    let item = |name: &str| scene.egress_row(name).items.remove(0);
    assert_eq!((item("a").chosen, item("a").asked), (Some(ip("10.1.0.3")), None));
    assert_eq!((item("b").chosen, item("b").asked), (None, Some(ip("10.1.0.4"))));
    end(&mut scene);
    assert!(!scene.egress(put_egress("a", 1, vec![asked_of("x", "10.1.0.3")])).changed);
    assert!(!scene.egress(put_egress("a", 1, vec![chosen_from("x")])).changed);
}

fn what_an_egress_cannot_have_is_a_conflict<M: Machine>() {
    let mut scene = begin::<M>();
    held(&mut scene, vec![egress("a", vec![asked_of("x", "10.1.0.1")], &[], &[])]);
    let told = held(
        &mut scene,
        vec![
            egress("b", vec![asked_of("x", "10.1.0.1")], &[], &[]),
            egress("c", vec![asked_of("x", "10.1.0.1")], &["10.1.0.1"], &[]),
            egress("d", vec![asked_of("none", "10.1.0.2")], &[], &[]),
            egress("e", vec![asked_of("x", "10.1.0.9")], &[], &[]),
            egress("f", vec![asked_of("x", "10.1.0.2"), EgressItem { pool: None, address: None }], &[], &[]),
        ],
    );
    assert_eq!(conflicts(&told), ["Held", "Held", "UnknownPool", "Outside", "Refused"]);
    assert_eq!(scene.row(&Key::Egress("f".into())), None);
    end(&mut scene);
    assert_eq!(scene.egress_addresses("a"), ["10.1.0.1"]);
    assert_eq!(scene.egress_addresses("b"), ["AddressHeld"], "what a user asks for is never replaced");
    assert_eq!(scene.egress_addresses("c"), ["10.1.0.2"], "what was chosen is chosen anew");
}

fn a_piece_again_changes_nothing<M: Machine>() {
    let mut scene = begin::<M>();
    let piece = || {
        vec![
            ordinal(0, "10.0.0.10", Some(pod_of("s", 0, "a"))),
            ordinal(0, "10.0.0.12", Some(pod_of("s", 0, "a"))),
            ordinal(1, "10.0.0.13", Some(PodOwner { ordinal: None, ..pod_of("s", 0, "a") })),
            ordinal(2, "10.0.0.10", None),
            alone("a", "10.0.0.15"),
            named("vm", "", "10.0.0.15"),
            egress("a", vec![asked_of("x", "10.1.0.3")], &["10.1.0.3"], &[("10.1.0.3", "node2")]),
            egress("b", vec![asked_of("x", "10.1.0.3")], &[], &[]),
            egress("c", vec![asked_of("x", "10.1.0.3")], &["10.1.0.3"], &[]),
        ]
    };
    assert_eq!(conflicts(&held(&mut scene, piece())), ["PodBound", "Held", "Held", "Held", "Held"]);
    let rows = scene.machine.rows();
    let again = held(&mut scene, piece());
    assert!(!again.changed);
    assert_eq!(rows, scene.machine.rows());
    assert_eq!(adoption(&scene).conflicts_total, 5);
}

fn conflicts_beyond_the_first_are_counted_once<M: Machine>() {
    let mut scene = begin::<M>();
    let piece = |uid: &str| (0..300).map(|n| named(&format!("vm{n}"), uid, "10.0.0.99")).collect::<Vec<_>>();
    assert_eq!(held(&mut scene, piece("")).notes.len(), 300);
    assert!(!held(&mut scene, piece("")).changed);
    let row = adoption(&scene);
    assert_eq!((row.conflicts.len(), row.conflicts_total, row.others.len()), (256, 300, 44));
    end(&mut scene);
    let row = adoption(&scene);
    assert_eq!((row.conflicts.len(), row.conflicts_total, row.others.len()), (256, 300, 0));
}

fn too_many_items_are_refused<M: Machine>() {
    let mut scene = begin::<M>();
    let items = vec![ordinal(0, "10.0.0.10", None); 1_001];
    assert_eq!(scene.attempt(Action::Adopt(Adopt::Held(items))).expect_err("too many").code(), "Malformed");
    let nobody = Action::Adopt(Adopt::Held(vec![named("", "", "10.0.0.10")]));
    assert_eq!(scene.attempt(nobody).expect_err("nobody").code(), "Malformed");
    let no_uid = Action::Adopt(Adopt::Held(vec![alone("", "10.0.0.10")]));
    assert_eq!(scene.attempt(no_uid).expect_err("no UID").code(), "Malformed");
    assert!(scene.held(&ip_pool("p")).is_empty());
}

fn what_was_never_declared_can_be_released_and_swept<M: Machine>() {
    let adopted = || {
        let mut scene = begin::<M>();
        held(&mut scene, vec![ordinal(0, "10.0.0.10", Some(pod_of("s", 0, "a"))), ordinal(1, "10.0.0.11", None)]);
        end(&mut scene);
        scene
    };
    let mut scene = adopted();
    scene.release_set("s");
    assert_eq!(scene.addresses("s"), ["0 10.0.0.10"], "but for what its Pod runs with");
    assert!(!scene.release_set("s").changed);
    let mut scene = adopted();
    let gone = Gone { object: ObjectId::Reservation(set("s")), uid: "u".into(), unchanged_since: u64::MAX };
    scene.act(Action::Sweep(Sweep { gone: vec![gone] }));
    assert_eq!(scene.addresses("s"), ["0 10.0.0.10"]);
    scene.unbind("s", 0, "a");
    assert_eq!(scene.row(&Key::Reservation(set("s"))), None);
}
