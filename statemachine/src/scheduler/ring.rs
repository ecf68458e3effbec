//! The Nodes that may carry addresses of the pools of one selector.

use std::collections::BTreeMap;

use super::circle::{Circle, Insertion, Removal};
use super::levels::Levels;
use super::node::Node;
use super::slab::Slab;
use super::{Order, Selector};

/// The live, Linux, matching, undrained Nodes of a selector: its *members*, each with its points.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    pub selector: Selector,
    /// How many pools have this selector.
    pub pools: u32,
    /// Addresses of these pools without a Node.
    pub homeless: BTreeMap<Order, u32>,
    circle: Circle,
    members: Slab<Member>,
    /// Members with room and a point of their own: those that a search can find.
    levels: Levels,
}

#[derive(Clone, Debug)]
struct Member {
    node: u32,
    load: u32,
    room: bool,
    /// Points that are its own. A Node can share every point with one of a smaller name: CRC-32 is linear, so two
    /// names of one length with one hash have all points in common.
    owned: usize,
    /// Its slot in its level, while it is there.
    slot: Option<usize>,
}

impl Ring {
    pub fn new(selector: Selector) -> Ring {
        Ring {
            selector,
            pools: 0,
            homeless: BTreeMap::new(),
            circle: Circle::new(),
            members: Slab::new(),
            levels: Levels::new(),
        }
    }

    /// Whether any address of these pools can be placed.
    pub fn has_room(&self) -> bool {
        !self.levels.is_empty()
    }

    /// Adds a Node; its seat here.
    pub fn join(&mut self, node: u32, nodes: &Slab<Node>, room: bool) -> u32 {
        let new = &nodes[node];
        let seat = self.members.insert(Member { node, load: new.load(), room, owned: 0, slot: None });
        for &point in &new.points {
            let members = &self.members;
            let precedes = |other: u32| new.name < nodes[members[other].node].name;
            let Insertion::Owned { before } = self.circle.insert(point, seat, precedes) else { continue };
            self.members[seat].owned += 1;
            self.circle.set_open(point, seat, room);
            if let Some(other) = before {
                self.members[other].owned -= 1;
                self.list(other);
            }
        }
        self.list(seat);
        seat
    }

    /// Takes a Node out.
    pub fn leave(&mut self, seat: u32, points: &[u32]) {
        self.unlist(seat);
        for &point in points {
            let Removal::Owned { heir: Some(heir) } = self.circle.remove(point, seat) else { continue };
            self.members[heir].owned += 1;
            self.circle.set_open(point, heir, self.members[heir].room);
            self.list(heir);
        }
        self.members.remove(seat);
    }

    /// A member's load, or whether it has room, changed.
    pub fn set_load(&mut self, seat: u32, points: &[u32], load: u32, room: bool) {
        self.unlist(seat);
        let member = &mut self.members[seat];
        member.load = load;
        if member.room != room {
            member.room = room;
            for &point in points {
                self.circle.set_open(point, seat, room);
            }
        }
        self.list(seat);
    }

    fn unlist(&mut self, seat: u32) {
        let member = &mut self.members[seat];
        if let Some(slot) = member.slot.take()
            && let Some(moved) = self.levels.remove(member.load, slot)
        {
            self.members[moved].slot = Some(slot);
        }
    }

    /// Has a member in its level if a search can find it, and nowhere otherwise.
    fn list(&mut self, seat: u32) {
        let member = &mut self.members[seat];
        if !(member.room && member.owned > 0) {
            self.unlist(seat);
        } else if member.slot.is_none() {
            member.slot = Some(self.levels.insert(member.load, seat));
        }
    }

    /// The first Node with room from this key on, passing over some Nodes while there is any other.
    pub fn first(&self, key: u32, passed: &[u32]) -> Option<u32> {
        if self.levels.is_empty() {
            return None;
        }
        let other = |seat: u32| !passed.contains(&self.members[seat].node);
        let seat = if passed.is_empty() { None } else { self.circle.first(key, other) };
        seat.or_else(|| self.circle.first(key, |_| true)).map(|seat| self.members[seat].node)
    }

    /// The Node with room that carries the fewest addresses, passing over some Nodes; of several, the first from this
    /// key on.
    pub fn least(&self, key: u32, passed: &[u32], nodes: &Slab<Node>) -> Option<u32> {
        let seat = self.levels.used().find_map(|level| self.first_at(level, key, passed, nodes))?;
        Some(self.members[seat].node)
    }

