//! Each rule of translation, object by object.

use holdfast_statemachine::command::{
    Contiguity, Grant, Operator, Owner, OwnerRef, PodOwner, RangeSpec, ReleaseGrant, Requirement, Retention,
    StatefulSetId, Subnet,
};
use holdfast_statemachine::{Action, Name, PoolKind};

use super::*;
use crate::objects::Object;
use crate::translate::member;

const POOLS: &str = "ipam.antrea.io/ippools";

#[test]
fn the_templates_pools_win_whole_over_the_namespaces() {
    let cases = [
        ("", "", &[][..]),
        ("ipam.antrea.io/ippools: 'ns-a,ns-b'", "", &["ns-a", "ns-b"]),
        ("ipam.antrea.io/ippools: 'ns-a,ns-b'", "ipam.antrea.io/ippools: ' own , '", &["own"]),
        ("ipam.antrea.io/ippools: ns-a", "ipam.antrea.io/ippools: ''", &[]),
        ("other: x", "ipam.antrea.io/ippools: 'b,a'", &["b", "a"]),
    ];
    for (of_namespace, of_template, expected) in cases {
        let text = namespace(of_namespace) + &set("", of_template, "");
        assert_eq!(reserve(&text).spec.pools, names(expected), "{of_namespace} / {of_template}");
    }
}

#[test]
fn the_namespace_counts_wherever_it_stands() {
    let annotation = format!("{POOLS}: late");
    let text = set("", "", "") + &namespace(&annotation);
    assert_eq!(reserve(&text).spec.pools, names(&["late"]));
    let elsewhere = namespace(&annotation).replace("name: db", "name: other");
    assert_eq!(reserve(&(set("", "", "") + &elsewhere)).spec.pools, names(&[]));
}

#[test]
fn what_is_not_said_is_the_default() {
    let spec = reserve(&set("", &format!("{POOLS}: a"), "")).spec;
    assert_eq!((spec.start, spec.replicas, spec.headroom, spec.settled), (0, 1, 0, true));
    assert_eq!(spec.contiguity, Contiguity::Preferred);
    assert_eq!((spec.when_scaled, spec.when_deleted), (Retention::Retain, Retention::Release));
    assert_eq!(spec.fixed, Vec::<std::net::IpAddr>::new());
}

#[test]
fn options_stand_on_the_set_itself() {
    let own = "holdfast.dev/headroom: '3', holdfast.dev/contiguous: required, holdfast.dev/when-scaled: 10m, \
               holdfast.dev/when-deleted: 7d";
    let spec = reserve(&set(own, "ipam.antrea.io/ippools: a", "  replicas: 4\n  ordinals: {start: 5}")).spec;
    assert_eq!((spec.start, spec.replicas, spec.headroom), (5, 4, 3));
    assert_eq!(spec.contiguity, Contiguity::Required);
    assert_eq!((spec.when_scaled, spec.when_deleted), (Retention::After(600_000), Retention::After(604_800_000)));
    let text = set("holdfast.dev/headrom: '3'", "holdfast.dev/headroom: '3'", "");
    assert_eq!(reserve(&text).spec.headroom, 0);
    assert_eq!(
        notes(&text),
        [
            "StatefulSet db/pg: annotation holdfast.dev/headrom is not one that is read on a StatefulSet",
            "StatefulSet db/pg: annotation holdfast.dev/headroom is read on the StatefulSet itself, not on its Pod template",
        ]
    );
}

#[test]
fn fixed_addresses_are_the_templates_alone() {
    let fixed = "ipam.antrea.io/pod-ips: ' 10.0.0.5,,fd00::5 '";
    let spec = reserve(&(namespace(fixed) + &set("", fixed, ""))).spec;
    assert_eq!(spec.fixed, ["10.0.0.5", "fd00::5"].map(|ip| ip.parse::<std::net::IpAddr>().expect("is one")));
    assert_eq!(reserve(&(namespace(fixed) + &set("", "", ""))).spec.fixed, Vec::<std::net::IpAddr>::new());
}

