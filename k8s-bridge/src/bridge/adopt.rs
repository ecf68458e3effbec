//! The first start: what the API already says of addresses becomes the ledger's state.
//!
//! Sources: entries of `IPPool.status`, `spec.egressIP` and `status.egressNode` of Egresses, and the load-balancer
//! addresses of Services annotated `service.antrea.io/external-ip-pool`. Pools and Nodes are declared before. What
//! contradicts something else is told one by one and takes nothing from anybody; what running Pods have goes first.

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use holdfast_statemachine::adopt::{Adopt, AdoptItem, AdoptedBy, Conflict, Mode};
use holdfast_statemachine::command::{Grant, Owner, PodOwner, StatefulSetId};
use holdfast_statemachine::outcome::Note;
use holdfast_statemachine::row::{Holder, PoolId, PoolKind};
use holdfast_statemachine::{Action, Name, Rejection};
use serde::Deserialize;
use serde_json::Value;
use tracing::{info, warn};

use super::backoff::pause;
use super::decide::{self, Deposed};
use super::key::Key;
use super::mirror::addresses::chosen_by_us;
use super::modes::Unfit;
use super::office::Office;
use super::recorder::Telling;
use super::report::{PassedOver, Phase};
use super::services;
use super::watched::Live;
use crate::ledger::{Ledger, Unproposed};
use crate::objects::{Kind, Object};
use crate::translate;

/// Items in one entry.
const ENTRY: usize = 200;

/// Why there is no adoption.
pub enum Stopped {
    /// This replica leads no longer.
    Deposed,
    /// The group lives by another mode.
    Unfit(Unfit),
}

impl From<Deposed> for Stopped {
    fn from(Deposed: Deposed) -> Stopped {
        Stopped::Deposed
    }
}

/// Begins, if this group never did: from then on no address is chosen before all is adopted. Whether all is.
pub async fn begin<L: Ledger>(office: &Office<L>) -> Result<bool, Stopped> {
    let asked = office.options.mode;
    let recorded = office.ledger.read(|ledger| ledger.tables().adoption().map(|row| (row.mode, row.complete)));
    match recorded {
        Some((mode, complete)) if mode == asked => return Ok(complete),
        Some((recorded, _)) => return Err(Stopped::Unfit(Unfit::OtherMode { recorded, asked })),
        None => {}
    }
    match propose(office, Adopt::Begin { mode: asked }).await? {
        Some(why) => Err(Stopped::Unfit(Unfit::Refused { why })),
        None => Ok(false),
    }
}

/// Adopts all that the lists show.
pub async fn adopt<L: Ledger>(office: &Arc<Office<L>>) -> Result<(), Deposed> {
    office.report.change(|state| state.phase = Phase::Adopting);
    declare(office).await?;
    let mut passed_over = PassedOver::default();
    let (mut items, claims) = pool_entries(office, &mut passed_over);
    if office.options.mode == Mode::Standalone {
        let others = running_pods(office, items.iter().chain(&claims));
        items.extend(others);
    }
    items.extend(claims);
    if office.options.mode == Mode::Standalone {
        items.extend(services::held(office).await);
        items.extend(egresses(office));
    }
    info!(items = items.len(), "adopting what the Kubernetes API says is held");
    let mut pieces: VecDeque<Vec<AdoptItem>> = items.chunks(ENTRY).map(<[AdoptItem]>::to_vec).collect();
    while let Some(mut piece) = pieces.pop_front() {
        match propose(office, Adopt::Held(piece.clone())).await? {
            None => {}
            // What is wrong with one must not keep the others from being held.
            Some(_) if piece.len() > 1 => {
                let rest = piece.split_off(piece.len() / 2);
                pieces.push_front(rest);
                pieces.push_front(piece);
            }
            Some(why) => {
                for item in &piece {
                    pass_over(office, item_object(item), format!("{why}: {item:?}"), &mut passed_over);
                }
            }
        }
    }
    propose(office, Adopt::End).await?;
    // Whoever is deposed before this does not know what the adoption came to: its successor adopts anew.
    office.report.change(|state| state.passed_over = passed_over);
    let conflicts = office.ledger.read(|ledger| ledger.tables().adoption().map_or(0, |row| row.conflicts_total));
    info!(conflicts, "adopted");
    Ok(())
}

/// Declares pools and Nodes, until the ledger has each, or refuses it.
async fn declare<L: Ledger>(office: &Arc<Office<L>>) -> Result<(), Deposed> {
    for kind in [Kind::IpPool, Kind::ExternalIpPool, Kind::Node] {
        let mut failures = 0;
        loop {
            let unknown: Vec<Key> = office.cache.keys(kind).into_iter().filter(|key| !is_told(office, key)).collect();
            if unknown.is_empty() {
                break;
            }
            if failures > 0 {
                tokio::time::sleep(pause(failures)).await;
            }
            failures += 1;
            decide::pass(office, unknown).await?;
        }
    }
    Ok(())
}

