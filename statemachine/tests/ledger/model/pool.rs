//! Pools: section 2, and what `Observe` does to them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use holdfast_statemachine::command::{DeletePool, ObjectId, Observe, Observed, PutPool, RangeSpec, StatefulSetId};
use holdfast_statemachine::outcome::Note;
use holdfast_statemachine::row::{Holder, PoolRow, RetiredRow, Stamp};
use holdfast_statemachine::{
    Event, Family, Millis, Name, Outcome, PoolId, PoolKind, Range, Rejection, Source, Waiting,
};

use super::outcome::{not_held, other_source};
use super::search::ip_pool;
use super::usable::usable;
use super::{Model, Verdict};

/// The first address that a pool's spec names, as a range: it says the family.
pub fn wanted_range(put: &PutPool) -> Range {
    let text = match &put.ranges[0] {
        RangeSpec::Cidr(text) => text.split('/').next().expect("split yields one"),
        RangeSpec::StartEnd(start, _) => start,
    };
    let address = text.parse().expect("checked when it was put");
    Range::new(address, address).expect("one address")
}

fn gateway(put: &PutPool) -> Option<IpAddr> {
    put.subnet.as_ref().and_then(|subnet| subnet.gateway.parse().ok())
}

fn immutable(old: &PutPool, new: &PutPool) -> Option<Rejection> {
    let (held, asked) = (old.subnet.as_ref()?, new.subnet.as_ref()?);
    let refuse = |field: &str, held: Name, asked: Name| {
        Some(Rejection::Immutable { pool: new.pool.clone(), field: field.into(), held, asked })
    };
    if gateway(old) != gateway(new) {
        return refuse("spec.subnetInfo.gateway", held.gateway.clone(), asked.gateway.clone());
    }
    if held.prefix_length != asked.prefix_length {
        let text = |n: u32| n.to_string().into();
        return refuse("spec.subnetInfo.prefixLength", text(held.prefix_length), text(asked.prefix_length));
    }
    None
}

/// What is left of these ranges without the others, in order.
fn without(ranges: &[Range], others: &[Range]) -> Vec<Range> {
    let mut left = ranges.to_vec();
    for other in others {
        left = left.into_iter().flat_map(|range| range.without(*other)).collect();
    }
    left
}

fn contains(ranges: &[Range], address: IpAddr) -> bool {
    ranges.iter().any(|range| range.contains(address))
}

impl Model {
    pub(super) fn put_pool(&mut self, source: &Source, put: &PutPool) -> Verdict {
        let ranges = usable(self.mode(), put)?;
        let id = &put.pool;
        let Some(old) = self.pools.get(id).cloned() else {
            self.declare_pool(source, put, Vec::new());
            self.try_or_wait(id, &ranges);
            return Ok(Outcome::default());
        };
        if old.source != *source {
            return Err(other_source(&ObjectId::Pool(id.clone()), &old.source));
        }
        if old.wanted.uid != put.uid {
            self.replace_pool(source, put, &ranges);
            return Ok(Outcome::default());
        }
        if id.kind == PoolKind::IpPool
            && let Some(rejection) = immutable(&old.wanted, put)
        {
            return Err(rejection);
        }
        if old.wanted != *put {
            let row = self.pools.get_mut(id).expect("it is there");
            row.wanted = put.clone();
            self.emit(Event::Put(ObjectId::Pool(id.clone())));
            self.try_or_wait(id, &ranges);
        }
        Ok(Outcome::default())
    }

    /// What `PutPool` and `DeletePool` say of a retired row of the name.
    pub(super) fn note_retired(&self, id: &PoolId) -> Option<Note> {
        self.retired.contains_key(id).then(|| Note::Retired { held: self.retired_grants(id) as u64 })
    }

    fn declare_pool(&mut self, source: &Source, put: &PutPool, ranges: Vec<Range>) {
        let row = PoolRow {
            source: source.clone(),
            wanted: put.clone(),
            ranges,
            waiting: None,
            stamp: Stamp::default(),
            used: Stamp::default(),
        };
        self.pools.insert(put.pool.clone(), row);
        self.emit(Event::Put(ObjectId::Pool(put.pool.clone())));
    }

