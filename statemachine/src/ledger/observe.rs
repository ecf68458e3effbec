//! Observing: what another allocator of the same pool holds is recorded, and wins over what no Pod uses yet.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::Ledger;
use crate::Name;
use crate::command::{Observe, StatefulSetId};
use crate::outcome::{Outcome, Rejection};
use crate::row::{Holder, PoolId, PoolKind};

impl Ledger {
    pub(super) fn observe(&mut self, observe: &Observe) -> Result<Outcome, Rejection> {
        let pool = PoolId { kind: PoolKind::IpPool, name: observe.pool.clone() };
        if !self.tables.pools().contains_key(&pool) && !self.retired_held.contains_key(&pool) {
            return Err(Rejection::Unknown { kind: "IPPool".into(), name: pool.name });
        }
        let mut entries: BTreeMap<IpAddr, &Name> = BTreeMap::new();
        for entry in &observe.entries {
            entries.entry(entry.address).or_insert(&entry.owner);
        }
        let seen: Vec<(IpAddr, &Name)> = entries.iter().map(|(address, owner)| (*address, *owner)).collect();
        let mut robbed: BTreeSet<StatefulSetId> = BTreeSet::new();
        for (address, owner) in
            seen.into_iter().filter(|(address, _)| self.is_live(&pool, *address)).collect::<Vec<_>>()
        {
            let now = Holder::Observed { owner: owner.clone() };
            match self.tables.grants().get(&address).map(|grant| grant.holder.clone()) {
                None => {
                    self.grant(address, &pool, now);
                }
                Some(Holder::Ordinal { id, ordinal, .. }) if !self.has_pod(&id, ordinal) => {
                    self.transfer(address, now);
                    robbed.insert(id);
                }
                Some(Holder::Observed { owner: before }) if before != *owner => {
                    self.transfer(address, now);
                }
                Some(_) => {}
            }
        }
        self.forget_unseen(&pool, &entries);
        for id in robbed {
            self.settle(&id, false);
        }
        Ok(Outcome::default())
    }

    fn forget_unseen(&mut self, pool: &PoolId, seen: &BTreeMap<IpAddr, &Name>) {
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
