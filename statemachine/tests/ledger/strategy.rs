//! Random histories over a small world: few names, pools of few addresses, Nodes with little room, so that
//! identities are used again, pools run dry, and waits, pins and drains meet each other.

use std::net::IpAddr;

use holdfast_statemachine::adopt::{Adopt, AdoptItem, AdoptedBy, Mode};
use holdfast_statemachine::command::{
    Contiguity, DeleteEgress, DeleteNode, DeletePool, Drain, EgressItem, Gone, Grant, ObjectId, Observe, Observed,
    Owner, OwnerRef, Pin, PodOwner, PutEgress, PutNode, PutPool, PutSettings, RangeSpec, Rebalance, ReleaseGrant,
    ReleaseReservation, Reserve, ReserveSpec, Retention, Selector, StatefulSetId, Subnet, Sweep, Undrain, Unpin,
};
use holdfast_statemachine::row::Policy;
use holdfast_statemachine::{Action, Command, Entry, Millis, Name, PoolId, PoolKind, Source};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// Milliseconds after the entry before, and the commands.
pub type Step = (Millis, Vec<Command>);

/// The entries of a history.
pub fn entries(steps: &[Step]) -> Vec<Entry> {
    let mut time = 1_000_000;
    let mut entries = Vec::new();
    for (i, (after, commands)) in (1_u64..).zip(steps) {
        time += after;
        entries.push(Entry { index: i * 2, term: 1, proposed_at: time, commands: commands.clone() });
    }
    entries
}

/// A history: the world as it usually is, then anything. `batch`: the most commands an entry has.
pub fn history(batch: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = (after(), vec(command(), usize::from(batch == 1)..=batch));
    let succession = prop_oneof![Just(Vec::new()), succession(batch)];
    (prelude(), vec(step, 1..40), succession, any::<prop::sample::Index>()).prop_map(
        |(mut all, mut steps, succession, at)| {
            let at = at.index(steps.len());
            steps.splice(at..at, succession);
            all.extend(steps);
            all
        },
    )
}

fn after() -> impl Strategy<Value = Millis> {
    prop_oneof![6 => Just(0), 2 => Just(500), 1 => Just(1_000), 1 => Just(6_000)]
}

/// A StatefulSet with Pods, those that come after it under its name, and the ends of its Pods before and behind them:
/// what a history of single commands seldom comes to. `batch`: the most commands an entry has.
fn succession(batch: usize) -> impl Strategy<Value = Vec<Step>> {
    let of = |id: StatefulSetId| {
        let pods = || (Just(id.clone()), 0..5_u32, prop_oneof![4 => Just(1), 1 => Just(2)]);
        let bind = || (pods(), just_pools()).prop_map(|((id, n, g), pools)| bind(id, n, g, pools));
        let unbind = pods().prop_map(|(id, n, g)| {
            let name = format!("{}-{n}", id.name);
            let (uid, owner) = (format!("{name}.{g}").into(), OwnerRef::Pod(id.namespace, name.into()));
            Action::ReleaseGrant(ReleaseGrant { owner, uid, revision: None })
        });
        let release = (Just(id.clone()), successor())
            .prop_map(|(id, uid)| Action::ReleaseReservation(ReleaseReservation { id, uid }));
        let reserve = |size| {
            let rules = (retention(), deletion(), Just(true));
            reserve_of(Just(id.clone()), successor(), size, just_pools(), Just(Vec::new()), rules)
        };
        let first = (reserve((Just(0), 3..6_u32, Just(0)).boxed()), vec(bind(), 1..5));
        let size = (prop_oneof![4 => Just(0), 1 => 1..3_u32], 0..5_u32, Just(0)).boxed();
        let then = prop_oneof![5 => reserve(size), 1 => release, 6 => unbind, 1 => bind()];
        (first, vec((after(), then), 2..12))
    };
    stateful_set().prop_flat_map(of).prop_map(move |((first, pods), then)| {
        let begin = std::iter::once(first).chain(pods).map(|action| (0, action));
        let mut steps: Vec<Step> = Vec::new();
        for (after, action) in begin.chain(then) {
            let command = Command { source: Source::Kubernetes, only_in_term: None, action };
            match steps.last_mut() {
                Some((_, commands)) if after == 0 && commands.len() < batch => commands.push(command),
                _ => steps.push((after, vec![command])),
            }
        }
        steps
    })
}

