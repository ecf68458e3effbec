//! From a pool as written to the addresses that it can give: section 2 of `docs/rules.md`.
//!
//! Addresses are read strictly: no spaces around them, no zone, no IPv4 address written as an IPv6 one
//! (`::ffff:10.0.0.1`), which would be another address than the one that it means.

// A rejection is a value with all its names and numbers, made at most once a command.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::address::number;
use crate::adopt::Mode;
use crate::command::{PutPool, RangeSpec, Subnet};
use crate::outcome::Rejection;
use crate::row::PoolKind;
use crate::{Family, Range};

/// The largest VLAN id that a pool may name.
const MAX_VLAN: u32 = 4094;

/// As many addresses of one range as Antrea's allocator gives.
const ANTREA_RANGE_MAX: u128 = 65_536;

/// The usable addresses in mode `standalone`.
pub fn usable(put: &PutPool) -> Result<Vec<Range>, Rejection> {
    usable_in(Mode::Standalone, put)
}

/// The usable addresses, in the order in which they are given from: disjoint, of one family; maybe none. In mode
/// `antrea` just those that Antrea's own allocator gives: one entry of another would make it refuse the whole pool.
///
/// The first field that makes no sense is named as `Malformed`; each check is made of all ranges before the next.
pub fn usable_in(mode: Mode, put: &PutPool) -> Result<Vec<Range>, Rejection> {
    let subnet = check_subnet(put)?;
    let items = read_items(&put.ranges)?;
    check_items(&items, subnet.as_ref())?;
    let gateway = subnet.as_ref().map(|subnet| subnet.gateway);
    let mut ranges = Vec::with_capacity(items.len());
    for item in &items {
        let given = match mode {
            Mode::Standalone => item.given(put.pool.kind, subnet.as_ref()),
            Mode::Antrea => item.given_by_antrea(put.pool.kind, subnet.as_ref()),
        };
        let Some(given) = given else { continue };
        let excluded = mode == Mode::Standalone || (put.pool.kind == PoolKind::IpPool && item.prefix_length.is_some());
        match gateway.filter(|_| excluded).and_then(|gateway| Range::new(gateway, gateway)) {
            Some(gateway) => ranges.extend(given.without(gateway)),
            None => ranges.push(given),
        }
    }
    Ok(ranges)
}

/// The family of the pool: of the first address in its ranges that can be read. Always there for a pool that
/// [`usable`] accepts, also when it has no usable address.
pub fn family(put: &PutPool) -> Option<Family> {
    put.ranges.iter().find_map(|range| match range {
        RangeSpec::Cidr(text) => parse_cidr(text).map(|cidr| cidr.whole.family()),
        RangeSpec::StartEnd(start, end) => parse_address(start).or_else(|| parse_address(end)).map(Family::of),
    })
}

/// The gateway as an address, if there is one that can be read: two spellings of one address are no change.
pub fn gateway(put: &PutPool) -> Option<IpAddr> {
    put.subnet.as_ref().and_then(|subnet| parse_address(&subnet.gateway))
}

struct ReadSubnet {
    gateway: IpAddr,
    network: Cidr,
}

#[derive(Clone, Copy)]
struct Cidr {
    prefix_length: u32,
    /// All its addresses.
    whole: Range,
}

impl Cidr {
    /// The network that the address is in. `None` for a prefix longer than the address.
    fn around(address: IpAddr, prefix_length: u32) -> Option<Cidr> {
        let family = Family::of(address);
        let host_bits = u32::from(family.bits()).checked_sub(prefix_length)?;
        // A shift by all 128 bits is none in Rust.
        let hosts = 1u128.checked_shl(host_bits).map_or(u128::MAX, |size| size - 1);
        let first = number(address) & !hosts;
        let whole = Range::new(family.address(first)?, family.address(first | hosts)?)?;
        Some(Cidr { prefix_length, whole })
    }
}

/// One item of `ipRanges`, read.
struct Item {
    index: usize,
    /// As written, before any address is taken out.
    whole: Range,
    /// Of an item written as a CIDR.
    prefix_length: Option<u32>,
}

