//! The ledger's own deadlines: what falls due is applied though nobody proposes anything.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::replica::Replica;

/// Between two looks at a deadline that passed and was not applied: a leader's clock may be a little behind
/// the ledger's.
const MOMENT: Duration = Duration::from_millis(10);
/// No longer than this between two looks, in case the wall clock is set.
const LONGEST: Duration = Duration::from_mins(1);

/// While this replica leads, proposes an empty entry whenever the ledger has something due.
pub(crate) async fn propose_due(replica: Weak<Replica>) {
    let Some((mut leadership, mut applied)) =
        replica.upgrade().map(|replica| (replica.leadership.subscribe(), replica.applied.clone()))
    else {
        return;
    };
    loop {
        if leadership.wait_for(Option::is_some).await.is_err() {
            return;
        }
        applied.mark_unchanged();
        let Some(now) = replica.upgrade() else { return };
        let due = now.store.read(holdfast_statemachine::Ledger::next_deadline);
        let wait = due.map(|due| Duration::from_millis(due.saturating_sub(now.applied.borrow().now())));
        if wait == Some(Duration::ZERO) {
            propose_nothing(&now).await;
        }
        drop(now);
        let wait = wait.unwrap_or(LONGEST).clamp(MOMENT, LONGEST);
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            changed = applied.changed() => if changed.is_err() { return },
            changed = leadership.changed() => if changed.is_err() { return },
        }
    }
}

async fn propose_nothing(replica: &Arc<Replica>) {
    let Some(running) = replica.running() else { return };
    let deadline = Instant::now() + replica.config.timings.election_max;
    if let Err(error) = running.proposer.propose(Arc::default(), 0, deadline).await {
        tracing::warn!(%error, "what fell due was not applied; trying again");
    }
}
