//! The order of commands, what is declared, what is gone.

use std::collections::BTreeMap;

use holdfast_statemachine::adopt::{Adopt, AdoptItem, AdoptedBy, Mode};
use holdfast_statemachine::command::{ObjectId, Owner, PodOwner, StatefulSetId};
use holdfast_statemachine::{Command, Entry, PoolId, PoolKind};

use super::super::{declared, deletions};
use super::*;

fn told(action: &Action) -> String {
    match action {
        Action::PutPool(put) => format!("put {}", put.pool),
        Action::PutNode(put) => format!("put Node {}", put.name),
        Action::Grant(grant) => match &grant.owner {
            holdfast_statemachine::command::Owner::Pod(pod) => format!("bind {}", pod.name),
            other @ holdfast_statemachine::command::Owner::Named { .. } => format!("{other:?}"),
        },
        Action::Reserve(reserve) => format!("reserve {}", reserve.id),
        Action::PutEgress(put) => format!("put Egress {}", put.name),
        other => format!("{other:?}"),
    }
}

fn named(text: &str, from: &str, to: &str) -> String {
    format!("---\n{}", text.replacen(&format!("name: {from}"), &format!("name: {to}"), 1))
}

#[test]
fn commands_go_kind_by_kind_and_by_age_within_a_kind() {
    let pools = "ipam.antrea.io/ippools: p";
    let external = external_pool("ipRanges: [{cidr: 1.1.1.0/30}], nodeSelector: {}");
    let ip = ip_pool("", "ipRanges: [{cidr: 10.0.0.0/24}], subnetInfo: {gateway: 10.0.0.1, prefixLength: 24}");
    let egress = egress_of("egressIP: 1.1.1.1");
    let text = [
        named(&egress, "e", "c-no-time"),
        named(&egress, "e", "newer, creationTimestamp: 2026-01-01T00:00:02Z"),
        named(&egress, "e", "b, creationTimestamp: 2026-01-01T00:00:01Z"),
        named(&egress, "e", "a, creationTimestamp: 2026-01-01T00:00:01Z"),
        named(&egress, "e", "a-no-time"),
        named(&set("", pools, ""), "pg", "z-first"),
        named(&set("", pools, ""), "pg", "a-second"),
        named(&set("", pools, ""), "pg", "aged\n  creationTimestamp: 2026-01-01T00:00:01Z"),
        named(&pod("pg-0", pools, "StatefulSet, name: pg", ""), "none", ""),
        named(&node("", ""), "node", "n2"),
        named(&node("", ""), "node", "n1"),
        named(&external, "p", "x"),
        named(&ip, "p", "i2"),
        named(&ip, "p", "i1"),
    ]
    .concat();
    let plan = plan_of(&text);
    let commands: Vec<String> = plan.commands.iter().map(|command| told(&command.action)).collect();
    assert_eq!(
        commands,
        [
            "put IPPool i2",
            "put IPPool i1",
            "put ExternalIPPool x",
            "put Node n2",
            "put Node n1",
            "bind pg-0",
            "reserve db/aged",
            "reserve db/z-first",
            "reserve db/a-second",
            "put Egress a",
            "put Egress b",
            "put Egress newer",
            "put Egress c-no-time",
            "put Egress a-no-time",
        ]
    );
    assert!(plan.commands.iter().all(|command| command.source == source() && command.only_in_term.is_none()));
    assert_eq!(plan.declared.len(), 14);
}

#[test]
fn commands_carry_source_and_term() {
    let manifests = read_text("x.yaml", &node("", "")).expect("reads");
    let plan = super::super::plan(manifests.objects(), &Source::Kubernetes, Some(7)).expect("plans");
    assert_eq!((&plan.commands[0].source, plan.commands[0].only_in_term), (&Source::Kubernetes, Some(7)));
}

#[test]
fn a_pod_is_declared_until_it_is_gone_whoever_owns_it() {
    let declared_of = |text: &str| declared(&read_text("x.yaml", text).expect("reads").objects[0].object);
    let pod_id = Some((ObjectId::Pod("db".into(), "pg-0".into()), Name::from("db/pg-0")));
    assert_eq!(declared_of(&pod("pg-0", "", "", "")), pod_id);
    assert_eq!(declared_of(&pod("pg-0", "", "StatefulSet, name: pg", "status: {phase: Running}")), pod_id);
    assert_eq!(declared_of(&pod("pg-0", "", "StatefulSet, name: pg", "status: {phase: Failed}")), None);
    assert_eq!(declared_of(&namespace("")), None);
}

