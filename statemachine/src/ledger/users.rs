//! Who uses what an ordinal holds.

use std::net::IpAddr;

use super::Ledger;
use crate::Family;
use crate::command::StatefulSetId;
use crate::row::{Holder, PodRef};

impl Ledger {
    /// The Pod that uses an address which is held for an ordinal, if one does.
    pub fn pod_using(&self, address: IpAddr) -> Option<&PodRef> {
        let Holder::Ordinal { id, ordinal, .. } = &self.tables.grants().get(&address)?.holder else { return None };
        let pod = &self.tables.ordinals().get(&(id.clone(), *ordinal))?.pod.as_ref()?.pod;
        (self.used_by_pod(id, *ordinal, Family::of(address)) == Some(address)).then_some(pod)
    }

    /// The addresses of one ordinal, current and former, ascending.
    pub fn addresses_of_ordinal(&self, id: &StatefulSetId, ordinal: u32) -> Vec<IpAddr> {
        let held = self.holdings.get(id).map(|held| held.of_ordinal(ordinal));
        held.into_iter().flatten().collect()
    }
}
