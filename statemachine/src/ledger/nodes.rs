//! Nodes, and where Egress addresses are placed on them: the scheduler decides, this writes it down.

use std::net::IpAddr;

use super::reservations::not_held;
use super::{Ledger, malformed, same_source};
use crate::Name;
use crate::change::{Event, MoveReason};
use crate::command::{DeleteNode, Drain, ObjectId, Pin, PutNode, Rebalance, Source, Undrain, Unpin};
use crate::outcome::{Move, Note, Outcome, Rejection};
use crate::row::{EgressRow, NodeRow, PlacementRow, Policy, PoolKind, Stamp};
use crate::scheduler::{AddressInput, Decision, NodeInput};

/// As many addresses as a Node can realise.
const MAX_CAPACITY: i64 = 255;

fn unknown(kind: &str, name: &str) -> Rejection {
    Rejection::Unknown { kind: kind.into(), name: name.into() }
}

fn input(row: &NodeRow) -> NodeInput {
    NodeInput { labels: row.labels.clone(), ready: row.ready, drained: row.drained, capacity: row.capacity }
}

fn clamped(capacity: Option<i64>) -> Option<u32> {
    capacity.and_then(|asked| u32::try_from(asked.clamp(0, MAX_CAPACITY)).ok())
}

/// A Node as it is put, in the place of an old row if there is one: with the stamp of that.
pub(super) fn declared(source: &Source, put: &PutNode, old: Option<&NodeRow>) -> NodeRow {
    NodeRow {
        source: source.clone(),
        uid: put.uid.clone(),
        labels: put.labels.clone(),
        ready: put.ready,
        capacity: clamped(put.capacity),
        drained: old.is_some_and(|row| row.drained),
        stamp: old.map(|row| row.stamp).unwrap_or_default(),
    }
}

impl Ledger {
    pub(super) fn put_node(&mut self, source: &Source, put: &PutNode) -> Result<Outcome, Rejection> {
        if put.name.is_empty() || put.name.len() > 253 {
            return Err(malformed("metadata.name", &put.name, "1 to 253 characters"));
        }
        let old = self.tables.nodes().get(&put.name).cloned();
        if let Some(row) = &old {
            same_source("Node", &put.name, &row.source, source)?;
        }
        let mut outcome = Outcome::default();
        if let (Some(asked), Some(used)) = (put.capacity, clamped(put.capacity))
            && asked != i64::from(used)
        {
            outcome.notes.push(Note::CapacityClamped { asked, used });
        }
        let mut row = declared(source, put, old.as_ref());
        if old.as_ref() != Some(&row) {
            row.stamp = self.emit(Event::Put(ObjectId::Node(put.name.clone())));
            self.scheduler.put_node(&put.name, input(&row));
            self.tables.put_node(put.name.clone(), row);
        }
        Ok(outcome)
    }

    pub(super) fn delete_node(&mut self, source: &Source, delete: &DeleteNode) -> Result<Outcome, Rejection> {
        let Some(row) = self.tables.nodes().get(&delete.name) else { return Ok(not_held(None, None)) };
        same_source("Node", &delete.name, &row.source, source)?;
        if row.uid != delete.uid {
            return Ok(not_held(Some(row.uid.clone()), Some(row.stamp.revision)));
        }
        self.emit(Event::Deleted(ObjectId::Node(delete.name.clone())));
        self.tables.remove_node(&delete.name);
        self.scheduler.remove_node(&delete.name);
        Ok(Outcome::default())
    }

    pub(super) fn drain(&mut self, drain: &Drain) -> Result<Outcome, Rejection> {
        let Some(row) = self.tables.nodes().get(&drain.node).cloned() else {
            return Err(unknown("Node", &drain.node));
        };
        if row.drained {
            return Ok(Outcome::default());
        }
        let left = self.scheduler.drain_leaves(&drain.node);
        if left > 0 && !drain.force {
            let carried = self.scheduler.load(&drain.node);
            return Err(Rejection::NoRoom { node: drain.node.clone(), left, carried });
        }
        self.set_drained(&drain.node, row, true);
        Ok(self.settled_outcome())
    }

