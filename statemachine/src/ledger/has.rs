//! Whether an action would change nothing: what a caller asks before it troubles the log with it.
//!
//! Only what is cheap to see is seen: rows that are as wanted, or not there. Whatever would be refused counts as a
//! change, so that the refusal is told.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::holding::OwnerKey;
use super::{Ledger, grants};
use crate::Name;
use crate::adopt::Adopt;
use crate::command::{
    Action, Grant, Observe, Observed, Owner, OwnerRef, PutEgress, PutSettings, ReleaseGrant, ReleaseReservation,
    Reserve, Source,
};
use crate::row::{EgressItemRow, Holder, PoolId, PoolKind};

impl Ledger {
    /// Whether applying this action of this source now, at the ledger's own time, would change nothing: no revision
    /// would be taken. Never true wrongly; false where it is not sure.
    pub fn has(&self, source: &Source, action: &Action) -> bool {
        if self.allowed(action).is_err() {
            return false;
        }
        match action {
            Action::PutPool(put) => {
                let row = self.tables.pools().get(&put.pool);
                row.is_some_and(|row| row.source == *source && row.wanted == *put)
            }
            Action::DeletePool(delete) => {
                let row = self.tables.pools().get(&delete.pool);
                row.is_none_or(|row| row.source == *source && row.wanted.uid != delete.uid)
            }
            Action::Reserve(reserve) => self.has_reservation(source, reserve),
            Action::ReleaseReservation(release) => self.has_released(source, release),
            Action::Grant(grant) => self.has_grant(grant),
            Action::ReleaseGrant(release) => self.has_no_grant(release),
            Action::PutEgress(put) => self.has_egress(source, put),
            Action::DeleteEgress(delete) => {
                let row = self.tables.egresses().get(&delete.name);
                row.is_none_or(|row| row.source == *source && row.uid != delete.uid)
            }
            Action::PutNode(put) => {
                let row = self.tables.nodes().get(&put.name);
                row.is_some_and(|row| row.source == *source && super::nodes::declared(source, put, Some(row)) == *row)
            }
            Action::DeleteNode(delete) => {
                let row = self.tables.nodes().get(&delete.name);
                row.is_none_or(|row| row.source == *source && row.uid != delete.uid)
            }
            Action::Drain(drain) => self.tables.nodes().get(&drain.node).is_some_and(|row| row.drained),
            Action::Undrain(undrain) => self.tables.nodes().get(&undrain.node).is_some_and(|row| !row.drained),
            Action::Pin(pin) => self.is_pinned(&pin.egress, pin.address, &pin.node),
            Action::Unpin(unpin) => self.is_unpinned(&unpin.egress, unpin.address),
            Action::Rebalance(_) => false,
            Action::PutSettings(put) => self.has_settings(put),
            Action::Sweep(sweep) => sweep.gone.iter().all(|gone| !self.is_gone(source, gone)),
            Action::Observe(observe) => self.has_observed(observe),
            Action::Adopt(Adopt::Begin { mode }) => self.tables.adoption().is_some_and(|row| row.mode == *mode),
            Action::Adopt(Adopt::Held(items)) => items.is_empty(),
            Action::Adopt(Adopt::End) => !self.adopting(),
        }
    }

    fn has_reservation(&self, source: &Source, reserve: &Reserve) -> bool {
        match self.tables.reservations().get(&reserve.id) {
            Some(row) => row.source == *source && row.uid == reserve.uid && row.spec.as_ref() == Some(&reserve.spec),
            None => reserve.spec.pools.is_empty(),
        }
    }

    fn has_released(&self, source: &Source, release: &ReleaseReservation) -> bool {
        let id = &release.id;
        let Some(row) = self.tables.reservations().get(id) else { return true };
        if row.spec.is_some() {
            return row.source == *source && row.uid != release.uid;
        }
        // Without a spec only what no Pod uses and nothing retains would go.
        let mut ordinals = self.known_ordinals(id).into_iter();
        row.source != *source
            || row.uid != release.uid
            || ordinals.all(|ordinal| {
                let row = self.tables.ordinals().get(&(id.clone(), ordinal));
                row.is_some_and(|row| row.pod.is_some() || row.retained_until.is_some())
            })
    }

