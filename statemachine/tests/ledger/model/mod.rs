//! A naive ledger: rows in plain maps, no index, written from `docs/rules.md` sentence by sentence.
//! Slow on purpose; pools are small here. It shares with the crate only the types of its rows,
//! the arithmetic of ranges, and `Selector::matches`.

mod adopt;
mod egress;
mod grant;
mod node;
mod outcome;
mod placement;
mod pool;
mod reservation;
mod search;
mod settle;
mod usable;

use std::collections::BTreeMap;
use std::net::IpAddr;

use holdfast_statemachine::command::{ObjectId, StatefulSetId};
use holdfast_statemachine::outcome::Note;
use holdfast_statemachine::row::{
    AdoptionRow, Clock, CoolingRow, EgressRow, GrantRow, Holder, NodeRow, OrdinalRow, PlacementRow, PoolRow,
    ReservationRow, RetiredRow, Settings, Stamp,
};
use holdfast_statemachine::{
    Action, Cause, Change, Command, Entry, Event, Key, Millis, Name, Outcome, PoolId, Rejection, Revision, Row, Source,
};

use crate::machine::{Answer, Machine};
pub use outcome::malformed;

/// What a command came to, before what follows from it.
type Verdict = Result<Outcome, Rejection>;

/// The naive ledger.
#[derive(Clone, Debug, Default)]
pub struct Model {
    clock: Clock,
    settings: Settings,
    pools: BTreeMap<PoolId, PoolRow>,
    retired: BTreeMap<PoolId, RetiredRow>,
    grants: BTreeMap<IpAddr, GrantRow>,
    cooling: BTreeMap<IpAddr, CoolingRow>,
    reservations: BTreeMap<StatefulSetId, ReservationRow>,
    ordinals: BTreeMap<(StatefulSetId, u32), OrdinalRow>,
    egresses: BTreeMap<Name, EgressRow>,
    placements: BTreeMap<IpAddr, PlacementRow>,
    nodes: BTreeMap<Name, NodeRow>,
    adoption: Option<AdoptionRow>,
    /// Of the entry being applied.
    index: u64,
    changes: Vec<Change>,
    cause: Option<Cause>,
    source: Option<Source>,
    /// What is worth saying of addresses granted by the command being applied.
    noted: Vec<(Holder, IpAddr, Note)>,
}

impl Machine for Model {
    fn empty() -> Model {
        Model::default()
    }

    fn apply(&mut self, entry: &Entry) -> Answer {
        self.index = entry.index;
        self.clock.time = self.clock.time.max(entry.proposed_at);
        self.deadlines();
        let outcomes = entry.commands.iter().map(|command| self.command(entry.term, command)).collect();
        if let Some(last) = self.changes.last() {
            self.cause = Some(last.cause.clone());
            self.recompute();
        }
        (outcomes, std::mem::take(&mut self.changes))
    }

    fn rows(&self) -> BTreeMap<Key, Row> {
        let mut rows = BTreeMap::new();
        rows.insert(Key::Clock, Row::Clock(self.clock));
        rows.insert(Key::Settings, Row::Settings(self.settings.clone()));
        rows.extend(self.pools.iter().map(|(k, r)| (Key::Pool(k.clone()), Row::Pool(r.clone()))));
        rows.extend(self.retired.iter().map(|(k, r)| (Key::Retired(k.clone()), Row::Retired(r.clone()))));
        rows.extend(self.grants.iter().map(|(k, r)| (Key::Grant(*k), Row::Grant(r.clone()))));
        rows.extend(self.cooling.iter().map(|(k, r)| (Key::Cooling(*k), Row::Cooling(r.clone()))));
        rows.extend(self.reservations.iter().map(|(k, r)| (Key::Reservation(k.clone()), Row::Reservation(r.clone()))));
        rows.extend(self.ordinals.iter().map(|(k, r)| (Key::Ordinal(k.0.clone(), k.1), Row::Ordinal(r.clone()))));
        rows.extend(self.egresses.iter().map(|(k, r)| (Key::Egress(k.clone()), Row::Egress(r.clone()))));
        rows.extend(self.placements.iter().map(|(k, r)| (Key::Placement(*k), Row::Placement(r.clone()))));
        rows.extend(self.nodes.iter().map(|(k, r)| (Key::Node(k.clone()), Row::Node(r.clone()))));
        rows.extend(self.adoption.iter().map(|r| (Key::Adoption, Row::Adoption(r.clone()))));
        rows
    }
}

/// A deadline that has passed. Retentions come before cool-downs of the same time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Passed {
    Retention(StatefulSetId, u32),
    CoolDown(IpAddr),
}

