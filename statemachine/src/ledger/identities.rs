//! Who stands behind a name: what an observer needs to compare an object with what is recorded of it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::Ledger;
use super::holding::{Holdings, OwnerKey};
use super::plan::wanted;
use crate::command::{Action, ObjectId, OwnerRef, ReleaseGrant, Reserve, ReserveSpec, Source, StatefulSetId};
use crate::row::{Holder, ReservationRow};
use crate::{Family, Name};

/// What ordinals hold: each address with its pool.
pub type Held = BTreeMap<u32, BTreeMap<IpAddr, Name>>;

impl Ledger {
    /// The source and the UID of what is recorded of an object: its declaration, or the binding or the grant of a Pod.
    pub fn recorded(&self, object: &ObjectId) -> Option<(Source, Name)> {
        let tables = &self.tables;
        match object {
            ObjectId::Pool(id) => tables.pools().get(id).map(|row| (row.source.clone(), row.wanted.uid.clone())),
            ObjectId::Reservation(id) => tables
                .reservations()
                .get(id)
                .filter(|row| row.spec.is_some() || tables.is_adopted(id))
                .map(|row| (row.source.clone(), row.uid.clone())),
            ObjectId::Egress(name) => tables.egresses().get(name).map(|row| (row.source.clone(), row.uid.clone())),
            ObjectId::Node(name) => tables.nodes().get(name).map(|row| (row.source.clone(), row.uid.clone())),
            ObjectId::Pod(namespace, name) => {
                let bound = self.bound_by_name.get(&(namespace.clone(), name.clone()));
                if let Some(bound) = bound.and_then(|at| tables.ordinals().get(at)?.pod.as_ref()) {
                    return Some((bound.source.clone(), bound.pod.uid.clone()));
                }
                let held = self.owned.get(&OwnerKey::Pod(namespace.clone(), name.clone()))?;
                held.iter().find_map(|address| match &tables.grants().get(address)?.holder {
                    Holder::Pod { pod, source } => Some((source.clone(), pod.uid.clone())),
                    _ => None,
                })
            }
        }
    }

    /// The addresses that a Pod is to use, if the Pod of this name with this UID is bound or holds any; IPv4 first.
    pub fn addresses_of_pod(&self, namespace: &Name, name: &Name, uid: &Name) -> Vec<IpAddr> {
        if let Some((id, ordinal)) = self.bound_by_uid.get(uid) {
            return Family::ALL.iter().filter_map(|family| self.used_by_pod(id, *ordinal, *family)).collect();
        }
        let held = self.owned.get(&OwnerKey::Pod(namespace.clone(), name.clone()));
        let own = |address: &IpAddr| match self.tables.grants().get(address).map(|grant| &grant.holder) {
            Some(Holder::Pod { pod, .. }) => pod.uid == *uid,
            _ => false,
        };
        held.into_iter().flatten().copied().filter(own).collect()
    }

    /// The ordinals of a StatefulSet that hold addresses and have no Pod bound to them: one may be in use all the same,
    /// by a Pod that was not reported yet.
    pub fn unbound(&self, id: &StatefulSetId) -> Held {
        let known = self.holdings.get(id).map(Holdings::ordinals).unwrap_or_default().into_iter();
        known.filter(|ordinal| !self.has_pod(id, *ordinal)).map(|ordinal| (ordinal, self.held(id, ordinal))).collect()
    }

    /// The ordinal to which a Pod of this name is bound.
    pub fn bound_to(&self, namespace: &Name, name: &Name) -> Option<(StatefulSetId, Held)> {
        let (id, ordinal) = self.bound_by_name.get(&(namespace.clone(), name.clone()))?;
        Some((id.clone(), Held::from([(*ordinal, self.held(id, *ordinal))])))
    }

    fn held(&self, id: &StatefulSetId, ordinal: u32) -> BTreeMap<IpAddr, Name> {
        let addresses = self.holdings.get(id).map(|held| held.of_ordinal(ordinal)).unwrap_or_default().into_iter();
        let pool = |address| Some((address, self.tables.grants().get(&address)?.pool.name.clone()));
        addresses.filter_map(pool).collect()
    }

    /// The ordinals that may lose addresses by an action though a Pod that was not reported yet may use them: those
    /// without a Pod, and that of a Pod which the action says is gone, whose successor may be there.
    pub fn at_stake(&self, action: &Action) -> Option<(StatefulSetId, Held)> {
        let (id, held) = match action {
            Action::ReleaseReservation(release) => (release.id.clone(), self.unbound(&release.id)),
            Action::Reserve(reserve) => {
                let row = self.tables.reservations().get(&reserve.id)?;
                let mut held = self.unbound(&reserve.id);
                held.retain(|ordinal, held| self.may_lose(row, reserve, *ordinal, held));
                (reserve.id.clone(), held)
            }
            Action::ReleaseGrant(ReleaseGrant { owner: OwnerRef::Pod(namespace, name), .. }) => {
                let (id, mut held) = self.bound_to(namespace, name)?;
                let spec = self.tables.reservations().get(&id).and_then(|row| row.spec.as_ref());
                held.retain(|ordinal, _| !spec.is_some_and(|spec| wanted(spec).contains(ordinal)));
                (id, held)
            }
            _ => return None,
        };
        (!held.is_empty()).then_some((id, held))
    }

    /// Whether an ordinal keeps each of its addresses as its current one.
    fn keeps(&self, spec: &ReserveSpec, ordinal: u32, held: &BTreeMap<IpAddr, Name>) -> bool {
        let place = ordinal.wrapping_sub(spec.start) as usize;
        held.keys().all(|address| {
            let Some(grant) = self.tables.grants().get(address) else { return true };
            let mut fixed = spec.fixed.iter().filter(|fixed| Family::of(**fixed) == Family::of(*address)).peekable();
            let as_fixed = fixed.peek().is_none() || fixed.nth(place) == Some(address);
            spec.pools.contains(&grant.pool.name) && self.is_live(&grant.pool, *address) && as_fixed
        })
    }

    fn may_lose(&self, row: &ReservationRow, reserve: &Reserve, ordinal: u32, held: &BTreeMap<IpAddr, Name>) -> bool {
        let spec = &reserve.spec;
        let holdings = self.holdings.get(&reserve.id);
        let has_former = holdings.is_some_and(|held| held.former.iter().any(|family| family.contains_key(&ordinal)));
        if spec.settled && (has_former || !self.keeps(spec, ordinal, held)) {
            return true;
        }
        // One that was not wanted before either is kept as before, by the same rule.
        let as_before = row.spec.as_ref().is_some_and(|old| {
            row.uid == reserve.uid
                && !wanted(old).contains(&ordinal)
                && old.when_scaled == spec.when_scaled
                && !spec.pools.is_empty()
        });
        !wanted(spec).contains(&ordinal) && !as_before
    }
}
