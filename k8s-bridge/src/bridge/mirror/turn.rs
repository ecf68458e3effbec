//! One look at one object: what is there, what is wanted, and the request between the two.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_statemachine::Name;
use jiff::Timestamp;
use tracing::{debug, warn};

use super::addresses::{self, Spec};
use super::budget::Budget;
use super::contest::Contest;
use super::memory::Memory;
use super::requests::{self, Failure};
use super::wanted::{egress_row, wanted};
use super::{cut, other_writer, status};
use crate::bridge::Mode;
use crate::bridge::key::Key;
use crate::bridge::office::Office;
use crate::bridge::recorder::Telling;
use crate::bridge::watched::Live;
use crate::ledger::Ledger;
use crate::objects::{Kind, Object};

/// How often a conflict is answered at once.
const ATTEMPTS: usize = 4;
/// Between two writes of one IPPool's status.
const PACE: Duration = Duration::from_millis(100);
/// The same, if it is larger than [`LARGE`].
const PACE_OF_LARGE: Duration = Duration::from_secs(1);
/// Bytes of JSON.
const LARGE: usize = 256 << 10;

/// Requests of all turns, in a second.
#[derive(Debug)]
pub struct Budgets {
    /// Patches of `spec`.
    pub spec: Budget,
    /// Writes of `status`.
    pub status: Budget,
}

impl Default for Budgets {
    fn default() -> Budgets {
        Budgets { spec: Budget::new(200, 400), status: Budget::new(200, 400) }
    }
}

/// What follows from a look at an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It says what it should.
    Right,
    /// It is not there any more.
    Gone,
    /// Its status is to be looked at.
    Status,
    /// It is to be looked at again at this time.
    At(Instant),
}

/// Looks at one object.
pub struct Turn<L> {
    /// All that is shared.
    pub office: Arc<Office<L>>,
    /// The requests left.
    pub budgets: Arc<Budgets>,
    /// The object.
    pub key: Key,
    /// What is known of it.
    pub memory: Memory,
}

/// One part of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Spec,
    Status,
}

impl<L: Ledger> Turn<L> {
    /// Sees to the addresses in its spec, if it is an Egress.
    pub async fn spec(&mut self) -> Next {
        if self.office.options.mode == Mode::Antrea {
            return if self.key.kind == Kind::IpPool { Next::Status } else { Next::Right };
        }
        if self.key.kind != Kind::Egress {
            return Next::Status;
        }
        for _ in 0..ATTEMPTS {
            let Some(live) = self.live() else { return Next::Gone };
            let Ok(Object::Egress(egress)) = &live.object else { return Next::Status };
            let Some(row) = egress_row(&self.office, &self.key, &live) else { return Next::Status };
            let ours = addresses::chosen_by_us(&egress.spec, &live.managers);
            let Spec::Patch(fields) = addresses::compare(&egress.spec, ours, &row) else {
                self.is_right(Part::Spec);
                return Next::Status;
            };
            let taken_away = addresses::taken_away(&egress.spec, &live.status, &self.office.cluster, &row);
            let other = taken_away.then(|| other_writer::of_spec(&live));
            let now = Instant::now();
            if other.is_some()
                && let Some(until) = self.memory.spec.until(now)
            {
                self.look_again(until, now);
                return Next::Status;
            }
            if let Some(at) = self.wait(Part::Spec, now) {
                return Next::At(at);
            }
            let office = self.office.clone();
            match requests::patch_spec(&office.client, &self.key, &live.resource_version, &fields).await {
                Ok(live) => {
                    self.memory.succeeded();
                    office.report.change(|state| state.spec_writes += 1);
                    if let Some(other) = other {
                        self.repaired(Part::Spec, &live.uid, &other);
                    }
                    self.memory.answer(live);
                    return Next::Status;
                }
                Err(failure) => {
                    if let Some(next) = self.failed(failure).await {
                        return next;
                    }
                }
            }
        }
        self.give_up()
    }

    /// Sees to its status.
    pub async fn status(&mut self) -> Next {
        if self.office.options.mode == Mode::Antrea {
            return self.list().await;
        }
        for _ in 0..ATTEMPTS {
            let Some(live) = self.live() else { return Next::Gone };
            let now = Instant::now();
            if let Some(at) = self.memory.not_before.filter(|at| *at > now) {
                return Next::At(at);
            }
            let office = self.office.clone();
            let time = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            let Some(mut wanted) = wanted(&office, &self.key, &live, &time) else { return Next::Right };
            if wanted.index.is_some_and(|at| status::is_newer(&live.status, &live.managers, &office.cluster, at)) {
                debug!(object = %self.key, "its status is newer than what is known here");
                return Next::Right;
            }
            status::complete(&mut wanted.status, &live.status, wanted.observed);
            if status::says(&live.status, &wanted.status) {
                self.is_right(Part::Status);
                return Next::Right;
            }
            let other = other_writer::of_status(&live, self.memory.written.as_deref(), &office.cluster);
            if other.is_some()
                && let Some(until) = self.memory.status.until(now)
            {
                return Next::At(until);
            }
            if let Some(at) = self.wait(Part::Status, now) {
                return Next::At(at);
            }
            let size = if self.key.kind == Kind::IpPool { cut::bytes(&wanted.status) } else { 0 };
            let began = Instant::now();
            match requests::put_status(&office.client, &self.key, &live.resource_version, &wanted.status).await {
                Ok(live) => {
                    self.wrote(size, began);
                    if let Some(other) = other {
                        self.repaired(Part::Status, &live.uid, &other);
                    }
                    self.memory.answer(live.clone());
                    self.memory.written = Some(live);
                    return Next::Right;
                }
                Err(failure) => {
                    if let Some(next) = self.failed(failure).await {
                        return next;
                    }
                }
            }
        }
        self.give_up()
    }

