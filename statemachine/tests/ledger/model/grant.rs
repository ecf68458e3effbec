//! Grants to named owners and Pods: section 6. And `Sweep`.

use std::net::IpAddr;

use holdfast_statemachine::command::{
    DeleteEgress, DeleteNode, DeletePool, Gone, Grant, ObjectId, Owner, OwnerRef, PodOwner, ReleaseGrant,
    ReleaseReservation, Sweep,
};
use holdfast_statemachine::outcome::Note;
use holdfast_statemachine::row::{BoundPod, Holder};
use holdfast_statemachine::{Family, Name, Outcome, PoolId, PoolKind, Rejection, Revision, Source, Waiting};

use super::outcome::{kind_of, malformed, not_held};
use super::reservation::pod_ref;
use super::search::{Wanted, same_owner};
use super::{Model, Verdict};

fn holder_of(owner: &Owner, source: &Source) -> Holder {
    match owner {
        Owner::Named { name, uid } => Holder::Named { name: name.clone(), uid: uid.clone(), source: source.clone() },
        Owner::Pod(pod) => Holder::Pod { pod: pod_ref(pod), source: source.clone() },
    }
}

/// Only the source that recorded a grant or a binding, or `api`, may end it.
fn may_end(source: &Source, recorded: &Source, kind: &str, owner: &OwnerRef) -> Result<(), Rejection> {
    if source == recorded || *source == Source::Api {
        return Ok(());
    }
    let name = match owner {
        OwnerRef::Named(name) => name.clone(),
        OwnerRef::Pod(namespace, name) => format!("{namespace}/{name}").into(),
    };
    Err(Rejection::OtherSource { kind: kind.into(), name, source_of: recorded.clone() })
}

fn uid_and_source(holder: &Holder) -> (&Name, &Source) {
    match holder {
        Holder::Named { uid, source, .. } => (uid, source),
        Holder::Pod { pod, source } => (&pod.uid, source),
        _ => panic!("{holder} is no owner"),
    }
}

impl Model {
    fn held_by(&self, owner: &Holder) -> Vec<IpAddr> {
        self.grants.iter().filter(|(_, row)| same_owner(&row.holder, owner)).map(|(address, _)| *address).collect()
    }

    /// What a Pod holds outside reservations.
    pub(super) fn held_by_pod(&self, namespace: &Name, name: &Name) -> Vec<IpAddr> {
        let of = |holder: &Holder| matches!(holder, Holder::Pod { pod, .. } if pod.namespace == *namespace && pod.name == *name);
        self.grants.iter().filter(|(_, row)| of(&row.holder)).map(|(address, _)| *address).collect()
    }

    pub(super) fn grant(&mut self, source: &Source, grant: &Grant) -> Verdict {
        let of_ordinal = matches!(&grant.owner, Owner::Pod(PodOwner { ordinal: Some(_), .. }));
        if grant.pools.is_empty() && !of_ordinal {
            return Err(malformed("pools"));
        }
        for family in Family::ALL {
            if grant.addresses.iter().filter(|address| Family::of(**address) == family).count() > 1 {
                return Err(malformed("addresses"));
            }
        }
        match &grant.owner {
            Owner::Named { name, .. } if name.is_empty() => return Err(malformed("owner.name")),
            Owner::Pod(pod) if pod.uid.is_empty() => return Err(malformed("owner.uid")),
            Owner::Pod(pod) if self.bound_where(|b| b.pod.uid == pod.uid).is_some() => {
                return Ok(Outcome::default());
            }
            Owner::Pod(PodOwner { ordinal: Some((id, ordinal)), .. }) => {
                let Owner::Pod(pod) = &grant.owner else { unreachable!("it is a Pod") };
                self.bind(source, pod, id, *ordinal, &grant.pools);
                return Ok(Outcome::default());
            }
            _ => {}
        }
        self.grant_owner(&holder_of(&grant.owner, source), grant)
    }

    fn grant_owner(&mut self, owner: &Holder, grant: &Grant) -> Verdict {
        let pools: Vec<PoolId> =
            grant.pools.iter().map(|name| PoolId { kind: grant.kind, name: name.clone() }).collect();
        if let Some(unknown) = pools.iter().find(|pool| !self.pools.contains_key(*pool)) {
            return Err(Rejection::Unknown { kind: kind_of(unknown), name: unknown.name.clone() });
        }
        let held = self.held_by(owner);
        if let Some(first) = held.first() {
            let recorded = self.grants[first].holder.clone();
            let same_uid = uid_and_source(&recorded).0 == uid_and_source(owner).0;
            if same_uid || matches!(owner, Holder::Named { .. }) {
                if let Some(address) = self.misfit(&held, &pools, &grant.addresses) {
                    let pool = self.grants[&address].pool.clone();
                    return Err(Rejection::OwnerHolds { owner: recorded, address, pool });
                }
                for address in held.into_iter().filter(|_| !same_uid) {
                    self.transfer(address, owner);
                }
                return Ok(Outcome::default());
            }
            for address in held {
                self.free(address, true);
            }
        }
        self.grant_new(owner, &pools, &grant.addresses)
    }

