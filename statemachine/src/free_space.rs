//! Which addresses of one pool are free, and the search for some of them.

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use crate::Range;
use crate::address::number;
use crate::command::Contiguity;
use crate::run_set::RunSet;

/// What a search may take. Each takes more than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pass {
    /// Free addresses that are neither cooling nor headroom.
    Clear,
    /// Headroom too.
    Headroom,
    /// Any free address.
    Cooling,
}

impl Pass {
    /// All passes, in the order in which they are made.
    pub const ALL: [Pass; 3] = [Pass::Clear, Pass::Headroom, Pass::Cooling];
}

/// Consecutive addresses of one range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The lowest.
    pub first: IpAddr,
    /// How many; at least 1.
    pub count: u32,
}

/// The addresses of one pool: which are held, which are cooling, which are somebody's headroom.
///
/// Cooling and headroom are marks of their own: they outlast holding and releasing. Whoever searches for an
/// owner takes the owner's own marks off first, and puts them back after.
#[derive(Clone, Debug, Default)]
pub struct FreeSpace {
    /// In the order in which they are given from.
    spaces: Vec<Space>,
    /// Indexes into `spaces`, by ascending address.
    by_address: Vec<u32>,
    used: u128,
}

/// One range.
#[derive(Clone, Debug)]
struct Space {
    range: Range,
    cooling: RunSet,
    headroom: RunSet,
    /// Not held.
    free: RunSet,
    /// `free` without `cooling`; equals `free` until it is made, when the first address cools. Then it stays:
    /// making it is a copy of the whole, too dear for each coming and going of a last mark.
    not_cooling: Option<RunSet>,
    /// The former without `headroom`; equals the former until it is made, likewise.
    clear: Option<RunSet>,
}

impl FreeSpace {
    /// The space of a pool with these usable ranges, all free. The ranges are disjoint.
    pub fn new(ranges: &[Range]) -> FreeSpace {
        let spaces: Vec<Space> = ranges.iter().map(|&range| Space::new(range)).collect();
        let mut by_address: Vec<u32> = (0..).take(spaces.len()).collect();
        by_address.sort_by_key(|&place| spaces[place as usize].range);
        FreeSpace { spaces, by_address, used: 0 }
    }

    /// The address is held from now on. `false` if it already was, or is not one of the pool.
    pub fn hold(&mut self, address: IpAddr) -> bool {
        let Some(space) = self.space_mut(address) else { return false };
        let held = space.take(number(address), number(address));
        self.used += u128::from(held);
        held
    }

    /// All these are held from now on, at the cost of one. `false`, and nothing changes, if one of them already was,
    /// or they are not in one range.
    pub fn hold_run(&mut self, run: Run) -> bool {
        if !self.is_open(Pass::Cooling, run) {
            return false;
        }
        let Some(space) = self.space_mut(run.first) else { return false };
        let first = number(run.first);
        space.take(first, first + u128::from(run.count - 1));
        self.used += u128::from(run.count);
        true
    }

    /// The address is free from now on. `false` if it already was, or is not one of the pool.
    pub fn release(&mut self, address: IpAddr) -> bool {
        let Some(space) = self.space_mut(address) else { return false };
        let released = space.release(number(address));
        self.used -= u128::from(released);
        released
    }

    /// Marks an address of the pool as cooling, held or not.
    pub fn cool(&mut self, address: IpAddr) {
        if let Some(space) = self.space_mut(address) {
            space.cool(number(address));
        }
    }

    /// Takes the mark off.
    pub fn uncool(&mut self, address: IpAddr) {
        if let Some(space) = self.space_mut(address) {
            space.uncool(number(address));
        }
    }

    /// Marks what the pool has of these addresses as headroom, held or not.
    pub fn reserve_headroom(&mut self, range: Range) {
        for (space, first, last) in self.parts_mut(range) {
            space.reserve_headroom(first, last);
        }
    }

    /// Takes the mark off.
    pub fn clear_headroom(&mut self, range: Range) {
        for (space, first, last) in self.parts_mut(range) {
            space.clear_headroom(first, last);
        }
    }

    /// Whether it is an address of the pool, and held.
    pub fn is_held(&self, address: IpAddr) -> bool {
        self.space(address).is_some_and(|space| !space.free.contains(number(address)))
    }

