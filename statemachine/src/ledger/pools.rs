//! Pools: what is wanted, what of it is in force, and what is left of those deleted.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::reservations::not_held;
use super::{Ledger, malformed, same_source};
use crate::Range;
use crate::change::Event;
use crate::command::{DeletePool, ObjectId, PutPool, Source};
use crate::outcome::{Note, Outcome, Rejection, Waiting};
use crate::pool_spec;
use crate::row::{Holder, PoolId, PoolKind, PoolRow, RetiredRow};

impl Ledger {
    pub(super) fn put_pool(&mut self, source: &Source, put: &PutPool) -> Result<Outcome, Rejection> {
        let ranges = pool_spec::usable_in(self.mode(), put)?;
        if put.pool.name.is_empty() || put.pool.name.len() > 253 {
            return Err(malformed("metadata.name", &put.pool.name, "1 to 253 characters"));
        }
        let Some(old) = self.tables.pools().get(&put.pool).cloned() else {
            self.record_pool(source, put, None);
            return Ok(self.bring_into_force(&put.pool, &ranges));
        };
        same_source(kind_name(put.pool.kind), &put.pool.name, &old.source, source)?;
        if old.wanted.uid != put.uid {
            return Ok(self.replace_pool(source, put, &ranges));
        }
        if old.wanted == *put {
            return Ok(self.retired_outcome(&put.pool));
        }
        immutable(&old.wanted, put)?;
        self.record_pool(source, put, Some(&old));
        Ok(self.bring_into_force(&put.pool, &ranges))
    }

    /// Records what is wanted. Selector and cool-down are in force at once.
    fn record_pool(&mut self, source: &Source, put: &PutPool, old: Option<&PoolRow>) {
        let stamp = self.emit(Event::Put(ObjectId::Pool(put.pool.clone())));
        let row = PoolRow {
            source: source.clone(),
            wanted: put.clone(),
            ranges: old.map(|row| row.ranges.clone()).unwrap_or_default(),
            waiting: old.and_then(|row| row.waiting.clone()),
            stamp,
            used: stamp,
        };
        self.tables.put_pool(put.pool.clone(), row);
        if put.pool.kind == PoolKind::ExternalIpPool {
            self.scheduler.put_pool(&put.pool.name, &put.node_selector);
        }
        self.waiters.pool_changed(&put.pool);
    }

    /// Puts the wanted ranges in force, or says what they wait for.
    fn bring_into_force(&mut self, pool: &PoolId, ranges: &[Range]) -> Outcome {
        let obstacle = self.obstacle(pool, ranges);
        let free = obstacle.is_none();
        self.set_pool_waiting(pool, obstacle);
        if free {
            self.set_ranges(pool, ranges);
        }
        self.retired_outcome(pool)
    }

    /// What keeps a waiting pool from coming into force now.
    pub(super) fn acceptable(&self, pool: &PoolId) -> Option<Waiting> {
        let row = self.tables.pools().get(pool)?;
        let ranges = pool_spec::usable_in(self.mode(), &row.wanted).ok()?;
        self.obstacle(pool, &ranges)
    }

    pub(super) fn retry_pool(&mut self, pool: &PoolId) -> bool {
        let wanted = self.tables.pools().get(pool).map(|row| &row.wanted);
        let Some(ranges) = wanted.and_then(|wanted| pool_spec::usable_in(self.mode(), wanted).ok()) else {
            return false;
        };
        if self.obstacle(pool, &ranges).is_some() {
            return false;
        }
        self.bring_into_force(pool, &ranges);
        true
    }

    fn obstacle(&self, pool: &PoolId, ranges: &[Range]) -> Option<Waiting> {
        self.overlap(pool, ranges).or_else(|| self.still_held(pool, ranges))
    }

