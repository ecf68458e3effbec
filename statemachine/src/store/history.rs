//! Reading the history: changes in order, and intervals made of the changes that begin and end them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Bound;

use super::concern::{address_hash, owner_hash, owner_text};
use super::disk::{Disk, Found, decode_value};
use super::key::{INDEX, history_key};
use super::{Edge, Extent, Interval, Store, StoreError, Subject, shared};
use crate::change::Event;
use crate::codec::Kind;
use crate::command::StatefulSetId;
use crate::row::{GrantRow, Holder, PlacementRow, PodRef, Stamp};
use crate::{Change, Revision, Tables};

/// Rows read under the ledger's lock at a time, where the history no longer has what began something.
const ROWS_AT_A_TIME: usize = 4_096;

pub(super) fn changes(disk: &Disk, kept: Extent, after: Revision, limit: usize) -> Result<Vec<Change>, StoreError> {
    let too_old = || StoreError::TooOld { after, oldest: kept.first, newest: kept.last() };
    if after >= kept.last() {
        return Ok(Vec::new());
    }
    if after + 1 < kept.first {
        return Err(too_old());
    }
    let mut found = Vec::new();
    let mut next = after + 1;
    while found.len() < limit && next < kept.next {
        let block = disk.block(next)?;
        let from = block.iter().position(|change| change.revision == next);
        // Dropped from the history since its extent was read.
        let Some(from) = from else { return Err(too_old()) };
        let left = limit - found.len();
        found.extend(block.into_iter().skip(from).take(left));
        next = found.last().map_or(next, |change: &Change| change.revision) + 1;
    }
    Ok(found)
}

/// Names what can have one interval at a time.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Slot {
    Held(IpAddr),
    Carried(IpAddr),
    Bound(StatefulSetId, u32),
}

impl Subject {
    fn slot(&self) -> Slot {
        match self {
            Subject::Held { address, .. } => Slot::Held(*address),
            Subject::Carried { address, .. } => Slot::Carried(*address),
            Subject::Bound { id, ordinal, .. } => Slot::Bound(id.clone(), *ordinal),
        }
    }
}

/// Whose intervals are asked for.
enum Whose<'a> {
    Address(IpAddr),
    Owner(&'a str),
}

impl Whose<'_> {
    fn hash(&self) -> u64 {
        match self {
            Whose::Address(address) => address_hash(*address),
            Whose::Owner(text) => owner_hash(text),
        }
    }

    fn is(&self, subject: &Subject) -> bool {
        match (self, subject) {
            (Whose::Address(of), Subject::Held { address, .. } | Subject::Carried { address, .. }) => of == address,
            (Whose::Address(_), Subject::Bound { .. }) => false,
            (Whose::Owner(of), Subject::Held { holder, .. }) => *of == owner_text(holder),
            (Whose::Owner(of), Subject::Carried { egress, node, .. }) => {
                of.strip_prefix("egress/").is_some_and(|name| name == &**egress)
                    || of.strip_prefix("node/").is_some_and(|name| name == &**node)
            }
            (Whose::Owner(of), Subject::Bound { id, ordinal, pod }) => {
                let former = false;
                *of == owner_text(&Holder::Ordinal { id: id.clone(), ordinal: *ordinal, former })
                    || *of == pod_text(pod)
            }
        }
    }
}

fn pod_text(pod: &PodRef) -> String {
    format!("pod/{}/{}", pod.namespace, pod.name)
}

/// What an event ended and what it began, in this order.
fn ended_and_begun(event: Event) -> (Option<Subject>, Option<Subject>) {
    match event {
        Event::Granted { address, pool, holder } => (None, Some(Subject::Held { address, pool, holder })),
        Event::Transferred { address, pool, from, to } => (
            Some(Subject::Held { address, pool: pool.clone(), holder: from }),
            Some(Subject::Held { address, pool, holder: to }),
        ),
        Event::Released { address, pool, holder, .. } => (Some(Subject::Held { address, pool, holder }), None),
        Event::Bound { id, ordinal, pod } => (None, Some(Subject::Bound { id, ordinal, pod })),
        Event::Unbound { id, ordinal, pod } => (Some(Subject::Bound { id, ordinal, pod }), None),
        Event::Placed { address, egress, from, to, .. } => (
            from.map(|node| Subject::Carried { address, egress: egress.clone(), node }),
            Some(Subject::Carried { address, egress, node: to }),
        ),
        Event::Unplaced { address, egress, from, .. } => (Some(Subject::Carried { address, egress, node: from }), None),
        _ => (None, None),
    }
}

impl Store {
    /// Who held an address and which Node carried it, the latest first. At most `limit` intervals that began before the
    /// revision `before`, if given: that of the last one's `from` asks for the next page. Those whose beginning is older
    /// than the history come last, all of them.
    pub fn history_of_address(
        &self,
        address: IpAddr,
        before: Option<Revision>,
        limit: usize,
    ) -> Result<Vec<Interval>, StoreError> {
        self.intervals(&Whose::Address(address), before, limit)
    }

    /// What an owner held, carried or was bound to, as [`Store::history_of_address`]. The owner is named by the text
    /// that [`owner_text`] gives, a Node by `node/NAME`.
    pub fn history_of_owner(
        &self,
        owner: &str,
        before: Option<Revision>,
        limit: usize,
    ) -> Result<Vec<Interval>, StoreError> {
        self.intervals(&Whose::Owner(owner), before, limit)
    }

