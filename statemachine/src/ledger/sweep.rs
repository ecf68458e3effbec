//! Sweeping: deleting what a complete list of its source no longer has.

use super::holding::OwnerKey;
use super::{Ledger, malformed};
use crate::command::{
    DeleteEgress, DeleteNode, DeletePool, Gone, ObjectId, OwnerRef, ReleaseGrant, ReleaseReservation, Source, Sweep,
};
use crate::outcome::{Note, Outcome, Rejection};
use crate::row::{Holder, Key, Row};
use crate::{Name, Revision};

/// Most objects of one sweep.
const MAX_SWEEP: usize = 1_000;

fn matches(source: &Source, gone: &Gone, (uid, recorded, changed): &(Name, Source, Revision)) -> bool {
    *uid == gone.uid && recorded == source && *changed <= gone.unchanged_since
}

impl Ledger {
    pub(super) fn sweep(&mut self, source: &Source, sweep: &Sweep) -> Result<Outcome, Rejection> {
        if sweep.gone.len() > MAX_SWEEP {
            return Err(malformed("gone", &sweep.gone.len().to_string(), "at most 1000 objects"));
        }
        let mut objects = 0;
        let unchanged: Vec<bool> = sweep.gone.iter().map(|gone| self.is_gone(source, gone)).collect();
        for (gone, unchanged) in sweep.gone.iter().zip(unchanged) {
            let changed = self.now.revision;
            if !unchanged || self.sweep_one(source, gone).is_err() || self.now.revision == changed {
                objects += 1;
            }
        }
        let notes = if objects > 0 { vec![Note::LeftAlone { objects }] } else { Vec::new() };
        Ok(Outcome { notes, ..Outcome::default() })
    }

    /// Whether the object is of this source, has this UID, and has not changed since the list began.
    pub(super) fn is_gone(&self, source: &Source, gone: &Gone) -> bool {
        let declared = match &gone.object {
            ObjectId::Pool(id) => self.declared(&Key::Pool(id.clone())),
            // One that was adopted and never declared, too.
            ObjectId::Reservation(id) => {
                let row = self.tables.reservations().get(id);
                row.map(|row| (row.uid.clone(), row.source.clone(), row.stamp.revision))
            }
            ObjectId::Egress(name) => self.declared(&Key::Egress(name.clone())),
            ObjectId::Node(name) => self.declared(&Key::Node(name.clone())),
            ObjectId::Pod(namespace, name) => return self.is_pod_gone(source, gone, namespace, name),
        };
        declared.is_some_and(|declared| matches(source, gone, &declared))
    }

    /// A Pod is bound to an ordinal, or holds addresses outside reservations, or both: by the one that has this UID.
    fn is_pod_gone(&self, source: &Source, gone: &Gone, namespace: &Name, name: &Name) -> bool {
        let bound = self.bound_by_name.get(&(namespace.clone(), name.clone()));
        let bound = bound.and_then(|(id, ordinal)| self.declared(&Key::Ordinal(id.clone(), *ordinal)));
        if let Some(declared) = bound.filter(|(uid, ..)| *uid == gone.uid) {
            return matches(source, gone, &declared);
        }
        let held = self.held_by(&OwnerKey::Pod(namespace.clone(), name.clone()));
        let latest = held.iter().map(|(_, row)| row.stamp.revision).max().unwrap_or_default();
        held.first().is_some_and(|(_, row)| match &row.holder {
            Holder::Pod { pod, source: of } => matches(source, gone, &(pod.uid.clone(), of.clone(), latest)),
            _ => false,
        })
    }

    fn declared(&self, key: &Key) -> Option<(Name, Source, Revision)> {
        let row = self.tables.row(key)?;
        let changed = match &row {
            Row::Pool(row) => row.stamp.revision,
            Row::Egress(row) => row.stamp.revision,
            Row::Node(row) => row.stamp.revision,
            Row::Ordinal(row) => row.stamp.revision,
            _ => return None,
        };
        row.declaration(key).map(|(_, uid, source)| (uid.clone(), source.clone(), changed))
    }

    fn sweep_one(&mut self, source: &Source, gone: &Gone) -> Result<Outcome, Rejection> {
        let uid = gone.uid.clone();
        match &gone.object {
            ObjectId::Pool(pool) => self.delete_pool(source, &DeletePool { pool: pool.clone(), uid }),
            ObjectId::Reservation(id) => self.release_reservation(source, &ReleaseReservation { id: id.clone(), uid }),
            ObjectId::Egress(name) => self.delete_egress(source, &DeleteEgress { name: name.clone(), uid }),
            ObjectId::Node(name) => self.delete_node(source, &DeleteNode { name: name.clone(), uid }),
            ObjectId::Pod(namespace, name) => {
                let owner = OwnerRef::Pod(namespace.clone(), name.clone());
                self.release_grant(source, &ReleaseGrant { owner, uid, revision: None })
            }
        }
    }
}
