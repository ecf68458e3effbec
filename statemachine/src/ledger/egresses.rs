//! Egresses and their addresses: asked for or chosen, held or waited for. Where they are placed: `nodes`.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::holding::OwnerKey;
use super::reservations::not_held;
use super::search::Ask;
use super::waiting::Wait;
use super::{Ledger, malformed, same_source};
use crate::Name;
use crate::adopt::{Conflict, ConflictReason};
use crate::change::{Event, MoveReason};
use crate::command::{Contiguity, DeleteEgress, EgressItem, ObjectId, PutEgress, Source};
use crate::outcome::{Outcome, Rejection, Waiting};
use crate::row::{CreationKey, EgressItemRow, EgressRow, Holder, PoolId, PoolKind, Stamp};

/// Most addresses of one Egress.
const MAX_ITEMS: usize = 16;

fn check_egress(put: &PutEgress) -> Result<(), Rejection> {
    let items = &put.items;
    if items.is_empty() || items.len() > MAX_ITEMS {
        return Err(malformed("spec.egressIPs", &items.len().to_string(), "1 to 16 addresses or pools"));
    }
    if put.rest.len() > PutEgress::REST_MAX {
        let value = format!("{} bytes", put.rest.len());
        return Err(malformed("spec", &value, "at most 16384 bytes beside addresses and pools"));
    }
    let pools: Vec<&Name> = items.iter().filter_map(|item| item.pool.as_ref()).collect();
    if !pools.is_empty() && pools.len() < items.len() {
        return Err(malformed("spec.externalIPPools", &pools.len().to_string(), "a pool for each address, or none"));
    }
    if pools.iter().collect::<BTreeSet<_>>().len() < pools.len() {
        let listed: Vec<&str> = pools.iter().map(|name| &***name).collect();
        return Err(malformed("spec.externalIPPools", &listed.join(","), "each pool once"));
    }
    let addresses: Vec<IpAddr> = items.iter().filter_map(|item| item.address).collect();
    if addresses.iter().collect::<BTreeSet<_>>().len() < addresses.len() {
        let listed: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
        return Err(malformed("spec.egressIPs", &listed.join(","), "each address once"));
    }
    if pools.is_empty() && addresses.len() < items.len() {
        return Err(malformed("spec.egressIPs", "", "an address where there is no pool"));
    }
    Ok(())
}

pub(super) fn external(name: &Name) -> PoolId {
    PoolId { kind: PoolKind::ExternalIpPool, name: name.clone() }
}

/// What an item becomes when it is put again: it keeps what it has if its pool and what it asks for are the same.
/// `chosen`: addresses that are not asked for, though they are named.
fn matched(old: Option<&EgressRow>, item: &EgressItem, chosen: &[IpAddr]) -> (EgressItemRow, bool) {
    let was_chosen = item.pool.is_some() && item.address.is_some_and(|address| chosen.contains(&address));
    let (of_ledger, asked) = if was_chosen { (item.address, None) } else { (None, item.address) };
    let fresh = EgressItemRow { pool: item.pool.clone(), asked, chosen: of_ledger, waiting: None };
    let before = old.into_iter().flat_map(|row| &row.items).find(|old| old.pool == item.pool && old.pool.is_some());
    match before {
        Some(before) if asked.is_none_or(|a| before.chosen == Some(a)) && before.asked.is_none() => {
            (before.clone(), true)
        }
        Some(before) if before.asked.is_some() && before.asked == item.address => (before.clone(), true),
        // Its place among those who wait is kept.
        Some(before) => (EgressItemRow { waiting: before.waiting.clone(), ..fresh }, false),
        None => (fresh, false),
    }
}

/// Whether an Egress is recorded just as it is put.
pub(super) fn is_declared(row: &EgressRow, put: &PutEgress, chosen: &[IpAddr]) -> bool {
    let as_recorded = |(before, item): (&EgressItemRow, &EgressItem)| {
        let (after, kept) = matched(Some(row), item, chosen);
        let is_static = before.pool.is_none() && *before == after;
        (kept || is_static) && before.pool == after.pool
    };
    row.plural == put.plural
        && row.rest == put.rest
        && row.items.len() == put.items.len()
        && row.items.iter().zip(&put.items).all(as_recorded)
}

/// An item as it is recorded before it is served: what was chosen for it is not its own yet.
fn declared(item: &EgressItemRow, kept: bool) -> EgressItemRow {
    if kept || item.pool.is_none() { item.clone() } else { EgressItemRow { chosen: None, ..item.clone() } }
}

impl Ledger {
    pub(super) fn put_egress(&mut self, source: &Source, put: &PutEgress) -> Result<Outcome, Rejection> {
        let mut outcome = Outcome::default();
        self.declare_egress(source, put, &[], &mut outcome)?;
        Ok(outcome)
    }