    /// The first held address that does not fit the request, if any.
    fn misfit(&self, held: &[IpAddr], pools: &[PoolId], asked: &[IpAddr]) -> Option<IpAddr> {
        let fits = |address: &IpAddr| {
            let mut of_family = asked.iter().filter(|a| Family::of(**a) == Family::of(*address));
            let pool = &self.grants[address].pool;
            pools.contains(pool) && self.gives(pool, *address) && of_family.next().is_none_or(|a| a == address)
        };
        let one_fits = |family| held.iter().any(|address| Family::of(*address) == family && fits(address));
        if let Some(misfit) = held.iter().find(|address| !one_fits(Family::of(**address))) {
            return Some(*misfit);
        }
        let covered = |family| held.iter().any(|address| Family::of(*address) == family);
        let mut families = pools.iter().map(|pool| self.family(pool));
        families.any(|family| !covered(family)).then(|| held[0])
    }

    fn grant_new(&mut self, owner: &Holder, pools: &[PoolId], asked: &[IpAddr]) -> Verdict {
        let mut found = Vec::new();
        for family in Family::ALL {
            let asked = asked.iter().copied().find(|address| Family::of(*address) == family);
            let of_family: Vec<PoolId> = pools.iter().filter(|pool| self.family(pool) == family).cloned().collect();
            if let Some(address) = asked {
                let pool = of_family.iter().find(|pool| self.gives(pool, address));
                let said = if of_family.is_empty() { pools.to_vec() } else { of_family.clone() };
                let pool = pool.ok_or(Rejection::AddressOutside { address, pools: said })?;
                if let Some(row) = self.grants.get(&address) {
                    return Err(Rejection::AddressHeld { address, by: row.holder.clone() });
                }
                found.push((pool.clone(), address));
            } else if let Some(last) = of_family.last() {
                let wanted = Wanted { owner, count: 1, headroom: 0, block_required: false };
                let one = self.search(&wanted, &of_family).ok_or_else(|| {
                    let room = self.room(last, 1);
                    Rejection::PoolExhausted {
                        pool: room.pool,
                        needed: room.needed,
                        free: room.free,
                        largest_free_run: room.largest_free_run,
                    }
                })?;
                found.extend(one);
            }
        }
        let addresses: Vec<IpAddr> = found.iter().map(|(_, address)| *address).collect();
        self.judge(&addresses, owner);
        for (pool, address) in found {
            self.take(address, &pool, owner);
        }
        Ok(Outcome::default())
    }

    pub(super) fn release_grant(&mut self, source: &Source, release: &ReleaseGrant) -> Verdict {
        let (held, bound) = match &release.owner {
            OwnerRef::Named(name) => {
                let owner = Holder::Named { name: name.clone(), uid: "".into(), source: source.clone() };
                (self.held_by(&owner), None)
            }
            OwnerRef::Pod(namespace, name) => {
                let bound = self.bound_where(|b| b.pod.namespace == *namespace && b.pod.name == *name);
                (self.held_by_pod(namespace, name), bound)
            }
        };
        if let Some((id, ordinal)) = &bound {
            let row = &self.ordinals[&(id.clone(), *ordinal)];
            let pod = row.pod.as_ref().expect("it is bound");
            let right = pod.pod.uid == release.uid;
            let other = held.iter().any(|address| *uid_and_source(&self.grants[address].holder).0 == release.uid);
            if right || !other {
                may_end(source, &pod.source, "Pod", &release.owner)?;
            }
            if !right && !other {
                return Ok(not_held(Some((pod.pod.uid.clone(), row.stamp.revision))));
            }
            if right {
                self.unbind(id, *ordinal);
                self.settle_ordinal(id, *ordinal);
                for address in held {
                    self.free(address, true);
                }
                return Ok(Outcome::default());
            }
        }
        let Some(first) = held.first() else { return Ok(not_held(None)) };
        let (uid, recorded) = uid_and_source(&self.grants[first].holder);
        may_end(source, recorded, "owner", &release.owner)?;
        let revision_fits = |revision| held.iter().any(|address| self.grants[address].stamp.revision == revision);
        if *uid != release.uid || !release.revision.is_none_or(revision_fits) {
            return Ok(not_held(Some((uid.clone(), self.grants[first].stamp.revision))));
        }
        for address in held {
            self.free(address, true);
        }
        Ok(Outcome::default())
    }

