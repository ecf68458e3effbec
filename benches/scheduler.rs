//! How long placement takes, at the sizes that the project promises.

use std::hint::black_box;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use holdfast_statemachine::Name;
use holdfast_statemachine::command::Selector;
use holdfast_statemachine::row::{CreationKey, Policy};
use holdfast_statemachine::scheduler::{AddressInput, NodeInput, Scheduler};

const LARGE_NODES: usize = 10_000;
const LARGE_EGRESSES: u32 = 100_000;
const LOST: [&str; 4] = ["node-11", "node-2222", "node-5003", "node-9999"];
const LOST_LOAD: u32 = 250;

fn node(ready: bool, capacity: u32) -> NodeInput {
    NodeInput { labels: [].into(), ready, drained: false, capacity: Some(capacity) }
}

fn ip(i: u32) -> IpAddr {
    IpAddr::from((0x0a00_0000 + i).to_be_bytes())
}

fn address(i: u32, at: Option<&str>) -> AddressInput {
    let egress: Name = format!("egress-{i}").into();
    let created = CreationKey { seconds: i64::from(i / 10), revision: 0, name: egress.clone() };
    AddressInput { egress, order: (created, 0), pool: "pool".into(), at: at.map(|node| (node.into(), false)) }
}

fn cluster(policy: Policy, nodes: usize, capacity: u32) -> Scheduler {
    let mut scheduler = Scheduler::new(policy, 255);
    scheduler.put_pool(&"pool".into(), &Selector::default());
    for i in 0..nodes {
        scheduler.put_node(&format!("node-{i}").into(), node(true, capacity));
    }
    scheduler
}

/// 10,000 Nodes of 12 addresses at most, four of 250; 100,000 Egresses, 1,000 of them on the four.
fn large(policy: Policy) -> Scheduler {
    let mut scheduler = cluster(policy, LARGE_NODES, 12);
    for lost in LOST {
        scheduler.put_node(&lost.into(), node(true, LOST_LOAD));
    }
    for i in 0..LARGE_EGRESSES {
        // The rest goes where the policy says.
        let at = LOST.get((i / LOST_LOAD) as usize).filter(|_| i < 4 * LOST_LOAD);
        scheduler.put_address(ip(i), address(i, at.copied()));
    }
    scheduler.settle();
    for lost in LOST {
        assert_eq!(scheduler.load(lost), LOST_LOAD);
    }
    assert_eq!(scheduler.homeless_count(), 0);
    scheduler
}

/// Everything from nothing, with the ring there: what Antrea's agents do at each change.
fn full_schedule(c: &mut Criterion) {
    for nodes in [1_000, 100] {
        let mut scheduler = cluster(Policy::ConsistentHash, nodes, 10);
        for i in 0..1_000 {
            scheduler.put_address(ip(i), address(i, None));
        }
        assert_eq!(scheduler.recompute().len(), 1_000);
        let mut capacity = 255;
        c.bench_function(&format!("full schedule, 1,000 Egresses, {nodes} Nodes, consistent-hash"), |b| {
            b.iter(|| {
                // Nothing is recomputed when nothing changed: change the capacity of Nodes that do not say, of which
                // there are none.
                capacity = 265 - capacity;
                scheduler.set_default_capacity(capacity);
                black_box(scheduler.recompute())
            });
        });
    }
}

fn one_added(c: &mut Criterion) {
    for policy in [Policy::Sticky, Policy::Spread] {
        let mut scheduler = large(policy);
        let mut next = LARGE_EGRESSES;
        c.bench_function(&format!("one Egress added to 100,000 on 10,000 Nodes, {policy:?}"), |b| {
            b.iter_custom(|iterations| {
                let mut taken = Duration::ZERO;
                for _ in 0..iterations {
                    next += 1;
                    let input = address(next, None);
                    let start = Instant::now();
                    scheduler.put_address(ip(next), input);
                    black_box(scheduler.settle());
                    taken += start.elapsed();
                    scheduler.remove_address(ip(next));
                }
                taken
            });
        });
    }
}

fn four_nodes_lost(c: &mut Criterion) {
    for policy in [Policy::Sticky, Policy::Spread] {
        let scheduler = large(policy);
        let mut group = c.benchmark_group("four Nodes of 250 addresses lost, for all 1,000");
        group.sample_size(20);
        group.bench_function(format!("{policy:?}"), |b| {
            b.iter_batched_ref(
                || scheduler.clone(),
                |scheduler| {
                    for lost in LOST {
                        scheduler.put_node(&lost.into(), node(false, LOST_LOAD));
                    }
                    let decisions = scheduler.settle();
                    assert_eq!(decisions.len(), 1_000);
                    decisions
                },
                BatchSize::PerIteration,
            );
        });
    }
}

fn one_node(c: &mut Criterion) {
    let mut scheduler = large(Policy::Sticky);
    let extra: Name = "extra".into();
    c.bench_function("one empty Node joins and leaves 10,000", |b| {
        b.iter(|| {
            scheduler.put_node(&extra, node(true, 12));
            scheduler.settle();
            scheduler.remove_node(&extra);
            black_box(scheduler.settle())
        });
    });
    c.bench_function("a drain of 250 addresses tried, 100,000 on 10,000 Nodes", |b| {
        b.iter(|| black_box(scheduler.drain_leaves(LOST[0])));
    });
}

criterion_group!(benches, full_schedule, one_added, four_nodes_lost, one_node);
criterion_main!(benches);
