//! Adoption: section 11.

use std::net::IpAddr;

use holdfast_statemachine::adopt::{Adopt, AdoptItem, AdoptedBy, Conflict, ConflictReason, Mode};
use holdfast_statemachine::command::{Grant, ObjectId, Owner, PodOwner, PutEgress, Retention, StatefulSetId};
use holdfast_statemachine::outcome::Note;
use holdfast_statemachine::row::{AdoptionRow, Holder, OrdinalRow, Policy, ReservationRow, Stamp};
use holdfast_statemachine::{Action, Event, Family, Name, Outcome, PoolId, Rejection, Source, Waiting};

use super::outcome::malformed;
use super::reservation::pod_ref;
use super::search::same_owner;
use super::{Model, Verdict};

fn holder_of(owner: &Owner, source: &Source) -> Holder {
    match owner {
        Owner::Named { name, uid } => Holder::Named { name: name.clone(), uid: uid.clone(), source: source.clone() },
        Owner::Pod(pod) => Holder::Pod { pod: pod_ref(pod), source: source.clone() },
    }
}

fn uid(holder: &Holder) -> &str {
    match holder {
        Holder::Named { uid, .. } => uid,
        Holder::Pod { pod, .. } => &pod.uid,
        _ => "",
    }
}

fn is_owner(a: &Holder, b: &Holder) -> bool {
    matches!(a, Holder::Named { .. } | Holder::Pod { .. }) && same_owner(a, b) && uid(a) == uid(b)
}

impl Model {
    pub(super) fn adopting(&self) -> bool {
        self.adoption.as_ref().is_some_and(|row| !row.complete)
    }

    pub(super) fn mode(&self) -> Mode {
        self.adoption.as_ref().map_or(Mode::Standalone, |row| row.mode)
    }

    pub(super) fn refuse_in_adoption(&self, action: &Action) -> Result<(), Rejection> {
        let chooses = matches!(action, Action::Reserve(_) | Action::Grant(_) | Action::PutEgress(_));
        if self.adopting() && chooses {
            return Err(Rejection::NotAdopted);
        }
        let out_of_turn = match action {
            Action::Adopt(Adopt::Held(_)) => !self.adopting(),
            Action::Adopt(Adopt::End) => self.adoption.is_none(),
            _ => false,
        };
        if out_of_turn {
            return Err(Rejection::NotAdopting);
        }
        let what = match action {
            _ if self.mode() == Mode::Standalone => None,
            Action::Drain(_) => Some("Drain"),
            Action::Pin(_) => Some("Pin"),
            Action::Unpin(_) => Some("Unpin"),
            Action::Rebalance(_) => Some("Rebalance"),
            Action::PutSettings(put) => {
                put.policy.is_some_and(|policy| policy != self.settings.policy).then_some("another policy")
            }
            Action::Grant(Grant { owner: Owner::Named { .. }, .. }) => Some("a Grant to a named owner"),
            _ => None,
        };
        match what {
            // Why it is so is said in the ledger's own words.
            Some(what) => Err(Rejection::Mode { mode: Mode::Antrea, what: what.into(), why: "".into() }),
            None => Ok(()),
        }
    }

    pub(super) fn adopt(&mut self, source: &Source, adopt: &Adopt) -> Verdict {
        match adopt {
            Adopt::Begin { mode } => self.begin(*mode),
            Adopt::Held(items) => self.adopt_items(source, items),
            Adopt::End => {
                if self.adopting() {
                    let row = self.adoption.as_mut().expect("it was begun");
                    row.complete = true;
                    row.others.clear();
                    let conflicts = row.conflicts_total;
                    self.emit(Event::AdoptionEnded { conflicts });
                    self.try_all_once();
                }
                Ok(Outcome::default())
            }
        }
    }