#[test]
fn a_set_on_its_nodes_network_reserves_nothing() {
    let own = "ipam.antrea.io/ippools: a, ipam.antrea.io/pod-ips: 10.0.0.5";
    let text = namespace(&format!("{POOLS}: b")) + &set("", own, "    spec: {hostNetwork: true}\n  replicas: 2");
    let spec = reserve(&text).spec;
    assert_eq!((spec.pools, spec.fixed.len(), spec.replicas), (names(&[]), 0, 2));
}

#[test]
fn a_set_is_settled_when_its_revisions_agree_and_the_controller_has_seen_its_template() {
    let cases = [
        ("", true),
        ("status: null", true),
        ("status: {replicas: 3}", true),
        ("status: {currentRevision: a, updateRevision: a}", true),
        ("status: {currentRevision: a, updateRevision: b}", false),
        ("status: {updateRevision: b}", false),
        ("status: {currentRevision: a, updateRevision: a, observedGeneration: 6}", false),
        ("status: {currentRevision: a, updateRevision: a, observedGeneration: 7}", true),
        ("status: {currentRevision: a, updateRevision: b, observedGeneration: 7}", false),
    ];
    for (status, settled) in cases {
        let text = set("", "", status).replace("name: pg", "name: pg\n  generation: 7");
        assert_eq!(reserve(&text).spec.settled, settled, "{status}");
    }
}

#[test]
fn a_uid_that_is_missing_is_the_name() {
    assert_eq!(&*reserve(&set("", "", "")).uid, "db/pg");
    assert_eq!(&*put_node(&node("", "")).uid, "node");
    let text = set("", "", "").replace("name: pg", "name: pg\n  uid: 12-34");
    assert_eq!(&*reserve(&text).uid, "12-34");
    let text = set("", "", "").replace("namespace: db\n", "uid: ''\n");
    assert_eq!(&*reserve(&text).uid, "default/pg");
}

#[test]
fn a_sets_pod_is_bound_to_the_ordinal_of_its_name() {
    let grant = |pools: &[&str]| {
        let owner = Owner::Pod(PodOwner {
            namespace: "db".into(),
            name: "pg-11".into(),
            uid: "db/pg-11".into(),
            container_id: None,
            interface: None,
            ordinal: Some((StatefulSetId { namespace: "db".into(), name: "pg".into() }, 11)),
        });
        vec![Action::Grant(Grant { owner, kind: PoolKind::IpPool, pools: names(pools), addresses: Vec::new() })]
    };
    let of_namespace = namespace(&format!("{POOLS}: b"));
    let own = format!("{POOLS}: a");
    let set = "StatefulSet, name: pg";
    assert_eq!(actions(&pod("pg-11", &own, set, "")), grant(&["a"]));
    assert_eq!(actions(&(pod("pg-11", &own, set, "") + &of_namespace)), grant(&["a"]));
    assert_eq!(actions(&(pod("pg-11", "", set, "") + &of_namespace)), grant(&["b"]));
    assert_eq!(actions(&pod("pg-11", &own, set, "status: {phase: Pending}")), grant(&["a"]));
    let deleting =
        pod("pg-11", &own, set, "").replace("name: pg-11", "name: pg-11, deletionTimestamp: 2026-01-01T00:00:00Z");
    assert_eq!(actions(&deleting), grant(&["a"]));
}

