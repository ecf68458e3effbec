//! Causes, rejections, and what an outcome says once everything that follows has happened.

use holdfast_statemachine::command::{ObjectId, Owner, OwnerRef, PodOwner};
use holdfast_statemachine::outcome::{Granted, Move, Note};
use holdfast_statemachine::row::Holder;
use holdfast_statemachine::{
    Action, Cause, Change, Command, Event, Name, Outcome, PoolId, PoolKind, Rejection, Revision, Source, address,
};

use super::Model;
use super::search::same_owner;

/// The field alone counts; the words are the ledger's own.
pub fn malformed(field: &str) -> Rejection {
    Rejection::Malformed { field: field.into(), value: "".into(), allowed: "".into() }
}

pub fn kind_of(pool: &PoolId) -> Name {
    match pool.kind {
        PoolKind::IpPool => "IPPool".into(),
        PoolKind::ExternalIpPool => "ExternalIPPool".into(),
    }
}

pub fn other_source(object: &ObjectId, source_of: &Source) -> Rejection {
    let (kind, name): (Name, Name) = match object {
        ObjectId::Pool(id) => (kind_of(id), id.name.clone()),
        ObjectId::Reservation(id) => ("StatefulSet".into(), id.to_string().into()),
        ObjectId::Egress(name) => ("Egress".into(), name.clone()),
        ObjectId::Node(name) => ("Node".into(), name.clone()),
        ObjectId::Pod(namespace, name) => ("Pod".into(), format!("{namespace}/{name}").into()),
    };
    Rejection::OtherSource { kind, name, source_of: source_of.clone() }
}

pub fn not_held(stands: Option<(Name, Revision)>) -> Outcome {
    let (held_by_uid, revision) = stands.unzip();
    Outcome { notes: vec![Note::NotHeld { held_by_uid, revision }], ..Outcome::default() }
}

pub fn cause(command: &Command) -> Cause {
    let none: Name = "".into();
    let (name, object): (&str, Name) = match &command.action {
        Action::PutPool(put) => ("PutPool", put.pool.name.clone()),
        Action::DeletePool(delete) => ("DeletePool", delete.pool.name.clone()),
        Action::Reserve(reserve) => ("Reserve", reserve.id.to_string().into()),
        Action::ReleaseReservation(release) => ("ReleaseReservation", release.id.to_string().into()),
        Action::Grant(grant) => match &grant.owner {
            Owner::Named { name, .. } => ("Grant", name.clone()),
            Owner::Pod(pod) => ("Grant", format!("{}/{}", pod.namespace, pod.name).into()),
        },
        Action::ReleaseGrant(release) => match &release.owner {
            OwnerRef::Named(name) => ("ReleaseGrant", name.clone()),
            OwnerRef::Pod(namespace, name) => ("ReleaseGrant", format!("{namespace}/{name}").into()),
        },
        Action::PutEgress(put) => ("PutEgress", put.name.clone()),
        Action::DeleteEgress(delete) => ("DeleteEgress", delete.name.clone()),
        Action::PutNode(put) => ("PutNode", put.name.clone()),
        Action::DeleteNode(delete) => ("DeleteNode", delete.name.clone()),
        Action::Drain(drain) => ("Drain", drain.node.clone()),
        Action::Undrain(undrain) => ("Undrain", undrain.node.clone()),
        Action::Pin(pin) => ("Pin", pin.egress.clone()),
        Action::Unpin(unpin) => ("Unpin", unpin.egress.clone()),
        Action::Rebalance(_) => ("Rebalance", none),
        Action::PutSettings(_) => ("PutSettings", none),
        Action::Sweep(_) => ("Sweep", none),
        Action::Observe(observe) => ("Observe", observe.pool.clone()),
        Action::Adopt(_) => ("Adopt", none),
    };
    Cause::Command { name: name.into(), object, source: command.source.to_string().into() }
}

/// The move that a change is, if it is one.
fn moved(change: &Change) -> Option<Move> {
    match &change.event {
        Event::Placed { address, egress, from, to, .. } => {
            Some(Move { egress: egress.clone(), address: *address, from: from.clone(), to: Some(to.clone()) })
        }
        Event::Unplaced { address, egress, from, .. } => {
            Some(Move { egress: egress.clone(), address: *address, from: Some(from.clone()), to: None })
        }
        _ => None,
    }
}

