//! Mode `antrea`: one look at one IPPool, whose list antrea-controller and the agents write as well.
//!
//! What is ours is added when it is missing and taken away when it is released; all else stays as it is. A write is
//! made over a version that was read, so nothing is added that somebody else has by then. What others have in the
//! list is told to the ledger, which plans anew what they took.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_statemachine::adopt::Mode;
use holdfast_statemachine::command::{Observe, OwnerRef, ReleaseGrant, StatefulSetId};
use holdfast_statemachine::row::{Holder, PoolRow};
use holdfast_statemachine::{Action, Ledger as Rows, Name, PoolId, PoolKind, Range, Source, pool_spec};
use tracing::{debug, warn};

use super::antrea_merge::{Missing, merge};
use super::cut;
use super::requests::{self, Failure};
use super::turn::{Next, Part, Turn};
use super::wanted::asked_pool;
use crate::bridge::key::Key;
use crate::bridge::observe::{self, Held, Item, Whose};
use crate::bridge::recorder::Telling;
use crate::bridge::watched::Live;
use crate::ledger::{Ledger, Unproposed};
use crate::objects::{Kind, Object};
use crate::translate;

/// How often a conflict is answered at once. Each means that somebody else was faster.
const ATTEMPTS: usize = 16;
/// After so many, others are let through.
const BREATH: Duration = Duration::from_millis(20);
/// After a proposal without an outcome.
const PAUSE: Duration = Duration::from_millis(250);
/// Pods bound anew in one entry.
const REBOUND: usize = 64;

/// What is known of a pool at one moment.
struct Scene {
    live: Arc<Live>,
    items: Vec<Item>,
    whose: Vec<Whose>,
    held: BTreeMap<IpAddr, Held>,
    observe: Observe,
    /// Whether the ledger does not know all that others have.
    news: bool,
    /// Pods whose addresses are others', and never were theirs.
    deprived: Vec<Key>,
}

/// What the ledger holds in a pool.
struct Holdings {
    held: BTreeMap<IpAddr, Held>,
    observed: BTreeSet<IpAddr>,
    in_force: bool,
    ranges: Vec<Range>,
}

impl<L: Ledger> Turn<L> {
    /// Sees to the list of an IPPool. Nothing else is written in this mode.
    pub(super) async fn list(&mut self) -> Next {
        for _ in 0..ATTEMPTS {
            let Some(live) = self.live() else { return Next::Gone };
            let Some(scene) = self.look(live) else { return Next::Right };
            let merged = self.merged(&scene);
            self.tell_waiting(merged.too_large);
            let Some(status) = merged.status else { return self.observe(&scene).await };
            if let Some(at) = self.wait(Part::Status, Instant::now()) {
                return match self.observe(&scene).await {
                    Next::At(earlier) => Next::At(earlier.min(at)),
                    _ => Next::At(at),
                };
            }
            let office = self.office.clone();
            let shown = self.memory.list.shown(&merged.added);
            let version = &scene.live.resource_version;
            self.memory.list.intend(version, &merged.added);
            match requests::put_status(&office.client, &self.key, version, &status).await {
                Ok(live) => {
                    self.wrote(cut::bytes(&status));
                    self.memory.answer(live);
                }
                Err(failure) => {
                    if matches!(failure, Failure::Conflict) {
                        self.memory.list.withdraw(&merged.added, &shown);
                    }
                    if let Some(next) = self.failed(failure).await {
                        return next;
                    }
                }
            }
        }
        if let Some(live) = self.live()
            && let Some(scene) = self.look(live)
        {
            self.observe(&scene).await;
        }
        Next::At(Instant::now() + BREATH.mul_f64(rand::random_range(0.5..1.5)))
    }

    fn pool(&self) -> PoolId {
        PoolId { kind: PoolKind::IpPool, name: self.key.name.clone() }
    }

    /// What this version says; `None` if the ledger knows nothing of this very pool.
    fn look(&mut self, live: Arc<Live>) -> Option<Scene> {
        let office = self.office.clone();
        let id = self.pool();
        let holdings = office.ledger.read(|ledger| {
            let row = ledger.tables().pools().get(&id).filter(|row| row.wanted.uid == live.uid)?;
            Some(holdings(ledger, &id, row))
        })?;
        let (items, bad) = observe::read(&live.status);
        self.tell_bad(&live, &items, bad, &holdings);
        let was = |address, of: &observe::OrdinalId| {
            let before = || office.ledger.held_before(address);
            !holdings.observed.contains(&address)
                && matches!(before(), Some(Holder::Ordinal { id, ordinal, .. }) if (&id, ordinal) == (&of.0, of.1))
        };
        let held = holdings.held;
        let whose = self.memory.list.look(&live.status, &live.resource_version, &items, &held, was);
        let observe = observe::observation(&id.name, &items, &whose);
        let action = Action::Observe(observe);
        let known = office.ledger.read(|ledger| ledger.has(&Source::Kubernetes, &action));
        let Action::Observe(observe) = action else { return None };
        let deprived = self.deprived(&items, &whose, &held, known);
        let news = !known || !deprived.is_empty();
        Some(Scene { live, items, whose, held, observe, news, deprived })
    }