#[test]
fn a_pod_that_draws_from_no_pool_or_is_no_sets_yields_nothing() {
    let own = format!("{POOLS}: a");
    let set = "StatefulSet, name: pg";
    let mut not_controlled = pod("pg-1", &own, set, "");
    not_controlled = not_controlled.replace("controller: true", "controller: false");
    let other_group = pod("pg-1", &own, set, "").replace("apps/v1", "apps.example/v1");
    for text in [
        pod("pg-1", "", set, ""),
        pod("pg-1", "ipam.antrea.io/ippools: ''", set, "") + &namespace("ipam.antrea.io/ippools: b"),
        pod("pg-1", &own, set, "spec: {hostNetwork: true}"),
        pod("pg-1", &own, set, "spec: {hostNetwork: true}\nstatus: {phase: Failed}"),
        pod("pg-1", &own, "", ""),
        pod("pg-1", &own, "ReplicaSet, name: pg", ""),
        not_controlled,
        other_group,
    ] {
        assert_eq!(actions(&text), Vec::<Action>::new(), "{text}");
    }
    for name in ["pg-01", "pg-x", "pg", "pg-4294967296", "other-1"] {
        let text = pod(name, &own, set, "");
        assert_eq!(actions(&text), Vec::<Action>::new(), "{text}");
        let note = format!("Pod db/{name}: belongs to StatefulSet pg, but is not named pg-<ordinal>: passed over");
        assert_eq!(notes(&text), [note]);
    }
}

#[test]
fn a_pod_that_is_done_is_released_whoever_owns_it() {
    let owner = OwnerRef::Pod("db".into(), "pg-0".into());
    let release = Action::ReleaseGrant(ReleaseGrant { owner, uid: "db/pg-0".into(), revision: None });
    for phase in ["Succeeded", "Failed"] {
        for owner in ["StatefulSet, name: pg", ""] {
            let text = pod("pg-0", "", owner, &format!("status: {{phase: {phase}}}"));
            assert_eq!(actions(&text), std::slice::from_ref(&release), "{text}");
        }
    }
}

#[test]
fn a_node_is_ready_unless_its_condition_says_otherwise() {
    let cases = [
        ("", true),
        ("status: {conditions: []}", true),
        ("status: {conditions: [{type: DiskPressure, status: 'True'}]}", true),
        ("status: {conditions: [{type: DiskPressure, status: 'False'}, {type: Ready, status: 'True'}]}", true),
        ("status: {conditions: [{type: Ready, status: 'False'}]}", false),
        ("status: {conditions: [{type: Ready, status: Unknown}]}", false),
    ];
    for (status, ready) in cases {
        assert_eq!(put_node(&node("", status)).ready, ready, "{status}");
    }
}

#[test]
fn a_nodes_capacity_is_an_integer_or_the_default() {
    for (value, capacity) in [("5", Some(5)), ("0", Some(0)), ("-3", Some(-3)), ("1000", Some(1000)), ("+7", Some(7))] {
        let text = node(&format!("node.antrea.io/max-egress-ips: '{value}'"), "");
        assert_eq!(put_node(&text).capacity, capacity, "{value}");
        assert_eq!(notes(&text).len(), 0);
    }
    assert_eq!(put_node(&node("", "")).capacity, None);
    for value in ["many", "1.5", "", " 5", "99999999999999999999"] {
        let text = node(&format!("node.antrea.io/max-egress-ips: '{value}'"), "");
        assert_eq!(put_node(&text).capacity, None, "{value}");
        assert!(notes(&text)[0].contains(&format!("{value:?} is not an integer")), "{:?}", notes(&text));
    }
}

#[test]
fn a_nodes_labels_are_kept() {
    let text = node("", "").replace("name: node", "name: node, labels: {kubernetes.io/os: linux, zone: a}");
    let labels = put_node(&text).labels;
    assert_eq!(labels, [("kubernetes.io/os", "linux"), ("zone", "a")].map(|(k, v)| (Name::from(k), v.into())).into());
}

#[test]
fn a_pool_is_put_as_written() {
    let spec = "ipRanges: [{cidr: 10.0.0.0/24}, {start: 10.0.1.5, end: 10.0.1.9}], \
                subnetInfo: {gateway: 10.0.0.1, prefixLength: 16, vlan: 7}";
    let pool = put_pool(&ip_pool("holdfast.dev/cool-down: 90s", spec));
    let ranges = vec![RangeSpec::Cidr("10.0.0.0/24".into()), RangeSpec::StartEnd("10.0.1.5".into(), "10.0.1.9".into())];
    assert_eq!(pool.ranges, ranges);
    assert_eq!(pool.subnet, Some(Subnet { gateway: "10.0.0.1".into(), prefix_length: 16, vlan: Some(7) }));
    assert_eq!((pool.cool_down, pool.pool.kind), (90_000, PoolKind::IpPool));
}

