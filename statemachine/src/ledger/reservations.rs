//! Reservations: what a StatefulSet declares, the Pods bound to its ordinals, and what follows for its addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::holding::OwnerKey;
use super::plan::{Plan, wanted};
use super::waiting::Waiter;
use super::{Deadline, Ledger, malformed, same_source};
use crate::adopt::Mode;
use crate::change::{Cause, Event};
use crate::command::{ObjectId, PodOwner, ReleaseReservation, Reserve, ReserveSpec, Retention, Source, StatefulSetId};
use crate::outcome::{Granted, Note, Outcome, Rejection, Waiting};
use crate::row::{BoundPod, Holder, OrdinalRow, PodRef, PoolId, ReservationRow, Stamp};
use crate::{Family, Name, Revision};

/// Most ordinals of one StatefulSet.
const MAX_REPLICAS: u32 = 1_000_000;
/// Most addresses of headroom.
const MAX_HEADROOM: u32 = 65_536;
/// One past the highest ordinal.
const MAX_ORDINAL: u64 = 1 << 31;

fn check_spec(mode: Mode, spec: &ReserveSpec) -> Result<(), Rejection> {
    if spec.replicas > MAX_REPLICAS {
        return Err(malformed("spec.replicas", &spec.replicas.to_string(), "at most 1000000"));
    }
    if u64::from(spec.start) + u64::from(spec.replicas) > MAX_ORDINAL {
        return Err(malformed("spec.ordinals.start", &spec.start.to_string(), "start + replicas at most 2147483648"));
    }
    if spec.headroom > MAX_HEADROOM {
        return Err(malformed("holdfast.dev/headroom", &spec.headroom.to_string(), "at most 65536"));
    }
    let pools: BTreeSet<&Name> = spec.pools.iter().collect();
    if pools.len() < spec.pools.len() {
        return Err(malformed("ipam.antrea.io/ippools", &spec.pools.join(","), "each pool once"));
    }
    let fixed: BTreeSet<&IpAddr> = spec.fixed.iter().collect();
    if fixed.len() < spec.fixed.len() {
        let listed: Vec<String> = spec.fixed.iter().map(IpAddr::to_string).collect();
        return Err(malformed("ipam.antrea.io/pod-ips", &listed.join(","), "each address once"));
    }
    let of = |family| spec.fixed.iter().filter(move |address| Family::of(**address) == family).count();
    if mode == Mode::Antrea && Family::ALL.into_iter().any(|family| of(family) > 1) {
        let listed: Vec<String> = spec.fixed.iter().map(IpAddr::to_string).collect();
        let allowed = "one address of each family: Antrea's agents refuse more";
        return Err(malformed("ipam.antrea.io/pod-ips", &listed.join(","), allowed));
    }
    if spec.when_deleted == Retention::Retain {
        return Err(malformed("holdfast.dev/when-deleted", "retain", "release, or a duration"));
    }
    Ok(())
}

/// How long what is no longer wanted is kept, if no former StatefulSet left it.
fn retention(mode: Mode, row: &ReservationRow) -> Retention {
    match &row.spec {
        Some(spec) if spec.pools.is_empty() => Retention::Release,
        Some(spec) => spec.when_scaled,
        None => when_deleted(mode, row),
    }
}

/// How long what a StatefulSet had is kept once it is deleted. Beside Antrea nothing outlives it.
fn when_deleted(mode: Mode, row: &ReservationRow) -> Retention {
    if mode == Mode::Antrea { Retention::Release } else { row.when_deleted }
}

/// What a command changes of the rules by which unwanted ordinals are kept.
#[derive(Clone, Copy, Debug, Default)]
struct Rules {
    /// The reservation's before the command; none if the command does not change it.
    before: Option<Retention>,
    /// That of a former StatefulSet, which leaves what is not wanted now.
    left: Option<Retention>,
}

