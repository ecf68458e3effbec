//! Random work for a ledger, and stores to do it in.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use holdfast_statemachine::command::{
    Action, Contiguity, DeleteEgress, DeletePool, Drain, EgressItem, Grant, Owner, OwnerRef, PodOwner, PutEgress,
    PutNode, PutPool, PutSettings, RangeSpec, ReleaseGrant, ReleaseReservation, Reserve, ReserveSpec, Retention,
    Selector, StatefulSetId, Subnet, Undrain,
};
use holdfast_statemachine::store::{Opened, Options};
use holdfast_statemachine::{Command, Entry, Name, PoolId, PoolKind, Source, Store};
use proptest::prelude::*;

/// Opens a store that is expected to be whole.
pub fn open(dir: &Path) -> Store {
    let Opened { store, set_aside } = Store::open(dir, options()).unwrap();
    assert!(set_aside.is_none(), "{set_aside:?}");
    store
}

pub fn options() -> Options {
    Options { cache_bytes: 8 << 20, now_seconds: 1_700_000_000, ..Options::default() }
}

pub fn name(text: &str) -> Name {
    Name::from(text)
}

fn text(prefix: &str, n: u8) -> Name {
    Name::from(format!("{prefix}{n}"))
}

pub fn address(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

pub fn pool_id(kind: PoolKind, name: &str) -> PoolId {
    PoolId { kind, name: Name::from(name) }
}

/// An IPPool of 10.0.N.0/24, or an ExternalIPPool of 10.1.N.0/24.
pub fn put_pool(kind: PoolKind, n: u8) -> Action {
    let second = u8::from(kind == PoolKind::ExternalIpPool);
    let subnet = Subnet { gateway: Name::from(format!("10.0.{n}.1")), prefix_length: 24, vlan: None };
    Action::PutPool(PutPool {
        pool: PoolId { kind, name: text("pool-", n) },
        uid: name("pool"),
        ranges: vec![RangeSpec::Cidr(Name::from(format!("10.{second}.{n}.0/24")))],
        subnet: (kind == PoolKind::IpPool).then_some(subnet),
        node_selector: Selector::default(),
        cool_down: 2_000 * u64::from(n % 2),
    })
}

pub fn grant(owner: &str, pool: u8) -> Action {
    Action::Grant(Grant {
        owner: Owner::Named { name: name(owner), uid: name("") },
        kind: PoolKind::IpPool,
        pools: vec![text("pool-", pool)],
        addresses: Vec::new(),
    })
}

pub fn release(owner: &str) -> Action {
    Action::ReleaseGrant(ReleaseGrant { owner: OwnerRef::Named(name(owner)), uid: name(""), revision: None })
}

pub fn put_node(n: u8, ready: bool) -> Action {
    Action::PutNode(PutNode {
        name: text("node-", n),
        uid: name("node"),
        labels: BTreeMap::new(),
        ready,
        capacity: Some(3),
    })
}

pub fn put_egress(n: u8) -> Action {
    Action::PutEgress(PutEgress {
        name: text("egress-", n),
        uid: name("egress"),
        created: None,
        plural: false,
        items: vec![EgressItem { pool: Some(text("pool-", 0)), address: None }],
        rest: name(""),
    })
}

fn set(n: u8) -> StatefulSetId {
    StatefulSetId { namespace: name("default"), name: text("set-", n) }
}

pub fn reserve(n: u8, replicas: u32) -> Action {
    Action::Reserve(Reserve {
        id: set(n),
        uid: name("set"),
        spec: ReserveSpec {
            start: 0,
            replicas,
            pools: vec![text("pool-", n % 2)],
            fixed: Vec::new(),
            headroom: 2,
            contiguity: Contiguity::Preferred,
            when_scaled: Retention::After(3_000),
            when_deleted: Retention::Release,
            settled: true,
        },
    })
}

pub fn bind(n: u8, ordinal: u32, uid: &str) -> Action {
    Action::Grant(Grant {
        owner: Owner::Pod(PodOwner {
            namespace: name("default"),
            name: Name::from(format!("set-{n}-{ordinal}")),
            uid: name(uid),
            container_id: None,
            interface: None,
            ordinal: Some((set(n), ordinal)),
        }),
        kind: PoolKind::IpPool,
        pools: vec![text("pool-", n % 2)],
        addresses: Vec::new(),
    })
}

pub fn entry(index: u64, actions: Vec<Action>) -> Entry {
    let commands =
        actions.into_iter().map(|action| Command { source: Source::Api, only_in_term: None, action }).collect();
    Entry { index, term: 1, proposed_at: 1_000_000 + index * 500, commands }
}

/// As the caller would give it: any bytes.
pub fn position(index: u64) -> Vec<u8> {
    format!("entry {index}").into_bytes()
}

/// Applies entries after the first `done`.
pub fn apply_all(store: &Store, entries: &[Entry]) {
    for entry in entries {
        store.apply(entry, &position(entry.index)).unwrap();
    }
}

pub fn any_action() -> impl Strategy<Value = Action> {
    let kind = prop_oneof![Just(PoolKind::IpPool), Just(PoolKind::ExternalIpPool)];
    prop_oneof![
        2 => (kind.clone(), 0..2u8).prop_map(|(kind, n)| put_pool(kind, n)),
        1 => (kind, 0..2u8).prop_map(|(kind, n)| Action::DeletePool(DeletePool {
            pool: PoolId { kind, name: text("pool-", n) },
            uid: name("pool"),
        })),
        6 => (0..30u8, 0..2u8).prop_map(|(owner, pool)| grant(&format!("owner-{owner}"), pool)),
        4 => (0..30u8).prop_map(|owner| release(&format!("owner-{owner}"))),
        3 => (0..4u8, 0..6u32).prop_map(|(n, replicas)| reserve(n, replicas)),
        2 => (0..4u8, 0..6u32, 0..3u8).prop_map(|(n, ordinal, uid)| bind(n, ordinal, &format!("uid-{n}-{ordinal}-{uid}"))),
        1 => (0..4u8).prop_map(|n| Action::ReleaseReservation(ReleaseReservation { id: set(n), uid: name("set") })),
        4 => (0..3u8, any::<bool>()).prop_map(|(n, ready)| put_node(n, ready)),
        4 => (0..8u8).prop_map(put_egress),
        2 => (0..8u8).prop_map(|n| Action::DeleteEgress(DeleteEgress { name: text("egress-", n), uid: name("egress") })),
        1 => (0..3u8).prop_map(|n| Action::Drain(Drain { node: text("node-", n), force: true })),
        1 => (0..3u8).prop_map(|n| Action::Undrain(Undrain { node: text("node-", n) })),
    ]
}

/// Entries that begin with two pools of each kind; history of an hour at most.
pub fn any_entries(most: usize) -> impl Strategy<Value = Vec<Entry>> {
    prop::collection::vec(prop::collection::vec(any_action(), 0..8), 1..most).prop_map(|actions| {
        let settings = PutSettings { history_rows: Some(1_000), history_age: Some(60_000), ..PutSettings::default() };
        let first = vec![
            Action::PutSettings(settings),
            put_pool(PoolKind::IpPool, 0),
            put_pool(PoolKind::IpPool, 1),
            put_pool(PoolKind::ExternalIpPool, 0),
        ];
        (1..).zip(std::iter::once(first).chain(actions)).map(|(index, actions)| entry(index, actions)).collect()
    })
}
