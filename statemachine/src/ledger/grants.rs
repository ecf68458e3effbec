//! Grants to owners other than reservations and Egresses: machines, people, Pods without an ordinal.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::holding::OwnerKey;
use super::reservations::not_held;
use super::search::Ask;
use super::{Ledger, malformed, same_source};
use crate::command::{Contiguity, Grant, Owner, OwnerRef, PodOwner, ReleaseGrant, Source};
use crate::outcome::{Granted, Outcome, Rejection};
use crate::row::{GrantRow, Holder, PodRef, PoolId};
use crate::{Family, Name};

/// Longest name of an owner, in bytes.
const MAX_OWNER: usize = 512;

pub(super) fn owner_text(owner: &Owner) -> String {
    match owner {
        Owner::Named { name, .. } => name.to_string(),
        Owner::Pod(pod) => format!("{}/{}", pod.namespace, pod.name),
    }
}

pub(super) fn check_owner(owner: &Owner) -> Result<(), Rejection> {
    match owner {
        Owner::Named { name, .. } if name.is_empty() || name.len() > MAX_OWNER => {
            Err(malformed("owner.name", name, "1 to 512 bytes"))
        }
        Owner::Named { .. } => Ok(()),
        Owner::Pod(pod) => check_pod(pod),
    }
}

pub(super) fn check_pod(pod: &PodOwner) -> Result<(), Rejection> {
    if pod.uid.is_empty() { Err(malformed("owner.pod.uid", "", "the Pod's UID")) } else { Ok(()) }
}

fn check_grant(grant: &Grant) -> Result<(), Rejection> {
    check_owner(&grant.owner)?;
    if let Owner::Pod(PodOwner { ordinal: Some(_), .. }) = grant.owner {
        return Ok(());
    }
    if grant.pools.is_empty() {
        return Err(malformed("pools", "", "at least one pool"));
    }
    for family in Family::ALL {
        let asked: Vec<String> =
            grant.addresses.iter().filter(|a| Family::of(**a) == family).map(IpAddr::to_string).collect();
        if asked.len() > 1 {
            return Err(malformed("addresses", &asked.join(","), "at most one address of each family"));
        }
    }
    Ok(())
}

pub(super) fn holder(owner: &Owner, source: &Source) -> Holder {
    match owner {
        Owner::Named { name, uid } => Holder::Named { name: name.clone(), uid: uid.clone(), source: source.clone() },
        Owner::Pod(pod) => Holder::Pod {
            pod: PodRef {
                namespace: pod.namespace.clone(),
                name: pod.name.clone(),
                uid: pod.uid.clone(),
                container_id: pod.container_id.clone(),
                interface: pod.interface.clone(),
            },
            source: source.clone(),
        },
    }
}

/// The UID and the source in a holder that has them.
fn identity(holder: &Holder) -> Option<(&Name, &Source)> {
    match holder {
        Holder::Named { uid, source, .. } => Some((uid, source)),
        Holder::Pod { pod, source } => Some((&pod.uid, source)),
        Holder::Ordinal { .. } | Holder::Egress { .. } | Holder::Observed { .. } => None,
    }
}

/// Whether both are one owner: of one name and one UID.
pub(super) fn same(a: &Holder, b: &Holder) -> bool {
    OwnerKey::of(a) == OwnerKey::of(b) && identity(a).is_some() && identity(a).unzip().0 == identity(b).unzip().0
}

impl Ledger {
    pub(super) fn grant_to_owner(&mut self, source: &Source, grant: &Grant) -> Result<Outcome, Rejection> {
        check_grant(grant)?;
        if let Owner::Pod(pod) = &grant.owner {
            if let Some((id, ordinal)) = self.bound_by_uid.get(&pod.uid).cloned() {
                return Ok(self.used_outcome(&id, ordinal));
            }
            if let Some((id, ordinal)) = &pod.ordinal {
                return Ok(self.bind(source, pod, id, *ordinal, &grant.pools));
            }
        }
        let pools: Vec<PoolId> =
            grant.pools.iter().map(|name| PoolId { kind: grant.kind, name: name.clone() }).collect();
        if let Some(missing) = pools.iter().find(|pool| !self.tables.pools().contains_key(*pool)) {
            let kind = super::pools::kind_name(missing.kind);
            return Err(Rejection::Unknown { kind: kind.into(), name: missing.name.clone() });
        }
        let new = holder(&grant.owner, source);
        let held = self.held_by(&OwnerKey::of(&new));
        if held.is_empty() {
            return self.grant_new(&new, &pools, &grant.addresses);
        }
        let same_uid = identity(&held[0].1.holder).map(|(uid, _)| uid) == identity(&new).map(|(uid, _)| uid);
        if !same_uid && matches!(grant.owner, Owner::Pod(_)) {
            return self.replace_pod(&new, &held, &pools, &grant.addresses);
        }
        self.still_fits(&held, &pools, &grant.addresses)?;
        if same_uid {
            return Ok(granted(&held));
        }
        for (address, _) in &held {
            self.transfer(*address, new.clone());
        }
        Ok(granted(&self.held_by(&OwnerKey::of(&new))))
    }

