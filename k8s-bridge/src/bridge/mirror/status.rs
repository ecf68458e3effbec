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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn manager(name: &str, fields: &Value) -> Manager {
        let value = json!({"manager": name, "subresource": "status", "fieldsV1": {"f:status": fields}});
        serde_json::from_value(value).expect("is one")
    }

    #[test]
    fn only_a_higher_index_of_the_same_group_that_it_wrote_itself_is_newer() {
        let ours = vec![manager("holdfast", &json!({"f:holdfast": {"f:index": {}}}))];
        let others = vec![manager("kubectl-edit", &json!({"f:holdfast": {"f:index": {}}}))];
        let both = [ours.clone(), others.clone()].concat();
        for (cluster, shown, managers, expected) in [
            ("c", 11, &ours, true),
            ("c", 10, &ours, false),
            ("c", 9, &ours, false),
            ("other", 11, &ours, false),
            ("c", 11, &others, false),
            ("c", 11, &both, true),
            ("c", 11, &Vec::new(), true),
        ] {
            let there = json!({"holdfast": {"cluster": cluster, "index": shown}});
            assert_eq!(is_newer(&there, managers, "c", 10), expected, "{cluster} {shown} {managers:?}");
        }
        for there in [json!(null), json!({}), json!({"holdfast": {"cluster": "c", "index": "11"}})] {
            assert!(!is_newer(&there, &[], "c", 10), "{there}");
        }
    }

    fn pool(ready: &str, time: &str, index: u64, used: u64) -> Value {
        json!({
            "usage": {"total": 10, "used": used},
            "conditions": [
                {"type": "Ready", "status": ready, "lastTransitionTime": time, "reason": "R", "message": "m"},
            ],
            "holdfast": {"cluster": "c", "index": index},
        })
    }

    #[test]
    fn a_status_that_differs_in_index_and_time_alone_says_the_same() {
        let mut there = pool("True", "2026-01-01T00:00:00Z", 5, 1);
        there["conditions"][0]["observedGeneration"] = 3.into();
        let completed = |mut wanted: Value, observed| {
            complete(&mut wanted, &there, observed);
            wanted
        };
        let later = "2026-02-02T00:00:00Z";
        let wanted = completed(pool("True", later, 9, 1), Observed::Generation(3));
        assert!(says(&there, &wanted));
        assert_eq!(wanted["conditions"][0]["lastTransitionTime"], "2026-01-01T00:00:00Z");
        assert!(says(&there, &completed(pool("True", later, 9, 1), Observed::AsBefore)));
        assert!(!says(&there, &completed(pool("True", later, 9, 1), Observed::Generation(4))));
        assert!(!says(&there, &completed(pool("True", later, 9, 2), Observed::AsBefore)));
        // It flipped: it tells since when.
        let flipped = completed(pool("False", later, 9, 1), Observed::AsBefore);
        assert!(!says(&there, &flipped));
        assert_eq!(flipped["conditions"][0]["lastTransitionTime"], later);
        // Something more, and something less.
        let mut more = there.clone();
        more["egressNode"] = "n".into();
        assert!(!says(&more, &completed(pool("True", later, 9, 1), Observed::AsBefore)));
        assert!(!says(&Value::Null, &pool("True", later, 9, 1)));
    }

    #[test]
    fn a_refusal_takes_the_place_of_one_condition() {
        let refusal = Refusal { code: "Malformed", message: "spec.x: 1 is not allowed: 2".into(), generation: Some(4) };
        let now = "2026-03-03T00:00:00Z";
        let mut status = pool("True", "2026-01-01T00:00:00Z", 5, 1);
        let there = status.clone();
        refuse(&mut status, Kind::IpPool, &refusal, now);
        complete(&mut status, &there, Observed::AsBefore);
        let shown = json!({
            "type": "Ready", "status": "False", "lastTransitionTime": now, "reason": "Malformed",
            "message": "spec.x: 1 is not allowed: 2", "observedGeneration": 4,
        });
        assert_eq!(status["conditions"], json!([shown]));
        assert_eq!(status["usage"], there["usage"]);
        // Said again, it says the same.
        let mut again = status.clone();
        refuse(&mut again, Kind::IpPool, &refusal, "2026-04-04T00:00:00Z");
        complete(&mut again, &status, Observed::AsBefore);
        assert!(says(&status, &again));
        // Of an object that the ledger knows nothing of, nothing else is said.
        let mut empty = Value::Null;
        refuse(&mut empty, Kind::Egress, &refusal, now);
        assert_eq!(empty["conditions"][0]["type"], "IPAllocated");
        assert_eq!(empty.as_object().map(Map::len), Some(1));
    }
}
