//! Reservations as they are declared, and the Pods bound to them: section 4 but for settling.

use std::collections::BTreeMap;
use std::net::IpAddr;

use holdfast_statemachine::adopt::Mode;
use holdfast_statemachine::command::{
    ObjectId, PodOwner, ReleaseReservation, Reserve, ReserveSpec, Retention, StatefulSetId,
};
use holdfast_statemachine::outcome::Granted;
use holdfast_statemachine::row::{BoundPod, Holder, OrdinalRow, PodRef, ReservationRow, Stamp};
use holdfast_statemachine::{Event, Family, Name, Outcome, Source};

use super::outcome::{malformed, not_held, other_source};
use super::{Model, Verdict};

pub fn pod_ref(pod: &PodOwner) -> PodRef {
    PodRef {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        container_id: pod.container_id.clone(),
        interface: pod.interface.clone(),
    }
}

fn twice<T: PartialEq>(items: &[T]) -> bool {
    items.iter().enumerate().any(|(i, item)| items[..i].contains(item))
}

/// What becomes of an ordinal with a row that is neither wanted nor bound, if no former StatefulSet left it.
pub fn rule(mode: Mode, row: &ReservationRow) -> Retention {
    let when_deleted = if mode == Mode::Antrea { Retention::Release } else { row.when_deleted };
    row.spec.as_ref().map_or(when_deleted, |spec| spec.when_scaled)
}

impl Model {
    pub(super) fn reserve(&mut self, source: &Source, reserve: &Reserve) -> Verdict {
        let spec = &reserve.spec;
        if u64::from(spec.start) + u64::from(spec.replicas) > 1 << 31 {
            return Err(malformed("start"));
        }
        if spec.headroom > 65_536 {
            return Err(malformed("headroom"));
        }
        if spec.replicas > 1_000_000 {
            return Err(malformed("replicas"));
        }
        if twice(&spec.pools) {
            return Err(malformed("pools"));
        }
        if twice(&spec.fixed) {
            return Err(malformed("fixed"));
        }
        let of = |family| spec.fixed.iter().filter(|address| Family::of(**address) == family).count();
        if self.mode() == Mode::Antrea && (of(Family::V4) > 1 || of(Family::V6) > 1) {
            return Err(malformed("fixed"));
        }
        if spec.when_deleted == Retention::Retain {
            return Err(malformed("when_deleted"));
        }
        let id = &reserve.id;
        let old = self.reservations.get(id).cloned();
        if let Some(old) = old.as_ref().filter(|old| old.spec.is_some()) {
            if old.source != *source {
                return Err(other_source(&ObjectId::Reservation(id.clone()), &old.source));
            }
            if old.uid == reserve.uid && old.spec.as_ref() == Some(spec) {
                return Ok(Outcome::default());
            }
        }
        let nothing_there = old.as_ref().is_none_or(|old| old.spec.is_none() && self.known_ordinals(id).is_empty());
        if spec.pools.is_empty() && nothing_there {
            return Ok(Outcome::default());
        }
        let before = self.rules(id);
        self.declare_reservation(source, reserve, old.as_ref());
        if let Some(former) = old.filter(|old| old.uid != reserve.uid && !old.uid.is_empty()) {
            self.leave(id, spec, former.when_deleted);
        }
        self.settle(id, Some(&before));
        Ok(Outcome::default())
    }

    /// By which rule each ordinal would be kept or freed, if it were neither wanted nor bound.
    fn rules(&self, id: &StatefulSetId) -> BTreeMap<u32, Retention> {
        let Some(reservation) = self.reservations.get(id) else { return BTreeMap::new() };
        let rows = self.ordinals.iter().filter(|((of, _), _)| of == id);
        let rule = rule(self.mode(), reservation);
        rows.map(|((_, ordinal), row)| (*ordinal, row.left.unwrap_or(rule))).collect()
    }

    /// What a former StatefulSet leaves to one that does not want it.
    fn leave(&mut self, id: &StatefulSetId, spec: &ReserveSpec, when_deleted: Retention) {
        let rule = if self.mode() == Mode::Antrea { Retention::Release } else { when_deleted };
        for ((of, ordinal), row) in &mut self.ordinals {
            if of == id && !Model::is_wanted(Some(spec), *ordinal) && row.left.is_none() {
                row.left = Some(rule);
            }
        }
    }

