//! Who holds which address: granting, passing on, freeing, cooling, and the headroom behind a block.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::{BadRow, Deadline, Ledger};
use crate::address::{number, offset};
use crate::change::Event;
use crate::command::StatefulSetId;
use crate::free_space::FreeSpace;
use crate::row::{CoolingRow, GrantRow, Holder, Key, PoolId, RetiredRow, Stamp};
use crate::{Family, Name, Range};

/// Who an address cools for, and whose grants belong together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OwnerKey {
    Reservation(StatefulSetId),
    Named(Name),
    Pod(Name, Name),
    Egress(Name),
    Observed,
}

impl OwnerKey {
    pub(super) fn of(holder: &Holder) -> OwnerKey {
        match holder {
            Holder::Ordinal { id, .. } => OwnerKey::Reservation(id.clone()),
            Holder::Named { name, .. } => OwnerKey::Named(name.clone()),
            Holder::Pod { pod, .. } => OwnerKey::Pod(pod.namespace.clone(), pod.name.clone()),
            Holder::Egress { name } => OwnerKey::Egress(name.clone()),
            Holder::Observed { .. } => OwnerKey::Observed,
        }
    }
}

/// What a reservation holds, by ordinal; the two families by `Family as usize`.
#[derive(Clone, Debug, Default)]
pub(super) struct Holdings {
    pub(super) current: [BTreeMap<u32, IpAddr>; 2],
    pub(super) former: [BTreeMap<u32, BTreeSet<IpAddr>>; 2],
}

impl Holdings {
    pub(super) fn is_empty(&self) -> bool {
        self.current.iter().all(BTreeMap::is_empty) && self.former.iter().all(BTreeMap::is_empty)
    }

    /// The addresses of one ordinal, ascending.
    pub(super) fn of_ordinal(&self, ordinal: u32) -> BTreeSet<IpAddr> {
        let current = self.current.iter().filter_map(|family| family.get(&ordinal)).copied();
        let former = self.former.iter().filter_map(|family| family.get(&ordinal)).flatten().copied();
        current.chain(former).collect()
    }

    /// Ordinals that hold anything.
    pub(super) fn ordinals(&self) -> BTreeSet<u32> {
        let current = self.current.iter().flat_map(BTreeMap::keys);
        let former = self.former.iter().flat_map(BTreeMap::keys);
        current.chain(former).copied().collect()
    }

    fn insert(&mut self, ordinal: u32, former: bool, address: IpAddr) {
        let family = Family::of(address) as usize;
        if former {
            self.former[family].entry(ordinal).or_default().insert(address);
        } else {
            self.current[family].insert(ordinal, address);
        }
    }

    fn remove(&mut self, ordinal: u32, former: bool, address: IpAddr) {
        let family = Family::of(address) as usize;
        if !former {
            if self.current[family].get(&ordinal) == Some(&address) {
                self.current[family].remove(&ordinal);
            }
        } else if let Some(addresses) = self.former[family].get_mut(&ordinal) {
            addresses.remove(&address);
            if addresses.is_empty() {
                self.former[family].remove(&ordinal);
            }
        }
    }
}

/// The block that addresses of consecutive ordinals make, if they make one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) last_ordinal: u32,
    pub(super) last: IpAddr,
}

/// Whether these are consecutive addresses of consecutive ordinals; that they lie in one range is the caller's to see.
pub(super) fn block(current: &BTreeMap<u32, IpAddr>) -> Option<(IpAddr, Block)> {
    let (&first_ordinal, &first) = current.first_key_value()?;
    let (&last_ordinal, &last) = current.last_key_value()?;
    let in_step =
        current.iter().all(|(ordinal, address)| Some(*address) == offset(first, u128::from(ordinal - first_ordinal)));
    let whole = current.len() as u64 == u64::from(last_ordinal - first_ordinal) + 1;
    (in_step && whole).then_some((first, Block { last_ordinal, last }))
}

impl Ledger {
    /// Whether an address of this pool belongs to what is in force of it, not to what is retired.
    pub(super) fn is_live(&self, pool: &PoolId, address: IpAddr) -> bool {
        self.spaces.get(pool).is_some_and(|space| space.range_of(address).is_some())
    }

