//! Settling a reservation: section 4, steps 1 to 5.

use std::collections::BTreeMap;
use std::net::IpAddr;

use holdfast_statemachine::address::offset;
use holdfast_statemachine::command::{Contiguity, ObjectId, ReserveSpec, Retention, StatefulSetId};
use holdfast_statemachine::row::Holder;
use holdfast_statemachine::{Event, Family, PoolId, Waiting};

use super::Model;
use super::reservation::rule;
use super::search::{Wanted, ip_pool};

/// What steps 2 and 3 came to.
struct Served {
    /// Needs that were met.
    count: usize,
    /// What is to be recorded; nothing but `FixedAddressMissing` if all needs were met.
    waiting: Vec<Waiting>,
}

fn holder(id: &StatefulSetId, ordinal: u32, former: bool) -> Holder {
    Holder::Ordinal { id: id.clone(), ordinal, former }
}

/// The addresses fixed for a family, the i-th for the i-th wanted ordinal.
fn fixed(spec: &ReserveSpec, family: Family) -> Vec<IpAddr> {
    spec.fixed.iter().copied().filter(|address| Family::of(*address) == family).collect()
}

impl Model {
    /// Settles. `before`: each ordinal's rule before the command, if the command may have changed it.
    pub(super) fn settle(&mut self, id: &StatefulSetId, before: Option<&BTreeMap<u32, Retention>>) {
        if self.reservations.get(id).is_none_or(|row| row.spec.is_none()) {
            return;
        }
        self.adopt_former(id);
        let served = self.serve(id);
        self.free_former(id);
        self.free_ordinals(id, before, None);
        self.record_waiting(id, served.waiting);
        self.forget_if_empty(id);
    }

    /// What a release leaves of it: steps 4 and 5.
    pub(super) fn settle_released(&mut self, id: &StatefulSetId, before: &BTreeMap<u32, Retention>) {
        self.free_former(id);
        self.free_ordinals(id, Some(before), None);
        self.forget_if_empty(id);
    }

    /// What a bind or an unbind changes: step 4 for this ordinal, and the end of the reservation.
    pub(super) fn settle_ordinal(&mut self, id: &StatefulSetId, ordinal: u32) {
        self.free_former(id);
        self.free_ordinals(id, None, Some(ordinal));
        self.forget_if_empty(id);
    }

    /// Meets a waiting reservation, if it can be met now.
    pub(super) fn meet_reservation(&mut self, id: &StatefulSetId) -> bool {
        let mut trial = self.clone();
        trial.adopt_former(id);
        let served = trial.serve(id);
        let is_missing = |waiting: &Waiting| matches!(waiting, Waiting::FixedAddressMissing { .. });
        let waits_for_else = self.reservations[id].waiting.iter().any(|(_, waiting)| !waiting.iter().all(is_missing));
        let met = served.waiting.iter().all(is_missing) && (waits_for_else || served.count > 0);
        if met {
            self.settle(id, None);
        }
        met
    }

    fn spec(&self, id: &StatefulSetId) -> Option<ReserveSpec> {
        self.reservations[id].spec.clone()
    }

    fn is_right(&self, spec: &ReserveSpec, ordinal: u32, address: IpAddr) -> bool {
        let pool = &self.grants[&address].pool;
        let named = spec.pools.iter().any(|name| ip_pool(name) == *pool);
        let fixed = fixed(spec, Family::of(address));
        let place = ordinal.wrapping_sub(spec.start) as usize;
        let as_fixed = fixed.is_empty() || !Model::is_wanted(Some(spec), ordinal) || fixed.get(place) == Some(&address);
        named && self.gives(pool, address) && as_fixed
    }

    /// Step 1.
    fn adopt_former(&mut self, id: &StatefulSetId) {
        let Some(spec) = self.spec(id) else { return };
        for ordinal in self.known_ordinals(id) {
            for family in Family::ALL {
                let current = self.current(id, ordinal, family);
                if current.is_some_and(|address| self.is_right(&spec, ordinal, address)) {
                    continue;
                }
                let former = self.former(id, ordinal, family);
                if let Some(right) = former.into_iter().find(|address| self.is_right(&spec, ordinal, *address)) {
                    if let Some(current) = current {
                        self.transfer(current, &holder(id, ordinal, true));
                    }
                    self.transfer(right, &holder(id, ordinal, false));
                }
            }
        }
    }