    /// Whether it is an address of the pool, and not held.
    pub fn is_free(&self, address: IpAddr) -> bool {
        self.space(address).is_some_and(|space| space.free.contains(number(address)))
    }

    /// Whether it is marked as cooling.
    pub fn is_cooling(&self, address: IpAddr) -> bool {
        self.space(address).is_some_and(|space| space.cooling.contains(number(address)))
    }

    /// Whether it is marked as headroom.
    pub fn is_headroom(&self, address: IpAddr) -> bool {
        self.space(address).is_some_and(|space| space.headroom.contains(number(address)))
    }

    /// Whether all these addresses lie in one range and this pass may take them.
    pub fn is_open(&self, pass: Pass, run: Run) -> bool {
        let (first, more) = (number(run.first), run.count.checked_sub(1));
        let (Some(space), Some(more)) = (self.space(run.first), more) else { return false };
        let whole = space.layer(pass).run_at(first);
        whole.is_some_and(|(_, last)| last - first >= u128::from(more))
    }

    /// The up to `limit` free addresses right behind this one, in its range, up to the first one held; cooling ones
    /// and headroom count as free. `None` if there are none, or it is not an address of the pool.
    pub fn free_behind(&self, address: IpAddr, limit: u32) -> Option<Range> {
        let space = self.space(address)?;
        let first = number(address).checked_add(1)?;
        let (_, last) = space.free.run_at(first)?;
        let most = first.checked_add(u128::from(limit.checked_sub(1)?)).unwrap_or(last);
        let family = space.range.family();
        Range::new(family.address(first)?, family.address(last.min(most))?)
    }

    /// The range that the address lies in.
    pub fn range_of(&self, address: IpAddr) -> Option<Range> {
        self.space(address).map(|space| space.range)
    }

    /// The usable ranges, in the order in which they are given from.
    pub fn ranges(&self) -> impl Iterator<Item = Range> + '_ {
        self.spaces.iter().map(|space| space.range)
    }

    /// Usable addresses, held or not. This and all counts below saturate at `u128::MAX`.
    pub fn total(&self) -> u128 {
        self.ranges().fold(0, |sum, range| sum.saturating_add(range.len()))
    }

    /// Addresses held.
    pub fn used(&self) -> u128 {
        self.used
    }

    /// Addresses not held; cooling ones and headroom are free.
    pub fn free(&self) -> u128 {
        self.open(Pass::Cooling)
    }

    /// The longest run of addresses not held, inside one range.
    pub fn largest_free_run(&self) -> u128 {
        self.largest_open_run(Pass::Cooling)
    }

    /// Addresses that this pass may take.
    pub fn open(&self, pass: Pass) -> u128 {
        self.layers(pass).fold(0, |sum, layer| sum.saturating_add(layer.count()))
    }

    /// The longest run of addresses that this pass may take, inside one range.
    pub fn largest_open_run(&self, pass: Pass) -> u128 {
        self.layers(pass).map(RunSet::longest).max().unwrap_or(0)
    }

    /// The search of one pass for `n` addresses: in [`Pass::Clear`] and with `headroom` wanted, a block of
    /// `n + headroom`, of which it returns the first `n`; then a block of `n`; then, unless a block is
    /// required, the `n` lowest in the order of the ranges. Takes nothing. The runs come in the order of the
    /// ranges, ascending in each.
    pub fn search(&self, pass: Pass, n: u32, headroom: u32, contiguity: Contiguity) -> Option<Vec<Run>> {
        if n == 0 {
            return Some(Vec::new());
        }
        let roomy = if pass == Pass::Clear && headroom > 0 {
            self.lowest_block(pass, u128::from(n) + u128::from(headroom))
        } else {
            None
        };
        if let Some(first) = roomy.or_else(|| self.lowest_block(pass, u128::from(n))) {
            return Some(vec![Run { first, count: n }]);
        }
        match contiguity {
            Contiguity::Required => None,
            Contiguity::Preferred => self.lowest(pass, n),
        }
    }

    /// The first address of the first block this long, ranges in order, lowest first.
    fn lowest_block(&self, pass: Pass, n: u128) -> Option<IpAddr> {
        self.spaces.iter().find_map(|space| {
            let first = space.layer(pass).lowest_run(n, 0)?;
            space.range.family().address(first)
        })
    }

    /// The `n` lowest addresses, in the order of the ranges.
    fn lowest(&self, pass: Pass, n: u32) -> Option<Vec<Run>> {
        if self.open(pass) < u128::from(n) {
            return None;
        }
        let runs = self.spaces.iter().flat_map(|space| {
            let family = space.range.family();
            space.layer(pass).runs().filter_map(move |(first, last)| Some((family.address(first)?, last - first)))
        });
        let mut found = Vec::new();
        let mut missing = n;
        for (first, more) in runs {
            let count = u32::try_from(more.saturating_add(1)).unwrap_or(u32::MAX).min(missing);
            found.push(Run { first, count });
            missing -= count;
            if missing == 0 {
                break;
            }
        }
        Some(found)
    }

    fn layers(&self, pass: Pass) -> impl Iterator<Item = &RunSet> + '_ {
        self.spaces.iter().map(move |space| space.layer(pass))
    }

    /// Index of the range that the address lies in.
    fn place(&self, address: IpAddr) -> Option<usize> {
        let after = self.by_address.partition_point(|&place| self.spaces[place as usize].range.first() <= address);
        let place = self.by_address[after.checked_sub(1)?] as usize;
        self.spaces[place].range.contains(address).then_some(place)
    }

    fn space(&self, address: IpAddr) -> Option<&Space> {
        self.place(address).map(|place| &self.spaces[place])
    }

    fn space_mut(&mut self, address: IpAddr) -> Option<&mut Space> {
        self.place(address).map(|place| &mut self.spaces[place])
    }

    /// What each range has of these addresses.
    fn parts_mut(&mut self, range: Range) -> impl Iterator<Item = (&mut Space, u128, u128)> + '_ {
        self.spaces.iter_mut().filter_map(move |space| {
            let part = space.range.intersection(range)?;
            Some((space, number(part.first()), number(part.last())))
        })
    }
}

