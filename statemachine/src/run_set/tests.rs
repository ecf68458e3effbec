use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{FULL, Node, RunSet};

impl RunSet {
    /// Checks the tree's own rules, and returns its depth.
    fn check(&self) -> usize {
        fn walk(node: &Node, is_root: bool) -> usize {
            assert!(node.len() <= FULL);
            match node {
                Node::Leaf(runs) => {
                    assert!(is_root || !runs.is_empty());
                    1
                }
                Node::Inner(children) => {
                    assert!(children.len() >= if is_root { 2 } else { 1 });
                    let depths: BTreeSet<usize> = children
                        .iter()
                        .map(|child| {
                            assert_eq!(Some(child.first), child.node.first());
                            assert_eq!(Some(child.span), child.node.span());
                            walk(&child.node, false)
                        })
                        .collect();
                    assert_eq!(depths.len(), 1, "all leaves are equally deep");
                    depths.first().expect("one depth") + 1
                }
            }
        }
        let runs: Vec<_> = self.runs().collect();
        assert!(runs.iter().all(|(first, last)| first <= last));
        assert!(runs.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0), "ascending, and no two touch");
        walk(&self.root, true)
    }
}

/// Numbers of the naive model: a window of this many, put where the tree's edges are.
const WINDOW: u128 = 200;

#[derive(Clone, Debug)]
enum Step {
    Insert(u128, u128),
    Remove(u128, u128),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (any::<bool>(), 0..WINDOW, prop_oneof![4 => Just(0u128), 2 => 0u128..4, 1 => 0u128..60]);
    let step = step.prop_map(|(insert, first, more)| {
        let last = (first + more).min(WINDOW - 1);
        if insert { Step::Insert(first, last) } else { Step::Remove(first, last) }
    });
    proptest::collection::vec(step, 1..250)
}

fn naive_runs(naive: &BTreeSet<u128>) -> Vec<(u128, u128)> {
    let mut runs: Vec<(u128, u128)> = Vec::new();
    for &x in naive {
        match runs.last_mut() {
            Some((_, last)) if x - *last == 1 => *last = x,
            _ => runs.push((x, x)),
        }
    }
    runs
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn agrees_with_a_plain_set(base in prop_oneof![Just(0), Just(u128::MAX - WINDOW + 1), Just(1 << 64)],
                               full in any::<bool>(), steps in steps()) {
        let mut set = RunSet::new();
        let mut naive = BTreeSet::new();
        if full {
            set.insert(base, base + (WINDOW - 1));
            naive.extend(base..=base + (WINDOW - 1));
        }
        for step in steps {
            match step {
                Step::Insert(first, last) => {
                    let before = naive.len();
                    naive.extend(base + first..=base + last);
                    prop_assert_eq!(set.insert(base + first, base + last), naive.len() > before);
                }
                Step::Remove(first, last) => {
                    let before = naive.len();
                    naive.retain(|x| !(base + first..=base + last).contains(x));
                    prop_assert_eq!(set.remove(base + first, base + last), naive.len() < before);
                }
            }
            set.check();
            let runs = naive_runs(&naive);
            prop_assert_eq!(set.runs().collect::<Vec<_>>(), runs.clone());
            prop_assert_eq!(set.count(), naive.len() as u128);
            prop_assert_eq!(set.longest(), runs.iter().map(|(first, last)| last - first + 1).max().unwrap_or(0));
            prop_assert_eq!(set.is_empty(), naive.is_empty());
        }
        for from in (0..WINDOW).map(|x| base + x) {
            prop_assert_eq!(set.contains(from), naive.contains(&from));
            let run = naive_runs(&naive).into_iter().find(|&(first, last)| first <= from && from <= last);
            prop_assert_eq!(set.run_at(from), run);
            for n in [1u128, 2, 3, 5, 8, 30] {
                let fits = |s: u128| (0..n).all(|i| s.checked_add(i).is_some_and(|x| naive.contains(&x)));
                let lowest = naive.range(from..).copied().find(|&s| fits(s));
                prop_assert_eq!(set.lowest_run(n, from), lowest, "{} from {}", n, from);
            }
        }
    }
}

#[test]
fn many_runs_are_deep_and_all_go_again() {
    let mut set = RunSet::new();
    set.insert(0, 9_999);
    // Every other number, in an order that jumps about.
    for i in 0..5_000u128 {
        let x = 2 * ((i * 1_999) % 5_000);
        set.remove(x, x);
    }
    assert!(set.check() >= 5);
    assert_eq!((set.count(), set.longest()), (5_000, 1));
    set.insert(9_000, 9_000);
    assert_eq!(set.lowest_run(3, 0), Some(8_999));
    assert_eq!(set.lowest_run(3, 9_000), None);
    assert_eq!(set.lowest_run(2, 9_000), Some(9_000));
    for i in 0..10_000u128 {
        let x = (i * 3_001) % 10_000;
        set.remove(x, x);
    }
    assert_eq!((set.check(), set.count(), set.longest()), (1, 0, 0));
}

#[test]
fn all_numbers_and_the_ends() {
    let mut set = RunSet::new();
    set.insert(0, u128::MAX);
    assert_eq!((set.count(), set.longest()), (u128::MAX, u128::MAX));
    assert_eq!(set.lowest_run(u128::MAX, 0), Some(0));
    assert_eq!(set.lowest_run(u128::MAX, 1), Some(1));
    assert_eq!(set.lowest_run(u128::MAX, 2), None);
    set.remove(u128::MAX, u128::MAX);
    assert_eq!((set.count(), set.longest()), (u128::MAX, u128::MAX));
    set.remove(0, 0);
    assert_eq!(set.count(), u128::MAX - 1);
    set.insert(u128::MAX, u128::MAX);
    set.insert(0, 0);
    assert_eq!(set.runs().collect::<Vec<_>>(), [(0, u128::MAX)]);
    set.remove(0, u128::MAX);
    assert!(set.is_empty());
    assert_eq!((set.count(), set.longest(), set.lowest_run(1, 0)), (0, 0, None));
}

#[test]
fn nothing_is_nothing() {
    let mut set = RunSet::new();
    set.insert(5, 4);
    assert!(set.is_empty());
    set.insert(1, 9);
    set.remove(5, 4);
    assert_eq!(set.runs().collect::<Vec<_>>(), [(1, 9)]);
    assert_eq!(set.lowest_run(0, 0), None);
}
