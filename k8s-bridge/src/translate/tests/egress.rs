//! An Egress's two forms.

use holdfast_statemachine::command::EgressItem;

use super::*;

fn items(spec: &str) -> (bool, Vec<EgressItem>) {
    let put = put_egress(&egress_of(spec));
    (put.plural, put.items)
}

fn item(pool: &str, address: &str) -> EgressItem {
    EgressItem {
        pool: (!pool.is_empty()).then(|| pool.into()),
        address: (!address.is_empty()).then(|| address.parse().expect("is an address")),
    }
}

#[test]
fn the_singular_form_is_one_item() {
    assert_eq!(items("egressIP: 1.1.1.1"), (false, vec![item("", "1.1.1.1")]));
    assert_eq!(items("egressIP: 1.1.1.1, externalIPPool: ''"), (false, vec![item("", "1.1.1.1")]));
    assert_eq!(items("externalIPPool: p"), (false, vec![item("p", "")]));
    assert_eq!(items("externalIPPool: p, egressIP: null, egressIPs: []"), (false, vec![item("p", "")]));
    assert_eq!(items("egressIP: 'fd00::1', externalIPPool: p"), (false, vec![item("p", "fd00::1")]));
}

#[test]
fn the_plural_form_pairs_addresses_with_pools() {
    let both = vec![item("p", ""), item("q", "")];
    assert_eq!(items("externalIPPools: [p, q]"), (true, both.clone()));
    assert_eq!(items("externalIPPools: [p, q], egressIPs: ['', '']"), (true, both));
    let second = vec![item("p", ""), item("q", "1.1.1.2")];
    assert_eq!(items("externalIPPools: [p, q], egressIPs: ['', 1.1.1.2]"), (true, second));
    let first = vec![item("p", "1.1.1.1"), item("q", "")];
    assert_eq!(items("externalIPPools: [p, q], egressIPs: [1.1.1.1]"), (true, first));
    let fixed = vec![item("", "1.1.1.1"), item("", "fd00::1")];
    assert_eq!(items("egressIPs: [1.1.1.1, 'fd00::1']"), (true, fixed));
}

#[test]
fn a_creation_timestamp_is_kept_in_seconds() {
    let text = egress_of("egressIP: 1.1.1.1");
    assert_eq!(put_egress(&text).created, None);
    let text = text.replace("name: e", "name: e, creationTimestamp: 2026-01-02T03:04:05Z");
    assert_eq!(put_egress(&text).created, Some(1_767_323_045));
}

#[test]
fn the_rest_is_kept_as_text() {
    let text = egress_of("egressIP: 1.1.1.1, bandwidth: {burst: 2M, rate: 1M}").replace(
        "appliedTo: {}",
        "appliedTo: {podSelector: {matchLabels: {b: x, a: x}}, namespaceSelector: {matchExpressions: [{key: k, operator: Exists}]}}",
    );
    assert_eq!(
        &*put_egress(&text).rest,
        r#"{"appliedTo":{"podSelector":{"matchLabels":{"a":"x","b":"x"}},"namespaceSelector":{"matchExpressions":[{"key":"k","operator":"Exists"}]}},"bandwidth":{"rate":"1M","burst":"2M"}}"#
    );
}

#[test]
fn each_wrong_form_is_refused_by_field() {
    let seventeen = (0..17).map(|i| format!("1.1.1.{i}")).collect::<Vec<_>>().join(", ");
    let seventeen = format!("egressIPs: [{seventeen}]");
    let long = format!("egressIP: 1.1.1.1, bandwidth: {{rate: '{}', burst: 1M}}", "9".repeat(16 * 1024));
    let cases = [
        ("egressIP: null", "spec.egressIP | nothing | one of egressIP, externalIPPool, egressIPs and"),
        ("externalIPPool: ''", "spec.egressIP | nothing | one of"),
        ("egressIP: ''", r#"spec.egressIP | "" | an IPv4 or IPv6 address"#),
        ("egressIP: 1.1.1.256", r#"spec.egressIP | "1.1.1.256" | an IPv4 or IPv6 address"#),
        ("egressIP: 1.1.1.1, egressIPs: [1.1.1.2]", r#"spec.egressIP | "1.1.1.1" | nothing, beside egressIPs"#),
        ("egressIP: 1.1.1.1, externalIPPools: [p]", r#"spec.egressIP | "1.1.1.1" | nothing, beside"#),
        ("externalIPPool: p, externalIPPools: [q]", r#"spec.externalIPPool | "p" | nothing, beside"#),
        ("externalIPPool: p, egressIPs: [1.1.1.1]", r#"spec.externalIPPool | "p" | nothing, beside"#),
        ("egressIPs: ['']", r#"spec.egressIPs[0] | "" | an IPv4 or IPv6 address"#),
        ("egressIPs: [1.1.1.1, x]", r#"spec.egressIPs[1] | "x" | an IPv4 or IPv6 address"#),
        ("egressIPs: [1.1.1.1, 1.1.1.1]", r#"spec.egressIPs[1] | "1.1.1.1" | each address once"#),
        ("externalIPPools: [p], egressIPs: [1.1.1.1, 1.1.1.2]", r#"spec.egressIPs[1] | "1.1.1.2" | at most one"#),
        ("externalIPPools: [p, p]", r#"spec.externalIPPools[1] | "p" | each pool once"#),
        ("externalIPPools: [p, '']", r#"spec.externalIPPools[1] | "" | the name of an ExternalIPPool"#),
        ("externalIPPools: [p, q], egressIPs: ['', x]", r#"spec.egressIPs[1] | "x" | an IPv4 or IPv6 address"#),
        ("egressIP: 1.1.1.1, bandwidth: {rate: 1M}", "spec.bandwidth.burst | nothing | it is required"),
        ("egressIP: 5", "spec.egressIP | 5 | a string, in quotes"),
        (&seventeen, r#"spec.egressIPs | "17 items" | at most 16 items"#),
        (&long, r#"spec.appliedTo | "{\"appliedTo\":"#),
    ];
    for (spec, expected) in cases {
        let found = problems(&egress_of(spec));
        assert_eq!(found.len(), 1, "{spec}: {found:#?}");
        assert!(found[0].starts_with(expected), "{spec}: {}\n  should begin with {expected}", found[0]);
    }
}