    pub(super) fn sweep(&mut self, source: &Source, sweep: &Sweep) -> Verdict {
        if sweep.gone.len() > 1000 {
            return Err(malformed("gone"));
        }
        let unchanged: Vec<bool> = sweep
            .gone
            .iter()
            .map(|gone| self.stamp_of(&gone.object, &gone.uid).is_some_and(|revision| revision <= gone.unchanged_since))
            .collect();
        let mut left_alone = 0;
        for (gone, unchanged) in sweep.gone.iter().zip(unchanged) {
            if !unchanged || !self.sweep_one(source, gone) {
                left_alone += 1;
            }
        }
        let notes = if left_alone > 0 { vec![Note::LeftAlone { objects: left_alone }] } else { Vec::new() };
        Ok(Outcome { notes, ..Outcome::default() })
    }

    fn stamp_of(&self, object: &ObjectId, uid: &Name) -> Option<Revision> {
        let stamp = match object {
            ObjectId::Pool(id) => self.pools.get(id)?.stamp,
            ObjectId::Reservation(id) => self.reservations.get(id)?.stamp,
            ObjectId::Egress(name) => self.egresses.get(name)?.stamp,
            ObjectId::Node(name) => self.nodes.get(name)?.stamp,
            ObjectId::Pod(namespace, name) => {
                let is_pod = |b: &BoundPod| (&b.pod.namespace, &b.pod.name, &b.pod.uid) == (namespace, name, uid);
                if let Some(at) = self.bound_where(is_pod) {
                    self.ordinals[&at].stamp
                } else {
                    let held = self.held_by_pod(namespace, name).into_iter();
                    held.map(|address| self.grants[&address].stamp).max_by_key(|stamp| stamp.revision)?
                }
            }
        };
        Some(stamp.revision)
    }

    /// `false`: another source's or UID's, or not there.
    fn sweep_one(&mut self, source: &Source, gone: &Gone) -> bool {
        let before = self.clock.revision;
        let uid = gone.uid.clone();
        let verdict = match &gone.object {
            ObjectId::Pool(pool) => self.delete_pool(source, &DeletePool { pool: pool.clone(), uid }),
            ObjectId::Reservation(id) => self.release_reservation(source, &ReleaseReservation { id: id.clone(), uid }),
            ObjectId::Egress(name) => self.delete_egress(source, &DeleteEgress { name: name.clone(), uid }),
            ObjectId::Node(name) => self.delete_node(source, &DeleteNode { name: name.clone(), uid }),
            ObjectId::Pod(namespace, name) => {
                let own = self.bound_where(|b| {
                    (&b.pod.namespace, &b.pod.name, &b.pod.uid, &b.source) == (namespace, name, &uid, source)
                });
                let outside = self
                    .held_by_pod(namespace, name)
                    .first()
                    .is_some_and(|address| uid_and_source(&self.grants[address].holder) == (&uid, source));
                if own.is_none() && !outside {
                    return false;
                }
                let owner = OwnerRef::Pod(namespace.clone(), name.clone());
                self.release_grant(source, &ReleaseGrant { owner, uid, revision: None })
            }
        };
        verdict.is_ok() && self.clock.revision > before
    }

    /// What a search for one more address of an Egress's pool found.
    pub(super) fn one_for_egress(&self, name: &Name, pool: &PoolId, asked: Option<IpAddr>) -> Result<IpAddr, Waiting> {
        if !self.pools.contains_key(pool) {
            return Err(Waiting::UnknownPool { pools: vec![pool.clone()] });
        }
        debug_assert_eq!(pool.kind, PoolKind::ExternalIpPool);
        if let Some(address) = asked {
            if !self.gives(pool, address) {
                return Err(Waiting::AddressOutside { address, pools: vec![pool.clone()] });
            }
            return match self.grants.get(&address) {
                Some(row) => Err(Waiting::AddressHeld { address, by: row.holder.clone() }),
                None => Ok(address),
            };
        }
        if self.adopting() {
            return Err(Waiting::NotAdopted);
        }
        let owner = Holder::Egress { name: name.clone() };
        let wanted = Wanted { owner: &owner, count: 1, headroom: 0, block_required: false };
        match self.search(&wanted, std::slice::from_ref(pool)) {
            Some(found) => Ok(found[0].1),
            None => Err(Waiting::Exhausted { family: self.family(pool), tried: vec![self.room(pool, 1)] }),
        }
    }
}
