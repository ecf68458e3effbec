//! What a reservation needs, and what it would be given now. Decides; changes nothing.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::Ledger;
use super::holding::{Block, Holdings, OwnerKey, block};
use super::search::Ask;
use crate::Family;
use crate::address::offset;
use crate::command::{ReserveSpec, StatefulSetId};
use crate::outcome::Waiting;
use crate::row::{Holder, PoolId, PoolKind};

/// What settling a reservation would do.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// Former addresses that become current again, in place of the current one if there is one.
    pub(super) restored: Vec<(u32, IpAddr)>,
    /// New current addresses; what was current becomes former.
    pub(super) given: Vec<(u32, PoolId, IpAddr)>,
    /// What it waits for after that.
    pub(super) waiting: Vec<Waiting>,
}

/// What a waiting reservation needs of one family, and where it may come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needed {
    /// The family.
    pub family: Family,
    /// Ordinals without an address, ascending.
    pub ordinals: Vec<u32>,
    /// The pools named of that family, in order.
    pub pools: Vec<PoolId>,
    /// The fixed address of each of those ordinals; empty if the family has none.
    pub fixed: Vec<IpAddr>,
}

/// The IPPools that a spec names.
pub(super) fn named(spec: &ReserveSpec) -> Vec<PoolId> {
    spec.pools.iter().map(|name| PoolId { kind: PoolKind::IpPool, name: name.clone() }).collect()
}

pub(super) fn wanted(spec: &ReserveSpec) -> std::ops::Range<u32> {
    if spec.pools.is_empty() { 0..0 } else { spec.start..spec.start.saturating_add(spec.replicas) }
}

fn fixed_of(spec: &ReserveSpec, family: Family) -> Vec<IpAddr> {
    spec.fixed.iter().copied().filter(|address| Family::of(*address) == family).collect()
}

/// One family of one reservation, while it is planned.
struct FamilyPlan<'a> {
    spec: &'a ReserveSpec,
    family: Family,
    pools: Vec<PoolId>,
    fixed: Vec<IpAddr>,
    /// As it would be after what is restored.
    current: BTreeMap<u32, IpAddr>,
}

impl FamilyPlan<'_> {
    fn fixed_for(&self, ordinal: u32) -> Option<IpAddr> {
        let index = usize::try_from(ordinal.checked_sub(self.spec.start)?).ok()?;
        self.fixed.get(index).copied()
    }
}

impl Ledger {
    /// What the reservation would be given now, and what it would wait for.
    pub(super) fn plan(&mut self, id: &StatefulSetId, spec: &ReserveSpec) -> Plan {
        let mut plan = Plan::default();
        if spec.pools.is_empty() {
            return plan;
        }
        let mut families = self.family_plans(id, spec, &mut plan);
        plan.restored.sort_by_key(|(ordinal, address)| (*ordinal, Family::of(*address)));
        let unknown: Vec<PoolId> =
            named(spec).into_iter().filter(|pool| !self.tables.pools().contains_key(pool)).collect();
        if !unknown.is_empty() {
            plan.waiting.push(Waiting::UnknownPool { pools: unknown });
            return plan;
        }
        let (served, missing) = Self::served(spec, &families);
        if self.adopting() {
            let needs = families.iter().any(|family| !self.needs(family, &served).is_empty());
            plan.waiting.extend(needs.then_some(Waiting::NotAdopted));
            plan.waiting.extend(Self::fixed_without_pool(spec, &families));
            plan.waiting.extend(missing);
            return plan;
        }
        for family in &mut families {
            let needs = self.needs(family, &served);
            match self.serve(id, family, &needs) {
                Ok(given) => plan.given.extend(given),
                Err(waiting) => plan.waiting.push(waiting),
            }
        }
        plan.waiting.extend(Self::fixed_without_pool(spec, &families));
        if !plan.waiting.is_empty() {
            plan.given.clear();
        }
        plan.waiting.extend(missing);
        plan
    }