/// Whether the ledger has an object, or refuses it.
fn is_told<L: Ledger>(office: &Office<L>, key: &Key) -> bool {
    let recorded = key.object().is_some_and(|object| office.ledger.read(|ledger| ledger.recorded(&object).is_some()));
    recorded || office.refusals.get(key).is_some()
}

/// Proposes until there is an outcome, and tells of conflicts. Why it is refused, if it is.
async fn propose<L: Ledger>(office: &Office<L>, adopt: Adopt) -> Result<Option<String>, Deposed> {
    let mut failures = 0;
    loop {
        match office.propose(vec![Action::Adopt(adopt.clone())]).await {
            Ok(outcomes) => {
                return match outcomes.into_iter().next() {
                    Some(Ok(outcome)) => {
                        outcome.notes.iter().for_each(|note| tell(office, note));
                        Ok(None)
                    }
                    Some(Err(Rejection::StaleTerm { .. })) => Err(Deposed),
                    Some(Err(rejection)) => Ok(Some(rejection.to_string())),
                    None => Ok(None),
                };
            }
            Err(Unproposed::NotLeader) => return Err(Deposed),
            Err(Unproposed::TooLarge(why)) => return Ok(Some(why)),
            Err(Unproposed::Again(why)) => {
                office.report.failed(&why);
                tokio::time::sleep(pause(failures)).await;
                failures += 1;
            }
        }
    }
}

fn tell<L: Ledger>(office: &Office<L>, note: &Note) {
    let Note::Conflict(conflict) = note else { return };
    warn!(%conflict, "not adopted");
    let about = about(conflict);
    let uid = office.cache.get(&about).map(|live| live.uid.clone()).unwrap_or_default();
    office.recorder.tell(Telling { about, uid, warning: true, reason: "AdoptConflict", note: conflict.to_string() });
}

/// Something that the API says of this object is not adopted: it is nobody's who is there.
fn pass_over<L: Ledger>(office: &Office<L>, about: Key, why: String, passed_over: &mut PassedOver) {
    let note = format!("passed over: {why}");
    warn!(object = %about, "{note}");
    let uid = office.cache.get(&about).map(|live| live.uid.clone()).unwrap_or_default();
    office.recorder.tell(Telling { about: about.clone(), uid, warning: true, reason: "NotAdopted", note });
    passed_over.add(about, why);
}

/// The object that says what an item says.
fn item_object(item: &AdoptItem) -> Key {
    match item {
        AdoptItem::Address { pool, .. } => Key::pool(pool),
        AdoptItem::Egress { put, .. } => Key::cluster(Kind::Egress, put.name.clone()),
    }
}

/// The object that a conflict is told of: the claimant if it is one that people look at, else the pool.
fn about(conflict: &Conflict) -> Key {
    match &conflict.claimed_by {
        Holder::Ordinal { id, .. } => Key::stateful_set(id),
        Holder::Egress { name } => Key::cluster(Kind::Egress, name.clone()),
        Holder::Pod { pod, .. } => Key { kind: Kind::Pod, namespace: pod.namespace.clone(), name: pod.name.clone() },
        Holder::Named { .. } | Holder::Observed { .. } => Key::pool(&conflict.pool),
    }
}

/// One item of `status.ipAddresses` of an IPPool.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    pub ip_address: String,
    #[serde(default)]
    pub owner: EntryOwner,
}

/// Its owner.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EntryOwner {
    #[serde(default)]
    pub pod: Option<EntryPod>,
    #[serde(default)]
    pub stateful_set: Option<EntryStatefulSet>,
    #[serde(default)]
    pub name: Option<Name>,
}

/// A Pod, as an entry names it.
#[derive(Debug, Deserialize)]
pub(super) struct EntryPod {
    pub name: Name,
    pub namespace: Name,
    #[serde(default, rename = "containerID")]
    pub container_id: Option<Name>,
    #[serde(default, rename = "ifName")]
    pub if_name: Option<Name>,
}

/// A StatefulSet's ordinal, as an entry names it.
#[derive(Debug, Deserialize)]
pub(super) struct EntryStatefulSet {
    pub name: Name,
    pub namespace: Name,
    pub index: u32,
}