    /// Puts the ranges into force, or records why not.
    fn try_or_wait(&mut self, id: &PoolId, ranges: &[Range]) {
        let recorded = self.pools[id].waiting.clone();
        match self.obstacle(id, ranges) {
            None => {
                if recorded.is_some() {
                    self.pools.get_mut(id).expect("it is there").waiting = None;
                    self.emit(Event::Met { object: ObjectId::Pool(id.clone()), item: None });
                }
                self.put_into_force(id, ranges, None);
            }
            Some(waiting) if recorded.as_ref().map(|(_, w)| w) != Some(&waiting) => {
                let since = recorded.map_or(self.clock.revision + 1, |(since, _)| since);
                self.pools.get_mut(id).expect("it is there").waiting = Some((since, waiting.clone()));
                self.emit(Event::Waits { object: ObjectId::Pool(id.clone()), item: None, waiting: vec![waiting] });
            }
            Some(_) => {}
        }
    }

    pub(super) fn meet_pool(&mut self, id: &PoolId) -> bool {
        let ranges = usable(self.mode(), &self.pools[id].wanted).expect("checked when it was put");
        let met = self.obstacle(id, &ranges).is_none();
        if met {
            self.try_or_wait(id, &ranges);
        }
        met
    }

    /// Why these ranges cannot come into force for a pool that keeps its UID.
    fn obstacle(&self, id: &PoolId, ranges: &[Range]) -> Option<Waiting> {
        self.overlap(id, ranges).or_else(|| self.still_held(id, ranges))
    }

    fn overlap(&self, id: &PoolId, ranges: &[Range]) -> Option<Waiting> {
        for own in ranges {
            let pools = self.pools.iter().map(|(other, row)| (other, &row.ranges));
            let retired = self.retired.iter().map(|(other, row)| (other, &row.ranges));
            for (other, theirs) in pools.chain(retired).filter(|(other, _)| *other != id) {
                if let Some(range) = theirs.iter().find_map(|range| own.intersection(*range)) {
                    return Some(Waiting::PoolOverlap { range, with: other.clone() });
                }
            }
        }
        None
    }

    fn still_held(&self, id: &PoolId, ranges: &[Range]) -> Option<Waiting> {
        let held: Vec<IpAddr> = self
            .grants
            .iter()
            .filter(|(address, row)| row.pool == *id && self.gives(id, **address) && !contains(ranges, **address))
            .map(|(address, _)| *address)
            .filter(|address| !self.is_chosen(*address))
            .collect();
        let address = *held.first()?;
        let by = self.grants[&address].holder.clone();
        Some(Waiting::RangeStillHeld { address, by, held: held.len() as u64 })
    }

    /// Changes the ranges in force. `replaced`: the pool has another UID, so nothing outside stays its own;
    /// the cool-down of the former object.
    fn put_into_force(&mut self, id: &PoolId, ranges: &[Range], replaced: Option<Millis>) {
        let former = self.pools[id].ranges.clone();
        let outside: Vec<IpAddr> = former
            .iter()
            .flat_map(|range| self.grants.range(range.first()..=range.last()).map(|(address, _)| *address))
            .filter(|address| !contains(ranges, *address))
            .collect();
        let mut homeless: Vec<(Name, usize)> = Vec::new();
        let mut dropped = outside.clone();
        dropped.sort_unstable();
        for address in dropped {
            if let Holder::Egress { name } = &self.grants[&address].holder
                && (replaced.is_some() || self.is_chosen(address))
            {
                let item = self.item_of(name, address);
                homeless.push((name.clone(), item));
                let used = self.pools[id].used;
                self.free(address, false);
                self.pools.get_mut(id).expect("it is there").used = used;
            }
        }
        let left = outside.iter().any(|address| self.grants.contains_key(address));
        let retired = |model: &Model| model.retired.get(id).map(|row| row.ranges.clone()).unwrap_or_default();
        let adds = replaced.filter(|_| left);
        if adds.is_some() {
            let outside = without(&former, ranges);
            self.pools.get_mut(id).expect("it is there").ranges = without(&former, &outside);
            let old = retired(self);
            self.set_retired(id, &old, old.iter().chain(&outside).copied().collect(), adds);
        }
        self.pools.get_mut(id).expect("it is there").ranges = ranges.to_vec();
        let old = retired(self);
        self.set_retired(id, &old, without(&old, ranges), None);
        homeless.sort_by_key(|(name, item)| (self.egresses[name].created.clone(), *item));
        for (name, item) in homeless {
            self.serve_item(&name, item);
        }
    }