impl Model {
    /// The model that has these rows.
    pub fn from_rows(rows: impl IntoIterator<Item = (Key, Row)>) -> Model {
        let mut model = Model::default();
        for (key, row) in rows {
            match (key, row) {
                (Key::Clock, Row::Clock(row)) => model.clock = row,
                (Key::Settings, Row::Settings(row)) => model.settings = row,
                (Key::Pool(key), Row::Pool(row)) => drop(model.pools.insert(key, row)),
                (Key::Retired(key), Row::Retired(row)) => drop(model.retired.insert(key, row)),
                (Key::Grant(key), Row::Grant(row)) => drop(model.grants.insert(key, row)),
                (Key::Cooling(key), Row::Cooling(row)) => drop(model.cooling.insert(key, row)),
                (Key::Reservation(key), Row::Reservation(row)) => drop(model.reservations.insert(key, row)),
                (Key::Ordinal(id, n), Row::Ordinal(row)) => drop(model.ordinals.insert((id, n), row)),
                (Key::Egress(key), Row::Egress(row)) => drop(model.egresses.insert(key, row)),
                (Key::Placement(key), Row::Placement(row)) => drop(model.placements.insert(key, row)),
                (Key::Node(key), Row::Node(row)) => drop(model.nodes.insert(key, row)),
                (Key::Adoption, Row::Adoption(row)) => model.adoption = Some(row),
                (key, row) => panic!("{key:?} does not name {row:?}"),
            }
        }
        model
    }

    fn time(&self) -> Millis {
        self.clock.time
    }

    fn deadlines(&mut self) {
        self.cause = Some(Cause::Deadline);
        loop {
            let retentions = self.ordinals.iter().filter_map(|((id, ordinal), row)| {
                row.retained_until.map(|until| (until, Passed::Retention(id.clone(), *ordinal)))
            });
            let cool_downs = self.cooling.iter().map(|(address, row)| (row.until, Passed::CoolDown(*address)));
            let passed = retentions.chain(cool_downs).filter(|(until, _)| *until <= self.time()).min();
            match passed {
                None => return,
                Some((_, Passed::Retention(id, ordinal))) => {
                    self.free_ordinal(&id, ordinal);
                    self.forget_if_empty(&id);
                }
                Some((_, Passed::CoolDown(address))) => {
                    self.cooling.remove(&address);
                    self.emit(Event::Cooled { address });
                }
            }
            self.follow();
        }
    }

    fn command(&mut self, term: u64, command: &Command) -> Verdict {
        if let Some(meant) = command.only_in_term.filter(|meant| *meant != term) {
            return Err(Rejection::StaleTerm { meant, term });
        }
        let before = self.clone();
        self.cause = Some(outcome::cause(command));
        self.source = Some(command.source.clone());
        self.noted.clear();
        match self.act(&command.source, &command.action) {
            Ok(mut outcome) => {
                let deleted = self.clock.revision > before.clock.revision;
                match &command.action {
                    Action::PutPool(put) => outcome.notes.extend(self.note_retired(&put.pool)),
                    Action::DeletePool(delete) if deleted => outcome.notes.extend(self.note_retired(&delete.pool)),
                    _ => {}
                }
                self.follow();
                self.complete(&command.action, &before, &mut outcome);
                Ok(outcome)
            }
            Err(rejection) => {
                *self = before;
                Err(rejection)
            }
        }
    }

    fn act(&mut self, source: &Source, action: &Action) -> Verdict {
        self.refuse_in_adoption(action)?;
        match action {
            Action::PutPool(put) => self.put_pool(source, put),
            Action::DeletePool(delete) => self.delete_pool(source, delete),
            Action::Reserve(reserve) => self.reserve(source, reserve),
            Action::ReleaseReservation(release) => self.release_reservation(source, release),
            Action::Grant(grant) => self.grant(source, grant),
            Action::ReleaseGrant(release) => self.release_grant(source, release),
            Action::PutEgress(put) => self.put_egress(source, put),
            Action::DeleteEgress(delete) => self.delete_egress(source, delete),
            Action::PutNode(put) => self.put_node(source, put),
            Action::DeleteNode(delete) => self.delete_node(source, delete),
            Action::Drain(drain) => self.drain(drain),
            Action::Undrain(undrain) => self.undrain(undrain),
            Action::Pin(pin) => self.pin(pin),
            Action::Unpin(unpin) => self.unpin(unpin),
            Action::Rebalance(rebalance) => self.rebalance(rebalance),
            Action::PutSettings(put) => self.put_settings(put),
            Action::Sweep(sweep) => self.sweep(source, sweep),
            Action::Observe(observe) => self.observe(observe),
            Action::Adopt(adopt) => self.adopt(source, adopt),
        }
    }

    /// What comes after every deadline and command.
    fn follow(&mut self) {
        while !self.adopting() && self.meet_first() {}
        self.place();
    }

    /// Meets the first waiter that can be met. `false` if none can.
    fn meet_first(&mut self) -> bool {
        self.waiters().into_iter().any(|(_, object, item)| match object {
            ObjectId::Pool(id) => self.meet_pool(&id),
            ObjectId::Reservation(id) => self.meet_reservation(&id),
            ObjectId::Egress(name) => self.meet_item(&name, item),
            ObjectId::Node(_) | ObjectId::Pod(..) => false,
        })
    }

