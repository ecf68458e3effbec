use std::net::IpAddr;

use super::{family, gateway, usable, usable_in};
use crate::adopt::Mode;
use crate::command::{PutPool, RangeSpec, Selector, Subnet};
use crate::outcome::Rejection;
use crate::row::{PoolId, PoolKind};
use crate::{Family, Range};

use PoolKind::{ExternalIpPool, IpPool};

/// `ranges`: CIDRs and `start-end`. `subnet`: `gateway/prefixLength`, or empty for none.
fn pool(kind: PoolKind, subnet: &str, ranges: &[&str]) -> PutPool {
    let subnet = subnet.rsplit_once('/').map(|(gateway, length)| Subnet {
        gateway: gateway.into(),
        prefix_length: length.parse().expect("a length"),
        vlan: None,
    });
    let range = |text: &&str| match text.split_once('-') {
        Some((start, end)) => RangeSpec::StartEnd(start.into(), end.into()),
        None => RangeSpec::Cidr((*text).into()),
    };
    PutPool {
        pool: PoolId { kind, name: "p".into() },
        uid: "u".into(),
        ranges: ranges.iter().map(range).collect(),
        subnet,
        node_selector: Selector::default(),
        cool_down: 0,
    }
}

fn range(text: &str) -> Range {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let ip = |text: &str| text.parse().expect("an address");
    Range::new(ip(first), ip(last)).expect("a range")
}

fn refusal(put: &PutPool) -> (String, String, String) {
    match usable(put) {
        Err(Rejection::Malformed { field, value, allowed }) => {
            (field.to_string(), value.to_string(), allowed.to_string())
        }
        other => panic!("not malformed: {other:?}"),
    }
}

