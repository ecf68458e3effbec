//! From objects to the ledger: what each asks for is proposed, if the ledger does not say so already.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use holdfast_statemachine::command::{ObjectId, StatefulSetId};
use holdfast_statemachine::outcome::Note;
use holdfast_statemachine::{Action, Held, Name, Outcome, Rejection, Source};
use jiff::Timestamp;
use tracing::{debug, info, warn};

use super::MIRRORED;
use super::key::Key;
use super::mirror::addresses::{chosen_by_us, forget_former};
use super::office::{Office, Refusal};
use super::readiness::readiness;
use super::recorder::Telling;
use super::unseen::{self, Unknown};
use super::watched::Live;
use crate::ledger::{Ledger, Unproposed};
use crate::objects::{Kind, Object, Pod};
use crate::problem::FieldProblem;
use crate::translate;

/// Commands in one entry.
const ENTRY: usize = 256;
/// Commands whose Pods are asked for at the same time.
const AT_ONCE: usize = 32;
/// After this long a refused object is tried again: what it collided with may be gone.
const AGAIN: Duration = Duration::from_secs(30);

/// This replica leads no longer.
#[derive(Debug)]
pub struct Deposed;

/// What one object asks for.
struct Asked {
    key: Key,
    live: Option<Arc<Live>>,
    /// The version of what the cache had of it; `None`: nothing.
    seen: Option<Name>,
    action: Action,
}

/// Looks at whatever is due, until this replica leads no longer. While one entry is on its way, what comes in
/// gathers for the next.
pub async fn run<L: Ledger>(office: &Arc<Office<L>>) {
    loop {
        let keys = office.decisions.take().await;
        if pass(office, keys).await.is_err() {
            return;
        }
    }
}

/// Looks at these keys and proposes what they ask for.
pub async fn pass<L: Ledger>(office: &Arc<Office<L>>, keys: Vec<Key>) -> Result<(), Deposed> {
    let mut asked = Vec::new();
    let mut unproven = Vec::new();
    for key in keys {
        let cached = office.cache.get(&key);
        let seen = version(cached.as_deref());
        match cached {
            Some(live) if is_behind(office, &key, &live) => unproven.push(key),
            Some(live) => match wanted(office, &key, &live) {
                Wanted::Asks(action) => asked.push(Asked { key, live: Some(live), seen, action }),
                Wanted::Replaces(action) => asked.push(Asked { key, live: None, seen, action }),
                Wanted::Nothing => {}
            },
            None => match (key.object(), office.cache.take_deleted(&key)) {
                (Some(object), Some(uid)) => {
                    forget(office, &key);
                    // It may be that a former one of the name is recorded, whose deletion was not seen by itself.
                    if recorded(office, &object).is_some_and(|recorded| recorded != uid) {
                        unproven.push(key.clone());
                    }
                    asked.push(Asked { key, live: None, seen, action: deletion(object, uid) });
                }
                (Some(_), None) => unproven.push(key),
                (None, _) => {}
            },
        }
    }
    office.unproven.add_all(unproven);
    asked.sort_by_cached_key(order);
    // Deletions by themselves: a ledger that takes no addresses for want of disk still takes them. Kind by kind: what is
    // at stake with one depends on what is decided of another.
    let step = |asked: &Asked| (asked.live.is_some(), asked.key.kind);
    let mut asked = asked.into_iter().peekable();
    while let Some(first) = asked.next() {
        let same = step(&first);
        let mut of_step = vec![first];
        while let Some(next) = asked.next_if(|next| step(next) == same) {
            of_step.push(next);
        }
        propose_all(office, of_step).await?;
    }
    Ok(())
}

fn version(live: Option<&Live>) -> Option<Name> {
    live.map(|live| live.resource_version.clone())
}

/// Whether the ledger knows of a Pod of this name that the cache does not show yet.
fn is_behind<L: Ledger>(office: &Office<L>, key: &Key, live: &Live) -> bool {
    if key.kind != Kind::Pod {
        return false;
    }
    let recorded = key.object().and_then(|object| recorded(office, &object));
    let behind = recorded.is_some_and(|recorded| recorded != live.uid && office.ahead.is_told(key, &recorded));
    if !behind {
        office.ahead.forget(key);
    }
    behind
}