    /// Steps 2 and 3.
    fn serve(&mut self, id: &StatefulSetId) -> Served {
        let nothing = Served { count: 0, waiting: Vec::new() };
        let Some(spec) = self.spec(id).filter(|spec| !spec.pools.is_empty()) else { return nothing };
        let named: Vec<PoolId> = spec.pools.iter().map(ip_pool).collect();
        let unknown: Vec<PoolId> = named.iter().filter(|pool| !self.pools.contains_key(*pool)).cloned().collect();
        if !unknown.is_empty() {
            return Served { count: 0, waiting: vec![Waiting::UnknownPool { pools: unknown }] };
        }
        let families: Vec<Family> =
            Family::ALL.into_iter().filter(|family| named.iter().any(|pool| self.family(pool) == *family)).collect();
        let wanted: Vec<u32> = (spec.start..spec.start + spec.replicas).collect();
        let mut served = wanted.len();
        let mut missing = Vec::new();
        for family in &families {
            let listed = fixed(&spec, *family).len();
            if listed > 0 && listed < wanted.len() {
                served = served.min(listed);
                let count = u32::try_from(wanted.len() - listed).expect("no more than replicas");
                missing.push(Waiting::FixedAddressMissing { family: *family, first_ordinal: wanted[listed], count });
            }
        }
        let mut plan = Vec::new();
        let mut waiting = Vec::new();
        let needed = |family: &Family| wanted[..served].iter().any(|ordinal| self.needs(id, &spec, *ordinal, *family));
        if self.adopting() && families.iter().any(needed) {
            waiting.push(Waiting::NotAdopted);
        }
        for family in families.iter().copied().filter(|_| !self.adopting()) {
            let needs: Vec<u32> =
                wanted[..served].iter().copied().filter(|o| self.needs(id, &spec, *o, family)).collect();
            let pools: Vec<PoolId> = named.iter().filter(|pool| self.family(pool) == family).cloned().collect();
            match self.find(id, &spec, family, &pools, &needs) {
                Ok(found) => plan.extend(needs.into_iter().zip(found)),
                Err(why) => waiting.push(why),
            }
        }
        if let Some(address) = spec.fixed.iter().copied().find(|address| !families.contains(&Family::of(*address)))
            && !wanted.is_empty()
        {
            waiting.push(Waiting::AddressOutside { address, pools: Vec::new() });
        }
        let mut count = 0;
        if waiting.is_empty() {
            count = plan.len();
            self.grant_plan(id, plan);
        }
        waiting.extend(missing);
        Served { count, waiting }
    }

    fn grant_plan(&mut self, id: &StatefulSetId, plan: Vec<(u32, (PoolId, IpAddr))>) {
        let addresses: Vec<IpAddr> = plan.iter().map(|(_, (_, address))| *address).collect();
        self.judge(&addresses, &holder(id, 0, false));
        for (ordinal, (pool, address)) in plan {
            if let Some(current) = self.current(id, ordinal, Family::of(address)) {
                self.transfer(current, &holder(id, ordinal, true));
            }
            self.take(address, &pool, &holder(id, ordinal, false));
        }
    }

    fn needs(&self, id: &StatefulSetId, spec: &ReserveSpec, ordinal: u32, family: Family) -> bool {
        !self.current(id, ordinal, family).is_some_and(|address| self.is_right(spec, ordinal, address))
    }

    fn find(
        &self,
        id: &StatefulSetId,
        spec: &ReserveSpec,
        family: Family,
        pools: &[PoolId],
        needs: &[u32],
    ) -> Result<Vec<(PoolId, IpAddr)>, Waiting> {
        if needs.is_empty() {
            return Ok(Vec::new());
        }
        let fixed = fixed(spec, family);
        if !fixed.is_empty() {
            return self.find_fixed(spec, &fixed, pools, needs);
        }
        let owner = holder(id, 0, false);
        let mut right = self.current_addresses(id, family);
        right.retain(|(ordinal, address)| self.is_right(spec, *ordinal, *address));
        if let Some(found) = self.find_behind(&right, needs, &owner) {
            return Ok(found);
        }
        let mut order = pools.to_vec();
        if let Some((_, address)) = right.last() {
            let own = self.grants[address].pool.clone();
            order.retain(|pool| *pool != own);
            order.insert(0, own);
        }
        let wanted = Wanted {
            owner: &owner,
            count: needs.len(),
            headroom: spec.headroom as usize,
            block_required: spec.contiguity == Contiguity::Required,
        };
        self.search(&wanted, &order).ok_or_else(|| {
            let tried: Vec<_> = pools.iter().map(|pool| self.room(pool, needs.len())).collect();
            if tried.iter().any(|room| room.free >= room.needed) {
                Waiting::NoBlock { family, tried }
            } else {
                Waiting::Exhausted { family, tried }
            }
        })
    }

    fn find_fixed(
        &self,
        spec: &ReserveSpec,
        fixed: &[IpAddr],
        pools: &[PoolId],
        needs: &[u32],
    ) -> Result<Vec<(PoolId, IpAddr)>, Waiting> {
        let mut found = Vec::new();
        for ordinal in needs {
            let address = fixed[(ordinal - spec.start) as usize];
            let Some(pool) = pools.iter().find(|pool| self.gives(pool, address)) else {
                return Err(Waiting::AddressOutside { address, pools: pools.to_vec() });
            };
            if let Some(row) = self.grants.get(&address) {
                return Err(Waiting::AddressHeld { address, by: row.holder.clone() });
            }
            found.push((pool.clone(), address));
        }
        Ok(found)
    }