#[test]
fn an_external_pool_selects_nodes() {
    let pool = put_pool(&external_pool("ipRanges: [{cidr: 1.1.1.0/30}], nodeSelector: {}"));
    assert_eq!((pool.subnet, pool.node_selector, pool.cool_down), (None, <_>::default(), 0));
    let selector = "matchLabels: {zone: a}, matchExpressions: [{key: k, operator: In, values: [x, w]}, \
                    {key: k, operator: NotIn, values: [z]}, {key: l, operator: Exists}, \
                    {key: m, operator: DoesNotExist, values: []}]";
    let spec = format!("ipRanges: [{{cidr: 1.1.1.0/30}}], nodeSelector: {{{selector}}}");
    let selector = put_pool(&external_pool(&spec)).node_selector;
    let requirement =
        |key: &str, operator, values: &[&str]| Requirement { key: key.into(), operator, values: names(values) };
    assert_eq!(selector.match_labels, [("zone".into(), "a".into())].into());
    assert_eq!(
        selector.match_expressions,
        [
            requirement("k", Operator::In, &["x", "w"]),
            requirement("k", Operator::NotIn, &["z"]),
            requirement("l", Operator::Exists, &[]),
            requirement("m", Operator::DoesNotExist, &[]),
        ]
    );
}

#[test]
fn a_pod_asked_for_by_name_is_bound_if_it_may_use_what_its_ordinal_holds() {
    let id = StatefulSetId { namespace: "db".into(), name: "pg".into() };
    let own = format!("{POOLS}: a");
    let runs = "status: {phase: Running, podIPs: [{ip: 10.0.0.5}]}";
    let elsewhere = runs.replace("10.0.0.5", "10.0.0.6");
    let set = "StatefulSet, name: pg";
    let cases = [
        ("its StatefulSet's", pod("pg-1", &own, set, ""), Some(&["a"][..])),
        ("nobody's any more", pod("pg-1", &own, "", ""), Some(&["a"])),
        (
            "in a Namespace with pools",
            pod("pg-1", "", "", "") + &namespace(&format!("{POOLS}: 'b,c'")),
            Some(&["b", "c"]),
        ),
        ("runs with it, whatever is said now", pod("pg-1", "", set, runs), Some(&["held"])),
        ("runs with it, and draws from another", pod("pg-1", &own, set, runs), Some(&["held", "a"])),
        ("another's by now, and runs with it", pod("pg-1", &own, "ReplicaSet, name: pg", runs), Some(&["held"])),
        ("draws from no pool", pod("pg-1", "", set, ""), None),
        ("runs with another", pod("pg-1", "", set, &elsewhere), None),
        ("another's", pod("pg-1", &own, "ReplicaSet, name: pg", &elsewhere), None),
        ("another StatefulSet's", pod("pg-1", &own, "StatefulSet, name: p", ""), None),
        ("done", pod("pg-1", &own, set, "status: {phase: Succeeded}"), None),
        ("on its Node's network", pod("pg-1", &own, set, "spec: {hostNetwork: true}"), None),
    ];
    for (what, text, expected) in cases {
        let manifests = read_text("x.yaml", &text).expect("it reads");
        let mut namespace = None;
        let mut asked = None;
        for object in manifests.objects() {
            match object {
                Object::Namespace(it) => namespace = Some(it),
                it => asked = Some(it),
            }
        }
        let held = [("10.0.0.5".parse().expect("is one"), "held".into())].into();
        let action = member(asked.expect("a Pod"), namespace, (id.clone(), 1), &held);
        let pools = action.map(|action| match action {
            Action::Grant(Grant { owner: Owner::Pod(PodOwner { ordinal, .. }), pools, .. }) => {
                assert_eq!(ordinal, Some((id.clone(), 1)), "{what}");
                pools
            }
            other => panic!("{what}: {other:?}"),
        });
        assert_eq!(pools, expected.map(names), "{what}");
    }
}
