use std::net::IpAddr;

use holdfast_statemachine::command::{
    ObjectId, PutPool, RangeSpec, ReserveSpec, Retention, Selector, Source, StatefulSetId, Subnet,
};
use holdfast_statemachine::outcome::PoolRoom;
use holdfast_statemachine::row::{
    BoundPod, CreationKey, EgressItemRow, EgressRow, GrantRow, Holder, NodeRow, OrdinalRow, PlacementRow, PodRef,
    PoolRow, ReservationRow, Stamp,
};
use holdfast_statemachine::{Action, Family, Key, Ledger, PoolId, Range, Row, Waiting};

use super::*;
use crate::manifests::read_text;
use crate::translate;

/// 2026-11-30T08:00:00Z.
const TIME: Millis = 1_796_025_600_000;

fn source() -> Source {
    Source::Manifests("test".into())
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("is an address")
}

/// Entry `index` was applied `index` seconds after [`TIME`].
fn stamp(index: u64) -> Stamp {
    Stamp { revision: index, index, at: TIME + index * 1000 }
}

fn pool_id(kind: PoolKind, name: &str) -> PoolId {
    PoolId { kind, name: name.into() }
}

fn pool(kind: PoolKind, name: &str, cidr: &str, usable: (&str, &str)) -> (PoolId, PoolRow) {
    let id = pool_id(kind, name);
    let subnet = Subnet { gateway: "10.0.0.1".into(), prefix_length: 24, vlan: Some(7) };
    let wanted = PutPool {
        pool: id.clone(),
        uid: name.into(),
        ranges: vec![RangeSpec::Cidr(cidr.into())],
        subnet: (kind == PoolKind::IpPool).then_some(subnet),
        node_selector: Selector::default(),
        cool_down: 0,
    };
    let ranges = vec![Range::new(ip(usable.0), ip(usable.1)).expect("is a range")];
    (id, PoolRow { source: source(), wanted, ranges, waiting: None, stamp: stamp(1), used: stamp(1) })
}

fn set_id() -> StatefulSetId {
    StatefulSetId { namespace: "db".into(), name: "pg".into() }
}

fn grant(address: &str, pool: &PoolId, holder: Holder) -> (Key, Row) {
    (Key::Grant(ip(address)), Row::Grant(GrantRow { pool: pool.clone(), holder, stamp: stamp(3) }))
}

fn ordinal(ordinal: u32, former: bool) -> Holder {
    Holder::Ordinal { id: set_id(), ordinal, former }
}

fn pod(name: &str) -> PodRef {
    PodRef { namespace: "db".into(), name: name.into(), uid: "u".into(), container_id: None, interface: None }
}

fn bound(number: u32, pools: &[&str]) -> (Key, Row) {
    let pods = BoundPod {
        pod: pod(&format!("pg-{number}")),
        pools: pools.iter().map(|pool| Name::from(*pool)).collect(),
        source: source(),
    };
    let row = OrdinalRow { pod: Some(pods), retained_until: None, stamp: stamp(4), left: None };
    (Key::Ordinal(set_id(), number), Row::Ordinal(row))
}

fn reservation(pools: &[&str], replicas: u32) -> (Key, Row) {
    let spec = ReserveSpec {
        start: 0,
        replicas,
        pools: pools.iter().map(|pool| Name::from(*pool)).collect(),
        fixed: Vec::new(),
        headroom: 0,
        contiguity: holdfast_statemachine::command::Contiguity::Preferred,
        when_scaled: Retention::Retain,
        when_deleted: Retention::Release,
        settled: false,
    };
    let row = ReservationRow {
        source: source(),
        uid: "db/pg".into(),
        spec: Some(spec),
        when_deleted: Retention::Release,
        waiting: None,
        stamp: stamp(3),
    };
    (Key::Reservation(set_id()), Row::Reservation(row))
}

fn item(pool: &str, asked: &str, chosen: &str) -> EgressItemRow {
    let address = |text: &str| (!text.is_empty()).then(|| ip(text));
    EgressItemRow {
        pool: (!pool.is_empty()).then(|| pool.into()),
        asked: address(asked),
        chosen: address(chosen),
        waiting: None,
    }
}