    pub(super) fn undrain(&mut self, undrain: &Undrain) -> Result<Outcome, Rejection> {
        let Some(row) = self.tables.nodes().get(&undrain.node).cloned() else {
            return Err(unknown("Node", &undrain.node));
        };
        if !row.drained {
            return Ok(Outcome::default());
        }
        self.set_drained(&undrain.node, row, false);
        Ok(self.settled_outcome())
    }

    fn set_drained(&mut self, node: &Name, mut row: NodeRow, drained: bool) {
        row.stamp = self.emit(Event::Drained { node: node.clone(), drained });
        row.drained = drained;
        self.scheduler.put_node(node, input(&row));
        self.tables.put_node(node.clone(), row);
    }

    fn settled_outcome(&mut self) -> Outcome {
        let decisions = self.scheduler.settle();
        Outcome { moves: self.realise(decisions, false), ..Outcome::default() }
    }

    /// The one address of an Egress that a command means.
    fn placed_address(&self, egress: &Name, address: Option<IpAddr>) -> Result<IpAddr, Rejection> {
        let row = self.tables.egresses().get(egress).ok_or_else(|| unknown("Egress", egress))?;
        let granted: Vec<IpAddr> = row.items.iter().filter_map(crate::row::EgressItemRow::granted).collect();
        match (address, granted.as_slice()) {
            (Some(address), granted) if granted.contains(&address) => Ok(address),
            (Some(address), _) => Err(unknown("address", &address.to_string())),
            (None, [only]) => Ok(*only),
            (None, []) => Err(unknown("address", egress)),
            (None, several) => {
                let several: Vec<String> = several.iter().map(IpAddr::to_string).collect();
                Err(malformed("address", "", &format!("one of {}", several.join(", "))))
            }
        }
    }

    fn refuse_under_consistent_hash(&self, what: &str) -> Result<(), Rejection> {
        match self.policy() {
            Policy::ConsistentHash => Err(Rejection::Policy { policy: Policy::ConsistentHash, what: what.into() }),
            Policy::Sticky | Policy::Spread => Ok(()),
        }
    }

    pub(super) fn pin(&mut self, pin: &Pin) -> Result<Outcome, Rejection> {
        self.refuse_under_consistent_hash("Pin")?;
        let address = self.placed_address(&pin.egress, pin.address)?;
        if !self.tables.nodes().contains_key(&pin.node) {
            return Err(unknown("Node", &pin.node));
        }
        let decided = self.scheduler.pin(address, &pin.node);
        let decision = decided.map_err(|why| Rejection::Ineligible { node: pin.node.clone(), address, why })?;
        let moves = self.realise(decision.into_iter().collect(), true);
        if moves.is_empty() {
            self.set_pinned(address, true);
        }
        Ok(Outcome { moves, ..Outcome::default() })
    }

    /// Puts an adopted address on the Node that it is said to be on, if it is nowhere yet and the Node may carry it.
    pub(super) fn place_adopted(&mut self, egress: &Name, address: IpAddr, node: &Name) {
        let elsewhere = self.tables.placements().contains_key(&address);
        if elsewhere || self.policy() == Policy::ConsistentHash || self.placed_address(egress, Some(address)).is_err() {
            return;
        }
        if let Ok(Some(decision)) = self.scheduler.pin(address, node) {
            self.realise(vec![Decision { why: MoveReason::Homeless, ..decision }], false);
            self.scheduler.unpin(address);
        }
    }

    pub(super) fn unpin(&mut self, unpin: &Unpin) -> Result<Outcome, Rejection> {
        let address = self.placed_address(&unpin.egress, unpin.address)?;
        self.scheduler.unpin(address);
        self.set_pinned(address, false);
        Ok(Outcome::default())
    }

    fn set_pinned(&mut self, address: IpAddr, pinned: bool) {
        let Some(mut row) = self.tables.placements().get(&address).cloned() else { return };
        if row.pinned == pinned {
            return;
        }
        row.pinned = pinned;
        let stamp = self.emit(Event::Pinned { address, egress: row.egress.clone(), pinned });
        self.placement_changed(&row.egress, stamp);
        self.tables.put_placement(address, row);
    }

