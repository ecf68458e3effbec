//! Which Node carries which Egress address: section 8.

use std::collections::BTreeMap;
use std::net::IpAddr;

use holdfast_statemachine::change::MoveReason;
use holdfast_statemachine::outcome::Ineligible;
use holdfast_statemachine::row::{EgressItemRow, PlacementRow, Policy, Stamp};
use holdfast_statemachine::{Event, Name, PoolId, PoolKind};

use super::Model;

impl Model {
    /// All granted Egress addresses in order, with their Egress and pool.
    pub(super) fn in_order(&self) -> Vec<(IpAddr, Name, PoolId)> {
        let mut all = Vec::new();
        for (name, row) in &self.egresses {
            for (i, item) in row.items.iter().enumerate() {
                if let (Some(address), Some(pool)) = (item.granted(), &item.pool) {
                    let pool = PoolId { kind: PoolKind::ExternalIpPool, name: pool.clone() };
                    all.push((row.created.clone(), i, address, name.clone(), pool));
                }
            }
        }
        all.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        all.into_iter().map(|(_, _, address, name, pool)| (address, name, pool)).collect()
    }

    pub(super) fn where_all_are(&self) -> BTreeMap<IpAddr, Name> {
        self.placements.iter().map(|(address, row)| (*address, row.node.clone())).collect()
    }

    /// What a Node carries, in order.
    pub(super) fn carried_by(&self, node: &Name) -> Vec<IpAddr> {
        let on_node = |address: &IpAddr| self.placements.get(address).is_some_and(|row| row.node == *node);
        self.in_order().into_iter().map(|(address, ..)| address).filter(on_node).collect()
    }

    fn capacity(&self, node: &Name) -> u32 {
        self.nodes[node].capacity.unwrap_or(self.settings.default_capacity)
    }

    /// The tests but the last.
    fn impossible(&self, node: &Name, pool: &PoolId) -> Option<Ineligible> {
        let row = &self.nodes[node];
        if !row.ready {
            Some(Ineligible::NotReady)
        } else if row.labels.get("kubernetes.io/os").is_some_and(|os| **os != *"linux") {
            Some(Ineligible::NotLinux)
        } else if !self.pools[pool].wanted.node_selector.matches(&row.labels) {
            Some(Ineligible::SelectorMismatch)
        } else if row.drained {
            Some(Ineligible::Drained)
        } else {
            None
        }
    }

    /// The first test that a Node fails for an address.
    pub(super) fn failing(&self, node: &Name, pool: &PoolId, address: IpAddr) -> Option<Ineligible> {
        let full = || {
            let others = self.placements.iter().filter(|(other, row)| row.node == *node && **other != address);
            let carried = u32::try_from(others.count()).expect("fewer than 2^32 addresses");
            let capacity = self.capacity(node);
            (carried >= capacity).then_some(Ineligible::AtCapacity { carried, capacity })
        };
        self.impossible(node, pool).or_else(full)
    }

    /// The Nodes of the pool's ring, in the order in which a walk from the address's key meets them.
    fn walk(&self, address: IpAddr, pool: &PoolId) -> Vec<Name> {
        let mut points: BTreeMap<u32, &Name> = BTreeMap::new();
        for node in self.nodes.keys().filter(|node| self.impossible(node, pool).is_none()) {
            for i in 0..50 {
                // Nodes come by name: who is there first has the smaller one.
                points.entry(crc32fast::hash(format!("{i}{node}").as_bytes())).or_insert(node);
            }
        }
        let key = crc32fast::hash(address.to_string().as_bytes());
        let mut met: Vec<Name> = Vec::new();
        for (_, node) in points.range(key..).chain(points.range(..key)) {
            if !met.contains(node) {
                met.push((*node).clone());
            }
        }
        met
    }

    /// The eligible Nodes, by the ring, siblings' passed over while there is another.
    pub(super) fn open_nodes(
        &self,
        at: &BTreeMap<IpAddr, Name>,
        address: IpAddr,
        egress: &Name,
        pool: &PoolId,
    ) -> Vec<Name> {
        let mut open = self.walk(address, pool);
        open.retain(|node| {
            let others = at.iter().filter(|(other, on)| *on == node && **other != address).count();
            others < self.capacity(node) as usize
        });
        let siblings = self.egresses[egress].items.iter().filter_map(EgressItemRow::granted);
        let theirs: Vec<&Name> =
            siblings.filter(|sibling| *sibling != address).filter_map(|sibling| at.get(&sibling)).collect();
        if open.iter().any(|node| !theirs.contains(&node)) {
            open.retain(|node| !theirs.contains(&node));
        }
        open
    }