fn egress(name: &str, plural: bool, items: Vec<EgressItemRow>) -> EgressRow {
    EgressRow {
        source: source(),
        uid: name.into(),
        created: CreationKey { seconds: 1_796_025_000, revision: 9, name: name.into() },
        plural,
        items,
        rest: r#"{"appliedTo":{"podSelector":{"matchLabels":{"app":"web"}}},"bandwidth":{"rate":"10M","burst":"20M"}}"#
            .into(),
        stamp: stamp(6),
    }
}

fn placed(address: &str, egress: &str, node: &str) -> (Key, Row) {
    let row = PlacementRow { egress: egress.into(), node: node.into(), pinned: false, stamp: stamp(7) };
    (Key::Placement(ip(address)), Row::Placement(row))
}

fn node(name: &str) -> (Key, Row) {
    let row = NodeRow {
        source: source(),
        uid: name.into(),
        labels: BTreeMap::new(),
        ready: true,
        capacity: None,
        drained: false,
        stamp: stamp(2),
    };
    (Key::Node(name.into()), Row::Node(row))
}

fn small_node(name: &str, capacity: u32) -> (Key, Row) {
    let (key, mut row) = node(name);
    if let Row::Node(row) = &mut row {
        row.capacity = Some(capacity);
    }
    (key, row)
}

fn ledger(rows: Vec<(Key, Row)>) -> Ledger {
    Ledger::from_rows(rows).expect("are a ledger's rows")
}

fn egress_rows(row: EgressRow, more: Vec<(Key, Row)>) -> Vec<(Key, Row)> {
    let mut rows = vec![node("node-a"), node("node-b")];
    for (name, cidr, usable) in [
        ("p", "1.1.1.0/29", ("1.1.1.1", "1.1.1.6")),
        ("q", "2.2.2.0/29", ("2.2.2.1", "2.2.2.6")),
        ("r", "3.3.3.0/29", ("3.3.3.1", "3.3.3.6")),
    ] {
        let (id, row) = pool(PoolKind::ExternalIpPool, name, cidr, usable);
        rows.push((Key::Pool(id), Row::Pool(row)));
    }
    let name = row.created.name.clone();
    for item in &row.items {
        if let (Some(address), Some(pool)) = (item.granted(), &item.pool) {
            let pool = pool_id(PoolKind::ExternalIpPool, pool);
            rows.push(grant(&address.to_string(), &pool, Holder::Egress { name: name.clone() }));
        }
    }
    rows.push((Key::Egress(name), Row::Egress(row)));
    rows.extend(more);
    rows
}

fn status_of(row: EgressRow, more: Vec<(Key, Row)>) -> EgressStatus {
    let ledger = ledger(egress_rows(row, more));
    let row = ledger.tables().egresses().values().next().expect("there is one");
    egress_status(&ledger, row, "c")
}

fn told(conditions: &[Condition]) -> Vec<String> {
    let told = |c: &Condition| format!("{} {} {}: {}", c.kind, c.status, c.reason, c.message);
    conditions.iter().map(told).collect()
}

#[test]
fn a_list_is_the_objects_whole_sorted_by_kind_and_name() {
    let (id, row) = pool(PoolKind::IpPool, "pods", "10.0.0.0/28", ("10.0.0.2", "10.0.0.15"));
    let mut rows =
        egress_rows(egress("web", false, vec![item("p", "", "1.1.1.1")]), vec![placed("1.1.1.1", "web", "node-a")]);
    rows.retain(|(key, _)| !matches!(key, Key::Pool(id) if &*id.name != "p"));
    rows.extend([
        (Key::Pool(id.clone()), Row::Pool(row)),
        reservation(&["pods"], 2),
        grant("10.0.0.2", &id, ordinal(0, false)),
        grant("10.0.0.3", &id, ordinal(1, false)),
        bound(0, &["pods"]),
    ]);
    let ledger = ledger(rows);
    let list = list(&ledger, "cluster-1");
    let yaml = to_yaml(&list).expect("is YAML");
    assert_eq!(yaml, include_str!("../../testdata/list.yaml"), "\n{yaml}");
    let json = to_json(&list).expect("is JSON");
    let back: serde_json::Value = serde_json::from_str(&json).expect("parses");
    let from_yaml: serde_json::Value = serde_saphyr::from_str(&yaml).expect("parses");
    assert_eq!(back, from_yaml);
}