    /// What an owner holds, ascending.
    pub(super) fn held_by(&self, owner: &OwnerKey) -> Vec<(IpAddr, GrantRow)> {
        let addresses = self.owned.get(owner).into_iter().flatten();
        let row = |address: &IpAddr| self.tables.grants().get(address).map(|row| (*address, row.clone()));
        addresses.filter_map(row).collect()
    }

    /// Whether what an owner holds is what is asked for.
    pub(super) fn still_fits(
        &self,
        held: &[(IpAddr, GrantRow)],
        pools: &[PoolId],
        asked: &[IpAddr],
    ) -> Result<(), Rejection> {
        let fits = |(address, row): &(IpAddr, GrantRow)| {
            let by_name = asked.iter().find(|other| Family::of(**other) == Family::of(*address));
            pools.contains(&row.pool)
                && self.is_live(&row.pool, *address)
                && by_name.is_none_or(|other| other == address)
        };
        // Of several of one family, as only adoption gives them, one that fits is enough.
        let fitting: BTreeSet<Family> =
            held.iter().filter(|one| fits(one)).map(|(address, _)| Family::of(*address)).collect();
        let wrong = held.iter().find(|(address, _)| !fitting.contains(&Family::of(*address)));
        let missing = pools.iter().any(|pool| {
            let family = self.family_of(pool);
            !held.iter().any(|(address, _)| Some(Family::of(*address)) == family)
        });
        match (wrong.or(held.first().filter(|_| missing)), wrong.is_some() || missing) {
            (Some((address, row)), true) => {
                Err(Rejection::OwnerHolds { owner: row.holder.clone(), address: *address, pool: row.pool.clone() })
            }
            _ => Ok(()),
        }
    }

    /// A Pod of the same name was there before: its addresses are freed, and the grant is new, or nothing happens.
    fn replace_pod(
        &mut self,
        new: &Holder,
        held: &[(IpAddr, GrantRow)],
        pools: &[PoolId],
        asked: &[IpAddr],
    ) -> Result<Outcome, Rejection> {
        self.check_replacement(held, pools, asked)?;
        self.release_all(held);
        self.grant_new(new, pools, asked)
    }

    /// Whether a grant could be met once these addresses are free.
    fn check_replacement(
        &self,
        held: &[(IpAddr, GrantRow)],
        pools: &[PoolId],
        asked: &[IpAddr],
    ) -> Result<(), Rejection> {
        let ours = |address: IpAddr| held.iter().any(|(held, _)| *held == address);
        for family in Family::ALL {
            let of_family = self.of_family(pools, family);
            let by_name = asked.iter().find(|address| Family::of(**address) == family);
            if let Some(address) = by_name {
                let giving = if of_family.is_empty() { pools } else { &of_family };
                if !ours(*address) || self.pool_giving(giving, *address).is_none() {
                    self.asked_for(giving, *address)?;
                }
            } else if !of_family.is_empty() {
                let open = self.rooms(&of_family, 1).iter().any(|room| room.free > 0);
                let freed = held.iter().any(|(address, _)| self.pool_giving(&of_family, *address).is_some());
                if !open && !freed {
                    return Err(self.exhausted(&of_family));
                }
            }
        }
        Ok(())
    }

    fn of_family(&self, pools: &[PoolId], family: Family) -> Vec<PoolId> {
        pools.iter().filter(|pool| self.family_of(pool) == Some(family)).cloned().collect()
    }