    fn choose(&self, at: &BTreeMap<IpAddr, Name>, address: IpAddr, egress: &Name, pool: &PoolId) -> Option<Name> {
        let open = self.open_nodes(at, address, egress, pool);
        if self.settings.policy == Policy::Spread {
            let load = |node: &Name| at.values().filter(|on| *on == node).count();
            return open.into_iter().min_by_key(|node| load(node));
        }
        open.into_iter().next()
    }

    pub(super) fn unplace(&mut self, address: IpAddr, why: MoveReason) {
        if let Some(row) = self.placements.remove(&address) {
            self.emit(Event::Unplaced { address, egress: row.egress, from: row.node, why });
        }
    }

    pub(super) fn move_to(&mut self, address: IpAddr, egress: &Name, to: &Name, pinned: bool, why: MoveReason) {
        let row = PlacementRow { egress: egress.clone(), node: to.clone(), pinned, stamp: Stamp::default() };
        let from = self.placements.insert(address, row).map(|old| old.node);
        self.emit(Event::Placed { address, egress: egress.clone(), from, to: to.clone(), why });
    }

    /// Why an address cannot stay on its Node.
    fn left_why(&self, node: &Name, pool: &PoolId) -> Option<MoveReason> {
        if !self.nodes.contains_key(node) {
            return Some(MoveReason::NodeGone);
        }
        match self.impossible(node, pool)? {
            Ineligible::NotReady => Some(MoveReason::NodeNotReady),
            Ineligible::NotLinux | Ineligible::SelectorMismatch => Some(MoveReason::NodeMismatch),
            Ineligible::Drained => Some(MoveReason::NodeDrained),
            Ineligible::AtCapacity { .. } => None,
        }
    }

    /// After every deadline and command, but for `consistent-hash`: what became impossible ends, what is
    /// homeless is placed.
    pub(super) fn place(&mut self) {
        if self.settings.policy == Policy::ConsistentHash {
            return;
        }
        let mut at = self.where_all_are();
        let mut left = BTreeMap::new();
        for (address, _, pool) in self.in_order() {
            if let Some(why) = at.get(&address).and_then(|node| self.left_why(node, &pool)) {
                at.remove(&address);
                left.insert(address, why);
            }
        }
        for node in self.nodes.keys() {
            let carried: Vec<IpAddr> =
                self.in_order().into_iter().map(|(address, ..)| address).filter(|a| at.get(a) == Some(node)).collect();
            let (pinned, unpinned): (Vec<IpAddr>, Vec<IpAddr>) =
                carried.iter().partition(|address| self.placements[*address].pinned);
            let excess = carried.len().saturating_sub(self.capacity(node) as usize);
            for address in unpinned.into_iter().rev().chain(pinned.into_iter().rev()).take(excess) {
                at.remove(&address);
                left.insert(address, MoveReason::OverCapacity);
            }
        }
        for (address, egress, pool) in self.in_order() {
            if !at.contains_key(&address)
                && let Some(node) = self.choose(&at, address, &egress, &pool)
            {
                at.insert(address, node);
            }
        }
        self.change_to(&at, |address, _| left.get(&address).copied().unwrap_or(MoveReason::Homeless));
    }

    /// Tells, in order of addresses, what differs from the placements as they are. `why`: of what had a Node.
    fn change_to(&mut self, at: &BTreeMap<IpAddr, Name>, why: impl Fn(IpAddr, &Name) -> MoveReason) {
        for (address, egress, _) in self.in_order() {
            let from = self.placements.get(&address).map(|row| row.node.clone());
            match (from, at.get(&address)) {
                (Some(from), Some(to)) if from == *to => {}
                (Some(from), Some(to)) => self.move_to(address, &egress, to, false, why(address, &from)),
                (None, Some(to)) => self.move_to(address, &egress, to, false, MoveReason::Homeless),
                (Some(from), None) => self.unplace(address, why(address, &from)),
                (None, None) => {}
            }
        }
    }

    /// Under `consistent-hash`: everything from nothing, and what differs is changed.
    pub(super) fn recompute(&mut self) {
        if self.settings.policy != Policy::ConsistentHash {
            return;
        }
        let mut at = BTreeMap::new();
        let mut left = BTreeMap::new();
        for (address, egress, pool) in self.in_order() {
            if let Some(node) = self.choose(&at, address, &egress, &pool) {
                at.insert(address, node);
            }
            let from = self.placements.get(&address);
            left.insert(address, from.and_then(|row| self.left_why(&row.node, &pool)));
        }
        self.change_to(&at, |address, _| left[&address].unwrap_or(MoveReason::Recomputed));
    }
}