#[test]
fn what_goes_goes_in_an_order_that_moves_and_retires_nothing_needlessly() {
    let uid = || Name::from("uid");
    let gone = [
        (ObjectId::Pool(PoolId { kind: PoolKind::ExternalIpPool, name: "x".into() }), uid()),
        (ObjectId::Pool(PoolId { kind: PoolKind::IpPool, name: "p".into() }), uid()),
        (ObjectId::Node("n".into()), uid()),
        (ObjectId::Reservation(StatefulSetId { namespace: "db".into(), name: "pg".into() }), uid()),
        (ObjectId::Pod("db".into(), "pg-0".into()), uid()),
        (ObjectId::Egress("e".into()), uid()),
    ];
    let commands = deletions(&gone, &source(), Some(3));
    let kinds: Vec<&str> = commands
        .iter()
        .map(|command| match &command.action {
            Action::DeleteEgress(delete) if &*delete.uid == "uid" => "egress",
            Action::ReleaseGrant(release) if &*release.uid == "uid" => "pod",
            Action::ReleaseReservation(release) if &*release.uid == "uid" => "reservation",
            Action::DeleteNode(delete) if &*delete.uid == "uid" => "node",
            Action::DeletePool(delete) if &*delete.uid == "uid" => "pool",
            _ => "other",
        })
        .collect();
    assert_eq!(kinds, ["egress", "pod", "reservation", "node", "pool", "pool"]);
    assert!(commands.iter().all(|command| command.source == source() && command.only_in_term == Some(3)));
    assert_eq!(deletions(&[], &source(), None), []);
}

#[test]
fn nothing_is_gone_from_an_empty_ledger() {
    let ledger = holdfast_statemachine::Ledger::new();
    assert_eq!(super::super::gone(ledger.tables(), &source(), &BTreeMap::new()), []);
}

#[test]
fn what_a_pod_holds_beside_its_ordinal_and_what_was_only_adopted_is_gone_too() {
    let pool = ip_pool("", "ipRanges: [{cidr: 10.0.0.0/24}], subnetInfo: {gateway: 10.0.0.1, prefixLength: 24}");
    let mut commands = plan_of(&pool.replacen("name: pool", "name: p", 1)).commands;
    let pool = match &commands[0].action {
        Action::PutPool(put) => put.pool.clone(),
        other => panic!("{other:?}"),
    };
    let id = StatefulSetId { namespace: "db".into(), name: "pg".into() };
    let pod = |name: &str| PodOwner {
        namespace: "db".into(),
        name: name.into(),
        uid: "uid".into(),
        container_id: None,
        interface: None,
        ordinal: None,
    };
    let by_ordinal = AdoptedBy::Ordinal { id: id.clone(), uid: "uid".into(), ordinal: 0, pod: None, pools: Vec::new() };
    let alone = || AdoptedBy::Owner(Owner::Pod(pod("alone")));
    let items = [("10.0.0.5", by_ordinal), ("10.0.0.6", alone()), ("10.0.0.7", alone())];
    let item = |(address, by): (&str, AdoptedBy)| AdoptItem::Address {
        pool: pool.clone(),
        address: address.parse().expect("an address"),
        by,
    };
    let adopt =
        [Adopt::Begin { mode: Mode::Standalone }, Adopt::Held(items.into_iter().map(item).collect()), Adopt::End];
    let command = |adopt| Command { source: source(), only_in_term: None, action: Action::Adopt(adopt) };
    commands.extend(adopt.map(command));
    let mut ledger = holdfast_statemachine::Ledger::new();
    ledger.apply(&Entry { index: 1, term: 1, proposed_at: 0, commands });
    let gone = super::super::gone(ledger.tables(), &source(), &BTreeMap::new());
    let uid = || Name::from("uid");
    assert_eq!(
        gone[1..],
        [(ObjectId::Reservation(id), uid()), (ObjectId::Pod("db".into(), "alone".into()), uid())],
        "beside the pool"
    );
    ledger.apply(&Entry { index: 2, term: 1, proposed_at: 0, commands: deletions(&gone, &source(), None) });
    assert_eq!(super::super::gone(ledger.tables(), &source(), &BTreeMap::new()), []);
    assert!(ledger.tables().grants().is_empty());
}