    pub(super) fn grant(&mut self, address: IpAddr, pool: &PoolId, holder: Holder) -> Stamp {
        self.forget_cooling(address);
        let stamp = self.emit(Event::Granted { address, pool: pool.clone(), holder: holder.clone() });
        if let Holder::Egress { name } = &holder {
            self.tables.stamp_egress(name, stamp);
        }
        self.index(address, &holder, true);
        self.hold_in_space(pool, address);
        self.tables.put_grant(address, GrantRow { pool: pool.clone(), holder, stamp });
        self.used(pool, address, stamp);
        stamp
    }

    pub(super) fn transfer(&mut self, address: IpAddr, to: Holder) -> Stamp {
        let Some(old) = self.tables.grants().get(&address).cloned() else {
            return self.last_stamp();
        };
        let stamp =
            self.emit(Event::Transferred { address, pool: old.pool.clone(), from: old.holder.clone(), to: to.clone() });
        self.index(address, &old.holder, false);
        self.index(address, &to, true);
        self.used(&old.pool, address, stamp);
        self.tables.put_grant(address, GrantRow { pool: old.pool, holder: to, stamp });
        stamp
    }

    /// Frees an address; it then cools, if its pool says so.
    pub(super) fn release(&mut self, address: IpAddr) {
        let Some(GrantRow { pool, holder, .. }) = self.tables.remove_grant(&address) else { return };
        self.index(address, &holder, false);
        let live = self.is_live(&pool, address);
        let cool_down = match (&holder, live) {
            (Holder::Observed { .. }, _) => 0,
            (_, true) => self.tables.pools().get(&pool).map_or(0, |row| row.wanted.cool_down),
            (_, false) if !self.retired_held.get(&pool).is_some_and(|held| held.contains(&address)) => 0,
            (_, false) => self.tables.retired().get(&pool).map_or(0, |row| row.cool_down),
        };
        let until = (cool_down > 0).then(|| self.now.time.saturating_add(cool_down));
        let stamp =
            self.emit(Event::Released { address, pool: pool.clone(), holder: holder.clone(), cooling_until: until });
        self.used(&pool, address, stamp);
        if let Holder::Egress { name } = &holder {
            self.tables.stamp_egress(name, stamp);
        }
        if live && let Some(space) = self.spaces.get_mut(&pool) {
            space.release(address);
        }
        if let Some(until) = until {
            self.cool(address, &pool, CoolingRow { until, former: holder });
        }
        if live {
            self.mark_headroom_before(address, &pool);
            self.waiters.freed(&pool, address);
        } else {
            self.release_retired(&pool, address);
        }
    }

    fn release_retired(&mut self, pool: &PoolId, address: IpAddr) {
        let Some(held) = self.retired_held.get_mut(pool) else { return };
        if !held.remove(&address) {
            return;
        }
        let held = held.len() as u64;
        if held == 0 {
            self.drop_retired(pool);
        } else if let Some(row) = self.tables.retired().get(pool).cloned() {
            let stamp = self.emit(Event::Retired { pool: pool.clone(), held });
            self.tables.put_retired(pool.clone(), RetiredRow { stamp, ..row });
        }
    }

    /// Ends what is retired of a pool: nothing of it is held any more.
    pub(super) fn drop_retired(&mut self, pool: &PoolId) {
        self.retired_held.remove(pool);
        if let Some(row) = self.tables.remove_retired(pool) {
            self.emit(Event::Retired { pool: pool.clone(), held: 0 });
            self.forget_stray_cooling(&row.ranges);
            self.waiters.ranges_changed();
        }
    }

    pub(super) fn last_stamp(&self) -> Stamp {
        Stamp { revision: self.now.revision, index: self.now.index, at: self.now.time }
    }

    pub(super) fn used(&mut self, pool: &PoolId, address: IpAddr, stamp: Stamp) {
        if self.is_live(pool, address) {
            self.tables.use_pool(pool, stamp);
        }
    }

    fn hold_in_space(&mut self, pool: &PoolId, address: IpAddr) {
        let Some(space) = self.spaces.get_mut(pool) else { return };
        if space.is_headroom(address) {
            let inside = self.headroom.iter().filter(|(_, range)| range.contains(address));
            self.headroom_stale.extend(inside.map(|((id, _), _)| id.clone()));
        }
        space.hold(address);
    }

