//! What operators ask for: pins, drains, rebalancing. All of it is to be asked when everything is settled.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::net::IpAddr;

use super::{Decision, Name, Policy, Scheduler};
use crate::change::MoveReason;
use crate::outcome::Ineligible;

impl Scheduler {
    /// Puts an address on a Node, if it is elsewhere, and keeps it from [`Scheduler::rebalance`]. Siblings do not
    /// matter. An unknown Node is not live; an unknown address changes nothing. Not for `ConsistentHash`, under which
    /// nothing is pinned and nothing changes.
    pub fn pin(&mut self, ip: IpAddr, node: &str) -> Result<Option<Decision>, Ineligible> {
        let Some(&address) = self.address_ids.get(&ip) else { return Ok(None) };
        let &to = self.node_ids.get(node).ok_or(Ineligible::NotReady)?;
        if let Some(why) = self.ineligible(address, to) {
            return Err(why);
        }
        if self.policy == Policy::ConsistentHash {
            return Ok(None);
        }
        let elsewhere = self.addresses[address].node != Some(to);
        let decision = elsewhere.then(|| self.relocate(address, to, MoveReason::Pin));
        self.addresses[address].pinned = true;
        Ok(decision)
    }

    /// Ends a pin; moves nothing. Whether there was one.
    pub fn unpin(&mut self, ip: IpAddr) -> bool {
        let Some(address) = self.address_ids.get(&ip) else { return false };
        std::mem::take(&mut self.addresses[*address].pinned)
    }

    /// How many addresses would find no Node if this one were drained now: of those that it carries, or under
    /// `ConsistentHash` of all that have one now. 0 for a Node that is unknown or drained. Changes nothing that can be
    /// seen.
    pub fn drain_leaves(&mut self, node: &str) -> u32 {
        let Some(&id) = self.node_ids.get(node) else { return 0 };
        if self.nodes[id].input.as_ref().is_none_or(|input| input.drained) {
            return 0;
        }
        let unsettled = (self.dirty.clone(), self.awake.clone(), self.stale);
        let left = if self.policy == Policy::ConsistentHash {
            self.set_drained(id, true);
            let before = self.place_all();
            let left = before.iter().filter(|(address, from)| from.is_some() && self.is_homeless(*address)).count();
            self.set_drained(id, false);
            self.put_all_back(before);
            left
        } else {
            self.leaves_by_moving(id)
        };
        (self.dirty, self.awake, self.stale) = unsettled;
        u32::try_from(left).expect("addresses have u32 ids")
    }

    /// Drains a Node, counts those of its addresses that find no other, and takes all of it back.
    fn leaves_by_moving(&mut self, id: u32) -> usize {
        let carried = self.carried(id);
        let pins: Vec<bool> = carried.iter().map(|address| self.addresses[*address].pinned).collect();
        self.set_drained(id, true);
        for &address in &carried {
            self.unplace(address);
        }
        // All that is homeless: the Node may leave points that it shared to another one, where others were first.
        let placed = self.place_homeless();
        let left = carried.iter().filter(|address| self.is_homeless(**address)).count();
        for address in placed {
            self.unplace(address);
        }
        self.set_drained(id, false);
        for (address, pinned) in carried.into_iter().zip(pins) {
            self.place(address, id);
            self.addresses[address].pinned = pinned;
        }
        left
    }

    fn is_homeless(&self, address: u32) -> bool {
        self.addresses[address].node.is_none()
    }

    fn set_drained(&mut self, id: u32, drained: bool) {
        self.nodes[id].input.as_mut().expect("a declared Node is drained").drained = drained;
        self.node_changed(id);
    }

    /// At most `max_moves` times: from the Node with the most addresses that has a movable one (of several, the smaller
    /// name), the first movable in order, to the eligible Node with the fewest (of several, the first on the ring).
    /// Movable is what is not pinned and has an eligible Node with at least two addresses fewer than its own; Nodes of
    /// siblings are passed over while there is another one, and its own counts as another.
    ///
    /// The decisions in the order in which they were made; an address can move more than once. None under
    /// `ConsistentHash`.
    pub fn rebalance(&mut self, max_moves: u32) -> Vec<Decision> {
        let mut decisions = Vec::new();
        if self.policy == Policy::ConsistentHash {
            return decisions;
        }
        let rank = |scheduler: &Scheduler, id: u32| {
            let node = &scheduler.nodes[id];
            (Reverse(node.load()), node.name.clone(), id)
        };
        let mut ranks: BTreeSet<(Reverse<u32>, Name, u32)> = self.node_ids.values().map(|id| rank(self, *id)).collect();
        for _ in 0..max_moves {
            let Some((address, from, to)) = self.next_move(&ranks) else { break };
            for id in [from, to] {
                ranks.remove(&rank(self, id));
            }
            decisions.push(self.relocate(address, to, MoveReason::Rebalance));
            for id in [from, to] {
                ranks.insert(rank(self, id));
            }
        }
        decisions
    }

    /// An address, the Node that it leaves and that to which it goes.
    fn next_move(&self, ranks: &BTreeSet<(Reverse<u32>, Name, u32)>) -> Option<(u32, u32, u32)> {
        let lowest = self.rings.iter().filter_map(|(_, ring)| ring.lowest()).min()?;
        ranks.iter().take_while(|(Reverse(load), ..)| *load >= lowest + 2).find_map(|&(_, _, from)| {
            let target = |address: u32| Some((address, from, self.lighter(address, from)?));
            self.carried(from).into_iter().find_map(target)
        })
    }

    /// Where a movable address goes; `None` if it is not movable.
    fn lighter(&self, address: u32, own: u32) -> Option<u32> {
        let ring = &self.rings[self.ring_of(address)?];
        let enough = self.nodes[own].load().checked_sub(2)?;
        if self.addresses[address].pinned || ring.lowest()? > enough {
            return None;
        }
        let (key, passed) = (self.addresses[address].key, self.sibling_nodes(address));
        let mut to = ring.least(key, &passed, &self.nodes);
        if to.is_none() && passed.contains(&own) {
            to = ring.least(key, &[], &self.nodes);
        }
        to.filter(|to| self.nodes[*to].load() <= enough)
    }

    fn relocate(&mut self, address: u32, to: u32, why: MoveReason) -> Decision {
        let from = self.addresses[address].node.map(|node| self.nodes[node].name.clone());
        self.stale = true;
        match self.detach(address) {
            Some(_) => self.attach(address, to),
            None => self.place(address, to),
        }
        Decision { why, ..self.decision(address, from.map(|from| (from, why))) }
    }
}
