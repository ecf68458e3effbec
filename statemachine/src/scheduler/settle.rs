//! The policies `sticky` and `spread`: what became impossible ends, what is homeless is placed.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{Decision, Name, Order, Policy, Scheduler};
use crate::change::MoveReason;

/// Addresses that lost their Node, by id: which one, and why.
type Left = BTreeMap<u32, (Name, MoveReason)>;

impl Scheduler {
    /// Ends the placements that are no longer possible, then places what is homeless. To be called after every change;
    /// does nothing under `ConsistentHash`.
    ///
    /// One decision for each address that has another Node than before, or none, all in the order of addresses:
    /// where one that left could be placed again, `from` and `to` are in one decision, with the reason why it left.
    pub fn settle(&mut self) -> Vec<Decision> {
        if self.policy == Policy::ConsistentHash {
            return Vec::new();
        }
        let mut left = self.evict();
        let mut moved: Vec<(u32, Option<(Name, MoveReason)>)> =
            self.place_homeless().into_iter().map(|address| (address, left.remove(&address))).collect();
        moved.extend(left.into_iter().map(|(address, left)| (address, Some(left))));
        moved.sort_unstable_by(|(a, _), (b, _)| self.addresses[*a].order.cmp(&self.addresses[*b].order));
        moved.into_iter().map(|(address, left)| self.decision(address, left)).collect()
    }

    /// What is to be said of an address that is where it is now, and left a Node before or had none.
    pub(super) fn decision(&self, address: u32, left: Option<(Name, MoveReason)>) -> Decision {
        let address = &self.addresses[address];
        let (from, why) = left.map_or((None, MoveReason::Homeless), |(from, why)| (Some(from), why));
        Decision {
            ip: address.order.ip,
            egress: self.egresses[address.egress].name.clone(),
            from,
            to: address.node.map(|node| self.nodes[node].name.clone()),
            why,
        }
    }

    /// Why an address can no longer be on this Node, capacity aside.
    pub(super) fn impossible(&self, address: u32, node: u32) -> Option<MoveReason> {
        let Some(ring) = self.ring_of(address) else { return Some(MoveReason::AddressGone) };
        let node = &self.nodes[node];
        if node.sits_in(ring) { None } else { node.refuses(&self.rings[ring].selector) }
    }

    fn evict(&mut self) -> Left {
        let mut left = Left::new();
        for node in std::mem::take(&mut self.dirty) {
            let on = &self.nodes[node].on;
            let ended: Vec<(u32, MoveReason)> =
                on.iter().filter_map(|address| Some((*address, self.impossible(*address, node)?))).collect();
            self.end(node, ended, &mut left);
            let surplus = self.surplus(node);
            self.end(node, surplus, &mut left);
            self.forget_if_gone(node);
        }
        left
    }

    fn end(&mut self, node: u32, ended: Vec<(u32, MoveReason)>, left: &mut Left) {
        for (address, why) in ended {
            self.unplace(address);
            left.insert(address, (self.nodes[node].name.clone(), why));
        }
    }

    /// The addresses that a Node carries above its capacity: the last in order, unpinned ones first.
    fn surplus(&self, node: u32) -> Vec<(u32, MoveReason)> {
        let node = &self.nodes[node];
        let surplus = node.load().saturating_sub(node.capacity(self.default_capacity));
        if surplus == 0 {
            return Vec::new();
        }
        let mut on = node.on.clone();
        on.sort_unstable_by_key(|id| (self.addresses[*id].pinned, Reverse(&self.addresses[*id].order)));
        on.truncate(surplus as usize);
        on.into_iter().map(|address| (address, MoveReason::OverCapacity)).collect()
    }

    /// Places what can be placed, in order. One pass is enough: placing takes room and never gives any, so an address
    /// without an eligible Node has none later either.
    pub(super) fn place_homeless(&mut self) -> Vec<u32> {
        let mut placed = Vec::new();
        let mut next: BTreeMap<Order, u32> = BTreeMap::new();
        for ring in std::mem::take(&mut self.awake) {
            self.enqueue_first(ring, &mut next);
        }
        while let Some((order, ring)) = next.pop_first() {
            if !self.rings[ring].has_room() {
                continue;
            }
            let address = self.rings[ring].homeless[&order];
            let node = self.choose(address).expect("a ring with room has a Node for every address");
            self.place(address, node);
            placed.push(address);
            self.enqueue_first(ring, &mut next);
        }
        placed
    }

    fn enqueue_first(&self, ring: u32, next: &mut BTreeMap<Order, u32>) {
        if let Some(order) = self.rings[ring].homeless.keys().next() {
            next.insert(order.clone(), ring);
        }
    }
}
