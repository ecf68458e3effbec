//! Who waits, in which order, and who is worth trying when something is freed.
//!
//! Waiters are indexed by what they need, so that what is freed touches only those that it may help. A
//! candidate from the index is then tried in full; only that decides.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::{Ledger, Needed};
use crate::Name;
use crate::Revision;
use crate::command::{Contiguity, StatefulSetId};
use crate::free_space::FreeSpace;
use crate::outcome::Waiting;
use crate::row::{PoolId, PoolKind};

/// Something that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Waiter {
    Pool(PoolId),
    Reservation(StatefulSetId),
    /// An Egress, and the position of the item.
    Item(Name, u32),
}

/// What a waiter needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    /// This many free addresses in a pool; 0: anything freed in it.
    Count(PoolId, u128),
    /// A free run this long in a pool.
    Run(PoolId, u128),
    Address(IpAddr),
    /// A pool to be there, or to have other ranges.
    Pool(PoolId),
    /// Any pool to give up ranges.
    Ranges,
}

/// All waiters, by the revision of their first wait, and by need.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiters {
    order: BTreeMap<Revision, (Waiter, Vec<Need>)>,
    by_need: BTreeMap<Need, BTreeSet<Revision>>,
    /// What happened since waiters were last tried.
    freed_in: BTreeSet<PoolId>,
    freed: BTreeSet<IpAddr>,
    changed: BTreeSet<PoolId>,
    ranges: bool,
    /// Grows with each of the above.
    happenings: u64,
}

impl Waiters {
    fn insert(&mut self, since: Revision, waiter: Waiter, needs: Vec<Need>) {
        for need in &needs {
            self.by_need.entry(need.clone()).or_default().insert(since);
        }
        self.order.insert(since, (waiter, needs));
    }

    /// Takes a waiter off the list.
    pub(super) fn remove(&mut self, since: Revision) {
        let Some((_, needs)) = self.order.remove(&since) else { return };
        for need in needs {
            if let Some(waiters) = self.by_need.get_mut(&need) {
                waiters.remove(&since);
                if waiters.is_empty() {
                    self.by_need.remove(&need);
                }
            }
        }
    }

    /// Who waits, first first.
    pub(super) fn order(&self) -> impl Iterator<Item = (Revision, &Waiter)> {
        self.order.iter().map(|(since, (waiter, _))| (*since, waiter))
    }

    pub(super) fn get(&self, since: Revision) -> Option<&Waiter> {
        self.order.get(&since).map(|(waiter, _)| waiter)
    }

    pub(super) fn enlist(
        &mut self,
        since: Revision,
        waiter: Waiter,
        named: &[PoolId],
        needed: &[Needed],
        contiguity: Contiguity,
    ) {
        let mut needs: Vec<Need> = named.iter().cloned().map(Need::Pool).collect();
        for part in needed {
            needs.extend(part.fixed.iter().copied().map(Need::Address));
            let count = part.ordinals.len() as u128;
            let in_pool = |pool: &PoolId| match contiguity {
                Contiguity::Required => Need::Run(pool.clone(), count),
                Contiguity::Preferred => Need::Count(pool.clone(), count),
            };
            needs.extend(part.pools.iter().filter(|_| part.fixed.is_empty()).map(in_pool));
        }
        self.insert(since, waiter, needs);
    }

    pub(super) fn enlist_pool(&mut self, since: Revision, pool: &PoolId) {
        let needs = vec![Need::Ranges, Need::Count(pool.clone(), 0)];
        self.insert(since, Waiter::Pool(pool.clone()), needs);
    }

    pub(super) fn enlist_item(
        &mut self,
        since: Revision,
        egress: &Name,
        item: u32,
        pool: &PoolId,
        asked: Option<IpAddr>,
    ) {
        let need = asked.map_or_else(|| Need::Count(pool.clone(), 1), Need::Address);
        self.insert(since, Waiter::Item(egress.clone(), item), vec![Need::Pool(pool.clone()), need]);
    }

    /// An address of a pool was freed.
    pub(super) fn freed(&mut self, pool: &PoolId, address: IpAddr) {
        self.happenings += 1;
        self.freed.insert(address);
        self.freed_in.insert(pool.clone());
    }

    /// A pool is there, or has other ranges.
    pub(super) fn pool_changed(&mut self, pool: &PoolId) {
        self.happenings += 1;
        self.changed.insert(pool.clone());
        self.ranges = true;
    }

    /// Ranges that no other pool could have are free for all.
    pub(super) fn ranges_changed(&mut self) {
        self.happenings += 1;
        self.ranges = true;
    }

    fn clear_happenings(&mut self) {
        self.freed_in.clear();
        self.freed.clear();
        self.changed.clear();
        self.ranges = false;
    }

