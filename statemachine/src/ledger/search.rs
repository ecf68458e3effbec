//! Which address: the search in passes over pools, and what is said of an address that it found late.

use std::net::IpAddr;

use super::Ledger;
use super::holding::OwnerKey;
use crate::address::offset;
use crate::command::Contiguity;
use crate::free_space::{Pass, Run};
use crate::outcome::{Note, PoolRoom, Waiting};
use crate::row::PoolId;
use crate::{Family, Range};

/// A request for addresses of one family.
#[derive(Clone, Debug)]
pub(super) struct Ask<'a> {
    pub(super) owner: &'a OwnerKey,
    /// Of the family, in order of preference.
    pub(super) pools: &'a [PoolId],
    pub(super) count: u32,
    pub(super) headroom: u32,
    pub(super) contiguity: Contiguity,
}

impl Ledger {
    /// The addresses to give, ascending, and the pool that they are from. Changes nothing.
    pub(super) fn search(&mut self, ask: &Ask<'_>) -> Option<(PoolId, Vec<IpAddr>)> {
        self.refresh_headroom();
        let own = self.set_own_aside(ask.owner);
        let mut found = None;
        'passes: for pass in Pass::ALL {
            let headroom = if pass == Pass::Clear { ask.headroom } else { 0 };
            for pool in ask.pools {
                let Some(space) = self.spaces.get(pool) else { continue };
                if let Some(runs) = space.search(pass, ask.count, headroom, ask.contiguity) {
                    found = Some((pool.clone(), addresses(&runs)));
                    break 'passes;
                }
            }
        }
        self.put_own_back(own);
        found
    }

    /// An owner's own headroom and cooling addresses are open to it: they are unmarked while it searches.
    fn set_own_aside(&mut self, owner: &OwnerKey) -> (Vec<Range>, Vec<IpAddr>) {
        let mut headroom = Vec::new();
        if let OwnerKey::Reservation(id) = owner {
            for family in Family::ALL {
                headroom.extend(self.headroom.get(&(id.clone(), family)).copied());
            }
        }
        let cooling: Vec<IpAddr> = self.cooling_of.get(owner).into_iter().flatten().copied().collect();
        for range in &headroom {
            self.space_at_mut(range.first()).into_iter().for_each(|space| space.clear_headroom(*range));
        }
        for address in &cooling {
            self.space_at_mut(*address).into_iter().for_each(|space| space.uncool(*address));
        }
        (headroom, cooling)
    }

    fn put_own_back(&mut self, (headroom, cooling): (Vec<Range>, Vec<IpAddr>)) {
        for range in headroom {
            self.space_at_mut(range.first()).into_iter().for_each(|space| space.reserve_headroom(range));
        }
        for address in cooling {
            self.space_at_mut(address).into_iter().for_each(|space| space.cool(address));
        }
    }

    /// What is worth saying of an address about to be given: that it cooled, or was another's headroom.
    pub(super) fn notes_on(&mut self, owner: &OwnerKey, pool: &PoolId, address: IpAddr) -> Vec<Note> {
        self.refresh_headroom();
        let mut notes = Vec::new();
        let Some(space) = self.spaces.get(pool) else { return notes };
        if space.is_cooling(address)
            && let Some(row) = self.tables.cooling().get(&address)
            && OwnerKey::of(&row.former) != *owner
        {
            notes.push(Note::WasCooling { former: row.former.clone() });
        }
        if space.is_headroom(address) {
            let of = self.headroom.iter().find(|(_, range)| range.contains(address)).map(|((id, _), _)| id.clone());
            notes
                .extend(of.filter(|id| OwnerKey::Reservation(id.clone()) != *owner).map(|of| Note::WasHeadroom { of }));
        }
        notes
    }

    /// The pool among these, of the address's family, that gives this address.
    pub(super) fn pool_giving<'a>(&self, pools: &'a [PoolId], address: IpAddr) -> Option<&'a PoolId> {
        pools.iter().find(|pool| self.is_live(pool, address))
    }

    /// The family of a pool that is known; of what is wanted, if nothing is in force.
    pub(super) fn family_of(&self, pool: &PoolId) -> Option<Family> {
        let row = self.tables.pools().get(pool)?;
        match row.ranges.first() {
            Some(range) => Some(range.family()),
            None => crate::pool_spec::family(&row.wanted),
        }
    }

    pub(super) fn rooms(&self, pools: &[PoolId], needed: u32) -> Vec<PoolRoom> {
        let room = |pool: &PoolId| {
            let space = self.spaces.get(pool);
            PoolRoom {
                pool: pool.clone(),
                needed: u128::from(needed),
                free: space.map_or(0, super::super::free_space::FreeSpace::free),
                largest_free_run: space.map_or(0, super::super::free_space::FreeSpace::largest_free_run),
            }
        };
        pools.iter().map(room).collect()
    }

    /// Why a search found nothing.
    pub(super) fn no_room(&self, family: Family, pools: &[PoolId], needed: u32) -> Waiting {
        let tried = self.rooms(pools, needed);
        if tried.iter().any(|room| room.free >= room.needed) {
            Waiting::NoBlock { family, tried }
        } else {
            Waiting::Exhausted { family, tried }
        }
    }
}

fn addresses(runs: &[Run]) -> Vec<IpAddr> {
    let run = |run: &Run| {
        let first = run.first;
        (0..run.count).filter_map(move |n| offset(first, u128::from(n)))
    };
    runs.iter().flat_map(run).collect()
}
