//! Mode `antrea`: the list in an IPPool's status, which antrea-controller, agents and this group all write.
//!
//! [`read`] reads it, and a [`List`] remembers of one pool what is this group's own in it: what the ledger holds for
//! an ordinal, and what it held there, until the list is seen without it. All else is others'. Pure.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use holdfast_statemachine::Name;
use holdfast_statemachine::command::{Observe, Observed, StatefulSetId};
use serde::Deserialize;
use serde_json::Value;

use super::adopt::Entry;
use super::mirror::newer;

/// An ordinal of a StatefulSet.
pub type OrdinalId = (StatefulSetId, u32);

/// One entry that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its place in the list.
    pub at: usize,
    /// Its address.
    pub address: IpAddr,
    /// The ordinal that it is reserved for.
    pub ordinal: Option<OrdinalId>,
    /// The namespace and name of the Pod that has it.
    pub pod: Option<(Name, Name)>,
    /// Its owner, for people.
    pub owner: Name,
}

/// Whose an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The ledger holds the address for the ordinal that the entry names.
    Ours,
    /// The ledger held it, and no Pod has it: the entry is to go.
    Released,
    /// Anybody else's.
    Others,
}

/// What the ledger holds for an ordinal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The ordinal.
    pub of: OrdinalId,
    /// The namespace, name and UID of its Pod.
    pub pod: Option<(Name, Name, Name)>,
    /// Since which revision.
    pub since: u64,
}

/// Of one pool, in this term.
#[derive(Debug, Default)]
pub struct List {
    mine: BTreeMap<IpAddr, Mine>,
    /// Whether it was looked at before.
    looked: bool,
    /// What was told of it that people should put right.
    pub told: BTreeSet<String>,
    /// StatefulSets whose entries do not fit, and what was told of each.
    pub waiting: BTreeMap<StatefulSetId, String>,
}

/// An entry of this group's.
#[derive(Debug)]
struct Mine {
    of: OrdinalId,
    /// As it was seen last, or is to be written.
    last: Value,
    /// The version that it was seen in, or that it is written over.
    version: Name,
    /// Whether the newest version has it, as far as is known.
    there: bool,
}

/// The entries of a list, and what is wrong with those that are passed over.
pub fn read(status: &Value) -> (Vec<Item>, Vec<String>) {
    let mut items: Vec<Item> = Vec::new();
    let mut addresses = BTreeSet::new();
    let mut bad = Vec::new();
    for (at, value) in entries(status).iter().enumerate() {
        match read_item(at, value) {
            Ok(item) if addresses.insert(item.address) => items.push(item),
            Ok(item) => bad.push(format!("{} is there twice: {value}", item.address)),
            Err(why) => bad.push(format!("{why}: {value}")),
        }
    }
    (items, bad)
}