#[test]
fn what_is_exported_asks_for_what_is_recorded() {
    let mut row = egress("web", true, vec![item("p", "", "1.1.1.1"), item("q", "2.2.2.5", "")]);
    row.uid = "12-34".into();
    row.created = CreationKey { seconds: 1_796_025_000, revision: 0, name: "web".into() };
    let mut rows = egress_rows(row.clone(), vec![placed("1.1.1.1", "web", "node-a")]);
    let (id, mut pool) = pool(PoolKind::ExternalIpPool, "s", "4.4.4.0/29", ("4.4.4.1", "4.4.4.6"));
    pool.wanted.ranges.push(RangeSpec::StartEnd("5.5.5.1".into(), "5.5.5.2".into()));
    pool.wanted.cool_down = 90_000;
    pool.wanted.node_selector.match_labels.insert("zone".into(), "no".into());
    pool.wanted.node_selector.match_expressions.push(holdfast_statemachine::command::Requirement {
        key: "k".into(),
        operator: holdfast_statemachine::command::Operator::NotIn,
        values: vec!["1.20".into()],
    });
    rows.push((Key::Pool(id), Row::Pool(pool.clone())));
    let ledger = ledger(rows);
    let yaml = to_yaml(&list(&ledger, "c")).expect("is YAML");
    let manifests = read_text("x.yaml", &yaml).expect("reads");
    let plan = translate::plan(manifests.objects(), &source(), None).expect("plans");
    for command in &plan.commands {
        match &command.action {
            Action::PutPool(put) => assert_eq!(*put, ledger.tables().pools()[&put.pool].wanted),
            Action::PutEgress(put) => {
                assert_eq!((&*put.uid, put.created, put.plural), ("12-34", Some(1_796_025_000), true));
                assert_eq!(put.rest, row.rest);
                let named: Vec<_> = put.items.iter().map(|item| item.address).collect();
                assert_eq!(named, [Some(ip("1.1.1.1")), Some(ip("2.2.2.5"))]);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(plan.commands.len(), 5);
    assert_eq!(
        translate::gone(ledger.tables(), &source(), &plan.declared),
        [(ObjectId::Node("node-a".into()), "node-a".into()), (ObjectId::Node("node-b".into()), "node-b".into()),]
    );
}

#[test]
fn only_what_this_source_declared_and_declares_no_more_is_gone() {
    let (id, row) = pool(PoolKind::IpPool, "pods", "10.0.0.0/28", ("10.0.0.2", "10.0.0.15"));
    let mut other = row.clone();
    other.source = Source::Api;
    other.wanted.pool.name = "theirs".into();
    other.ranges = Vec::new();
    let theirs = other.wanted.pool.clone();
    let ledger = ledger(vec![
        (Key::Pool(id.clone()), Row::Pool(row)),
        (Key::Pool(theirs), Row::Pool(other)),
        reservation(&["pods"], 0),
        bound(0, &["pods"]),
        node("node-a"),
    ]);
    let mut declared = BTreeMap::from([(ObjectId::Node("node-a".into()), Name::from("another uid"))]);
    let gone = |declared: &BTreeMap<ObjectId, Name>| translate::gone(ledger.tables(), &source(), declared);
    assert_eq!(
        gone(&declared),
        [
            (ObjectId::Pool(id.clone()), "pods".into()),
            (ObjectId::Reservation(set_id()), "db/pg".into()),
            (ObjectId::Pod("db".into(), "pg-0".into()), "u".into()),
        ]
    );
    declared.insert(ObjectId::Pod("db".into(), "pg-0".into()), "u".into());
    declared.insert(ObjectId::Pool(id), "pods".into());
    assert_eq!(gone(&declared), [(ObjectId::Reservation(set_id()), "db/pg".into())]);
}

#[test]
fn numbers_stop_where_json_readers_lose_digits() {
    let usage = holdfast_statemachine::ledger::Usage {
        total: u128::MAX,
        used: (1 << 53) - 2,
        free: 1 << 53,
        ..holdfast_statemachine::ledger::Usage::default()
    };
    let most = 9_007_199_254_740_991;
    assert_eq!(Usage::from(usage), Usage { total: most, used: most - 1, free: most });
}

/// A pool of two addresses, so many of them held, changed so.
fn small_pool(held: usize, change: impl FnOnce(&mut PoolRow)) -> ExternalIpPoolStatus {
    let (id, mut row) = pool(PoolKind::IpPool, "p", "10.0.0.0/28", ("10.0.0.2", "10.0.0.3"));
    row.used = stamp(5);
    change(&mut row);
    let named = |name: &str| Holder::Named { name: name.into(), uid: "".into(), source: Source::Api };
    let grants = [grant("10.0.0.2", &id, named("a")), grant("10.0.0.3", &id, named("b"))];
    let mut rows = vec![(Key::Pool(id.clone()), Row::Pool(row.clone()))];
    rows.extend(grants.into_iter().take(held));
    external_ip_pool_status(&ledger(rows), &id, &row, "c")
}

#[test]
fn a_pool_says_whether_it_is_exhausted() {
    let status = small_pool(2, |_| {});
    assert_eq!(
        told(&status.conditions),
        ["Exhausted True NoneFree: none of 2 addresses is free", "Ready True InForce: its ranges are in force",]
    );
    assert_eq!(status.usage, Usage { total: 2, used: 2, free: 0 });
    let times: Vec<&str> = status.conditions.iter().map(|c| c.last_transition_time.as_str()).collect();
    assert_eq!(times, ["2026-11-30T08:00:05Z", "2026-11-30T08:00:01Z"]);
    assert_eq!((&*status.holdfast.cluster, status.holdfast.index), ("c", 5));
    assert_eq!(told(&small_pool(1, |_| {}).conditions)[0], "Exhausted False Free: 1 of 2 addresses are free");
}

#[test]
fn a_pool_says_why_it_is_not_in_force() {
    let range = Range::new(ip("10.0.0.2"), ip("10.0.0.3")).expect("is a range");
    let overlap = Waiting::PoolOverlap { range, with: pool_id(PoolKind::IpPool, "x") };
    let status = small_pool(1, |row| {
        row.stamp = stamp(8);
        row.waiting = Some((8, overlap.clone()));
    });
    assert_eq!(
        told(&status.conditions)[1],
        "Ready False PoolOverlap: waits: 10.0.0.2-10.0.0.3 lies in IPPool x too; the ranges last accepted stay in force"
    );
    assert_eq!(status.holdfast.index, 8);
    let status = small_pool(0, |row| {
        row.ranges.clear();
        row.waiting = Some((8, overlap));
    });
    assert_eq!(
        told(&status.conditions),
        [
            "Exhausted True NoneFree: it has no addresses",
            "Ready False PoolOverlap: waits: 10.0.0.2-10.0.0.3 lies in IPPool x too",
        ]
    );
}

#[test]
fn a_holder_is_shown_as_what_it_is() {
    let (id, row) = pool(PoolKind::IpPool, "pods", "10.0.0.0/28", ("10.0.0.2", "10.0.0.15"));
    let mut alone = pod("alone");
    alone.interface = Some("eth1".into());
    let named = Holder::Named { name: "vm-17".into(), uid: "".into(), source: Source::Api };
    let ledger = ledger(vec![
        (Key::Pool(id.clone()), Row::Pool(row)),
        grant("10.0.0.10", &id, Holder::Pod { pod: alone, source: Source::Api }),
        grant("10.0.0.2", &id, named),
        grant("10.0.0.3", &id, Holder::Observed { owner: "theirs".into() }),
    ]);
    let held = pool_entries(&ledger, &ledger.tables().pools()[&id], None, usize::MAX);
    assert_eq!(
        serde_json::to_value(&held).expect("is JSON"),
        serde_json::json!([
            {"ipAddress": "10.0.0.2", "phase": "Allocated", "owner": {"name": "vm-17"}},
            {"ipAddress": "10.0.0.3", "phase": "Allocated", "owner": {"name": "theirs"}},
            {"ipAddress": "10.0.0.10", "phase": "Allocated", "owner":
                {"pod": {"name": "alone", "namespace": "db", "ifName": "eth1"}}},
        ])
    );
}

#[test]
fn a_pod_uses_the_address_of_the_pool_that_it_names() {
    // Ordinal 0 is being moved from `old` (and `older`) to `new`.
    let cases: [(&[&str], &str); 5] = [
        (&["new"], "10.2.0.2"),
        (&["old"], "10.1.0.2"),
        (&["old", "older"], "10.0.0.2"),
        (&["new", "old"], "10.2.0.2"),
        (&["gone"], "10.2.0.2"),
    ];
    for (pools, used) in cases {
        let mut rows = vec![reservation(&["new"], 1), bound(0, pools)];
        for (name, net, former) in [("older", "10.0.0", true), ("old", "10.1.0", true), ("new", "10.2.0", false)] {
            let usable = (format!("{net}.2"), format!("{net}.15"));
            let (id, row) = pool(PoolKind::IpPool, name, &format!("{net}.0/28"), (&usable.0, &usable.1));
            rows.push((Key::Pool(id.clone()), Row::Pool(row)));
            rows.push(grant(&usable.0, &id, ordinal(0, former)));
        }
        let ledger = ledger(rows);
        let rows = ledger.tables().pools().values();
        let allocated: Vec<String> = rows
            .flat_map(|row| pool_entries(&ledger, row, None, usize::MAX))
            .filter(|state| state.phase == "Allocated" && state.owner.pod.is_some())
            .map(|state| state.ip_address.to_string())
            .collect();
        assert_eq!(allocated, [used], "{pools:?}");
    }
}

#[test]
fn a_static_egress_has_neither_addresses_nor_conditions() {
    let row = egress("web", false, vec![item("", "9.9.9.9", "")]);
    let spec = egress_spec(&row);
    assert_eq!((spec.egress_ip.as_deref(), spec.external_ip_pool), (Some("9.9.9.9"), None));
    let status = status_of(row, Vec::new());
    assert_eq!((status.conditions.len(), status.egress_ips.len()), (0, 0));
    assert_eq!((&*status.egress_node, &*status.egress_ip), ("", ""));
}

#[test]
fn one_address_placed_is_told_in_the_singular_fields() {
    let status =
        status_of(egress("web", false, vec![item("p", "1.1.1.2", "")]), vec![placed("1.1.1.2", "web", "node-b")]);
    assert_eq!((&*status.egress_node, &*status.egress_ip), ("node-b", "1.1.1.2"));
    assert_eq!(
        told(&status.conditions),
        [
            "IPAllocated True Allocated: the address is allocated",
            "IPAssigned True Assigned: decided for Node node-b, not confirmed by an agent",
        ]
    );
    let times: Vec<&str> = status.conditions.iter().map(|c| c.last_transition_time.as_str()).collect();
    assert_eq!(times, ["2026-11-30T08:00:06Z", "2026-11-30T08:00:07Z"]);
}

#[test]
fn an_address_without_a_node_says_why() {
    let mut down = node("node-c");
    if let Row::Node(row) = &mut down.1 {
        row.ready = false;
    }
    let more = vec![down, small_node("node-a", 0), small_node("node-b", 0)];
    let status = status_of(egress("web", false, vec![item("p", "", "1.1.1.2")]), more);
    assert_eq!((&*status.egress_node, &*status.egress_ip), ("", ""));
    assert_eq!(status.egress_ips, [EgressAddress { ip: ip("1.1.1.2"), node: "".into() }]);
    assert_eq!(
        told(&status.conditions)[1],
        "IPAssigned False AssignmentError: no Node can carry 1.1.1.2: 1 NotReady, 2 AtCapacity"
    );
}

#[test]
fn an_address_that_waits_says_why_and_stays_in_the_spec_if_asked_for() {
    let mut asked = item("p", "1.1.1.2", "");
    asked.waiting =
        Some((5, Waiting::AddressHeld { address: ip("1.1.1.2"), by: Holder::Egress { name: "first".into() } }));
    let row = egress("web", false, vec![asked]);
    assert_eq!(egress_spec(&row).egress_ip.as_deref(), Some("1.1.1.2"));
    assert_eq!(
        told(&status_of(row, Vec::new()).conditions),
        [
            "IPAllocated False AllocationError: waits: 1.1.1.2 is held by Egress first",
            "IPAssigned False AssignmentError: no address is allocated",
        ]
    );
    let mut chosen = item("p", "", "");
    let room = PoolRoom { pool: pool_id(PoolKind::ExternalIpPool, "p"), needed: 1, free: 0, largest_free_run: 0 };
    chosen.waiting = Some((5, Waiting::Exhausted { family: Family::V4, tried: vec![room] }));
    let row = egress("web", false, vec![chosen]);
    let spec = egress_spec(&row);
    assert_eq!((spec.egress_ip, spec.external_ip_pool.as_deref()), (None, Some("p")));
}

#[test]
fn of_several_addresses_the_conditions_count() {
    let mut waiting = item("r", "", "");
    waiting.waiting = Some((5, Waiting::UnknownPool { pools: vec![pool_id(PoolKind::ExternalIpPool, "r")] }));
    let row = egress("web", true, vec![item("p", "", "1.1.1.2"), item("q", "2.2.2.2", ""), waiting]);
    let spec = egress_spec(&row);
    assert_eq!(spec.egress_ips.iter().map(|ip| &**ip).collect::<Vec<_>>(), ["1.1.1.2", "2.2.2.2", ""]);
    assert_eq!(spec.external_ip_pools.iter().map(|ip| &**ip).collect::<Vec<_>>(), ["p", "q", "r"]);
    assert_eq!((&spec.egress_ip, &spec.external_ip_pool), (&None, &None));
    let more = vec![placed("2.2.2.2", "web", "node-a"), small_node("node-a", 1), small_node("node-b", 0)];
    let mut rows = egress_rows(row, more);
    rows.retain(|(key, _)| !matches!(key, Key::Pool(id) if &*id.name == "r"));
    let ledger = ledger(rows);
    let row = &ledger.tables().egresses()["web"];
    let status = egress_status(&ledger, row, "c");
    assert_eq!((&*status.egress_node, &*status.egress_ip), ("node-a", "2.2.2.2"));
    assert_eq!(
        told(&status.conditions),
        [
            "IPAllocated False AllocationError: 2 of 3; waits: there is no ExternalIPPool r",
            "IPAssigned False AssignmentError: 1 of 3; no Node can carry 1.1.1.2: 2 AtCapacity; 1 not allocated",
        ]
    );
    let row = egress("web", true, vec![item("p", "", "1.1.1.2"), item("q", "2.2.2.2", "")]);
    let both = vec![placed("1.1.1.2", "web", "node-b"), placed("2.2.2.2", "web", "node-a")];
    assert_eq!(
        told(&status_of(row, both).conditions),
        [
            "IPAllocated True Allocated: 2 of 2",
            "IPAssigned True Assigned: decided for Nodes node-b, node-a, not confirmed by an agent",
        ]
    );
}

#[test]
fn a_plural_form_without_any_address_names_none() {
    let mut first = item("p", "", "");
    first.waiting = Some((5, Waiting::UnknownPool { pools: Vec::new() }));
    let spec = egress_spec(&egress("web", true, vec![first.clone(), first]));
    assert_eq!((spec.egress_ips.len(), spec.external_ip_pools.len()), (0, 2));
}
