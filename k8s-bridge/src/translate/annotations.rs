//! The annotations that are read, and what each may hold.
//!
//! | annotation | on | value |
//! |---|---|---|
//! | `ipam.antrea.io/ippools` | Pod template, Pod, Namespace | pool names, comma-separated, in order of preference |
//! | `ipam.antrea.io/pod-ips` | Pod template | addresses, comma-separated; the i-th of a family is ordinal start + i's |
//! | `holdfast.dev/headroom` | StatefulSet | 0..=65536 |
//! | `holdfast.dev/contiguous` | StatefulSet | `required` or `preferred` (default) |
//! | `holdfast.dev/when-scaled` | StatefulSet | `retain` (default), `release` or a [duration] |
//! | `holdfast.dev/when-deleted` | StatefulSet | `release` (default) or a duration |
//! | `holdfast.dev/cool-down` | IPPool, ExternalIPPool | a duration |
//! | `node.antrea.io/max-egress-ips` | Node | an integer; anything else is as if it were not there |
//!
//! In the lists, spaces around an item are dropped and empty items skipped. The Pod template's (or the Pod's) list
//! of pools wins whole over the Namespace's, also when it is empty: an empty one draws from no pool.

use std::collections::BTreeSet;
use std::net::IpAddr;

use holdfast_statemachine::command::{Contiguity, Retention};
use holdfast_statemachine::{Millis, Name};

use super::duration;
use crate::objects::Kind;

/// Pools that Pods draw from.
pub const POOLS: &str = "ipam.antrea.io/ippools";
/// Fixed addresses.
pub const FIXED: &str = "ipam.antrea.io/pod-ips";
/// Egress addresses that a Node may carry.
pub const CAPACITY: &str = "node.antrea.io/max-egress-ips";
/// What all annotations of Holdfast's own begin with.
pub const OURS: &str = "holdfast.dev/";
/// Addresses kept open behind a block.
pub const HEADROOM: &str = "holdfast.dev/headroom";
/// Whether scattered addresses will do.
pub const CONTIGUOUS: &str = "holdfast.dev/contiguous";
/// What becomes of the addresses of ordinals that are scaled away.
pub const WHEN_SCALED: &str = "holdfast.dev/when-scaled";
/// What becomes of a deleted StatefulSet's addresses.
pub const WHEN_DELETED: &str = "holdfast.dev/when-deleted";
/// How long a freed address is kept from others.
pub const COOL_DOWN: &str = "holdfast.dev/cool-down";

/// The most addresses of headroom.
pub const HEADROOM_MAX: u32 = 65_536;

/// Whether any rule reads an annotation of this name.
pub fn is_read(name: &str) -> bool {
    [POOLS, FIXED, CAPACITY].contains(&name) || name.starts_with(OURS)
}
pub(super) const NAME_ALLOWED: &str =
    "lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit, at most 253";

/// Why an annotation, or one item of it, cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The value or the item.
    pub value: String,
    /// What would be allowed.
    pub allowed: String,
}

impl Fault {
    fn new(value: &str, allowed: impl Into<String>) -> Fault {
        Fault { value: value.to_owned(), allowed: allowed.into() }
    }
}

/// The path of an annotation below `metadata` or a template's.
pub(super) fn field(at: &str, key: &str) -> String {
    format!("{at}.annotations[{key}]")
}

/// The annotations of ours that are read on objects of a kind.
pub(super) fn read_on(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::IpPool | Kind::ExternalIpPool => &[COOL_DOWN],
        Kind::StatefulSet => &[HEADROOM, CONTIGUOUS, WHEN_SCALED, WHEN_DELETED],
        Kind::Namespace | Kind::Node | Kind::Pod | Kind::Egress => &[],
    }
}

/// Whether the Kubernetes API would take it as the name of an object that has any (a DNS-1123 subdomain).
pub(super) fn is_object_name(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let label =
        |label: &str| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && label.bytes().all(inner);
    name.len() <= 253 && name.split('.').all(label)
}

