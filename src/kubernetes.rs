//! The bridge beside a replica: what it needs of the ledger, over the replica; and the API server's whereabouts.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast::server::Kubernetes;
use holdfast_bridge::bridge::report::Report;
use holdfast_bridge::bridge::{self, Options, Unfit};
use holdfast_bridge::ledger::{Gap, Ledger, Outcomes, Unproposed};
use holdfast_raft::{Node, ProposeError};
use holdfast_statemachine as statemachine;
use holdfast_statemachine::row::Holder;
use holdfast_statemachine::store::Subject;
use holdfast_statemachine::{Change, Command, Revision, StoreError};
use tokio::sync::watch;
use tracing::warn;

use crate::cli::Failure;

/// How long one proposal may take.
const PROPOSAL: Duration = Duration::from_secs(10);
/// How long connecting to the API server may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a list or a watch may be silent: a little more than a watch lasts.
const SILENCE: Duration = Duration::from_mins(5);

/// Former holders of an address that are looked at.
const HOLDERS: usize = 8;

/// A bridge that is ready to run.
pub struct Bridge {
    client: kube::Client,
    options: Options,
    report: Arc<Report>,
}

impl Bridge {
    /// Finds the API server: by `KUBECONFIG` or `~/.kube/config`, else as a Pod does.
    pub async fn find(options: Options) -> Result<Bridge, Failure> {
        let refused = |error: &dyn std::fmt::Display| Failure::Usage(format!("kubernetes: {error}"));
        let mut config = kube::Config::infer().await.map_err(|error| refused(&error))?;
        config.connect_timeout = Some(CONNECT);
        config.read_timeout = Some(SILENCE);
        // The bridge knows itself what is worth trying again, and when.
        config.default_retry = false;
        let client = kube::Client::try_from(config).map_err(|error| refused(&error))?;
        Ok(Bridge { client, options, report: Arc::default() })
    }

    /// What the services tell of it.
    pub fn told(&self) -> Kubernetes {
        Kubernetes { mode: self.options.mode, report: self.report.clone() }
    }

    /// Works whenever this replica leads. Ends only if the API server is not what the mode needs.
    pub async fn run(self, node: Node) -> Unfit {
        bridge::run(Here(node), self.client, self.options, self.report).await
    }
}

/// The ledger, by the replica in this process.
#[derive(Clone)]
struct Here(Node);

impl Ledger for Here {
    fn cluster(&self) -> Option<String> {
        self.0.cluster().map(|cluster| cluster.to_string())
    }

    fn leads(&self) -> watch::Receiver<Option<u64>> {
        self.0.leadership()
    }

    async fn propose(&self, commands: Vec<Command>) -> Result<Outcomes, Unproposed> {
        match self.0.propose_here(commands, Instant::now() + PROPOSAL).await {
            Ok(proposed) => Ok(proposed.outcomes),
            Err(ProposeError::NotLeader { .. } | ProposeError::NotReady { .. } | ProposeError::Stopping) => {
                Err(Unproposed::NotLeader)
            }
            Err(error @ ProposeError::TooLarge { .. }) => Err(Unproposed::TooLarge(error.to_string())),
            Err(error) => Err(Unproposed::Again(error.to_string())),
        }
    }

    fn read<T>(&self, read: impl FnOnce(&statemachine::Ledger) -> T) -> T {
        self.0.read(read)
    }

    fn revision(&self) -> watch::Receiver<Revision> {
        self.0.subscribe()
    }

    fn held_before(&self, address: IpAddr) -> Option<Holder> {
        let intervals = self.0.store().history_of_address(address, None, HOLDERS).unwrap_or_else(|error| {
            warn!(%error, "the history of an address cannot be read");
            Vec::new()
        });
        let ended = intervals.into_iter().filter(|interval| interval.to.is_some());
        ended.map(|interval| interval.subject).find_map(|subject| match subject {
            Subject::Held { holder: Holder::Observed { .. }, .. } => None,
            Subject::Held { holder, .. } => Some(holder),
            _ => None,
        })
    }

    fn changes(&self, after: Revision, limit: usize) -> Result<Vec<Change>, Gap> {
        self.0.store().changes(after, limit).map_err(|error| {
            if !matches!(error, StoreError::TooOld { .. }) {
                warn!(%error, "changes cannot be read: looking at everything");
            }
            Gap { after }
        })
    }
}