impl Ledger {
    pub(super) fn reserve(&mut self, source: &Source, reserve: &Reserve) -> Result<Outcome, Rejection> {
        let Reserve { id, uid, spec } = reserve;
        check_spec(self.mode(), spec)?;
        let old = self.tables.reservations().get(id).cloned();
        if let Some(row) = old.as_ref().filter(|row| row.spec.is_some()) {
            same_source("StatefulSet", &id.to_string(), &row.source, source)?;
            if row.uid == *uid && row.spec.as_ref() == Some(spec) {
                return Ok(Outcome::default());
            }
        } else if old.is_none() && spec.pools.is_empty() {
            return Ok(Outcome::default());
        }
        let taken_over = old.as_ref().filter(|row| row.uid != *uid && !row.uid.is_empty());
        let rules = Rules {
            before: old.as_ref().map(|row| retention(self.mode(), row)),
            left: taken_over.map(|row| when_deleted(self.mode(), row)),
        };
        let named_before = old.as_ref().and_then(|row| row.spec.as_ref()).map(|spec| spec.pools.clone());
        let stamp = self.emit(Event::Put(ObjectId::Reservation(id.clone())));
        let row = ReservationRow {
            source: source.clone(),
            uid: uid.clone(),
            spec: Some(spec.clone()),
            when_deleted: spec.when_deleted,
            waiting: old.and_then(|row| row.waiting),
            stamp,
        };
        self.tables.put_reservation(id.clone(), row);
        self.name_pools(id, &named_before.unwrap_or_default(), &spec.pools);
        self.headroom_stale.insert(id.clone());
        Ok(self.settle_under(id, rules))
    }

    pub(super) fn release_reservation(
        &mut self,
        source: &Source,
        release: &ReleaseReservation,
    ) -> Result<Outcome, Rejection> {
        let id = &release.id;
        let Some(mut row) = self.tables.reservations().get(id).cloned() else { return Ok(not_held(None, None)) };
        if row.spec.is_none() {
            return Ok(self.release_undeclared(source, release, &row));
        }
        same_source("StatefulSet", &id.to_string(), &row.source, source)?;
        if row.uid != release.uid {
            return Ok(not_held(Some(row.uid), Some(row.stamp.revision)));
        }
        let rules = Rules { before: Some(retention(self.mode(), &row)), left: None };
        let named = row.spec.take().map(|spec| spec.pools).unwrap_or_default();
        row.stamp = self.emit(Event::Deleted(ObjectId::Reservation(id.clone())));
        if let Some((since, _)) = row.waiting.take() {
            self.waiters.remove(since);
        }
        self.tables.put_reservation(id.clone(), row);
        self.name_pools(id, &named, &[]);
        self.headroom_stale.insert(id.clone());
        self.free_unwanted(id, None, rules);
        Ok(Outcome::default())
    }

    /// A StatefulSet that is gone before it was declared: what was adopted for it goes as its rules say.
    fn release_undeclared(&mut self, source: &Source, release: &ReleaseReservation, row: &ReservationRow) -> Outcome {
        let before = self.now.revision;
        if row.source == *source && row.uid == release.uid && !row.uid.is_empty() {
            self.free_unwanted(&release.id, None, Rules::default());
        }
        if self.now.revision == before { not_held(None, None) } else { Outcome::default() }
    }

    fn name_pools(&mut self, id: &StatefulSetId, before: &[Name], after: &[Name]) {
        for pool in before {
            if let Some(ids) = self.reservations_naming.get_mut(pool) {
                ids.remove(id);
                if ids.is_empty() {
                    self.reservations_naming.remove(pool);
                }
            }
        }
        for pool in after {
            self.reservations_naming.entry(pool.clone()).or_default().insert(id.clone());
        }
    }

    /// Gives what is needed if it can be met whole, frees what is not wanted, and says what is waited for.
    pub(super) fn settle(&mut self, id: &StatefulSetId) {
        self.settle_under(id, Rules::default());
    }

    fn settle_under(&mut self, id: &StatefulSetId, rules: Rules) -> Outcome {
        let spec = self.tables.reservations().get(id).and_then(|row| row.spec.clone());
        let mut outcome = Outcome::default();
        if let Some(spec) = spec {
            let plan = self.plan(id, &spec);
            let waiting = plan.waiting.clone();
            self.execute(id, plan, &mut outcome);
            self.free_unwanted(id, None, rules);
            self.set_waiting(id, waiting);
        }
        outcome
    }

