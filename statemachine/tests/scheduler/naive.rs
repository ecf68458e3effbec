//! The rules of placement without any index: lists, loops, and every point of every Node looked at each time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use holdfast_statemachine::Name;
use holdfast_statemachine::change::MoveReason;
use holdfast_statemachine::command::Selector;
use holdfast_statemachine::outcome::Ineligible;
use holdfast_statemachine::row::{CreationKey, Policy};
use holdfast_statemachine::scheduler::{Decision, NodeInput};

/// CRC-32 (IEEE).
pub fn crc32(text: &str) -> u32 {
    crc32fast::hash(text.as_bytes())
}

#[derive(Clone, Debug)]
pub struct Address {
    pub ip: IpAddr,
    pub egress: Name,
    pub order: (CreationKey, u32),
    pub pool: Name,
    pub node: Option<Name>,
    pub pinned: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Naive {
    pub policy: Policy,
    pub default_capacity: u32,
    pub nodes: BTreeMap<Name, NodeInput>,
    pub pools: BTreeMap<Name, Selector>,
    /// Kept in order.
    pub addresses: Vec<Address>,
}

impl Naive {
    pub fn put_address(&mut self, address: Address) {
        self.remove_address(address.ip);
        self.addresses.push(address);
        self.addresses.sort_by(|a, b| (&a.order, a.ip).cmp(&(&b.order, b.ip)));
    }

    pub fn remove_address(&mut self, ip: IpAddr) -> Option<Name> {
        let at = self.addresses.iter().position(|address| address.ip == ip)?;
        self.addresses.remove(at).node
    }

    pub fn load(&self, node: &Name) -> u32 {
        self.addresses.iter().filter(|address| address.node.as_ref() == Some(node)).count().try_into().unwrap()
    }

    pub fn capacity(&self, node: &Name) -> u32 {
        self.nodes[node].capacity.unwrap_or(self.default_capacity).min(255)
    }

    fn fails_but_capacity(&self, pool: &Name, node: &Name) -> Option<Ineligible> {
        let input = &self.nodes[node];
        let linux = input.labels.get("kubernetes.io/os").is_none_or(|os| os.as_ref() == "linux");
        let matches = self.pools.get(pool).is_some_and(|selector| selector.matches(&input.labels));
        if !input.ready {
            Some(Ineligible::NotReady)
        } else if !linux {
            Some(Ineligible::NotLinux)
        } else if !matches {
            Some(Ineligible::SelectorMismatch)
        } else if input.drained {
            Some(Ineligible::Drained)
        } else {
            None
        }
    }

    pub fn fails(&self, at: usize, node: &Name) -> Option<Ineligible> {
        let address = &self.addresses[at];
        if let Some(why) = self.fails_but_capacity(&address.pool, node) {
            return Some(why);
        }
        let (carried, capacity) = (self.load(node), self.capacity(node));
        if carried < capacity || address.node.as_ref() == Some(node) {
            return None;
        }
        Some(Ineligible::AtCapacity { carried, capacity })
    }

    /// The Nodes of an address's ring with room, in the order in which a walk from the address meets them.
    fn walk(&self, at: usize) -> Vec<Name> {
        let address = &self.addresses[at];
        let mut owners: BTreeMap<u32, Name> = BTreeMap::new();
        for node in self.nodes.keys().filter(|node| self.fails_but_capacity(&address.pool, node).is_none()) {
            for i in 0..50 {
                // Names ascend, so the first at a point has the smallest.
                owners.entry(crc32(&format!("{i}{node}"))).or_insert_with(|| node.clone());
            }
        }
        let key = crc32(&address.ip.to_string());
        let room: BTreeSet<&Name> = self.nodes.keys().filter(|node| self.load(node) < self.capacity(node)).collect();
        let mut met = Vec::new();
        for (_, node) in owners.range(key..).chain(owners.range(..key)) {
            if !met.contains(node) && room.contains(node) {
                met.push(node.clone());
            }
        }
        met
    }

    fn siblings(&self, at: usize) -> BTreeSet<Name> {
        let of_same = |(other, address): &(usize, &Address)| {
            *other != at && address.egress == self.addresses[at].egress && address.node.is_some()
        };
        self.addresses.iter().enumerate().filter(of_same).filter_map(|(_, address)| address.node.clone()).collect()
    }

    fn fewest(&self, walk: &[Name]) -> Option<Name> {
        walk.iter().min_by_key(|node| self.load(node)).cloned()
    }

    fn choose(&self, at: usize) -> Option<Name> {
        let mut walk = self.walk(at);
        let siblings = self.siblings(at);
        if walk.iter().any(|node| !siblings.contains(node)) {
            walk.retain(|node| !siblings.contains(node));
        }
        if self.policy == Policy::Spread { self.fewest(&walk) } else { walk.first().cloned() }
    }

    fn impossible(&self, at: usize) -> Option<MoveReason> {
        let address = &self.addresses[at];
        let node = address.node.as_ref()?;
        if !self.pools.contains_key(&address.pool) {
            return Some(MoveReason::AddressGone);
        }
        if !self.nodes.contains_key(node) {
            return Some(MoveReason::NodeGone);
        }
        Some(match self.fails_but_capacity(&address.pool, node)? {
            Ineligible::NotReady => MoveReason::NodeNotReady,
            Ineligible::NotLinux | Ineligible::SelectorMismatch => MoveReason::NodeMismatch,
            Ineligible::Drained => MoveReason::NodeDrained,
            Ineligible::AtCapacity { .. } => unreachable!("capacity is not tested here"),
        })
    }