#[test]
fn usable_addresses() {
    let table: &[(PoolKind, &str, &[&str], &[&str])] = &[
        // The documented cases.
        (IpPool, "10.2.2.1/24", &["10.2.2.100-10.2.2.120"], &["10.2.2.100-10.2.2.120"]),
        (
            IpPool,
            "10.2.2.1/24",
            &["10.2.2.100-10.2.2.101", "10.2.2.0/28"],
            &["10.2.2.100-10.2.2.101", "10.2.2.2-10.2.2.15"],
        ),
        (IpPool, "2001::1/64", &["2001::1000-2001::1000", "2001::/124"], &["2001::1000", "2001::2-2001::f"]),
        (ExternalIpPool, "", &["1.1.1.0/30"], &["1.1.1.1-1.1.1.2"]),
        (ExternalIpPool, "", &["2021:2::aaa0/124"], &["2021:2::aaa1-2021:2::aaaf"]),
        // First and last of a CIDR, by kind, family and size.
        (IpPool, "10.0.1.1/16", &["10.0.0.0/24"], &["10.0.0.1-10.0.0.255"]),
        (IpPool, "10.0.0.1/24", &["10.0.0.0/24"], &["10.0.0.2-10.0.0.254"]),
        (
            IpPool,
            "10.0.0.9/24",
            &["10.0.0.0/25", "10.0.0.128/25"],
            &["10.0.0.1-10.0.0.8", "10.0.0.10-10.0.0.127", "10.0.0.129-10.0.0.255"],
        ),
        (IpPool, "fd00::1/120", &["fd00::/120"], &["fd00::2-fd00::ff"]),
        (ExternalIpPool, "10.0.0.1/16", &["10.0.1.0/24"], &["10.0.1.1-10.0.1.254"]),
        (ExternalIpPool, "10.0.0.1/24", &["10.0.0.0/24"], &["10.0.0.2-10.0.0.254"]),
        (ExternalIpPool, "", &["10.0.0.0-10.0.0.255"], &["10.0.0.0-10.0.0.255"]),
        (ExternalIpPool, "", &["fd00::/120"], &["fd00::1-fd00::ff"]),
        // The smallest networks.
        (IpPool, "10.0.1.1/16", &["10.0.0.8/30"], &["10.0.0.9-10.0.0.11"]),
        (IpPool, "10.0.0.1/30", &["10.0.0.0/30"], &["10.0.0.2"]),
        (IpPool, "10.0.1.1/16", &["10.0.0.8/31"], &["10.0.0.8-10.0.0.9"]),
        (IpPool, "10.0.0.9/31", &["10.0.0.8/31"], &["10.0.0.8"]),
        (IpPool, "10.0.1.1/16", &["10.0.0.8/32"], &["10.0.0.8"]),
        (IpPool, "10.0.0.8/16", &["10.0.0.8/32"], &[]),
        (IpPool, "fd00::1:0/64", &["fd00::8/126"], &["fd00::9-fd00::b"]),
        (IpPool, "fd00::1:0/64", &["fd00::8/127"], &["fd00::8-fd00::9"]),
        (IpPool, "fd00::1:0/64", &["fd00::8/128"], &["fd00::8"]),
        (ExternalIpPool, "", &["10.0.0.8/31"], &["10.0.0.8-10.0.0.9"]),
        (ExternalIpPool, "", &["10.0.0.8/32"], &["10.0.0.8"]),
        (ExternalIpPool, "", &["fd00::8/126"], &["fd00::9-fd00::b"]),
        (ExternalIpPool, "", &["fd00::8/127"], &["fd00::8-fd00::9"]),
        (ExternalIpPool, "", &["fd00::8/128"], &["fd00::8"]),
        // The gateway goes from every range, and may cut it in two or leave nothing of it.
        (IpPool, "10.0.0.5/24", &["10.0.0.1-10.0.0.9"], &["10.0.0.1-10.0.0.4", "10.0.0.6-10.0.0.9"]),
        (IpPool, "10.0.0.1/24", &["10.0.0.1-10.0.0.1", "10.0.0.7-10.0.0.8"], &["10.0.0.7-10.0.0.8"]),
        (ExternalIpPool, "10.0.0.5/24", &["10.0.0.4-10.0.0.5"], &["10.0.0.4"]),
        (ExternalIpPool, "10.0.0.1/24", &["10.0.0.0/30"], &["10.0.0.2"]),
        // Ranges that touch stay two, in the order of the spec.
        (ExternalIpPool, "", &["10.0.0.5-10.0.0.8", "10.0.0.1-10.0.0.4"], &["10.0.0.5-10.0.0.8", "10.0.0.1-10.0.0.4"]),
        // Host bits mean the network.
        (ExternalIpPool, "", &["10.0.0.77/24"], &["10.0.0.1-10.0.0.254"]),
        (ExternalIpPool, "", &["fd00::1234/112"], &["fd00::1-fd00::ffff"]),
        // The largest.
        (ExternalIpPool, "", &["10.0.0.0/8"], &["10.0.0.1-10.255.255.254"]),
        (ExternalIpPool, "", &["0.0.0.0/0"], &["0.0.0.1-255.255.255.254"]),
        (ExternalIpPool, "", &["255.255.255.255/32"], &["255.255.255.255"]),
        (IpPool, "2001:db8::1/64", &["2001:db8::/64"], &["2001:db8::2-2001:db8::ffff:ffff:ffff:ffff"]),
        (ExternalIpPool, "", &["::/0"], &["::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]),
        (IpPool, "8000::/1", &["ffff::/16"], &["ffff::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]),
    ];
    for (kind, subnet, ranges, expected) in table {
        let expected: Vec<Range> = expected.iter().map(|text| range(text)).collect();
        assert_eq!(usable(&pool(*kind, subnet, ranges)), Ok(expected), "{kind:?} {subnet} {ranges:?}");
    }
}

#[test]
fn usable_addresses_beside_antrea() {
    let table: &[(PoolKind, &str, &[&str], &[&str])] = &[
        // The documented cases are the same.
        (IpPool, "10.2.2.1/24", &["10.2.2.100-10.2.2.120"], &["10.2.2.100-10.2.2.120"]),
        (
            IpPool,
            "10.2.2.1/24",
            &["10.2.2.100-10.2.2.101", "10.2.2.0/28"],
            &["10.2.2.100-10.2.2.101", "10.2.2.2-10.2.2.15"],
        ),
        (IpPool, "2001::1/64", &["2001::1000-2001::1000", "2001::/124"], &["2001::1000", "2001::2-2001::f"]),
        (ExternalIpPool, "", &["1.1.1.0/30"], &["1.1.1.1-1.1.1.2"]),
        (ExternalIpPool, "", &["2021:2::aaa0/124"], &["2021:2::aaa1-2021:2::aaaf"]),
        // The broadcast address of a CIDR as large as the subnet.
        (IpPool, "10.0.1.1/16", &["10.0.0.0/24"], &["10.0.0.1-10.0.0.255"]),
        (IpPool, "10.0.0.1/24", &["10.0.0.0/24"], &["10.0.0.2-10.0.0.254"]),
        (IpPool, "fd00::1/120", &["fd00::/120"], &["fd00::2-fd00::ff"]),
        // A CIDR never yields its first address, however small it is.
        (IpPool, "10.0.1.1/16", &["10.0.0.8/31"], &["10.0.0.9"]),
        (IpPool, "10.0.0.9/31", &["10.0.0.8/31"], &[]),
        (IpPool, "10.0.1.1/16", &["10.0.0.8/32"], &[]),
        (IpPool, "fd00::1:0/64", &["fd00::8/127"], &["fd00::9"]),
        (IpPool, "fd00::1:0/64", &["fd00::8/128"], &[]),
        (ExternalIpPool, "", &["10.0.0.8/31"], &[]),
        (ExternalIpPool, "", &["10.0.0.8/32"], &[]),
        (ExternalIpPool, "", &["255.255.255.255/32"], &[]),
        (ExternalIpPool, "", &["ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128"], &[]),
        // The gateway goes from an IPPool's CIDR alone.
        (IpPool, "10.0.0.5/24", &["10.0.0.1-10.0.0.9"], &["10.0.0.1-10.0.0.9"]),
        (IpPool, "10.0.0.9/24", &["10.0.0.8/30"], &["10.0.0.10-10.0.0.11"]),
        (IpPool, "10.0.0.10/24", &["10.0.0.8/30"], &["10.0.0.9", "10.0.0.11"]),
        (ExternalIpPool, "10.0.0.5/24", &["10.0.0.4-10.0.0.5"], &["10.0.0.4-10.0.0.5"]),
        (ExternalIpPool, "10.0.0.1/24", &["10.0.0.0/30"], &["10.0.0.1-10.0.0.2"]),
        // The first 65,536 of a range; what is never given counts among them but for a CIDR's first address.
        (IpPool, "10.0.0.1/8", &["10.0.0.0/8"], &["10.0.0.2-10.1.0.0"]),
        (IpPool, "10.9.0.1/8", &["10.0.0.0/16"], &["10.0.0.1-10.0.255.255"]),
        (IpPool, "10.0.0.1/16", &["10.0.0.0/16"], &["10.0.0.2-10.0.255.254"]),
        (IpPool, "10.9.0.1/8", &["10.0.0.0-10.1.0.9"], &["10.0.0.0-10.0.255.255"]),
        (IpPool, "fd00::1/64", &["fd00::/64"], &["fd00::2-fd00::1:0"]),
        (ExternalIpPool, "", &["::/0"], &["::1-::1:0"]),
        (
            ExternalIpPool,
            "",
            &["ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
            &["ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
        ),
    ];
    for (kind, subnet, ranges, expected) in table {
        let expected: Vec<Range> = expected.iter().map(|text| range(text)).collect();
        assert_eq!(usable_in(Mode::Antrea, &pool(*kind, subnet, ranges)), Ok(expected), "{kind:?} {subnet} {ranges:?}");
    }
}

#[test]
fn totals_of_the_documented_cases() {
    let total = |put: &PutPool| usable(put).expect("well formed").iter().map(|range| range.len()).sum::<u128>();
    assert_eq!(total(&pool(IpPool, "10.2.2.1/24", &["10.2.2.100-10.2.2.120"])), 21);
    assert_eq!(total(&pool(IpPool, "10.2.2.1/24", &["10.2.2.100-10.2.2.101", "10.2.2.0/28"])), 16);
    assert_eq!(total(&pool(IpPool, "2001::1/64", &["2001::1000-2001::1000", "2001::/124"])), 15);
    assert_eq!(total(&pool(ExternalIpPool, "", &["1.1.1.0/30"])), 2);
    assert_eq!(total(&pool(ExternalIpPool, "", &["2021:2::aaa0/124"])), 15);
    // No cap of 65,536 addresses a range.
    assert_eq!(total(&pool(IpPool, "10.0.0.1/8", &["10.0.0.0/8"])), (1 << 24) - 3);
    assert_eq!(total(&pool(IpPool, "fd00::1/64", &["fd00::/64"])), (1 << 64) - 2);
}

fn assert_refused(kind: PoolKind, subnet: &str, ranges: &[&str], [field, value, allowed]: [&str; 3]) {
    let expected = (field.to_owned(), value.to_owned(), allowed.to_owned());
    assert_eq!(refusal(&pool(kind, subnet, ranges)), expected, "{kind:?} {subnet} {ranges:?}");
}

#[test]
fn malformed_subnets() {
    let ranges = &["10.0.0.0/24"];
    for gateway in ["", "x", "10.0.0.1 ", " 10.0.0.1", "10.0.0", "10.0.0.01", "::ffff:10.0.0.1", "fe80::1%eth0"] {
        let refused = ["spec.subnetInfo.gateway", gateway, "an IPv4 or IPv6 address"];
        assert_refused(IpPool, &format!("{gateway}/24"), ranges, refused);
        assert_refused(ExternalIpPool, &format!("{gateway}/24"), ranges, refused);
    }
    for (gateway, most) in [("10.0.0.1", 31), ("fd00::1", 127)] {
        let version = if most == 31 { "IPv4" } else { "IPv6" };
        for length in [0, most + 1, u32::MAX] {
            let (value, allowed) = (length.to_string(), format!("1 to {most} for an {version} gateway"));
            let refused = ["spec.subnetInfo.prefixLength", value.as_str(), allowed.as_str()];
            assert_refused(IpPool, &format!("{gateway}/{length}"), ranges, refused);
        }
    }
}

#[test]
fn malformed_ranges() {
    let address = "an IPv4 or IPv6 address";
    let refused = |ranges: &[&str], refused| assert_refused(ExternalIpPool, "", ranges, refused);
    refused(&[], ["spec.ipRanges", "[]", "at least one range"]);
    refused(&["10.0.0.0/24", "10.0.1.1-"], ["spec.ipRanges[1].end", "", address]);
    refused(&["010.0.0.1-10.0.0.2"], ["spec.ipRanges[0].start", "010.0.0.1", address]);
    refused(&[" 10.0.0.1-10.0.0.2"], ["spec.ipRanges[0].start", " 10.0.0.1", address]);
    refused(&["fe80::1%eth0-fe80::2"], ["spec.ipRanges[0].start", "fe80::1%eth0", address]);
    refused(&["10.0.0.1-::ffff:10.0.0.2"], ["spec.ipRanges[0].end", "::ffff:10.0.0.2", address]);
    let start = "an IPv4 address, as spec.ipRanges[0].start";
    refused(&["10.0.0.1-fd00::1"], ["spec.ipRanges[0].end", "fd00::1", start]);
    let start = "an IPv6 address, as spec.ipRanges[1].start";
    refused(&["fd01::/64", "fd00::1-10.0.0.1"], ["spec.ipRanges[1].end", "10.0.0.1", start]);
    refused(&["10.0.0.2-10.0.0.1"], ["spec.ipRanges[0].end", "10.0.0.1", "10.0.0.2 or above, the start"]);
    let family = "of one family with spec.ipRanges[0].cidr";
    refused(&["10.0.0.0/24", "fd00::/64"], ["spec.ipRanges[1].cidr", "fd00::/64", family]);
}

#[test]
fn ranges_outside_the_subnet() {
    let inside = "inside 10.0.0.0/24, the subnet of the gateway";
    for kind in [IpPool, ExternalIpPool] {
        let refused = |ranges: &[&str], field, value| {
            assert_refused(kind, "10.0.0.1/24", ranges, [field, value, inside]);
        };
        refused(&["10.0.0.0/25", "10.0.0.250-10.0.1.1"], "spec.ipRanges[1]", "10.0.0.250-10.0.1.1");
        refused(&["9.255.255.255-10.0.0.1"], "spec.ipRanges[0]", "9.255.255.255-10.0.0.1");
        refused(&["10.0.0.0/23"], "spec.ipRanges[0].cidr", "10.0.0.0/23");
        refused(&["fd00::/64"], "spec.ipRanges[0].cidr", "fd00::/64");
    }
}

#[test]
fn ranges_that_overlap() {
    let refused = |ranges: &[&str], refused| assert_refused(ExternalIpPool, "", ranges, refused);
    let with_first = "no address of spec.ipRanges[0].cidr, 10.0.0.0/24";
    // As written: the first address of the CIDR is never given, and overlaps all the same.
    let before = "9.255.255.250-10.0.0.0";
    refused(&["10.0.0.0/24", before], ["spec.ipRanges[1]", before, with_first]);
    refused(&["10.0.0.0/24", "10.0.0.7-10.0.0.7"], ["spec.ipRanges[1]", "10.0.0.7-10.0.0.7", with_first]);
    refused(&["10.0.0.0/24", "10.0.0.255/32"], ["spec.ipRanges[1].cidr", "10.0.0.255/32", with_first]);
    // The first that overlaps one before it, and of those the first.
    let with_first = "no address of spec.ipRanges[0], 10.0.0.8-10.0.0.9";
    let ranges = ["10.0.0.8-10.0.0.9", "10.0.0.4-10.0.0.5", "10.0.0.77/24", "10.0.0.4/32"];
    refused(&ranges, ["spec.ipRanges[2].cidr", "10.0.0.0/24", with_first]);
}

#[test]
fn malformed_cidrs() {
    let texts = [
        "",
        "/",
        "10.0.0.0",
        "10.0.0.0/",
        "/24",
        "10.0.0.0/33",
        "fd00::/129",
        "10.0.0.0/-1",
        "10.0.0.0/+8",
        "10.0.0.0/08",
        "10.0.0.0/00",
        "10.0.0.0/24/24",
        " 10.0.0.0/24",
        "10.0.0.0/24 ",
        "10.0.0.0 /24",
        "10.0.0.0/ 24",
        "10.0.0/24",
        "10.0.0.256/24",
        "::ffff:10.0.0.0/120",
        "10.0.0.0/99999999999999999999",
        "10.0.0.0/٢٤",
        "x/24",
    ];
    for text in texts {
        let mut put = pool(ExternalIpPool, "", &["10.9.0.0/24"]);
        put.ranges.push(RangeSpec::Cidr(text.into()));
        let (field, value, allowed) = refusal(&put);
        assert_eq!((field.as_str(), value.as_str()), ("spec.ipRanges[1].cidr", text));
        assert_eq!(allowed, "an address, a slash and a prefix length, as in 10.0.0.0/24 or 2001:db8::/64");
    }
}

#[test]
fn the_first_fault_in_order_is_named() {
    let mut put = pool(IpPool, "", &[]);
    let field = |put: &PutPool| refusal(put).0;
    assert_eq!(field(&put), "spec.subnetInfo");
    put.subnet = Some(Subnet { gateway: "10.0.0".into(), prefix_length: 32, vlan: Some(4095) });
    assert_eq!(field(&put), "spec.subnetInfo.gateway");
    set_subnet(&mut put, |subnet| subnet.gateway = "10.0.0.1".into());
    assert_eq!(field(&put), "spec.subnetInfo.prefixLength");
    set_subnet(&mut put, |subnet| subnet.prefix_length = 24);
    assert_eq!(refusal(&put), ("spec.subnetInfo.vlan".into(), "4095".into(), "0 to 4094".into()));
    set_subnet(&mut put, |subnet| subnet.vlan = Some(4094));
    assert_eq!(field(&put), "spec.ipRanges");
    // Each check is made of all ranges before the next: the later ranges have the earlier faults.
    let ranges = [
        "10.0.0.2-10.0.0.3", // overlapped by the last
        "10.1.0.0/24",       // outside the subnet
        "10.0.0.9-10.0.0.8", // upside down
        "10.0.0.4-fd00::1",  // two families
        "10.0.0.6-?",        // no address
    ];
    put.ranges = pool(IpPool, "", &ranges).ranges;
    assert_eq!(field(&put), "spec.ipRanges[4].end");
    put.ranges[4] = RangeSpec::Cidr("fd00::/64".into());
    assert_eq!(field(&put), "spec.ipRanges[3].end");
    put.ranges[3] = RangeSpec::StartEnd("10.0.0.3".into(), "10.0.0.4".into());
    assert_eq!(field(&put), "spec.ipRanges[2].end");
    put.ranges[2] = RangeSpec::StartEnd("10.0.0.8".into(), "10.0.0.9".into());
    assert_eq!(field(&put), "spec.ipRanges[1].cidr");
    put.pool.kind = ExternalIpPool;
    put.subnet = None;
    assert_eq!(refusal(&put).2, "of one family with spec.ipRanges[0]");
    put.ranges.truncate(4);
    assert_eq!(refusal(&put).2, "no address of spec.ipRanges[0], 10.0.0.2-10.0.0.3");
    put.ranges.truncate(3);
    assert!(usable(&put).is_ok());
}

fn set_subnet(put: &mut PutPool, change: impl FnOnce(&mut Subnet)) {
    change(put.subnet.as_mut().expect("a subnet"));
}

#[test]
fn family_and_gateway() {
    assert_eq!(family(&pool(ExternalIpPool, "", &["10.0.0.0/24"])), Some(Family::V4));
    assert_eq!(family(&pool(ExternalIpPool, "", &["fd00::1-fd00::2"])), Some(Family::V6));
    assert_eq!(family(&pool(ExternalIpPool, "", &["x", "fd00::1-fd00::2"])), Some(Family::V6));
    assert_eq!(family(&pool(ExternalIpPool, "", &["x"])), None);
    // A pool without a usable address has a family all the same.
    let nothing_left = pool(IpPool, "10.0.0.8/16", &["10.0.0.8/32"]);
    assert_eq!((usable(&nothing_left), family(&nothing_left)), (Ok(vec![]), Some(Family::V4)));
    let spelled: IpAddr = "2001::1".parse().expect("an address");
    assert_eq!(gateway(&pool(IpPool, "2001:0:0::0001/64", &["2001::/64"])), Some(spelled));
    assert_eq!(gateway(&pool(ExternalIpPool, "", &["2001::/64"])), None);
}

#[test]
fn many_ranges_out_of_order() {
    let texts: Vec<String> = (0..60_000u32)
        .map(|i| {
            let address = std::net::Ipv4Addr::from(0x0a00_0000 + 2 * ((i * 7_919) % 60_000));
            format!("{address}-{address}")
        })
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let ranges = usable(&pool(ExternalIpPool, "", &texts)).expect("well formed");
    assert_eq!(ranges.len(), 60_000);
}
