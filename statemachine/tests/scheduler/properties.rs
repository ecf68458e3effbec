//! Random operations on the scheduler and on the naive one beside it: every decision and every answer is the same.

use std::collections::BTreeMap;

use holdfast_statemachine::command::{Operator, Requirement};
use proptest::prelude::*;

use super::naive::{Address, Naive};
use super::ties::{ALL_POINTS, ONE_POINT, TWENTY_POINTS};
use super::*;

const NODES: usize = 8;
const POOLS: usize = 4;
const ADDRESSES: usize = 20;

#[derive(Clone, Debug)]
enum Operation {
    PutNode(usize, NodeInput),
    RemoveNode(usize),
    PutPool(usize, Selector),
    RemovePool(usize),
    PutAddress { ip: usize, egress: usize, seconds: i64, position: u32, pool: usize },
    RemoveAddress(usize),
    Pin(usize, usize),
    Unpin(usize),
    Rebalance(u32),
    SetPolicy(Policy),
    SetDefaultCapacity(u32),
    EndOfEntry,
    Rebuild,
}

fn node_name(index: usize) -> Name {
    let plain = ["node1", "node2"];
    let all: Vec<&str> = ONE_POINT.into_iter().chain(TWENTY_POINTS).chain(ALL_POINTS).chain(plain).collect();
    name(all[index])
}

fn pool_name(index: usize) -> Name {
    name(&format!("pool-{index}"))
}

fn address_at(index: usize) -> IpAddr {
    // Some of IPv6, whose text has other forms.
    if index.is_multiple_of(4) { ip(&format!("2001:db8::{index:x}")) } else { ip(&format!("10.0.0.{index}")) }
}

fn zone(operator: Operator, values: &[&str]) -> Selector {
    let values = values.iter().map(|value| name(value)).collect();
    let requirement = Requirement { key: name("zone"), operator, values };
    Selector { match_labels: BTreeMap::new(), match_expressions: vec![requirement] }
}

fn selectors() -> impl Strategy<Value = Selector> {
    prop_oneof![
        3 => Just(Selector::default()),
        1 => Just(zone(Operator::In, &["a"])),
        1 => Just(zone(Operator::NotIn, &["a"])),
        1 => Just(zone(Operator::Exists, &[])),
    ]
}

fn node_inputs() -> impl Strategy<Value = NodeInput> {
    let capacity = prop_oneof![2 => Just(None), 4 => (0..6_u32).prop_map(Some), 1 => Just(Some(1_000))];
    let zone = prop_oneof![Just(None), Just(Some("a")), Just(Some("b"))];
    let os = prop_oneof![4 => Just(None), 4 => Just(Some("linux")), 1 => Just(Some("windows"))];
    (capacity, zone, os, prop::bool::weighted(0.85), prop::bool::weighted(0.1)).prop_map(
        |(capacity, zone, os, ready, drained)| {
            let labels = [("zone", zone), ("kubernetes.io/os", os)];
            let labels = labels.into_iter().filter_map(|(key, value)| Some((name(key), name(value?)))).collect();
            NodeInput { labels, ready, drained, capacity }
        },
    )
}

fn policies() -> impl Strategy<Value = Policy> {
    prop_oneof![Just(Policy::Sticky), Just(Policy::Spread), Just(Policy::ConsistentHash)]
}

fn operations() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => (0..NODES, node_inputs()).prop_map(|(node, input)| Operation::PutNode(node, input)),
        2 => (0..NODES).prop_map(Operation::RemoveNode),
        2 => (0..POOLS, selectors()).prop_map(|(pool, selector)| Operation::PutPool(pool, selector)),
        1 => (0..POOLS).prop_map(Operation::RemovePool),
        12 => (0..ADDRESSES, 0..8_usize, 0..4_i64, 0..3_u32, 0..POOLS).prop_map(
            |(ip, egress, seconds, position, pool)| Operation::PutAddress { ip, egress, seconds, position, pool }
        ),
        3 => (0..ADDRESSES).prop_map(Operation::RemoveAddress),
        4 => (0..ADDRESSES, 0..NODES).prop_map(|(ip, node)| Operation::Pin(ip, node)),
        1 => (0..ADDRESSES).prop_map(Operation::Unpin),
        2 => (0..5_u32).prop_map(Operation::Rebalance),
        1 => policies().prop_map(Operation::SetPolicy),
        1 => (0..5_u32).prop_map(Operation::SetDefaultCapacity),
        6 => Just(Operation::EndOfEntry),
        1 => Just(Operation::Rebuild),
    ]
}