    fn begin(&mut self, mode: Mode) -> Verdict {
        if let Some(row) = &self.adoption {
            let same = row.mode == mode;
            return if same {
                Ok(Outcome::default())
            } else {
                Err(Rejection::OtherMode { recorded: row.mode, asked: mode })
            };
        }
        if mode == Mode::Antrea && (!self.pools.is_empty() || !self.retired.is_empty()) {
            return Err(Rejection::Mode { mode, what: "a ledger that has pools".into(), why: "".into() });
        }
        self.adoption = Some(AdoptionRow {
            mode,
            complete: false,
            conflicts: Vec::new(),
            conflicts_total: 0,
            others: std::collections::BTreeSet::new(),
            stamp: Stamp::default(),
        });
        self.emit(Event::AdoptionBegun { mode });
        if mode == Mode::Antrea && self.settings.policy != Policy::ConsistentHash {
            self.change_settings(holdfast_statemachine::row::Settings {
                policy: Policy::ConsistentHash,
                ..self.settings.clone()
            });
        }
        Ok(Outcome::default())
    }

    /// Whoever waits is tried once, in order; who waited for the end is told what for now.
    fn try_all_once(&mut self) {
        for (since, object, item) in self.waiters() {
            let still = self.waiters().iter().any(|(other, ..)| *other == since);
            if !still {
                continue;
            }
            match object {
                ObjectId::Pool(id) => drop(self.meet_pool(&id)),
                ObjectId::Reservation(id) => {
                    let waits = self.reservations[&id].waiting.clone();
                    if waits.is_some_and(|(_, waiting)| waiting.contains(&Waiting::NotAdopted)) {
                        self.settle(&id, None);
                    } else {
                        self.meet_reservation(&id);
                    }
                }
                ObjectId::Egress(name) => {
                    let waits = self.egresses[&name].items[item].waiting.clone();
                    if waits.is_some_and(|(_, waiting)| waiting == Waiting::NotAdopted) {
                        self.serve_item(&name, item);
                    } else {
                        self.meet_item(&name, item);
                    }
                }
                ObjectId::Node(_) | ObjectId::Pod(..) => {}
            }
        }
    }

    fn adopt_items(&mut self, source: &Source, items: &[AdoptItem]) -> Verdict {
        if items.len() > 1000 {
            return Err(malformed("held"));
        }
        for item in items {
            match item {
                AdoptItem::Address { by: AdoptedBy::Owner(Owner::Named { name, .. }), .. } if name.is_empty() => {
                    return Err(malformed("owner.name"));
                }
                AdoptItem::Address { by: AdoptedBy::Owner(Owner::Pod(pod)), .. }
                | AdoptItem::Address { by: AdoptedBy::Ordinal { pod: Some(pod), .. }, .. }
                    if pod.uid.is_empty() =>
                {
                    return Err(malformed("owner.uid"));
                }
                _ => {}
            }
        }
        let mut notes = Vec::new();
        for item in items {
            let conflicts = match item {
                AdoptItem::Address { pool, address, by } => {
                    let (claimed_by, why) = self.adopt_address(source, pool, *address, by);
                    let one = |why| Conflict { address: *address, pool: pool.clone(), claimed_by, why };
                    why.map(one).into_iter().collect()
                }
                AdoptItem::Egress { put, chosen, .. } => self.adopt_egress(source, put, chosen),
            };
            for conflict in conflicts {
                self.record_conflict(&conflict);
                notes.push(Note::Conflict(conflict));
            }
            if let AdoptItem::Egress { put, placed, .. } = item {
                for (address, node) in placed {
                    self.place_as_told(&put.name, *address, node);
                }
            }
        }
        Ok(Outcome { notes, ..Outcome::default() })
    }

    fn record_conflict(&mut self, conflict: &Conflict) {
        let row = self.adoption.as_mut().expect("an adoption is in progress");
        if row.conflicts.contains(conflict) || row.others.contains(&conflict.fingerprint()) {
            return;
        }
        row.conflicts_total += 1;
        if row.conflicts.len() < 256 {
            row.conflicts.push(conflict.clone());
        } else {
            row.others.insert(conflict.fingerprint());
        }
        self.emit(Event::Conflict(conflict.clone()));
    }

