//! The examples that users try first must read without a word.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use holdfast_bridge::objects::Kind;
use holdfast_bridge::{export, manifests, translate};
use holdfast_statemachine::command::{Contiguity, PutEgress, PutNode, Reserve, StatefulSetId};
use holdfast_statemachine::ledger::Holding;
use holdfast_statemachine::{Action, Applied, Entry, Ledger, Source};

fn examples() -> manifests::Manifests {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/examples");
    manifests::read(&[directory], &mut std::io::empty()).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

#[test]
fn the_examples_are_a_cluster() {
    let manifests = examples();
    assert_eq!(manifests.notes, Vec::<String>::new());
    let mut count = BTreeMap::new();
    for object in manifests.objects() {
        *count.entry(object.kind()).or_insert(0) += 1;
    }
    let expected = [
        (Kind::Namespace, 2),
        (Kind::IpPool, 3),
        (Kind::ExternalIpPool, 3),
        (Kind::Node, 5),
        (Kind::Pod, 4),
        (Kind::StatefulSet, 3),
        (Kind::Egress, 6),
    ];
    assert_eq!(count, expected.into());
}

#[test]
fn the_examples_show_what_their_comments_say() {
    let manifests = examples();
    let plan = translate::plan(manifests.objects(), &Source::Manifests("examples".into()), None).expect("plans");
    assert_eq!(plan.notes, []);
    // All but the Namespaces and the Pod of no StatefulSet.
    assert_eq!((manifests.objects.len(), plan.commands.len()), (26, 23));
    let mut nodes = BTreeMap::<String, PutNode>::new();
    let mut sets = BTreeMap::<String, Reserve>::new();
    let mut egresses = BTreeMap::<String, PutEgress>::new();
    for command in plan.commands {
        match command.action {
            Action::PutNode(put) => drop(nodes.insert(put.name.to_string(), put)),
            Action::Reserve(reserve) => drop(sets.insert(reserve.id.to_string(), reserve)),
            Action::PutEgress(put) => drop(egresses.insert(put.name.to_string(), put)),
            _ => {}
        }
    }
    assert_eq!(nodes["gateway-1"].capacity, Some(2));
    let not_ready: Vec<&String> = nodes.iter().filter(|(_, node)| !node.ready).map(|(name, _)| name).collect();
    assert_eq!(not_ready, ["worker-3"]);
    assert_eq!(sets["shop/postgres"].spec.pools, ["pods-v4".into(), "pods-v6".into()]);
    assert_eq!(sets["shop/kafka"].spec.pools, ["pods-v4".into()]);
    assert_eq!((sets["shop/kafka"].spec.headroom, sets["shop/kafka"].spec.start), (2, 1));
    let redis = &sets["cache/redis"].spec;
    assert_eq!((redis.contiguity, redis.replicas), (Contiguity::Required, 12));
    assert_eq!((egresses["mirror"].plural, egresses["mirror"].items.len()), (true, 2));
    assert!(egresses["legacy"].items[0].pool.is_none());
}

/// The ledger after one entry with the commands of these manifests, and what the entry changed.
fn applied(ledger: &mut Ledger, manifests: &manifests::Manifests, index: u64) -> Applied {
    let source = Source::Manifests("examples".into());
    let commands = translate::plan(manifests.objects(), &source, None).expect("plans").commands;
    let applied = ledger.apply(&Entry { index, term: 1, proposed_at: 1_796_025_600_000 + index, commands });
    for outcome in &applied.outcomes {
        assert!(outcome.is_ok(), "{outcome:?}");
    }
    applied
}

#[test]
fn the_examples_come_to_what_their_comments_say() {
    let mut ledger = Ledger::new();
    applied(&mut ledger, &examples(), 1);
    let tables = ledger.tables();
    let held = |namespace: &str, name: &str| {
        let id = StatefulSetId { namespace: namespace.into(), name: name.into() };
        let text = |holding: Holding| format!("{} {}", holding.ordinal, holding.address);
        ledger.holdings(&id).into_iter().map(text).collect::<Vec<_>>()
    };
    assert_eq!(
        held("shop", "postgres"),
        ["0 10.20.0.10", "0 fd00:20::2", "1 10.20.0.11", "1 fd00:20::3", "2 10.20.0.12", "2 fd00:20::4"]
    );
    assert_eq!(held("shop", "kafka"), ["1 10.20.0.13", "2 10.20.0.14", "3 10.20.0.15", "4 10.20.0.16"]);
    assert_eq!(held("cache", "redis"), Vec::<String>::new());
    let waiting: Vec<String> = tables
        .reservations()
        .iter()
        .filter_map(|(id, row)| row.waiting.as_ref().map(|(_, waiting)| format!("{id} {}", waiting[0])))
        .collect();
    assert_eq!(
        waiting,
        ["cache/redis no pool has a long enough block of IPv4 addresses; IPPool cache-v4: 12 needed, 16 \
                          free, largest free run 8"]
    );
    let unplaced: Vec<String> = tables
        .egresses()
        .values()
        .flat_map(|row| row.items.iter().filter_map(|item| item.granted().map(|ip| (&row.created.name, ip))))
        .filter(|(_, ip)| !tables.placements().contains_key(ip))
        .map(|(name, ip)| format!("{name} {ip}"))
        .collect();
    assert_eq!(unplaced, ["lab-tests 192.0.2.10"]);
    let mirror: BTreeSet<_> =
        tables.placements().values().filter(|row| &*row.egress == "mirror").map(|row| &row.node).collect();
    assert_eq!(mirror.len(), 2);
}

#[test]
fn what_is_exported_of_the_examples_changes_nothing_when_it_is_applied() {
    let mut ledger = Ledger::new();
    applied(&mut ledger, &examples(), 1);
    let list = export::list(&ledger, "examples");
    for text in [export::to_yaml(&list), export::to_json(&list)] {
        let text = text.expect("is text");
        assert!(text.contains("no Node can carry 192.0.2.10: 1 NotReady, 4 SelectorMismatch"), "{text}");
        let again = manifests::read_text("export", &text).unwrap_or_else(|problems| panic!("{problems:#?}"));
        assert_eq!(again.objects.len(), 12);
        assert_eq!(applied(&mut ledger, &again, 2).changes, []);
        assert_eq!(applied(&mut ledger, &examples(), 3).changes, []);
    }
}

#[test]
fn what_the_files_no_longer_have_is_deleted() {
    let mut ledger = Ledger::new();
    applied(&mut ledger, &examples(), 1);
    let source = Source::Manifests("examples".into());
    let gone = translate::gone(ledger.tables(), &source, &BTreeMap::new());
    // Two Namespaces are nothing to the ledger, and one Pod is not in it.
    assert_eq!(gone.len(), 23);
    let commands = translate::deletions(&gone, &source, None);
    let applied = ledger.apply(&Entry { index: 2, term: 1, proposed_at: 1_796_025_700_000, commands });
    assert!(applied.outcomes.iter().all(|outcome| outcome.as_ref().is_ok_and(|outcome| outcome.changed)));
    assert_eq!(translate::gone(ledger.tables(), &source, &BTreeMap::new()), []);
    let mut left = ledger.tables().grants().values().map(|grant| grant.holder.to_string());
    // `when-deleted: 1h` keeps what postgres's Pods had.
    assert!(left.all(|holder| holder.starts_with("StatefulSet shop/postgres")));
}

/// The examples with one text changed, in one file.
fn changed(file: &str, from: &str, to: &str) -> manifests::Manifests {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/examples").join(file);
    let text = std::fs::read_to_string(path).expect("is there");
    assert_eq!(text.matches(from).count(), 1, "{from} in {file}");
    manifests::read_text(file, &text.replace(from, to)).expect("reads")
}

#[test]
fn what_the_comments_invite_to_does_what_they_say() {
    let mut ledger = Ledger::new();
    applied(&mut ledger, &examples(), 1);
    let first_of = |ledger: &Ledger, namespace: &str, name: &str| {
        let id = StatefulSetId { namespace: namespace.into(), name: name.into() };
        let held = ledger.holdings(&id);
        (held.first().map(|holding| holding.address.to_string()).unwrap_or_default(), held.len())
    };
    // Read alone, the file misses the Namespace's annotation: the Namespaces go along.
    let mut grown = examples();
    let sets = changed("40-statefulsets.yaml", "  replicas: 4\n", "  replicas: 6\n");
    grown.objects.retain(|placed| placed.object.kind() == Kind::Namespace);
    grown.objects.extend(sets.objects);
    applied(&mut ledger, &grown, 2);
    assert_eq!(first_of(&ledger, "shop", "kafka"), ("10.20.0.13".to_owned(), 6));
    let last = ledger.tables().grants().keys().filter(|address| address.is_ipv4()).nth(8).map(ToString::to_string);
    assert_eq!(last.as_deref(), Some("10.20.0.18"));

    let moved = applied(&mut ledger, &changed("20-nodes.yaml", "status: Unknown", "status: \"True\""), 3);
    let placed = ledger.tables().placements().values().filter(|row| &*row.egress == "lab-tests");
    assert_eq!(placed.map(|row| &*row.node).collect::<Vec<_>>(), ["worker-3"]);
    assert_eq!(moved.changes.len(), 2, "the Node, and one address: {:#?}", moved.changes);

    for (from, to, held) in [("contiguous: required", "contiguous: preferred", 12), ("replicas: 12", "replicas: 8", 8)]
    {
        let mut ledger = Ledger::new();
        applied(&mut ledger, &examples(), 1);
        applied(&mut ledger, &changed("40-statefulsets.yaml", &format!("{from}\n"), &format!("{to}\n")), 2);
        assert_eq!(first_of(&ledger, "cache", "redis"), ("10.30.0.8".to_owned(), held), "{to}");
    }
}