    fn merged(&self, scene: &Scene) -> super::antrea_merge::Merged {
        let list = &self.memory.list;
        let mut there: BTreeMap<IpAddr, Whose> = BTreeMap::new();
        let mut released = BTreeSet::new();
        let mut held_back: BTreeSet<StatefulSetId> = BTreeSet::new();
        for (item, whose) in scene.items.iter().zip(&scene.whose) {
            there.insert(item.address, *whose);
            match (whose, &item.ordinal) {
                (Whose::Released, _) => drop(released.insert(item.at)),
                // The ledger may make it the ordinal's own.
                (Whose::Others, Some((id, _))) if scene.news => drop(held_back.insert(id.clone())),
                _ => {}
            }
        }
        // What the agents' allocator could not give would fail every allocation.
        let usable = asked_pool(&scene.live).and_then(|put| pool_spec::usable_in(Mode::Antrea, &put).ok());
        let usable = usable.unwrap_or_default();
        let mut missing = Vec::new();
        for (address, held) in &scene.held {
            match there.get(address) {
                Some(Whose::Ours) => {}
                Some(Whose::Others) => drop(held_back.insert(held.of.0.clone())),
                None if !usable.iter().any(|range| range.contains(*address)) => {
                    held_back.insert(held.of.0.clone());
                }
                None | Some(Whose::Released) => missing.push(Missing {
                    address: *address,
                    of: held.of.clone(),
                    entry: list.entry(*address, held),
                    since: held.since,
                }),
            }
        }
        merge(&scene.live.status, &released, missing, &held_back, cut::LARGEST)
    }

    /// Tells the ledger what others have, if it does not know. When to look again, if it could not be told.
    async fn observe(&self, scene: &Scene) -> Next {
        if !scene.news {
            return Next::Right;
        }
        let office = &self.office;
        // An ordinal whose Pod is bound keeps its address: it may run with it. These do not.
        let mut unbound = Vec::new();
        let mut bound = Vec::new();
        for key in scene.deprived.iter().take(REBOUND) {
            let Some(live) = office.cache.get(key) else { continue };
            let namespace = office.cache.namespace(&key.namespace);
            let Ok(object) = &live.object else { continue };
            if let Ok(Some(grant @ Action::Grant(_))) =
                translate::translate(object, namespace.as_ref()).map(|translated| translated.action)
            {
                let owner = OwnerRef::Pod(key.namespace.clone(), key.name.clone());
                let uid = live.uid.clone();
                unbound.push(Action::ReleaseGrant(ReleaseGrant { owner, uid, revision: None }));
                bound.push(grant);
            }
        }
        let observe = Action::Observe(scene.observe.clone());
        let actions = unbound.into_iter().chain([observe]).chain(bound).collect();
        match office.propose(actions).await {
            Ok(outcomes) => {
                for rejection in outcomes.into_iter().filter_map(Result::err) {
                    debug!(pool = %self.key, %rejection, "not observed");
                }
                Next::Right
            }
            // Whoever leads next looks anew.
            Err(Unproposed::NotLeader) => Next::At(Instant::now() + PAUSE),
            Err(Unproposed::Again(why)) => {
                warn!(pool = %self.key, why, "observed again");
                office.report.failed(&why);
                Next::At(Instant::now() + PAUSE)
            }
        }
    }

    /// The Pods of wanted ordinals that never had the address that the ledger holds for them: it was never theirs in
    /// the list for as long as that, they do not say that they run with it, and the list gives it to somebody else or,
    /// by an entry that the ledger does not know (`known`), another one to them.
    fn deprived(&self, items: &[Item], whose: &[Whose], held: &BTreeMap<IpAddr, Held>, known: bool) -> Vec<Key> {
        let office = &self.office;
        let others = || items.iter().zip(whose).filter(|(_, whose)| **whose == Whose::Others).map(|(item, _)| item);
        let taken = others().filter_map(|item| Some((item.address, held.get(&item.address)?)));
        let named: BTreeSet<_> = others().filter(|_| !known).filter_map(|item| item.ordinal.as_ref()).collect();
        let replaced = held.iter().filter(|(_, held)| named.contains(&held.of)).map(|(address, held)| (*address, held));
        let mut deprived = BTreeSet::new();
        for (address, held) in taken.chain(replaced) {
            let Some((namespace, name, uid)) = &held.pod else { continue };
            if self.memory.list.has_shown(address, &held.of) {
                continue;
            }
            let key = Key { kind: Kind::Pod, namespace: namespace.clone(), name: name.clone() };
            let Some(pod) = office.cache.get(&key).filter(|live| live.uid == *uid) else { continue };
            let Ok(Object::Pod(pod)) = &pod.object else { continue };
            let runs_with: Vec<IpAddr> = pod.status.pod_ips.iter().filter_map(|it| it.ip.parse().ok()).collect();
            let of_this_term = held.since > office.since;
            let elsewhere = !runs_with.is_empty() && !runs_with.contains(&address);
            let never = (of_this_term && runs_with.is_empty()) || elsewhere;
            // One that is not wanted, or has former addresses, would lose more than this by being unbound.
            if never && office.ledger.read(|ledger| is_plain(ledger, &held.of)) {
                deprived.insert(key);
            }
        }
        deprived.into_iter().collect()
    }

