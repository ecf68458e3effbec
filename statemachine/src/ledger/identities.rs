//! Who stands behind a name: what an observer needs to compare an object with what is recorded of it.

use std::net::IpAddr;

use super::Ledger;
use super::holding::OwnerKey;
use crate::command::{ObjectId, Source};
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
}