/// Proposes what is asked for: first that by which nobody can lose anything that he may have, unseen.
async fn propose_all<L: Ledger>(office: &Arc<Office<L>>, asked: Vec<Asked>) -> Result<(), Deposed> {
    let (careful, plain): (Vec<_>, Vec<_>) = asked.into_iter().partition(|asked| at_stake(office, asked).is_some());
    let mut plain = plain.into_iter();
    while plain.len() > 0 {
        propose(office, plain.by_ref().take(ENTRY).collect()).await?;
    }
    let mut careful = careful.into_iter();
    while careful.len() > 0 {
        let asked = careful.by_ref().take(AT_ONCE).map(|asked| bind_unseen(office, asked));
        let bound: Result<Vec<_>, Deposed> = join_all(asked).await.into_iter().collect();
        // Whatever changed while its Pods were asked for is looked at anew.
        let is_as_seen = |asked: &Asked| version(office.cache.get(&asked.key).as_deref()) == asked.seen;
        let (same, other): (Vec<_>, Vec<_>) = bound?.into_iter().flatten().partition(is_as_seen);
        office.decisions.add_all(other.into_iter().map(|asked| asked.key));
        propose(office, same).await?;
    }
    Ok(())
}

/// What may be taken from Pods that nobody has seen.
fn at_stake<L: Ledger>(office: &Office<L>, asked: &Asked) -> Option<(StatefulSetId, Held)> {
    office.ledger.read(|ledger| {
        let changes = !ledger.has(&Source::Kubernetes, &asked.action);
        changes.then(|| ledger.at_stake(&asked.action)).flatten()
    })
}

/// Binds Pods that are there, though nobody has seen them, before their addresses go. What would free addresses whose
/// Pods cannot be asked for is left for later.
async fn bind_unseen<L: Ledger>(office: &Arc<Office<L>>, asked: Asked) -> Result<Option<Asked>, Deposed> {
    let Some((id, held)) = at_stake(office, &asked) else { return Ok(Some(asked)) };
    match unseen::bind(office, &id, held).await {
        Ok(()) => Ok(Some(asked)),
        Err(Unknown::Deposed) => Err(Deposed),
        Err(Unknown::Again(why)) => {
            warn!(object = %asked.key, why, "whether its Pods are gone is asked again");
            office.report.failed(&why);
            let delay = office.backoff.failed(&asked.key);
            office.decisions.add_after(asked.key, delay);
            Ok(None)
        }
    }
}

/// The UID of what the ledger records of an object, if it came from here.
fn recorded<L: Ledger>(office: &Office<L>, object: &ObjectId) -> Option<Name> {
    let recorded = office.ledger.read(|ledger| ledger.recorded(object));
    recorded.filter(|(source, _)| *source == Source::Kubernetes).map(|(_, uid)| uid)
}

fn deletion(object: ObjectId, uid: Name) -> Action {
    translate::deletions(&[(object, uid)], &Source::Kubernetes, None).swap_remove(0).action
}

/// Kind by kind, who was made first first; deletions last, Egresses first and pools last among them.
fn order(asked: &Asked) -> (bool, i64, Option<Timestamp>, Key) {
    let kind = asked.key.kind as i64;
    let created = asked.live.as_ref().and_then(|live| live.object.as_ref().ok()?.metadata().creation_timestamp);
    let kind = if asked.live.is_some() { kind } else { -kind };
    (asked.live.is_none(), kind, created, asked.key.clone())
}

/// What follows from an object for the ledger.
enum Wanted {
    /// It asks for this.
    Asks(Action),
    /// It asks for nothing, but a former one of its name is recorded, which is gone.
    Replaces(Action),
    /// Nothing.
    Nothing,
}