    fn tell(&self, about: Key, uid: Name, reason: &'static str, note: String) {
        self.office.recorder.tell(Telling { about, uid, warning: true, reason, note });
    }

    /// Tells, once each, of entries that are passed over, or that fail every allocation of the agents.
    fn tell_bad(&mut self, live: &Live, items: &[Item], mut bad: Vec<String>, holdings: &Holdings) {
        if holdings.in_force {
            let inside = |address| holdings.ranges.iter().any(|range| range.contains(address));
            let outside = items.iter().filter(|item| !inside(item.address));
            bad.extend(outside.map(|item| format!("{} of {} is no address of the pool", item.address, item.owner)));
        }
        let bad: BTreeSet<String> = bad.into_iter().collect();
        for why in bad.difference(&self.memory.list.told) {
            warn!(pool = %self.key, why, "an entry is passed over");
            let note = format!("an entry of status.ipAddresses is passed over: {why}");
            self.tell(self.key.clone(), live.uid.clone(), "BadEntry", note);
        }
        self.memory.list.told = bad;
    }

    /// Tells of StatefulSets whose entries do not fit, and ends that once they do.
    fn tell_waiting(&mut self, too_large: BTreeMap<StatefulSetId, usize>) {
        let note = |count: usize| {
            format!(
                "waits: {count} of its addresses do not fit into the status of {}, which may have {} bytes: Antrea's \
                 agents do not know of them",
                self.key,
                cut::LARGEST
            )
        };
        let now: BTreeMap<StatefulSetId, String> =
            too_large.into_iter().map(|(id, count)| (id, note(count))).collect();
        let before = std::mem::replace(&mut self.memory.list.waiting, now.clone());
        if before == now {
            return;
        }
        self.office.report.change(|state| {
            for (id, note) in &before {
                let key = Key::stateful_set(id);
                if state.refused.get(&key) == Some(note) {
                    state.refused.remove(&key);
                }
            }
            state.refused.extend(now.iter().map(|(id, note)| (Key::stateful_set(id), note.clone())));
        });
        for (id, note) in now.into_iter().filter(|(id, note)| before.get(id) != Some(note)) {
            let key = Key::stateful_set(&id);
            let uid = self.office.cache.get(&key).map(|live| live.uid.clone()).unwrap_or_default();
            self.tell(key, uid, "Waiting", note);
        }
    }
}

fn holdings(ledger: &Rows, id: &PoolId, row: &PoolRow) -> Holdings {
    let tables = ledger.tables();
    let mut held = BTreeMap::new();
    let mut observed = BTreeSet::new();
    let inside = row.ranges.iter().flat_map(|range| tables.grants().range(range.first()..=range.last()));
    for (address, grant) in inside.filter(|(_, grant)| grant.pool == *id) {
        match &grant.holder {
            Holder::Ordinal { id, ordinal, .. } => {
                let of = (id.clone(), *ordinal);
                let bound = tables.ordinals().get(&of).and_then(|row| row.pod.as_ref());
                let pod = bound.map(|it| (it.pod.namespace.clone(), it.pod.name.clone(), it.pod.uid.clone()));
                held.insert(*address, Held { of, pod, since: grant.stamp.revision });
            }
            Holder::Observed { .. } => drop(observed.insert(*address)),
            _ => {}
        }
    }
    Holdings { held, observed, in_force: row.waiting.is_none(), ranges: row.ranges.clone() }
}

/// Whether an ordinal is wanted and has no former addresses.
fn is_plain(ledger: &Rows, (id, ordinal): &observe::OrdinalId) -> bool {
    let tables = ledger.tables();
    let spec = tables.reservations().get(id).and_then(|row| row.spec.as_ref());
    let wanted = spec.is_some_and(|spec| *ordinal >= spec.start && ordinal - spec.start < spec.replicas);
    let holders = ledger.addresses_of_ordinal(id, *ordinal);
    let mut holders = holders.iter().filter_map(|address| tables.grants().get(address)).map(|grant| &grant.holder);
    wanted && holders.all(|holder| matches!(holder, Holder::Ordinal { former: false, .. }))
}
