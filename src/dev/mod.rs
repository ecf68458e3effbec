//! `holdfast dev`: three replicas in one process, fed with the manifests of a directory.

mod follow;
mod replicas;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use holdfast::wire;
use holdfast_api::{Client, v1};
use holdfast_bridge::bridge::Options;
use holdfast_statemachine::command::PutSettings;
use holdfast_statemachine::{Action, Change, Source};

use crate::cli::{self, Failure, Format, Policy, Reading, remark, say};
use crate::config::Mode;
use crate::logging;
use crate::serve::Asked;
use follow::{Applied, Files};
use replicas::Replicas;

/// How long one call of ours may take.
const CALL: Duration = Duration::from_secs(30);

/// See `holdfast dev --help`.
#[derive(Args, Debug)]
#[command(after_help = "\
Each DIR is a directory or a file of manifests, as for `holdfast apply`; nothing else is needed, no
Kubernetes either. The files are applied and then followed: edit one, and see what changes, at
which revision and why. An object that is gone from the files is deleted.

With --kubernetes, the objects are those of the cluster of the current kubeconfig: what kubectl applies
there is decided here, and written back.

Examples:
  holdfast dev deploy/examples
  holdfast dev --kubernetes                      over the current cluster, as three replicas would
  holdfast dev deploy/examples --once -o yaml    pools and Egresses as Kubernetes will hold them")]
pub struct DevArgs {
    /// Directories or files of manifests
    #[arg(required_unless_present = "kubernetes", value_name = "DIR")]
    paths: Vec<PathBuf>,
    /// Follow the Kubernetes API of the current kubeconfig instead of files: standalone, or beside Antrea
    #[arg(
        long,
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "standalone",
        conflicts_with_all = ["paths", "once"]
    )]
    kubernetes: Option<Mode>,
    /// Keep the replicas' data here; else it is temporary
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Where the three replicas listen [default: 127.0.0.1:7601 to 7603 if all are free, else free ports]
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',')]
    listen: Vec<String>,
    /// How Egress addresses are placed
    #[arg(long, value_enum)]
    policy: Option<Policy>,
    /// End after printing
    #[arg(long)]
    once: bool,
    /// With --once: table, or as `holdfast export`: json, yaml
    #[arg(short, long, value_enum, default_value_t, hide_possible_values = true, value_name = "table|json|yaml")]
    output: Format,
    /// What is logged to standard error: error, warn, info, debug, trace, or directives
    #[arg(long, env = "HOLDFAST_LOG_LEVEL", default_value = "error", value_name = "LEVEL")]
    log_level: String,
    /// The form of the log
    #[arg(long, env = "HOLDFAST_LOG_FORMAT", value_enum, default_value = "text")]
    log_format: logging::Format,
}

/// Runs until it is told to stop; with `--once`, until everything is printed.
pub async fn run(args: DevArgs) -> Result<(), Failure> {
    if !args.once && args.output != Format::Table {
        return Err(Failure::Usage("-o json and -o yaml need --once".to_owned()));
    }
    if !args.once && args.paths.iter().any(|path| path.as_os_str() == "-") {
        return Err(Failure::Usage("standard input cannot be followed: - needs --once".to_owned()));
    }
    if !matches!(args.listen.len(), 0 | 3) {
        return Err(Failure::Usage(format!("--listen: {} addresses are not allowed: three", args.listen.len())));
    }
    logging::start(args.log_format, &args.log_level)?;
    let source = Source::Manifests("dev".into());
    // Before anything is started: a mistake in the files is told at once.
    let plan = cli::read_manifests(&args.paths, &source)?;
    let mut asked = Asked::listen()?;
    let bridge = args.kubernetes.map(|mode| Options { mode: mode.into(), ..Options::default() });
    let mut replicas = Replicas::start(args.data.as_deref(), &args.listen, bridge.as_ref()).await?;
    let ended = {
        let addresses = replicas.addresses().to_vec();
        let client = Client::new(&addresses)?.with_timeout(CALL);
        let mut session = Session { applied: Applied::new(client.clone(), source, args.paths.clone()), client };
        tokio::select! {
            ended = session.run(&args, plan, &addresses) => ended,
            failure = replicas.failed() => Err(failure),
            _ = asked.signal() => Ok(()),
        }
    };
    let stopped = replicas.stop().await;
    ended.and(stopped)
}

struct Session {
    client: Client,
    applied: Applied,
}

impl Session {
    async fn run(
        &mut self,
        args: &DevArgs,
        plan: holdfast_bridge::translate::Plan,
        addresses: &[String],
    ) -> Result<(), Failure> {
        if args.kubernetes.is_some() {
            if let Some(policy) = args.policy {
                self.set_policy(policy).await?;
            }
            return self.follow_kubernetes(addresses).await;
        }
        // What is written while the files are applied is seen afterwards.
        let files = if args.once { None } else { Some(Files::watch(&args.paths)?) };
        if let Some(policy) = args.policy {
            self.set_policy(policy).await?;
        }
        let told = self.applied.apply(plan).await?;
        let revision = if args.output == Format::Table {
            say(format_args!(
                "{} declared, three replicas agree\n",
                cli::counted(told.objects as u64, "object", "objects")
            ))?;
            let shown = Shown::read(&self.client).await?;
            shown.print(&self.client).await?;
            if !args.once {
                shown.invite(addresses, &args.paths)?;
            }
            shown.revision
        } else {
            cli::value(args.output, &cli::fetch_export(&self.client, Reading::default()).await?)?;
            0
        };
        let refused = Failure::Refused(told.refused.join("\n"));
        match files {
            None if told.refused.is_empty() => Ok(()),
            None => Err(refused),
            Some(files) => {
                if !told.refused.is_empty() {
                    remark(refused);
                }
                self.follow(files, revision).await
            }
        }
    }