/// The entries of all IPPools whose owners are there: those of addresses that their Pods run with, by the Pods' own
/// status; and all others, of Pods first.
fn pool_entries<L: Ledger>(office: &Office<L>, passed_over: &mut PassedOver) -> (Vec<AdoptItem>, Vec<AdoptItem>) {
    let mut used = Vec::new();
    let mut of_pods = Vec::new();
    let mut reserved = Vec::new();
    let beside_antrea = office.options.mode == Mode::Antrea;
    for (key, live) in office.cache.all(Kind::IpPool) {
        let pool = PoolId { kind: PoolKind::IpPool, name: key.name.clone() };
        let entries = live.status.get("ipAddresses").and_then(Value::as_array);
        for value in entries.into_iter().flatten() {
            match read_entry(office, value) {
                // What is nobody's that is wanted here is observed as another's.
                Ok((_, by)) if beside_antrea && !is_wanted(office, &key.name, &by) => {}
                Err(_) if beside_antrea => {}
                Ok((address, by)) => {
                    let names_a_pod =
                        matches!(&by, AdoptedBy::Ordinal { pod: Some(_), .. } | AdoptedBy::Owner(Owner::Pod(_)));
                    let item = AdoptItem::Address { pool: pool.clone(), address, by };
                    match names_a_pod {
                        _ if is_used(office, &item) => used.push(item),
                        true => of_pods.push(item),
                        false => reserved.push(item),
                    }
                }
                Err(why) => pass_over(office, key.clone(), format!("status.ipAddresses: {why}: {value}"), passed_over),
            }
        }
    }
    of_pods.extend(reserved);
    (used, of_pods)
}

/// Whether the Pod that has an item's address, or is to have it, runs with it.
fn is_used<L: Ledger>(office: &Office<L>, item: &AdoptItem) -> bool {
    let Some((_, address, namespace, name)) = pod_of(item) else { return false };
    let key = Key { kind: Kind::Pod, namespace, name };
    office.cache.get(&key).is_some_and(|live| addresses(&live).contains(&address))
}

