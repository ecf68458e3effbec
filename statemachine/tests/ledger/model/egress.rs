//! Egress addresses: section 7.

use std::net::IpAddr;

use holdfast_statemachine::command::{DeleteEgress, EgressItem, ObjectId, PutEgress};
use holdfast_statemachine::row::{CreationKey, EgressItemRow, EgressRow, Holder, Stamp};
use holdfast_statemachine::{Event, Name, Outcome, PoolId, PoolKind, Rejection, Source, Waiting};

use super::outcome::{malformed, not_held, other_source};
use super::{Model, Verdict};

fn check(items: &[EgressItem]) -> Result<(), Rejection> {
    if items.is_empty() {
        return Err(malformed("items"));
    }
    if items.iter().any(|item| item.pool.is_some()) && items.iter().any(|item| item.pool.is_none()) {
        return Err(malformed("items"));
    }
    for (i, item) in items.iter().enumerate() {
        if item.pool.is_some() && items[..i].iter().any(|other| other.pool == item.pool) {
            return Err(malformed(&format!("items[{i}].pool")));
        }
    }
    for (i, item) in items.iter().enumerate() {
        if item.address.is_some() && items[..i].iter().any(|other| other.address == item.address) {
            return Err(malformed(&format!("items[{i}].address")));
        }
    }
    if items.len() > 16 {
        return Err(malformed("items"));
    }
    for (i, item) in items.iter().enumerate() {
        if item.pool.is_none() && item.address.is_none() {
            return Err(malformed(&format!("items[{i}].address")));
        }
    }
    Ok(())
}

/// What an item becomes beside the former one of its pool.
fn matched(item: &EgressItem, former: Option<&EgressItemRow>, chosen: &[IpAddr]) -> EgressItemRow {
    let asked = item.address.filter(|address| item.pool.is_none() || !chosen.contains(address));
    let fresh = EgressItemRow { pool: item.pool.clone(), asked, chosen: None, waiting: None };
    let Some(former) = former.filter(|_| item.pool.is_some()) else { return fresh };
    let keeps = match item.address {
        Some(address) if asked.is_none() => former.asked.is_none() || former.asked == Some(address),
        None => former.asked.is_none(),
        Some(address) => former.asked == Some(address) || former.chosen == Some(address),
    };
    if keeps { former.clone() } else { EgressItemRow { waiting: former.waiting.clone(), ..fresh } }
}

pub fn external(name: &Name) -> PoolId {
    PoolId { kind: PoolKind::ExternalIpPool, name: name.clone() }
}

fn declared(items: &[EgressItemRow]) -> Vec<(Option<Name>, Option<IpAddr>, Option<IpAddr>)> {
    items.iter().map(|item| (item.pool.clone(), item.asked, item.chosen)).collect()
}

impl Model {
    pub(super) fn is_chosen(&self, address: IpAddr) -> bool {
        self.egresses.values().any(|row| row.items.iter().any(|item| item.chosen == Some(address)))
    }

    /// The position of an address that an Egress holds.
    pub(super) fn item_of(&self, name: &Name, address: IpAddr) -> usize {
        let items = &self.egresses[name].items;
        items.iter().position(|item| item.granted() == Some(address)).expect("the Egress holds it")
    }

    fn egress_holds(&self, name: &Name, item: &EgressItemRow) -> bool {
        item.asked.or(item.chosen).is_some_and(|address| {
            let ours = Holder::Egress { name: name.clone() };
            self.grants
                .get(&address)
                .is_some_and(|row| row.holder == ours && Some(&row.pool.name) == item.pool.as_ref())
        })
    }

    pub(super) fn put_egress(&mut self, source: &Source, put: &PutEgress) -> Verdict {
        self.declare_egress(source, put, &[]).map(|_| Outcome::default())
    }

    /// What it named and did not get, and why. `chosen`: named, but not asked for.
    pub(super) fn declare_egress(
        &mut self,
        source: &Source,
        put: &PutEgress,
        chosen: &[IpAddr],
    ) -> Result<Vec<(IpAddr, Waiting)>, Rejection> {
        check(&put.items)?;
        if put.rest.len() > PutEgress::REST_MAX {
            return Err(malformed("rest"));
        }
        let name = &put.name;
        let mut old = self.egresses.get(name).cloned();
        if let Some(row) = &old {
            if row.source != *source {
                return Err(other_source(&ObjectId::Egress(name.clone()), &row.source));
            }
            if row.uid != put.uid {
                self.remove_egress(name);
                old = None;
            }
        }
        let former: &[EgressItemRow] = old.as_ref().map_or(&[], |row| &row.items);
        let items: Vec<EgressItemRow> =
            put.items.iter().map(|item| matched(item, former.iter().find(|f| f.pool == item.pool), chosen)).collect();
        let as_recorded = |row: &EgressRow| {
            row.plural == put.plural && row.rest == put.rest && declared(&row.items) == declared(&items)
        };
        if old.as_ref().is_some_and(as_recorded) {
            return Ok(Vec::new());
        }
        let created = old.as_ref().map_or_else(|| self.creation_key(put), |row| row.created.clone());
        let row = EgressRow {
            source: source.clone(),
            uid: put.uid.clone(),
            created,
            plural: put.plural,
            items: items.clone(),
            rest: put.rest.clone(),
            stamp: Stamp::default(),
        };
        self.egresses.insert(name.clone(), row);
        self.emit(Event::Put(ObjectId::Egress(name.clone())));
        for old in former {
            let keeps = |item: &&EgressItemRow| item.pool == old.pool && item.granted() == old.granted();
            if let Some(address) = old.granted().filter(|_| !items.iter().any(|item| keeps(&item))) {
                self.free(address, true);
            }
        }
        let mut unmet = Vec::new();
        for (i, item) in items.iter().enumerate() {
            if item.pool.is_some() && !self.egress_holds(name, item) {
                let kept = former.iter().any(|former| former == item);
                let was_chosen = put.items[i].address.filter(|a| !kept && item.asked.is_none() && chosen.contains(a));
                let waiting = self.serve_named(name, i, was_chosen);
                unmet.extend(item.asked.or(was_chosen).zip(waiting));
            }
        }
        Ok(unmet)
    }

