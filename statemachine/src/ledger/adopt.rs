//! Adoption: what an API says is held is held, unless it is someone else's already.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::holding::OwnerKey;
use super::{Ledger, grants, malformed};
use crate::Family;
use crate::Name;
use crate::adopt::{Adopt, AdoptItem, AdoptedBy, Conflict, ConflictReason, Mode};
use crate::change::Event;
use crate::command::{Action, Grant, Owner, PodOwner, PutSettings, Retention, Source, StatefulSetId};
use crate::outcome::{Note, Outcome, Rejection};
use crate::row::{AdoptionRow, Holder, OrdinalRow, Policy, PoolId, ReservationRow, Settings, Stamp};

/// An address that an ordinal is said to have.
struct Claim<'a> {
    pool: &'a PoolId,
    address: IpAddr,
    id: &'a StatefulSetId,
    uid: &'a Name,
    ordinal: u32,
    pod: Option<&'a PodOwner>,
    pools: &'a [Name],
}

impl Claim<'_> {
    fn holder(&self) -> Holder {
        Holder::Ordinal { id: self.id.clone(), ordinal: self.ordinal, former: false }
    }

    fn is_pod(&self, holder: &Holder) -> bool {
        let Some(pod) = self.pod else { return false };
        matches!(holder, Holder::Pod { pod: by, .. }
            if by.namespace == pod.namespace && by.name == pod.name && by.uid == pod.uid)
    }
}

impl Ledger {
    /// Whether an adoption is in progress: no address is chosen until it has ended.
    pub(super) fn adopting(&self) -> bool {
        self.tables.adoption().is_some_and(|row| !row.complete)
    }

    /// The mode that the group lives in: `standalone`, if no adoption was ever begun.
    pub(super) fn mode(&self) -> Mode {
        self.tables.adoption().map_or(Mode::Standalone, |row| row.mode)
    }

    /// Whether Antrea's agents and controller allocate from the same pools.
    pub(super) fn beside_antrea(&self) -> bool {
        self.mode() == Mode::Antrea
    }

    /// Refuses what an adoption in progress, or the mode, does not allow.
    pub(super) fn allowed(&self, action: &Action) -> Result<(), Rejection> {
        match action {
            Action::Reserve(_) | Action::Grant(_) | Action::PutEgress(_) if self.adopting() => {
                return Err(Rejection::NotAdopted);
            }
            Action::Adopt(Adopt::Held(_)) if !self.adopting() => return Err(Rejection::NotAdopting),
            Action::Adopt(Adopt::End) if self.tables.adoption().is_none() => return Err(Rejection::NotAdopting),
            _ => {}
        }
        if self.beside_antrea() { self.allowed_beside_antrea(action) } else { Ok(()) }
    }

    fn allowed_beside_antrea(&self, action: &Action) -> Result<(), Rejection> {
        let placed = "Antrea's agents place Egress addresses by themselves, by consistent-hash, and obey nobody else";
        let (what, why) = match action {
            Action::Drain(_) => ("Drain", placed),
            Action::Pin(_) => ("Pin", placed),
            Action::Unpin(_) => ("Unpin", placed),
            Action::Rebalance(_) => ("Rebalance", placed),
            Action::PutSettings(PutSettings { policy: Some(policy), .. }) if *policy != self.policy() => {
                ("another policy", placed)
            }
            Action::Grant(Grant { owner: Owner::Named { .. }, .. }) => {
                ("a Grant to a named owner", "antrea-controller drops every entry that no Pod or StatefulSet owns")
            }
            _ => return Ok(()),
        };
        Err(Rejection::Mode { mode: Mode::Antrea, what: what.into(), why: why.into() })
    }

    pub(super) fn adopt(&mut self, source: &Source, adopt: &Adopt) -> Result<Outcome, Rejection> {
        match adopt {
            Adopt::Begin { mode } => self.begin_adoption(*mode),
            Adopt::Held(items) => self.adopt_items(source, items),
            Adopt::End => Ok(self.end_adoption()),
        }
    }

    fn begin_adoption(&mut self, mode: Mode) -> Result<Outcome, Rejection> {
        if let Some(AdoptionRow { mode: recorded, .. }) = self.tables.adoption() {
            let recorded = *recorded;
            let other = recorded != mode;
            return if other { Err(Rejection::OtherMode { recorded, asked: mode }) } else { Ok(Outcome::default()) };
        }
        if mode == Mode::Antrea && !(self.tables.pools().is_empty() && self.tables.retired().is_empty()) {
            let why = "the addresses that their ranges give are others in this mode";
            return Err(Rejection::Mode { mode, what: "a ledger that has pools".into(), why: why.into() });
        }
        let stamp = self.emit(Event::AdoptionBegun { mode });
        self.tables.put_adoption(AdoptionRow {
            mode,
            complete: false,
            conflicts: Vec::new(),
            conflicts_total: 0,
            others: BTreeSet::new(),
            stamp,
        });
        if mode == Mode::Antrea {
            self.set_settings(&Settings { policy: Policy::ConsistentHash, ..self.tables.settings().clone() });
        }
        Ok(Outcome::default())
    }

