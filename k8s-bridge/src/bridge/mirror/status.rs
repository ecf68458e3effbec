//! What is to be written into a `status`, given what is there. Pure.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use crate::bridge::office::Refusal;
use crate::bridge::watched::Manager;
use crate::objects::Kind;

use super::requests::MANAGER;

/// Which generation the conditions of a status tell of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    /// This one: the ledger's rows are what it asks for.
    Generation(i64),
    /// The one that they told of before: what the ledger says of a newer one is not known yet.
    AsBefore,
}

/// Whether a status is newer than rows whose last change was at `index`: then it is left alone. An index that somebody
/// else wrote, or one of another group of replicas, says nothing.
pub fn is_newer(there: &Value, managers: &[Manager], cluster: &str, index: u64) -> bool {
    let text = |name| there.pointer(name).and_then(Value::as_str);
    let others = written_by_others(managers, &["status", "holdfast", "index"]);
    let shown = there.pointer("/holdfast/index").and_then(Value::as_u64);
    text("/holdfast/cluster") == Some(cluster) && !others && shown.is_some_and(|shown| shown > index)
}

fn written_by_others(managers: &[Manager], path: &[&str]) -> bool {
    let mut owners = managers.iter().filter(|manager| manager.owns(path)).peekable();
    owners.peek().is_some() && owners.all(|manager| &*manager.manager != MANAGER)
}

/// The condition that shows a refusal.
fn condition_of(kind: Kind) -> &'static str {
    if kind == Kind::Egress { "IPAllocated" } else { "Ready" }
}

/// Says in a status that the object is refused as it is written.
pub fn refuse(status: &mut Value, kind: Kind, refusal: &Refusal, now: &str) {
    let shown = condition_of(kind);
    let mut condition = Map::new();
    condition.insert("type".into(), shown.into());
    condition.insert("status".into(), "False".into());
    condition.insert("lastTransitionTime".into(), now.into());
    condition.insert("reason".into(), refusal.code.into());
    condition.insert("message".into(), refusal.message.as_str().into());
    if let Some(generation) = refusal.generation {
        condition.insert("observedGeneration".into(), generation.into());
    }
    let condition = Value::Object(condition);
    if !status.is_object() {
        *status = Value::Object(Map::new());
    }
    let conditions = &mut status["conditions"];
    if !conditions.is_array() {
        *conditions = Value::Array(Vec::new());
    }
    let Some(conditions) = conditions.as_array_mut() else { return };
    match conditions.iter_mut().find(|condition| condition["type"] == shown) {
        Some(there) => *there = condition,
        None => conditions.push(condition),
    }
}

/// Completes a wanted status with what only the object knows: its generation, and since when a condition has been as it
/// is.
pub fn complete(wanted: &mut Value, there: &Value, observed: Observed) {
    let before = there.get("conditions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let conditions = wanted.get_mut("conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        let before = before.iter().find(|before| before["type"] == condition["type"]);
        let unless_flipped = before.filter(|before| before["status"] == condition["status"]);
        let since = unless_flipped.map(|before| &before["lastTransitionTime"]);
        if let Some(since) = since.filter(|since| since.as_str().is_some_and(|since| !since.is_empty())) {
            condition["lastTransitionTime"] = since.clone();
        }
        if condition.get("observedGeneration").is_some() {
            continue;
        }
        let generation = match observed {
            Observed::Generation(generation) => Some(generation.into()),
            Observed::AsBefore => before.and_then(|before| before.get("observedGeneration")).cloned(),
        };
        if let Some(generation) = generation {
            condition["observedGeneration"] = generation;
        }
    }
}

/// Whether a status says all that is wanted. The index alone makes no difference: it says when, not what.
pub fn says(there: &Value, wanted: &Value) -> bool {
    let (Some(there), Some(wanted)) = (there.as_object(), wanted.as_object()) else { return false };
    there.len() == wanted.len()
        && wanted.iter().all(|(name, wanted)| match (name.as_str(), there.get(name)) {
            (_, None) => false,
            ("holdfast", Some(there)) => {
                there == wanted || there["cluster"] == wanted["cluster"] && there["index"].is_u64()
            }
            (_, Some(there)) => there == wanted,
        })
}

/// Compares two versions of one object; `None` if one is no number.
pub fn newer(one: &str, other: &str) -> Option<Ordering> {
    let number = |text: &str| text.parse::<u64>().ok();
    Some(number(one)?.cmp(&number(other)?))
}
