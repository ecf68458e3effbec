//! Each error: field, value, what is allowed.

use super::*;

fn assert_refused(text: &str, expected: &[&str]) {
    let found = problems(text);
    assert_eq!(found.len(), expected.len(), "{text}: {found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}\n  should begin with\n{expected}");
    }
}

#[test]
fn annotations_of_a_set() {
    let own = [
        ("holdfast.dev/headroom: x", r#"headroom] | "x" | an integer of 0..=65536"#),
        ("holdfast.dev/contiguous: maybe", r#"contiguous] | "maybe" | required or preferred"#),
        ("holdfast.dev/when-scaled: soon", r#"when-scaled] | "soon" | retain, release or a duration"#),
        ("holdfast.dev/when-deleted: retain", r#"when-deleted] | "retain" | release or a duration"#),
    ];
    for (annotation, expected) in own {
        assert_refused(&set(annotation, "", ""), &[&format!("metadata.annotations[holdfast.dev/{expected}")]);
    }
    let of_template = [
        ("ipam.antrea.io/ippools: 'a,B'", r#"ippools] | "B" | names of IPPools"#),
        ("ipam.antrea.io/ippools: 'a,a'", r#"ippools] | "a" | each pool once"#),
        ("ipam.antrea.io/pod-ips: '10.0.0.1,x'", r#"pod-ips] | "x" | IPv4 or IPv6 addresses"#),
        ("ipam.antrea.io/pod-ips: '10.0.0.1,10.0.0.1'", r#"pod-ips] | "10.0.0.1" | each address once"#),
    ];
    for (annotation, expected) in of_template {
        let expected = format!("spec.template.metadata.annotations[ipam.antrea.io/{expected}");
        assert_refused(&set("", annotation, ""), &[&expected]);
    }
}

#[test]
fn numbers_of_a_set() {
    assert_refused(&set("", "", "  replicas: 1000001"), &[r#"spec.replicas | "1000001" | 0..=1000000"#]);
    let text = set("", "", "  replicas: 2\n  ordinals: {start: 2147483647}");
    assert_refused(&text, &[r#"spec.ordinals.start | "2147483647" | start + replicas is at most 2147483648"#]);
    assert_eq!(reserve(&set("", "", "  replicas: 1\n  ordinals: {start: 2147483647}")).spec.start, 2_147_483_647);
    assert_refused(&set("", "", "  replicas: '3'"), &[r#"spec.replicas | "3" | u32"#]);
}

#[test]
fn all_problems_of_an_object_are_told() {
    let text = set("holdfast.dev/headroom: x, holdfast.dev/contiguous: x", "ipam.antrea.io/ippools: X", "");
    assert_refused(
        &text,
        &["spec.template", "metadata.annotations[holdfast.dev/headroom", "metadata.annotations[hold"],
    );
}

#[test]
fn a_namespaces_pools_are_told_once_and_of_it() {
    let text =
        namespace("ipam.antrea.io/ippools: 'A'") + &set("", "", "") + &pod("pg-0", "", "StatefulSet, name: pg", "");
    let found = read_text("x.yaml", &text).expect_err("must be refused");
    assert_eq!(found.len(), 1, "{found:#?}");
    // Without the check of each object by itself, as an informer has it: still once, and nothing is planned.
    let read = |yaml: &str| read_text("x.yaml", yaml).expect("reads").objects.remove(0).object;
    let mut bad = read(&namespace("ipam.antrea.io/ippools: 'a'"));
    if let crate::objects::Object::Namespace(namespace) = &mut bad {
        namespace.metadata.annotations.insert("ipam.antrea.io/ippools".into(), "A".into());
    }
    let objects = [bad, read(&set("", "", "")), read(&pod("pg-0", "", "StatefulSet, name: pg", ""))];
    let found = super::super::plan(&objects, &source(), None).expect_err("must be refused");
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].to_string().starts_with("Namespace db: metadata.annotations[ipam.antrea.io/ippools]: \"A\""));
}

#[test]
fn names() {
    for name in ["A", "a_b", "'-a'", "a.", "'a b'"] {
        let text = node("", "").replace("name: node", &format!("name: {name}"));
        let found = problems(&text);
        assert!(found[0].starts_with("metadata.name | ") && found[0].contains("lower-case letters"), "{found:?}");
    }
    let text = set("", "", "").replace("namespace: db", "namespace: D");
    assert_refused(&text, &[r#"metadata.namespace | "D" | lower-case"#]);
}

#[test]
fn ranges() {
    let subnet = "subnetInfo: {gateway: 10.0.0.1, prefixLength: 24}";
    let cases = [
        ("ipRanges: []", "spec.ipRanges | nothing | at least one range"),
        ("ipRanges: [{}]", "spec.ipRanges[0] | nothing | either cidr, or start and end"),
        ("ipRanges: [{cidr: a, start: b}]", r#"spec.ipRanges[0].cidr | "a" | either cidr, or start and end, not both"#),
        ("ipRanges: [{cidr: a}, {start: b}]", "spec.ipRanges[1].end | nothing | either cidr"),
        ("ipRanges: [{end: b}]", "spec.ipRanges[0].start | nothing | either cidr"),
    ];
    for (ranges, expected) in cases {
        assert_refused(&ip_pool("", &format!("{ranges}, {subnet}")), &[expected]);
        assert_refused(&external_pool(&format!("{ranges}, nodeSelector: {{}}")), &[expected]);
    }
    let of_ledger = [
        ("ipRanges: [{cidr: 10.0.0.0/24}, {cidr: 10.0.0.0/33}]", r#"spec.ipRanges[1].cidr | "10.0.0.0/33""#),
        ("ipRanges: [{start: 10.0.0.9, end: 10.0.0.5}]", "spec.ipRanges[0]"),
        ("ipRanges: [{start: 10.0.0.9, end: x}]", r#"spec.ipRanges[0].end | "x""#),
    ];
    for (ranges, expected) in of_ledger {
        assert_refused(&ip_pool("", &format!("{ranges}, {subnet}")), &[expected]);
    }
    let range = "ipRanges: [{cidr: 10.0.0.0/24}]";
    assert_refused(&ip_pool("", range), &["spec.subnetInfo | nothing | an IPPool has"]);
    assert_refused(
        &ip_pool("", &format!("{range}, subnetInfo: {{gateway: a}}")),
        &["spec.subnetInfo.prefixLength | nothing"],
    );
    assert_refused(&external_pool(range), &["spec.nodeSelector | nothing | it is required"]);
    let text = ip_pool("holdfast.dev/cool-down: x", &format!("ipRanges: [{{cidr: x}}], {subnet}"));
    let cool_down = r#"metadata.annotations[holdfast.dev/cool-down] | "x" | a duration"#;
    assert_refused(&text, &[cool_down, r#"spec.ipRanges[0].cidr | "x""#]);
}

#[test]
fn selectors() {
    let cases = [
        ("{key: k, operator: in, values: [a]}", r#"[0].operator | "in" | In, NotIn, Exists or DoesNotExist"#),
        ("{key: k, operator: In}", "[0].values | nothing | In needs at least one value"),
        ("{key: k, operator: NotIn, values: []}", "[0].values | nothing | NotIn needs"),
        ("{key: k, operator: Exists, values: [a]}", r#"[0].values[0] | "a" | Exists takes no values"#),
        ("{key: '', operator: Exists}", r#"[0].key | "" | the name of a label"#),
        ("{operator: Exists}", "[0].key | nothing | it is required"),
    ];
    for (expression, expected) in cases {
        let selector = format!("{{matchExpressions: [{expression}]}}");
        let text = external_pool(&format!("ipRanges: [{{cidr: 1.1.1.0/30}}], nodeSelector: {selector}"));
        assert_refused(&text, &[&format!("spec.nodeSelector.matchExpressions{expected}")]);
        let text = egress_of("egressIP: 1.1.1.1")
            .replace("{appliedTo: {}", &format!("{{appliedTo: {{podSelector: {selector}}}"));
        assert_refused(&text, &[&format!("spec.appliedTo.podSelector.matchExpressions{expected}")]);
    }
}
