//! What the scheduler is told: Nodes, pools, addresses, settings.
//!
//! Nothing here moves an address, but that one taken away leaves its Node. What became impossible or possible is
//! remembered, and [`Scheduler::settle`] or [`Scheduler::recompute`] act on it.

use std::net::IpAddr;

use super::address::{Address, AddressInput, Egress, Order, Pool};
use super::node::{LARGEST_CAPACITY, Node, NodeInput, Seat};
use super::ring::Ring;
use super::{Name, Policy, Scheduler, Selector, circle};

impl Scheduler {
    /// Changes the policy. Moves nothing. `ConsistentHash` ends all pins; the addresses that had one, in order.
    pub fn set_policy(&mut self, policy: Policy) -> Vec<IpAddr> {
        self.policy = policy;
        self.stale = true;
        if policy != Policy::ConsistentHash {
            return Vec::new();
        }
        let mut unpinned = Vec::new();
        for (order, id) in &self.order {
            let pinned = &mut self.addresses[*id].pinned;
            if std::mem::take(pinned) {
                unpinned.push(order.ip);
            }
        }
        unpinned
    }

    /// Changes the capacity (addresses, clamped to 0..=255) of the Nodes that do not say their own.
    pub fn set_default_capacity(&mut self, capacity: u32) {
        let capacity = capacity.min(LARGEST_CAPACITY);
        if capacity == self.default_capacity {
            return;
        }
        self.default_capacity = capacity;
        self.stale = true;
        let by_default = |node: &Node| node.input.as_ref().is_some_and(|input| input.capacity.is_none());
        let nodes: Vec<u32> = self.nodes.iter().filter(|(_, node)| by_default(node)).map(|(id, _)| id).collect();
        for node in nodes {
            self.load_changed(node);
            self.mark_overloaded(node);
        }
    }

    /// Declares a Node, or what changed of it.
    pub fn put_node(&mut self, name: &Name, input: NodeInput) {
        let input = NodeInput { capacity: input.capacity.map(|own| own.min(LARGEST_CAPACITY)), ..input };
        let id = self.node_id(name);
        let node = &mut self.nodes[id];
        if node.input.as_ref() == Some(&input) {
            return;
        }
        node.input = Some(input);
        self.node_changed(id);
    }

    /// The Node is gone.
    pub fn remove_node(&mut self, name: &str) {
        let Some(&id) = self.node_ids.get(name) else { return };
        self.nodes[id].input = None;
        self.node_changed(id);
        self.forget_if_gone(id);
    }

    /// Declares a pool, or another selector of it.
    pub fn put_pool(&mut self, name: &Name, selector: &Selector) {
        let pool = self.pool_id(name);
        if self.pools[pool].ring.is_some_and(|ring| self.rings[ring].selector == *selector) {
            return;
        }
        let ring = self.ring_id(selector);
        self.move_pool(pool, Some(ring));
    }

    /// The pool is gone.
    pub fn remove_pool(&mut self, name: &str) {
        let Some(&pool) = self.pool_ids.get(name) else { return };
        self.move_pool(pool, None);
        self.forget_if_unused(pool);
    }

    /// Declares a granted address, and where it is; also how placements are restored. Of an address that is known,
    /// everything is replaced, its placement by `at` too.
    pub fn put_address(&mut self, ip: IpAddr, input: AddressInput) {
        self.remove_address(ip);
        self.stale = true;
        let (created, position) = input.order;
        let order = Order { created, position, ip };
        let pool = self.pool_id(&input.pool);
        let egress = self.egress_id(&input.egress);
        let id = self.addresses.insert(Address {
            order: order.clone(),
            key: circle::hash(&ip.to_string()),
            egress,
            pool,
            pool_slot: self.pools[pool].addresses.len(),
            node: None,
            slot: 0,
            pinned: false,
        });
        self.address_ids.insert(ip, id);
        self.order.insert(order, id);
        self.pools[pool].addresses.push(id);
        self.egresses[egress].addresses.push(id);
        let Some((node, pinned)) = input.at else { return self.make_homeless(id) };
        let node = self.node_id(&node);
        self.attach(id, node);
        self.addresses[id].pinned = pinned && self.policy != Policy::ConsistentHash;
        if !self.ring_of(id).is_some_and(|ring| self.nodes[node].sits_in(ring)) {
            self.dirty.insert(node);
        }
        self.mark_overloaded(node);
    }

    /// The address is no longer an Egress's. The Node that carried it.
    pub fn remove_address(&mut self, ip: IpAddr) -> Option<Name> {
        let id = self.address_ids.remove(&ip)?;
        self.stale = true;
        let node = self.detach(id);
        let address = self.addresses.remove(id);
        self.order.remove(&address.order);
        if node.is_none() {
            match self.pools[address.pool].ring {
                Some(ring) => self.rings[ring].homeless.remove(&address.order),
                None => self.unpooled.remove(&address.order),
            };
        }
        let of_pool = &mut self.pools[address.pool].addresses;
        of_pool.swap_remove(address.pool_slot);
        if let Some(moved) = of_pool.get(address.pool_slot) {
            self.addresses[*moved].pool_slot = address.pool_slot;
        }
        self.forget_if_unused(address.pool);
        let siblings = &mut self.egresses[address.egress].addresses;
        siblings.retain(|other| *other != id);
        if siblings.is_empty() {
            let egress = self.egresses.remove(address.egress);
            self.egress_ids.remove(&egress.name);
        }
        let node = node?;
        let name = self.nodes[node].name.clone();
        self.forget_if_gone(node);
        Some(name)
    }

