//! The command line: what can be asked, and what is printed.

mod apply;
mod asking;
mod change;
mod cluster;
mod egress;
mod explain;
mod export;
mod failure;
mod grant;
mod history;
mod holder;
mod kubernetes;
mod listed;
mod names;
mod node;
mod operate;
mod outcome;
mod output;
mod pool;
mod proposal;
mod reservation;
mod settings;
mod table;
mod waiting;
mod watch;
mod words;

use clap::{Args, CommandFactory, Parser, Subcommand};

pub use apply::{View, read as read_manifests, send as send_actions};
pub use asking::{DEFAULT_ENDPOINTS, Reading};
pub use change::line as change_line;
pub use egress::{EgressView, Which, fetch as fetch_egresses};
pub use explain::fetch as fetch_explanations;
pub use export::fetch as fetch_export;
pub use failure::Failure;
pub use listed::table;
pub use node::fetch as fetch_nodes;
pub use outcome::OutcomeView;
pub use output::{Format, remark, say, value};
pub use pool::fetch as fetch_pools;
pub use proposal::declare;
pub use reservation::{ReservationView, fetch as fetch_reservations};
pub use settings::Policy;
pub use words::counted;

use asking::Asking;

const LONG_ABOUT: &str = "\
Holdfast is a replicated ledger of who holds which IP address in a Kubernetes cluster, and of which Node carries \
which Egress address. Three replicas agree on one log, so that contiguous addresses for StatefulSets and Egress \
placements are decided once, in one order, durably.";

const EXAMPLES: &str = "\
Start here:
  holdfast dev deploy/examples     three replicas in this process, fed with a directory of manifests
  holdfast reservation list        from another terminal: what each StatefulSet holds or waits for
  holdfast explain egress NAME     why an Egress has no Node, Node by Node
  holdfast watch --after 0         every change so far and from now on, and what made it

A group of your own:
  holdfast serve --name a --data-dir /var/lib/holdfast --listen 10.0.0.1:7601 \\
    --initial-members a=10.0.0.1:7601,b=10.0.0.2:7601,c=10.0.0.3:7601 --cluster-token SECRET

Exit codes:
  0  done; also: recorded, and waiting
  1  refused by a rule
  2  wrong use
  3  no replica reachable
  4  the fate of a write is unknown; repeating it is safe";

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "holdfast", version, about = "A replicated ledger of IP addresses and Egress placements")]
#[command(long_about = LONG_ABOUT, after_help = EXAMPLES, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Option<Verb>,
}

/// A verb that asks a running group.
#[derive(Args, Clone, Debug)]
pub struct Client<T: Args> {
    #[command(flatten)]
    verb: T,
    #[command(flatten)]
    asking: Asking,
}

/// A noun with verbs of its own, which ask a running group.
#[derive(Args, Clone, Debug)]
pub struct Noun<T: Subcommand> {
    #[command(subcommand)]
    verb: T,
    #[command(flatten)]
    asking: Asking,
}

/// A verb without arguments of its own.
#[derive(Args, Clone, Debug)]
pub struct Nothing {}

