//! What applying one entry costs a large ledger.
//!
//! `cargo bench --bench ledger`

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use holdfast_statemachine::command::{
    Contiguity, DeleteEgress, EgressItem, Grant, Owner, PutEgress, PutNode, PutPool, RangeSpec, ReleaseGrant,
    ReleaseReservation, Reserve, ReserveSpec, Retention, Selector, StatefulSetId, Subnet,
};
use holdfast_statemachine::row::{PoolId, PoolKind};
use holdfast_statemachine::{Action, Applied, Command, Entry, Ledger, Source};

const NODES: usize = 10_000;
const EGRESSES: usize = 100_000;

fn entry(index: u64, actions: Vec<Action>) -> Entry {
    let command = |action| Command { source: Source::Api, only_in_term: None, action };
    Entry { index, term: 1, proposed_at: index, commands: actions.into_iter().map(command).collect() }
}

/// A ledger and the index of its next entry.
struct Bench {
    ledger: Ledger,
    index: u64,
}

impl Bench {
    fn new() -> Bench {
        Bench { ledger: Ledger::new(), index: 0 }
    }

    fn apply(&mut self, actions: Vec<Action>) -> Applied {
        self.index += 1;
        self.ledger.apply(&entry(self.index, actions))
    }

    /// As `apply`, but only the time that the ledger takes.
    fn timed(&mut self, actions: Vec<Action>) -> (Duration, Applied) {
        self.index += 1;
        let entry = entry(self.index, actions);
        let start = Instant::now();
        let applied = black_box(self.ledger.apply(black_box(&entry)));
        (start.elapsed(), applied)
    }
}

fn pool(kind: PoolKind, name: &str, cidr: &str, subnet: Option<Subnet>) -> Action {
    Action::PutPool(PutPool {
        pool: PoolId { kind, name: name.into() },
        uid: "u".into(),
        ranges: vec![RangeSpec::Cidr(cidr.into())],
        subnet,
        node_selector: Selector::default(),
        cool_down: 0,
    })
}

fn node(name: &str, ready: bool) -> Action {
    Action::PutNode(PutNode { name: name.into(), uid: "u".into(), labels: BTreeMap::new(), ready, capacity: Some(250) })
}

fn egress(name: &str) -> Action {
    Action::PutEgress(PutEgress {
        name: name.into(),
        uid: "u".into(),
        created: Some(0),
        plural: false,
        items: vec![EgressItem { pool: Some("external".into()), address: None }],
        rest: "".into(),
    })
}

/// 100,000 Egresses on 10,000 Nodes; the first four Nodes carry 250 each.
fn large() -> Bench {
    let mut bench = Bench::new();
    bench.apply(vec![pool(PoolKind::ExternalIpPool, "external", "10.0.0.0/12", None)]);
    for first in (0..EGRESSES).step_by(1_000) {
        // Four Nodes alone take the first thousand; then the others join.
        let joining = if first == 0 { 0..4 } else { (first - 1_000) / 10 + 4..(first / 10 + 4).min(NODES) };
        bench.apply(joining.map(|n| node(&format!("node-{n}"), true)).collect());
        bench.apply((first..first + 1_000).map(|n| egress(&format!("egress-{n}"))).collect());
    }
    let left = (EGRESSES - 1_000) / 10 + 4..NODES;
    bench.apply(left.map(|n| node(&format!("node-{n}"), true)).collect());
    let load = |n: usize| bench.ledger.load(&format!("node-{n}").into()).map_or(0, |(carried, _)| carried);
    assert_eq!((0..4).map(load).collect::<Vec<_>>(), [250; 4]);
    assert_eq!(bench.ledger.tables().placements().len(), EGRESSES);
    bench
}

fn egress_added(c: &mut Criterion, bench: &mut Bench) {
    c.bench_function("one Egress added to 100,000 on 10,000 Nodes", |b| {
        b.iter_custom(|times| {
            let mut spent = Duration::ZERO;
            for _ in 0..times {
                let (took, applied) = bench.timed(vec![egress("added")]);
                assert_eq!(applied.outcomes.len(), 1);
                spent += took;
                let delete = DeleteEgress { name: "added".into(), uid: "u".into() };
                bench.apply(vec![Action::DeleteEgress(delete)]);
            }
            spent
        });
    });
}

