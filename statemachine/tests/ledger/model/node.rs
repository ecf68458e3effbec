//! Nodes, settings, and what operators ask of placements.

use std::net::IpAddr;

use holdfast_statemachine::change::MoveReason;
use holdfast_statemachine::command::{
    DeleteNode, Drain, ObjectId, Pin, PutNode, PutSettings, Rebalance, Undrain, Unpin,
};
use holdfast_statemachine::outcome::{Move, Note};
use holdfast_statemachine::row::{EgressItemRow, NodeRow, Policy, Settings, Stamp};
use holdfast_statemachine::{Event, Name, Outcome, Rejection, Source};

use super::outcome::{malformed, not_held, other_source};
use super::{Model, Verdict};

fn unknown(kind: &str, name: &str) -> Rejection {
    Rejection::Unknown { kind: kind.into(), name: name.into() }
}

impl Model {
    pub(super) fn put_node(&mut self, source: &Source, put: &PutNode) -> Verdict {
        let old = self.nodes.get(&put.name).cloned();
        if let Some(row) = old.as_ref().filter(|row| row.source != *source) {
            return Err(other_source(&ObjectId::Node(put.name.clone()), &row.source));
        }
        let capacity = put.capacity.map(|asked| u32::try_from(asked.clamp(0, 255)).expect("clamped"));
        let mut outcome = Outcome::default();
        if let (Some(asked), Some(used)) = (put.capacity, capacity)
            && asked != i64::from(used)
        {
            outcome.notes.push(Note::CapacityClamped { asked, used });
        }
        let row = NodeRow {
            source: source.clone(),
            uid: put.uid.clone(),
            labels: put.labels.clone(),
            ready: put.ready,
            capacity,
            drained: old.as_ref().is_some_and(|row| row.drained),
            stamp: old.as_ref().map_or(Stamp::default(), |row| row.stamp),
        };
        if old.as_ref() == Some(&row) {
            return Ok(outcome);
        }
        self.nodes.insert(put.name.clone(), row);
        self.emit(Event::Put(ObjectId::Node(put.name.clone())));
        Ok(outcome)
    }

    pub(super) fn delete_node(&mut self, source: &Source, delete: &DeleteNode) -> Verdict {
        let Some(row) = self.nodes.get(&delete.name) else { return Ok(not_held(None)) };
        if row.source != *source {
            return Err(other_source(&ObjectId::Node(delete.name.clone()), &row.source));
        }
        if row.uid != delete.uid {
            return Ok(not_held(Some((row.uid.clone(), row.stamp.revision))));
        }
        self.nodes.remove(&delete.name);
        self.emit(Event::Deleted(ObjectId::Node(delete.name.clone())));
        Ok(Outcome::default())
    }

    pub(super) fn put_settings(&mut self, put: &PutSettings) -> Verdict {
        if put.default_capacity.is_some_and(|n| n > 255) {
            return Err(malformed("default_capacity"));
        }
        if put.history_rows.is_some_and(|n| !(1_000..=100_000_000).contains(&n)) {
            return Err(malformed("history_rows"));
        }
        if put.history_age.is_some_and(|n| n < 60_000) {
            return Err(malformed("history_age"));
        }
        let mut new = self.settings.clone();
        new.policy = put.policy.unwrap_or(new.policy);
        new.default_capacity = put.default_capacity.unwrap_or(new.default_capacity);
        new.history_rows = put.history_rows.unwrap_or(new.history_rows);
        new.history_age = put.history_age.unwrap_or(new.history_age);
        if new != self.settings {
            self.change_settings(new);
        }
        Ok(Outcome::default())
    }

    pub(super) fn change_settings(&mut self, new: Settings) {
        let to_hash = new.policy == Policy::ConsistentHash && self.settings.policy != new.policy;
        self.settings = new;
        self.emit(Event::Settings);
        if to_hash {
            for (address, ..) in self.in_order() {
                self.set_pinned(address, false);
            }
        }
    }

    pub(super) fn drain(&mut self, drain: &Drain) -> Verdict {
        let Some(row) = self.nodes.get(&drain.node) else { return Err(unknown("Node", &drain.node)) };
        if row.drained {
            return Ok(Outcome::default());
        }
        let hash = self.settings.policy == Policy::ConsistentHash;
        let carried = self.carried_by(&drain.node);
        let mut after = self.clone();
        after.set_drained(&drain.node, true);
        let at_stake: Vec<IpAddr> = if hash {
            after.recompute();
            self.placements.keys().copied().collect()
        } else {
            after.place();
            carried.clone()
        };
        let left = at_stake.iter().filter(|address| !after.placements.contains_key(*address)).count();
        let count = |n: usize| u32::try_from(n).expect("fewer than 2^32 addresses");
        if left > 0 && !drain.force {
            return Err(Rejection::NoRoom {
                node: drain.node.clone(),
                left: count(left),
                carried: count(carried.len()),
            });
        }
        self.set_drained(&drain.node, true);
        Ok(Outcome::default())
    }