    /// The newest version known; none once it is gone.
    pub(super) fn live(&mut self) -> Option<Arc<Live>> {
        Some(self.memory.newest(self.office.cache.get(&self.key)?))
    }

    /// Until when a request has to wait, if it has to.
    pub(super) fn wait(&mut self, part: Part, now: Instant) -> Option<Instant> {
        if let Some(at) = self.memory.not_before.filter(|at| *at > now) {
            return Some(at);
        }
        let (turn, budget) = match part {
            Part::Spec => (&mut self.memory.spec_turn, &self.budgets.spec),
            Part::Status => (&mut self.memory.status_turn, &self.budgets.status),
        };
        let at = *turn.get_or_insert_with(|| budget.take(now));
        if at > now {
            return Some(at);
        }
        *turn = None;
        None
    }

    /// Its status was written, by a request that began then. An API server that is slow is given half of the time
    /// that it took to do something else.
    pub(super) fn wrote(&mut self, size: usize, began: Instant) {
        self.memory.succeeded();
        if self.key.kind == Kind::IpPool {
            let pace = if size > LARGE { PACE_OF_LARGE } else { PACE };
            let now = Instant::now();
            self.memory.not_before = Some((began + pace).max(now + (now - began) / 2));
        }
        self.office.report.change(|state| state.status_writes += 1);
    }

    /// A request was not done: what follows, unless it is to be tried again at once.
    pub(super) async fn failed(&mut self, failure: Failure) -> Option<Next> {
        let failure = match failure {
            Failure::Conflict => match requests::get(&self.office.client, &self.key).await {
                Ok(live) => {
                    self.memory.answer(live);
                    return None;
                }
                Err(failure) => failure,
            },
            other => other,
        };
        Some(match failure {
            Failure::Gone => Next::Gone,
            Failure::Conflict => self.give_up(),
            Failure::Again(after, why) => {
                // It may have been done all the same.
                self.memory.written = None;
                warn!(object = %self.key, why, "not written; tried again");
                self.office.report.failed(&format_args!("{}: {why}", self.key));
                Next::At(self.memory.failed(Instant::now(), after))
            }
        })
    }

    /// It changes faster than it can be written.
    fn give_up(&mut self) -> Next {
        Next::At(self.memory.failed(Instant::now(), None))
    }

    fn look_again(&self, at: Instant, now: Instant) {
        self.office.mirror.add_after(self.key.clone(), at.saturating_duration_since(now));
    }

    fn contest(&mut self, part: Part) -> &mut Contest {
        match part {
            Part::Spec => &mut self.memory.spec,
            Part::Status => &mut self.memory.status,
        }
    }

    /// Nothing is to be written: a contest ends, if nobody has changed it for long enough.
    fn is_right(&mut self, part: Part) {
        if self.contest(part).by().is_none() {
            return;
        }
        let now = Instant::now();
        if let Some(until) = self.contest(part).is_right(now) {
            return self.look_again(until, now);
        }
        if self.memory.spec.by().is_none() && self.memory.status.by().is_none() {
            self.office.report.change(|state| state.contested.remove(&self.key));
        }
    }

    /// It was put right after somebody else had changed it.
    fn repaired(&mut self, part: Part, uid: &Name, by: &Name) {
        let now = Instant::now();
        let began = self.contest(part).repaired(now, by);
        let until = self.contest(part).until(now);
        self.office.report.change(|state| {
            state.repairs += 1;
            if until.is_some() {
                state.contested.insert(self.key.clone(), by.to_string());
            }
        });
        let (reason, what) = match part {
            Part::Spec => ("SpecRestored", "taken away the address that was chosen"),
            Part::Status => ("StatusRestored", "changed the status"),
        };
        let note = format!("{by} had {what}: it says again what the ledger says");
        let about =
            || Telling { about: self.key.clone(), uid: uid.clone(), warning: false, reason, note: String::new() };
        self.office.recorder.tell(Telling { note, ..about() });
        if began {
            let note = format!("{by} keeps changing what the ledger decides: it is put right once a minute only");
            self.office.recorder.tell(Telling { warning: true, reason: "Contested", note, ..about() });
        }
        if let Some(until) = until {
            self.look_again(until, now);
        }
    }
}