impl Model {
    /// Fills in what is the same for every command of a kind.
    pub(super) fn complete(&self, action: &Action, before: &Model, outcome: &mut Outcome) {
        outcome.revision = self.clock.revision;
        outcome.changed = self.clock.revision > before.clock.revision;
        match action {
            Action::PutPool(put) => {
                let row = &self.pools[&put.pool];
                outcome.waiting.extend(row.waiting.iter().map(|(_, waiting)| waiting.clone()));
            }
            Action::Reserve(reserve) => {
                if let Some(row) = self.reservations.get(&reserve.id) {
                    outcome.waiting.extend(row.waiting.iter().flat_map(|(_, waiting)| waiting.clone()));
                }
                let id = reserve.id.clone();
                self.say_granted(before, &Holder::Ordinal { id, ordinal: 0, former: false }, outcome);
            }
            Action::PutEgress(put) => {
                let items = &self.egresses[&put.name].items;
                let waiting = items.iter().filter_map(|item| item.waiting.as_ref());
                outcome.waiting.extend(waiting.map(|(_, waiting)| waiting.clone()));
                self.say_granted(before, &Holder::Egress { name: put.name.clone() }, outcome);
            }
            Action::Drain(_) | Action::Undrain(_) => {
                outcome.moves = self.changes[before.changes.len()..].iter().filter_map(moved).collect();
            }
            Action::Grant(grant) => self.complete_grant(&grant.owner, outcome),
            _ => {}
        }
    }

    fn complete_grant(&self, owner: &Owner, outcome: &mut Outcome) {
        if let Owner::Pod(pod) = owner
            && let Some((id, ordinal)) = self.bound_where(|b| b.pod.uid == pod.uid)
        {
            outcome.granted = self.used_by_pod(&id, ordinal);
            let named = pod.ordinal.as_ref().and_then(|(named, _)| self.reservations.get(named)?.waiting.as_ref());
            outcome.waiting.extend(named.into_iter().flat_map(|(_, waiting)| waiting.clone()));
            return;
        }
        let holder = match owner {
            Owner::Named { name, uid } => Holder::Named { name: name.clone(), uid: uid.clone(), source: Source::Api },
            Owner::Pod(pod @ PodOwner { .. }) => {
                Holder::Pod { pod: super::reservation::pod_ref(pod), source: Source::Api }
            }
        };
        let held = self.grants.iter().filter(|(_, row)| same_owner(&row.holder, &holder));
        outcome.granted = held.map(|(address, _)| self.granted_one(*address, None)).collect();
        outcome.notes.extend(self.notes_for(&holder));
    }

    fn say_granted(&self, before: &Model, object: &Holder, outcome: &mut Outcome) {
        let mut runs: Vec<Granted> = Vec::new();
        for change in &self.changes[before.changes.len()..] {
            let Event::Granted { address, pool, holder } = &change.event else { continue };
            if !same_owner(holder, object) {
                continue;
            }
            let ordinal = match holder {
                Holder::Ordinal { ordinal, .. } => Some(*ordinal),
                _ => None,
            };
            if let Some(run) = runs.last_mut()
                && run.pool == *pool
                && address::offset(run.first, u128::from(run.count)) == Some(*address)
                && ordinal.is_some()
                && run.ordinal.and_then(|o| o.checked_add(run.count)) == ordinal
            {
                run.count += 1;
            } else {
                let revision = change.revision;
                runs.push(Granted { pool: pool.clone(), first: *address, count: 1, ordinal, revision });
            }
        }
        outcome.granted = runs;
        outcome.notes.extend(self.notes_for(object));
    }

    /// What was noted of addresses granted to this object, by address.
    fn notes_for(&self, object: &Holder) -> Vec<Note> {
        let mut noted: Vec<_> = self.noted.iter().filter(|(holder, ..)| same_owner(holder, object)).collect();
        noted.sort_by_key(|(_, address, _)| *address);
        noted.into_iter().map(|(.., note)| note.clone()).collect()
    }
}