struct Pair {
    real: Scheduler,
    naive: Naive,
}

impl Pair {
    fn new(policy: Policy, default_capacity: u32) -> Pair {
        let mut pair = Pair {
            real: Scheduler::new(policy, default_capacity),
            naive: Naive { policy, default_capacity, ..Naive::default() },
        };
        for pool in 0..2 {
            pair.apply(&Operation::PutPool(pool, Selector::default()));
        }
        pair
    }

    fn apply(&mut self, operation: &Operation) {
        let Pair { real, naive } = self;
        match operation {
            Operation::PutNode(node, input) => {
                real.put_node(&node_name(*node), input.clone());
                naive.nodes.insert(node_name(*node), input.clone());
            }
            Operation::RemoveNode(node) => {
                real.remove_node(&node_name(*node));
                naive.nodes.remove(&node_name(*node));
            }
            Operation::PutPool(pool, selector) => {
                real.put_pool(&pool_name(*pool), selector);
                naive.pools.insert(pool_name(*pool), selector.clone());
            }
            Operation::RemovePool(pool) => {
                real.remove_pool(&pool_name(*pool));
                naive.pools.remove(&pool_name(*pool));
            }
            Operation::PutAddress { ip, egress, seconds, position, pool } => {
                let mut input = address(&format!("e{egress}"), *seconds);
                input.order.1 = *position;
                input.pool = pool_name(*pool);
                self.put(address_at(*ip), input);
            }
            Operation::RemoveAddress(ip) => {
                assert_eq!(real.remove_address(address_at(*ip)), naive.remove_address(address_at(*ip)));
            }
            Operation::Pin(ip, node) => {
                let (ip, node) = (address_at(*ip), node_name(*node));
                assert_eq!(real.pin(ip, &node), naive.pin(ip, &node));
            }
            Operation::Unpin(ip) => {
                let ip = address_at(*ip);
                let known = naive.addresses.iter_mut().find(|address| address.ip == ip);
                let was = known.is_some_and(|address| std::mem::take(&mut address.pinned));
                assert_eq!(real.unpin(ip), was);
            }
            Operation::Rebalance(max_moves) => {
                assert_eq!(real.rebalance(*max_moves), naive.rebalance(*max_moves));
            }
            Operation::SetPolicy(policy) => assert_eq!(real.set_policy(*policy), naive.set_policy(*policy)),
            Operation::SetDefaultCapacity(capacity) => {
                real.set_default_capacity(*capacity);
                naive.default_capacity = *capacity;
            }
            Operation::EndOfEntry => assert_eq!(real.recompute(), naive.recompute()),
            Operation::Rebuild => self.rebuild(),
        }
    }

    fn put(&mut self, ip: IpAddr, input: AddressInput) {
        let (node, pinned) = input.at.clone().unzip();
        let pinned = pinned.unwrap_or(false);
        let (egress, order, pool) = (input.egress.clone(), input.order.clone(), input.pool.clone());
        self.naive.put_address(Address { ip, egress, order, pool, node, pinned });
        self.real.put_address(ip, input);
    }

    /// Forgets the scheduler and tells a new one what stands, in another order.
    fn rebuild(&mut self) {
        let mut real = Scheduler::new(self.naive.policy, self.naive.default_capacity);
        for address in self.naive.addresses.iter().rev() {
            let at = address.node.clone().map(|node| (node, address.pinned));
            let (egress, order, pool) = (address.egress.clone(), address.order.clone(), address.pool.clone());
            real.put_address(address.ip, AddressInput { egress, order, pool, at });
        }
        for (node, input) in self.naive.nodes.iter().rev() {
            real.put_node(node, input.clone());
        }
        for (pool, selector) in self.naive.pools.iter().rev() {
            real.put_pool(pool, selector);
        }
        self.real = real;
    }

    /// What sticky and spread decide after a command, and whether they moved only what they had to.
    fn settle(&mut self) {
        let before = self.naive.clone();
        let decisions = self.real.settle();
        assert_eq!(decisions, self.naive.settle());
        for decision in decisions {
            let Some(from) = &decision.from else { continue };
            let at = before.addresses.iter().position(|address| address.ip == decision.ip).unwrap();
            let crowded = before.nodes.get(from).is_some_and(|_| before.load(from) > before.capacity(from));
            let impossible = before.nodes.get(from).is_none_or(|_| before.fails(at, from).is_some());
            assert!(crowded || impossible, "{decision:?} need not have moved");
        }
    }