/// The list as it stands.
pub fn entries(status: &Value) -> &[Value] {
    status.get("ipAddresses").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn read_item(at: usize, value: &Value) -> Result<Item, String> {
    let entry = Entry::deserialize(value).map_err(|error| error.to_string())?;
    let address = entry.ip_address.parse().map_err(|_| format!("{:?} is no address", entry.ip_address))?;
    let ordinal = entry.owner.stateful_set.map(|set| {
        let id = StatefulSetId { namespace: set.namespace, name: set.name };
        (id, set.index)
    });
    let pod = entry.owner.pod.map(|pod| (pod.namespace, pod.name));
    let owner = match (&pod, &ordinal, entry.owner.name) {
        (Some((namespace, name)), ..) => format!("Pod {namespace}/{name}").into(),
        (None, Some((id, _)), _) => format!("StatefulSet {id}").into(),
        (None, None, Some(name)) => name,
        (None, None, None) => "nobody that is named".into(),
    };
    Ok(Item { at, address, ordinal, pod, owner })
}

impl List {
    /// Whose each entry of this version is. `held`: what the ledger holds for ordinals in this pool; `was`: whether
    /// it held an address for an ordinal before, by its history.
    pub fn look(
        &mut self,
        status: &Value,
        version: &Name,
        items: &[Item],
        held: &BTreeMap<IpAddr, Held>,
        was: impl Fn(IpAddr, &OrdinalId) -> bool,
    ) -> Vec<Whose> {
        let values = entries(status);
        let agrees = |address, of: &OrdinalId| held.get(&address).is_some_and(|held: &Held| held.of == *of);
        let mut whose = Vec::with_capacity(items.len());
        for item in items {
            let Some(of) = &item.ordinal else {
                self.mine.remove(&item.address);
                whose.push(Whose::Others);
                continue;
            };
            let known = self.mine.get(&item.address).is_some_and(|mine| mine.of == *of && mine.there);
            let ours = agrees(item.address, of);
            if !ours && !known && (self.looked || !was(item.address, of)) {
                self.mine.remove(&item.address);
                whose.push(Whose::Others);
                continue;
            }
            let last = values[item.at].clone();
            self.mine.insert(item.address, Mine { of: of.clone(), last, version: version.clone(), there: true });
            whose.push(match (ours, &item.pod) {
                (true, _) => Whose::Ours,
                (false, None) => Whose::Released,
                // A Pod has it, whatever the ledger says.
                (false, Some(_)) => Whose::Others,
            });
        }
        self.looked = true;
        let shown: BTreeSet<IpAddr> = items.iter().map(|item| item.address).collect();
        self.mine.retain(|address, mine| {
            if shown.contains(address) {
                return true;
            }
            // In the version that it is written over it cannot be.
            if newer(version, &mine.version) == Some(Ordering::Greater) {
                mine.there = false;
            }
            mine.there || agrees(*address, &mine.of)
        });
        whose
    }

    /// Whether the list ever showed this address as this ordinal's, as far as is known.
    pub fn has_shown(&self, address: IpAddr, of: &OrdinalId) -> bool {
        self.mine.get(&address).is_some_and(|mine| mine.of == *of)
    }

    /// The entry for an address that the list does not have: as it was, if it was there and the same Pod has it still.
    pub fn entry(&self, address: IpAddr, held: &Held) -> Value {
        let last = self.mine.get(&address).filter(|mine| mine.of == held.of).map(|mine| &mine.last);
        let pod = |entry: &Value| {
            let pod = entry.pointer("/owner/pod")?;
            Some((Name::from(pod.get("namespace")?.as_str()?), Name::from(pod.get("name")?.as_str()?)))
        };
        let same = |entry: &&Value| {
            let bound = held.pod.as_ref().map(|(namespace, name, _)| (namespace.clone(), name.clone()));
            bound.is_some() && pod(entry) == bound
        };
        last.filter(same).cloned().unwrap_or_else(|| reserved(address, &held.of))
    }

    /// These entries are about to be written over this version.
    pub fn intend(&mut self, version: &Name, entries: &[(IpAddr, OrdinalId, Value)]) {
        for (address, of, entry) in entries {
            let mine = Mine { of: of.clone(), last: entry.clone(), version: version.clone(), there: true };
            self.mine.insert(*address, mine);
        }
    }

    /// They were not: somebody else was faster. Those of `before` were there once.
    pub fn withdraw(&mut self, entries: &[(IpAddr, OrdinalId, Value)], before: &BTreeSet<IpAddr>) {
        for (address, ..) in entries {
            if before.contains(address) {
                if let Some(mine) = self.mine.get_mut(address) {
                    mine.there = false;
                }
            } else {
                self.mine.remove(address);
            }
        }
    }

    /// Of these addresses, those that the list ever showed as the ordinal's.
    pub fn shown(&self, entries: &[(IpAddr, OrdinalId, Value)]) -> BTreeSet<IpAddr> {
        entries.iter().filter(|(address, of, _)| self.has_shown(*address, of)).map(|(address, ..)| *address).collect()
    }
}

/// An entry as agents look for it: by the canonical text and the Pod's ordinal.
fn reserved(address: IpAddr, (id, ordinal): &OrdinalId) -> Value {
    serde_json::json!({
        "ipAddress": address.to_string(),
        "phase": "Reserved",
        "owner": {"statefulSet": {"name": &*id.name, "namespace": &*id.namespace, "index": ordinal}},
    })
}

/// What is observed of a list: all but what is to go from it.
pub fn observation(pool: &Name, items: &[Item], whose: &[Whose]) -> Observe {
    let observed = |item: &Item| Observed {
        address: item.address,
        owner: item.owner.clone(),
        ordinal: item.ordinal.clone(),
    };
    let told = items.iter().zip(whose).filter(|(_, whose)| **whose != Whose::Released);
    Observe { pool: pool.clone(), entries: told.map(|(item, _)| observed(item)).collect() }
}
