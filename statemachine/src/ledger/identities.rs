//! Who stands behind a name: what an observer needs to compare an object with what is recorded of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::Ledger;
use super::holding::OwnerKey;
use super::plan::wanted;
use crate::command::{Action, ObjectId, Source, StatefulSetId};
use crate::row::Holder;
use crate::{Family, Name};

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

    /// The ordinals of a StatefulSet that hold addresses and have no Pod bound to them, with the addresses: one may be
    /// in use all the same, by a Pod that was not reported yet.
    pub fn unbound(&self, id: &StatefulSetId) -> BTreeMap<u32, BTreeSet<IpAddr>> {
        let Some(holdings) = self.holdings.get(id) else { return BTreeMap::new() };
        let unbound = holdings.ordinals().into_iter().filter(|ordinal| !self.has_pod(id, *ordinal));
        unbound.map(|ordinal| (ordinal, holdings.of_ordinal(ordinal))).collect()
    }

    /// Those of them that an action no longer wants, with the StatefulSet; `None` if there are none.
    pub fn unbound_and_unwanted(&self, action: &Action) -> Option<(StatefulSetId, BTreeMap<u32, BTreeSet<IpAddr>>)> {
        let (id, wanted) = match action {
            Action::ReleaseReservation(release) => (&release.id, 0..0),
            Action::Reserve(reserve) => (&reserve.id, wanted(&reserve.spec)),
            _ => return None,
        };
        let mut unbound = self.unbound(id);
        unbound.retain(|ordinal, _| !wanted.contains(ordinal));
        (!unbound.is_empty()).then(|| (id.clone(), unbound))
    }
}