    fn overlap(&self, pool: &PoolId, ranges: &[Range]) -> Option<Waiting> {
        let pools = self.tables.pools().iter().map(|(id, row)| (id, &row.ranges));
        let retired = self.tables.retired().iter().map(|(id, row)| (id, &row.ranges));
        let others: Vec<_> = pools.chain(retired).filter(|(id, _)| *id != pool).collect();
        ranges.iter().find_map(|range| {
            others.iter().find_map(|(id, theirs)| {
                let common = theirs.iter().find_map(|other| range.intersection(*other))?;
                Some(Waiting::PoolOverlap { range: common, with: (*id).clone() })
            })
        })
    }

    /// Addresses that other ranges would no longer have; chosen ones of Egresses do not count, they are dropped.
    fn still_held(&self, pool: &PoolId, ranges: &[Range]) -> Option<Waiting> {
        let outside = self.held_outside(pool, ranges);
        let held = outside.iter().filter(|address| !self.is_chosen(**address));
        let (address, count) = (held.clone().next()?, held.clone().count() as u64);
        let by = self.tables.grants().get(address)?.holder.clone();
        Some(Waiting::RangeStillHeld { address: *address, by, held: count })
    }

    /// Addresses held in what is in force of a pool and outside these ranges.
    fn held_outside(&self, pool: &PoolId, ranges: &[Range]) -> BTreeSet<IpAddr> {
        let in_force = self.tables.pools().get(pool).map(|row| row.ranges.clone()).unwrap_or_default();
        let dropped = in_force.iter().flat_map(|range| {
            ranges
                .iter()
                .fold(vec![*range], |left, other| left.into_iter().flat_map(|part| part.without(*other)).collect())
        });
        let held = dropped.flat_map(|range| {
            let inside = self.tables.grants().range(range.first()..=range.last());
            inside.filter(|(_, grant)| grant.pool == *pool).map(|(address, _)| *address)
        });
        held.collect()
    }

    fn is_chosen(&self, address: IpAddr) -> bool {
        let Some(Holder::Egress { name }) = self.tables.grants().get(&address).map(|grant| &grant.holder) else {
            return false;
        };
        let items = self.tables.egresses().get(name).map(|row| row.items.as_slice()).unwrap_or_default();
        items.iter().any(|item| item.chosen == Some(address))
    }

    fn set_pool_waiting(&mut self, pool: &PoolId, obstacle: Option<Waiting>) {
        let Some(mut row) = self.tables.pools().get(pool).cloned() else { return };
        let object = ObjectId::Pool(pool.clone());
        match (&row.waiting, obstacle) {
            (None, None) => return,
            (Some((_, old)), Some(new)) if *old == new => return,
            (Some((since, _)), None) => {
                self.waiters.remove(*since);
                row.stamp = self.emit(Event::Met { object, item: None });
                row.waiting = None;
            }
            (old, Some(new)) => {
                let since = old.as_ref().map(|(since, _)| *since);
                row.stamp = self.emit(Event::Waits { object, item: None, waiting: vec![new.clone()] });
                row.waiting = Some((since.unwrap_or(row.stamp.revision), new));
                if since.is_none() {
                    self.waiters.enlist_pool(row.stamp.revision, pool);
                }
            }
        }
        row.used = row.stamp;
        self.tables.put_pool(pool.clone(), row);
    }

    fn set_ranges(&mut self, pool: &PoolId, ranges: &[Range]) {
        let Some(mut row) = self.tables.pools().get(pool).cloned() else { return };
        if row.ranges == ranges {
            return;
        }
        let before = std::mem::take(&mut row.ranges);
        self.put_ranges(pool, ranges);
        let items = self.egress_items_of(pool);
        let lost = self.free_egress_addresses(pool, items);
        self.take_over_retired(pool, ranges);
        self.forget_stray_cooling(&before);
        self.serve_items(lost);
    }

