//! Mode `antrea`: a list, and what is to be added to it and taken from it. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use holdfast_statemachine::command::StatefulSetId;
use serde_json::{Map, Value};

use super::cut;
use crate::bridge::observe::OrdinalId;

/// An entry that is missing.
#[derive(Clone, Debug, PartialEq)]
pub struct Missing {
    /// Its address.
    pub address: IpAddr,
    /// Whose it is.
    pub of: OrdinalId,
    /// It.
    pub entry: Value,
    /// Since which revision the ledger holds it.
    pub since: u64,
}

/// What is to be written.
#[derive(Debug, Default, PartialEq)]
pub struct Merged {
    /// The whole status; `None` if it says all that it can.
    pub status: Option<Value>,
    /// What it says more than before.
    pub added: Vec<(IpAddr, OrdinalId, Value)>,
    /// StatefulSets of which nothing is added, for it does not fit: how many entries.
    pub too_large: BTreeMap<StatefulSetId, usize>,
}

/// Takes the entries at these places away and adds what is missing, a StatefulSet's all or none, those held longest
/// first; all else stays as it is, where it is. `held_back`: StatefulSets of which nothing is added yet. A status of
/// more than `largest` bytes of JSON is never made.
pub fn merge(
    status: &Value,
    released: &BTreeSet<usize>,
    missing: Vec<Missing>,
    held_back: &BTreeSet<StatefulSetId>,
    largest: usize,
) -> Merged {
    let mut sets: BTreeMap<StatefulSetId, Vec<Missing>> = BTreeMap::new();
    for one in missing {
        if !held_back.contains(&one.of.0) {
            sets.entry(one.of.0.clone()).or_default().push(one);
        }
    }
    if released.is_empty() && sets.is_empty() {
        return Merged::default();
    }
    let mut status = if status.is_object() { status.clone() } else { Value::Object(Map::new()) };
    let list = &mut status["ipAddresses"];
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    if let Some(list) = list.as_array_mut() {
        let mut at = 0;
        list.retain(|_| {
            at += 1;
            !released.contains(&(at - 1))
        });
    }
    let mut merged = Merged::default();
    let mut bytes = cut::bytes(&status);
    let mut order: Vec<_> = sets.into_iter().collect();
    order.sort_by_key(|(_, missing)| missing.iter().map(|one| one.since).min());
    for (id, missing) in order {
        // Each with a comma.
        let more: usize = missing.iter().map(|one| cut::bytes(&one.entry) + 1).sum();
        if bytes + more > largest {
            merged.too_large.insert(id, missing.len());
            continue;
        }
        bytes += more;
        merged.added.extend(missing.into_iter().map(|one| (one.address, one.of, one.entry)));
    }
    merged.added.sort_by_key(|(address, ..)| *address);
    if let Some(list) = status["ipAddresses"].as_array_mut() {
        list.extend(merged.added.iter().map(|(.., entry)| entry.clone()));
    }
    merged.status = (!released.is_empty() || !merged.added.is_empty()).then_some(status);
    merged
}