    /// One address of each family named, all or none.
    fn grant_new(&mut self, new: &Holder, pools: &[PoolId], asked: &[IpAddr]) -> Result<Outcome, Rejection> {
        let owner = OwnerKey::of(new);
        let mut chosen: Vec<(PoolId, IpAddr)> = Vec::new();
        for family in Family::ALL {
            let of_family = self.of_family(pools, family);
            let by_name = asked.iter().find(|address| Family::of(**address) == family);
            if let Some(address) = by_name {
                let giving = if of_family.is_empty() { pools } else { &of_family };
                chosen.push((self.asked_for(giving, *address)?, *address));
            } else if !of_family.is_empty() {
                let contiguity = Contiguity::Preferred;
                let ask = Ask { owner: &owner, pools: &of_family, count: 1, headroom: 0, contiguity };
                let found = self.search(&ask).and_then(|(pool, addresses)| Some((pool, *addresses.first()?)));
                chosen.push(found.ok_or_else(|| self.exhausted(&of_family))?);
            }
        }
        let mut outcome = Outcome::default();
        for (pool, address) in &chosen {
            outcome.notes.extend(self.notes_on(&owner, pool, *address));
        }
        for (pool, address) in chosen {
            let stamp = self.grant(address, &pool, new.clone());
            let run = Granted { pool, first: address, count: 1, ordinal: None, revision: stamp.revision };
            outcome.granted.push(run);
        }
        Ok(outcome)
    }

    fn asked_for(&self, pools: &[PoolId], address: IpAddr) -> Result<PoolId, Rejection> {
        let Some(pool) = self.pool_giving(pools, address) else {
            return Err(Rejection::AddressOutside { address, pools: pools.to_vec() });
        };
        match self.tables.grants().get(&address) {
            Some(row) => Err(Rejection::AddressHeld { address, by: row.holder.clone() }),
            None => Ok(pool.clone()),
        }
    }

    /// Frees what a former Pod of this name, one of another UID, holds outside reservations.
    pub(super) fn free_former_pod(&mut self, namespace: &Name, name: &Name, uid: &Name) {
        for (address, row) in self.held_by(&OwnerKey::Pod(namespace.clone(), name.clone())) {
            if identity(&row.holder).is_some_and(|(held_by, _)| held_by != uid) {
                self.release(address);
            }
        }
    }

    fn exhausted(&self, pools: &[PoolId]) -> Rejection {
        match self.rooms(pools, 1).pop() {
            Some(room) => Rejection::PoolExhausted {
                pool: room.pool,
                needed: room.needed,
                free: room.free,
                largest_free_run: room.largest_free_run,
            },
            None => malformed("pools", "", "at least one pool"),
        }
    }

    pub(super) fn release_grant(&mut self, source: &Source, release: &ReleaseGrant) -> Result<Outcome, Rejection> {
        let (owner, bound) = match &release.owner {
            OwnerRef::Named(name) => (OwnerKey::Named(name.clone()), None),
            OwnerRef::Pod(namespace, name) => {
                let pod = (namespace.clone(), name.clone());
                let bound = self.bound_by_name.get(&pod).cloned();
                (OwnerKey::Pod(pod.0, pod.1), bound)
            }
        };
        let held = self.held_by(&owner);
        let outside = held.iter().any(|(_, row)| identity(&row.holder).is_some_and(|(uid, _)| *uid == release.uid));
        if let Some(key) = bound
            && let Some(row) = self.tables.ordinals().get(&key)
            && let Some(pod) = &row.pod
        {
            let right = pod.pod.uid == release.uid;
            if right || !outside {
                may_end("Pod", &release.owner, &pod.source, source)?;
            }
            if right {
                self.unbind_and_free(&key.0, key.1);
                self.release_all(&held);
                return Ok(Outcome::default());
            }
            if !outside {
                return Ok(not_held(Some(pod.pod.uid.clone()), Some(row.stamp.revision)));
            }
        }
        let Some((_, first)) = held.first() else { return Ok(not_held(None, None)) };
        let Some((uid, recorded)) = identity(&first.holder) else { return Ok(not_held(None, None)) };
        may_end("owner", &release.owner, recorded, source)?;
        let right_revision = |asked| held.iter().any(|(_, row)| row.stamp.revision == asked);
        if !outside || !release.revision.is_none_or(right_revision) {
            return Ok(not_held(Some(uid.clone()), Some(first.stamp.revision)));
        }
        self.release_all(&held);
        Ok(Outcome::default())
    }

    fn release_all(&mut self, held: &[(IpAddr, GrantRow)]) {
        for (address, _) in held {
            self.release(*address);
        }
    }
}

/// Whether this source may end what another one reported or asked for: only itself, and operators.
fn may_end(kind: &str, owner: &OwnerRef, recorded: &Source, asking: &Source) -> Result<(), Rejection> {
    if *asking == Source::Api { Ok(()) } else { same_source(kind, &super::owner_name(owner), recorded, asking) }
}

fn granted(held: &[(IpAddr, GrantRow)]) -> Outcome {
    let run = |(address, row): &(IpAddr, GrantRow)| Granted {
        pool: row.pool.clone(),
        first: *address,
        count: 1,
        ordinal: None,
        revision: row.stamp.revision,
    };
    Outcome { granted: held.iter().map(run).collect(), ..Outcome::default() }
}