    pub(super) fn undrain(&mut self, undrain: &Undrain) -> Verdict {
        let Some(row) = self.nodes.get(&undrain.node) else { return Err(unknown("Node", &undrain.node)) };
        if row.drained {
            self.set_drained(&undrain.node, false);
        }
        Ok(Outcome::default())
    }

    fn set_drained(&mut self, node: &Name, drained: bool) {
        self.nodes.get_mut(node).expect("it is there").drained = drained;
        self.emit(Event::Drained { node: node.clone(), drained });
    }

    /// The granted address that `Pin` or `Unpin` names.
    fn named_address(&self, egress: &Name, address: Option<IpAddr>) -> Result<IpAddr, Rejection> {
        let row = self.egresses.get(egress).ok_or_else(|| unknown("Egress", egress))?;
        let granted: Vec<IpAddr> = row.items.iter().filter_map(EgressItemRow::granted).collect();
        match address {
            Some(address) if granted.contains(&address) => Ok(address),
            None if granted.len() > 1 => Err(malformed("address")),
            None if granted.len() == 1 => Ok(granted[0]),
            _ => Err(unknown("address", &address.map_or(egress.to_string(), |a| a.to_string()))),
        }
    }

    pub(super) fn pin(&mut self, pin: &Pin) -> Verdict {
        self.refuse_under_hash("Pin")?;
        let address = self.named_address(&pin.egress, pin.address)?;
        if !self.nodes.contains_key(&pin.node) {
            return Err(unknown("Node", &pin.node));
        }
        let pool = self.grants[&address].pool.clone();
        if let Some(why) = self.failing(&pin.node, &pool, address) {
            return Err(Rejection::Ineligible { node: pin.node.clone(), address, why });
        }
        let from = self.placements.get(&address).map(|row| row.node.clone());
        if from.as_ref() == Some(&pin.node) {
            self.set_pinned(address, true);
            return Ok(Outcome::default());
        }
        self.move_to(address, &pin.egress, &pin.node, true, MoveReason::Pin);
        let moves = vec![Move { egress: pin.egress.clone(), address, from, to: Some(pin.node.clone()) }];
        Ok(Outcome { moves, ..Outcome::default() })
    }

    pub(super) fn unpin(&mut self, unpin: &Unpin) -> Verdict {
        let address = self.named_address(&unpin.egress, unpin.address)?;
        if self.placements.contains_key(&address) {
            self.set_pinned(address, false);
        }
        Ok(Outcome::default())
    }

    fn set_pinned(&mut self, address: IpAddr, pinned: bool) {
        let Some(row) = self.placements.get_mut(&address).filter(|row| row.pinned != pinned) else { return };
        row.pinned = pinned;
        let egress = row.egress.clone();
        self.emit(Event::Pinned { address, egress, pinned });
    }

    fn refuse_under_hash(&self, what: &str) -> Result<(), Rejection> {
        match self.settings.policy {
            Policy::ConsistentHash => Err(Rejection::Policy { policy: Policy::ConsistentHash, what: what.into() }),
            _ => Ok(()),
        }
    }

    pub(super) fn rebalance(&mut self, rebalance: &Rebalance) -> Verdict {
        if rebalance.max_moves == 0 {
            return Err(malformed("max_moves"));
        }
        self.refuse_under_hash("Rebalance")?;
        if let Some(at) = rebalance.at.filter(|at| self.clock.placements > *at) {
            return Err(Rejection::PlacementsChanged { at, changed: self.clock.placements });
        }
        let mut outcome = Outcome::default();
        for _ in 0..rebalance.max_moves {
            let Some((address, to)) = self.best_move() else { break };
            let row = self.placements[&address].clone();
            self.move_to(address, &row.egress, &to, false, MoveReason::Rebalance);
            outcome.moves.push(Move { egress: row.egress, address, from: Some(row.node), to: Some(to) });
        }
        Ok(outcome)
    }

    /// From the fullest Node with a movable address, its first movable one, and where to.
    fn best_move(&self) -> Option<(IpAddr, Name)> {
        let mut nodes: Vec<(usize, Name)> =
            self.nodes.keys().map(|node| (self.carried_by(node).len(), node.clone())).collect();
        nodes.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        for (carried, node) in nodes {
            for (address, egress, pool) in self.in_order() {
                if self.placements.get(&address).is_none_or(|row| row.node != node || row.pinned) {
                    continue;
                }
                let at = self.where_all_are();
                let open = self.open_nodes(&at, address, &egress, &pool);
                let load = |node: &Name| at.values().filter(|other| *other == node).count();
                let emptiest = open.into_iter().min_by_key(|node| load(node));
                if let Some(to) = emptiest.filter(|to| load(to) + 2 <= carried) {
                    return Some((address, to));
                }
            }
        }
        None
    }
}