/// What an object asks for; nothing if it cannot be read.
fn wanted<L: Ledger>(office: &Office<L>, key: &Key, live: &Live) -> Wanted {
    let object = match &live.object {
        Ok(object) => object,
        Err(problem) => {
            refuse(office, key, live, std::slice::from_ref(problem));
            return former(office, key, live);
        }
    };
    let namespace = office.cache.namespace(&key.namespace);
    let translated = match translate::translate(object, namespace.as_ref()) {
        Ok(translated) => translated,
        Err(problems) => {
            refuse(office, key, live, &problems);
            return former(office, key, live);
        }
    };
    for note in &translated.notes {
        debug!(object = %note.object, "{}", note.text);
    }
    match (translated.action, object) {
        (Some(Action::PutNode(mut put)), Object::Node(node)) => {
            let before = office.ledger.read(|ledger| ledger.tables().nodes().get(&put.name).map(|row| row.ready));
            let (ready, again) = readiness(node, before, Timestamp::now(), &office.options);
            if let Some(delay) = again {
                office.decisions.add_after(key.clone(), delay);
            }
            put.ready = ready;
            Wanted::Asks(Action::PutNode(put))
        }
        (Some(Action::PutEgress(mut put)), Object::Egress(egress)) => {
            let ours = chosen_by_us(&egress.spec, &live.managers);
            office.ledger.read(|ledger| {
                if let Some(row) = ledger.tables().egresses().get(&put.name) {
                    forget_former(&mut put, ours, row);
                }
            });
            Wanted::Asks(Action::PutEgress(put))
        }
        (Some(action), _) => Wanted::Asks(action),
        (None, _) => {
            not_refused(office, key);
            former(office, key, live)
        }
    }
}

/// An object that asks for nothing, or cannot, may have taken the name of one that held something.
fn former<L: Ledger>(office: &Office<L>, key: &Key, live: &Live) -> Wanted {
    let Some(object) = key.object() else { return Wanted::Nothing };
    match recorded(office, &object) {
        Some(uid) if uid != live.uid => Wanted::Replaces(deletion(object, uid)),
        _ => Wanted::Nothing,
    }
}

async fn propose<L: Ledger>(office: &Arc<Office<L>>, entry: Vec<Asked>) -> Result<(), Deposed> {
    // What the ledger says already is not said again.
    let new: Vec<bool> = office
        .ledger
        .read(|ledger| entry.iter().map(|asked| !ledger.has(&Source::Kubernetes, &asked.action)).collect());
    let (new, known): (Vec<_>, Vec<_>) = entry.into_iter().zip(new).partition(|(_, new)| *new);
    for (asked, _) in known {
        settled(office, &asked, &Outcome::default());
    }
    let mut entries = VecDeque::from([new.into_iter().map(|(asked, _)| asked).collect::<Vec<_>>()]);
    while let Some(mut entry) = entries.pop_front() {
        if entry.is_empty() {
            continue;
        }
        match office.propose(entry.iter().map(|asked| asked.action.clone()).collect()).await {
            Ok(outcomes) => {
                for (asked, outcome) in entry.iter().zip(outcomes) {
                    decided(office, asked, outcome)?;
                }
            }
            Err(Unproposed::NotLeader) => return Err(Deposed),
            Err(Unproposed::TooLarge(_)) if entry.len() > 1 => {
                let rest = entry.split_off(entry.len() / 2);
                entries.extend([entry, rest]);
            }
            Err(Unproposed::TooLarge(why)) => {
                for asked in &entry {
                    refused(office, asked, "TooLarge", why.clone());
                }
            }
            Err(Unproposed::Again(why)) => {
                warn!(why, objects = entry.len(), "proposed again later");
                office.report.failed(&why);
                for asked in entry {
                    let delay = office.backoff.failed(&asked.key);
                    office.decisions.add_after(asked.key, delay);
                }
            }
        }
    }
    Ok(())
}

fn decided<L: Ledger>(office: &Office<L>, asked: &Asked, outcome: Result<Outcome, Rejection>) -> Result<(), Deposed> {
    match outcome {
        Ok(outcome) => settled(office, asked, &outcome),
        Err(Rejection::StaleTerm { .. }) => return Err(Deposed),
        Err(rejection) => refused(office, asked, rejection.code(), rejection.to_string()),
    }
    Ok(())
}