/// The addresses that a Pod runs with.
fn addresses(pod: &Live) -> Vec<IpAddr> {
    match &pod.object {
        Ok(Object::Pod(pod)) if !pod.spec.host_network && !translate::pod_is_gone(pod) => {
            pod.status.pod_ips.iter().filter_map(|it| it.ip.parse().ok()).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether an entry is of an ordinal that is wanted of its pool, or whose Pod runs.
fn is_wanted<L: Ledger>(office: &Office<L>, pool: &Name, by: &AdoptedBy) -> bool {
    let AdoptedBy::Ordinal { id, ordinal, pod, .. } = by else { return false };
    let asks = || {
        let live = office.cache.get(&Key::stateful_set(id))?;
        let namespace = office.cache.namespace(&id.namespace);
        match translate::translate(live.object.as_ref().ok()?, namespace.as_ref()).ok()?.action? {
            Action::Reserve(reserve) => Some(reserve.spec),
            _ => None,
        }
    };
    pod.is_some()
        || asks().is_some_and(|spec| {
            let wanted = *ordinal >= spec.start && ordinal - spec.start < spec.replicas;
            wanted && spec.pools.contains(pool)
        })
}

/// Whose an entry says an address is, if that owner is still there.
fn read_entry<L: Ledger>(office: &Office<L>, value: &Value) -> Result<(IpAddr, AdoptedBy), String> {
    let entry = Entry::deserialize(value).map_err(|error| error.to_string())?;
    let address = entry.ip_address.parse().map_err(|_| format!("{:?} is no address", entry.ip_address))?;
    let pod = entry.owner.pod.as_ref().and_then(|pod| running(office, pod));
    if let Some(set) = &entry.owner.stateful_set {
        let id = StatefulSetId { namespace: set.namespace.clone(), name: set.name.clone() };
        let uid = office.cache.get(&Key::stateful_set(&id)).map(|live| live.uid.clone());
        if uid.is_none() && pod.is_none() {
            return Err(format!("StatefulSet {id} is not there"));
        }
        let (pod, pools) = pod.unzip();
        let ordinal = set.index;
        let by =
            AdoptedBy::Ordinal { id, uid: uid.unwrap_or_default(), ordinal, pod, pools: pools.unwrap_or_default() };
        return Ok((address, by));
    }
    if let Some((pod, _)) = pod {
        return Ok((address, AdoptedBy::Owner(Owner::Pod(pod))));
    }
    match (entry.owner.name, entry.owner.pod) {
        (Some(name), _) => Ok((address, AdoptedBy::Owner(Owner::Named { name, uid: "".into() }))),
        (None, Some(pod)) => Err(format!("Pod {}/{} is not there", pod.namespace, pod.name)),
        (None, None) => Err("it names no owner".to_owned()),
    }
}

/// The Pod that an entry names, if it is there, with the pools that its own annotation names.
fn running<L: Ledger>(office: &Office<L>, entry: &EntryPod) -> Option<(PodOwner, Vec<Name>)> {
    let key = Key { kind: Kind::Pod, namespace: entry.namespace.clone(), name: entry.name.clone() };
    let live = office.cache.get(&key)?;
    let object = live.object.as_ref().ok()?;
    if !matches!(object, Object::Pod(pod) if !translate::pod_is_gone(pod)) {
        return None;
    }
    let namespace = office.cache.namespace(&key.namespace);
    let action = translate::translate(object, namespace.as_ref()).ok().and_then(|translated| translated.action);
    let (ordinal, pools) = match action {
        Some(Action::Grant(Grant { owner: Owner::Pod(pod), pools, .. })) => (pod.ordinal, pools),
        _ => (None, Vec::new()),
    };
    let owner = PodOwner {
        namespace: key.namespace,
        name: key.name,
        uid: live.uid.clone(),
        container_id: entry.container_id.clone(),
        interface: entry.if_name.clone(),
        ordinal,
    };
    Some((owner, pools))
}

/// Addresses that Pods run with, of whatever IPPool gives them. Where an entry of that pool says so too, this adds
/// nothing; where it was dropped, names another owner, or is of a pool that is not in force, nobody else may be given
/// the address all the same.
fn running_pods<'a, L: Ledger>(office: &Office<L>, entries: impl Iterator<Item = &'a AdoptItem>) -> Vec<AdoptItem> {
    let told: BTreeSet<_> = entries.filter_map(pod_of).collect();
    let mut items = Vec::new();
    for (key, live) in office.cache.all(Kind::Pod) {
        for address in addresses(&live) {
            let Some(pool) = pool_of(office, address) else { continue };
            if told.contains(&(&pool, address, key.namespace.clone(), key.name.clone())) {
                continue;
            }
            let owner = PodOwner {
                namespace: key.namespace.clone(),
                name: key.name.clone(),
                uid: live.uid.clone(),
                container_id: None,
                interface: None,
                ordinal: None,
            };
            items.push(AdoptItem::Address { pool, address, by: AdoptedBy::Owner(Owner::Pod(owner)) });
        }
    }
    items
}

/// The pool and the address of an item, and the Pod that has it or is to have it.
fn pod_of(item: &AdoptItem) -> Option<(&PoolId, IpAddr, Name, Name)> {
    let AdoptItem::Address { pool, address, by } = item else { return None };
    let (namespace, name) = match by {
        AdoptedBy::Ordinal { pod: Some(pod), .. } | AdoptedBy::Owner(Owner::Pod(pod)) => {
            (pod.namespace.clone(), pod.name.clone())
        }
        AdoptedBy::Ordinal { id, ordinal, .. } => (id.namespace.clone(), format!("{}-{ordinal}", id.name).into()),
        AdoptedBy::Owner(Owner::Named { .. }) => return None,
    };
    Some((pool, *address, namespace, name))
}

/// The IPPool that gives an address now.
fn pool_of<L: Ledger>(office: &Office<L>, address: IpAddr) -> Option<PoolId> {
    office.ledger.read(|ledger| {
        let mut pools = ledger.tables().pools().iter().filter(|(id, _)| id.kind == PoolKind::IpPool);
        pools.find(|(_, row)| row.ranges.iter().any(|range| range.contains(address))).map(|(id, _)| id.clone())
    })
}

/// The Egresses: those that a Node carries first, then in creation order.
fn egresses<L: Ledger>(office: &Office<L>) -> Vec<AdoptItem> {
    let mut items: Vec<_> = office
        .cache
        .all(Kind::Egress)
        .into_iter()
        .filter_map(|(key, live)| {
            let object = live.object.as_ref().ok()?;
            let Object::Egress(egress) = object else { return None };
            let created = egress.metadata.creation_timestamp;
            let Ok(Some(Action::PutEgress(put))) = translate::translate(object, None).map(|it| it.action) else {
                return None;
            };
            let named: BTreeSet<IpAddr> = put.items.iter().filter_map(|item| item.address).collect();
            // In doubt an address is the user's: that one is never taken away.
            let chosen =
                if chosen_by_us(&egress.spec, &live.managers) { named.into_iter().collect() } else { Vec::new() };
            let placed = placed(&live.status);
            let order = (placed.is_empty(), created.is_none(), created, key);
            Some((order, AdoptItem::Egress { put, chosen, placed }))
        })
        .collect();
    items.sort_by(|(a, _), (b, _)| a.cmp(b));
    items.into_iter().map(|(_, item)| item).collect()
}

/// Where a status says that addresses are.
fn placed(status: &Value) -> Vec<(IpAddr, Name)> {
    let pair = |value: &Value, ip: &str, node: &str| {
        let node = value.get(node)?.as_str().filter(|node| !node.is_empty())?;
        Some((value.get(ip)?.as_str()?.parse().ok()?, Name::from(node)))
    };
    let several = status.get("egressIPs").and_then(Value::as_array);
    let mut placed: Vec<_> = several.into_iter().flatten().filter_map(|item| pair(item, "ip", "node")).collect();
    if placed.is_empty() {
        placed.extend(pair(status, "egressIP", "egressNode"));
    }
    placed
}