impl Item {
    fn path(&self) -> String {
        let field = if self.prefix_length.is_some() { ".cidr" } else { "" };
        format!("spec.ipRanges[{}]{field}", self.index)
    }

    /// The text that the item has in its spec, near enough: a CIDR's host bits are gone.
    fn text(&self) -> String {
        match self.prefix_length {
            Some(prefix_length) => format!("{}/{prefix_length}", self.whole.first()),
            None => self.whole.to_string(),
        }
    }

    /// What it can give, the gateway not yet taken out.
    fn given(&self, kind: PoolKind, subnet: Option<&ReadSubnet>) -> Option<Range> {
        let family = self.whole.family();
        if self.prefix_length.is_none_or(|length| length + 1 >= u32::from(family.bits())) {
            return Some(self.whole);
        }
        let without_last = self.never_yields_last(kind, subnet);
        let first = family.address(number(self.whole.first()) + 1)?;
        let last = family.address(number(self.whole.last()) - u128::from(without_last))?;
        Range::new(first, last)
    }

    /// The same of Antrea's allocator: never a CIDR's first address, whatever its length, and of what is left no more
    /// than it can count.
    fn given_by_antrea(&self, kind: PoolKind, subnet: Option<&ReadSubnet>) -> Option<Range> {
        let family = self.whole.family();
        let skipped = u128::from(self.prefix_length.is_some());
        let first = number(self.whole.first()).checked_add(skipped)?;
        let last = number(self.whole.last()).checked_sub(u128::from(self.never_yields_last(kind, subnet)))?;
        let last = last.min(first.saturating_add(ANTREA_RANGE_MAX - 1));
        if last < first {
            return None;
        }
        Range::new(family.address(first)?, family.address(last)?)
    }

    /// Whether it is an IPv4 CIDR the last address of which is, or is taken for, a broadcast address.
    fn never_yields_last(&self, kind: PoolKind, subnet: Option<&ReadSubnet>) -> bool {
        let Some(prefix_length) = self.prefix_length else { return false };
        let as_large_as_subnet = subnet.is_some_and(|subnet| subnet.network.prefix_length == prefix_length);
        self.whole.family() == Family::V4 && (kind == PoolKind::ExternalIpPool || as_large_as_subnet)
    }
}

fn malformed(field: impl AsRef<str>, value: impl AsRef<str>, allowed: impl AsRef<str>) -> Rejection {
    Rejection::Malformed {
        field: field.as_ref().into(),
        value: value.as_ref().into(),
        allowed: allowed.as_ref().into(),
    }
}

fn parse_address(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => None,
        _ => Some(address),
    }
}

fn parse_cidr(text: &str) -> Option<Cidr> {
    let (address, length) = text.split_once('/')?;
    let plain = length.bytes().all(|byte| byte.is_ascii_digit()) && (length == "0" || !length.starts_with('0'));
    Cidr::around(parse_address(address)?, length.parse().ok().filter(|_| plain)?)
}

fn check_subnet(put: &PutPool) -> Result<Option<ReadSubnet>, Rejection> {
    match (&put.subnet, put.pool.kind) {
        (Some(subnet), _) => read_subnet(subnet).map(Some),
        (None, PoolKind::ExternalIpPool) => Ok(None),
        (None, PoolKind::IpPool) => {
            Err(malformed("spec.subnetInfo", "", "an IPPool has one, with gateway and prefixLength"))
        }
    }
}

fn read_subnet(subnet: &Subnet) -> Result<ReadSubnet, Rejection> {
    let Some(gateway) = parse_address(&subnet.gateway) else {
        return Err(malformed("spec.subnetInfo.gateway", &subnet.gateway, "an IPv4 or IPv6 address"));
    };
    let family = Family::of(gateway);
    let length = subnet.prefix_length;
    let network = Cidr::around(gateway, length).filter(|_| (1..u32::from(family.bits())).contains(&length));
    let Some(network) = network else {
        let allowed = format!("1 to {} for an {family} gateway", family.bits() - 1);
        return Err(malformed("spec.subnetInfo.prefixLength", length.to_string(), allowed));
    };
    match subnet.vlan {
        Some(vlan) if vlan > MAX_VLAN => {
            Err(malformed("spec.subnetInfo.vlan", vlan.to_string(), format!("0 to {MAX_VLAN}")))
        }
        _ => Ok(ReadSubnet { gateway, network }),
    }
}

