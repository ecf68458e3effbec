//! What a grant costs a replica once it is agreed on: applied to the ledger, written to sled with its history, digested.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use holdfast_statemachine::command::{Action, Grant, Owner, PutPool, RangeSpec, Selector, Subnet};
use holdfast_statemachine::store::Options;
use holdfast_statemachine::{Command, Entry, PoolId, PoolKind, Source, Store};

fn entry(index: u64, actions: impl IntoIterator<Item = Action>) -> Entry {
    let commands = actions.into_iter().map(|action| Command { source: Source::Api, only_in_term: None, action });
    Entry { index, term: 1, proposed_at: 1_700_000_000_000 + index, commands: commands.collect() }
}

fn put_pool() -> Action {
    Action::PutPool(PutPool {
        pool: PoolId { kind: PoolKind::IpPool, name: "pool".into() },
        uid: "u".into(),
        ranges: vec![RangeSpec::Cidr("10.0.0.0/8".into())],
        subnet: Some(Subnet { gateway: "10.0.0.1".into(), prefix_length: 8, vlan: None }),
        node_selector: Selector::default(),
        cool_down: 0,
    })
}

fn grant(n: u64) -> Action {
    // Owners in no order, as their names are.
    let name = format!("client-{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    Action::Grant(Grant {
        owner: Owner::Named { name: name.into(), uid: "".into() },
        kind: PoolKind::IpPool,
        pools: vec!["pool".into()],
        addresses: Vec::new(),
    })
}

/// A store that grants, and counts.
struct Granting {
    store: Arc<Store>,
    index: u64,
    granted: u64,
}

impl Granting {
    fn new(dir: &Path) -> Granting {
        let store = Arc::new(Store::open(dir, Options::default()).unwrap().store);
        store.apply(&entry(1, [put_pool()]), &[0; 100]).unwrap();
        Granting { store, index: 1, granted: 0 }
    }

    fn entries(&mut self, entries: u64, grants: u64) -> Duration {
        let made: Vec<_> = (0..entries)
            .map(|_| {
                self.index += 1;
                self.granted += grants;
                entry(self.index, (self.granted - grants..self.granted).map(grant))
            })
            .collect();
        let begin = Instant::now();
        for entry in &made {
            self.store.apply(entry, &[0; 100]).unwrap();
        }
        begin.elapsed()
    }
}

fn apply(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("store/apply");
    for grants in [1, 16, 64] {
        let dir = tempfile::tempdir().unwrap();
        let mut granting = Granting::new(dir.path());
        group.throughput(Throughput::Elements(grants));
        group.bench_function(BenchmarkId::new("grants an entry", grants), |bencher| {
            bencher.iter_custom(|entries| granting.entries(entries, grants));
        });
    }
    group.finish();
}

fn whole(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("snapshot");
    let state = dir.path().join("state");
    let mut granting = Granting::new(&state);
    granting.entries(100_000 / 64, 64);
    let mut group = criterion.benchmark_group("store/100,000 grants");
    group.sample_size(10);
    group.bench_function("snapshot", |bencher| {
        bencher.iter(|| granting.store.begin_snapshot().write_to(&file).unwrap());
    });
    group.bench_function("install", |bencher| bencher.iter(|| granting.store.install(&file).unwrap()));
    group.bench_function("check", |bencher| bencher.iter(|| granting.store.check().unwrap()));
    granting.store.flush().unwrap();
    drop(granting);
    group.bench_function("open", |bencher| {
        bencher.iter(|| Store::open(&state, Options::default()).unwrap());
    });
    group.finish();
}

criterion_group!(benches, apply, whole);
criterion_main!(benches);