    /// Growth: the addresses right behind the block, if the needs are the ordinals right after it.
    fn find_behind(&self, right: &[(u32, IpAddr)], needs: &[u32], owner: &Holder) -> Option<Vec<(PoolId, IpAddr)>> {
        let (pool, range) = self.one_block(right)?;
        let (highest, last) = *right.last()?;
        let mut found = Vec::new();
        for (i, ordinal) in (1_u32..).zip(needs) {
            let address = offset(last, u128::from(i)).filter(|address| range.contains(*address))?;
            if u64::from(*ordinal) != u64::from(highest) + u64::from(i) || !self.open_to(address, owner) {
                return None;
            }
            found.push((pool.clone(), address));
        }
        Some(found)
    }

    /// Step 4 (a).
    fn free_former(&mut self, id: &StatefulSetId) {
        let spec = self.spec(id);
        if spec.is_some_and(|spec| !spec.settled && !spec.pools.is_empty()) {
            return;
        }
        let ordinals = self.known_ordinals(id);
        let mut in_use = Vec::new();
        for ordinal in &ordinals {
            for family in Family::ALL {
                let used = self.pod_uses(id, *ordinal, family).filter(|address| self.is_former(*address));
                in_use.extend(used.map(|address| (family, self.grants[&address].pool.clone())));
            }
        }
        let mut gone: Vec<IpAddr> = Vec::new();
        for ordinal in ordinals {
            for family in Family::ALL {
                gone.extend(self.former(id, ordinal, family));
            }
        }
        gone.retain(|address| !in_use.contains(&(Family::of(*address), self.grants[address].pool.clone())));
        gone.sort_unstable();
        for address in gone {
            self.free(address, true);
        }
    }

    /// Step 4 (b) to (d).
    fn free_ordinals(&mut self, id: &StatefulSetId, before: Option<&BTreeMap<u32, Retention>>, only: Option<u32>) {
        let row = self.reservations[id].clone();
        let wants_nothing = row.spec.as_ref().is_some_and(|spec| spec.pools.is_empty());
        for ordinal in self.known_ordinals(id).into_iter().filter(|ordinal| only.is_none_or(|only| only == *ordinal)) {
            let wanted = Model::is_wanted(row.spec.as_ref(), ordinal);
            let key = (id.clone(), ordinal);
            if let Some(found) = self.ordinals.get_mut(&key).filter(|_| wanted) {
                found.left = None;
            }
            let found = self.ordinals.get(&key);
            let left = found.and_then(|found| found.left);
            if wanted || self.is_bound(id, ordinal) {
                self.retain_until(id, ordinal, None);
            } else if found.is_none() || wants_nothing && left.is_none() {
                self.free_ordinal(id, ordinal);
            } else {
                let rule = left.unwrap_or(rule(self.mode(), &row));
                match rule {
                    Retention::Release | Retention::After(0) => self.free_ordinal(id, ordinal),
                    Retention::Retain => self.retain_until(id, ordinal, None),
                    Retention::After(duration) => {
                        let runs = self.ordinals[&key].retained_until.is_some();
                        if !runs || before.is_some_and(|before| before[&ordinal] != rule) {
                            self.retain_until(id, ordinal, Some(self.time().saturating_add(duration)));
                        }
                    }
                }
            }
        }
    }

    fn retain_until(&mut self, id: &StatefulSetId, ordinal: u32, until: Option<u64>) {
        let Some(row) = self.ordinals.get_mut(&(id.clone(), ordinal)) else { return };
        if row.retained_until != until {
            row.retained_until = until;
            self.emit(Event::Retained { id: id.clone(), ordinal, until });
        }
    }

    pub(super) fn free_ordinal(&mut self, id: &StatefulSetId, ordinal: u32) {
        for address in self.addresses_of(id, ordinal) {
            self.free(address, true);
        }
        self.ordinals.remove(&(id.clone(), ordinal));
    }

    /// Step 5: what is recorded as waited for.
    fn record_waiting(&mut self, id: &StatefulSetId, waiting: Vec<Waiting>) {
        let next = self.clock.revision + 1;
        let row = self.reservations.get_mut(id).expect("it is there");
        let object = ObjectId::Reservation(id.clone());
        let recorded = row.waiting.clone();
        if waiting.is_empty() {
            row.waiting = None;
            if recorded.is_some() {
                self.emit(Event::Met { object, item: None });
            }
        } else if recorded.as_ref().map(|(_, recorded)| recorded) != Some(&waiting) {
            row.waiting = Some((recorded.map_or(next, |(since, _)| since), waiting.clone()));
            self.emit(Event::Waits { object, item: None, waiting });
        }
    }

    /// Step 5: a reservation of which nothing is left goes.
    pub(super) fn forget_if_empty(&mut self, id: &StatefulSetId) {
        let empty = self.reservations.get(id).is_some_and(|row| row.spec.is_none());
        if empty && self.known_ordinals(id).is_empty() {
            self.reservations.remove(id);
        }
    }
}