    /// Writes down the ranges in force, and makes the free space anew.
    fn put_ranges(&mut self, pool: &PoolId, ranges: &[Range]) {
        let Some(mut row) = self.tables.pools().get(pool).cloned() else { return };
        row.ranges = ranges.to_vec();
        self.tables.put_pool(pool.clone(), row);
        self.rebuild_space(pool);
        self.waiters.pool_changed(pool);
    }

    /// A cooling address of these ranges that no pool has any more, not even a retired one, is nobody's.
    pub(super) fn forget_stray_cooling(&mut self, ranges: &[Range]) {
        for range in ranges {
            let cooling = self.tables.cooling().range(range.first()..=range.last()).map(|(address, _)| *address);
            let stray = cooling.filter(|address| {
                let live = self.spaces.values().any(|space| space.range_of(*address).is_some());
                let in_retired = |row: &RetiredRow| row.ranges.iter().any(|range| range.contains(*address));
                !live && !self.tables.retired().values().any(in_retired)
            });
            for address in stray.collect::<Vec<_>>() {
                self.forget_cooling(address);
            }
        }
    }

    /// Held addresses of a deleted pool of the same name are the new one's, where it has them.
    fn take_over_retired(&mut self, pool: &PoolId, ranges: &[Range]) {
        let Some(row) = self.tables.retired().get(pool).cloned() else { return };
        let held = self.retired_held.get(pool).cloned().unwrap_or_default();
        let (ours, theirs): (BTreeSet<IpAddr>, BTreeSet<IpAddr>) =
            held.into_iter().partition(|address| ranges.iter().any(|range| range.contains(*address)));
        let left: Vec<Range> = row.ranges.iter().flat_map(|range| without_all(*range, ranges)).collect();
        if ours.is_empty() && left == row.ranges {
            return;
        }
        if let Some(space) = self.spaces.get_mut(pool) {
            for address in &ours {
                space.hold(*address);
            }
        }
        self.put_retired(pool, left, row.cool_down, theirs);
    }

    pub(super) fn delete_pool(&mut self, source: &Source, delete: &DeletePool) -> Result<Outcome, Rejection> {
        let Some(row) = self.tables.pools().get(&delete.pool) else { return Ok(not_held(None, None)) };
        same_source(kind_name(delete.pool.kind), &delete.pool.name, &row.source, source)?;
        if row.wanted.uid != delete.uid {
            return Ok(not_held(Some(row.wanted.uid.clone()), Some(row.stamp.revision)));
        }
        self.remove_pool(&delete.pool);
        self.pool_gone(&delete.pool);
        Ok(self.retired_outcome(&delete.pool))
    }

    /// Says how many addresses a deleted pool of this name still has held.
    fn retired_outcome(&self, pool: &PoolId) -> Outcome {
        let held = self.retired_held.get(pool).map_or(0, BTreeSet::len) as u64;
        let notes = if held > 0 { vec![Note::Retired { held }] } else { Vec::new() };
        Outcome { notes, ..Outcome::default() }
    }

    /// Takes a pool away: Egresses lose what they have of it, other grants keep it, retired.
    fn remove_pool(&mut self, pool: &PoolId) {
        self.emit(Event::Deleted(ObjectId::Pool(pool.clone())));
        let Some(row) = self.tables.remove_pool(pool) else { return };
        if let Some((since, _)) = row.waiting {
            self.waiters.remove(since);
        }
        self.drop_egress_addresses(pool);
        if pool.kind == PoolKind::ExternalIpPool {
            self.scheduler.remove_pool(&pool.name);
        }
        self.retire(pool, &row.ranges, row.wanted.cool_down);
        self.rebuild_space(pool);
        self.forget_stray_cooling(&row.ranges);
        self.waiters.ranges_changed();
    }

