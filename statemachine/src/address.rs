//! Addresses as numbers: families and inclusive ranges.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// An address family. A pool has one; a dual-stack reservation draws from one pool of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Family {
    /// IPv4, 32 bits.
    V4,
    /// IPv6, 128 bits.
    V6,
}

impl Family {
    /// Both families, in the order in which they are searched and listed.
    pub const ALL: [Family; 2] = [Family::V4, Family::V6];

    /// The family of an address.
    pub fn of(address: IpAddr) -> Family {
        match address {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }

    /// Bits in an address of this family: 32 or 128.
    pub fn bits(self) -> u8 {
        match self {
            Family::V4 => 32,
            Family::V6 => 128,
        }
    }

    /// The address of this family with this number, or `None` for a number too large for IPv4.
    pub fn address(self, number: u128) -> Option<IpAddr> {
        match self {
            Family::V4 => u32::try_from(number).ok().map(|n| IpAddr::V4(Ipv4Addr::from(n))),
            Family::V6 => Some(IpAddr::V6(Ipv6Addr::from(number))),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        })
    }
}

/// An address as a number; of its family's width.
pub fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => u128::from(u32::from(a)),
        IpAddr::V6(a) => u128::from(a),
    }
}

/// The address `n` after `address`, or `None` past the end of its family.
pub fn offset(address: IpAddr, n: u128) -> Option<IpAddr> {
    number(address).checked_add(n).and_then(|number| Family::of(address).address(number))
}

/// An inclusive, non-empty range of addresses of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Range {
    first: IpAddr,
    last: IpAddr,
}

impl Range {
    /// The range `first..=last`, or `None` if the families differ or it would be empty.
    pub fn new(first: IpAddr, last: IpAddr) -> Option<Range> {
        (Family::of(first) == Family::of(last) && first <= last).then_some(Range { first, last })
    }

    /// The lowest address.
    pub fn first(self) -> IpAddr {
        self.first
    }

    /// The highest address.
    pub fn last(self) -> IpAddr {
        self.last
    }

    /// The family of both ends.
    pub fn family(self) -> Family {
        Family::of(self.first)
    }

    /// How many addresses; saturates at `u128::MAX` for all of IPv6.
    pub fn len(self) -> u128 {
        (number(self.last) - number(self.first)).saturating_add(1)
    }

    /// Never: a range holds at least one address.
    pub fn is_empty(self) -> bool {
        false
    }

    /// Whether the address lies in it.
    pub fn contains(self, address: IpAddr) -> bool {
        Family::of(address) == self.family() && self.first <= address && address <= self.last
    }

    /// The addresses common to both, if any.
    pub fn intersection(self, other: Range) -> Option<Range> {
        if self.family() != other.family() {
            return None;
        }
        Range::new(self.first.max(other.first), self.last.min(other.last))
    }

    /// What is left of this range without `other`: nothing, one range or two, ascending.
    pub fn without(self, other: Range) -> Vec<Range> {
        let Some(cut) = self.intersection(other) else {
            return vec![self];
        };
        let family = self.family();
        let mut left = Vec::new();
        if cut.first > self.first {
            let before = family.address(number(cut.first) - 1);
            left.extend(before.and_then(|last| Range::new(self.first, last)));
        }
        if cut.last < self.last {
            let after = family.address(number(cut.last) + 1);
            left.extend(after.and_then(|first| Range::new(first, self.last)));
        }
        left
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}
