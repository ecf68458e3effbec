//! Whether the index agrees with itself.

use std::collections::BTreeSet;

use super::{Policy, Scheduler};

impl Scheduler {
    /// What is wrong inside; empty if nothing is. Looks at everything: for tests and for operators, not for every
    /// entry. When everything is settled, also that each placement is possible and nothing homeless could be placed.
    pub fn check(&self) -> Vec<String> {
        let mut wrong = self.check_links();
        for (id, ring) in self.rings.iter() {
            wrong.extend(ring.check(&self.nodes, |node| node.capacity(self.default_capacity)));
            let pools = self.pools.iter().filter(|(_, pool)| pool.ring == Some(id)).count();
            if pools != ring.pools as usize || pools == 0 {
                wrong.push(format!("a ring counts {} pools and has {pools}", ring.pools));
            }
        }
        self.check_seats(&mut wrong);
        let settled = match self.policy {
            Policy::ConsistentHash => !self.stale,
            _ => self.dirty.is_empty() && self.awake.is_empty(),
        };
        if settled {
            self.check_settled(&mut wrong);
        }
        wrong
    }

    /// Addresses, and what lists them.
    fn check_links(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (id, address) in self.addresses.iter() {
            let ip = address.order.ip;
            let listed = address.node.is_none_or(|node| self.nodes[node].on.get(address.slot) == Some(&id))
                && self.pools[address.pool].addresses.get(address.pool_slot) == Some(&id)
                && self.egresses[address.egress].addresses.contains(&id)
                && self.order.get(&address.order) == Some(&id)
                && self.address_ids.get(&ip) == Some(&id);
            if !listed {
                wrong.push(format!("{ip} is not listed where it should be"));
            }
            if address.pinned && (address.node.is_none() || self.policy == Policy::ConsistentHash) {
                wrong.push(format!("{ip} is pinned to nothing"));
            }
            let homeless = match self.ring_of(id) {
                Some(ring) => &self.rings[ring].homeless,
                None => &self.unpooled,
            };
            if homeless.contains_key(&address.order) != address.node.is_none() {
                wrong.push(format!("{ip} is listed as homeless, or is homeless, but not both"));
            }
        }
        let of = |lists: &mut dyn Iterator<Item = usize>| lists.sum::<usize>();
        let placed = self.addresses.iter().filter(|(_, address)| address.node.is_some()).count();
        for (what, count, expected) in [
            ("Nodes", of(&mut self.nodes.iter().map(|(_, node)| node.on.len())), placed),
            ("pools", of(&mut self.pools.iter().map(|(_, pool)| pool.addresses.len())), self.addresses.len()),
            ("Egresses", of(&mut self.egresses.iter().map(|(_, e)| e.addresses.len())), self.addresses.len()),
            ("the order", self.order.len(), self.addresses.len()),
            ("the homeless", self.homeless_count(), self.addresses.len() - placed),
        ] {
            if count != expected {
                wrong.push(format!("{what} list {count} addresses of {expected}"));
            }
        }
        wrong
    }

    fn check_seats(&self, wrong: &mut Vec<String>) {
        for (_, node) in self.nodes.iter() {
            let seats: BTreeSet<u32> = node.seats.iter().map(|seat| seat.ring).collect();
            let fits = self.rings.iter().filter(|(_, ring)| node.fails(Some(&ring.selector)).is_none());
            if !seats.iter().copied().eq(fits.map(|(id, _)| id)) || seats.len() != node.seats.len() {
                wrong.push(format!("{} is not in the rings where it belongs", node.name));
            }
            if node.input.is_none() && node.on.is_empty() {
                wrong.push(format!("{} is gone and still known", node.name));
            }
        }
    }

    fn check_settled(&self, wrong: &mut Vec<String>) {
        for (_, node) in self.nodes.iter() {
            let (load, capacity) = (node.load(), node.capacity(self.default_capacity));
            if load > capacity {
                wrong.push(format!("{} carries {load} addresses and may carry {capacity}", node.name));
            }
        }
        for (id, address) in self.addresses.iter() {
            if let Some(why) = address.node.and_then(|node| self.impossible(id, node)) {
                wrong.push(format!("{} is where it cannot be: {why:?}", address.order.ip));
            }
        }
        for (_, ring) in self.rings.iter() {
            if ring.has_room() && !ring.homeless.is_empty() {
                wrong.push(format!("{} addresses have no Node and could have one", ring.homeless.len()));
            }
        }
    }
}
