//! A Node, as the scheduler knows it.

use std::collections::BTreeMap;

use super::{Name, Selector, circle};
use crate::change::MoveReason;
use crate::outcome::Ineligible;

/// More than so many addresses a Node cannot realise.
pub(super) const LARGEST_CAPACITY: u32 = 255;

/// What is declared of a Node, and whether an operator drained it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInput {
    /// Labels.
    pub labels: BTreeMap<Name, Name>,
    /// Whether it is live.
    pub ready: bool,
    /// Kept empty of Egress addresses.
    pub drained: bool,
    /// How many addresses it may carry, clamped to 0..=255; `None`: the default.
    pub capacity: Option<u32>,
}

/// A Node, its addresses, and its seats in the rings.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub name: Name,
    /// `None`: it is gone, or not declared yet, but addresses are still placed on it.
    pub input: Option<NodeInput>,
    /// The addresses on it, in no order to show.
    pub on: Vec<u32>,
    /// Its points on every ring, ascending.
    pub points: Box<[u32]>,
    /// The rings that it is in.
    pub seats: Vec<Seat>,
}

/// A Node's place in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    pub ring: u32,
    pub seat: u32,
}

impl Node {
    pub fn new(name: Name) -> Node {
        let points = circle::points(&name);
        Node { name, input: None, on: Vec::new(), points, seats: Vec::new() }
    }

    /// How many addresses it carries.
    pub fn load(&self) -> u32 {
        u32::try_from(self.on.len()).expect("addresses have u32 ids")
    }

    /// How many it may carry; 0 if it is gone.
    pub fn capacity(&self, default: u32) -> u32 {
        self.input.as_ref().map_or(0, |input| input.capacity.unwrap_or(default))
    }

    /// Whether it is in this ring.
    pub fn sits_in(&self, ring: u32) -> bool {
        self.seats.iter().any(|seat| seat.ring == ring)
    }

    /// The first test but that of capacity which it fails for a pool with this selector. `None`, an unknown pool,
    /// matches nothing.
    pub fn fails(&self, selector: Option<&Selector>) -> Option<Ineligible> {
        let Some(input) = self.input.as_ref().filter(|input| input.ready) else { return Some(Ineligible::NotReady) };
        if input.labels.get("kubernetes.io/os").is_some_and(|os| &**os != "linux") {
            return Some(Ineligible::NotLinux);
        }
        if !selector.is_some_and(|selector| selector.matches(&input.labels)) {
            return Some(Ineligible::SelectorMismatch);
        }
        input.drained.then_some(Ineligible::Drained)
    }

    /// Why an address of a pool with this selector can no longer be on it.
    pub fn refuses(&self, selector: &Selector) -> Option<MoveReason> {
        Some(match self.fails(Some(selector))? {
            Ineligible::NotReady if self.input.is_none() => MoveReason::NodeGone,
            Ineligible::NotReady => MoveReason::NodeNotReady,
            Ineligible::NotLinux | Ineligible::SelectorMismatch => MoveReason::NodeMismatch,
            Ineligible::Drained => MoveReason::NodeDrained,
            Ineligible::AtCapacity { .. } => MoveReason::OverCapacity,
        })
    }
}
