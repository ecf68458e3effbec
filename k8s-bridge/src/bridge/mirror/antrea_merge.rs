//! Mode `antrea`: a list, and what is to be added to it and taken from it. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use holdfast_statemachine::command::StatefulSetId;
use serde_json::{Map, Value};

use super::cut;
use crate::bridge::observe::{Added, OrdinalId};

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
    pub added: Vec<Added>,
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn id(name: &str) -> StatefulSetId {
        StatefulSetId { namespace: "db".into(), name: name.into() }
    }

    fn missing(set: &str, index: u32, last: u8, since: u64) -> Missing {
        Missing { address: [10, 0, 0, last].into(), of: (id(set), index), entry: entry(set, index, last), since }
    }

    fn entry(set: &str, index: u32, last: u8) -> Value {
        json!({
            "ipAddress": format!("10.0.0.{last}"),
            "phase": "Reserved",
            "owner": {"statefulSet": {"name": set, "namespace": "db", "index": index}},
        })
    }

    /// Others' entries: odd, wrong, and not to be touched.
    fn foreign() -> Vec<Value> {
        vec![
            json!({"ipAddress": "010.0.0.3", "owner": {}}),
            json!({"ipAddress": "10.0.0.9", "phase": "Allocated", "owner": {"pod": {
                "containerID": "c9", "name": "p", "namespace": "db", "ifName": "eth0"}}, "of": "tomorrow"}),
            json!({"ipAddress": "10.0.0.4", "phase": "Preallocated", "owner": {"pod": null}}),
        ]
    }

    fn status(list: &[Value]) -> Value {
        json!({"ipAddresses": list, "usage": {"total": 10, "used": 3}, "more": [1, {"b": null}]})
    }

    /// What; the list; places released; missing; held back; the list after.
    type Row = (&'static str, Vec<Value>, Vec<usize>, Vec<Missing>, Vec<&'static str>, Option<Vec<Value>>);

    #[test]
    fn a_table() {
        let [odd, pod, old] = <[Value; 3]>::try_from(foreign()).expect("three");
        let e = entry;
        let m = missing;
        let rows: Vec<Row> = vec![
            ("nothing to do", vec![odd.clone(), pod.clone()], vec![], vec![], vec![], None),
            ("nothing there", vec![], vec![], vec![m("s", 0, 2, 1)], vec![], Some(vec![e("s", 0, 2)])),
            (
                "added behind all else, by address",
                vec![odd.clone(), pod.clone(), old.clone()],
                vec![],
                vec![m("s", 1, 6, 1), m("t", 0, 5, 2), m("s", 0, 7, 1)],
                vec![],
                Some(vec![odd.clone(), pod.clone(), old.clone(), e("t", 0, 5), e("s", 1, 6), e("s", 0, 7)]),
            ),
            (
                "taken away where it is",
                vec![odd.clone(), e("s", 0, 5), pod.clone(), e("s", 1, 6), old.clone()],
                vec![1, 3],
                vec![],
                vec![],
                Some(vec![odd.clone(), pod.clone(), old.clone()]),
            ),
            (
                "an address that passes from one to another",
                vec![pod.clone(), e("s", 0, 5), old.clone()],
                vec![1],
                vec![m("t", 0, 5, 3)],
                vec![],
                Some(vec![pod.clone(), old.clone(), e("t", 0, 5)]),
            ),
            (
                "held back whole",
                vec![pod.clone()],
                vec![],
                vec![m("s", 0, 5, 1), m("s", 1, 6, 1), m("t", 0, 7, 2)],
                vec!["s"],
                Some(vec![pod.clone(), e("t", 0, 7)]),
            ),
            ("all held back", vec![pod.clone()], vec![], vec![m("s", 0, 5, 1)], vec!["s"], None),
        ];
        for (what, list, released, missing, held_back, expected) in rows {
            let released = released.into_iter().collect();
            let held_back = held_back.into_iter().map(id).collect();
            let merged = merge(&status(&list), &released, missing, &held_back, cut::LARGEST);
            assert_eq!(merged.status, expected.map(|list| status(&list)), "{what}");
            assert_eq!(merged.too_large, BTreeMap::new(), "{what}");
        }
    }

    #[test]
    fn what_is_not_there_is_made_and_nothing_else() {
        for there in [Value::Null, json!({}), json!({"ipAddresses": null})] {
            let merged = merge(&there, &BTreeSet::new(), vec![missing("s", 0, 2, 1)], &BTreeSet::new(), cut::LARGEST);
            assert_eq!(merged.status, Some(json!({"ipAddresses": [entry("s", 0, 2)]})), "{there}");
        }
    }

    #[test]
    fn a_reservation_that_does_not_fit_waits_whole_and_a_smaller_one_goes_by() {
        let there = status(&foreign());
        let all = || vec![missing("s", 0, 5, 1), missing("s", 1, 6, 1), missing("t", 0, 7, 2)];
        let one = cut::bytes(&entry("s", 0, 5)) + 1;
        let room = |entries: usize| {
            let largest = cut::bytes(&there) + entries * one;
            let merged = merge(&there, &BTreeSet::new(), all(), &BTreeSet::new(), largest);
            if let Some(status) = &merged.status {
                assert!(cut::bytes(status) <= largest);
            }
            let added: Vec<_> = merged.added.iter().map(|(_, (id, _), _)| id.name.to_string()).collect();
            (added.join(" "), merged.too_large.into_iter().map(|(id, count)| (id.name.to_string(), count)).collect())
        };
        let waits = |sets: &[(&str, usize)]| sets.iter().map(|(set, n)| ((*set).to_owned(), *n)).collect::<Vec<_>>();
        assert_eq!(room(0), (String::new(), waits(&[("s", 2), ("t", 1)])));
        assert_eq!(room(1), ("t".to_owned(), waits(&[("s", 2)])));
        assert_eq!(room(2), ("s s".to_owned(), waits(&[("t", 1)])));
        assert_eq!(room(3), ("s s t".to_owned(), waits(&[])));
    }
}
