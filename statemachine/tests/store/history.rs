use std::sync::Arc;

use holdfast_statemachine::change::Cause;
use holdfast_statemachine::command::{Action, PutSettings};
use holdfast_statemachine::row::Holder;
use holdfast_statemachine::store::{Interval, Subject};
use holdfast_statemachine::{PoolKind, Store, StoreError};

use crate::fixture::{address, bind, entry, grant, open, position, put_egress, put_node, put_pool, release, reserve};

fn apply(store: &Store, index: u64, actions: Vec<Action>) {
    store.apply(&entry(index, actions), &position(index)).unwrap();
}

fn settings(rows: Option<u64>, age: Option<u64>) -> Action {
    Action::PutSettings(PutSettings { history_rows: rows, history_age: age, ..PutSettings::default() })
}

/// `(who, index of the entry that began it, index of the one that ended it)`.
fn brief(interval: &Interval) -> (String, Option<u64>, Option<u64>) {
    let who = match &interval.subject {
        Subject::Held { address, holder, .. } => format!("{address} held by {holder}"),
        Subject::Carried { address, egress, node } => format!("{address} of {egress} on {node}"),
        Subject::Bound { ordinal, pod, .. } => format!("{ordinal} bound to {}", pod.uid),
    };
    (who, interval.from.as_ref().map(|edge| edge.index), interval.to.as_ref().map(|edge| edge.index))
}

fn of(text: &str, from: Option<u64>, to: Option<u64>) -> (String, Option<u64>, Option<u64>) {
    (text.to_owned(), from, to)
}

#[test]
fn who_held_an_address() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    apply(&store, 1, vec![put_pool(PoolKind::IpPool, 0)]);
    apply(&store, 2, vec![grant("first", 0), grant("other", 0)]);
    apply(&store, 3, vec![release("first")]);
    apply(&store, 4, vec![grant("second", 0)]);
    let intervals = store.history_of_address(address(2), None, 100).unwrap();
    let expected = vec![of("10.0.0.2 held by second", Some(4), None), of("10.0.0.2 held by first", Some(2), Some(3))];
    assert_eq!(intervals.iter().map(brief).collect::<Vec<_>>(), expected);
    let ended = intervals[1].to.as_ref().unwrap();
    assert_eq!(ended.at, 1_001_500);
    assert!(matches!(&ended.cause, Some(Cause::Command { name, .. }) if &**name == "ReleaseGrant"));

    let owner = store.history_of_owner("named/first", None, 100).unwrap();
    assert_eq!(owner.iter().map(brief).collect::<Vec<_>>(), expected[1..]);
    assert_eq!(store.history_of_owner("named/nobody", None, 100).unwrap(), []);
}

#[test]
fn where_an_egress_was_and_what_a_node_carried() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    apply(&store, 1, vec![put_pool(PoolKind::ExternalIpPool, 0), put_node(0, true)]);
    apply(&store, 2, vec![put_egress(0)]);
    apply(&store, 3, vec![put_node(1, true), put_node(0, false)]);
    apply(&store, 4, vec![put_node(1, false)]);
    let carried = |intervals: Vec<Interval>| -> Vec<_> {
        let carried = intervals.iter().filter(|interval| matches!(interval.subject, Subject::Carried { .. }));
        carried.map(brief).collect()
    };
    let on = |node: &str, from, to| of(&format!("10.1.0.1 of egress-0 on {node}"), from, to);
    let both = vec![on("node-1", Some(3), Some(4)), on("node-0", Some(2), Some(3))];
    let address = "10.1.0.1".parse().unwrap();
    assert_eq!(carried(store.history_of_address(address, None, 100).unwrap()), both);
    assert_eq!(carried(store.history_of_owner("egress/egress-0", None, 100).unwrap()), both);
    assert_eq!(carried(store.history_of_owner("node/node-0", None, 100).unwrap()), both[1..]);
    assert_eq!(carried(store.history_of_owner("node/node-1", None, 100).unwrap()), both[..1]);
}

