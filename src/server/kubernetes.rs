//! What a replica tells of the bridge beside it.

use std::sync::Arc;

use holdfast_api::v1;
use holdfast_bridge::bridge::Mode;
use holdfast_bridge::bridge::key::Key;
use holdfast_bridge::bridge::report::{Phase, Report, Watch};
use holdfast_bridge::objects::Kind;
use holdfast_statemachine::row::AdoptionRow;
use jiff::Timestamp;

/// The most objects that a list of problems names.
const LISTED_MAX: usize = 100;

/// The bridge beside a replica.
#[derive(Clone)]
pub struct Kubernetes {
    /// Who else writes the objects.
    pub mode: Mode,
    /// What the bridge says of itself.
    pub report: Arc<Report>,
}

impl Kubernetes {
    /// As it stands now. `adoption`: how the first start went, as the ledger keeps it.
    pub fn status(&self, adoption: Option<&AdoptionRow>) -> v1::KubernetesStatus {
        let state = self.report.state();
        let (last_error_at_ms, last_error) = match state.last_error {
            Some((at, why)) => (millis(at), why),
            None => (0, String::new()),
        };
        v1::KubernetesStatus {
            mode: self.mode.to_string(),
            phase: phase(state.phase).to_owned(),
            unwritten: state.unwritten as u64,
            behind_ms: state.behind_since.map(|since| u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)),
            last_error,
            last_error_at_ms,
            status_writes: state.status_writes,
            spec_writes: state.spec_writes,
            repairs: state.repairs,
            events: state.events,
            events_dropped: state.events_dropped,
            contested: state.contested.iter().take(LISTED_MAX).map(problem).collect(),
            refused: state.refused.iter().take(LISTED_MAX).map(problem).collect(),
            conflicts: adoption.into_iter().flat_map(|row| &row.conflicts).map(ToString::to_string).collect(),
            conflicts_total: adoption.map_or(0, |row| row.conflicts_total),
            passed_over: state.passed_over.listed.iter().map(|(key, why)| problem((key, why))).collect(),
            passed_over_total: state.passed_over.total,
            // (A watch that ends with its office may still have told.)
            watches: state.watches.iter().filter(|_| state.phase != Phase::Following).map(watch).collect(),
        }
    }
}

fn problem((key, why): (&Key, &String)) -> v1::ObjectProblem {
    v1::ObjectProblem { object: key.to_string(), why: why.clone() }
}

fn watch((kind, watch): (&Kind, &Watch)) -> v1::WatchStatus {
    v1::WatchStatus {
        kind: kind.name().to_owned(),
        up: watch.down.is_none(),
        since_ms: millis(watch.since),
        error: watch.down.clone().unwrap_or_default(),
    }
}

fn millis(at: Timestamp) -> u64 {
    u64::try_from(at.as_millisecond()).unwrap_or(0)
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Following => "following",
        Phase::Checking => "checking",
        Phase::Listing => "listing",
        Phase::Adopting => "adopting",
        Phase::Sweeping => "sweeping",
        Phase::Working => "working",
    }
}