    fn cool(&mut self, address: IpAddr, pool: &PoolId, row: CoolingRow) {
        if let Some(space) = self.spaces.get_mut(pool) {
            space.cool(address);
        }
        self.deadlines.insert((row.until, Deadline::CoolDown(address)));
        self.cooling_of.entry(OwnerKey::of(&row.former)).or_default().insert(address);
        self.tables.put_cooling(address, row);
    }

    /// Ends the cooling of an address, if it cools.
    pub(super) fn forget_cooling(&mut self, address: IpAddr) {
        let Some(row) = self.tables.remove_cooling(&address) else { return };
        self.deadlines.remove(&(row.until, Deadline::CoolDown(address)));
        let owner = OwnerKey::of(&row.former);
        if let Some(addresses) = self.cooling_of.get_mut(&owner) {
            addresses.remove(&address);
            if addresses.is_empty() {
                self.cooling_of.remove(&owner);
            }
        }
        if let Some(space) = self.space_at_mut(address) {
            space.uncool(address);
        }
    }

    pub(super) fn end_cool_down(&mut self, address: IpAddr) {
        self.now.cause = crate::change::Cause::Deadline;
        self.emit(Event::Cooled { address });
        self.forget_cooling(address);
    }

    /// Keeps the indexes by owner in step with the grants.
    fn index(&mut self, address: IpAddr, holder: &Holder, held: bool) {
        match holder {
            Holder::Ordinal { id, ordinal, former } => {
                let holdings = self.holdings.entry(id.clone()).or_default();
                if held {
                    holdings.insert(*ordinal, *former, address);
                } else {
                    holdings.remove(*ordinal, *former, address);
                    if holdings.is_empty() {
                        self.holdings.remove(id);
                    }
                }
                if self.wants_headroom(id) {
                    self.headroom_stale.insert(id.clone());
                }
            }
            // An Egress's addresses are in its row; what is observed is found by its pool.
            Holder::Egress { .. } | Holder::Observed { .. } => {}
            Holder::Named { .. } | Holder::Pod { .. } => {
                let owner = OwnerKey::of(holder);
                if held {
                    self.owned.entry(owner).or_default().insert(address);
                } else if let Some(addresses) = self.owned.get_mut(&owner) {
                    addresses.remove(&address);
                    if addresses.is_empty() {
                        self.owned.remove(&owner);
                    }
                }
            }
        }
    }

    fn wants_headroom(&self, id: &StatefulSetId) -> bool {
        let spec = self.tables.reservations().get(id).and_then(|row| row.spec.as_ref());
        spec.is_some_and(|spec| spec.headroom > 0)
    }

    /// A freed address may lengthen the headroom of the block before it.
    fn mark_headroom_before(&mut self, address: IpAddr, pool: &PoolId) {
        let before = self.tables.grants().range(..address).next_back();
        if let Some((_, GrantRow { pool: other, holder: Holder::Ordinal { id, .. }, .. })) = before
            && other == pool
            && self.wants_headroom(id)
        {
            self.headroom_stale.insert(id.clone());
        }
    }

    /// Brings the headroom of every reservation that may have changed up to date.
    pub(super) fn refresh_headroom(&mut self) {
        while let Some(id) = self.headroom_stale.pop_first() {
            for family in Family::ALL {
                self.set_headroom(&id, family, self.headroom_due(&id, family));
            }
        }
    }

    pub(super) fn set_headroom(&mut self, id: &StatefulSetId, family: Family, due: Option<Range>) {
        let key = (id.clone(), family);
        let standing = self.headroom.get(&key).copied();
        if standing == due {
            return;
        }
        if let Some(range) = standing
            && let Some(space) = self.space_at_mut(range.first())
        {
            space.clear_headroom(range);
        }
        if let Some(range) = due {
            if let Some(space) = self.space_at_mut(range.first()) {
                space.reserve_headroom(range);
            }
            self.headroom.insert(key, range);
        } else {
            self.headroom.remove(&key);
        }
    }

    pub(super) fn space_at_mut(&mut self, address: IpAddr) -> Option<&mut FreeSpace> {
        self.spaces.values_mut().find(|space| space.range_of(address).is_some())
    }