    /// Who waits, since when, in order; of an Egress, which item.
    fn waiters(&self) -> Vec<(Revision, ObjectId, usize)> {
        let mut waiters = BTreeMap::new();
        for (id, row) in &self.pools {
            waiters.extend(row.waiting.iter().map(|(since, _)| (*since, (ObjectId::Pool(id.clone()), 0))));
        }
        for (id, row) in &self.reservations {
            waiters.extend(row.waiting.iter().map(|(since, _)| (*since, (ObjectId::Reservation(id.clone()), 0))));
        }
        for (name, row) in &self.egresses {
            for (i, item) in row.items.iter().enumerate() {
                waiters.extend(item.waiting.iter().map(|(since, _)| (*since, (ObjectId::Egress(name.clone()), i))));
            }
        }
        waiters.into_iter().map(|(since, (object, item))| (since, object, item)).collect()
    }

    /// Whether anything waits that could be met now: never, between commands.
    pub fn could_meet(&self) -> bool {
        // (A trial may shift addresses, and a shift has a cause.)
        let mut trial = Model { cause: Some(Cause::Deadline), ..self.clone() };
        !self.adopting() && trial.meet_first()
    }

    /// Takes the next revision for a change, and stamps the rows that it names.
    fn emit(&mut self, event: Event) -> Stamp {
        self.clock.revision += 1;
        let stamp = Stamp { revision: self.clock.revision, index: self.index, at: self.time() };
        self.stamp_rows(&event, stamp);
        self.changes.push(Change {
            revision: stamp.revision,
            index: stamp.index,
            at: stamp.at,
            cause: self.cause.clone().expect("every change has a cause"),
            event,
        });
        stamp
    }

    fn stamp_rows(&mut self, event: &Event, stamp: Stamp) {
        match event {
            Event::Put(object) | Event::Waits { object, .. } | Event::Met { object, .. } => {
                self.stamp_object(object, stamp);
            }
            Event::Granted { address, holder, .. } | Event::Released { address, holder, .. } => {
                self.stamp_address(*address, stamp);
                self.stamp_holder(holder, stamp);
            }
            Event::Transferred { address, from, to, .. } => {
                self.stamp_address(*address, stamp);
                self.stamp_holder(from, stamp);
                self.stamp_holder(to, stamp);
            }
            Event::Bound { id, ordinal, .. } | Event::Unbound { id, ordinal, .. } => {
                for address in self.addresses_of(id, *ordinal) {
                    self.stamp_used(address, stamp);
                }
                self.stamp_ordinal(id, *ordinal, stamp);
            }
            Event::Retained { id, ordinal, .. } => self.stamp_ordinal(id, *ordinal, stamp),
            Event::Placed { address, egress, .. } => {
                if let Some(row) = self.placements.get_mut(address) {
                    row.stamp = stamp;
                }
                self.stamp_object(&ObjectId::Egress(egress.clone()), stamp);
                self.clock.placements = stamp.revision;
            }
            Event::Unplaced { egress, .. } | Event::Pinned { egress, .. } => {
                self.stamp_object(&ObjectId::Egress(egress.clone()), stamp);
                self.clock.placements = stamp.revision;
            }
            Event::Drained { node, .. } => self.stamp_object(&ObjectId::Node(node.clone()), stamp),
            Event::Retired { pool, .. } => {
                if let Some(row) = self.retired.get_mut(pool) {
                    row.stamp = stamp;
                }
            }
            Event::AdoptionBegun { .. } | Event::Conflict(_) | Event::AdoptionEnded { .. } => {
                if let Some(row) = &mut self.adoption {
                    row.stamp = stamp;
                }
            }
            Event::Deleted(_) | Event::Cooled { .. } | Event::Settings => {}
        }
    }

    fn stamp_object(&mut self, object: &ObjectId, stamp: Stamp) {
        match object {
            ObjectId::Pool(id) => {
                if let Some(row) = self.pools.get_mut(id) {
                    row.stamp = stamp;
                    row.used = stamp;
                }
            }
            ObjectId::Reservation(id) => {
                if let Some(row) = self.reservations.get_mut(id) {
                    row.stamp = stamp;
                }
            }
            ObjectId::Egress(name) => {
                if let Some(row) = self.egresses.get_mut(name) {
                    row.stamp = stamp;
                }
            }
            ObjectId::Node(name) => {
                if let Some(row) = self.nodes.get_mut(name) {
                    row.stamp = stamp;
                }
            }
            ObjectId::Pod(..) => {}
        }
    }

    fn stamp_address(&mut self, address: IpAddr, stamp: Stamp) {
        if let Some(row) = self.grants.get_mut(&address) {
            row.stamp = stamp;
        }
        self.stamp_used(address, stamp);
    }

    fn stamp_used(&mut self, address: IpAddr, stamp: Stamp) {
        for row in self.pools.values_mut() {
            if row.ranges.iter().any(|range| range.contains(address)) {
                row.used = stamp;
            }
        }
    }

    fn stamp_holder(&mut self, holder: &Holder, stamp: Stamp) {
        if let Holder::Egress { name } = holder {
            self.stamp_object(&ObjectId::Egress(name.clone()), stamp);
        }
    }

    fn stamp_ordinal(&mut self, id: &StatefulSetId, ordinal: u32, stamp: Stamp) {
        if let Some(row) = self.ordinals.get_mut(&(id.clone(), ordinal)) {
            row.stamp = stamp;
        }
    }
}