/// See `holdfast completion --help`.
#[derive(Args, Clone, Debug)]
pub struct CompletionArgs {
    /// For this shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

/// What can be asked.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run a replica of a group
    Serve(Box<crate::config::Flags>),
    /// Run three replicas in this process, fed with the manifests of a directory
    Dev(crate::dev::DevArgs),
    /// Apply manifests to a running group
    #[command(after_help = "\
Kinds read: Namespace, Node, Pod, StatefulSet (apps/v1), IPPool, ExternalIPPool, Egress
(crd.antrea.io/v1beta1). Others are skipped, with a line on standard error. With one mistake in
any file nothing is applied.

Examples:
  holdfast apply -f pools.yaml -f apps/
  kubectl get egresses -o yaml | holdfast apply -f -
  holdfast apply -f cluster/ --set cluster --prune    delete what is no longer in cluster/")]
    Apply(Client<apply::ApplyArgs>),
    /// Print every IPPool, ExternalIPPool and Egress as Kubernetes will hold them
    Export(Client<export::ExportArgs>),
    /// Show how each replica is
    Status(Client<Nothing>),
    /// Pools: ranges of addresses, and how much of each is used
    Pool(Noun<pool::PoolVerb>),
    /// Reservations: the addresses of StatefulSets
    Reservation(Noun<reservation::ReservationVerb>),
    /// Egresses: their addresses and Nodes
    Egress(Noun<egress::EgressVerb>),
    /// Nodes: how many Egress addresses each carries
    Node(Noun<node::NodeVerb>),
    /// Give an address to anything with a name, and list who holds what
    #[command(after_help = "\
Examples:
  holdfast grant vm-7 --pool pods                        the lowest free address
  holdfast grant vm-7 --pool pods --address 10.2.2.40    this one
  holdfast grant list --owner vm-7
  holdfast grant release vm-7
  holdfast grant --pool pods -- list                     an owner named like a verb")]
    Grant(Client<grant::GrantArgs>),
    /// Free all that a named owner holds
    Release(Client<grant::ReleaseArgs>),
    /// Show who held an address, or where an Egress address was, the latest first
    History(Client<history::HistoryArgs>),
    /// Explain why something waits, or why an Egress has no Node
    Explain(Noun<explain::ExplainVerb>),
    /// Print changes as they are made
    #[command(after_help = "\
A watch that loses its replica goes on at another, without a gap. To resume a watch that was ended,
name the last revision that it printed: holdfast watch --after 1234. If changes after it are no
longer kept, that is refused with exit code 1.")]
    Watch(Client<watch::WatchArgs>),
    /// Empty a Node of Egress addresses and keep it empty
    Drain(Client<operate::DrainArgs>),
    /// End a drain
    Undrain(Client<operate::UndrainArgs>),
    /// Move an Egress address to a Node and keep it from rebalance
    Pin(Client<operate::PinArgs>),
    /// End a pin; moves nothing
    Unpin(Client<operate::UnpinArgs>),
    /// Even out the Nodes' load by a bounded number of moves
    Rebalance(Client<operate::RebalanceArgs>),
    /// The ledger's settings
    Settings(Noun<settings::SettingsVerb>),
    /// The group's members
    Member(Noun<cluster::MemberVerb>),
    /// The group's leader
    Leader(Noun<cluster::LeaderVerb>),
    /// Take a snapshot of each replica asked
    Snapshot(Client<Nothing>),
    /// Check every invariant of each replica asked, and compare their digests
    Check(Client<Nothing>),
    /// Print the definitions of the kinds for a Kubernetes API server
    #[command(after_help = "  holdfast crds | kubectl apply --server-side -f -")]
    Crds,
    /// Print a completion script
    #[command(after_help = "Example: source <(holdfast completion bash)")]
    Completion(CompletionArgs),
}

impl Cli {
    /// Runs the verb, or teaches.
    pub async fn run(self) -> Result<(), Failure> {
        let Some(verb) = self.verb else {
            return say(Cli::command().render_long_help());
        };
        match verb {
            Verb::Serve(flags) => crate::serve::run(*flags).await,
            Verb::Dev(args) => crate::dev::run(args).await,
            Verb::Apply(it) => apply::run(&it.asking, it.verb).await,
            Verb::Export(it) => export::run(&it.asking, it.verb).await,
            Verb::Status(it) => cluster::status(&it.asking).await,
            Verb::Pool(it) => pool::run(&it.asking, it.verb).await,
            Verb::Reservation(it) => reservation::run(&it.asking, it.verb).await,
            Verb::Egress(it) => egress::run(&it.asking, it.verb).await,
            Verb::Node(it) => node::run(&it.asking, it.verb).await,
            Verb::Grant(it) => grant::run(&it.asking, it.verb).await,
            Verb::Release(it) => grant::release(&it.asking, it.verb).await,
            Verb::History(it) => history::run(&it.asking, it.verb).await,
            Verb::Explain(it) => explain::run(&it.asking, it.verb).await,
            Verb::Watch(it) => watch::run(&it.asking, it.verb).await,
            Verb::Drain(it) => operate::drain(&it.asking, it.verb).await,
            Verb::Undrain(it) => operate::undrain(&it.asking, it.verb).await,
            Verb::Pin(it) => operate::pin(&it.asking, it.verb).await,
            Verb::Unpin(it) => operate::unpin(&it.asking, it.verb).await,
            Verb::Rebalance(it) => operate::rebalance(&it.asking, it.verb).await,
            Verb::Settings(it) => settings::run(&it.asking, it.verb).await,
            Verb::Member(it) => cluster::member(&it.asking, it.verb).await,
            Verb::Leader(it) => cluster::leader(&it.asking, it.verb).await,
            Verb::Snapshot(it) => cluster::snapshot(&it.asking).await,
            Verb::Check(it) => cluster::check(&it.asking).await,
            Verb::Crds => say(holdfast_bridge::crds::yaml()?.trim_end()),
            Verb::Completion(args) => completion(args.shell),
        }
    }
}

fn completion(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "holdfast", &mut script);
    say(String::from_utf8_lossy(&script).trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_makes_sense() {
        Cli::command().debug_assert();
    }
}