/// Per moved address: four Nodes are lost in one entry. They come back empty, so each time another ledger loses them.
fn nodes_lost(c: &mut Criterion, bench: &Bench) {
    let mut group = c.benchmark_group("four Nodes of 250 lost");
    group.sample_size(10);
    group.bench_function("per moved address", |b| {
        b.iter_custom(|times| {
            let mut spent = Duration::ZERO;
            for _ in 0..times {
                let mut lost = Bench { ledger: bench.ledger.clone(), index: bench.index };
                let (took, applied) = lost.timed((0..4).map(|n| node(&format!("node-{n}"), false)).collect());
                let moved = applied.changes.len() - 4;
                assert_eq!(moved, 1_000);
                spent += took / 1_000;
            }
            spent
        });
    });
    group.finish();
}

fn grants(c: &mut Criterion) {
    let mut bench = Bench::new();
    let subnet = Subnet { gateway: "10.0.0.1".into(), prefix_length: 8, vlan: None };
    bench.apply(vec![pool(PoolKind::IpPool, "pods", "10.0.0.0/8", Some(subnet))]);
    let mut n = 0u64;
    c.bench_function("64 grants in one entry", |b| {
        b.iter_custom(|times| {
            let mut spent = Duration::ZERO;
            for _ in 0..times {
                let names: Vec<String> = (n..n + 64).map(|n| format!("vm-{n}")).collect();
                n += 64;
                let grant = |name: &String| {
                    Action::Grant(Grant {
                        owner: Owner::Named { name: name.as_str().into(), uid: "".into() },
                        kind: PoolKind::IpPool,
                        pools: vec!["pods".into()],
                        addresses: Vec::new(),
                    })
                };
                spent += bench.timed(names.iter().map(grant).collect()).0;
                let release = |name: &String| {
                    let owner = holdfast_statemachine::command::OwnerRef::Named(name.as_str().into());
                    Action::ReleaseGrant(ReleaseGrant { owner, uid: "".into(), revision: None })
                };
                if n.is_multiple_of(2) {
                    bench.apply(names.iter().map(release).collect());
                }
            }
            spent
        });
    });
}

/// A block of 64 reserved in a /12 of which half is taken at random; the one free run of 64 is near its end.
fn block(c: &mut Criterion) {
    let mut bench = Bench::new();
    let subnet = Subnet { gateway: "10.0.0.1".into(), prefix_length: 12, vlan: None };
    bench.apply(vec![pool(PoolKind::IpPool, "pods", "10.0.0.0/12", Some(subnet))]);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let first = u32::from_be_bytes([10, 0, 0, 2]);
    let hole = u32::from_be_bytes([10, 15, 250, 0]);
    let mut asked = Vec::new();
    let mut run = 0;
    for address in first..u32::from_be_bytes([10, 15, 255, 254]) {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let free = (hole..hole + 64).contains(&address);
        run = if random >> 63 == 0 { run + 1 } else { 0 };
        if !free && (run == 0 || run > 60) {
            run = 0;
            asked.push(address);
        }
    }
    for some in asked.chunks(1_000) {
        let grant = |address: &u32| {
            Action::Grant(Grant {
                owner: Owner::Named { name: format!("vm-{address}").into(), uid: "".into() },
                kind: PoolKind::IpPool,
                pools: vec!["pods".into()],
                addresses: vec![std::net::Ipv4Addr::from(*address).into()],
            })
        };
        bench.apply(some.iter().map(grant).collect());
    }
    let id = StatefulSetId { namespace: "default".into(), name: "web".into() };
    let spec = ReserveSpec {
        start: 0,
        replicas: 64,
        pools: vec!["pods".into()],
        fixed: Vec::new(),
        headroom: 0,
        contiguity: Contiguity::Required,
        when_scaled: Retention::Retain,
        when_deleted: Retention::Release,
        settled: true,
    };
    c.bench_function("reserve a block of 64 in a /12 half taken at random", |b| {
        b.iter_custom(|times| {
            let mut spent = Duration::ZERO;
            for _ in 0..times {
                let reserve = Reserve { id: id.clone(), uid: "u".into(), spec: spec.clone() };
                let (took, applied) = bench.timed(vec![Action::Reserve(reserve)]);
                spent += took;
                let outcome = applied.outcomes[0].as_ref().expect("reserved");
                assert_eq!(outcome.granted[0].count, 64);
                let release = ReleaseReservation { id: id.clone(), uid: "u".into() };
                bench.apply(vec![Action::ReleaseReservation(release)]);
            }
            spent
        });
    });
}

fn ledger(c: &mut Criterion) {
    grants(c);
    block(c);
    let mut bench = large();
    egress_added(c, &mut bench);
    nodes_lost(c, &bench);
}

criterion_group!(benches, ledger);
criterion_main!(benches);
