//! The policy `consistent-hash`: everything from nothing.

use super::{Decision, Policy, Scheduler};
use crate::change::MoveReason;

/// Where each address was, in order.
pub(super) type Before = Vec<(u32, Option<u32>)>;

impl Scheduler {
    /// Under `ConsistentHash`, places all addresses anew, in order, as if there were no placements. To be called once
    /// an entry; does nothing under the other policies, or if nothing changed since the last time.
    ///
    /// The differences alone, in the order of addresses. `why` is `Homeless` for one that had no Node, the reason if
    /// its Node became impossible (for other reasons than its capacity), and `Recomputed` otherwise.
    pub fn recompute(&mut self) -> Vec<Decision> {
        if self.policy != Policy::ConsistentHash || !std::mem::take(&mut self.stale) {
            return Vec::new();
        }
        let before = self.place_all();
        let mut decisions = Vec::new();
        for (address, from) in before {
            if from != self.addresses[address].node {
                let left = from.map(|node| {
                    let why = self.impossible(address, node).unwrap_or(MoveReason::Recomputed);
                    (self.nodes[node].name.clone(), why)
                });
                decisions.push(self.decision(address, left));
            }
        }
        for node in std::mem::take(&mut self.dirty) {
            self.forget_if_gone(node);
        }
        self.awake.clear();
        decisions
    }

    /// Empties all Nodes and fills them again.
    pub(super) fn place_all(&mut self) -> Before {
        let before: Before = self.order.values().map(|id| (*id, self.addresses[*id].node.take())).collect();
        self.empty_nodes();
        for &(address, from) in &before {
            let to = self.choose(address);
            self.put_back(address, from, to);
        }
        before
    }

    fn empty_nodes(&mut self) {
        let loaded: Vec<u32> = self.nodes.iter().filter(|(_, node)| !node.on.is_empty()).map(|(id, _)| id).collect();
        for node in loaded {
            self.nodes[node].on.clear();
            self.load_changed(node);
        }
    }

    /// Places an address of an emptied Node, or a homeless one, on another Node or none.
    fn put_back(&mut self, address: u32, from: Option<u32>, to: Option<u32>) {
        match (from, to) {
            (None, Some(node)) => self.place(address, node),
            (Some(_), Some(node)) => self.attach(address, node),
            (Some(_), None) => self.make_homeless(address),
            (None, None) => {}
        }
    }

    /// Takes everything back to where it was.
    pub(super) fn put_all_back(&mut self, before: Before) {
        self.empty_nodes();
        for (address, to) in before {
            let from = self.addresses[address].node.take();
            self.put_back(address, from, to);
        }
    }
}
