//! Which Node carries which Egress address: section 8 of `docs/rules.md`.
//!
//! [`Scheduler`] is an index derived from rows, kept in memory. It knows Nodes, the selectors of pools and the
//! addresses of Egresses, decides where the addresses go, and says so in [`Decision`]s; it must never know about
//! rows or revisions. What it decides depends on what is declared, on the placements, and on nothing else: not on
//! the order in which it learned of them, so that one rebuilt from rows decides as the one that it replaces.
//!
//! Pools with equal selectors share a ring. All work is proportional to what changed: a Node that joins or leaves
//! touches its own points of the rings that it is in, a Node that fills up or gets room again likewise, and an address
//! costs a search that sees only Nodes with room.

mod address;
mod bitmap;
mod check;
mod circle;
mod decision;
mod declare;
mod explanation;
mod levels;
mod node;
mod operate;
mod recompute;
mod ring;
mod settle;
mod slab;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::net::IpAddr;

pub use self::address::AddressInput;
pub use self::decision::Decision;
pub use self::explanation::Explanation;
pub use self::node::NodeInput;

use self::address::{Address, Egress, Order, Pool};
use self::node::{LARGEST_CAPACITY, Node};
use self::ring::Ring;
use self::slab::Slab;
use crate::Name;
use crate::command::Selector;
use crate::row::{CreationKey, Policy};

/// For look-ups alone: its order is never seen, and its hasher has no random key.
type Lookup<K> = HashMap<K, u32, BuildHasherDefault<DefaultHasher>>;

/// The placement engine. Names are turned into small ids inside.
#[derive(Clone, Debug)]
pub struct Scheduler {
    policy: Policy,
    default_capacity: u32,
    nodes: Slab<Node>,
    node_ids: BTreeMap<Name, u32>,
    pools: Slab<Pool>,
    pool_ids: Lookup<Name>,
    rings: Slab<Ring>,
    ring_ids: BTreeMap<Selector, u32>,
    egresses: Slab<Egress>,
    egress_ids: Lookup<Name>,
    addresses: Slab<Address>,
    address_ids: Lookup<IpAddr>,
    /// All addresses in their order.
    order: BTreeMap<Order, u32>,
    /// Homeless addresses whose pool is not declared.
    unpooled: BTreeMap<Order, u32>,
    /// Nodes on which a placement may have become impossible since the last settling.
    dirty: BTreeSet<u32>,
    /// Rings that may have both room and homeless addresses.
    awake: BTreeSet<u32>,
    /// Something changed since the last recomputation.
    stale: bool,
}

impl Default for Scheduler {
    /// The policy and capacity of the ledger's default settings.
    fn default() -> Scheduler {
        Scheduler::new(Policy::Sticky, LARGEST_CAPACITY)
    }
}

impl Scheduler {
    /// A scheduler that knows nothing yet. `default_capacity` (addresses) is that of a Node that does not say; it is
    /// clamped to 0..=255.
    pub fn new(policy: Policy, default_capacity: u32) -> Scheduler {
        Scheduler {
            policy,
            default_capacity: default_capacity.min(LARGEST_CAPACITY),
            nodes: Slab::new(),
            node_ids: BTreeMap::new(),
            pools: Slab::new(),
            pool_ids: Lookup::default(),
            rings: Slab::new(),
            ring_ids: BTreeMap::new(),
            egresses: Slab::new(),
            egress_ids: Lookup::default(),
            addresses: Slab::new(),
            address_ids: Lookup::default(),
            order: BTreeMap::new(),
            unpooled: BTreeMap::new(),
            dirty: BTreeSet::new(),
            awake: BTreeSet::new(),
            stale: true,
        }
    }

    /// The policy in force.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Where an address is, and whether it is pinned there.
    pub fn placement(&self, ip: IpAddr) -> Option<(Name, bool)> {
        let address = &self.addresses[*self.address_ids.get(&ip)?];
        Some((self.nodes[address.node?].name.clone(), address.pinned))
    }

    /// Whether an address is pinned to its Node.
    pub fn is_pinned(&self, ip: IpAddr) -> bool {
        self.address_ids.get(&ip).is_some_and(|id| self.addresses[*id].pinned)
    }

    /// How many addresses a Node carries.
    pub fn load(&self, node: &str) -> u32 {
        self.node_ids.get(node).map_or(0, |id| self.nodes[*id].load())
    }

