//! Why an address has no Node.

use std::net::IpAddr;

use super::{Name, Scheduler};
use crate::outcome::Ineligible;

/// What each Node says to an address: how many fail which test, and each Node's own first failed one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// Nodes that are not live.
    pub not_ready: u32,
    /// Nodes that do not run Linux.
    pub not_linux: u32,
    /// Nodes that the pool's selector does not match; every one that is left, if the pool is unknown.
    pub selector_mismatch: u32,
    /// Nodes that are drained.
    pub drained: u32,
    /// Nodes that carry as many addresses as they may.
    pub at_capacity: u32,
    /// Nodes that pass every test. For an address without a Node: Nodes that are not on the ring, because each of
    /// their points belongs to a Node of a smaller name.
    pub eligible: u32,
    /// Each Node by name, and the first test that it fails.
    pub nodes: Vec<(Name, Option<Ineligible>)>,
}

impl Scheduler {
    /// What each Node says to an address, as things are now; `None` if there is no such address.
    pub fn explain(&self, ip: IpAddr) -> Option<Explanation> {
        let address = *self.address_ids.get(&ip)?;
        let mut explanation = Explanation::default();
        for (name, id) in &self.node_ids {
            if self.nodes[*id].input.is_none() {
                continue;
            }
            let why = self.ineligible(address, *id);
            *match why {
                None => &mut explanation.eligible,
                Some(Ineligible::NotReady) => &mut explanation.not_ready,
                Some(Ineligible::NotLinux) => &mut explanation.not_linux,
                Some(Ineligible::SelectorMismatch) => &mut explanation.selector_mismatch,
                Some(Ineligible::Drained) => &mut explanation.drained,
                Some(Ineligible::AtCapacity { .. }) => &mut explanation.at_capacity,
            } += 1;
            explanation.nodes.push((name.clone(), why));
        }
        Some(explanation)
    }

    /// The first test that a Node fails for an address. One that is there already has its place.
    pub(super) fn ineligible(&self, address: u32, node: u32) -> Option<Ineligible> {
        let (id, node) = (node, &self.nodes[node]);
        let selector = self.ring_of(address).map(|ring| &self.rings[ring].selector);
        if let Some(why) = node.fails(selector) {
            return Some(why);
        }
        let (carried, capacity) = (node.load(), node.capacity(self.default_capacity));
        let there = self.addresses[address].node == Some(id);
        (carried >= capacity && !there).then_some(Ineligible::AtCapacity { carried, capacity })
    }
}