    fn execute(&mut self, id: &StatefulSetId, plan: Plan, outcome: &mut Outcome) {
        for (ordinal, address) in plan.restored {
            self.supersede(id, ordinal, Family::of(address));
            self.transfer(address, Holder::Ordinal { id: id.clone(), ordinal, former: false });
        }
        let owner = OwnerKey::Reservation(id.clone());
        for (_, pool, address) in &plan.given {
            outcome.notes.extend(self.notes_on(&owner, pool, *address));
        }
        for (ordinal, pool, address) in plan.given {
            self.supersede(id, ordinal, Family::of(address));
            let holder = Holder::Ordinal { id: id.clone(), ordinal, former: false };
            self.grant(address, &pool, holder);
        }
    }

    /// What was an ordinal's current address becomes a former one.
    pub(super) fn supersede(&mut self, id: &StatefulSetId, ordinal: u32, family: Family) {
        let current = self.holdings.get(id).and_then(|held| held.current[family as usize].get(&ordinal)).copied();
        if let Some(address) = current {
            self.transfer(address, Holder::Ordinal { id: id.clone(), ordinal, former: true });
        }
    }

    fn set_waiting(&mut self, id: &StatefulSetId, waiting: Vec<Waiting>) {
        let Some(mut row) = self.tables.reservations().get(id).cloned() else { return };
        let object = ObjectId::Reservation(id.clone());
        let since = row.waiting.as_ref().map(|(since, _)| *since);
        if let Some(since) = since {
            self.waiters.remove(since);
        }
        match (&row.waiting, waiting.is_empty()) {
            (None, true) => return,
            (Some(_), true) => {
                row.stamp = self.emit(Event::Met { object, item: None });
                row.waiting = None;
            }
            (Some((since, old)), false) if *old == waiting => {
                self.enlist_reservation(id, *since);
                return;
            }
            (_, false) => {
                row.stamp = self.emit(Event::Waits { object, item: None, waiting: waiting.clone() });
                let since = since.unwrap_or(row.stamp.revision);
                row.waiting = Some((since, waiting));
            }
        }
        let since = row.waiting.as_ref().map(|(since, _)| *since);
        self.tables.put_reservation(id.clone(), row);
        if let Some(since) = since {
            self.enlist_reservation(id, since);
        }
    }

    pub(super) fn enlist_reservation(&mut self, id: &StatefulSetId, since: Revision) {
        let Some(spec) = self.tables.reservations().get(id).and_then(|row| row.spec.clone()) else { return };
        let needed = self.needed(id, &spec);
        self.waiters.enlist(
            since,
            Waiter::Reservation(id.clone()),
            &super::plan::named(&spec),
            &needed,
            spec.contiguity,
        );
    }

    /// Whether a waiting reservation can be met now.
    pub(super) fn can_settle(&mut self, id: &StatefulSetId) -> bool {
        let spec = self.tables.reservations().get(id).and_then(|row| row.spec.clone());
        let Some(plan) = spec.map(|spec| self.plan(id, &spec)) else { return false };
        let waits = self.tables.reservations().get(id).and_then(|row| row.waiting.as_ref());
        let blocked = |waiting: &[Waiting]| waiting.iter().any(|w| !matches!(w, Waiting::FixedAddressMissing { .. }));
        !blocked(&plan.waiting) && (!plan.given.is_empty() || waits.is_some_and(|(_, waiting)| blocked(waiting)))
    }

    /// Frees former addresses that no Pod uses and ordinals that nothing keeps: of all, or of one.
    fn free_unwanted(&mut self, id: &StatefulSetId, only: Option<u32>, rules: Rules) {
        self.free_former(id);
        let ordinals: BTreeSet<u32> = match only {
            Some(ordinal) => BTreeSet::from([ordinal]),
            None => self.known_ordinals(id),
        };
        for ordinal in ordinals {
            self.settle_ordinal(id, ordinal, rules);
        }
        self.end_if_empty(id);
    }