    /// Records an Egress with what it has. What of that cannot be: as many conflicts.
    pub(super) fn adopt_egress(&mut self, source: &Source, put: &PutEgress, chosen: &[IpAddr]) -> Vec<Conflict> {
        let conflict = |pool: &Name, address, why| {
            let claimed_by = Holder::Egress { name: put.name.clone() };
            Conflict { address, pool: external(pool), claimed_by, why }
        };
        let named = put.items.iter().filter_map(|item| Some((item.pool.as_ref()?, item.address?)));
        match self.declare_egress(source, put, chosen, &mut Outcome::default()) {
            Ok(unmet) => {
                let reason = |address| unmet.iter().find(|(unmet, _)| *unmet == address).map(|(_, why)| why.clone());
                named.filter_map(|(pool, address)| Some(conflict(pool, address, reason(address)?))).collect()
            }
            Err(refused) => {
                let why = ConflictReason::Refused { code: refused.code().into() };
                named.map(|(pool, address)| conflict(pool, address, why.clone())).collect()
            }
        }
    }

    /// The addresses that it named and that were not to be had, and why.
    fn declare_egress(
        &mut self,
        source: &Source,
        put: &PutEgress,
        chosen: &[IpAddr],
        outcome: &mut Outcome,
    ) -> Result<Vec<(IpAddr, ConflictReason)>, Rejection> {
        check_egress(put)?;
        let mut old = self.tables.egresses().get(&put.name).cloned();
        if let Some(row) = &old {
            same_source("Egress", &put.name, &row.source, source)?;
            if row.uid != put.uid {
                self.remove_egress(&put.name);
                old = None;
            }
        }
        if old.as_ref().is_some_and(|row| is_declared(row, put, chosen)) {
            return Ok(Vec::new());
        }
        let items: Vec<(EgressItemRow, bool)> =
            put.items.iter().map(|item| matched(old.as_ref(), item, chosen)).collect();
        Ok(self.redeclare(source, put, old, &items, outcome))
    }

    fn redeclare(
        &mut self,
        source: &Source,
        put: &PutEgress,
        old: Option<EgressRow>,
        items: &[(EgressItemRow, bool)],
        outcome: &mut Outcome,
    ) -> Vec<(IpAddr, ConflictReason)> {
        let stamp = self.emit(Event::Put(ObjectId::Egress(put.name.clone())));
        let created = match &old {
            Some(row) => row.created.clone(),
            None => self.creation_key(put, stamp),
        };
        let before = old.map(|row| row.items).unwrap_or_default();
        self.name_external_pools(&put.name, &before, items);
        for item in &before {
            let kept = items.iter().any(|(after, kept)| *kept && after.pool == item.pool);
            if let Some((since, _)) = item.waiting.as_ref() {
                self.waiters.remove(*since);
            }
            if let Some(address) = item.granted().filter(|_| !kept) {
                self.free_item(address);
            }
        }
        let row = EgressRow {
            source: source.clone(),
            uid: put.uid.clone(),
            created,
            plural: put.plural,
            items: items.iter().map(|(item, kept)| declared(item, *kept)).collect(),
            rest: put.rest.clone(),
            stamp: self.last_stamp(),
        };
        self.tables.put_egress(put.name.clone(), row);
        let mut unmet = Vec::new();
        for (position, (item, kept)) in (0u32..).zip(items) {
            if *kept && let Some(address) = item.granted() {
                self.schedule(&put.name, position, address);
            } else if item.pool.is_some() {
                let was_chosen = item.chosen.filter(|_| !*kept);
                let waiting = self.serve_item(&put.name, position, was_chosen, outcome);
                let why = waiting.as_ref().and_then(ConflictReason::of);
                unmet.extend(item.asked.or(was_chosen).zip(why));
            }
        }
        unmet
    }

    fn creation_key(&self, put: &PutEgress, stamp: Stamp) -> CreationKey {
        if let Some(seconds) = put.created {
            CreationKey { seconds, revision: 0, name: put.name.clone() }
        } else {
            let seconds = i64::try_from(self.now.time / 1000).unwrap_or(i64::MAX);
            CreationKey { seconds, revision: stamp.revision, name: put.name.clone() }
        }
    }

    fn name_external_pools(&mut self, name: &Name, before: &[EgressItemRow], after: &[(EgressItemRow, bool)]) {
        for pool in before.iter().filter_map(|item| item.pool.as_ref()) {
            if let Some(names) = self.egresses_naming.get_mut(pool) {
                names.remove(name);
                if names.is_empty() {
                    self.egresses_naming.remove(pool);
                }
            }
        }
        for pool in after.iter().filter_map(|(item, _)| item.pool.as_ref()) {
            self.egresses_naming.entry(pool.clone()).or_default().insert(name.clone());
        }
    }