/// Reads every item: they parse, then their ends are of one family, then in order.
fn read_items(specs: &[RangeSpec]) -> Result<Vec<Item>, Rejection> {
    if specs.is_empty() {
        return Err(malformed("spec.ipRanges", "[]", "at least one range"));
    }
    let mut parsed = Vec::with_capacity(specs.len());
    for (index, spec) in specs.iter().enumerate() {
        parsed.push(match spec {
            RangeSpec::Cidr(text) => {
                let field = format!("spec.ipRanges[{index}].cidr");
                let allowed = "an address, a slash and a prefix length, as in 10.0.0.0/24 or 2001:db8::/64";
                let cidr = parse_cidr(text).ok_or_else(|| malformed(field, text, allowed))?;
                (cidr.whole.first(), cidr.whole.last(), Some(cidr.prefix_length))
            }
            RangeSpec::StartEnd(start, end) => {
                let read = |field: &str, text: &str| {
                    let field = format!("spec.ipRanges[{index}].{field}");
                    parse_address(text).ok_or_else(|| malformed(field, text, "an IPv4 or IPv6 address"))
                };
                (read("start", start)?, read("end", end)?, None)
            }
        });
    }
    let end = |index: usize| format!("spec.ipRanges[{index}].end");
    for (index, &(first, last, _)) in parsed.iter().enumerate() {
        if Family::of(first) != Family::of(last) {
            let allowed = format!("an {} address, as spec.ipRanges[{index}].start", Family::of(first));
            return Err(malformed(end(index), last.to_string(), allowed));
        }
    }
    let mut items = Vec::with_capacity(parsed.len());
    for (index, (first, last, prefix_length)) in parsed.into_iter().enumerate() {
        let Some(whole) = Range::new(first, last) else {
            return Err(malformed(end(index), last.to_string(), format!("{first} or above, the start")));
        };
        items.push(Item { index, whole, prefix_length });
    }
    Ok(items)
}

/// The items beside the subnet, then beside each other.
fn check_items(items: &[Item], subnet: Option<&ReadSubnet>) -> Result<(), Rejection> {
    if let Some(network) = subnet.map(|subnet| subnet.network) {
        for item in items {
            if item.whole.intersection(network.whole) != Some(item.whole) {
                let length = network.prefix_length;
                let allowed = format!("inside {}/{length}, the subnet of the gateway", network.whole.first());
                return Err(malformed(item.path(), item.text(), allowed));
            }
        }
    }
    let family = items.first().map(|item| item.whole.family());
    if let Some(other) = items.iter().find(|item| Some(item.whole.family()) != family) {
        let allowed = format!("of one family with {}", items[0].path());
        return Err(malformed(other.path(), other.text(), allowed));
    }
    check_overlap(items)
}

/// Names the first item that overlaps one before it, and of those the first.
fn check_overlap(items: &[Item]) -> Result<(), Rejection> {
    // Disjoint until the first overlap is found, so a range overlaps if a neighbour of its does.
    let mut before: BTreeMap<IpAddr, &Item> = BTreeMap::new();
    for item in items {
        let below = before.range(..=item.whole.last());
        let overlapping =
            below.rev().map(|(_, other)| *other).take_while(|other| other.whole.last() >= item.whole.first());
        if let Some(other) = overlapping.min_by_key(|other| other.index) {
            let allowed = format!("no address of {}, {}", other.path(), other.text());
            return Err(malformed(item.path(), item.text(), allowed));
        }
        before.insert(item.whole.first(), item);
    }
    Ok(())
}