    fn ordinal_rows(&self, id: &StatefulSetId) -> impl Iterator<Item = (u32, &OrdinalRow)> {
        let range = (id.clone(), 0)..=(id.clone(), u32::MAX);
        self.tables.ordinals().range(range).map(|((_, ordinal), row)| (*ordinal, row))
    }

    pub(super) fn known_ordinals(&self, id: &StatefulSetId) -> BTreeSet<u32> {
        let mut ordinals = self.holdings.get(id).map(super::holding::Holdings::ordinals).unwrap_or_default();
        ordinals.extend(self.ordinal_rows(id).map(|(ordinal, _)| ordinal));
        ordinals
    }

    fn end_if_empty(&mut self, id: &StatefulSetId) {
        let ended = self.tables.reservations().get(id).is_some_and(|row| row.spec.is_none());
        if ended && !self.holdings.contains_key(id) && self.ordinal_rows(id).next().is_none() {
            self.tables.remove_reservation(id);
        }
    }

    /// Former addresses go, all of a family and pool at once, when no Pod uses any of them and none is due.
    fn free_former(&mut self, id: &StatefulSetId) {
        let Some(row) = self.tables.reservations().get(id) else { return };
        let due = row.spec.as_ref().is_some_and(|spec| !spec.settled && !spec.pools.is_empty());
        let Some(holdings) = self.holdings.get(id).filter(|_| !due) else { return };
        let mut groups: BTreeMap<(Family, PoolId), (bool, BTreeSet<IpAddr>)> = BTreeMap::new();
        for family in Family::ALL {
            for (ordinal, addresses) in &holdings.former[family as usize] {
                let used = self.used_by_pod(id, *ordinal, family);
                for address in addresses {
                    let Some(grant) = self.tables.grants().get(address) else { continue };
                    let group = groups.entry((family, grant.pool.clone())).or_default();
                    group.0 |= used == Some(*address);
                    group.1.insert(*address);
                }
            }
        }
        for (used, addresses) in groups.into_values() {
            for address in addresses.into_iter().filter(|_| !used) {
                self.release(address);
            }
        }
    }

    /// The address of a family that the Pod bound to an ordinal uses.
    pub(super) fn used_by_pod(&self, id: &StatefulSetId, ordinal: u32, family: Family) -> Option<IpAddr> {
        let row = self.tables.ordinals().get(&(id.clone(), ordinal))?;
        let pools = &row.pod.as_ref()?.pools;
        let holdings = self.holdings.get(id)?;
        let current = holdings.current[family as usize].get(&ordinal).copied();
        let former = holdings.former[family as usize].get(&ordinal);
        let names =
            |address: &IpAddr| self.tables.grants().get(address).is_some_and(|grant| pools.contains(&grant.pool.name));
        let since = |address: &IpAddr| self.tables.grants().get(address).map(|grant| grant.stamp.revision);
        let after_it_was_bound = |address: &&IpAddr| since(address) > Some(row.stamp.revision);
        // What was current when the Pod was bound is what it runs with.
        let bound_to = former.into_iter().flatten().filter(|address| names(address)).filter(after_it_was_bound);
        if let Some(address) = bound_to.min_by_key(|address| since(address)) {
            return Some(*address);
        }
        current.filter(names).or_else(|| former.into_iter().flatten().copied().find(names)).or(current)
    }

