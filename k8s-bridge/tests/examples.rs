//! The examples that users try first must read without a word.

use std::collections::BTreeMap;
use std::path::Path;

use holdfast_bridge::objects::Kind;
use holdfast_bridge::{manifests, translate};
use holdfast_statemachine::command::{Contiguity, PutEgress, PutNode, Reserve};
use holdfast_statemachine::{Action, Source};

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
