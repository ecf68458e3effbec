//! Holding, freeing and the search for free addresses.

use std::collections::BTreeMap;
use std::net::IpAddr;

use holdfast_statemachine::address::offset;
use holdfast_statemachine::command::StatefulSetId;
use holdfast_statemachine::outcome::{Note, PoolRoom};
use holdfast_statemachine::row::{CoolingRow, GrantRow, Holder, Stamp};
use holdfast_statemachine::{Event, Family, PoolId, PoolKind, Range};

use super::Model;
use super::usable::list;
use holdfast_statemachine::change::MoveReason;

/// What is searched for.
pub struct Wanted<'a> {
    pub owner: &'a Holder,
    pub count: usize,
    pub headroom: usize,
    pub block_required: bool,
}

/// Whether an address that `former` held is still open to `owner` while it cools.
pub fn same_owner(former: &Holder, owner: &Holder) -> bool {
    match (former, owner) {
        (Holder::Ordinal { id: a, .. }, Holder::Ordinal { id: b, .. }) => a == b,
        (Holder::Named { name: a, .. }, Holder::Named { name: b, .. })
        | (Holder::Egress { name: a }, Holder::Egress { name: b })
        | (Holder::Observed { owner: a }, Holder::Observed { owner: b }) => a == b,
        (Holder::Pod { pod: a, .. }, Holder::Pod { pod: b, .. }) => (&a.namespace, &a.name) == (&b.namespace, &b.name),
        _ => false,
    }
}

impl Model {
    /// Whether the pool is known and gives this address now.
    pub(super) fn gives(&self, pool: &PoolId, address: IpAddr) -> bool {
        self.pools.get(pool).is_some_and(|row| row.ranges.iter().any(|range| range.contains(address)))
    }

    /// The grants that are what is left of a deleted pool of this name.
    pub(super) fn retired_grants(&self, pool: &PoolId) -> usize {
        self.grants.iter().filter(|(address, row)| row.pool == *pool && !self.gives(pool, **address)).count()
    }

    pub(super) fn take(&mut self, address: IpAddr, pool: &PoolId, holder: &Holder) {
        assert!(!self.grants.contains_key(&address), "{address} is held");
        self.cooling.remove(&address);
        let row = GrantRow { pool: pool.clone(), holder: holder.clone(), stamp: Stamp::default() };
        self.grants.insert(address, row);
        self.emit(Event::Granted { address, pool: pool.clone(), holder: holder.clone() });
    }

    pub(super) fn transfer(&mut self, address: IpAddr, to: &Holder) {
        let row = self.grants.get_mut(&address).expect("only what is held is transferred");
        let from = std::mem::replace(&mut row.holder, to.clone());
        let pool = row.pool.clone();
        self.emit(Event::Transferred { address, pool, from, to: to.clone() });
    }

    /// Frees an address. `cools`: unless its pool or its range goes.
    pub(super) fn free(&mut self, address: IpAddr, cools: bool) {
        self.unplace(address, MoveReason::AddressGone);
        let GrantRow { pool, holder, .. } = self.grants.remove(&address).expect("only what is held is freed");
        let retired = !self.gives(&pool, address);
        let cool_down = if retired {
            self.retired.get(&pool).map(|row| row.cool_down)
        } else {
            self.pools.get(&pool).map(|row| row.wanted.cool_down)
        };
        let cooling_until = cool_down
            .filter(|d| cools && *d > 0 && !matches!(holder, Holder::Observed { .. }))
            .map(|d| self.time().saturating_add(d));
        if let Some(until) = cooling_until {
            self.cooling.insert(address, CoolingRow { until, former: holder.clone() });
        }
        self.emit(Event::Released { address, pool: pool.clone(), holder, cooling_until });
        if retired && self.retired.contains_key(&pool) {
            let held = self.retired_grants(&pool);
            if held == 0 {
                self.retired.remove(&pool);
                self.drop_stray_cooling();
            }
            self.emit(Event::Retired { pool, held: held as u64 });
        }
    }

    /// Cooling rows of addresses that are in no ranges any more go.
    pub(super) fn drop_stray_cooling(&mut self) {
        let pools = self.pools.values().flat_map(|row| &row.ranges);
        let ranges: Vec<Range> = pools.chain(self.retired.values().flat_map(|row| &row.ranges)).copied().collect();
        self.cooling.retain(|address, _| ranges.iter().any(|range| range.contains(*address)));
    }

    fn cools_for_others(&self, address: IpAddr, owner: &Holder) -> bool {
        self.cooling.get(&address).is_some_and(|row| !same_owner(&row.former, owner))
    }

    /// Addresses in the headroom of reservations other than the owner's, and whose.
    pub(super) fn others_headroom(&self, owner: &Holder) -> BTreeMap<IpAddr, StatefulSetId> {
        let mut all = BTreeMap::new();
        for id in self.reservations.keys() {
            if !matches!(owner, Holder::Ordinal { id: own, .. } if own == id) {
                for family in Family::ALL {
                    all.extend(self.headroom(id, family).into_iter().map(|address| (address, id.clone())));
                }
            }
        }
        all
    }