    /// Says whether an ordinal is left, then frees it if it is neither wanted, bound nor retained, or begins or ends its
    /// retention. A mark leaves the stamp: what a Pod runs with is judged by it.
    fn settle_ordinal(&mut self, id: &StatefulSetId, ordinal: u32, rules: Rules) {
        let Some(reservation) = self.tables.reservations().get(id) else { return };
        let wanted = reservation.spec.as_ref().is_some_and(|spec| wanted(spec).contains(&ordinal));
        let own = retention(self.mode(), reservation);
        let Some(mut row) = self.tables.ordinals().get(&(id.clone(), ordinal)).cloned() else {
            if !wanted {
                self.free_ordinal(id, ordinal);
            }
            return;
        };
        let left_before = row.left;
        let left = if wanted { None } else { left_before.or(rules.left) };
        if left != left_before {
            row.left = left;
            self.tables.put_ordinal((id.clone(), ordinal), row.clone());
        }
        if wanted || row.pod.is_some() {
            return self.retain(id, ordinal, row, None);
        }
        let rule = left.unwrap_or(own);
        let changed = rules.before.is_some_and(|before| left_before.unwrap_or(before) != rule);
        match rule {
            Retention::Release | Retention::After(0) => self.free_ordinal(id, ordinal),
            Retention::Retain => self.retain(id, ordinal, row, None),
            Retention::After(_) if row.retained_until.is_some() && !changed => {}
            Retention::After(wait) => {
                let until = self.now.time.saturating_add(wait);
                self.retain(id, ordinal, row, Some(until));
            }
        }
    }

    fn retain(&mut self, id: &StatefulSetId, ordinal: u32, mut row: OrdinalRow, until: Option<u64>) {
        if row.retained_until == until {
            return;
        }
        if let Some(old) = row.retained_until {
            self.deadlines.remove(&(old, Deadline::Retention(id.clone(), ordinal)));
        }
        row.stamp = self.emit(Event::Retained { id: id.clone(), ordinal, until });
        row.retained_until = until;
        self.tables.put_ordinal((id.clone(), ordinal), row);
        if let Some(until) = until {
            self.deadlines.insert((until, Deadline::Retention(id.clone(), ordinal)));
        }
    }

    fn free_ordinal(&mut self, id: &StatefulSetId, ordinal: u32) {
        let addresses = self.holdings.get(id).map(|held| held.of_ordinal(ordinal)).unwrap_or_default();
        for address in addresses {
            self.release(address);
        }
        if let Some(OrdinalRow { retained_until: Some(until), .. }) = self.tables.remove_ordinal(&(id.clone(), ordinal))
        {
            self.deadlines.remove(&(until, Deadline::Retention(id.clone(), ordinal)));
        }
    }

    pub(super) fn end_retention(&mut self, id: &StatefulSetId, ordinal: u32) {
        self.now.cause = Cause::Deadline;
        self.free_ordinal(id, ordinal);
        self.end_if_empty(id);
    }

    /// Binds a Pod to its ordinal. What it then uses is `granted`.
    pub(super) fn bind(
        &mut self,
        source: &Source,
        pod: &PodOwner,
        id: &StatefulSetId,
        ordinal: u32,
        pools: &[Name],
    ) -> Outcome {
        let name = (pod.namespace.clone(), pod.name.clone());
        self.free_former_pod(&pod.namespace, &pod.name, &pod.uid);
        if self.tables.ordinals().get(&(id.clone(), ordinal)).is_some_and(|row| row.pod.is_some()) {
            self.unbind(id, ordinal);
        }
        let elsewhere = self.bound_by_name.get(&name).cloned();
        if let Some((id, ordinal)) = elsewhere {
            self.unbind_and_free(&id, ordinal);
        }
        let pod = PodRef {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            container_id: pod.container_id.clone(),
            interface: pod.interface.clone(),
        };
        let stamp = self.emit(Event::Bound { id: id.clone(), ordinal, pod: pod.clone() });
        self.mark_bound(id, ordinal, &pod, stamp);
        if !self.tables.reservations().contains_key(id) {
            self.put_bare_reservation(source, id, &Name::from(""), stamp);
        }
        let former = self.tables.ordinals().get(&(id.clone(), ordinal));
        let (retained_until, left) = former.map(|row| (row.retained_until, row.left)).unwrap_or_default();
        let bound = BoundPod { pod, pools: pools.to_vec(), source: source.clone() };
        let row = OrdinalRow { pod: Some(bound), retained_until, stamp, left };
        self.tables.put_ordinal((id.clone(), ordinal), row);
        self.free_unwanted(id, Some(ordinal), Rules::default());
        self.used_outcome(id, ordinal)
    }