    /// What of these ranges is still held is the retired pool's, beside what that had.
    fn retire(&mut self, pool: &PoolId, ranges: &[Range], cool_down: u64) {
        let in_range = |range: &Range| self.tables.grants().range(range.first()..=range.last());
        let held: BTreeSet<IpAddr> = ranges
            .iter()
            .flat_map(in_range)
            .filter(|(_, grant)| grant.pool == *pool)
            .map(|(address, _)| *address)
            .collect();
        if held.is_empty() {
            return;
        }
        let mut all = self.tables.retired().get(pool).map(|row| row.ranges.clone()).unwrap_or_default();
        all.extend_from_slice(ranges);
        let held = held.into_iter().chain(self.retired_held.remove(pool).unwrap_or_default()).collect();
        self.put_retired(pool, all, cool_down, held);
    }

    /// Another object under the same name: a delete and a create, but that what fits stays where it is.
    fn replace_pool(&mut self, source: &Source, put: &PutPool, ranges: &[Range]) -> Outcome {
        if let Some(obstacle) = self.overlap(&put.pool, ranges) {
            self.remove_pool(&put.pool);
            self.record_pool(source, put, None);
            self.set_pool_waiting(&put.pool, Some(obstacle));
            self.pool_gone(&put.pool);
            return self.retired_outcome(&put.pool);
        }
        let Some(mut old) = self.tables.pools().get(&put.pool).cloned() else { return Outcome::default() };
        let lost = self.egress_items_of(&put.pool);
        self.emit(Event::Deleted(ObjectId::Pool(put.pool.clone())));
        if let Some((since, _)) = old.waiting.take() {
            self.waiters.remove(since);
        }
        self.record_pool(source, put, Some(&old));
        let left: Vec<Range> = old.ranges.iter().flat_map(|range| without_all(*range, ranges)).collect();
        self.put_ranges(&put.pool, ranges);
        let lost = self.free_egress_addresses(&put.pool, lost);
        self.retire(&put.pool, &left, old.wanted.cool_down);
        self.take_over_retired(&put.pool, ranges);
        self.forget_stray_cooling(&old.ranges);
        self.serve_items(lost);
        self.pool_gone(&put.pool);
        self.retired_outcome(&put.pool)
    }

    /// Reservations that name a pool look again at what they hold of it.
    fn pool_gone(&mut self, pool: &PoolId) {
        if pool.kind != PoolKind::IpPool {
            return;
        }
        for id in self.reservations_naming.get(&pool.name).cloned().unwrap_or_default() {
            self.settle(&id);
        }
    }
}

/// What is left of a range without any of these.
fn without_all(range: Range, others: &[Range]) -> Vec<Range> {
    others.iter().fold(vec![range], |left, other| left.into_iter().flat_map(|part| part.without(*other)).collect())
}

pub(super) fn kind_name(kind: PoolKind) -> &'static str {
    match kind {
        PoolKind::IpPool => "IPPool",
        PoolKind::ExternalIpPool => "ExternalIPPool",
    }
}

/// An IPPool's gateway and prefix length never change.
fn immutable(old: &PutPool, new: &PutPool) -> Result<(), Rejection> {
    let (PoolKind::IpPool, Some(old_subnet), Some(new_subnet)) = (new.pool.kind, &old.subnet, &new.subnet) else {
        return Ok(());
    };
    let gateway = |text: &str| text.trim().parse::<IpAddr>().ok();
    let refuse = |field: &str, held: String, asked: String| Rejection::Immutable {
        pool: new.pool.clone(),
        field: field.into(),
        held: held.into(),
        asked: asked.into(),
    };
    if gateway(&old_subnet.gateway) != gateway(&new_subnet.gateway) {
        let (held, asked) = (old_subnet.gateway.to_string(), new_subnet.gateway.to_string());
        return Err(refuse("spec.subnetInfo.gateway", held, asked));
    }
    if old_subnet.prefix_length != new_subnet.prefix_length {
        let (held, asked) = (old_subnet.prefix_length.to_string(), new_subnet.prefix_length.to_string());
        return Err(refuse("spec.subnetInfo.prefixLength", held, asked));
    }
    Ok(())
}