    /// Grants an item its address, or records what it waits for.
    /// `was_chosen`: the address that it has as one that was chosen for it, if it is to be had. What kept it from that.
    fn serve_item(
        &mut self,
        name: &Name,
        position: u32,
        was_chosen: Option<IpAddr>,
        outcome: &mut Outcome,
    ) -> Option<Waiting> {
        let item = self.item(name, position)?;
        match self.find_for_item(name, &item, was_chosen) {
            Ok((pool, address)) => {
                outcome.notes.extend(self.notes_on(&OwnerKey::Egress(name.clone()), &pool, address));
                let stamp = self.grant(address, &pool, Holder::Egress { name: name.clone() });
                let chosen = item.asked.is_none().then_some(address);
                let stamp = if let Some((since, _)) = item.waiting {
                    self.waiters.remove(since);
                    let object = ObjectId::Egress(name.clone());
                    self.emit(Event::Met { object, item: Some(position) })
                } else {
                    stamp
                };
                self.set_item(name, position, EgressItemRow { chosen, waiting: None, ..item }, stamp);
                self.schedule(name, position, address);
                None
            }
            Err(waiting) => {
                let known = !matches!(waiting, Waiting::UnknownPool { .. });
                let recorded = if was_chosen.is_some() && known { Waiting::NotAdopted } else { waiting.clone() };
                self.set_item_waiting(name, position, recorded);
                Some(waiting)
            }
        }
    }

    fn set_item_waiting(&mut self, name: &Name, position: u32, waiting: Waiting) {
        let Some(mut item) = self.item(name, position) else { return };
        let Some(pool) = item.pool.as_ref().map(external) else { return };
        let standing: Wait = item.waiting.take();
        let mut stamp = self.tables.egresses().get(name).map(|row| row.stamp).unwrap_or_default();
        let since = standing.as_ref().map(|(since, _)| *since);
        if let Some(since) = since {
            self.waiters.remove(since);
        }
        if standing.is_none_or(|(_, old)| old != waiting) {
            let object = ObjectId::Egress(name.clone());
            stamp = self.emit(Event::Waits { object, item: Some(position), waiting: vec![waiting.clone()] });
        }
        let since = since.unwrap_or(stamp.revision);
        self.waiters.enlist_item(since, name, position, &pool, item.asked);
        item.chosen = None;
        item.waiting = Some((since, waiting));
        self.set_item(name, position, item, stamp);
    }

    fn find_for_item(
        &mut self,
        name: &Name,
        item: &EgressItemRow,
        was_chosen: Option<IpAddr>,
    ) -> Result<(PoolId, IpAddr), Waiting> {
        let pool = item.pool.as_ref().map(external).into_iter().collect::<Vec<_>>();
        let known = pool.iter().all(|pool| self.tables.pools().contains_key(pool));
        let Some(first) = pool.first().filter(|_| known).cloned() else {
            return Err(Waiting::UnknownPool { pools: pool });
        };
        if let Some(address) = item.asked.or(was_chosen) {
            if !self.is_live(&first, address) {
                return Err(Waiting::AddressOutside { address, pools: pool });
            }
            if let Some(grant) = self.tables.grants().get(&address) {
                return Err(Waiting::AddressHeld { address, by: grant.holder.clone() });
            }
            return Ok((first, address));
        }
        if self.adopting() {
            return Err(Waiting::NotAdopted);
        }
        let owner = OwnerKey::Egress(name.clone());
        let ask = Ask { owner: &owner, pools: &pool, count: 1, headroom: 0, contiguity: Contiguity::Preferred };
        if let Some((pool, addresses)) = self.search(&ask) {
            let address = addresses.first().copied();
            address.map(|address| (pool.clone(), address)).ok_or(Waiting::UnknownPool { pools: vec![pool] })
        } else {
            let family = self.family_of(&first).unwrap_or(crate::Family::V4);
            Err(Waiting::Exhausted { family, tried: self.rooms(&pool, 1) })
        }
    }

    pub(super) fn can_grant_item(&mut self, name: &Name, position: u32) -> bool {
        self.item(name, position).is_some_and(|item| self.find_for_item(name, &item, None).is_ok())
    }

    pub(super) fn retry_item(&mut self, name: &Name, position: u32) -> bool {
        let can = self.can_grant_item(name, position);
        if can {
            self.serve_item(name, position, None, &mut Outcome::default());
        }
        can
    }

    /// An adoption has ended: the item is served, or told what it waits for now if that was the end.
    pub(super) fn retry_item_at_the_end(&mut self, name: &Name, position: u32) {
        let waiting = self.item(name, position).and_then(|item| item.waiting);
        if waiting.is_some_and(|(_, waiting)| waiting == Waiting::NotAdopted) || self.can_grant_item(name, position) {
            self.serve_item(name, position, None, &mut Outcome::default());
        }
    }