/// The UID of one of the StatefulSets that follow one another.
fn successor() -> impl Strategy<Value = Name> {
    prop_oneof![3 => Just(name("u1")), 2 => Just(name("u2")), 1 => Just(name("u3"))]
}

/// Pools with room, mostly.
fn just_pools() -> impl Strategy<Value = Vec<Name>> {
    prop_oneof![6 => Just(vec![name("a")]), 2 => Just(vec![name("a"), name("c")]), 1 => Just(Vec::new())]
}

fn prelude() -> impl Strategy<Value = Vec<Step>> {
    let kubernetes = |action: Action| Command { source: Source::Kubernetes, only_in_term: None, action };
    let pools = vec(put_pool(), 0..7);
    let nodes = vec(put_node(), 0..5);
    let end = Just(Action::Adopt(Adopt::End));
    let adoption = (option::weighted(0.4, mode()), vec(held(), 0..4), option::weighted(0.8, end));
    (pools, nodes, adoption).prop_map(move |(pools, nodes, (mode, held, end))| {
        let begin = mode.map(|mode| Action::Adopt(Adopt::Begin { mode }));
        let (held, end) = if begin.is_some() { (held, end) } else { (Vec::new(), None) };
        let begin_and_declare = begin.into_iter().chain(pools).chain(nodes);
        begin_and_declare.chain(held).chain(end).map(|action| (0, vec![kubernetes(action)])).collect()
    })
}

pub fn command() -> impl Strategy<Value = Command> {
    let source = prop_oneof![
        12 => Just(Source::Kubernetes),
        1 => Just(Source::Api),
        1 => Just(Source::Manifests("set".into())),
    ];
    let term = prop_oneof![30 => Just(None), 3 => Just(Some(1)), 1 => Just(Some(2))];
    (source, term, action()).prop_map(|(source, only_in_term, action)| Command { source, only_in_term, action })
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => put_pool(),
        2 => (pool_id(), uid()).prop_map(|(pool, uid)| Action::DeletePool(DeletePool { pool, uid })),
        8 => reserve(),
        2 => (stateful_set(), uid()).prop_map(|(id, uid)| Action::ReleaseReservation(ReleaseReservation { id, uid })),
        6 => grant_pod(),
        3 => grant_named(),
        4 => release_grant(),
        8 => put_egress(),
        2 => (egress(), uid()).prop_map(|(name, uid)| Action::DeleteEgress(DeleteEgress { name, uid })),
        6 => put_node(),
        1 => (node(), uid()).prop_map(|(name, uid)| Action::DeleteNode(DeleteNode { name, uid })),
        1 => (node(), any::<bool>()).prop_map(|(node, force)| Action::Drain(Drain { node, force })),
        1 => node().prop_map(|node| Action::Undrain(Undrain { node })),
        2 => (egress(), option::of(external_address()), node())
            .prop_map(|(egress, address, node)| Action::Pin(Pin { egress, address, node })),
        1 => (egress(), option::of(external_address()))
            .prop_map(|(egress, address)| Action::Unpin(Unpin { egress, address })),
        1 => (0..4_u32, option::weighted(0.2, 0..60_u64))
            .prop_map(|(max_moves, at)| Action::Rebalance(Rebalance { max_moves, at })),
        2 => put_settings(),
        2 => sweep(),
        2 => observe(),
        1 => mode().prop_map(|mode| Action::Adopt(Adopt::Begin { mode })),
        4 => held(),
        2 => Just(Action::Adopt(Adopt::End)),
    ]
}

fn name(text: &str) -> Name {
    text.into()
}

fn one_of(names: &'static [&'static str]) -> impl Strategy<Value = Name> {
    select(names).prop_map(name)
}

fn uid() -> impl Strategy<Value = Name> {
    prop_oneof![8 => Just(name("u1")), 1 => Just(name("u2"))]
}

fn node() -> impl Strategy<Value = Name> {
    one_of(&["node1", "node2", "node3", "node4"])
}

fn egress() -> impl Strategy<Value = Name> {
    one_of(&["e1", "e2", "e3", "e4", "e5"])
}