    /// The first waiter not yet tried that what happened may help.
    fn candidate(&self, spaces: &BTreeMap<PoolId, FreeSpace>, tried: &BTreeSet<Revision>) -> Option<Revision> {
        let first_of = |waiters: &BTreeSet<Revision>| waiters.iter().find(|since| !tried.contains(since)).copied();
        let exact = |need: &Need| self.by_need.get(need).and_then(first_of);
        let up_to = |least: Need, most: Need| self.by_need.range(least..=most).filter_map(|(_, w)| first_of(w)).min();
        let in_pools = self.freed_in.union(&self.changed).flat_map(|pool| {
            let space = spaces.get(pool);
            let free = space.map_or(0, FreeSpace::free);
            let run = space.map_or(0, FreeSpace::largest_free_run);
            let count = up_to(Need::Count(pool.clone(), 0), Need::Count(pool.clone(), free));
            let block = up_to(Need::Run(pool.clone(), 0), Need::Run(pool.clone(), run));
            [count, block]
        });
        let addresses = self.freed.iter().map(|address| exact(&Need::Address(*address)));
        let changed = self.changed.iter().map(|pool| exact(&Need::Pool(pool.clone())));
        let ranges = self.ranges.then(|| exact(&Need::Ranges)).into_iter();
        in_pools.chain(addresses).chain(changed).chain(ranges).flatten().min()
    }
}

impl Ledger {
    /// Meets the first waiter that can be met, and again from the first, until none can.
    pub(super) fn wake(&mut self) {
        if self.adopting() {
            return;
        }
        let mut tried = BTreeSet::new();
        while let Some(since) = self.waiters.candidate(&self.spaces, &tried) {
            let before = self.waiters.happenings;
            let met = match self.waiters.get(since).cloned() {
                Some(Waiter::Pool(pool)) => self.retry_pool(&pool),
                Some(Waiter::Reservation(id)) => {
                    let can = self.can_settle(&id);
                    if can {
                        self.settle(&id);
                    } else {
                        // A pool that it did not know may have given its needs a number.
                        self.waiters.remove(since);
                        self.enlist_reservation(&id, since);
                    }
                    can
                }
                Some(Waiter::Item(egress, item)) => self.retry_item(&egress, item),
                None => false,
            };
            if self.waiters.happenings != before {
                tried.clear();
            }
            if !met {
                tried.insert(since);
            }
        }
        self.waiters.clear_happenings();
    }

    /// An adoption has ended: each waiter in order is met, or told what it waits for if that was the end.
    pub(super) fn try_all(&mut self) {
        let waiters: Vec<(Revision, Waiter)> =
            self.waiters.order().map(|(since, waiter)| (since, waiter.clone())).collect();
        for (since, waiter) in waiters {
            if self.waiters.get(since) != Some(&waiter) {
                continue;
            }
            match waiter {
                Waiter::Pool(pool) => drop(self.retry_pool(&pool)),
                Waiter::Reservation(id) => {
                    if self.waits_for_the_end(&id) || self.can_settle(&id) {
                        self.settle(&id);
                    }
                }
                Waiter::Item(egress, item) => self.retry_item_at_the_end(&egress, item),
            }
        }
    }

    fn waits_for_the_end(&self, id: &StatefulSetId) -> bool {
        let waiting = self.tables.reservations().get(id).and_then(|row| row.waiting.as_ref());
        waiting.is_some_and(|(_, waiting)| waiting.contains(&Waiting::NotAdopted))
    }

    pub(super) fn derive_waiters(&mut self) {
        let pools: Vec<_> = self.tables.pools().iter().map(|(id, row)| (id.clone(), row.waiting.clone())).collect();
        for (id, waiting) in pools {
            if let Some((since, _)) = waiting {
                self.waiters.enlist_pool(since, &id);
            }
        }
        let reservations: Vec<_> =
            self.tables.reservations().iter().map(|(id, row)| (id.clone(), row.waiting.clone())).collect();
        for (id, waiting) in reservations {
            if let Some((since, _)) = waiting {
                self.enlist_reservation(&id, since);
            }
        }
        for (name, row) in self.tables.egresses() {
            for (item, position) in row.items.iter().zip(0u32..) {
                if let (Some(pool), Some((since, _))) = (&item.pool, &item.waiting) {
                    let pool = PoolId { kind: PoolKind::ExternalIpPool, name: pool.clone() };
                    self.waiters.enlist_item(*since, name, position, &pool, item.asked);
                }
            }
        }
    }

    /// Whether anything that waits could be met: never, between commands.
    pub(super) fn unmet(&self) -> Vec<String> {
        if self.adopting() {
            return Vec::new();
        }
        let mut trial = self.clone();
        let mut unmet = Vec::new();
        for (since, (waiter, _)) in &self.waiters.order {
            let can = match waiter {
                Waiter::Pool(id) => trial.acceptable(id).is_none(),
                Waiter::Reservation(id) => trial.can_settle(id),
                Waiter::Item(egress, item) => trial.can_grant_item(egress, *item),
            };
            if can {
                unmet.push(format!("{waiter:?}, waiting since revision {since}, could be met"));
            }
        }
        unmet
    }
}

/// Kept with what waits: the reason, and the revision of the first wait.
pub(super) type Wait = Option<(Revision, Waiting)>;