    fn compare(&mut self) {
        let Pair { real, naive } = self;
        assert_eq!(real.check(), Vec::<String>::new());
        for (at, address) in naive.addresses.iter().enumerate() {
            let placement = address.node.clone().map(|node| (node, address.pinned));
            assert_eq!(real.placement(address.ip), placement);
            let nodes: Vec<_> = naive.nodes.keys().map(|node| (node.clone(), naive.fails(at, node))).collect();
            assert_eq!(real.explain(address.ip).unwrap().nodes, nodes);
        }
        let homeless: Vec<IpAddr> =
            naive.addresses.iter().filter(|address| address.node.is_none()).map(|address| address.ip).collect();
        assert_eq!(real.homeless(), homeless);
        for node in naive.nodes.keys() {
            let on = naive.addresses.iter().filter(|address| address.node.as_ref() == Some(node));
            assert_eq!(real.addresses_on(node), on.map(|address| address.ip).collect::<Vec<_>>());
            assert_eq!(real.capacity(node), Some(naive.capacity(node)));
            assert_eq!(real.load(node), naive.load(node));
            assert_eq!(real.drain_leaves(node), naive.drain_leaves(node), "draining {node}");
            if naive.policy != Policy::ConsistentHash {
                assert!(real.load(node) <= naive.capacity(node));
            }
        }
        assert_eq!(real.check(), Vec::<String>::new(), "drain_leaves leaves all as it was");
    }
}

fn run(policy: Policy, default_capacity: u32, operations: &[Operation]) {
    let mut pair = Pair::new(policy, default_capacity);
    for operation in operations {
        pair.apply(operation);
        pair.settle();
        pair.compare();
    }
    pair.apply(&Operation::EndOfEntry);
    pair.compare();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn sticky_is_naive(default_capacity in 0..5_u32, operations in prop::collection::vec(operations(), 1..50)) {
        run(Policy::Sticky, default_capacity, &operations);
    }

    #[test]
    fn spread_is_naive(default_capacity in 0..5_u32, operations in prop::collection::vec(operations(), 1..50)) {
        run(Policy::Spread, default_capacity, &operations);
    }

    #[test]
    fn consistent_hash_is_naive(
        default_capacity in 0..5_u32,
        operations in prop::collection::vec(operations(), 1..50)
    ) {
        run(Policy::ConsistentHash, default_capacity, &operations);
    }
}

/// Enough Nodes for long walks, full stretches and levels with a few Nodes among many.
#[test]
fn many_nodes_are_as_naive_as_few() {
    for policy in [Policy::Sticky, Policy::Spread, Policy::ConsistentHash] {
        let mut pair = Pair::new(policy, 3);
        for i in 0..60 {
            let node = name(&format!("node-{i}"));
            pair.real.put_node(&node, live((i % 7 == 0).then_some(1)));
            pair.naive.nodes.insert(node, live((i % 7 == 0).then_some(1)));
        }
        for i in 0..170_u32 {
            let mut input = address(&format!("e{}", i / 3), 1);
            input.order.1 = i % 3;
            input.pool = pool_name(0);
            pair.put(IpAddr::from((0x0a00_0000 + i).to_be_bytes()), input);
        }
        pair.settle();
        pair.apply(&Operation::EndOfEntry);
        // 9 Nodes of 1 and 51 of 3 have room for 162.
        assert_eq!(pair.real.homeless_count(), 8, "{policy:?}");
        for i in [3, 14, 15] {
            pair.real.remove_node(&format!("node-{i}"));
            pair.naive.nodes.remove(format!("node-{i}").as_str());
        }
        for ip in pair.real.homeless() {
            assert_eq!(pair.real.remove_address(ip), pair.naive.remove_address(ip));
        }
        for i in 0..5 {
            let node = name(&format!("other-{i}"));
            pair.real.put_node(&node, live(None));
            pair.naive.nodes.insert(node, live(None));
        }
        pair.settle();
        pair.apply(&Operation::EndOfEntry);
        pair.apply(&Operation::Rebalance(6));
        assert_eq!(pair.real.check(), Vec::<String>::new());
    }
}
