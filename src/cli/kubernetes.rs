//! The part of `status` that tells of the bridge to the Kubernetes API.

use std::collections::BTreeMap;

use holdfast_api::v1;
use serde::Serialize;

use super::{Failure, output, words};

/// A replica's bridge.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesView {
    mode: String,
    phase: String,
    unwritten: u64,
    behind_ms: Option<u64>,
    last_error: Option<ErrorView>,
    status_writes: u64,
    spec_writes: u64,
    repairs: u64,
    events: u64,
    events_dropped: u64,
    contested: Vec<ProblemView>,
    refused: Vec<ProblemView>,
    conflicts: Vec<String>,
    conflicts_total: u64,
    passed_over: Vec<ProblemView>,
    passed_over_total: u64,
    watches: Vec<WatchView>,
}

/// Whether what changes of a kind is seen.
#[derive(Clone, Debug, Serialize)]
struct WatchView {
    kind: String,
    up: bool,
    since: String,
    error: Option<String>,
}

/// What failed last, and was or is tried again.
#[derive(Clone, Debug, Serialize)]
struct ErrorView {
    at: String,
    why: String,
}

/// An object, and what is the matter with it.
#[derive(Clone, Debug, Serialize)]
struct ProblemView {
    object: String,
    why: String,
}

impl KubernetesView {
    /// As the replica tells it.
    pub fn read(status: &v1::KubernetesStatus) -> KubernetesView {
        let problems = |of: &[v1::ObjectProblem]| {
            of.iter().map(|it| ProblemView { object: it.object.clone(), why: it.why.clone() }).collect()
        };
        let last_error = (!status.last_error.is_empty())
            .then(|| ErrorView { at: words::time(status.last_error_at_ms), why: status.last_error.clone() });
        KubernetesView {
            mode: status.mode.clone(),
            phase: status.phase.clone(),
            unwritten: status.unwritten,
            behind_ms: status.behind_ms,
            last_error,
            status_writes: status.status_writes,
            spec_writes: status.spec_writes,
            repairs: status.repairs,
            events: status.events,
            events_dropped: status.events_dropped,
            contested: problems(&status.contested),
            refused: problems(&status.refused),
            conflicts: status.conflicts.clone(),
            conflicts_total: status.conflicts_total,
            passed_over: problems(&status.passed_over),
            passed_over_total: status.passed_over_total,
            watches: status.watches.iter().map(WatchView::read).collect(),
        }
    }

    /// Tells people how the bridge of this replica stands, if it is the one at work, or adopted.
    pub fn tell(&self, replica: &str) -> Result<(), Failure> {
        if self.phase == "following" {
            if self.passed_over_total > 0 {
                output::say(format_args!("kubernetes (mode {}) at {replica}, which adopted:", self.mode))?;
            }
            return self.tell_passed_over();
        }
        let lag = match self.behind_ms {
            Some(behind) => format!("{} objects to write, behind for {behind} ms", self.unwritten),
            None => "all written".to_owned(),
        };
        output::say(format_args!(
            "kubernetes (mode {}) at {replica}: {}, {lag}; {} status and {} spec writes, {} repairs, {} Events ({} dropped)",
            self.mode, self.phase, self.status_writes, self.spec_writes, self.repairs, self.events, self.events_dropped
        ))?;
        if let Some(error) = &self.last_error {
            output::say(format_args!("  last error, at {}: {}", error.at, error.why))?;
        }
        if let Some(down) = self.down() {
            output::say(format_args!("  not followed: {down}"))?;
        }
        for refused in &self.refused {
            output::say(format_args!("  refused: {}: {}", refused.object, refused.why))?;
        }
        for conflict in &self.conflicts {
            output::say(format_args!("  conflict on the first start: {conflict}"))?;
        }
        let untold = self.conflicts_total.saturating_sub(self.conflicts.len() as u64);
        if untold > 0 {
            output::say(format_args!("  and {untold} more conflicts, told in Events and in the log"))?;
        }
        self.tell_passed_over()?;
        for contested in &self.contested {
            output::say(format_args!("  contested: {}: {}", contested.object, contested.why))?;
        }
        Ok(())
    }

    fn tell_passed_over(&self) -> Result<(), Failure> {
        for passed_over in &self.passed_over {
            output::say(format_args!("  passed over on the first start: {}: {}", passed_over.object, passed_over.why))?;
        }
        let untold = self.passed_over_total.saturating_sub(self.passed_over.len() as u64);
        if untold > 0 {
            output::say(format_args!("  and {untold} more passed over, told in Events and in the log"))?;
        }
        Ok(())
    }

    /// The kinds whose watches are down, by error: `Namespace since T, Pod since T: no route; Egress since T: denied`.
    fn down(&self) -> Option<String> {
        let mut by_error = BTreeMap::<&str, Vec<String>>::new();
        for watch in self.watches.iter().filter(|watch| !watch.up) {
            let error = watch.error.as_deref().unwrap_or_default();
            by_error.entry(error).or_default().push(format!("{} since {}", watch.kind, watch.since));
        }
        let told: Vec<_> = by_error.iter().map(|(error, kinds)| format!("{}: {error}", kinds.join(", "))).collect();
        (!told.is_empty()).then(|| told.join("; "))
    }
}

impl WatchView {
    fn read(watch: &v1::WatchStatus) -> WatchView {
        WatchView {
            kind: watch.kind.clone(),
            up: watch.up,
            since: words::time(watch.since_ms),
            error: (!watch.up).then(|| watch.error.clone()),
        }
    }
}