    /// Replaces what is left of deleted pools of this name. `cool_down`: of a pool that adds to it.
    fn set_retired(&mut self, id: &PoolId, old: &[Range], new: Vec<Range>, cool_down: Option<Millis>) {
        let held = self.retired_grants(id);
        let new = if held == 0 { Vec::new() } else { new };
        if new == old {
            self.drop_stray_cooling();
            return;
        }
        let recorded = self.retired.remove(id).map(|row| row.cool_down);
        if held > 0 {
            let cool_down = cool_down.or(recorded).unwrap_or_default();
            self.retired.insert(id.clone(), RetiredRow { ranges: new, cool_down, stamp: Stamp::default() });
        }
        self.drop_stray_cooling();
        self.emit(Event::Retired { pool: id.clone(), held: held as u64 });
    }

    fn replace_pool(&mut self, source: &Source, put: &PutPool, ranges: &[Range]) {
        let id = &put.pool;
        if self.overlap(id, ranges).is_some() {
            self.remove_pool(id);
            self.declare_pool(source, put, Vec::new());
            self.try_or_wait(id, ranges);
            self.settle_those_naming(id);
            return;
        }
        let former = self.pools[id].clone();
        self.emit(Event::Deleted(ObjectId::Pool(id.clone())));
        self.declare_pool(source, put, former.ranges);
        self.put_into_force(id, ranges, Some(former.wanted.cool_down));
        self.settle_those_naming(id);
    }

    pub(super) fn delete_pool(&mut self, source: &Source, delete: &DeletePool) -> Verdict {
        let Some(row) = self.pools.get(&delete.pool) else { return Ok(not_held(None)) };
        if row.source != *source {
            return Err(other_source(&ObjectId::Pool(delete.pool.clone()), &row.source));
        }
        if row.wanted.uid != delete.uid {
            return Ok(not_held(Some((row.wanted.uid.clone(), row.stamp.revision))));
        }
        self.remove_pool(&delete.pool);
        self.settle_those_naming(&delete.pool);
        Ok(Outcome::default())
    }

    fn remove_pool(&mut self, id: &PoolId) {
        // While its Egress addresses are freed the pool is still theirs, but its row is not stamped any more.
        self.emit(Event::Deleted(ObjectId::Pool(id.clone())));
        if id.kind == PoolKind::ExternalIpPool {
            let mut items: Vec<(Name, usize)> = Vec::new();
            for (name, row) in &self.egresses {
                let of_pool = row.items.iter().position(|item| item.pool.as_ref() == Some(&id.name));
                items.extend(of_pool.map(|item| (name.clone(), item)));
            }
            items.sort_by_key(|(name, item)| (self.egresses[name].created.clone(), *item));
            for (name, item) in items {
                self.lose_pool(id, &name, item);
            }
        }
        let row = self.pools.remove(id).expect("it is there");
        let old = self.retired.get(id).map(|row| row.ranges.clone()).unwrap_or_default();
        let mut new = old.clone();
        if self.grants.iter().any(|(address, grant)| grant.pool == *id && contains(&row.ranges, *address)) {
            new.extend(&row.ranges);
        }
        self.set_retired(id, &old, new, Some(row.wanted.cool_down));
    }

    fn lose_pool(&mut self, id: &PoolId, name: &Name, item: usize) {
        if let Some(address) = self.egresses[name].items[item].granted() {
            self.free(address, false);
        }
        let row = &mut self.egresses.get_mut(name).expect("it is there").items[item];
        row.chosen = None;
        self.item_waits(name, item, Waiting::UnknownPool { pools: vec![id.clone()] });
    }