fn items(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// A list of pool names, each once.
pub fn pools(value: &str) -> Result<Vec<Name>, Fault> {
    let mut seen = BTreeSet::new();
    let name = |item| {
        if !is_object_name(item) {
            return Err(Fault::new(item, format!("names of IPPools, comma-separated: {NAME_ALLOWED}")));
        }
        if !seen.insert(item) {
            return Err(Fault::new(item, "each pool once"));
        }
        Ok(item.into())
    };
    items(value).map(name).collect()
}

/// A list of addresses, each once.
pub fn fixed(value: &str) -> Result<Vec<IpAddr>, Fault> {
    let mut seen = BTreeSet::new();
    let address = |item: &str| {
        let Ok(address) = item.parse::<IpAddr>() else {
            return Err(Fault::new(item, "IPv4 or IPv6 addresses, comma-separated"));
        };
        if !seen.insert(address) {
            return Err(Fault::new(item, "each address once"));
        }
        Ok(address)
    };
    items(value).map(address).collect()
}

/// How many addresses to keep open behind a block.
pub fn headroom(value: &str) -> Result<u32, Fault> {
    let number = value.parse().ok().filter(|number| *number <= HEADROOM_MAX);
    number.ok_or_else(|| Fault::new(value, format!("an integer of 0..={HEADROOM_MAX}")))
}

/// Whether a block is required.
pub fn contiguous(value: &str) -> Result<Contiguity, Fault> {
    match value {
        "required" => Ok(Contiguity::Required),
        "preferred" => Ok(Contiguity::Preferred),
        _ => Err(Fault::new(value, "required or preferred")),
    }
}

/// What becomes of the addresses of ordinals that are scaled away.
pub fn when_scaled(value: &str) -> Result<Retention, Fault> {
    match value {
        "retain" => Ok(Retention::Retain),
        "release" => Ok(Retention::Release),
        _ => after(value, "retain, release or "),
    }
}

/// What becomes of a deleted StatefulSet's addresses.
pub fn when_deleted(value: &str) -> Result<Retention, Fault> {
    match value {
        "release" => Ok(Retention::Release),
        _ => after(value, "release or "),
    }
}

fn after(value: &str, else_allowed: &str) -> Result<Retention, Fault> {
    let millis = duration::parse(value);
    millis.map(Retention::After).ok_or_else(|| Fault::new(value, format!("{else_allowed}{}", duration::ALLOWED)))
}

/// How long a freed address is kept from others, in milliseconds.
pub fn cool_down(value: &str) -> Result<Millis, Fault> {
    duration::parse(value).ok_or_else(|| Fault::new(value, duration::ALLOWED))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults<T: std::fmt::Debug>(read: fn(&str) -> Result<T, Fault>, cases: &[(&str, &str, &str)]) {
        for (value, item, allowed) in cases {
            let fault = read(value).expect_err(value);
            assert_eq!(fault.value, *item, "{value:?}");
            assert!(fault.allowed.contains(allowed), "{value:?}: {}", fault.allowed);
        }
    }

    #[test]
    fn pools_are_names_in_order() {
        for (value, names) in [
            ("a", vec!["a"]),
            (" b , a ", vec!["b", "a"]),
            ("a,,b,", vec!["a", "b"]),
            ("", vec![]),
            (" , ", vec![]),
            ("v4.pool-1", vec!["v4.pool-1"]),
        ] {
            assert_eq!(pools(value).expect(value), names.into_iter().map(Name::from).collect::<Vec<_>>());
        }
        let long = "a".repeat(254);
        faults(
            pools,
            &[
                ("a,A", "A", "lower-case"),
                ("a b", "a b", "lower-case"),
                ("-a", "-a", "lower-case"),
                ("a..b", "a..b", "lower-case"),
                (&long, &long, "at most 253"),
                ("a, b, a", "a", "once"),
            ],
        );
    }

    #[test]
    fn fixed_addresses_are_of_either_family() {
        let addresses = fixed(" 10.0.0.5, 2001:db8::5,,10.0.0.6 ").expect("reads");
        assert_eq!(
            addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["10.0.0.5", "2001:db8::5", "10.0.0.6"]
        );
        assert_eq!(fixed("").expect("reads"), Vec::<IpAddr>::new());
        faults(
            fixed,
            &[
                ("10.0.0.5,10.0.0.256", "10.0.0.256", "IPv4 or IPv6"),
                ("10.0.0.5/24", "10.0.0.5/24", "IPv4 or IPv6"),
                ("::1,0::1", "0::1", "once"),
            ],
        );
    }

    #[test]
    fn headroom_is_a_bounded_integer() {
        assert_eq!(headroom("0"), Ok(0));
        assert_eq!(headroom("65536"), Ok(65_536));
        faults(headroom, &[("-1", "-1", "0..=65536"), ("65537", "65537", "0..=65536"), ("", "", "0..=65536")]);
        faults(headroom, &[("3 ", "3 ", "integer"), ("1.5", "1.5", "integer")]);
    }

    #[test]
    fn contiguous_is_required_or_preferred() {
        assert_eq!(contiguous("required"), Ok(Contiguity::Required));
        assert_eq!(contiguous("preferred"), Ok(Contiguity::Preferred));
        faults(contiguous, &[("Required", "Required", "required or preferred"), ("true", "true", "required or")]);
    }

    #[test]
    fn retention_is_a_word_or_a_duration() {
        assert_eq!(when_scaled("retain"), Ok(Retention::Retain));
        assert_eq!(when_scaled("release"), Ok(Retention::Release));
        assert_eq!(when_scaled("10m"), Ok(Retention::After(600_000)));
        assert_eq!(when_deleted("release"), Ok(Retention::Release));
        assert_eq!(when_deleted("7d"), Ok(Retention::After(604_800_000)));
        faults(when_scaled, &[("keep", "keep", "retain, release or a duration")]);
        faults(when_deleted, &[("retain", "retain", "release or a duration"), ("10", "10", "90s")]);
        assert_eq!(cool_down("90s"), Ok(90_000));
        faults(cool_down, &[("soon", "soon", "a duration")]);
    }
}