fn stateful_set() -> impl Strategy<Value = StatefulSetId> {
    one_of(&["s", "t"]).prop_map(|name| StatefulSetId { namespace: "n".into(), name })
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address of this world")
}

fn address_of(texts: &'static [&'static str]) -> impl Strategy<Value = IpAddr> {
    select(texts).prop_map(address)
}

const V4: &[&str] = &["10.0.0.10", "10.0.0.11", "10.0.0.12", "10.0.0.13", "10.0.0.15", "10.0.0.20", "10.0.0.99"];
const V6: &[&str] = &["fd00::10", "fd00::11", "fd00::12", "fd00::2"];

fn external_address() -> impl Strategy<Value = IpAddr> {
    address_of(&["10.1.0.1", "10.1.0.2", "10.1.0.9", "10.1.0.16", "10.1.0.17", "fd01::1"])
}

fn pool_id() -> impl Strategy<Value = PoolId> {
    select(POOLS).prop_map(|(kind, name, ..)| PoolId { kind, name: name.into() })
}

const IP: PoolKind = PoolKind::IpPool;
const EX: PoolKind = PoolKind::ExternalIpPool;

type Described = (PoolKind, &'static str, &'static str, &'static [&'static [&'static str]]);

/// Kind, name, gateway, and the ranges that it may have.
const POOLS: &[Described] = &[
    (
        IP,
        "a",
        "10.0.0.1",
        &[
            &["10.0.0.10-10.0.0.17"],
            &["10.0.0.10-10.0.0.13"],
            &["10.0.0.14-10.0.0.16", "10.0.0.10-10.0.0.12"],
            &["10.0.0.0/29"],
            &["10.0.0.12-10.0.0.21"],
        ],
    ),
    (
        IP,
        "b",
        "10.0.0.1",
        &[&["10.0.0.20-10.0.0.25"], &["10.0.0.24/30", "10.0.0.20-10.0.0.21"], &["10.0.0.17-10.0.0.20"]],
    ),
    (IP, "c", "fd00::1", &[&["fd00::10-fd00::17"], &["fd00::/125"], &["fd00::10-fd00::12"]]),
    (IP, "d", "fd00::1", &[&["fd00::20-fd00::23"], &["fd00::16-fd00::21"]]),
    (EX, "x", "", &[&["10.1.0.0/29"], &["10.1.0.8-10.1.0.9", "10.1.0.0/30"], &["10.1.0.2-10.1.0.4"]]),
    (EX, "y", "10.1.0.17", &[&["10.1.0.16-10.1.0.19"], &["10.1.0.18-10.1.0.18"], &["10.1.0.4-10.1.0.5"]]),
    (EX, "z", "", &[&["fd01::/126"], &["fd00::22-fd00::23"]]),
];

fn range_spec(text: &str) -> RangeSpec {
    match text.split_once('-') {
        Some((start, end)) => RangeSpec::StartEnd(start.into(), end.into()),
        None => RangeSpec::Cidr(text.into()),
    }
}

fn put_pool() -> impl Strategy<Value = Action> {
    let cool_down = prop_oneof![2 => Just(0), 1 => Just(1_000)];
    let zone = prop_oneof![3 => Just(None), 1 => Just(Some("a"))];
    (select(POOLS), any::<prop::sample::Index>(), uid(), cool_down, zone, prop::bool::weighted(0.03)).prop_map(
        |((kind, name, gateway, variants), variant, uid, cool_down, zone, broken)| {
            let ranges = variants[variant.index(variants.len())].iter().map(|text| range_spec(text)).collect();
            let prefix_length = if gateway.contains(':') { 64 } else { 24 };
            let subnet = (!gateway.is_empty()).then(|| Subnet {
                gateway: (*gateway).into(),
                prefix_length: if broken { 23 } else { prefix_length },
                vlan: None,
            });
            let mut node_selector = Selector::default();
            if kind == EX {
                node_selector.match_labels.extend(zone.map(|zone| ("zone".into(), zone.into())));
            }
            let pool = PoolId { kind, name: name.into() };
            Action::PutPool(PutPool { pool, uid, ranges, subnet, node_selector, cool_down })
        },
    )
}

fn ip_pools() -> impl Strategy<Value = Vec<Name>> {
    const LISTS: &[&[&str]] =
        &[&["a"], &["b"], &["a", "b"], &["b", "a"], &["a", "c"], &["c"], &["c", "d", "b"], &["a", "none"], &[]];
    select(LISTS).prop_map(|list| list.iter().copied().map(name).collect())
}

fn fixed() -> impl Strategy<Value = Vec<IpAddr>> {
    let list = |texts: &'static [&'static str]| proptest::sample::subsequence(texts, 0..3).prop_shuffle();
    prop_oneof![
        5 => Just(Vec::new()),
        1 => list(V4).prop_map(|texts| texts.into_iter().map(address).collect()),
        1 => (list(V4), list(V6)).prop_map(|(a, b)| a.into_iter().chain(b).map(address).collect()),
    ]
}

fn retention() -> impl Strategy<Value = Retention> {
    select(
        &[Retention::Release, Retention::Retain, Retention::After(1_000), Retention::After(5_000), Retention::After(0)]
            [..],
    )
}

/// What a `when_deleted` may be.
fn deletion() -> impl Strategy<Value = Retention> {
    select(&[Retention::Release, Retention::After(1_000), Retention::After(5_000), Retention::After(0)][..])
}

fn reserve() -> impl Strategy<Value = Action> {
    let size = (prop_oneof![4 => Just(0), 1 => 1..3_u32], 0..6_u32, prop_oneof![2 => Just(0), 1 => 1..4_u32]);
    let rules = (retention(), retention(), prop::bool::weighted(0.7));
    reserve_of(stateful_set(), uid(), size, ip_pools(), fixed(), rules)
}

/// `size`: first ordinal, replicas, headroom. `rules`: when scaled, when deleted, whether it is settled.
fn reserve_of(
    id: impl Strategy<Value = StatefulSetId>,
    uid: impl Strategy<Value = Name>,
    size: impl Strategy<Value = (u32, u32, u32)>,
    pools: impl Strategy<Value = Vec<Name>>,
    fixed: impl Strategy<Value = Vec<IpAddr>>,
    rules: impl Strategy<Value = (Retention, Retention, bool)>,
) -> impl Strategy<Value = Action> {
    let contiguity = prop_oneof![3 => Just(Contiguity::Preferred), 1 => Just(Contiguity::Required)];
    (id, uid, size, pools, fixed, contiguity, rules).prop_map(
        |(id, uid, (start, replicas, headroom), pools, fixed, contiguity, (when_scaled, when_deleted, settled))| {
            let spec =
                ReserveSpec { start, replicas, pools, fixed, headroom, contiguity, when_scaled, when_deleted, settled };
            Action::Reserve(Reserve { id, uid, spec })
        },
    )
}

fn pod(ordinal: Option<(StatefulSetId, u32)>, name: String, generation: u32) -> PodOwner {
    let uid = format!("{name}.{generation}").into();
    PodOwner { namespace: "n".into(), name: name.into(), uid, container_id: None, interface: None, ordinal }
}

fn generation() -> impl Strategy<Value = u32> {
    prop_oneof![4 => Just(1), 1 => 2..4_u32]
}

/// Binds a Pod of a StatefulSet.
fn bind(id: StatefulSetId, ordinal: u32, generation: u32, pools: Vec<Name>) -> Action {
    let name = format!("{}-{ordinal}", id.name);
    let owner = Owner::Pod(pod(Some((id, ordinal)), name, generation));
    Action::Grant(Grant { owner, kind: IP, pools, addresses: Vec::new() })
}

fn grant_pod() -> impl Strategy<Value = Action> {
    let of_set = (stateful_set(), 0..5_u32, generation(), prop::bool::weighted(0.05)).prop_map(|(id, n, g, moved)| {
        let name = format!("{}-{n}", id.name);
        pod(Some((id, if moved { n + 1 } else { n })), name, g)
    });
    let alone = (0..3_u32, generation()).prop_map(|(n, g)| pod(None, format!("s-{n}"), g));
    (prop_oneof![4 => of_set, 1 => alone], ip_pools(), vec(address_of(V4), 0..2)).prop_map(|(pod, pools, addresses)| {
        let addresses = if pod.ordinal.is_some() { Vec::new() } else { addresses };
        Action::Grant(Grant { owner: Owner::Pod(pod), kind: IP, pools, addresses })
    })
}

fn grant_named() -> impl Strategy<Value = Action> {
    let asked = prop_oneof![
        3 => Just(Vec::new()),
        2 => address_of(V4).prop_map(|a| vec![a]),
        1 => (address_of(V4), address_of(V6)).prop_map(|(a, b)| vec![a, b]),
        1 => external_address().prop_map(|a| vec![a]),
    ];
    let pools = prop_oneof![
        4 => ip_pools().prop_map(|pools| (IP, pools)),
        1 => one_of(&["x", "y", "z"]).prop_map(|pool| (EX, vec![pool])),
    ];
    (one_of(&["vm1", "vm2", "vm3"]), one_of(&["", "1"]), pools, asked).prop_map(
        |(name, uid, (kind, pools), addresses)| {
            Action::Grant(Grant { owner: Owner::Named { name, uid }, kind, pools, addresses })
        },
    )
}

fn release_grant() -> impl Strategy<Value = Action> {
    let revision = prop_oneof![8 => Just(None), 1 => (1..60_u64).prop_map(Some)];
    let owner = prop_oneof![
        1 => (one_of(&["vm1", "vm2", "vm3"]), one_of(&["", "1"])).prop_map(|(name, uid)| (OwnerRef::Named(name), uid)),
        3 => (one_of(&["s", "t"]), 0..5_u32, generation()).prop_map(|(set, n, g)| {
            let name = format!("{set}-{n}");
            let uid = format!("{name}.{g}").into();
            (OwnerRef::Pod("n".into(), name.into()), uid)
        }),
    ];
    (owner, revision).prop_map(|((owner, uid), revision)| Action::ReleaseGrant(ReleaseGrant { owner, uid, revision }))
}

fn put_egress() -> impl Strategy<Value = Action> {
    let asked = || option::weighted(0.3, external_address());
    let one = (one_of(&["x", "x", "x", "y", "z", "none"]), asked())
        .prop_map(|(pool, address)| vec![EgressItem { pool: Some(pool), address }]);
    let pair = (one_of(&["x", "z"]), one_of(&["y", "x"]), asked(), asked()).prop_map(|(a, b, of_a, of_b)| {
        vec![EgressItem { pool: Some(a), address: of_a }, EgressItem { pool: Some(b), address: of_b }]
    });
    let fixed = external_address().prop_map(|address| vec![EgressItem { pool: None, address: Some(address) }]);
    let items = prop_oneof![5 => one, 3 => pair, 1 => fixed];
    let created = prop_oneof![Just(None), (1..4_i64).prop_map(Some)];
    let rest = one_of(&["", "", "", "{}"]);
    (egress(), uid(), created, any::<bool>(), items, rest).prop_map(|(name, uid, created, plural, items, rest)| {
        Action::PutEgress(PutEgress { name, uid, created, plural: plural || items.len() > 1, items, rest })
    })
}

fn put_node() -> impl Strategy<Value = Action> {
    let capacity = select(&[None, Some(2), Some(1), Some(3), Some(0), Some(-1), Some(300)][..]);
    let zone = prop_oneof![2 => Just("a"), 1 => Just("b")];
    let os = prop_oneof![6 => Just(None), 2 => Just(Some("linux")), 1 => Just(Some("windows"))];
    (node(), uid(), zone, os, prop::bool::weighted(0.8), capacity).prop_map(|(name, uid, zone, os, ready, capacity)| {
        let mut labels: std::collections::BTreeMap<Name, Name> = std::collections::BTreeMap::new();
        labels.insert("zone".into(), zone.into());
        labels.extend(os.map(|os| ("kubernetes.io/os".into(), os.into())));
        Action::PutNode(PutNode { name, uid, labels, ready, capacity })
    })
}

fn put_settings() -> impl Strategy<Value = Action> {
    let policy = option::of(prop_oneof![
        3 => Just(Policy::Sticky),
        1 => Just(Policy::Spread),
        1 => Just(Policy::ConsistentHash),
    ]);
    let default_capacity = option::of(prop_oneof![6 => 1..4_u32, 1 => Just(0), 1 => Just(256)]);
    (policy, default_capacity).prop_map(|(policy, default_capacity)| {
        Action::PutSettings(PutSettings { policy, default_capacity, history_rows: None, history_age: None })
    })
}

fn sweep() -> impl Strategy<Value = Action> {
    let object = prop_oneof![
        pool_id().prop_map(ObjectId::Pool),
        stateful_set().prop_map(ObjectId::Reservation),
        egress().prop_map(ObjectId::Egress),
        node().prop_map(ObjectId::Node),
    ];
    let named = (object, uid());
    let pod = (one_of(&["s-0", "s-1", "t-0"]), generation()).prop_map(|(name, g)| {
        let uid: Name = format!("{name}.{g}").into();
        (ObjectId::Pod("n".into(), name), uid)
    });
    let since = prop_oneof![1 => 0..60_u64, 2 => Just(u64::MAX)];
    let gone = (prop_oneof![3 => named, 1 => pod], since).prop_map(|((object, uid), unchanged_since)| Gone {
        object,
        uid,
        unchanged_since,
    });
    vec(gone, 0..4).prop_map(|gone| Action::Sweep(Sweep { gone }))
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![2 => Just(Mode::Standalone), 1 => Just(Mode::Antrea)]
}

fn owner_pod() -> impl Strategy<Value = PodOwner> {
    (one_of(&["s", "t"]), 0..4_u32, generation()).prop_map(|(set, n, g)| pod(None, format!("{set}-{n}"), g))
}

fn adopted_address() -> impl Strategy<Value = AdoptItem> {
    let at = prop_oneof![
        6 => (one_of(&["a", "b"]), address_of(V4)).prop_map(|(name, address)| (PoolId { kind: IP, name }, address)),
        2 => (one_of(&["c", "none"]), address_of(V6)).prop_map(|(name, address)| (PoolId { kind: IP, name }, address)),
        1 => (one_of(&["x", "y"]), external_address()).prop_map(|(name, address)| (PoolId { kind: EX, name }, address)),
    ];
    let running = (option::weighted(0.5, generation()), prop::bool::weighted(0.1));
    let ordinal =
        (stateful_set(), uid(), 0..4_u32, running, ip_pools()).prop_map(|(id, uid, ordinal, (g, moved), pools)| {
            let pod = g.map(|g| pod(None, format!("{}-{}", id.name, ordinal + u32::from(moved)), g));
            AdoptedBy::Ordinal { id, uid, ordinal, pod, pools }
        });
    let named = (one_of(&["vm1", "vm2"]), one_of(&["", "1"]))
        .prop_map(|(name, uid)| AdoptedBy::Owner(Owner::Named { name, uid }));
    let by = prop_oneof![5 => ordinal, 1 => named, 2 => owner_pod().prop_map(|pod| AdoptedBy::Owner(Owner::Pod(pod)))];
    (at, by).prop_map(|((pool, address), by)| AdoptItem::Address { pool, address, by })
}

fn adopted_egress() -> impl Strategy<Value = AdoptItem> {
    let placed = vec((external_address(), node()), 0..3);
    (put_egress(), vec(external_address(), 0..3), placed).prop_map(|(put, chosen, placed)| {
        let Action::PutEgress(put) = put else { unreachable!("it declares an Egress") };
        AdoptItem::Egress { put, chosen, placed }
    })
}

fn held() -> impl Strategy<Value = Action> {
    let item = prop_oneof![3 => adopted_address(), 1 => adopted_egress()];
    vec(item, 0..8).prop_map(|items| Action::Adopt(Adopt::Held(items)))
}

fn observe() -> impl Strategy<Value = Action> {
    let owner = || (one_of(&["o1", "o2"]), option::weighted(0.5, (stateful_set(), 0..5_u32)));
    let v4 = (one_of(&["a", "b"]), vec((address_of(V4), owner()), 0..5));
    let v6 = (one_of(&["c", "none"]), vec((address_of(V6), owner()), 0..3));
    prop_oneof![3 => v4, 1 => v6].prop_map(|(pool, entries)| {
        let observed = |(address, (owner, ordinal))| Observed { address, owner, ordinal };
        Action::Observe(Observe { pool, entries: entries.into_iter().map(observed).collect() })
    })
}