    fn adopt_address(
        &mut self,
        source: &Source,
        pool: &PoolId,
        address: IpAddr,
        by: &AdoptedBy,
    ) -> (Holder, Option<ConflictReason>) {
        let claimant = match by {
            AdoptedBy::Owner(owner) => holder_of(owner, source),
            AdoptedBy::Ordinal { id, ordinal, .. } => {
                Holder::Ordinal { id: id.clone(), ordinal: *ordinal, former: false }
            }
        };
        if !self.pools.contains_key(pool) {
            return (claimant, Some(ConflictReason::UnknownPool));
        }
        if !self.gives(pool, address) {
            return (claimant, Some(ConflictReason::Outside));
        }
        let why = match by {
            AdoptedBy::Owner(owner) => self.adopt_by_owner(pool, address, owner, &claimant),
            AdoptedBy::Ordinal { .. } => self.adopt_by_ordinal(source, pool, address, by),
        };
        (claimant, why)
    }

    fn adopt_by_owner(
        &mut self,
        pool: &PoolId,
        address: IpAddr,
        owner: &Owner,
        claimant: &Holder,
    ) -> Option<ConflictReason> {
        if let Some(row) = self.grants.get(&address) {
            let by = row.holder.clone();
            let its_ordinal = match (owner, &by) {
                (Owner::Pod(pod), Holder::Ordinal { id, ordinal, .. }) => {
                    self.bound_where(|bound| bound.pod.uid == pod.uid) == Some((id.clone(), *ordinal))
                }
                _ => false,
            };
            return (!is_owner(&by, claimant) && !its_ordinal).then_some(ConflictReason::Held { by });
        }
        let held: Vec<IpAddr> =
            self.grants.iter().filter(|(_, row)| same_owner(&row.holder, claimant)).map(|(a, _)| *a).collect();
        for held in held {
            let by = self.grants[&held].holder.clone();
            if uid(&by) != uid(claimant) {
                if matches!(owner, Owner::Named { .. }) {
                    return Some(ConflictReason::OwnerHolds { by, address: held });
                }
                self.free(held, true);
            }
        }
        self.take(address, pool, claimant);
        None
    }

    fn adopt_by_ordinal(
        &mut self,
        source: &Source,
        pool: &PoolId,
        address: IpAddr,
        by: &AdoptedBy,
    ) -> Option<ConflictReason> {
        let AdoptedBy::Ordinal { id, uid, ordinal, pod, pools } = by else { return None };
        let mut bound_otherwise = None;
        if let Some(pod) = pod {
            let at = self.bound_where(|bound| bound.pod.uid == pod.uid);
            let there = self.ordinals.get(&(id.clone(), *ordinal)).and_then(|row| row.pod.as_ref());
            match (at, there) {
                (Some((of, n)), _) if (&of, n) != (id, *ordinal) => {
                    bound_otherwise = Some(ConflictReason::PodBound { id: of, ordinal: n });
                }
                (None, Some(bound)) if (&bound.pod.namespace, &bound.pod.name) != (&pod.namespace, &pod.name) => {
                    bound_otherwise = Some(ConflictReason::OrdinalBound { pod: bound.pod.clone() });
                }
                _ => {}
            }
        }
        if let Some(row) = self.grants.get(&address) {
            let own = match &row.holder {
                Holder::Ordinal { id: of, ordinal: n, .. } => (of, n) == (id, ordinal),
                Holder::Pod { pod: held, .. } => pod.as_ref().is_some_and(|pod| {
                    (&held.namespace, &held.name, &held.uid) == (&pod.namespace, &pod.name, &pod.uid)
                }),
                _ => false,
            };
            if !own {
                return Some(ConflictReason::Held { by: row.holder.clone() });
            }
        } else {
            let other = self.current(id, *ordinal, Family::of(address));
            match pod {
                None if other.is_some() => return Some(ConflictReason::OrdinalHolds { address: other? }),
                Some(pod) if other.is_some() || bound_otherwise.is_some() => {
                    self.hold_by_pod(source, pod, pool, address);
                }
                _ => self.hold_by_ordinal(source, (pool, address), (id, uid, *ordinal)),
            }
        }
        if bound_otherwise.is_none()
            && let Some(pod) = pod
            && self.bound_where(|bound| bound.pod.uid == pod.uid).is_none()
        {
            self.bind(source, pod, id, *ordinal, pools);
        }
        bound_otherwise
    }