    fn settle_those_naming(&mut self, id: &PoolId) {
        if id.kind != PoolKind::IpPool {
            return;
        }
        let naming: Vec<StatefulSetId> = self
            .reservations
            .iter()
            .filter(|(_, row)| row.spec.as_ref().is_some_and(|spec| spec.pools.contains(&id.name)))
            .map(|(id, _)| id.clone())
            .collect();
        for id in naming {
            self.settle(&id, None);
        }
    }

    pub(super) fn observe(&mut self, observe: &Observe) -> Verdict {
        let id = ip_pool(&observe.pool);
        if !self.pools.contains_key(&id) && !self.retired.contains_key(&id) {
            return Err(Rejection::Unknown { kind: "IPPool".into(), name: observe.pool.clone() });
        }
        let mut entries: BTreeMap<IpAddr, Observed> = BTreeMap::new();
        for entry in &observe.entries {
            entries.entry(entry.address).or_insert_with(|| entry.clone());
        }
        let mut concerned = std::collections::BTreeSet::new();
        for entry in entries.values().filter(|entry| self.gives(&id, entry.address)).cloned().collect::<Vec<_>>() {
            self.see(&id, &entry, &entries, &mut concerned);
        }
        let gone: Vec<IpAddr> = self
            .grants
            .iter()
            .filter(|(address, row)| {
                row.pool == id && matches!(row.holder, Holder::Observed { .. }) && !entries.contains_key(address)
            })
            .map(|(address, _)| *address)
            .collect();
        for address in gone {
            self.free(address, true);
        }
        for reservation in concerned {
            self.settle(&reservation, None);
        }
        Ok(Outcome::default())
    }

    fn see(
        &mut self,
        pool: &PoolId,
        entry: &Observed,
        entries: &BTreeMap<IpAddr, Observed>,
        concerned: &mut std::collections::BTreeSet<StatefulSetId>,
    ) {
        let address = entry.address;
        let before = self.grants.get(&address).map(|row| row.holder.clone());
        let mut loser = None;
        match &before {
            Some(Holder::Ordinal { id, ordinal, .. }) => {
                if entry.ordinal == Some((id.clone(), *ordinal)) || self.is_bound(id, *ordinal) {
                    return;
                }
                loser = Some(id.clone());
            }
            None | Some(Holder::Observed { .. }) => {}
            Some(_) => return,
        }
        let mut to = Holder::Observed { owner: entry.owner.clone() };
        if let Some((id, ordinal)) = entry.ordinal.clone()
            && self.is_reserved_for(pool, address, &id, ordinal, entries)
        {
            if let Some(current) = self.current(&id, ordinal, Family::of(address)) {
                self.transfer(current, &Holder::Ordinal { id: id.clone(), ordinal, former: true });
            }
            to = Holder::Ordinal { id: id.clone(), ordinal, former: false };
            concerned.insert(id);
        }
        match before {
            None => self.take(address, pool, &to),
            Some(before) if before == to => {}
            Some(_) => {
                self.transfer(address, &to);
                concerned.extend(loser);
            }
        }
    }

    /// Whether an observed address becomes the ordinal's own.
    fn is_reserved_for(
        &self,
        pool: &PoolId,
        address: IpAddr,
        id: &StatefulSetId,
        ordinal: u32,
        entries: &BTreeMap<IpAddr, Observed>,
    ) -> bool {
        let Some(spec) = self.reservations.get(id).and_then(|row| row.spec.as_ref()) else { return false };
        if !Model::is_wanted(Some(spec), ordinal) || !spec.pools.contains(&pool.name) {
            return false;
        }
        let family = Family::of(address);
        let fixed: Vec<&IpAddr> = spec.fixed.iter().filter(|a| Family::of(**a) == family).collect();
        if !fixed.is_empty() && fixed.get((ordinal - spec.start) as usize) != Some(&&address) {
            return false;
        }
        match self.current(id, ordinal, family) {
            None => true,
            Some(current) => {
                let told = entries.get(&current).and_then(|entry| entry.ordinal.clone());
                self.grants[&current].pool == *pool && told != Some((id.clone(), ordinal))
            }
        }
    }
}