    fn declare_reservation(&mut self, source: &Source, reserve: &Reserve, old: Option<&ReservationRow>) {
        let row = ReservationRow {
            source: source.clone(),
            uid: reserve.uid.clone(),
            spec: Some(reserve.spec.clone()),
            when_deleted: reserve.spec.when_deleted,
            waiting: old.and_then(|old| old.waiting.clone()),
            stamp: Stamp::default(),
        };
        self.reservations.insert(reserve.id.clone(), row);
        self.emit(Event::Put(ObjectId::Reservation(reserve.id.clone())));
    }

    pub(super) fn release_reservation(&mut self, source: &Source, release: &ReleaseReservation) -> Verdict {
        let id = &release.id;
        if let Some(row) = self.reservations.get(id).filter(|row| row.spec.is_none() && !row.uid.is_empty())
            && (&row.source, &row.uid) == (source, &release.uid)
        {
            let before = self.clock.revision;
            self.settle_released(id, &self.rules(id));
            return Ok(if self.clock.revision > before { Outcome::default() } else { not_held(None) });
        }
        let before = self.rules(id);
        let Some(row) = self.reservations.get_mut(id).filter(|row| row.spec.is_some()) else {
            return Ok(not_held(None));
        };
        if row.source != *source {
            return Err(other_source(&ObjectId::Reservation(id.clone()), &row.source));
        }
        if row.uid != release.uid {
            return Ok(not_held(Some((row.uid.clone(), row.stamp.revision))));
        }
        row.spec = None;
        row.waiting = None;
        let stamp = self.emit(Event::Deleted(ObjectId::Reservation(id.clone())));
        self.reservations.get_mut(id).expect("it is there").stamp = stamp;
        self.settle_released(id, &before);
        Ok(Outcome::default())
    }

    /// Ordinals with addresses or a row, ascending.
    pub(super) fn known_ordinals(&self, id: &StatefulSetId) -> Vec<u32> {
        let rows = self.ordinals.keys().filter(|(of, _)| of == id).map(|(_, ordinal)| *ordinal);
        let held = self.grants.values().filter_map(|row| match &row.holder {
            Holder::Ordinal { id: of, ordinal, .. } if of == id => Some(*ordinal),
            _ => None,
        });
        let all: std::collections::BTreeSet<u32> = rows.chain(held).collect();
        all.into_iter().collect()
    }

    /// All addresses of an ordinal, current and former, ascending.
    pub(super) fn addresses_of(&self, id: &StatefulSetId, ordinal: u32) -> Vec<IpAddr> {
        let of =
            |holder: &Holder| matches!(holder, Holder::Ordinal { id: i, ordinal: o, .. } if i == id && *o == ordinal);
        self.grants.iter().filter(|(_, row)| of(&row.holder)).map(|(address, _)| *address).collect()
    }

    pub(super) fn is_former(&self, address: IpAddr) -> bool {
        matches!(self.grants[&address].holder, Holder::Ordinal { former: true, .. })
    }

    pub(super) fn current(&self, id: &StatefulSetId, ordinal: u32, family: Family) -> Option<IpAddr> {
        let mut all = self.addresses_of(id, ordinal).into_iter();
        all.find(|address| Family::of(*address) == family && !self.is_former(*address))
    }

    pub(super) fn former(&self, id: &StatefulSetId, ordinal: u32, family: Family) -> Vec<IpAddr> {
        let all = self.addresses_of(id, ordinal).into_iter();
        all.filter(|address| Family::of(*address) == family && self.is_former(*address)).collect()
    }

    /// Current addresses of one family, by ordinal.
    pub(super) fn current_addresses(&self, id: &StatefulSetId, family: Family) -> Vec<(u32, IpAddr)> {
        let ordinals = self.known_ordinals(id).into_iter();
        ordinals.filter_map(|ordinal| Some((ordinal, self.current(id, ordinal, family)?))).collect()
    }

    pub(super) fn is_bound(&self, id: &StatefulSetId, ordinal: u32) -> bool {
        self.ordinals.get(&(id.clone(), ordinal)).is_some_and(|row| row.pod.is_some())
    }