    fn end_adoption(&mut self) -> Outcome {
        let Some(mut row) = self.tables.adoption().filter(|row| !row.complete).cloned() else {
            return Outcome::default();
        };
        row.complete = true;
        row.others.clear();
        row.stamp = self.emit(Event::AdoptionEnded { conflicts: row.conflicts_total });
        self.tables.put_adoption(row);
        self.try_all();
        Outcome::default()
    }

    fn adopt_items(&mut self, source: &Source, items: &[AdoptItem]) -> Result<Outcome, Rejection> {
        if items.len() > Adopt::ITEMS_MAX {
            return Err(malformed("held", &items.len().to_string(), "at most 1000 items"));
        }
        for item in items {
            check_item(item)?;
        }
        let mut outcome = Outcome::default();
        for item in items {
            match item {
                AdoptItem::Address { pool, address, by: AdoptedBy::Owner(owner) } => {
                    let told = self.adopt_for_owner(source, pool, *address, owner);
                    self.tell(told, &mut outcome);
                }
                AdoptItem::Address { pool, address, by: AdoptedBy::Ordinal { id, uid, ordinal, pod, pools } } => {
                    let (address, ordinal, pod) = (*address, *ordinal, pod.as_ref());
                    let told = self.adopt_for_ordinal(source, &Claim { pool, address, id, uid, ordinal, pod, pools });
                    self.tell(told, &mut outcome);
                }
                AdoptItem::Egress { put, chosen, placed } => {
                    for conflict in self.adopt_egress(source, put, chosen) {
                        self.tell(Some(conflict), &mut outcome);
                    }
                    for (address, node) in placed {
                        self.place_adopted(&put.name, *address, node);
                    }
                }
            }
        }
        Ok(outcome)
    }

    /// Tells a conflict, and records it unless it is recorded already.
    fn tell(&mut self, conflict: Option<Conflict>, outcome: &mut Outcome) {
        let Some(conflict) = conflict else { return };
        let fingerprint = conflict.fingerprint();
        let recorded = self
            .tables
            .adoption()
            .is_some_and(|row| row.conflicts.contains(&conflict) || row.others.contains(&fingerprint));
        if !recorded {
            let stamp = self.emit(Event::Conflict(conflict.clone()));
            self.tables.record_conflict(&conflict, fingerprint, stamp);
        }
        outcome.notes.push(Note::Conflict(conflict));
    }

    /// Why an address of this pool cannot be anybody's.
    fn misplaced(&self, pool: &PoolId, address: IpAddr) -> Option<ConflictReason> {
        if !self.tables.pools().contains_key(pool) {
            Some(ConflictReason::UnknownPool)
        } else if !self.is_live(pool, address) {
            Some(ConflictReason::Outside)
        } else {
            None
        }
    }

    fn adopt_for_owner(&mut self, source: &Source, pool: &PoolId, address: IpAddr, owner: &Owner) -> Option<Conflict> {
        let claimed_by = grants::holder(owner, source);
        let conflict =
            |why| Some(Conflict { address, pool: pool.clone(), claimed_by: grants::holder(owner, source), why });
        if let Some(why) = self.misplaced(pool, address) {
            return conflict(why);
        }
        if let Some(by) = self.tables.grants().get(&address).map(|grant| grant.holder.clone()) {
            let agrees = grants::same(&by, &claimed_by) || self.is_bound_there(owner, &by);
            return if agrees { None } else { conflict(ConflictReason::Held { by }) };
        }
        if let Owner::Pod(pod) = owner {
            self.free_former_pod(&pod.namespace, &pod.name, &pod.uid);
        } else if let Some((address, by)) = self.held_by_another(&claimed_by) {
            return conflict(ConflictReason::OwnerHolds { by, address });
        }
        self.grant(address, pool, claimed_by);
        None
    }

    /// Whether the owner is the Pod bound to the ordinal that holds.
    fn is_bound_there(&self, owner: &Owner, holder: &Holder) -> bool {
        match (owner, holder) {
            (Owner::Pod(pod), Holder::Ordinal { id, ordinal, .. }) => {
                self.bound_by_uid.get(&pod.uid).is_some_and(|at| at == &(id.clone(), *ordinal))
            }
            _ => false,
        }
    }

    fn held_by_another(&self, owner: &Holder) -> Option<(IpAddr, Holder)> {
        let (address, grant) = self.held_by(&OwnerKey::of(owner)).into_iter().next()?;
        (!grants::same(&grant.holder, owner)).then_some((address, grant.holder))
    }

