//! Placement: the values that Antrea has, and a naive scheduler beside the real one.

mod naive;
mod properties;
mod ties;
mod vectors;

use std::net::IpAddr;

use holdfast_statemachine::command::Selector;
use holdfast_statemachine::row::{CreationKey, Policy};
use holdfast_statemachine::scheduler::{AddressInput, Decision, NodeInput, Scheduler};
use holdfast_statemachine::{Name, change::MoveReason};

fn name(text: &str) -> Name {
    text.into()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn live(capacity: Option<u32>) -> NodeInput {
    NodeInput { labels: [].into(), ready: true, drained: false, capacity }
}

/// An address of an Egress created at that second, in the pool `pool`, without a Node.
fn address(egress: &str, seconds: i64) -> AddressInput {
    let created = CreationKey { seconds, revision: 0, name: name(egress) };
    AddressInput { egress: name(egress), order: (created, 0), pool: name("pool"), at: None }
}

/// A scheduler with the pool `pool`, of every Node.
fn with_pool(policy: Policy, default_capacity: u32) -> Scheduler {
    let mut scheduler = Scheduler::new(policy, default_capacity);
    scheduler.put_pool(&name("pool"), &Selector::default());
    scheduler
}

/// What the end of an entry does.
fn act(scheduler: &mut Scheduler) -> Vec<Decision> {
    let mut decisions = scheduler.settle();
    decisions.extend(scheduler.recompute());
    assert_eq!(scheduler.check(), Vec::<String>::new());
    decisions
}

fn node_of(scheduler: &Scheduler, address: &str) -> Option<String> {
    scheduler.placement(ip(address)).map(|(node, _)| node.to_string())
}