    /// Takes a Node into the rings where it belongs now, and out of the others.
    pub(super) fn node_changed(&mut self, id: u32) {
        self.stale = true;
        for (ring_id, ring) in self.rings.iter_mut() {
            let fits = self.nodes[id].fails(Some(&ring.selector)).is_none();
            let at = self.nodes[id].seats.iter().position(|seat| seat.ring == ring_id);
            match at {
                None if fits => {
                    let room = self.nodes[id].load() < self.nodes[id].capacity(self.default_capacity);
                    let seat = ring.join(id, &self.nodes, room);
                    self.nodes[id].seats.push(Seat { ring: ring_id, seat });
                }
                Some(at) if !fits => {
                    let seat = self.nodes[id].seats.swap_remove(at);
                    ring.leave(seat.seat, &self.nodes[id].points);
                }
                _ => {}
            }
            // Also where it left: what it shared may be the first point that another Node owns.
            if ring.has_room() && !ring.homeless.is_empty() {
                self.awake.insert(ring_id);
            }
        }
        self.load_changed(id);
        if !self.nodes[id].on.is_empty() {
            self.dirty.insert(id);
        }
    }

    fn mark_overloaded(&mut self, id: u32) {
        let node = &self.nodes[id];
        if node.load() > node.capacity(self.default_capacity) {
            self.dirty.insert(id);
        }
    }

    /// Gives a pool another ring, or none.
    fn move_pool(&mut self, id: u32, ring: Option<u32>) {
        self.stale = true;
        let former = std::mem::replace(&mut self.pools[id].ring, ring);
        if let Some(ring) = ring {
            self.rings[ring].pools += 1;
        }
        for address in self.pools[id].addresses.clone() {
            let order = &self.addresses[address].order;
            let homeless = match former {
                Some(ring) => self.rings[ring].homeless.remove(order),
                None => self.unpooled.remove(order),
            };
            if homeless.is_some() {
                self.make_homeless(address);
            }
            self.dirty.extend(self.addresses[address].node);
        }
        if let Some(former) = former {
            self.rings[former].pools -= 1;
            self.forget_ring_if_unused(former);
        }
    }

    fn node_id(&mut self, name: &Name) -> u32 {
        if let Some(id) = self.node_ids.get(name) {
            return *id;
        }
        let id = self.nodes.insert(Node::new(name.clone()));
        self.node_ids.insert(name.clone(), id);
        id
    }

    fn pool_id(&mut self, name: &Name) -> u32 {
        if let Some(id) = self.pool_ids.get(name) {
            return *id;
        }
        let id = self.pools.insert(Pool { name: name.clone(), ring: None, addresses: Vec::new() });
        self.pool_ids.insert(name.clone(), id);
        id
    }

    fn egress_id(&mut self, name: &Name) -> u32 {
        if let Some(id) = self.egress_ids.get(name) {
            return *id;
        }
        let id = self.egresses.insert(Egress { name: name.clone(), addresses: Vec::new() });
        self.egress_ids.insert(name.clone(), id);
        id
    }

    fn ring_id(&mut self, selector: &Selector) -> u32 {
        if let Some(id) = self.ring_ids.get(selector) {
            return *id;
        }
        let id = self.rings.insert(Ring::new(selector.clone()));
        self.ring_ids.insert(selector.clone(), id);
        let fits = |node: &Node| node.fails(Some(selector)).is_none();
        let members: Vec<u32> = self.nodes.iter().filter(|(_, node)| fits(node)).map(|(id, _)| id).collect();
        for node in members {
            let room = self.nodes[node].load() < self.nodes[node].capacity(self.default_capacity);
            let seat = self.rings[id].join(node, &self.nodes, room);
            self.nodes[node].seats.push(Seat { ring: id, seat });
        }
        id
    }

    /// A Node that is gone is known until its last address has left it.
    pub(super) fn forget_if_gone(&mut self, id: u32) {
        let node = &self.nodes[id];
        if node.input.is_none() && node.on.is_empty() {
            self.node_ids.remove(&node.name);
            self.nodes.remove(id);
            self.dirty.remove(&id);
        }
    }

    /// A pool that is gone is known until its last address has gone.
    fn forget_if_unused(&mut self, id: u32) {
        let pool = &self.pools[id];
        if pool.ring.is_none() && pool.addresses.is_empty() {
            self.pool_ids.remove(&pool.name);
            self.pools.remove(id);
        }
    }

    fn forget_ring_if_unused(&mut self, id: u32) {
        if self.rings[id].pools > 0 {
            return;
        }
        let ring = self.rings.remove(id);
        self.ring_ids.remove(&ring.selector);
        self.awake.remove(&id);
        for (_, node) in self.nodes.iter_mut() {
            node.seats.retain(|seat| seat.ring != id);
        }
    }
}