    /// How many addresses a Node may carry; `None` if it is not declared.
    pub fn capacity(&self, node: &str) -> Option<u32> {
        let node = &self.nodes[*self.node_ids.get(node)?];
        node.input.as_ref().map(|_| node.capacity(self.default_capacity))
    }

    /// The addresses that a Node carries, in order.
    pub fn addresses_on(&self, node: &str) -> Vec<IpAddr> {
        let Some(id) = self.node_ids.get(node) else { return Vec::new() };
        self.carried(*id).into_iter().map(|address| self.addresses[address].order.ip).collect()
    }

    /// All addresses without a Node, in order.
    pub fn homeless(&self) -> Vec<IpAddr> {
        let rings = self.rings.iter().map(|(_, ring)| &ring.homeless);
        let mut homeless: Vec<&Order> = rings.chain([&self.unpooled]).flat_map(BTreeMap::keys).collect();
        homeless.sort_unstable();
        homeless.into_iter().map(|order| order.ip).collect()
    }

    /// How many addresses have no Node.
    pub fn homeless_count(&self) -> usize {
        self.rings.iter().map(|(_, ring)| ring.homeless.len()).sum::<usize>() + self.unpooled.len()
    }

    /// The ids of the addresses on a Node, in order.
    fn carried(&self, node: u32) -> Vec<u32> {
        let mut carried = self.nodes[node].on.clone();
        carried.sort_unstable_by(|a, b| self.addresses[*a].order.cmp(&self.addresses[*b].order));
        carried
    }

    /// The ring of an address's pool, if the pool is declared.
    fn ring_of(&self, address: u32) -> Option<u32> {
        self.pools[self.addresses[address].pool].ring
    }

    /// The Nodes that carry another address of the same Egress.
    fn sibling_nodes(&self, address: u32) -> Vec<u32> {
        let siblings = &self.egresses[self.addresses[address].egress].addresses;
        siblings.iter().filter(|other| **other != address).filter_map(|other| self.addresses[*other].node).collect()
    }

    /// The Node that an address without one goes to.
    fn choose(&self, address: u32) -> Option<u32> {
        let ring = &self.rings[self.ring_of(address)?];
        let key = self.addresses[address].key;
        let passed = self.sibling_nodes(address);
        if self.policy != Policy::Spread {
            return ring.first(key, &passed);
        }
        ring.least(key, &passed, &self.nodes).or_else(|| ring.least(key, &[], &self.nodes))
    }

    /// Puts a homeless address on a Node.
    fn place(&mut self, address: u32, node: u32) {
        let order = &self.addresses[address].order;
        match self.pools[self.addresses[address].pool].ring {
            Some(ring) => self.rings[ring].homeless.remove(order),
            None => self.unpooled.remove(order),
        };
        self.attach(address, node);
    }

    /// Takes an address from its Node, and its pin with it: it is homeless. The Node that it had.
    fn unplace(&mut self, address: u32) -> Option<u32> {
        let node = self.detach(address)?;
        self.make_homeless(address);
        Some(node)
    }

    fn make_homeless(&mut self, address: u32) {
        let order = self.addresses[address].order.clone();
        let Some(id) = self.ring_of(address) else {
            self.unpooled.insert(order, address);
            return;
        };
        let ring = &mut self.rings[id];
        ring.homeless.insert(order, address);
        if ring.has_room() {
            self.awake.insert(id);
        }
    }

    fn attach(&mut self, address: u32, node: u32) {
        let on = &mut self.nodes[node].on;
        self.addresses[address].node = Some(node);
        self.addresses[address].slot = on.len();
        on.push(address);
        self.load_changed(node);
    }

    fn detach(&mut self, address: u32) -> Option<u32> {
        let left = &mut self.addresses[address];
        let node = left.node.take()?;
        left.pinned = false;
        let slot = left.slot;
        let on = &mut self.nodes[node].on;
        on.swap_remove(slot);
        if let Some(moved) = on.get(slot) {
            self.addresses[*moved].slot = slot;
        }
        self.load_changed(node);
        Some(node)
    }

    /// Tells the rings of a Node how much it carries and may carry.
    fn load_changed(&mut self, node: u32) {
        let node = &self.nodes[node];
        let load = node.load();
        let room = load < node.capacity(self.default_capacity);
        for seat in &node.seats {
            let ring = &mut self.rings[seat.ring];
            let had_room = ring.has_room();
            ring.set_load(seat.seat, &node.points, load, room);
            if !had_room && ring.has_room() && !ring.homeless.is_empty() {
                self.awake.insert(seat.ring);
            }
        }
    }
}
