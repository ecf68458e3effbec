//! The ledger: its rows, what is derived from them, and the one function that changes both.
//!
//! `docs/rules.md` says what each command does. One file a subject: `pools`, `reservations` (and `plan`, what
//! one would be given), `grants`, `egresses`, `nodes`, `adopt`, with `holding` (who holds what), `search` (which
//! address), `waiting` (who is tried when something is freed) below them.

mod adopt;
mod check;
mod egresses;
mod grants;
mod has;
mod holding;
mod identities;
mod nodes;
mod observe;
mod plan;
mod pools;
mod reservations;
mod search;
mod sweep;
mod users;
mod views;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::change::{Cause, Change, Event};
use crate::command::{Action, Command, Entry, Grant, Owner, OwnerRef, PodOwner, Reserve, Source, StatefulSetId};
use crate::free_space::FreeSpace;
use crate::outcome::{Outcome, Rejection};
use crate::row::{Clock, Holder, Key, Policy, PoolId, Row, Settings, Stamp};
use crate::scheduler::Scheduler;
use crate::tables::Tables;
use crate::{Family, Millis, Name, Range, Revision};

use holding::{Holdings, OwnerKey};
use waiting::Waiters;

pub use check::Violation;
pub use identities::Held;
pub use plan::Needed;
pub use views::{Holding, Usage};

/// The state machine. Equal logs make equal ledgers.
#[derive(Clone, Debug)]
pub struct Ledger {
    tables: Tables,
    /// The free addresses of each pool that has ranges in force.
    spaces: BTreeMap<PoolId, FreeSpace>,
    /// Addresses of deleted pools that are still held.
    retired_held: BTreeMap<PoolId, BTreeSet<IpAddr>>,
    /// What each reservation holds.
    holdings: BTreeMap<StatefulSetId, Holdings>,
    /// What each other owner holds.
    owned: BTreeMap<OwnerKey, BTreeSet<IpAddr>>,
    /// Cooling addresses, by who held them.
    cooling_of: BTreeMap<OwnerKey, BTreeSet<IpAddr>>,
    /// Where a Pod is bound, by UID and by name.
    bound_by_uid: BTreeMap<Name, (StatefulSetId, u32)>,
    bound_by_name: BTreeMap<(Name, Name), (StatefulSetId, u32)>,
    headroom: BTreeMap<(StatefulSetId, Family), Range>,
    /// Reservations whose headroom may have changed.
    headroom_stale: BTreeSet<StatefulSetId>,
    /// Which reservations and Egresses name a pool.
    reservations_naming: BTreeMap<Name, BTreeSet<StatefulSetId>>,
    egresses_naming: BTreeMap<Name, BTreeSet<Name>>,
    /// What happens by itself, and when.
    deadlines: BTreeSet<(Millis, Deadline)>,
    waiters: Waiters,
    scheduler: Scheduler,
    /// Where the entry being applied stands.
    now: Now,
    changes: Vec<Change>,
}

/// The entry being applied, and why.
#[derive(Clone, Debug)]
struct Now {
    revision: Revision,
    index: u64,
    time: Millis,
    placements: Revision,
    cause: Cause,
}

/// What a passed deadline ends; in the order in which those of one time are taken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Deadline {
    Retention(StatefulSetId, u32),
    CoolDown(IpAddr),
}

/// What one entry did.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    /// One for each command, in order.
    pub outcomes: Vec<Result<Outcome, Rejection>>,
    /// What changed, by ascending revision, without gaps.
    pub changes: Vec<Change>,
    /// The rows that were put or removed: what [`Tables::row`] says of each now is what is to be stored.
    pub touched: BTreeSet<Key>,
}

/// Rows that cannot be a ledger's.
#[derive(Debug, thiserror::Error)]
#[error("row {key:?}: {why}")]
pub struct BadRow {
    /// Which row.
    pub key: Key,
    /// What is wrong with it.
    pub why: String,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger::new()
    }
}

impl Ledger {
    /// An empty ledger, at revision 0.
    pub fn new() -> Ledger {
        let tables = Tables::default();
        let settings = tables.settings();
        let scheduler = Scheduler::new(settings.policy, settings.default_capacity);
        Ledger {
            tables,
            spaces: BTreeMap::new(),
            retired_held: BTreeMap::new(),
            holdings: BTreeMap::new(),
            owned: BTreeMap::new(),
            cooling_of: BTreeMap::new(),
            bound_by_uid: BTreeMap::new(),
            bound_by_name: BTreeMap::new(),
            headroom: BTreeMap::new(),
            headroom_stale: BTreeSet::new(),
            reservations_naming: BTreeMap::new(),
            egresses_naming: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            waiters: Waiters::default(),
            scheduler,
            now: Now { revision: 0, index: 0, time: 0, placements: 0, cause: Cause::Deadline },
            changes: Vec::new(),
        }
    }