    /// From the latest change backwards: what ended is kept until the change is met that began it.
    fn intervals(
        &self,
        whose: &Whose<'_>,
        before: Option<Revision>,
        limit: usize,
    ) -> Result<Vec<Interval>, StoreError> {
        let mut found = Vec::new();
        if before.is_some_and(|before| before <= self.history_extent().first) {
            return Ok(found);
        }
        let mut open: BTreeMap<Slot, (Subject, Edge)> = BTreeMap::new();
        let mut seen = Vec::new();
        let disk = shared(&self.disk);
        let mut block: Vec<Change> = Vec::new();
        for revision in self.found(&disk, whose.hash())?.into_iter().rev() {
            if found.len() >= limit {
                return Ok(found);
            }
            if block.first().is_none_or(|change| change.revision > revision) {
                block = disk.block(revision)?;
            }
            // If it was dropped meanwhile, so was everything before it.
            let Some(change) = block.iter().find(|change| change.revision == revision).cloned() else { break };
            let edge = Edge::of(&change);
            let (ended, begun) = ended_and_begun(change.event);
            if let Some(subject) = begun.filter(|subject| whose.is(subject)) {
                let to = open.remove(&subject.slot()).map(|(_, edge)| edge);
                if to.is_none() {
                    seen.push(subject.slot());
                }
                if before.is_none_or(|before| edge.revision < before) {
                    found.push(Interval { subject, from: Some(edge.clone()), to });
                }
            }
            if let Some(subject) = ended.filter(|subject| whose.is(subject)) {
                open.insert(subject.slot(), (subject, edge));
            }
        }
        drop(disk);
        seen.extend(open.values().map(|(subject, _)| subject.slot()));
        self.add_lasting(whose, &seen, &mut found);
        found.extend(open.into_values().map(|(subject, edge)| Interval { subject, from: None, to: Some(edge) }));
        Ok(found)
    }

    /// The revisions of the changes that are found by a hash, ascending.
    fn found(&self, disk: &Disk, hash: u64) -> Result<Vec<Revision>, StoreError> {
        // Before the stored runs: a change that passes from here to there meanwhile is found twice, not missed.
        let mut revisions: Vec<Revision> =
            shared(&self.tail).iter().filter(|found| found.0 == hash).map(|found| found.1).collect();
        let first = self.history_extent().first;
        for key in disk.tree.range([INDEX]..[INDEX + 1]).keys() {
            let key = key?;
            // Parts of a long value lie behind its key, and are longer.
            if key.len() != history_key(INDEX, 0).len() {
                continue;
            }
            let Some(value) = disk.value(&key)? else { continue };
            let run: Vec<Found> = decode_value(Kind::Index, &key, &value)?;
            let from = run.partition_point(|found| *found < (hash, first));
            revisions.extend(run[from..].iter().take_while(|found| found.0 == hash).map(|found| found.1));
        }
        revisions.retain(|revision| *revision >= first);
        revisions.sort_unstable();
        revisions.dedup();
        Ok(revisions)
    }

    /// What holds since before the history begins, as the rows say.
    fn add_lasting(&self, whose: &Whose<'_>, seen: &[Slot], found: &mut Vec<Interval>) {
        let oldest = self.history_extent().first;
        if oldest == 1 {
            return;
        }
        let mut add = |subject: Subject, stamp: Stamp| {
            if stamp.revision < oldest && whose.is(&subject) && !seen.contains(&subject.slot()) {
                found.push(Interval { subject, from: Some(Edge::of_stamp(stamp)), to: None });
            }
        };
        if let Whose::Address(address) = whose {
            self.read(|ledger| {
                let tables = ledger.tables();
                tables.grants().get(address).into_iter().for_each(|row| add(held(*address, row), row.stamp));
                tables.placements().get(address).into_iter().for_each(|row| add(carried(*address, row), row.stamp));
            });
            return;
        }
        self.scan(Tables::grants, |address, row| add(held(*address, row), row.stamp));
        self.scan(Tables::placements, |address, row| add(carried(*address, row), row.stamp));
        self.scan(Tables::ordinals, |(id, ordinal), row| {
            if let Some(bound) = &row.pod {
                add(Subject::Bound { id: id.clone(), ordinal: *ordinal, pod: bound.pod.clone() }, row.stamp);
            }
        });
    }

    /// All rows of a table, some at a time, so that entries need not wait for the whole of it.
    fn scan<K: Ord + Clone, R>(&self, table: impl Fn(&Tables) -> &BTreeMap<K, R>, mut each: impl FnMut(&K, &R)) {
        let mut after = Bound::Unbounded;
        while let Some(last) = self.read(|ledger| {
            let rows = table(ledger.tables()).range((after.clone(), Bound::Unbounded)).take(ROWS_AT_A_TIME);
            rows.map(|(key, row)| {
                each(key, row);
                key
            })
            .last()
            .cloned()
        }) {
            after = Bound::Excluded(last);
        }
    }
}

fn held(address: IpAddr, row: &GrantRow) -> Subject {
    Subject::Held { address, pool: row.pool.clone(), holder: row.holder.clone() }
}

fn carried(address: IpAddr, row: &PlacementRow) -> Subject {
    Subject::Carried { address, egress: row.egress.clone(), node: row.node.clone() }
}
