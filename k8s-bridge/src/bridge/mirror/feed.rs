//! Follows the ledger's changes: which objects may say something else now.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use holdfast_statemachine::command::{ObjectId, StatefulSetId};
use holdfast_statemachine::row::{Holder, PodRef};
use holdfast_statemachine::{Change, Event, Name, PoolId, PoolKind};
use tokio::time::{Instant, sleep_until};
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
/// What happens in this time changes the reasons that Egresses give at once: there may be many of them.
const REASONS: Duration = Duration::from_secs(1);

/// Follows until it is dropped.
pub async fn run<L: Ledger>(office: Arc<Office<L>>) {
    let mut revision = office.ledger.revision();
    let mut after = office.since;
    // Changes of an entry that are not all read.
    let mut entry = Vec::new();
    // When Egresses that wait, or are on no Node, are to be looked at, because the reasons may be others.
    let mut reasons_at = None;
    loop {
        let now = *revision.borrow_and_update();
        while after < now {
            after = match office.ledger.changes(after, BATCH) {
                Ok(changes) if changes.is_empty() => break,
                Ok(changes) => {
                    let affected = Affected::by(&changes);
                    if affected.reasons {
                        reasons_at.get_or_insert(Instant::now() + REASONS);
                    }
                    office.decisions.add_all(affected.pods(&office));
                    office.mirror.add_all(affected.keys(&office));
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
        let reasons = async {
            match reasons_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = revision.changed() => if changed.is_err() {
                // The replica is gone, and the process with it.
                std::future::pending::<()>().await;
            },
            () = reasons => {
                reasons_at = None;
                office.mirror.add_all(unsettled(&office));
            }
        }
    }
}

/// Egresses whose status gives reasons: with an address that is not granted, or on no Node.
fn unsettled<L: Ledger>(office: &Office<L>) -> Vec<Key> {
    office.ledger.read(|ledger| {
        let tables = ledger.tables();
        let placed = |address| tables.placements().contains_key(&address);
        let unsettled = tables
            .egresses()
            .iter()
            .filter(|(_, row)| row.items.iter().any(|item| item.pool.is_some() && !item.granted().is_some_and(placed)));
        unsettled.map(|(name, _)| Key::cluster(Kind::Egress, name.clone())).collect()
    })
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
    /// Ordinals that were given an address.
    granted: BTreeSet<(StatefulSetId, u32)>,
    /// Whether the reasons why Egresses wait, or are on no Node, may be others now.
    reasons: bool,
}

impl Affected {
    fn by(changes: &[Change]) -> Affected {
        let mut affected = Affected::default();
        for change in changes {
            affected.add(&change.event);
        }
        affected
    }

    /// All objects that may say something else now, but for the reasons that they give.
    fn keys<L: Ledger>(self, office: &Office<L>) -> BTreeSet<Key> {
        let Affected { mut keys, ordinals, .. } = self;
        if !ordinals.is_empty() {
            office.ledger.read(|ledger| {
                for (id, ordinal) in &ordinals {
                    let held = ledger.addresses_of_ordinal(id, *ordinal);
                    let grants = held.iter().filter_map(|address| ledger.tables().grants().get(address));
                    keys.extend(grants.map(|grant| Key::pool(&grant.pool)));
                }
            });
        }
        keys
    }

    /// Pods that were bound before their ordinal was given an address: they may run without it.
    fn pods<L: Ledger>(&self, office: &Office<L>) -> Vec<Key> {
        if self.granted.is_empty() {
            return Vec::new();
        }
        office.ledger.read(|ledger| {
            let ordinals = ledger.tables().ordinals();
            let bound = self.granted.iter().filter_map(|at| ordinals.get(at)?.pod.as_ref());
            let key = |pod: &PodRef| Key::of(&ObjectId::Pod(pod.namespace.clone(), pod.name.clone()));
            bound.map(|bound| key(&bound.pod)).collect()
        })
    }

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

    fn given(&mut self, holder: &Holder) {
        if let Holder::Ordinal { id, ordinal, .. } = holder {
            self.granted.insert((id.clone(), *ordinal));
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
            Event::Granted { pool, holder, .. } => {
                self.pool(pool);
                self.holder(holder);
                self.given(holder);
            }
            Event::Released { pool, holder, .. } => {
                self.pool(pool);
                self.holder(holder);
            }
            Event::Transferred { pool, from, to, .. } => {
                self.pool(pool);
                self.holder(from);
                self.holder(to);
                self.given(to);
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

#[cfg(test)]
mod tests {
    use holdfast_statemachine::change::{Cause, MoveReason};
    use holdfast_statemachine::row::PodRef;

    use super::*;

    fn of(event: Event) -> (Vec<String>, usize, bool) {
        let change = Change { revision: 1, index: 1, at: 0, cause: Cause::Deadline, event };
        let Affected { keys, ordinals, reasons, .. } = Affected::by(&[change]);
        (keys.iter().map(ToString::to_string).collect(), ordinals.len(), reasons)
    }

    #[test]
    fn each_change_leads_to_the_objects_that_show_it() {
        let pool = |kind, name: &str| PoolId { kind, name: name.into() };
        let ip_pool = || pool(PoolKind::IpPool, "p");
        let external = || pool(PoolKind::ExternalIpPool, "e");
        let address = [10, 0, 0, 2].into();
        let id = StatefulSetId { namespace: "db".into(), name: "pg".into() };
        let ordinal = |former| Holder::Ordinal { id: id.clone(), ordinal: 0, former };
        let egress = |name: &str| Holder::Egress { name: name.into() };
        let pod = PodRef {
            namespace: "db".into(),
            name: "pg-0".into(),
            uid: "u".into(),
            container_id: None,
            interface: None,
        };
        let keys = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
        let waits = |object| Event::Waits { object, item: None, waiting: Vec::new() };
        for (event, expected) in [
            (Event::Put(ObjectId::Pool(ip_pool())), (keys(&["IPPool p"]), 0, false)),
            (Event::Put(ObjectId::Pool(external())), (keys(&["ExternalIPPool e"]), 0, true)),
            (Event::Put(ObjectId::Node("n".into())), (keys(&[]), 0, true)),
            (waits(ObjectId::Egress("web".into())), (keys(&["Egress web"]), 0, false)),
            (waits(ObjectId::Reservation(id.clone())), (keys(&[]), 0, false)),
            (Event::Granted { address, pool: ip_pool(), holder: ordinal(false) }, (keys(&["IPPool p"]), 0, false)),
            (
                Event::Granted { address, pool: external(), holder: egress("web") },
                (keys(&["ExternalIPPool e", "Egress web"]), 0, true),
            ),
            (
                Event::Transferred { address, pool: external(), from: egress("a"), to: egress("b") },
                (keys(&["ExternalIPPool e", "Egress a", "Egress b"]), 0, true),
            ),
            (
                Event::Released { address, pool: ip_pool(), holder: ordinal(true), cooling_until: None },
                (keys(&["IPPool p"]), 0, false),
            ),
            (Event::Bound { id: id.clone(), ordinal: 0, pod: pod.clone() }, (keys(&[]), 1, false)),
            (Event::Unbound { id: id.clone(), ordinal: 0, pod }, (keys(&[]), 1, false)),
            (
                Event::Unplaced { address, egress: "web".into(), from: "n".into(), why: MoveReason::NodeGone },
                (keys(&["Egress web"]), 0, true),
            ),
            (Event::Cooled { address }, (keys(&[]), 0, false)),
        ] {
            assert_eq!(of(event.clone()), expected, "{event:?}");
        }
    }
}