    fn hold_by_pod(&mut self, source: &Source, pod: &PodOwner, pool: &PoolId, address: IpAddr) {
        let holder = Holder::Pod { pod: pod_ref(pod), source: source.clone() };
        for held in self.held_by_pod(&pod.namespace, &pod.name) {
            if uid(&self.grants[&held].holder) != &*pod.uid {
                self.free(held, true);
            }
        }
        self.take(address, pool, &holder);
    }

    fn hold_by_ordinal(
        &mut self,
        source: &Source,
        (pool, address): (&PoolId, IpAddr),
        (id, uid, ordinal): (&StatefulSetId, &Name, u32),
    ) {
        self.take(address, pool, &Holder::Ordinal { id: id.clone(), ordinal, former: false });
        let stamp = self.grants[&address].stamp;
        let row = self.reservations.entry(id.clone()).or_insert_with(|| ReservationRow {
            source: source.clone(),
            uid: uid.clone(),
            spec: None,
            when_deleted: Retention::Release,
            waiting: None,
            stamp,
        });
        if row.spec.is_none() && row.uid.is_empty() {
            row.uid = uid.clone();
            row.stamp = stamp;
        }
        self.ordinals.entry((id.clone(), ordinal)).or_insert(OrdinalRow {
            pod: None,
            retained_until: None,
            stamp,
            left: None,
        });
    }

    fn adopt_egress(&mut self, source: &Source, put: &PutEgress, chosen: &[IpAddr]) -> Vec<Conflict> {
        let before = self.clone();
        let named: Vec<(PoolId, IpAddr)> = put
            .items
            .iter()
            .filter_map(|item| Some((super::egress::external(item.pool.as_ref()?), item.address?)))
            .collect();
        let conflict = |(pool, address): (PoolId, IpAddr), why| {
            let claimed_by = Holder::Egress { name: put.name.clone() };
            Conflict { address, pool, claimed_by, why }
        };
        let unmet = match self.declare_egress(source, put, chosen) {
            Ok(unmet) => unmet,
            Err(rejection) => {
                *self = before;
                let why = ConflictReason::Refused { code: rejection.code().into() };
                return named.into_iter().map(|named| conflict(named, why.clone())).collect();
            }
        };
        let reason = |(pool, address): (PoolId, IpAddr)| {
            let waiting = unmet.iter().find(|(unmet, _)| *unmet == address).map(|(_, waiting)| waiting.clone())?;
            let why = match waiting {
                Waiting::UnknownPool { .. } => ConflictReason::UnknownPool,
                Waiting::AddressOutside { .. } => ConflictReason::Outside,
                Waiting::AddressHeld { by, .. } => ConflictReason::Held { by },
                _ => return None,
            };
            Some(conflict((pool, address), why))
        };
        named.into_iter().filter_map(reason).collect()
    }

    /// On the Node that was told, if it is nowhere yet and the Node is eligible.
    fn place_as_told(&mut self, egress: &Name, address: IpAddr, node: &Name) {
        let Some(row) = self.egresses.get(egress) else { return };
        let Some(item) = row.items.iter().find(|item| item.granted() == Some(address)) else { return };
        let pool = super::egress::external(item.pool.as_ref().expect("what is granted is of a pool"));
        let hash = self.settings.policy == Policy::ConsistentHash;
        if hash || self.placements.contains_key(&address) || !self.nodes.contains_key(node) {
            return;
        }
        if self.failing(node, &pool, address).is_none() {
            let why = holdfast_statemachine::change::MoveReason::Homeless;
            self.move_to(address, egress, node, false, why);
        }
    }
}