    fn adopt_for_ordinal(&mut self, source: &Source, claim: &Claim<'_>) -> Option<Conflict> {
        let Claim { pool, address, id, ordinal, pod, .. } = *claim;
        let conflict = |why| Some(Conflict { address, pool: pool.clone(), claimed_by: claim.holder(), why });
        if let Some(why) = self.misplaced(pool, address) {
            return conflict(why);
        }
        let bound_otherwise = pod.and_then(|pod| self.bound_otherwise(pod, id, ordinal));
        let held_by = self.tables.grants().get(&address).map(|grant| grant.holder.clone());
        let is_free = held_by.is_none();
        if let Some(by) = held_by {
            let is_ordinal = matches!(&by, Holder::Ordinal { id: of, ordinal: n, .. } if of == id && *n == ordinal);
            if !is_ordinal && !claim.is_pod(&by) {
                return conflict(ConflictReason::Held { by });
            }
        }
        let other = self.holdings.get(id).and_then(|held| held.current[Family::of(address) as usize].get(&ordinal));
        let other = other.copied().filter(|_| is_free);
        match (pod, &bound_otherwise, other) {
            (None, _, Some(other)) => return conflict(ConflictReason::OrdinalHolds { address: other }),
            (Some(pod), Some(_), _) | (Some(pod), _, Some(_)) if is_free => self.hold_for_pod(source, pod, claim),
            _ if is_free => self.hold_for_ordinal(source, claim),
            _ => {}
        }
        if let Some(why) = bound_otherwise {
            return conflict(why);
        }
        if let Some(pod) = pod.filter(|pod| !self.bound_by_uid.contains_key(&pod.uid)) {
            self.bind(source, pod, id, ordinal, claim.pools);
        }
        None
    }

    /// How a Pod, or the ordinal that it is said to have, is bound already.
    fn bound_otherwise(&self, pod: &PodOwner, id: &StatefulSetId, ordinal: u32) -> Option<ConflictReason> {
        if let Some((of, n)) = self.bound_by_uid.get(&pod.uid) {
            let elsewhere = of != id || *n != ordinal;
            return elsewhere.then(|| ConflictReason::PodBound { id: of.clone(), ordinal: *n });
        }
        let bound = self.tables.ordinals().get(&(id.clone(), ordinal))?.pod.as_ref()?;
        let other = bound.pod.namespace != pod.namespace || bound.pod.name != pod.name;
        other.then(|| ConflictReason::OrdinalBound { pod: bound.pod.clone() })
    }

    /// What a running Pod has beside its ordinal is its own, so that nobody else is given it.
    fn hold_for_pod(&mut self, source: &Source, pod: &PodOwner, claim: &Claim<'_>) {
        self.free_former_pod(&pod.namespace, &pod.name, &pod.uid);
        self.grant(claim.address, claim.pool, grants::holder(&Owner::Pod(pod.clone()), source));
    }

    /// The ordinal has the address, as if it had had a Pod: of a reservation without a spec, if there is none yet.
    fn hold_for_ordinal(&mut self, source: &Source, claim: &Claim<'_>) {
        let Claim { pool, address, id, uid, ordinal, .. } = *claim;
        let stamp = self.grant(address, pool, claim.holder());
        match self.tables.reservations().get(id).cloned() {
            None => self.put_bare_reservation(source, id, uid, stamp),
            Some(row) if row.spec.is_none() && row.uid.is_empty() => {
                self.tables.put_reservation(id.clone(), ReservationRow { uid: uid.clone(), stamp, ..row });
            }
            Some(_) => {}
        }
        let key = (id.clone(), ordinal);
        if !self.tables.ordinals().contains_key(&key) {
            self.tables.put_ordinal(key, OrdinalRow { pod: None, retained_until: None, stamp, left: None });
        }
    }

    /// A reservation of a StatefulSet that was not declared yet.
    pub(super) fn put_bare_reservation(&mut self, source: &Source, id: &StatefulSetId, uid: &Name, stamp: Stamp) {
        let row = ReservationRow {
            source: source.clone(),
            uid: uid.clone(),
            spec: None,
            when_deleted: Retention::Release,
            waiting: None,
            stamp,
        };
        self.tables.put_reservation(id.clone(), row);
    }
}

fn check_item(item: &AdoptItem) -> Result<(), Rejection> {
    match item {
        AdoptItem::Address { by: AdoptedBy::Owner(owner), .. } => grants::check_owner(owner),
        AdoptItem::Address { by: AdoptedBy::Ordinal { pod: Some(pod), .. }, .. } => grants::check_pod(pod),
        AdoptItem::Address { .. } | AdoptItem::Egress { .. } => Ok(()),
    }
}