    /// The ledger that has these rows. All that is derived is computed anew.
    pub fn from_rows(rows: impl IntoIterator<Item = (Key, Row)>) -> Result<Ledger, BadRow> {
        let mut ledger = Ledger::new();
        for (key, row) in rows {
            if !ledger.tables.restore(key.clone(), row) {
                return Err(BadRow { key, why: "its value is of another kind".to_owned() });
            }
        }
        let Clock { revision, time, placements } = ledger.tables.clock();
        ledger.now = Now { revision, index: 0, time, placements, cause: Cause::Deadline };
        ledger.derive_pools()?;
        ledger.derive_holdings();
        ledger.derive_reservations();
        ledger.derive_placement();
        ledger.derive_waiters();
        ledger.refresh_headroom();
        Ok(ledger)
    }

    /// Applies one entry. Cannot fail: what is not possible is an outcome.
    pub fn apply(&mut self, entry: &Entry) -> Applied {
        let clock = self.tables.clock();
        self.now = Now {
            revision: clock.revision,
            index: entry.index,
            time: clock.time.max(entry.proposed_at),
            placements: clock.placements,
            cause: Cause::Deadline,
        };
        self.pass_deadlines();
        let mut outcomes = Vec::with_capacity(entry.commands.len());
        for command in &entry.commands {
            outcomes.push(self.command(entry.term, command));
        }
        self.recompute_placements();
        let Now { revision, time, placements, .. } = self.now;
        self.tables.put_clock(Clock { revision, time, placements });
        let touched = self.tables.take_touched();
        #[cfg(debug_assertions)]
        self.assert_touched(&touched);
        Applied { outcomes, changes: std::mem::take(&mut self.changes), touched }
    }

    /// All rows, for reading.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// When an entry should be applied even if nobody has a command: the next end of a retention or cool-down.
    pub fn next_deadline(&self) -> Option<Millis> {
        self.deadlines.first().map(|(time, _)| *time)
    }

    fn pass_deadlines(&mut self) {
        while self.next_deadline().is_some_and(|time| time <= self.now.time) {
            let Some((_, deadline)) = self.deadlines.pop_first() else { return };
            match deadline {
                Deadline::Retention(id, ordinal) => self.end_retention(&id, ordinal),
                Deadline::CoolDown(address) => self.end_cool_down(address),
            }
            self.consequences();
        }
    }

    fn command(&mut self, term: u64, command: &Command) -> Result<Outcome, Rejection> {
        if let Some(meant) = command.only_in_term.filter(|meant| *meant != term) {
            return Err(Rejection::StaleTerm { meant, term });
        }
        let (before, changes) = (self.now.revision, self.changes.len());
        self.now.cause = cause(command);
        let mut outcome = self.act(&command.source, &command.action)?;
        if self.now.revision != before {
            self.consequences();
        }
        self.describe(&command.action, changes, &mut outcome);
        outcome.revision = self.now.revision;
        outcome.changed = self.now.revision != before;
        Ok(outcome)
    }

    /// Adds to the outcome of a declaration what was granted to the object, and what its rows say that it waits for.
    fn describe(&self, action: &Action, since: usize, outcome: &mut Outcome) {
        let granted_to = |holder: &Holder| match (action, holder) {
            (Action::Reserve(reserve), Holder::Ordinal { id, ordinal, .. }) if *id == reserve.id => {
                Some(Some(*ordinal))
            }
            (Action::PutEgress(put), Holder::Egress { name }) if *name == put.name => Some(None),
            _ => None,
        };
        for change in &self.changes[since..] {
            if let Event::Granted { address, pool, holder } = &change.event
                && let Some(ordinal) = granted_to(holder)
            {
                let revision = change.revision;
                reservations::extend_granted(&mut outcome.granted, pool.clone(), ordinal, *address, revision);
            }
        }
        let reservation = |id: &StatefulSetId| self.tables.reservations().get(id).and_then(|row| row.waiting.as_ref());
        match action {
            Action::PutPool(put) => {
                let waiting = self.tables.pools().get(&put.pool).and_then(|row| row.waiting.as_ref());
                outcome.waiting.extend(waiting.map(|(_, waiting)| waiting.clone()));
            }
            Action::Reserve(Reserve { id, .. })
            | Action::Grant(Grant { owner: Owner::Pod(PodOwner { ordinal: Some((id, _)), .. }), .. }) => {
                outcome.waiting.extend(reservation(id).into_iter().flat_map(|(_, waiting)| waiting.clone()));
            }
            Action::PutEgress(put) => {
                let items = self.tables.egresses().get(&put.name).into_iter().flat_map(|row| &row.items);
                outcome
                    .waiting
                    .extend(items.filter_map(|item| item.waiting.as_ref()).map(|(_, waiting)| waiting.clone()));
            }
            _ => {}
        }
    }