    fn differences(&self, before: &[Option<Name>], why: impl Fn(usize) -> MoveReason) -> Vec<Decision> {
        let moved = |(at, address): (usize, &Address)| {
            (before[at] != address.node).then(|| Decision {
                ip: address.ip,
                egress: address.egress.clone(),
                from: before[at].clone(),
                to: address.node.clone(),
                why: if before[at].is_none() { MoveReason::Homeless } else { why(at) },
            })
        };
        self.addresses.iter().enumerate().filter_map(moved).collect()
    }

    pub fn places(&self) -> Vec<Option<Name>> {
        self.addresses.iter().map(|address| address.node.clone()).collect()
    }

    pub fn settle(&mut self) -> Vec<Decision> {
        if self.policy == Policy::ConsistentHash {
            return Vec::new();
        }
        let before = self.places();
        let mut reasons: BTreeMap<usize, MoveReason> = BTreeMap::new();
        for at in 0..self.addresses.len() {
            if let Some(why) = self.impossible(at) {
                reasons.insert(at, why);
                self.addresses[at].node = None;
                self.addresses[at].pinned = false;
            }
        }
        for node in self.nodes.keys().cloned().collect::<Vec<_>>() {
            while self.load(&node) > self.capacity(&node) {
                let on = |pinned: bool| {
                    self.addresses.iter().rposition(|a| a.node.as_ref() == Some(&node) && a.pinned == pinned)
                };
                let at = on(false).or_else(|| on(true)).unwrap();
                reasons.insert(at, MoveReason::OverCapacity);
                self.addresses[at].node = None;
                self.addresses[at].pinned = false;
            }
        }
        while let Some((at, node)) = (0..self.addresses.len())
            .filter(|at| self.addresses[*at].node.is_none())
            .find_map(|at| Some((at, self.choose(at)?)))
        {
            self.addresses[at].node = Some(node);
        }
        self.differences(&before, |at| reasons[&at])
    }

    pub fn recompute(&mut self) -> Vec<Decision> {
        if self.policy != Policy::ConsistentHash {
            return Vec::new();
        }
        let before = self.places();
        let reasons: Vec<Option<MoveReason>> = (0..self.addresses.len()).map(|at| self.impossible(at)).collect();
        for address in &mut self.addresses {
            address.node = None;
        }
        for at in 0..self.addresses.len() {
            self.addresses[at].node = self.choose(at);
        }
        self.differences(&before, |at| reasons[at].unwrap_or(MoveReason::Recomputed))
    }

    pub fn set_policy(&mut self, policy: Policy) -> Vec<IpAddr> {
        self.policy = policy;
        if policy != Policy::ConsistentHash {
            return Vec::new();
        }
        self.addresses.iter_mut().filter_map(|a| std::mem::take(&mut a.pinned).then_some(a.ip)).collect()
    }

    pub fn pin(&mut self, ip: IpAddr, node: &Name) -> Result<Option<Decision>, Ineligible> {
        let Some(at) = self.addresses.iter().position(|address| address.ip == ip) else { return Ok(None) };
        if !self.nodes.contains_key(node) {
            return Err(Ineligible::NotReady);
        }
        if let Some(why) = self.fails(at, node) {
            return Err(why);
        }
        if self.policy == Policy::ConsistentHash {
            return Ok(None);
        }
        let address = &mut self.addresses[at];
        let from = address.node.replace(node.clone());
        address.pinned = true;
        let decision =
            Decision { ip, egress: address.egress.clone(), from, to: Some(node.clone()), why: MoveReason::Pin };
        Ok((decision.from != decision.to).then_some(decision))
    }

    pub fn drain_leaves(&self, node: &Name) -> u32 {
        let mut drained = self.clone();
        let Some(input) = drained.nodes.get_mut(node) else { return 0 };
        if input.drained {
            return 0;
        }
        input.drained = true;
        drained.settle();
        drained.recompute();
        let counts = |was: &Address| was.node.is_some() && (was.node.as_ref() == Some(node) || self.recomputes());
        let left = self.addresses.iter().zip(&drained.addresses).filter(|(was, is)| counts(was) && is.node.is_none());
        left.count().try_into().unwrap()
    }

    fn recomputes(&self) -> bool {
        self.policy == Policy::ConsistentHash
    }

    pub fn rebalance(&mut self, max_moves: u32) -> Vec<Decision> {
        let mut decisions = Vec::new();
        while !self.recomputes() && decisions.len() < max_moves as usize {
            let mut nodes: Vec<Name> = self.nodes.keys().cloned().collect();
            nodes.sort_by_key(|node| std::cmp::Reverse(self.load(node)));
            let movable = |node: &Name| {
                (0..self.addresses.len())
                    .filter(|at| self.addresses[*at].node.as_ref() == Some(node) && !self.addresses[*at].pinned)
                    .find_map(|at| Some((at, self.lighter(at, node)?)))
            };
            let Some((at, to)) = nodes.iter().find_map(movable) else { break };
            let address = &mut self.addresses[at];
            let from = address.node.replace(to.clone());
            let (ip, egress) = (address.ip, address.egress.clone());
            decisions.push(Decision { ip, egress, from, to: Some(to), why: MoveReason::Rebalance });
        }
        decisions
    }

    fn lighter(&self, at: usize, own: &Name) -> Option<Name> {
        let mut walk = self.walk(at);
        let siblings = self.siblings(at);
        if !siblings.contains(own) || walk.iter().any(|node| !siblings.contains(node)) {
            walk.retain(|node| !siblings.contains(node));
        }
        self.fewest(&walk).filter(|to| self.load(to) + 2 <= self.load(own))
    }
}
