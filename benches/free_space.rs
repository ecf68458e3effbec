//! The one free run of 64 near the end of a /12, half of whose addresses are held one by one at random.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use holdfast_statemachine::Range;
use holdfast_statemachine::command::Contiguity;
use holdfast_statemachine::free_space::{FreeSpace, Pass, Run};

const FIRST: u32 = 0x0a10_0000;
const SIZE: u32 = 1 << 20;
const BLOCK: u32 = 64;
/// Where the free run begins.
const GAP: u32 = SIZE - 5_000;

fn address(offset: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(FIRST + offset))
}

/// Whether the address this far into the pool is held: half of them, but for the gap.
fn held() -> Vec<bool> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut held: Vec<bool> = (0..SIZE)
        .map(|_| {
            // xorshift64: the same pool in every run.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state >> 63 == 1
        })
        .collect();
    let gap = GAP as usize..(GAP + BLOCK) as usize;
    held[gap.clone()].fill(false);
    held[gap.start - 1] = true;
    held[gap.end] = true;
    held
}

fn space(held: &[bool]) -> FreeSpace {
    let range = Range::new(address(0), address(SIZE - 1)).expect("a range");
    let mut space = FreeSpace::new(&[range]);
    for (offset, _) in (0..SIZE).zip(held).filter(|(_, held)| **held) {
        assert!(space.hold(address(offset)));
    }
    space
}

fn find(space: &FreeSpace) -> Run {
    let found = space.search(Pass::Clear, BLOCK, 0, Contiguity::Required).expect("there is one");
    found[0]
}

/// As a bitmap is searched: every window from the lowest, until one is free throughout.
fn find_in_bitmap(held: &[bool]) -> Option<usize> {
    let mut free = 0;
    for (offset, held) in held.iter().enumerate() {
        free = if *held { 0 } else { free + 1 };
        if free == BLOCK as usize {
            return Some(offset + 1 - free);
        }
    }
    None
}

fn benches(c: &mut Criterion) {
    let held = held();
    let mut space = space(&held);
    let expected = Run { first: address(GAP), count: BLOCK };
    assert_eq!(find(&space), expected);
    assert_eq!(find_in_bitmap(&held), Some(GAP as usize));
    let mut group = c.benchmark_group("block of 64 in a /12 half taken at random");

    group.bench_function("find", |b| b.iter(|| find(black_box(&space))));
    group.bench_function("find, take as one, release one by one", |b| {
        b.iter(|| {
            let run = find(&space);
            assert!(space.hold_run(run));
            for i in 0..run.count {
                assert!(space.release(address(GAP + i)));
            }
        });
    });
    group.bench_function("find and take as one", |b| {
        b.iter_custom(|iterations| {
            let mut spent = std::time::Duration::ZERO;
            for _ in 0..iterations {
                let start = std::time::Instant::now();
                let run = find(&space);
                assert!(space.hold_run(run));
                spent += start.elapsed();
                (0..BLOCK).for_each(|i| assert!(space.release(address(GAP + i))));
            }
            spent
        });
    });
    group.bench_function("find and take one by one", |b| {
        b.iter_custom(|iterations| {
            let mut spent = std::time::Duration::ZERO;
            for _ in 0..iterations {
                let start = std::time::Instant::now();
                find(&space);
                (0..BLOCK).for_each(|i| assert!(space.hold(address(GAP + i))));
                spent += start.elapsed();
                (0..BLOCK).for_each(|i| assert!(space.release(address(GAP + i))));
            }
            spent
        });
    });
    group.bench_function("reference: window over a bitmap", |b| {
        b.iter(|| find_in_bitmap(black_box(&held)));
    });
    group.sample_size(10);
    group.bench_function("build from 524,000 held addresses", |b| {
        b.iter_batched(|| (), |()| self::space(&held), BatchSize::PerIteration);
    });
    group.finish();
}

criterion_group!(free_space, benches);
criterion_main!(free_space);
