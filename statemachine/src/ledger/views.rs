//! What is asked of the ledger: use of pools, what reservations hold, and why something is as it is.

use std::net::IpAddr;

use super::{Ledger, Needed};
use crate::command::StatefulSetId;
use crate::outcome::{PoolRoom, Waiting};
use crate::row::PoolId;
use crate::scheduler::Explanation;
use crate::{Family, Name, Range};

/// How much of a pool is used. Addresses; `total == used + free`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// That can be given at all.
    pub total: u128,
    /// Held.
    pub used: u128,
    /// Not held.
    pub free: u128,
    /// Free, and kept from other owners for now.
    pub cooling: u128,
    /// Free, and headroom of a reservation.
    pub headroom: u128,
    /// Longest run of free addresses in one range.
    pub largest_free_run: u128,
    /// Still held of a deleted pool of the same name; not in `used`.
    pub retired: u64,
}

/// An address that a reservation holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The ordinal.
    pub ordinal: u32,
    /// The address.
    pub address: IpAddr,
    /// Its pool.
    pub pool: PoolId,
    /// Superseded, and kept while a Pod may use it.
    pub former: bool,
}

impl Ledger {
    /// How much of a pool is used; `None` if there is no such pool, nor anything held of a former one.
    pub fn usage(&self, pool: &PoolId) -> Option<Usage> {
        let retired = self.retired_held.get(pool).map_or(0, |held| held.len() as u64);
        let Some(space) = self.spaces.get(pool) else {
            let there = self.tables.pools().contains_key(pool) || retired > 0;
            return there.then_some(Usage { retired, ..Usage::default() });
        };
        let inside = |address: &&IpAddr| space.range_of(**address).is_some();
        let headroom = self.headroom.values().filter(|range| space.range_of(range.first()).is_some());
        Some(Usage {
            total: space.total(),
            used: space.used(),
            free: space.free(),
            cooling: self.tables.cooling().keys().filter(inside).count() as u128,
            headroom: headroom.map(|range| range.len()).sum(),
            largest_free_run: space.largest_free_run(),
            retired,
        })
    }

    /// What a reservation holds, by ordinal, then address.
    pub fn holdings(&self, id: &StatefulSetId) -> Vec<Holding> {
        let Some(held) = self.holdings.get(id) else { return Vec::new() };
        let mut holdings = Vec::new();
        for ordinal in held.ordinals() {
            for address in held.of_ordinal(ordinal) {
                let Some(grant) = self.tables.grants().get(&address) else { continue };
                let current = held.current[Family::of(address) as usize].get(&ordinal);
                let former = current != Some(&address);
                holdings.push(Holding { ordinal, address, pool: grant.pool.clone(), former });
            }
        }
        holdings
    }

    /// The headroom of a reservation, IPv4 first.
    pub fn headroom(&self, id: &StatefulSetId) -> Vec<Range> {
        Family::ALL.iter().filter_map(|family| self.headroom.get(&(id.clone(), *family)).copied()).collect()
    }

    /// What a reservation wants and does not have, by family.
    pub fn missing(&self, id: &StatefulSetId) -> Vec<Needed> {
        let spec = self.tables.reservations().get(id).and_then(|row| row.spec.as_ref());
        spec.map(|spec| self.needed(id, spec)).unwrap_or_default()
    }

    /// How much room there is now in each of these pools for so many addresses.
    pub fn room(&self, pools: &[PoolId], needed: u32) -> Vec<PoolRoom> {
        self.rooms(pools, needed)
    }

    /// What a waiting object waits for, with the numbers as they are now rather than as they were when it was last tried.
    pub fn refreshed(&self, waiting: &Waiting) -> Waiting {
        let again = |tried: &[PoolRoom]| {
            let one = |room: &PoolRoom| {
                let needed = u32::try_from(room.needed).unwrap_or(u32::MAX);
                self.rooms(std::slice::from_ref(&room.pool), needed)
            };
            tried.iter().flat_map(one).collect()
        };
        match waiting {
            Waiting::Exhausted { family, tried } => Waiting::Exhausted { family: *family, tried: again(tried) },
            Waiting::NoBlock { family, tried } => Waiting::NoBlock { family: *family, tried: again(tried) },
            Waiting::AddressHeld { address, by } => {
                let now = self.tables.grants().get(address).map(|grant| grant.holder.clone());
                Waiting::AddressHeld { address: *address, by: now.unwrap_or_else(|| by.clone()) }
            }
            other => other.clone(),
        }
    }

    /// What each Node says to an Egress address; `None` if no Egress holds it.
    pub fn explain_address(&self, address: IpAddr) -> Option<Explanation> {
        self.scheduler.explain(address)
    }

    /// How many Egress addresses a Node carries, and how many it may; `None` if it is not declared.
    pub fn load(&self, node: &Name) -> Option<(u32, u32)> {
        self.scheduler.capacity(node).map(|capacity| (self.scheduler.load(node), capacity))
    }
}
