//! Which addresses a pool can give: by listing them.

use std::net::IpAddr;

use holdfast_statemachine::address::{number, offset};
use holdfast_statemachine::adopt::Mode;
use holdfast_statemachine::command::{PutPool, RangeSpec, Subnet};
use holdfast_statemachine::{Family, PoolKind, Range, Rejection};

use super::outcome::malformed;

/// Every address of a range, ascending.
pub fn list(range: Range) -> impl Iterator<Item = IpAddr> {
    std::iter::successors(Some(range.first()), move |a| offset(*a, 1).filter(|next| range.contains(*next)))
}

/// One item as written: all its addresses, and its prefix length if it is a CIDR.
#[derive(Clone, Copy)]
struct Written {
    range: Range,
    prefix: Option<u8>,
}

fn network(address: IpAddr, prefix: u8) -> Range {
    let family = Family::of(address);
    let host_bits = u32::from(family.bits() - prefix);
    let hosts = if host_bits == 128 { u128::MAX } else { (1_u128 << host_bits) - 1 };
    let first = family.address(number(address) & !hosts).expect("fewer bits fit");
    let last = family.address(number(first) | hosts).expect("host bits fit");
    Range::new(first, last).expect("first is not after last")
}

fn parse_cidr(text: &str) -> Option<Written> {
    let (address, prefix) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let digits = !prefix.is_empty() && prefix.bytes().all(|b| b.is_ascii_digit());
    let prefix: u8 = prefix.parse().ok().filter(|p| digits && *p <= Family::of(address).bits())?;
    Some(Written { range: network(address, prefix), prefix: Some(prefix) })
}

fn parsed_subnet(subnet: &Subnet) -> Result<Range, Rejection> {
    let gateway: IpAddr = subnet.gateway.parse().map_err(|_| malformed("spec.subnetInfo.gateway"))?;
    let longest = u32::from(Family::of(gateway).bits()) - 1;
    let prefix = u8::try_from(subnet.prefix_length)
        .ok()
        .filter(|p| (1..=longest).contains(&u32::from(*p)))
        .ok_or_else(|| malformed("spec.subnetInfo.prefixLength"))?;
    if subnet.vlan.is_some_and(|vlan| vlan > 4094) {
        return Err(malformed("spec.subnetInfo.vlan"));
    }
    Ok(network(gateway, prefix))
}

/// The usable ranges of a pool as put, in order, or what is wrong with it.
pub fn usable(mode: Mode, put: &PutPool) -> Result<Vec<Range>, Rejection> {
    if put.pool.kind == PoolKind::IpPool && put.subnet.is_none() {
        return Err(malformed("spec.subnetInfo"));
    }
    let subnet = put.subnet.as_ref().map(parsed_subnet).transpose()?;
    let items = written(put, subnet)?;
    let gateway: Option<IpAddr> = put.subnet.as_ref().and_then(|s| s.gateway.parse().ok());
    let mut ranges = Vec::new();
    for item in items {
        // Beside Antrea, its allocator's window: a first address passed over, and 65,536 behind it.
        let most = if mode == Mode::Antrea { 65_537 } else { usize::MAX };
        let whole = list(item.range).take(most).last() == Some(item.range.last());
        let mut addresses: Vec<IpAddr> = list(item.range).take(most).collect();
        let is_cidr = item.prefix.is_some();
        let short = item.prefix.is_some_and(|prefix| item.range.family().bits() - prefix <= 1);
        if is_cidr && (mode == Mode::Antrea || !short) {
            addresses.remove(0);
            let v4 = item.range.family() == Family::V4;
            let prefix = item.prefix.map(u32::from);
            let whole_subnet = put.subnet.as_ref().is_some_and(|s| Some(s.prefix_length) == prefix);
            if whole && v4 && (put.pool.kind == PoolKind::ExternalIpPool || whole_subnet) {
                addresses.pop();
            }
        }
        addresses.truncate(most - 1);
        if mode == Mode::Standalone || (is_cidr && put.pool.kind == PoolKind::IpPool) {
            addresses.retain(|a| Some(*a) != gateway);
        }
        ranges.extend(runs(&addresses));
    }
    Ok(ranges)
}

fn written(put: &PutPool, subnet: Option<Range>) -> Result<Vec<Written>, Rejection> {
    if put.ranges.is_empty() {
        return Err(malformed("spec.ipRanges"));
    }
    let mut ends = Vec::new();
    for (i, spec) in put.ranges.iter().enumerate() {
        let field = |part: &str| malformed(&format!("spec.ipRanges[{i}].{part}"));
        ends.push(match spec {
            RangeSpec::Cidr(text) => {
                let cidr = parse_cidr(text).ok_or_else(|| field("cidr"))?;
                (cidr.range.first(), cidr.range.last(), cidr.prefix)
            }
            RangeSpec::StartEnd(start, end) => {
                let start: IpAddr = start.parse().map_err(|_| field("start"))?;
                (start, end.parse().map_err(|_| field("end"))?, None)
            }
        });
    }
    let whole = |i: usize| malformed(&format!("spec.ipRanges[{i}]"));
    if let Some(i) = ends.iter().position(|(a, b, _)| Family::of(*a) != Family::of(*b)) {
        return Err(malformed(&format!("spec.ipRanges[{i}].end")));
    }
    if let Some(i) = ends.iter().position(|(a, b, _)| a > b) {
        return Err(malformed(&format!("spec.ipRanges[{i}].end")));
    }
    let items: Vec<Written> = ends
        .into_iter()
        .map(|(a, b, prefix)| Written { range: Range::new(a, b).expect("checked above"), prefix })
        .collect();
    let inside = |r: Range| subnet.is_none_or(|s| s.contains(r.first()) && s.contains(r.last()));
    if let Some(i) = items.iter().position(|item| !inside(item.range)) {
        return Err(whole(i));
    }
    if let Some(i) = items.iter().position(|item| item.range.family() != items[0].range.family()) {
        return Err(whole(i));
    }
    let overlaps = |i: usize| items[..i].iter().any(|other| other.range.intersection(items[i].range).is_some());
    if let Some(i) = (0..items.len()).find(|i| overlaps(*i)) {
        return Err(whole(i));
    }
    Ok(items)
}

/// Ascending addresses of one item, as ranges without gaps.
fn runs(addresses: &[IpAddr]) -> Vec<Range> {
    let mut runs: Vec<Range> = Vec::new();
    for address in addresses {
        match runs.last_mut() {
            Some(run) if offset(run.last(), 1) == Some(*address) => {
                *run = Range::new(run.first(), *address).expect("ascending");
            }
            _ => runs.push(Range::new(*address, *address).expect("one address")),
        }
    }
    runs
}