    fn has_grant(&self, grant: &Grant) -> bool {
        if let Owner::Pod(pod) = &grant.owner {
            if self.bound_by_uid.contains_key(&pod.uid) {
                return true;
            }
            if pod.ordinal.is_some() {
                return false;
            }
        }
        let pools: Vec<PoolId> =
            grant.pools.iter().map(|name| PoolId { kind: grant.kind, name: name.clone() }).collect();
        // Who asked says nothing of whose it is.
        let owner = grants::holder(&grant.owner, &Source::Api);
        let held = self.held_by(&OwnerKey::of(&owner));
        held.iter().all(|(_, row)| grants::same(&row.holder, &owner))
            && !held.is_empty()
            && pools.iter().all(|pool| self.tables.pools().contains_key(pool))
            && self.still_fits(&held, &pools, &grant.addresses).is_ok()
    }

    fn has_no_grant(&self, release: &ReleaseGrant) -> bool {
        let owner = match &release.owner {
            OwnerRef::Named(name) => OwnerKey::Named(name.clone()),
            OwnerRef::Pod(namespace, name) => {
                let bound = self.bound_by_name.get(&(namespace.clone(), name.clone()));
                let pod = bound.and_then(|key| self.tables.ordinals().get(key)?.pod.as_ref());
                if pod.is_some_and(|bound| bound.pod.uid == release.uid) {
                    return false;
                }
                OwnerKey::Pod(namespace.clone(), name.clone())
            }
        };
        self.held_by(&owner).iter().all(|(_, row)| match &row.holder {
            Holder::Named { uid, .. } => *uid != release.uid,
            Holder::Pod { pod, .. } => pod.uid != release.uid,
            _ => false,
        })
    }

    fn has_egress(&self, source: &Source, put: &PutEgress) -> bool {
        let row = self.tables.egresses().get(&put.name);
        row.is_some_and(|row| {
            row.source == *source && row.uid == put.uid && super::egresses::is_declared(row, put, &[])
        })
    }

    /// The placement of the one address that is named, or of the only one.
    fn placement_of(&self, egress: &Name, address: Option<IpAddr>) -> Option<&crate::row::PlacementRow> {
        let row = self.tables.egresses().get(egress)?;
        let mut granted = row.items.iter().filter_map(EgressItemRow::granted);
        let only = match address {
            Some(address) => granted.find(|granted| *granted == address)?,
            None => granted.next().filter(|_| granted.next().is_none())?,
        };
        self.tables.placements().get(&only)
    }

    fn is_pinned(&self, egress: &Name, address: Option<IpAddr>, node: &Name) -> bool {
        self.placement_of(egress, address).is_some_and(|row| row.pinned && row.node == *node)
    }

    fn is_unpinned(&self, egress: &Name, address: Option<IpAddr>) -> bool {
        self.placement_of(egress, address).is_some_and(|row| !row.pinned)
    }

    fn has_settings(&self, put: &PutSettings) -> bool {
        let settings = self.tables.settings();
        put.policy.is_none_or(|policy| policy == settings.policy)
            && put.default_capacity.is_none_or(|capacity| capacity == settings.default_capacity)
            && put.history_rows.is_none_or(|rows| rows == settings.history_rows)
            && put.history_age.is_none_or(|age| age == settings.history_age)
    }

    /// All that is observed in a pool is recorded as it is, and nothing else is.
    fn has_observed(&self, observe: &Observe) -> bool {
        let pool = PoolId { kind: PoolKind::IpPool, name: observe.pool.clone() };
        let Some(row) = self.tables.pools().get(&pool) else { return false };
        let seen: BTreeMap<IpAddr, &Observed> =
            observe.entries.iter().rev().map(|entry| (entry.address, entry)).collect();
        let as_recorded = seen.values().filter(|entry| self.is_live(&pool, entry.address)).all(|entry| {
            let Some(holder) = self.tables.grants().get(&entry.address).map(|grant| &grant.holder) else {
                return false;
            };
            super::observe::agrees(entry, holder)
                || match holder {
                    Holder::Ordinal { id, ordinal, .. } => self.has_pod(id, *ordinal),
                    Holder::Observed { owner } => {
                        *owner == entry.owner && !self.takes(&pool, entry, |address| seen.get(&address).copied())
                    }
                    _ => true,
                }
        });
        if !as_recorded || self.tables.retired().contains_key(&pool) {
            return false;
        }
        let held = row.ranges.iter().flat_map(|range| self.tables.grants().range(range.first()..=range.last()));
        let mut observed = held.filter(|(_, grant)| matches!(grant.holder, Holder::Observed { .. }));
        observed.all(|(address, _)| seen.contains_key(address))
    }
}