    fn creation_key(&self, put: &PutEgress) -> CreationKey {
        let name = put.name.clone();
        if let Some(seconds) = put.created {
            return CreationKey { seconds, revision: 0, name };
        }
        let seconds = i64::try_from(self.time() / 1000).expect("milliseconds by 1000 fit");
        CreationKey { seconds, revision: self.clock.revision + 1, name }
    }

    fn find_item(&self, name: &Name, item: usize, was_chosen: Option<IpAddr>) -> Result<(PoolId, IpAddr), Waiting> {
        let row = &self.egresses[name].items[item];
        let pool = row.pool.clone().expect("a static item is never served");
        let pool = PoolId { kind: PoolKind::ExternalIpPool, name: pool };
        let address = self.one_for_egress(name, &pool, row.asked.or(was_chosen))?;
        Ok((pool, address))
    }

    /// Serves an item that holds nothing, or records why it waits.
    pub(super) fn serve_item(&mut self, name: &Name, item: usize) {
        self.serve_named(name, item, None);
    }

    /// The same, with an address that was chosen for it before, if it is to be had. What kept it from being served.
    fn serve_named(&mut self, name: &Name, item: usize, was_chosen: Option<IpAddr>) -> Option<Waiting> {
        let (pool, address) = match self.find_item(name, item, was_chosen) {
            Ok(found) => found,
            Err(waiting) => {
                self.egresses.get_mut(name).expect("it is there").items[item].chosen = None;
                let unknown = matches!(waiting, Waiting::UnknownPool { .. });
                let anew = was_chosen.is_some() && !unknown;
                self.item_waits(name, item, if anew { Waiting::NotAdopted } else { waiting.clone() });
                return Some(waiting);
            }
        };
        let holder = Holder::Egress { name: name.clone() };
        self.judge(&[address], &holder);
        let row = &mut self.egresses.get_mut(name).expect("it is there").items[item];
        row.chosen = row.asked.is_none().then_some(address);
        let waited = row.waiting.take().is_some();
        self.take(address, &pool, &holder);
        if waited {
            let object = ObjectId::Egress(name.clone());
            self.emit(Event::Met { object, item: Some(u32::try_from(item).expect("at most 16")) });
        }
        None
    }

    pub(super) fn item_waits(&mut self, name: &Name, item: usize, waiting: Waiting) {
        let next = self.clock.revision + 1;
        let row = &mut self.egresses.get_mut(name).expect("it is there").items[item];
        if row.waiting.as_ref().map(|(_, recorded)| recorded) == Some(&waiting) {
            return;
        }
        let since = row.waiting.as_ref().map_or(next, |(since, _)| *since);
        row.waiting = Some((since, waiting.clone()));
        let item = Some(u32::try_from(item).expect("at most 16"));
        self.emit(Event::Waits { object: ObjectId::Egress(name.clone()), item, waiting: vec![waiting] });
    }

    pub(super) fn meet_item(&mut self, name: &Name, item: usize) -> bool {
        let met = self.find_item(name, item, None).is_ok();
        if met {
            self.serve_item(name, item);
        }
        met
    }

    pub(super) fn delete_egress(&mut self, source: &Source, delete: &DeleteEgress) -> Verdict {
        let Some(row) = self.egresses.get(&delete.name) else { return Ok(not_held(None)) };
        if row.source != *source {
            return Err(other_source(&ObjectId::Egress(delete.name.clone()), &row.source));
        }
        if row.uid != delete.uid {
            return Ok(not_held(Some((row.uid.clone(), row.stamp.revision))));
        }
        self.remove_egress(&delete.name);
        Ok(Outcome::default())
    }

    fn remove_egress(&mut self, name: &Name) {
        let row = self.egresses.remove(name).expect("it is there");
        self.emit(Event::Deleted(ObjectId::Egress(name.clone())));
        for address in row.items.iter().filter_map(EgressItemRow::granted) {
            self.free(address, true);
        }
    }
}
