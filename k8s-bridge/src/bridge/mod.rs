//! The bridge at work: follows a Kubernetes API server and a ledger, and brings each what the other says.
//!
//! It runs where the ledger's leader is ([`run`]), one [`office::Office`] a term. Everything is level-triggered:
//! an event only says which key to look at, and whoever looks reads the newest of both sides.

mod adopt;
pub mod backoff;
pub mod cache;
mod decide;
mod informer;
pub mod key;
mod mirror;
mod modes;
mod observe;
pub mod office;
pub mod queue;
mod readiness;
pub mod recorder;
pub mod report;
mod requests;
mod services;
mod unseen;
mod verify;
pub mod watched;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{error, info};

use crate::ledger::Ledger;
use crate::objects::Kind;
use backoff::Backoff;
use cache::Cache;
use decide::Deposed;
pub use holdfast_statemachine::adopt::Mode;
pub use modes::Unfit;
use office::{Office, Refusals, Told};
use queue::Queue;
use recorder::Recorder;
use report::{Phase, Report};

/// What the bridge is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whose the objects' status is.
    pub mode: Mode,
    /// How long a Node may be without Ready before it counts as gone.
    pub node_grace: Duration,
    /// How long a Node that returns must have been Ready before it counts as there.
    pub node_stable: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options { mode: Mode::Standalone, node_grace: Duration::ZERO, node_stable: Duration::ZERO }
    }
}

/// After a fault of ours, and before this replica, deposed by the log, is taken to lead on.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs the bridge of this replica, whenever it leads. Ends only if the Kubernetes API is not what the mode needs.
pub async fn run<L: Ledger>(ledger: L, client: Client, options: Options, report: Arc<Report>) -> Unfit {
    let mut leads = ledger.leads();
    loop {
        let term = *leads.borrow_and_update();
        if let (Some(term), Some(cluster)) = (term, ledger.cluster()) {
            let office = Arc::new(Office {
                ledger: ledger.clone(),
                term,
                since: ledger.read(|ledger| ledger.tables().clock().revision),
                cluster,
                client: client.clone(),
                options: options.clone(),
                cache: Cache::default(),
                decisions: Queue::default(),
                unproven: Queue::default(),
                backoff: Backoff::default(),
                mirror: Queue::default(),
                recorder: Recorder::default(),
                report: report.clone(),
                refusals: Refusals::default(),
                misaddressed: Told::default(),
                ahead: Told::default(),
            });
            info!(term, "the bridge is in office");
            let ended = tokio::select! {
                unfit = serve(office) => unfit,
                _ = leads.wait_for(|now| *now != Some(term)) => Ended::Deposed,
            };
            report.change(|state| {
                let kept = std::mem::take(state);
                state.last_error = kept.last_error;
                state.passed_over = kept.passed_over;
            });
            info!(term, "the bridge is out of office");
            match ended {
                Ended::Unfit(unfit) => return unfit,
                // By the log itself, before this replica knows; or it was about to hand over, and may go on leading.
                Ended::Deposed => {
                    let another = tokio::time::timeout(PAUSE, leads.wait_for(|now| *now != Some(term)));
                    let is_over = matches!(another.await, Ok(Err(_)));
                    if is_over {
                        std::future::pending::<()>().await;
                    }
                }
                Ended::Failed => tokio::time::sleep(PAUSE).await,
            }
            continue;
        }
        if leads.changed().await.is_err() {
            // The replica is gone, and the process with it.
            std::future::pending::<()>().await;
        }
    }
}

/// Why an office ended.
enum Ended {
    /// This replica leads no longer.
    Deposed,
    /// The API is not what the mode needs.
    Unfit(Unfit),
    /// A part of it failed, which is a fault of ours: another office of the same term begins anew.
    Failed,
}

/// One term, until it ends.
async fn serve<L: Ledger>(office: Arc<Office<L>>) -> Ended {
    office.report.change(|state| state.phase = Phase::Checking);
    if let Err(unfit) = modes::check_until_answered(&office).await {
        return Ended::Unfit(unfit);
    }
    // Before anything is listed: from here on nobody is given an address that the API says is another's.
    let adopted = match adopt::begin(&office).await {
        Ok(adopted) => adopted,
        Err(adopt::Stopped::Deposed) => return Ended::Deposed,
        Err(adopt::Stopped::Unfit(unfit)) => return Ended::Unfit(unfit),
    };
    office.report.change(|state| state.phase = Phase::Listing);
    // Dropping the set ends every task in it.
    let mut tasks = JoinSet::new();
    tasks.spawn(mirror::follow(office.clone()));
    tasks.spawn(verify::run(office.clone()));
    tasks.spawn(services::follow(office.clone()));
    let mut listed = Vec::new();
    macro_rules! follow {
        ($($kind:ty),*) => {$({
            let (sender, receiver) = watch::channel(false);
            tasks.spawn(informer::follow::<$kind, L>(office.clone(), sender));
            listed.push((<$kind as watched::Watchable>::KIND, receiver));
        })*};
    }
    follow!(watched::Namespaces, watched::IpPools, watched::Pods, watched::StatefulSets);
    if office.options.mode == Mode::Standalone {
        // Beside Antrea its agents place Egress addresses by themselves: a second opinion would only mislead.
        follow!(watched::ExternalIpPools, watched::Nodes, watched::Egresses);
    }
    for (kind, mut listed) in listed {
        if listed.wait_for(|listed| *listed).await.is_err() {
            return Ended::Failed;
        }
        info!(kind = kind.name(), objects = office.cache.keys(kind).len(), "listed");
    }
    if load(&office, adopted).await.is_err() {
        return Ended::Deposed;
    }
    office.report.change(|state| state.phase = Phase::Working);
    tasks.spawn(mirror::run(office.clone()));
    tokio::select! {
        () = decide::run(&office) => Ended::Deposed,
        ended = tasks.join_next() => {
            let why = ended.and_then(Result::err).map_or_else(|| "a task ended".to_owned(), |error| error.to_string());
            error!(why, "a part of the bridge failed; it begins anew");
            office.report.failed(&why);
            Ended::Failed
        }
    }
}

/// What comes before normal work: adopt, on a first start; else release what is gone; then look at everything.
async fn load<L: Ledger>(office: &Arc<Office<L>>, adopted: bool) -> Result<(), Deposed> {
    if !adopted {
        adopt::adopt(office).await?;
    }
    office.report.change(|state| state.phase = Phase::Sweeping);
    verify::sweep(office).await?;
    if office.decisions.due() > 0 {
        let keys = office.decisions.take().await;
        decide::pass(office, keys).await?;
    }
    Ok(())
}

/// The name under which the bridge writes, in `metadata.managedFields`.
pub const FIELD_MANAGER: &str = "holdfast";

/// Every kind that the bridge writes.
pub(crate) const MIRRORED: [Kind; 3] = [Kind::IpPool, Kind::ExternalIpPool, Kind::Egress];
