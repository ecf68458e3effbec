//! Observing: what another allocator of the same pool holds is recorded, and wins over what no Pod uses yet.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::Ledger;
use super::plan::wanted;
use crate::Family;
use crate::command::{Observe, Observed, StatefulSetId};
use crate::outcome::{Outcome, Rejection};
use crate::row::{Holder, PoolId, PoolKind};

impl Ledger {
    pub(super) fn observe(&mut self, observe: &Observe) -> Result<Outcome, Rejection> {
        let pool = PoolId { kind: PoolKind::IpPool, name: observe.pool.clone() };
        if !self.tables.pools().contains_key(&pool) && !self.retired_held.contains_key(&pool) {
            return Err(Rejection::Unknown { kind: "IPPool".into(), name: pool.name });
        }
        let mut entries: BTreeMap<IpAddr, &Observed> = BTreeMap::new();
        for entry in &observe.entries {
            entries.entry(entry.address).or_insert(entry);
        }
        let live: Vec<&Observed> =
            entries.values().copied().filter(|entry| self.is_live(&pool, entry.address)).collect();
        let mut concerned: BTreeSet<StatefulSetId> = BTreeSet::new();
        for entry in live {
            self.see(&pool, entry, &entries, &mut concerned);
        }
        self.forget_unseen(&pool, &entries);
        for id in concerned {
            self.settle(&id);
        }
        Ok(Outcome::default())
    }

    /// Records one entry. `concerned`: the reservations that lose or take an address by it.
    fn see(
        &mut self,
        pool: &PoolId,
        entry: &Observed,
        entries: &BTreeMap<IpAddr, &Observed>,
        concerned: &mut BTreeSet<StatefulSetId>,
    ) {
        let address = entry.address;
        let held_by = self.tables.grants().get(&address).map(|grant| grant.holder.clone());
        match &held_by {
            Some(holder) if agrees(entry, holder) => return,
            Some(Holder::Ordinal { id, ordinal, .. }) if self.has_pod(id, *ordinal) => return,
            None | Some(Holder::Ordinal { .. } | Holder::Observed { .. }) => {}
            Some(_) => return,
        }
        let claimant =
            entry.ordinal.as_ref().filter(|_| self.takes(pool, entry, |address| entries.get(&address).copied()));
        let to = match claimant {
            Some((id, ordinal)) => {
                self.supersede(id, *ordinal, Family::of(address));
                concerned.insert(id.clone());
                Holder::Ordinal { id: id.clone(), ordinal: *ordinal, former: false }
            }
            None => Holder::Observed { owner: entry.owner.clone() },
        };
        match held_by {
            None => {
                self.grant(address, pool, to);
            }
            Some(from) if from != to => {
                self.transfer(address, to);
                if let Holder::Ordinal { id, .. } = from {
                    concerned.insert(id);
                }
            }
            Some(_) => {}
        }
    }

    /// Whether the reservation that an entry names takes the address as its ordinal's own: it wants the ordinal and
    /// names the pool, and the ordinal has no other one of the family, or one of this pool that nobody sees there.
    pub(super) fn takes<'a>(
        &self,
        pool: &PoolId,
        entry: &Observed,
        seen: impl Fn(IpAddr) -> Option<&'a Observed>,
    ) -> bool {
        let Some((id, ordinal)) = &entry.ordinal else { return false };
        let spec = self.tables.reservations().get(id).and_then(|row| row.spec.as_ref());
        let Some(spec) = spec.filter(|spec| wanted(spec).contains(ordinal) && spec.pools.contains(&pool.name)) else {
            return false;
        };
        let family = Family::of(entry.address);
        let mut fixed = spec.fixed.iter().filter(|address| Family::of(**address) == family);
        if fixed.clone().next().is_some() && fixed.nth((ordinal - spec.start) as usize) != Some(&entry.address) {
            return false;
        }
        let current = self.holdings.get(id).and_then(|held| held.current[family as usize].get(ordinal));
        current.is_none_or(|current| {
            let of_pool = self.tables.grants().get(current).is_some_and(|grant| grant.pool == *pool);
            of_pool && seen(*current).is_none_or(|seen| seen.ordinal != entry.ordinal)
        })
    }

    fn forget_unseen(&mut self, pool: &PoolId, seen: &BTreeMap<IpAddr, &Observed>) {
        let mut ranges = self.tables.pools().get(pool).map(|row| row.ranges.clone()).unwrap_or_default();
        ranges.extend(self.tables.retired().get(pool).into_iter().flat_map(|row| row.ranges.clone()));
        let inside = ranges.iter().flat_map(|range| self.tables.grants().range(range.first()..=range.last()));
        let unseen: BTreeSet<IpAddr> = inside
            .filter(|(address, grant)| {
                let observed = matches!(grant.holder, Holder::Observed { .. }) && grant.pool == *pool;
                observed && !seen.contains_key(*address)
            })
            .map(|(address, _)| *address)
            .collect();
        for address in unseen {
            self.release(address);
        }
    }

    pub(super) fn has_pod(&self, id: &StatefulSetId, ordinal: u32) -> bool {
        self.tables.ordinals().get(&(id.clone(), ordinal)).is_some_and(|row| row.pod.is_some())
    }
}

/// Whether an entry is of the ordinal that holds, or of the owner that is observed already and reserved for nobody.
pub(super) fn agrees(entry: &Observed, holder: &Holder) -> bool {
    match (holder, &entry.ordinal) {
        (Holder::Ordinal { id, ordinal, .. }, Some((of, n))) => id == of && ordinal == n,
        (Holder::Observed { owner }, None) => *owner == entry.owner,
        _ => false,
    }
}
