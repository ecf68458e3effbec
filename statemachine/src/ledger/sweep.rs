//! Sweeping: deleting what a complete list of its source no longer has.

use super::{Ledger, malformed};
use crate::command::{
    DeleteEgress, DeleteNode, DeletePool, Gone, ObjectId, OwnerRef, ReleaseGrant, ReleaseReservation, Source, Sweep,
};
use crate::outcome::{Note, Outcome, Rejection};
use crate::row::{Key, Row};
use crate::{Name, Revision};

/// Most objects of one sweep.
const MAX_SWEEP: usize = 1_000;

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
    fn is_gone(&self, source: &Source, gone: &Gone) -> bool {
        let declared = match &gone.object {
            ObjectId::Pool(id) => self.declared(&Key::Pool(id.clone())),
            ObjectId::Reservation(id) => self.declared(&Key::Reservation(id.clone())),
            ObjectId::Egress(name) => self.declared(&Key::Egress(name.clone())),
            ObjectId::Node(name) => self.declared(&Key::Node(name.clone())),
            ObjectId::Pod(namespace, name) => {
                let bound = self.bound_by_name.get(&(namespace.clone(), name.clone()));
                bound.and_then(|(id, ordinal)| self.declared(&Key::Ordinal(id.clone(), *ordinal)))
            }
        };
        declared.is_some_and(|(uid, recorded, changed)| {
            uid == gone.uid && recorded == *source && changed <= gone.unchanged_since
        })
    }

    fn declared(&self, key: &Key) -> Option<(Name, Source, Revision)> {
        let row = self.tables.row(key)?;
        let changed = match &row {
            Row::Pool(row) => row.stamp.revision,
            Row::Reservation(row) => row.stamp.revision,
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