    fn item(&self, name: &Name, position: u32) -> Option<EgressItemRow> {
        let row = self.tables.egresses().get(name)?;
        row.items.get(usize::try_from(position).ok()?).cloned()
    }

    fn set_item(&mut self, name: &Name, position: u32, item: EgressItemRow, stamp: Stamp) {
        let Some(mut row) = self.tables.egresses().get(name).cloned() else { return };
        if let Some(slot) = usize::try_from(position).ok().and_then(|at| row.items.get_mut(at)) {
            *slot = item;
        }
        row.stamp = stamp;
        self.tables.put_egress(name.clone(), row);
    }

    /// Takes an Egress's address from its Node and frees it.
    fn free_item(&mut self, address: IpAddr) {
        self.unplace(address, MoveReason::AddressGone);
        self.scheduler.remove_address(address);
        self.release(address);
    }

    /// The items that name a pool, in the order of addresses.
    pub(super) fn egress_items_of(&self, pool: &PoolId) -> Vec<(Name, u32)> {
        if pool.kind != PoolKind::ExternalIpPool {
            return Vec::new();
        }
        let mut items = Vec::new();
        for name in self.egresses_naming.get(&pool.name).into_iter().flatten() {
            let Some(row) = self.tables.egresses().get(name) else { continue };
            let named = (0u32..).zip(&row.items).filter(|(_, item)| item.pool.as_ref() == Some(&pool.name));
            items.extend(named.map(|(position, _)| (row.created.clone(), position)));
        }
        items.sort();
        items.into_iter().map(|(created, position)| (created.name, position)).collect()
    }

    /// Frees what these items have outside the pool's ranges, ascending; those that lost something.
    pub(super) fn free_egress_addresses(&mut self, pool: &PoolId, items: Vec<(Name, u32)>) -> Vec<(Name, u32)> {
        let held = |(name, position): &(Name, u32)| self.item(name, *position).and_then(|item| item.granted());
        let outside: Vec<((Name, u32), IpAddr)> = items
            .into_iter()
            .filter_map(|item| held(&item).map(|address| (item, address)))
            .filter(|(_, address)| !self.is_live(pool, *address))
            .collect();
        let mut addresses: Vec<IpAddr> = outside.iter().map(|(_, address)| *address).collect();
        addresses.sort_unstable();
        let lost: Vec<(Name, u32)> = outside.into_iter().map(|(item, _)| item).collect();
        for address in addresses {
            self.free_item(address);
        }
        for (name, position) in &lost {
            self.forget_chosen(name, *position);
        }
        lost
    }

    /// Serves items that lost what they had.
    pub(super) fn serve_items(&mut self, items: Vec<(Name, u32)>) {
        for (name, position) in items {
            self.serve_item(&name, position, None, &mut Outcome::default());
        }
    }

    /// A pool is gone: Egresses lose what they have of it, and wait for it.
    pub(super) fn drop_egress_addresses(&mut self, pool: &PoolId) {
        for (name, position) in self.egress_items_of(pool) {
            if let Some(address) = self.item(&name, position).and_then(|item| item.granted()) {
                self.free_item(address);
                self.forget_chosen(&name, position);
            }
            self.set_item_waiting(&name, position, Waiting::UnknownPool { pools: vec![pool.clone()] });
        }
    }

    fn forget_chosen(&mut self, name: &Name, position: u32) {
        if let Some(item) = self.item(name, position) {
            let stamp = self.tables.egresses().get(name).map(|row| row.stamp).unwrap_or_default();
            self.set_item(name, position, EgressItemRow { chosen: None, ..item }, stamp);
        }
    }

    pub(super) fn delete_egress(&mut self, source: &Source, delete: &DeleteEgress) -> Result<Outcome, Rejection> {
        let Some(row) = self.tables.egresses().get(&delete.name) else { return Ok(not_held(None, None)) };
        same_source("Egress", &delete.name, &row.source, source)?;
        if row.uid != delete.uid {
            return Ok(not_held(Some(row.uid.clone()), Some(row.stamp.revision)));
        }
        self.remove_egress(&delete.name);
        Ok(Outcome::default())
    }

    fn remove_egress(&mut self, name: &Name) {
        self.emit(Event::Deleted(ObjectId::Egress(name.clone())));
        let Some(row) = self.tables.remove_egress(name) else { return };
        self.name_external_pools(name, &row.items, &[]);
        for item in &row.items {
            if let Some((since, _)) = &item.waiting {
                self.waiters.remove(*since);
            }
            if let Some(address) = item.granted() {
                self.free_item(address);
            }
        }
    }
}