    fn mark_bound(&mut self, id: &StatefulSetId, ordinal: u32, pod: &PodRef, stamp: Stamp) {
        self.bound_by_uid.insert(pod.uid.clone(), (id.clone(), ordinal));
        self.bound_by_name.insert((pod.namespace.clone(), pod.name.clone()), (id.clone(), ordinal));
        self.use_pools_of(id, ordinal, stamp);
    }

    fn use_pools_of(&mut self, id: &StatefulSetId, ordinal: u32, stamp: Stamp) {
        for address in self.holdings.get(id).map(|held| held.of_ordinal(ordinal)).unwrap_or_default() {
            if let Some(pool) = self.tables.grants().get(&address).map(|grant| grant.pool.clone()) {
                self.used(&pool, address, stamp);
            }
        }
    }

    /// The Pod bound to an ordinal is gone.
    pub(super) fn unbind(&mut self, id: &StatefulSetId, ordinal: u32) {
        let Some(mut row) = self.tables.ordinals().get(&(id.clone(), ordinal)).cloned() else { return };
        let Some(BoundPod { pod, .. }) = row.pod.take() else { return };
        self.bound_by_uid.remove(&pod.uid);
        self.bound_by_name.remove(&(pod.namespace.clone(), pod.name.clone()));
        row.stamp = self.emit(Event::Unbound { id: id.clone(), ordinal, pod });
        self.use_pools_of(id, ordinal, row.stamp);
        self.tables.put_ordinal((id.clone(), ordinal), row);
    }

    /// A Pod is gone for good: what only it kept is freed.
    pub(super) fn unbind_and_free(&mut self, id: &StatefulSetId, ordinal: u32) {
        self.unbind(id, ordinal);
        self.free_unwanted(id, Some(ordinal), Rules::default());
    }

    /// What the Pod bound to an ordinal uses, as an outcome.
    pub(super) fn used_outcome(&self, id: &StatefulSetId, ordinal: u32) -> Outcome {
        let mut outcome = Outcome::default();
        for family in Family::ALL {
            if let Some(address) = self.used_by_pod(id, ordinal, family)
                && let Some(grant) = self.tables.grants().get(&address)
            {
                let revision = grant.stamp.revision;
                extend_granted(&mut outcome.granted, grant.pool.clone(), Some(ordinal), address, revision);
            }
        }
        outcome
    }

    pub(super) fn derive_reservations(&mut self) {
        for (id, row) in self.tables.reservations() {
            for pool in row.spec.iter().flat_map(|spec| &spec.pools) {
                self.reservations_naming.entry(pool.clone()).or_default().insert(id.clone());
            }
            if row.spec.as_ref().is_some_and(|spec| spec.headroom > 0) {
                self.headroom_stale.insert(id.clone());
            }
        }
        for ((id, ordinal), row) in self.tables.ordinals() {
            if let Some(until) = row.retained_until {
                self.deadlines.insert((until, Deadline::Retention(id.clone(), *ordinal)));
            }
            if let Some(BoundPod { pod, .. }) = &row.pod {
                self.bound_by_uid.insert(pod.uid.clone(), (id.clone(), *ordinal));
                self.bound_by_name.insert((pod.namespace.clone(), pod.name.clone()), (id.clone(), *ordinal));
            }
        }
    }
}

/// The outcome of a release that named something that is not held.
pub(super) fn not_held(held_by_uid: Option<Name>, revision: Option<Revision>) -> Outcome {
    Outcome { notes: vec![Note::NotHeld { held_by_uid, revision }], ..Outcome::default() }
}

/// Adds an address to the last run granted, if it continues it.
pub(super) fn extend_granted(
    runs: &mut Vec<Granted>,
    pool: PoolId,
    ordinal: Option<u32>,
    address: IpAddr,
    revision: Revision,
) {
    if let Some(run) = runs.last_mut()
        && run.pool == pool
        && ordinal.is_some()
        && run.ordinal.and_then(|first| first.checked_add(run.count)) == ordinal
        && crate::address::offset(run.first, u128::from(run.count)) == Some(address)
    {
        run.count += 1;
        return;
    }
    runs.push(Granted { pool, first: address, count: 1, ordinal, revision });
}