    fn headroom(&self, id: &StatefulSetId, family: Family) -> Vec<IpAddr> {
        let Some(spec) = self.reservations.get(id).and_then(|row| row.spec.as_ref()) else { return Vec::new() };
        let current = self.current_addresses(id, family);
        let Some((pool, range)) = self.one_block(&current) else { return Vec::new() };
        if !spec.pools.contains(&pool.name) {
            return Vec::new();
        }
        let last = current.last().expect("a block has addresses").1;
        list(range)
            .filter(|address| *address > last)
            .take_while(|address| !self.grants.contains_key(address))
            .take(spec.headroom as usize)
            .collect()
    }

    /// If these, by ordinal, are consecutive ordinals and addresses of one range: the pool and the range.
    pub(super) fn one_block(&self, held: &[(u32, IpAddr)]) -> Option<(PoolId, Range)> {
        let (_, first) = held.first()?;
        let pool = self.grants[first].pool.clone();
        let range = *self.pools.get(&pool)?.ranges.iter().find(|range| range.contains(*first))?;
        let follow =
            held.windows(2).all(|w| u64::from(w[1].0) == u64::from(w[0].0) + 1 && offset(w[0].1, 1) == Some(w[1].1));
        let inside = held.iter().all(|(_, address)| range.contains(*address) && self.grants[address].pool == pool);
        (follow && inside).then_some((pool, range))
    }

    /// Whether growth may take it: free, and neither cooling nor headroom of others.
    pub(super) fn open_to(&self, address: IpAddr, owner: &Holder) -> bool {
        !self.grants.contains_key(&address)
            && !self.cools_for_others(address, owner)
            && !self.others_headroom(owner).contains_key(&address)
    }

    /// The search: passes, in each the pools, in each the ranges.
    pub(super) fn search(&self, wanted: &Wanted<'_>, pools: &[PoolId]) -> Option<Vec<(PoolId, IpAddr)>> {
        let headroom = self.others_headroom(wanted.owner);
        for pass in 1..=3 {
            let open = |address: &IpAddr| {
                !self.grants.contains_key(address)
                    && (pass == 3 || !self.cools_for_others(*address, wanted.owner))
                    && (pass != 1 || !headroom.contains_key(address))
            };
            for pool in pools {
                let ranges = &self.pools[pool].ranges;
                let mut found = None;
                if pass == 1 && wanted.headroom > 0 {
                    found = lowest_block(ranges, wanted.count + wanted.headroom, open);
                }
                found = found.or_else(|| lowest_block(ranges, wanted.count, open));
                if found.is_none() && !wanted.block_required {
                    let lowest: Vec<IpAddr> = ranges.iter().flat_map(|r| list(*r)).filter(open).collect();
                    found = (lowest.len() >= wanted.count).then_some(lowest);
                }
                if let Some(addresses) = found {
                    return Some(addresses.into_iter().take(wanted.count).map(|a| (pool.clone(), a)).collect());
                }
            }
        }
        None
    }

    /// How much room a request for `needed` addresses finds in a pool.
    pub(super) fn room(&self, pool: &PoolId, needed: usize) -> PoolRoom {
        let mut free = 0;
        let mut largest_free_run = 0;
        for range in &self.pools[pool].ranges {
            let mut run = 0;
            for address in list(*range) {
                run = if self.grants.contains_key(&address) { 0 } else { run + 1 };
                free += u128::from(run > 0);
                largest_free_run = largest_free_run.max(run);
            }
        }
        PoolRoom { pool: pool.clone(), needed: needed as u128, free, largest_free_run }
    }

    /// Notes what is worth saying of addresses that are about to be granted.
    pub(super) fn judge(&mut self, addresses: &[IpAddr], owner: &Holder) {
        let headroom = self.others_headroom(owner);
        for address in addresses {
            if self.cools_for_others(*address, owner) {
                let former = self.cooling[address].former.clone();
                self.noted.push((owner.clone(), *address, Note::WasCooling { former }));
            }
            if let Some(of) = headroom.get(address) {
                self.noted.push((owner.clone(), *address, Note::WasHeadroom { of: of.clone() }));
            }
        }
    }

    /// The family of a known pool.
    pub(super) fn family(&self, pool: &PoolId) -> Family {
        let row = &self.pools[pool];
        let first = row.ranges.first().copied();
        first.unwrap_or_else(|| super::pool::wanted_range(&row.wanted)).family()
    }
}

/// An IPPool's identity.
pub fn ip_pool(name: &holdfast_statemachine::Name) -> PoolId {
    PoolId { kind: PoolKind::IpPool, name: name.clone() }
}

/// The lowest run of `count` open addresses in one range, ranges in order.
fn lowest_block(ranges: &[Range], count: usize, open: impl Fn(&IpAddr) -> bool) -> Option<Vec<IpAddr>> {
    for range in ranges {
        let mut run = Vec::new();
        for address in list(*range) {
            if open(&address) {
                run.push(address);
                if run.len() == count {
                    return Some(run);
                }
            } else {
                run.clear();
            }
        }
    }
    None
}
