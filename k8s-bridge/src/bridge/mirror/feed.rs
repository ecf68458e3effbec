//! Follows the ledger's changes: which objects may say something else now.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_statemachine::command::{ObjectId, StatefulSetId};
use holdfast_statemachine::row::Holder;
use holdfast_statemachine::{Change, Event, Name, PoolId, PoolKind};
use tracing::warn;

use super::news::{News, news};
use crate::bridge::MIRRORED;
use crate::bridge::key::Key;
use crate::bridge::office::Office;
use crate::bridge::recorder::Telling;
use crate::ledger::Ledger;
use crate::objects::Kind;

/// Changes read at once.
const BATCH: usize = 1_000;

/// Follows until it is dropped.
pub async fn run<L: Ledger>(office: Arc<Office<L>>) {
    let mut revision = office.ledger.revision();
    let mut after = office.since;
    // Changes of an entry that are not all read.
    let mut entry = Vec::new();
    loop {
        let now = *revision.borrow_and_update();
        while after < now {
            after = match office.ledger.changes(after, BATCH) {
                Ok(changes) if changes.is_empty() => break,
                Ok(changes) => {
                    office.mirror.add_all(affected(&office, &changes));
                    let last = changes.last().map_or(now, |change| change.revision);
                    tell(&office, &mut entry, changes, last >= now);
                    last
                }
                Err(gap) => {
                    warn!(%gap, "all objects are looked at");
                    entry.clear();
                    for kind in MIRRORED {
                        office.mirror.add_all(office.cache.keys(kind));
                    }
                    now
                }
            };
        }
        if revision.changed().await.is_err() {
            // The replica is gone, and the process with it.
            std::future::pending::<()>().await;
        }
    }
}

/// Tells the news of each entry once all its changes are read. `entry`: those read of the last one; `all`: nothing
/// follows, and revisions are made known entry by entry.
fn tell<L: Ledger>(office: &Office<L>, entry: &mut Vec<Change>, changes: Vec<Change>, all: bool) {
    for change in changes {
        if entry.last().is_some_and(|last| last.index != change.index) {
            tell_entry(office, &std::mem::take(entry));
        }
        entry.push(change);
    }
    if all {
        tell_entry(office, &std::mem::take(entry));
    }
}

fn tell_entry<L: Ledger>(office: &Office<L>, entry: &[Change]) {
    for News { about, warning, reason, note } in news(entry) {
        let uid = uid(office, &about);
        office.recorder.tell(Telling { about, uid, warning, reason, note });
    }
}

/// The object's UID, as it was seen or as it is recorded; else empty.
fn uid<L: Ledger>(office: &Office<L>, key: &Key) -> Name {
    if let Some(live) = office.cache.get(key) {
        return live.uid.clone();
    }
    let recorded = key.object().and_then(|object| office.ledger.read(|ledger| ledger.recorded(&object)));
    recorded.map(|(_, uid)| uid).unwrap_or_default()
}

/// What changes say of objects, before the ledger is asked.
#[derive(Debug, Default, PartialEq)]
struct Affected {
    keys: BTreeSet<Key>,
    /// Ordinals whose pools are affected.
    ordinals: BTreeSet<(StatefulSetId, u32)>,
    /// Whether the reasons why Egresses wait, or are on no Node, may be others now.
    reasons: bool,
}

impl Affected {
    fn pool(&mut self, pool: &PoolId) {
        self.keys.insert(Key::pool(pool));
        self.reasons |= pool.kind == PoolKind::ExternalIpPool;
    }

    fn egress(&mut self, name: &Name) {
        self.keys.insert(Key::cluster(Kind::Egress, name.clone()));
    }

    fn holder(&mut self, holder: &Holder) {
        if let Holder::Egress { name } = holder {
            self.egress(name);
        }
    }

    fn object(&mut self, object: &ObjectId) {
        match object {
            ObjectId::Pool(pool) => self.pool(pool),
            ObjectId::Egress(name) => self.egress(name),
            ObjectId::Node(_) => self.reasons = true,
            ObjectId::Reservation(_) | ObjectId::Pod(..) => {}
        }
    }

    fn add(&mut self, event: &Event) {
        match event {
            Event::Put(object) | Event::Deleted(object) | Event::Waits { object, .. } | Event::Met { object, .. } => {
                self.object(object);
            }
            Event::Granted { pool, holder, .. } | Event::Released { pool, holder, .. } => {
                self.pool(pool);
                self.holder(holder);
            }
            Event::Transferred { pool, from, to, .. } => {
                self.pool(pool);
                self.holder(from);
                self.holder(to);
            }
            Event::Bound { id, ordinal, .. } | Event::Unbound { id, ordinal, .. } => {
                self.ordinals.insert((id.clone(), *ordinal));
            }
            Event::Placed { egress, .. } | Event::Unplaced { egress, .. } => {
                self.egress(egress);
                self.reasons = true;
            }
            Event::Pinned { egress, .. } => self.egress(egress),
            Event::Drained { .. } | Event::Settings => self.reasons = true,
            Event::Retired { pool, .. } => self.pool(pool),
            // No status shows it.
            Event::Retained { .. }
            | Event::Cooled { .. }
            | Event::AdoptionBegun { .. }
            | Event::Conflict(_)
            | Event::AdoptionEnded { .. } => {}
        }
    }
}

fn affected<L: Ledger>(office: &Office<L>, changes: &[Change]) -> BTreeSet<Key> {
    let mut affected = Affected::default();
    for change in changes {
        affected.add(&change.event);
    }
    let Affected { mut keys, ordinals, reasons } = affected;
    if ordinals.is_empty() && !reasons {
        return keys;
    }
    office.ledger.read(|ledger| {
        let tables = ledger.tables();
        for (id, ordinal) in &ordinals {
            let held = ledger.addresses_of_ordinal(id, *ordinal);
            let pools = held.iter().filter_map(|address| tables.grants().get(address)).map(|grant| &grant.pool);
            keys.extend(pools.map(Key::pool));
        }
        if reasons {
            let placed = |address| tables.placements().contains_key(&address);
            let unsettled = tables.egresses().iter().filter(|(_, row)| {
                row.items.iter().any(|item| item.pool.is_some() && !item.granted().is_some_and(placed))
            });
            keys.extend(unsettled.map(|(name, _)| Key::cluster(Kind::Egress, name.clone())));
        }
    });
    keys
}