    async fn set_policy(&self, policy: Policy) -> Result<(), Failure> {
        let put = Action::PutSettings(PutSettings { policy: Some(policy.into()), ..PutSettings::default() });
        let results = cli::declare(&self.client, &Source::Api, &[put]).await?;
        match results.into_iter().find_map(Result::err) {
            Some(rejection) => Err(Failure::Refused(rejection.to_string())),
            None => Ok(()),
        }
    }

    /// Prints every change after a revision.
    async fn print_changes(client: &Client, revision: u64) -> Result<(), Failure> {
        let request = v1::WatchRequest { after_revision: Some(revision), ..v1::WatchRequest::default() };
        let mut watch = client.watch(request);
        loop {
            for change in wire::list::<Change>("changes", watch.next().await?.changes)? {
                say(cli::change_line(&change))?;
            }
        }
    }

    /// Prints what the bridge makes of the cluster.
    async fn follow_kubernetes(&self, addresses: &[String]) -> Result<(), Failure> {
        let endpoints = addresses.join(",");
        say(format_args!("listening on {endpoints}; following the Kubernetes API, until Ctrl-C"))?;
        if addresses != cli::DEFAULT_ENDPOINTS {
            say(format_args!("  export HOLDFAST_ENDPOINTS={endpoints}"))?;
        }
        say("from another terminal, try:\n  holdfast status\n  kubectl get ipp,eip,eg")?;
        Self::print_changes(&self.client, 0).await
    }

    /// Prints every change, and applies the files whenever they are written.
    async fn follow(&mut self, mut files: Files, revision: u64) -> Result<(), Failure> {
        let client = self.client.clone();
        let printing = Self::print_changes(&client, revision);
        let applying = async {
            while files.written().await.is_some() {
                match self.applied.again().await {
                    Ok(told) => {
                        told.refused.iter().for_each(remark);
                        let nothing = told.proposed == 0;
                        remark(if nothing { "files read: nothing changed" } else { "files read and applied" });
                    }
                    Err(failure @ Failure::Closed) => return Err(failure),
                    Err(failure) => remark(failure),
                }
            }
            Err(Failure::Replica("the files can no longer be watched".to_owned()))
        };
        tokio::select! {
            ended = printing => ended,
            ended = applying => ended,
        }
    }
}

/// What the group says once the files are applied.
struct Shown {
    revision: u64,
    tables: Vec<(&'static str, String)>,
    reservations: Vec<cli::ReservationView>,
    egresses: Vec<cli::EgressView>,
}

impl Shown {
    async fn read(client: &Client) -> Result<Shown, Failure> {
        let reading = Reading::default();
        let (header, pools) = cli::fetch_pools(client, None, reading).await?;
        let (_, reservations) = cli::fetch_reservations(client, None, reading).await?;
        let (_, nodes) = cli::fetch_nodes(client, reading).await?;
        let (_, egresses) = cli::fetch_egresses(client, &cli::Which::default(), reading).await?;
        let tables = vec![
            ("POOLS", cli::table(&pools).to_string()),
            ("RESERVATIONS", cli::table(&reservations).to_string()),
            ("NODES", cli::table(&nodes).to_string()),
            ("EGRESSES", cli::table(&egresses).to_string()),
        ];
        Ok(Shown { revision: header.revision, tables, reservations, egresses })
    }

    /// The tables, then each Node's reason for every Egress address that has none.
    async fn print(&self, client: &Client) -> Result<(), Failure> {
        for (title, table) in &self.tables {
            say(format_args!("{title}\n{table}\n"))?;
        }
        for egress in self.egresses.iter().filter(|egress| egress.is_unplaced()) {
            let subject = v1::explain_request::Subject::Egress(egress.name.clone());
            let (_, explanations) = cli::fetch_explanations(client, subject, Reading::default()).await?;
            for explanation in explanations.iter().filter(|it| it.is_unplaced()) {
                say(format_args!("{}\n", explanation.text()))?;
            }
        }
        Ok(())
    }

    /// Where to ask, and what.
    fn invite(&self, addresses: &[String], paths: &[PathBuf]) -> Result<(), Failure> {
        let endpoints = addresses.join(",");
        say(format_args!("listening on {endpoints}"))?;
        say("from another terminal, try:")?;
        if addresses != cli::DEFAULT_ENDPOINTS {
            say(format_args!("  export HOLDFAST_ENDPOINTS={endpoints}"))?;
        }
        let waiting = self.reservations.iter().find(|it| it.waiting.is_some()).or(self.reservations.first());
        let explained =
            waiting.map_or("pool NAME".to_owned(), |it| format!("reservation {}/{}", it.namespace, it.name));
        let placed = self.egresses.iter().flat_map(|egress| &egress.addresses).find_map(|it| it.node.clone());
        say("  holdfast egress list --watch")?;
        say(format_args!("  holdfast explain {explained}"))?;
        say(format_args!("  holdfast drain {}", placed.unwrap_or_else(|| "NODE".to_owned())))?;
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        say(format_args!("\nfollowing {}, until Ctrl-C", paths.join(" ")))
    }
}