#[test]
fn what_an_ordinal_held_and_which_pods_it_had() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    apply(&store, 1, vec![put_pool(PoolKind::IpPool, 0), reserve(0, 2)]);
    apply(&store, 2, vec![bind(0, 1, "former")]);
    apply(&store, 3, vec![bind(0, 1, "newer")]);
    let intervals = store.history_of_owner("statefulset/default/set-0/1", None, 100).unwrap();
    let expected = [
        of("1 bound to newer", Some(3), None),
        of("1 bound to former", Some(2), Some(3)),
        of("10.0.0.3 held by StatefulSet default/set-0 ordinal 1", Some(1), None),
    ];
    assert_eq!(intervals.iter().map(brief).collect::<Vec<_>>(), expected);
    let pod = store.history_of_owner("pod/default/set-0-1", None, 100).unwrap();
    assert_eq!(pod.iter().map(brief).collect::<Vec<_>>(), expected[..2]);
}

/// More than one run of the index, pages, reopening, and then the bounds.
#[test]
fn a_long_history_is_found_page_by_page_and_dropped_by_its_bounds() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    apply(&store, 1, vec![put_pool(PoolKind::IpPool, 0), grant("lasting", 0), grant("ended", 0)]);
    for index in 2..=1_700 {
        apply(&store, index, vec![grant("a", 0), release("a")]);
    }
    for round in 0..2 {
        let all = store.history_of_owner("named/a", None, usize::MAX).unwrap();
        assert_eq!(all.len(), 1_699, "round {round}");
        let expected = |index| of("10.0.0.4 held by a", Some(index), Some(index));
        assert!(all.iter().map(brief).eq((2..=1_700).rev().map(expected)));
        let mut pages = Vec::new();
        let mut before = None;
        loop {
            let page = store.history_of_owner("named/a", before, 400).unwrap();
            let Some(last) = page.last() else { break };
            before = last.from.as_ref().map(|edge| edge.revision);
            assert!(page.len() <= 400);
            pages.extend(page);
        }
        assert_eq!(pages, all);
        drop(store);
        store = open(dir.path());
    }

    // By count: at most 1,000 an entry are dropped.
    apply(&store, 1_701, vec![settings(Some(1_000), None)]);
    assert_eq!(store.history_extent().first, 1_001);
    apply(&store, 1_702, vec![]);
    assert_eq!(store.history_extent().count(), 1_402);
    apply(&store, 1_703, vec![release("ended")]);
    let store = Arc::new(store);
    assert_eq!(store.history_extent().count(), 1_000);
    assert_eq!(store.check().unwrap(), store.meta());
    let oldest = store.history_extent().first;
    assert!(matches!(store.changes(oldest - 2, 5), Err(StoreError::TooOld { oldest: o, .. }) if o == oldest));
    let changes = store.changes(oldest - 1, usize::MAX).unwrap();
    assert!(changes.iter().map(|change| change.revision).eq(oldest..oldest + 1_000));

    // What began before the history: known from its row while it lasts, and not known once it ended.
    let lasting = store.history_of_owner("named/lasting", None, 10).unwrap();
    assert_eq!(lasting.iter().map(brief).collect::<Vec<_>>(), [of("10.0.0.2 held by lasting", Some(1), None)]);
    assert_eq!(lasting[0].from.as_ref().unwrap().cause, None);
    assert_eq!(store.history_of_address(address(2), None, 10).unwrap(), lasting);
    let ended = store.history_of_owner("named/ended", None, 10).unwrap();
    assert_eq!(ended.iter().map(brief).collect::<Vec<_>>(), [of("10.0.0.3 held by ended", None, Some(1_703))]);

    // By age: everything, but for what the entry itself adds.
    let mut late = entry(1_705, vec![settings(None, Some(60_000))]);
    late.proposed_at += 10_000_000;
    store.apply(&late, b"").unwrap();
    assert_eq!(store.history_extent().count(), 1);
    assert_eq!(store.check().unwrap(), store.meta());
    let Subject::Held { holder: Holder::Named { name, .. }, .. } = &lasting[0].subject else { panic!("{lasting:?}") };
    assert_eq!(&**name, "lasting");
}

#[test]
fn changes_resume_without_a_gap() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut all = Vec::new();
    for index in 1..200 {
        let actions = vec![put_pool(PoolKind::IpPool, 0), grant(&format!("owner-{index}"), 0)];
        all.extend(store.apply(&entry(index, actions), b"").unwrap().changes);
    }
    for limit in [1, 7, 1_000] {
        let mut seen = Vec::new();
        loop {
            let page = store.changes(seen.len() as u64, limit).unwrap();
            if page.is_empty() {
                break;
            }
            assert!(page.len() <= limit);
            seen.extend(page);
        }
        assert_eq!(seen, all);
    }
    assert_eq!(store.changes(10_000, 5).unwrap(), []);
}