    /// The lowest load of a Node with room.
    pub fn lowest(&self) -> Option<u32> {
        self.levels.used().next()
    }

    fn first_at(&self, level: u32, key: u32, passed: &[u32], nodes: &Slab<Node>) -> Option<u32> {
        let list = self.levels.at(level);
        let wanted = |seat: u32| self.members[seat].load == level && !passed.contains(&self.members[seat].node);
        // The walk meets one of this level after about `len / list` Nodes; where they are few, asking each is shorter.
        if list.len() * list.len() * 4 < self.levels.len() {
            return list
                .iter()
                .copied()
                .filter(|seat| wanted(*seat))
                .min_by_key(|seat| self.distance(*seat, key, &nodes[self.members[*seat].node].points));
        }
        self.circle.first(key, wanted)
    }

    /// How far behind the key the first own point of a member lies.
    fn distance(&self, seat: u32, key: u32, points: &[u32]) -> u32 {
        let (before, behind) = points.split_at(points.partition_point(|point| *point < key));
        let own = behind.iter().chain(before).find(|point| self.circle.owns(**point, seat));
        own.expect("a member in a level has a point of its own").wrapping_sub(key)
    }

    /// What is wrong in here.
    pub fn check(&self, nodes: &Slab<Node>, capacity: impl Fn(&Node) -> u32) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut expected: BTreeMap<u32, BTreeMap<&str, u32>> = BTreeMap::new();
        for (seat, member) in self.members.iter() {
            let node = &nodes[member.node];
            for &point in &node.points {
                expected.entry(point).or_default().insert(&node.name, seat);
            }
            if member.load != node.load() || member.room != (node.load() < capacity(node)) {
                wrong.push(format!("{} has {} addresses, a ring counts {}", node.name, node.load(), member.load));
            }
            let listed = member.slot.is_some_and(|slot| self.levels.at(member.load).get(slot) == Some(&seat));
            if listed != (member.room && member.owned > 0) {
                wrong.push(format!("{} is in the wrong level of a ring", node.name));
            }
        }
        let listed = self.members.iter().filter(|(_, member)| member.slot.is_some()).count();
        if listed != self.levels.len() {
            wrong.push(format!("a ring has {} Nodes with room, {listed} of them known", self.levels.len()));
        }
        let open = |(rank, seat): (usize, &u32)| rank == 0 && self.members[*seat].room;
        let points = expected.iter().flat_map(|(hash, sharers)| {
            sharers.values().enumerate().map(move |(rank, seat)| (*hash, *seat, open((rank, seat))))
        });
        if !self.circle.iter().eq(points) || self.circle.wrong_buckets() > 0 {
            wrong.push("the points of a ring are not those of its Nodes".to_owned());
        }
        for (seat, member) in self.members.iter() {
            let owned = expected.values().filter(|sharers| sharers.values().next() == Some(&seat)).count();
            if owned != member.owned {
                wrong.push(format!("{} owns {owned} points, a ring counts {}", nodes[member.node].name, member.owned));
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::NodeInput;

    /// Asking each Node of a level and walking the circle must find the same one, also behind the wrap.
    #[test]
    fn both_ways_to_the_first_of_a_level_agree() {
        let mut nodes = Slab::new();
        let mut ring = Ring::new(Selector::default());
        for i in 0..200 {
            let mut node = Node::new(format!("node-{i}").into());
            node.input = Some(NodeInput { labels: [].into(), ready: true, drained: false, capacity: None });
            node.on = if i % 40 == 0 { Vec::new() } else { vec![0] };
            let id = nodes.insert(node);
            ring.join(id, &nodes, true);
        }
        assert_eq!((ring.levels.at(0).len(), ring.levels.at(1).len()), (5, 195));
        for passed in [&[][..], &[0, 40]] {
            for key in (0..4_096_u32).map(|i| i << 20).chain([u32::MAX]) {
                let wanted = |seat: u32| ring.members[seat].load == 0 && !passed.contains(&ring.members[seat].node);
                assert_eq!(ring.first_at(0, key, passed, &nodes), ring.circle.first(key, wanted), "{key}");
            }
        }
    }
}
