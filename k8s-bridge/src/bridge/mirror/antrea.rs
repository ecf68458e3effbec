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
    deprived: BTreeSet<Key>,
}

/// What the ledger holds in a pool.
struct Holdings {
    held: BTreeMap<IpAddr, Held>,
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
            let began = Instant::now();
            match requests::put_status(&office.client, &self.key, version, &status).await {
                Ok(live) => {
                    self.wrote(cut::bytes(&status), began);
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
            let before = office.ledger.held_before(address);
            matches!(before, Some(Holder::Ordinal { id, ordinal, .. }) if (&id, ordinal) == (&of.0, of.1))
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
            if held.former && !held.used && !list.has_shown(*address, &held.of) {
                // Nobody was ever told of it.
                continue;
            }
            match there.get(address) {
                Some(Whose::Ours) => {}
                // It is to lose what it never had.
                _ if held.pod.as_ref().is_some_and(|pod| scene.deprived.contains(&pod_key(pod))) => {
                    held_back.insert(held.of.0.clone());
                }
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
            Err(Unproposed::Again(why) | Unproposed::TooLarge(why)) => {
                warn!(pool = %self.key, why, "observed again");
                office.report.failed(&why);
                Next::At(Instant::now() + PAUSE)
            }
        }
    }

    /// The Pods of wanted ordinals that are bound to an address that they never had ([`Self::never_had`]), while the
    /// list gives it to somebody else or, by an entry that the ledger does not know (`known`) or did not know in time,
    /// gives them another one.
    fn deprived(&self, items: &[Item], whose: &[Whose], held: &BTreeMap<IpAddr, Held>, known: bool) -> BTreeSet<Key> {
        let others = || items.iter().zip(whose).filter(|(_, whose)| **whose == Whose::Others).map(|(item, _)| item);
        let taken: BTreeSet<IpAddr> = others().map(|item| item.address).collect();
        let named: BTreeSet<_> = others().filter(|_| !known).filter_map(|item| item.ordinal.as_ref()).collect();
        let mut deprived = BTreeSet::new();
        for (address, held_there) in held {
            let superseded = held_there.former && held_there.used;
            if (superseded || taken.contains(address) || named.contains(&held_there.of))
                && let Some(pod) = &held_there.pod
                && self.never_had(*address, held_there)
                && self.loses_nothing(held, &held_there.of)
            {
                deprived.insert(pod_key(pod));
            }
        }
        deprived
    }

    /// Whether the Pod of an ordinal cannot run with an address: the list never showed it as the ordinal's, for as long
    /// as the ledger has held it, or the Pod says that it runs with others.
    fn never_had(&self, address: IpAddr, held: &Held) -> bool {
        let Some(pod) = &held.pod else { return true };
        let Some(live) = self.office.cache.get(&pod_key(pod)).filter(|live| live.uid == pod.2) else { return false };
        let Ok(Object::Pod(pod)) = &live.object else { return false };
        let runs_with: Vec<IpAddr> = pod.status.pod_ips.iter().filter_map(|it| it.ip.parse().ok()).collect();
        let unknown = if runs_with.is_empty() { held.since > self.office.since } else { !runs_with.contains(&address) };
        unknown && !self.memory.list.has_shown(address, &held.of)
    }

    /// Whether an ordinal is wanted, and its Pod never had any of its former addresses: unbinding it frees no other.
    fn loses_nothing(&self, held: &BTreeMap<IpAddr, Held>, (id, ordinal): &observe::OrdinalId) -> bool {
        let former: Option<Vec<IpAddr>> = self.office.ledger.read(|ledger| {
            let tables = ledger.tables();
            let spec = tables.reservations().get(id)?.spec.as_ref()?;
            let wanted = *ordinal >= spec.start && ordinal - spec.start < spec.replicas;
            let is_former = |address: &IpAddr| {
                let holder = tables.grants().get(address).map(|grant| &grant.holder);
                matches!(holder, Some(Holder::Ordinal { former: true, .. }))
            };
            wanted.then(|| ledger.addresses_of_ordinal(id, *ordinal).into_iter().filter(is_former).collect())
        });
        former.is_some_and(|former| {
            former.iter().all(|address| held.get(address).is_some_and(|held| self.never_had(*address, held)))
        })
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
        let now: BTreeMap<StatefulSetId, String> = too_large.into_iter().map(|(id, count)| (id, note(count))).collect();
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

fn pod_key((namespace, name, _): &(Name, Name, Name)) -> Key {
    Key { kind: Kind::Pod, namespace: namespace.clone(), name: name.clone() }
}

fn holdings(ledger: &Rows, id: &PoolId, row: &PoolRow) -> Holdings {
    let tables = ledger.tables();
    let mut held = BTreeMap::new();
    let inside = row.ranges.iter().flat_map(|range| tables.grants().range(range.first()..=range.last()));
    for (address, grant) in inside.filter(|(_, grant)| grant.pool == *id) {
        if let Holder::Ordinal { id, ordinal, former } = &grant.holder {
            let of = (id.clone(), *ordinal);
            let bound = tables.ordinals().get(&of).and_then(|row| row.pod.as_ref());
            let pod = bound.map(|it| (it.pod.namespace.clone(), it.pod.name.clone(), it.pod.uid.clone()));
            let (former, used) = (*former, ledger.pod_using(*address).is_some());
            held.insert(*address, Held { of, pod, former, used, since: grant.stamp.revision });
        }
    }
    Holdings { held, in_force: row.waiting.is_none(), ranges: row.ranges.clone() }
}