fn refused<L: Ledger>(office: &Office<L>, asked: &Asked, code: &'static str, message: String) {
    let Some(live) = &asked.live else {
        // What is recorded under the name is another source's: nothing of ours is left there.
        info!(object = %asked.key, why = message, "its deletion changes nothing");
        return;
    };
    set_refusal(office, &asked.key, Some(live), Refusal { code, message, generation: live.generation });
    office.decisions.add_after(asked.key.clone(), AGAIN);
}

/// The ledger says what the object asks for.
fn settled<L: Ledger>(office: &Office<L>, asked: &Asked, outcome: &Outcome) {
    office.backoff.succeeded(&asked.key);
    let Some(live) = &asked.live else { return };
    not_refused(office, &asked.key);
    for note in &outcome.notes {
        if let Note::CapacityClamped { asked: wanted, used } = note {
            let note = format!("node.antrea.io/max-egress-ips is {wanted}: a Node carries 0 to 255, so {used} counts");
            tell(office, &asked.key, live, "CapacityClamped", note);
        }
    }
    if let Ok(Object::Pod(pod)) = &live.object {
        check_address(office, &asked.key, live, pod);
    }
}

fn not_refused<L: Ledger>(office: &Office<L>, key: &Key) {
    if office.refusals.set(key, None) {
        office.report.change(|state| state.refused.remove(key));
        mirror(office, key);
    }
}

/// Tells of a Pod that runs without the address that is its own.
fn check_address<L: Ledger>(office: &Office<L>, key: &Key, live: &Live, pod: &Pod) {
    if office.misaddressed.is_told(key, &live.uid) {
        return;
    }
    if pod.status.phase.as_deref() != Some("Running") || pod.status.pod_ips.is_empty() {
        return;
    }
    let own = office.ledger.read(|ledger| ledger.addresses_of_pod(&key.namespace, &key.name, &live.uid));
    let has: Vec<std::net::IpAddr> = pod.status.pod_ips.iter().filter_map(|it| it.ip.parse().ok()).collect();
    let lacks: Vec<String> = own.iter().filter(|address| !has.contains(address)).map(ToString::to_string).collect();
    if !lacks.is_empty() {
        let has: Vec<String> = has.iter().map(ToString::to_string).collect();
        let note = format!("it runs with {}, not with the reserved {}", has.join(", "), lacks.join(", "));
        tell(office, key, live, "AddressNotUsed", note);
        office.misaddressed.told(key, &live.uid);
    }
}

fn refuse<L: Ledger>(office: &Office<L>, key: &Key, live: &Live, problems: &[FieldProblem]) {
    let lines: Vec<String> =
        problems.iter().map(|it| format!("{}: {} is not allowed: {}", it.field, it.value, it.allowed)).collect();
    let refusal = Refusal { code: "Malformed", message: lines.join("; "), generation: live.generation };
    set_refusal(office, key, Some(live), refusal);
}

fn set_refusal<L: Ledger>(office: &Office<L>, key: &Key, live: Option<&Live>, refusal: Refusal) {
    let message = refusal.message.clone();
    if !office.refusals.set(key, Some(refusal)) {
        return;
    }
    warn!(object = %key, why = message, "refused; what was in force stays in force");
    office.report.change(|state| state.refused.insert(key.clone(), message.clone()));
    if let Some(live) = live {
        tell(office, key, live, "Refused", message);
    }
    mirror(office, key);
}

fn tell<L: Ledger>(office: &Office<L>, key: &Key, live: &Live, reason: &'static str, note: String) {
    office.recorder.tell(Telling { about: key.clone(), uid: live.uid.clone(), warning: true, reason, note });
}

fn mirror<L: Ledger>(office: &Office<L>, key: &Key) {
    if MIRRORED.contains(&key.kind) {
        office.mirror.add(key.clone());
    }
}

/// An object is gone: nothing more is to be told of it.
pub fn forget<L: Ledger>(office: &Office<L>, key: &Key) {
    office.refusals.set(key, None);
    office.misaddressed.forget(key);
    office.ahead.forget(key);
    office.report.change(|state| {
        state.refused.remove(key);
        state.contested.remove(key);
    });
    mirror(office, key);
}

/// The kinds in the order of [`Kind`] are those of a load.
const _: () = assert!((Kind::IpPool as i64) < Kind::Node as i64 && (Kind::Pod as i64) < Kind::StatefulSet as i64);