    /// What is needed and not there: for explanations and for the index of those who wait.
    pub(super) fn needed(&self, id: &StatefulSetId, spec: &ReserveSpec) -> Vec<Needed> {
        let mut restored = Plan::default();
        let families = self.family_plans(id, spec, &mut restored);
        let (served, _) = Self::served(spec, &families);
        let need = |family: FamilyPlan<'_>| {
            let ordinals = self.needs(&family, &served);
            let fixed = ordinals.iter().filter_map(|ordinal| family.fixed_for(*ordinal)).collect();
            Needed { family: family.family, ordinals, pools: family.pools, fixed }
        };
        families.into_iter().map(need).filter(|needed| !needed.ordinals.is_empty()).collect()
    }

    /// The families named, with former addresses that are right put in the place of current ones that are not.
    fn family_plans<'a>(&self, id: &StatefulSetId, spec: &'a ReserveSpec, plan: &mut Plan) -> Vec<FamilyPlan<'a>> {
        let empty = Holdings::default();
        let holdings = self.holdings.get(id).unwrap_or(&empty);
        let mut families = Vec::new();
        for family in Family::ALL {
            let of_family = |pool: &PoolId| self.family_of(pool) == Some(family);
            let pools: Vec<PoolId> = named(spec).into_iter().filter(of_family).collect();
            if pools.is_empty() {
                continue;
            }
            let current = holdings.current[family as usize].clone();
            let mut part = FamilyPlan { spec, family, pools, fixed: fixed_of(spec, family), current };
            for (ordinal, addresses) in &holdings.former[family as usize] {
                let standing = part.current.get(ordinal).copied();
                if standing.is_some_and(|address| self.is_right(&part, *ordinal, address)) {
                    continue;
                }
                if let Some(address) = addresses.iter().find(|address| self.is_right(&part, *ordinal, **address)) {
                    plan.restored.push((*ordinal, *address));
                    part.current.insert(*ordinal, *address);
                }
            }
            families.push(part);
        }
        families
    }

    /// Whether an address may stay: of a pool still named and in force, and the fixed one where there is one.
    fn is_right(&self, part: &FamilyPlan<'_>, ordinal: u32, address: IpAddr) -> bool {
        let held_of = self.tables.grants().get(&address).map(|grant| &grant.pool);
        let stays = held_of.is_some_and(|pool| part.pools.contains(pool) && self.is_live(pool, address));
        let bound_to = !part.fixed.is_empty() && wanted(part.spec).contains(&ordinal);
        stays && (!bound_to || part.fixed_for(ordinal) == Some(address))
    }

    /// The wanted ordinals that can be served, and what is missing for the others.
    fn served(spec: &ReserveSpec, families: &[FamilyPlan<'_>]) -> (std::ops::Range<u32>, Vec<Waiting>) {
        let wanted = wanted(spec);
        let mut end = wanted.end;
        let mut missing = Vec::new();
        for part in families.iter().filter(|part| !part.fixed.is_empty()) {
            let listed = u32::try_from(part.fixed.len()).unwrap_or(u32::MAX);
            let first_ordinal = spec.start.saturating_add(listed);
            if first_ordinal < wanted.end {
                let count = wanted.end - first_ordinal;
                missing.push(Waiting::FixedAddressMissing { family: part.family, first_ordinal, count });
                end = end.min(first_ordinal);
            }
        }
        (wanted.start..end, missing)
    }

    fn needs(&self, part: &FamilyPlan<'_>, served: &std::ops::Range<u32>) -> Vec<u32> {
        let right =
            |ordinal: &u32| part.current.get(ordinal).is_some_and(|address| self.is_right(part, *ordinal, *address));
        served.clone().filter(|ordinal| !right(ordinal)).collect()
    }

    /// A fixed address of a family that no pool named is of.
    fn fixed_without_pool(spec: &ReserveSpec, families: &[FamilyPlan<'_>]) -> Option<Waiting> {
        let has_pool = |address: &&IpAddr| families.iter().any(|part| part.family == Family::of(**address));
        let address = *spec.fixed.iter().find(|address| !has_pool(address))?;
        (spec.replicas > 0).then(|| Waiting::AddressOutside { address, pools: Vec::new() })
    }

    fn serve(
        &mut self,
        id: &StatefulSetId,
        part: &FamilyPlan<'_>,
        needs: &[u32],
    ) -> Result<Vec<(u32, PoolId, IpAddr)>, Waiting> {
        if needs.is_empty() {
            return Ok(Vec::new());
        }
        if !part.fixed.is_empty() {
            return self.serve_fixed(part, needs);
        }
        let right: BTreeMap<u32, IpAddr> = part
            .current
            .iter()
            .filter(|(ordinal, address)| self.is_right(part, **ordinal, **address))
            .map(|(ordinal, address)| (*ordinal, *address))
            .collect();
        if let Some(given) = self.behind_block(id, &right, needs) {
            return Ok(given);
        }
        let mut pools = part.pools.clone();
        if let Some((_, last)) = right.last_key_value()
            && let Some(at) = pools.iter().position(|pool| self.is_live(pool, *last))
        {
            let pool = pools.remove(at);
            pools.insert(0, pool);
        }
        let count = u32::try_from(needs.len()).unwrap_or(u32::MAX);
        let ask = Ask {
            owner: &OwnerKey::Reservation(id.clone()),
            pools: &pools,
            count,
            headroom: part.spec.headroom,
            contiguity: part.spec.contiguity,
        };
        match self.search(&ask) {
            Some((pool, addresses)) => {
                Ok(needs.iter().zip(addresses).map(|(ordinal, address)| (*ordinal, pool.clone(), address)).collect())
            }
            None => Err(self.no_room(part.family, &part.pools, count)),
        }
    }

    fn serve_fixed(&self, part: &FamilyPlan<'_>, needs: &[u32]) -> Result<Vec<(u32, PoolId, IpAddr)>, Waiting> {
        let mut given = Vec::new();
        for ordinal in needs {
            // Ordinals beyond the list are not among those served.
            let Some(address) = part.fixed_for(*ordinal) else { continue };
            let Some(pool) = self.pool_giving(&part.pools, address) else {
                return Err(Waiting::AddressOutside { address, pools: part.pools.clone() });
            };
            if let Some(grant) = self.tables.grants().get(&address) {
                return Err(Waiting::AddressHeld { address, by: grant.holder.clone() });
            }
            given.push((*ordinal, pool.clone(), address));
        }
        Ok(given)
    }

    /// The addresses right behind the block, if the needs are the ordinals right after it and all are open to it.
    fn behind_block(
        &mut self,
        id: &StatefulSetId,
        right: &BTreeMap<u32, IpAddr>,
        needs: &[u32],
    ) -> Option<Vec<(u32, PoolId, IpAddr)>> {
        let (first, Block { last_ordinal, last }) = block(right)?;
        let in_step = needs.iter().zip(1u32..).all(|(ordinal, n)| Some(*ordinal) == last_ordinal.checked_add(n));
        if !in_step {
            return None;
        }
        self.refresh_headroom();
        let pool = self.tables.grants().get(&first)?.pool.clone();
        let space = self.spaces.get(&pool)?;
        let range = space.range_of(first).filter(|range| range.contains(last))?;
        let mut given = Vec::new();
        for (ordinal, n) in needs.iter().zip(1u128..) {
            let address = offset(last, n).filter(|address| range.contains(*address))?;
            let open = space.is_free(address)
                && (!space.is_cooling(address) || self.cooled_for(id, address))
                && (!space.is_headroom(address) || self.is_headroom_of(id, address));
            if !open {
                return None;
            }
            given.push((*ordinal, pool.clone(), address));
        }
        Some(given)
    }

    fn cooled_for(&self, id: &StatefulSetId, address: IpAddr) -> bool {
        let former = self.tables.cooling().get(&address).map(|row| &row.former);
        matches!(former, Some(Holder::Ordinal { id: other, .. }) if other == id)
    }

    fn is_headroom_of(&self, id: &StatefulSetId, address: IpAddr) -> bool {
        let key = (id.clone(), Family::of(address));
        self.headroom.get(&key).is_some_and(|range| range.contains(address))
    }
}