impl Space {
    fn new(range: Range) -> Space {
        let mut free = RunSet::new();
        free.insert(number(range.first()), number(range.last()));
        Space { range, cooling: RunSet::new(), headroom: RunSet::new(), free, not_cooling: None, clear: None }
    }

    fn layer(&self, pass: Pass) -> &RunSet {
        let not_cooling = self.not_cooling.as_ref().unwrap_or(&self.free);
        match pass {
            Pass::Clear => self.clear.as_ref().unwrap_or(not_cooling),
            Pass::Headroom => not_cooling,
            Pass::Cooling => &self.free,
        }
    }

    /// `false` if none of them was free.
    fn take(&mut self, first: u128, last: u128) -> bool {
        let taken = self.free.remove(first, last);
        if taken {
            for layer in self.not_cooling.iter_mut().chain(&mut self.clear) {
                layer.remove(first, last);
            }
        }
        taken
    }

    /// `false` if it was free.
    fn release(&mut self, x: u128) -> bool {
        let released = self.free.insert(x, x);
        if released && !self.cooling.contains(x) {
            self.open(x);
        }
        released
    }

    /// Puts a free address that is not cooling into the upper layers.
    fn open(&mut self, x: u128) {
        if let Some(layer) = &mut self.not_cooling {
            layer.insert(x, x);
        }
        if let Some(layer) = &mut self.clear
            && !self.headroom.contains(x)
        {
            layer.insert(x, x);
        }
    }

    fn cool(&mut self, x: u128) {
        self.cooling.insert(x, x);
        self.not_cooling.get_or_insert_with(|| self.free.clone()).remove(x, x);
        if let Some(layer) = &mut self.clear {
            layer.remove(x, x);
        }
    }

    fn uncool(&mut self, x: u128) {
        self.cooling.remove(x, x);
        if self.free.contains(x) {
            self.open(x);
        }
    }

    fn reserve_headroom(&mut self, first: u128, last: u128) {
        self.headroom.insert(first, last);
        let below = self.not_cooling.as_ref().unwrap_or(&self.free);
        self.clear.get_or_insert_with(|| below.clone()).remove(first, last);
    }

    fn clear_headroom(&mut self, first: u128, last: u128) {
        self.headroom.remove(first, last);
        let Some(layer) = &mut self.clear else { return };
        let below = self.not_cooling.as_ref().unwrap_or(&self.free);
        let mut from = Some(first);
        while let Some((run_first, run_last)) = from.and_then(|from| below.run_from(from))
            && run_first <= last
        {
            layer.insert(run_first.max(first), run_last.min(last));
            from = run_last.checked_add(1);
        }
    }
}