    pub(super) fn is_wanted(spec: Option<&ReserveSpec>, ordinal: u32) -> bool {
        spec.is_some_and(|spec| !spec.pools.is_empty() && ordinal >= spec.start && ordinal - spec.start < spec.replicas)
    }

    /// Where a Pod that fits is bound.
    pub(super) fn bound_where(&self, fits: impl Fn(&BoundPod) -> bool) -> Option<(StatefulSetId, u32)> {
        let mut rows = self.ordinals.iter();
        rows.find(|(_, row)| row.pod.as_ref().is_some_and(&fits)).map(|(key, _)| key.clone())
    }

    /// The address of a family that the Pod bound to an ordinal uses.
    pub(super) fn pod_uses(&self, id: &StatefulSetId, ordinal: u32, family: Family) -> Option<IpAddr> {
        let bound = self.ordinals.get(&(id.clone(), ordinal))?.pod.as_ref()?;
        let own = |address: &IpAddr| bound.pools.contains(&self.grants[address].pool.name);
        let current = self.current(id, ordinal, family);
        let former = self.former(id, ordinal, family);
        let since = |address: &IpAddr| self.grants[address].stamp.revision;
        let bound_at = self.ordinals[&(id.clone(), ordinal)].stamp.revision;
        let ran_with = former.iter().copied().filter(own).filter(|address| since(address) > bound_at).min_by_key(since);
        if ran_with.is_some() {
            return ran_with;
        }
        current.filter(own).or_else(|| former.into_iter().find(own)).or(current)
    }

    pub(super) fn used_by_pod(&self, id: &StatefulSetId, ordinal: u32) -> Vec<Granted> {
        let used = Family::ALL.into_iter().filter_map(|family| self.pod_uses(id, ordinal, family));
        used.map(|address| self.granted_one(address, Some(ordinal))).collect()
    }

    pub(super) fn granted_one(&self, address: IpAddr, ordinal: Option<u32>) -> Granted {
        let row = &self.grants[&address];
        Granted { pool: row.pool.clone(), first: address, count: 1, ordinal, revision: row.stamp.revision }
    }

    /// Binds a Pod that is bound nowhere yet.
    pub(super) fn bind(&mut self, source: &Source, pod: &PodOwner, id: &StatefulSetId, ordinal: u32, pools: &[Name]) {
        let gone = self.held_by_pod(&pod.namespace, &pod.name);
        for address in gone {
            if !matches!(&self.grants[&address].holder, Holder::Pod { pod: held, .. } if held.uid == pod.uid) {
                self.free(address, true);
            }
        }
        if self.is_bound(id, ordinal) {
            self.unbind(id, ordinal);
        }
        let elsewhere = self.bound_where(|b| b.pod.namespace == pod.namespace && b.pod.name == pod.name);
        if let Some((other, at)) = &elsewhere {
            self.unbind(other, *at);
            self.settle_ordinal(other, *at);
        }
        let created = !self.reservations.contains_key(id);
        if created {
            let row = ReservationRow {
                source: source.clone(),
                uid: "".into(),
                spec: None,
                when_deleted: Retention::Release,
                waiting: None,
                stamp: Stamp::default(),
            };
            self.reservations.insert(id.clone(), row);
        }
        let bound = BoundPod { pod: pod_ref(pod), pools: pools.to_vec(), source: source.clone() };
        let row = self.ordinals.entry((id.clone(), ordinal)).or_insert_with(|| OrdinalRow {
            pod: None,
            retained_until: None,
            stamp: Stamp::default(),
            left: None,
        });
        row.pod = Some(bound);
        let stamp = self.emit(Event::Bound { id: id.clone(), ordinal, pod: pod_ref(pod) });
        if created {
            self.reservations.get_mut(id).expect("just made").stamp = stamp;
        }
        self.settle_ordinal(id, ordinal);
    }

    pub(super) fn unbind(&mut self, id: &StatefulSetId, ordinal: u32) {
        let row = self.ordinals.get_mut(&(id.clone(), ordinal)).expect("a Pod is bound to it");
        let bound = row.pod.take().expect("a Pod is bound to it");
        self.emit(Event::Unbound { id: id.clone(), ordinal, pod: bound.pod });
    }
}