    fn act(&mut self, source: &Source, action: &Action) -> Result<Outcome, Rejection> {
        self.allowed(action)?;
        match action {
            Action::PutPool(put) => self.put_pool(source, put),
            Action::DeletePool(delete) => self.delete_pool(source, delete),
            Action::Reserve(reserve) => self.reserve(source, reserve),
            Action::ReleaseReservation(release) => self.release_reservation(source, release),
            Action::Grant(grant) => self.grant_to_owner(source, grant),
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

    /// What follows from a command or a deadline: what waits is tried, what is homeless is placed.
    fn consequences(&mut self) {
        self.wake();
        self.refresh_headroom();
        self.settle_placements();
    }

    /// Takes the next revision for one change.
    fn emit(&mut self, event: Event) -> Stamp {
        self.now.revision += 1;
        let Now { revision, index, time, .. } = self.now;
        self.changes.push(Change { revision, index, at: time, cause: self.now.cause.clone(), event });
        Stamp { revision, index, at: time }
    }

    fn put_settings(&mut self, put: &crate::command::PutSettings) -> Result<Outcome, Rejection> {
        let bounded = |field: &str, value: Option<u64>, least: u64, most: u64| match value {
            Some(value) if value < least || value > most => {
                Err(malformed(field, &value.to_string(), &format!("{least} to {most}")))
            }
            _ => Ok(()),
        };
        bounded("defaultCapacity", put.default_capacity.map(u64::from), 0, 255)?;
        bounded("historyRows", put.history_rows, 1_000, 100_000_000)?;
        bounded("historyAge", put.history_age, 60_000, u64::MAX)?;
        let mut settings = self.tables.settings().clone();
        settings.policy = put.policy.unwrap_or(settings.policy);
        settings.default_capacity = put.default_capacity.unwrap_or(settings.default_capacity);
        settings.history_rows = put.history_rows.unwrap_or(settings.history_rows);
        settings.history_age = put.history_age.unwrap_or(settings.history_age);
        self.set_settings(&settings);
        Ok(Outcome::default())
    }

    fn set_settings(&mut self, settings: &Settings) {
        let old = self.tables.settings().clone();
        if *settings == old {
            return;
        }
        self.emit(Event::Settings);
        self.tables.put_settings(settings.clone());
        self.scheduler.set_default_capacity(settings.default_capacity);
        if settings.policy != old.policy {
            self.change_policy(settings.policy);
        }
    }

    fn policy(&self) -> Policy {
        self.tables.settings().policy
    }
}

fn malformed(field: &str, value: &str, allowed: &str) -> Rejection {
    Rejection::Malformed { field: field.into(), value: value.into(), allowed: allowed.into() }
}

/// Refuses to touch what another source declared.
fn same_source(kind: &str, name: &str, recorded: &Source, asking: &Source) -> Result<(), Rejection> {
    if recorded == asking {
        return Ok(());
    }
    Err(Rejection::OtherSource { kind: kind.into(), name: name.into(), source_of: recorded.clone() })
}

fn owner_name(owner: &OwnerRef) -> String {
    match owner {
        OwnerRef::Named(name) => name.to_string(),
        OwnerRef::Pod(namespace, name) => format!("{namespace}/{name}"),
    }
}

fn cause(command: &Command) -> Cause {
    let (name, object): (&str, String) = match &command.action {
        Action::PutPool(a) => ("PutPool", a.pool.name.to_string()),
        Action::DeletePool(a) => ("DeletePool", a.pool.name.to_string()),
        Action::Reserve(a) => ("Reserve", a.id.to_string()),
        Action::ReleaseReservation(a) => ("ReleaseReservation", a.id.to_string()),
        Action::Grant(a) => ("Grant", grants::owner_text(&a.owner)),
        Action::ReleaseGrant(a) => ("ReleaseGrant", owner_name(&a.owner)),
        Action::PutEgress(a) => ("PutEgress", a.name.to_string()),
        Action::DeleteEgress(a) => ("DeleteEgress", a.name.to_string()),
        Action::PutNode(a) => ("PutNode", a.name.to_string()),
        Action::DeleteNode(a) => ("DeleteNode", a.name.to_string()),
        Action::Drain(a) => ("Drain", a.node.to_string()),
        Action::Undrain(a) => ("Undrain", a.node.to_string()),
        Action::Pin(a) => ("Pin", a.egress.to_string()),
        Action::Unpin(a) => ("Unpin", a.egress.to_string()),
        Action::Rebalance(_) => ("Rebalance", String::new()),
        Action::PutSettings(_) => ("PutSettings", String::new()),
        Action::Sweep(_) => ("Sweep", String::new()),
        Action::Observe(a) => ("Observe", a.pool.to_string()),
        Action::Adopt(_) => ("Adopt", String::new()),
    };
    Cause::Command { name: name.into(), object: object.into(), source: command.source.to_string().into() }
}
