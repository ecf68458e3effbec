//! Why something is not as wanted, for people and for programs.

use holdfast::wire::{self, Invalid, Wire};
use holdfast_api::v1;
use holdfast_statemachine::Waiting;
use holdfast_statemachine::outcome::PoolRoom;
use serde::Serialize;

/// What an object waits for, and since when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitView {
    /// The revision of the first wait: the place in the order of waiters.
    pub since_revision: u64,
    /// What for.
    pub reasons: Vec<ReasonView>,
}

/// One thing that is waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReasonView {
    /// A stable code: `Exhausted`, `UnknownPool`, ...
    pub code: &'static str,
    /// The same for people.
    pub text: String,
    /// Each pool tried, with its numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<RoomView>,
}

/// How much room a request found in a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RoomView {
    /// The pool.
    pub pool: String,
    /// Addresses needed.
    pub needed: u128,
    /// Addresses free.
    pub free: u128,
    /// The longest run of free addresses in one range.
    pub largest_free_run: u128,
}

impl WaitView {
    /// Reads what is waited for.
    pub fn read(wait: Option<v1::Wait>) -> Result<Option<WaitView>, Invalid> {
        let Some(wait) = wait else { return Ok(None) };
        let reasons = wire::list::<Waiting>("waiting", wait.waiting)?;
        let reasons = reasons.iter().map(ReasonView::of).collect();
        Ok(Some(WaitView { since_revision: wait.since_revision, reasons }))
    }

    /// All reasons in one line.
    pub fn text(&self) -> String {
        self.reasons.iter().map(|reason| reason.text.as_str()).collect::<Vec<_>>().join("; ")
    }
}

impl ReasonView {
    /// What is waited for.
    pub fn of(waiting: &Waiting) -> ReasonView {
        let tried = match waiting {
            Waiting::Exhausted { tried, .. } | Waiting::NoBlock { tried, .. } => {
                tried.iter().map(RoomView::of).collect()
            }
            _ => Vec::new(),
        };
        ReasonView { code: waiting.code(), text: waiting.to_string(), tried }
    }
}

impl RoomView {
    fn of(room: &PoolRoom) -> RoomView {
        RoomView {
            pool: room.pool.to_string(),
            needed: room.needed,
            free: room.free,
            largest_free_run: room.largest_free_run,
        }
    }
}

/// The reasons of an optional wait in one line; empty without one.
pub fn text(wait: Option<&WaitView>) -> String {
    wait.map(WaitView::text).unwrap_or_default()
}

/// Reads what must be there.
pub fn must<T: Wire>(field: &str, message: Option<T::Message>) -> Result<T, Invalid> {
    wire::field(field, message)
}