    pub(super) fn rebalance(&mut self, rebalance: &Rebalance) -> Result<Outcome, Rejection> {
        if rebalance.max_moves == 0 {
            return Err(malformed("maxMoves", "0", "1 or more"));
        }
        self.refuse_under_consistent_hash("Rebalance")?;
        let changed = self.now.placements;
        if let Some(at) = rebalance.at.filter(|at| *at < changed) {
            return Err(Rejection::PlacementsChanged { at, changed });
        }
        let decisions = self.scheduler.rebalance(rebalance.max_moves);
        Ok(Outcome { moves: self.realise(decisions, false), ..Outcome::default() })
    }

    pub(super) fn change_policy(&mut self, policy: Policy) {
        for address in self.scheduler.set_policy(policy) {
            self.set_pinned(address, false);
        }
    }

    /// Tells the scheduler of an address that an Egress holds, and of its place in the order.
    pub(super) fn schedule(&mut self, egress: &Name, position: u32, address: IpAddr) {
        let Some(row) = self.tables.egresses().get(egress) else { return };
        let item = usize::try_from(position).ok().and_then(|at| row.items.get(at));
        let Some(pool) = item.and_then(|item| item.pool.clone()) else { return };
        let at = self.tables.placements().get(&address).map(|placed| (placed.node.clone(), placed.pinned));
        let order = (row.created.clone(), position);
        self.scheduler.put_address(address, AddressInput { egress: egress.clone(), order, pool, at });
    }

    pub(super) fn settle_placements(&mut self) {
        let decisions = self.scheduler.settle();
        self.realise(decisions, false);
    }

    pub(super) fn recompute_placements(&mut self) {
        let decisions = self.scheduler.recompute();
        if let Some(last) = self.changes.last() {
            self.now.cause = last.cause.clone();
        }
        self.realise(decisions, false);
    }

    /// Writes down what the scheduler decided.
    fn realise(&mut self, decisions: Vec<Decision>, pinned: bool) -> Vec<Move> {
        let mut moves = Vec::with_capacity(decisions.len());
        for Decision { ip: address, egress, from, to, why } in decisions {
            if let Some(node) = &to {
                let placed =
                    Event::Placed { address, egress: egress.clone(), from: from.clone(), to: node.clone(), why };
                let stamp = self.emit(placed);
                let row = PlacementRow { egress: egress.clone(), node: node.clone(), pinned, stamp };
                self.tables.put_placement(address, row);
                self.placement_changed(&egress, stamp);
            } else {
                self.unplace(address, why);
            }
            moves.push(Move { egress, address, from, to });
        }
        moves
    }

    /// Ends the placement of an address, if it has one.
    pub(super) fn unplace(&mut self, address: IpAddr, why: MoveReason) {
        let Some(row) = self.tables.remove_placement(&address) else { return };
        let stamp = self.emit(Event::Unplaced { address, egress: row.egress.clone(), from: row.node, why });
        self.placement_changed(&row.egress, stamp);
    }

    fn placement_changed(&mut self, egress: &Name, stamp: Stamp) {
        self.now.placements = stamp.revision;
        self.tables.stamp_egress(egress, stamp);
    }

    pub(super) fn derive_placement(&mut self) {
        let settings = self.tables.settings();
        self.scheduler = crate::scheduler::Scheduler::new(settings.policy, settings.default_capacity);
        for (name, row) in self.tables.nodes() {
            self.scheduler.put_node(name, input(row));
        }
        for (id, row) in self.tables.pools() {
            if id.kind == PoolKind::ExternalIpPool {
                self.scheduler.put_pool(&id.name, &row.wanted.node_selector);
            }
        }
        let egresses: Vec<(Name, EgressRow)> =
            self.tables.egresses().iter().map(|(name, row)| (name.clone(), row.clone())).collect();
        for (name, row) in egresses {
            for (position, item) in (0u32..).zip(&row.items) {
                if let Some(pool) = &item.pool {
                    self.egresses_naming.entry(pool.clone()).or_default().insert(name.clone());
                }
                if let Some(address) = item.granted() {
                    self.schedule(&name, position, address);
                }
            }
        }
    }
}