    /// The headroom that a reservation should have now in a family.
    pub(super) fn headroom_due(&self, id: &StatefulSetId, family: Family) -> Option<Range> {
        let spec = self.tables.reservations().get(id)?.spec.as_ref()?;
        if spec.headroom == 0 {
            return None;
        }
        let (first, Block { last, .. }) = block(&self.holdings.get(id)?.current[family as usize])?;
        let pool = &self.tables.grants().get(&first)?.pool;
        let space = self.spaces.get(pool)?;
        let range = space.range_of(first).filter(|range| range.contains(last))?;
        if !spec.pools.contains(&pool.name) || last == range.last() {
            return None;
        }
        let start = offset(last, 1)?;
        let most = number(range.last()) - number(last);
        let end = offset(last, most.min(u128::from(spec.headroom)))?;
        let end = match self.tables.grants().range(start..=end).next() {
            Some((held, _)) if *held == start => return None,
            Some((held, _)) => family.address(number(*held) - 1)?,
            None => end,
        };
        Range::new(start, end)
    }

    pub(super) fn derive_pools(&mut self) -> Result<(), BadRow> {
        let Ledger { tables, spaces, retired_held, .. } = self;
        for (id, row) in tables.pools() {
            if !row.ranges.is_empty() {
                spaces.insert(id.clone(), FreeSpace::new(&row.ranges));
            }
        }
        for (address, row) in tables.grants() {
            let space = spaces.get_mut(&row.pool).filter(|space| space.range_of(*address).is_some());
            if let Some(space) = space {
                space.hold(*address);
            } else if tables.retired().contains_key(&row.pool) {
                retired_held.entry(row.pool.clone()).or_default().insert(*address);
            } else {
                let why = format!("{} has no such address", row.pool);
                return Err(BadRow { key: Key::Grant(*address), why });
            }
        }
        for address in tables.cooling().keys() {
            for space in spaces.values_mut() {
                if space.range_of(*address).is_some() {
                    space.cool(*address);
                }
            }
        }
        Ok(())
    }

    pub(super) fn derive_holdings(&mut self) {
        let grants: Vec<(IpAddr, Holder)> =
            self.tables.grants().iter().map(|(address, row)| (*address, row.holder.clone())).collect();
        for (address, holder) in grants {
            self.index(address, &holder, true);
        }
        for (address, row) in self.tables.cooling() {
            self.deadlines.insert((row.until, Deadline::CoolDown(*address)));
            self.cooling_of.entry(OwnerKey::of(&row.former)).or_default().insert(*address);
        }
    }

    /// Ranges of a pool changed: its free space is made anew from what is held and cooling in it.
    pub(super) fn rebuild_space(&mut self, pool: &PoolId) {
        let gone: Vec<(StatefulSetId, Family)> = match self.spaces.get(pool) {
            None => Vec::new(),
            Some(space) => self
                .headroom
                .iter()
                .filter(|(_, range)| space.range_of(range.first()).is_some())
                .map(|(key, _)| key.clone())
                .collect(),
        };
        for key in gone {
            self.headroom.remove(&key);
            self.headroom_stale.insert(key.0);
        }
        let ranges = self.tables.pools().get(pool).map(|row| row.ranges.clone()).unwrap_or_default();
        let mut space = FreeSpace::new(&ranges);
        for range in &ranges {
            for (address, row) in self.tables.grants().range(range.first()..=range.last()) {
                if row.pool == *pool {
                    space.hold(*address);
                }
                if let Holder::Ordinal { id, .. } = &row.holder {
                    self.headroom_stale.insert(id.clone());
                }
            }
            for (address, _) in self.tables.cooling().range(range.first()..=range.last()) {
                space.cool(*address);
            }
        }
        if ranges.is_empty() {
            self.spaces.remove(pool);
        } else {
            self.spaces.insert(pool.clone(), space);
        }
    }

    /// Puts a retired row, or ends it if nothing of it is held.
    pub(super) fn put_retired(&mut self, pool: &PoolId, ranges: Vec<Range>, cool_down: u64, held: BTreeSet<IpAddr>) {
        if held.is_empty() {
            self.drop_retired(pool);
            return;
        }
        let stamp = self.emit(Event::Retired { pool: pool.clone(), held: held.len() as u64 });
        self.tables.put_retired(pool.clone(), RetiredRow { ranges, cool_down, stamp });
        self.retired_held.insert(pool.clone(), held);
    }
}
