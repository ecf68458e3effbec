//! `holdfast serve`: one replica.

use std::time::{Duration, Instant};

use holdfast::server;
use holdfast_bridge::bridge::Unfit;
use holdfast_raft::{Node, ReadError};
use holdfast_statemachine::command::PutSettings;
use holdfast_statemachine::row::Settings;
use holdfast_statemachine::{Action, Command, Source};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::{error, info, warn};

use crate::cli::Failure;
use crate::config::{Config, Flags, Seed};
use crate::kubernetes::Bridge;
use crate::logging;

/// How long handing over and finishing what is in flight may take.
pub const SHUTDOWN: Duration = Duration::from_secs(20);
/// How long one attempt at the settings may take.
const ATTEMPT: Duration = Duration::from_secs(10);

/// Runs a replica until it is told to stop or cannot go on.
pub async fn run(flags: Flags) -> Result<(), Failure> {
    let config = Config::load(flags)?;
    logging::start(config.log_format, &config.log_level)?;
    let mut asked = Asked::listen()?;
    let listener = TcpListener::bind(&config.listen)
        .await
        .map_err(|error| Failure::Replica(format!("listen: {}: {error}", config.listen)))?;
    let metrics = match &config.metrics_listen {
        Some(at) => {
            let bound = TcpListener::bind(at).await;
            Some(bound.map_err(|error| Failure::Replica(format!("metrics-listen: {at}: {error}")))?)
        }
        None => None,
    };
    let bridge = match config.kubernetes {
        Some(options) => Some(Bridge::find(options).await?),
        None => None,
    };
    let kubernetes = bridge.as_ref().map(Bridge::told);
    let name = config.node.name.clone();
    let node = Node::start(config.node).await.map_err(|error| Failure::Replica(error.to_string()))?;
    info!(replica = %name, listen = %config.listen, version = env!("CARGO_PKG_VERSION"), "started");
    let (stop, mut told) = watch::channel(false);
    let mut serving = tokio::spawn(server::serve(node.clone(), kubernetes, listener, async move {
        // An error means that the sender is gone: then it is to stop, too.
        drop(told.wait_for(|stop| *stop).await);
    }));
    let watched = tokio::spawn(watched(node.clone(), metrics));
    let mut bridged = tokio::spawn(bridged(node.clone(), bridge));
    let settling = tokio::spawn(settle(node.clone(), name, config.seed));
    let ended = tokio::select! {
        name = asked.signal() => {
            info!(signal = name, "stopping");
            Ok(())
        }
        failed = node.fatal() => Err(failed.to_string()),
        unfit = &mut bridged => Err(match unfit {
            Ok(unfit) => unfit.to_string(),
            Err(failed) => failed.to_string(),
        }),
        served = &mut serving => Err(match served {
            Ok(Ok(())) => "the server ended".to_owned(),
            Ok(Err(failed)) => failed.to_string(),
            Err(failed) => failed.to_string(),
        }),
    };
    settling.abort();
    bridged.abort();
    watched.abort();
    if let Err(why) = ended {
        error!(why, "cannot go on");
        return Err(Failure::Replica(why));
    }
    // The others must reach this replica while it hands over: the server ends last.
    node.shutdown(Instant::now() + SHUTDOWN).await;
    stop.send_replace(true);
    drop(serving.await);
    info!("stopped");
    Ok(())
}

/// Serves metrics and health, if that was asked for. A replica goes on without.
async fn watched(node: Node, listener: Option<TcpListener>) {
    if let Some(listener) = listener
        && let Err(failed) = crate::metrics::serve(node, listener).await
    {
        error!(%failed, "metrics and health are served no longer");
    }
}

/// Runs the bridge, if there is one. It ends only where the API server is not what its mode needs.
async fn bridged(node: Node, bridge: Option<Bridge>) -> Unfit {
    match bridge {
        Some(bridge) => bridge.run(node).await,
        None => std::future::pending().await,
    }
}

/// The signals that ask a process to stop.
pub struct Asked {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Asked {
    /// Listens from now on.
    pub fn listen() -> Result<Asked, Failure> {
        Ok(Asked { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Resolves with the signal's name when one comes.
    pub async fn signal(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Tells when the replica takes part, and sees to the settings.
async fn settle(node: Node, name: String, seed: Seed) {
    loop {
        match node.ready(Instant::now() + ATTEMPT).await {
            Ok(()) => break,
            Err(ReadError::Stopping) => return,
            Err(failed) => info!(replica = %name, %failed, "not ready yet"),
        }
    }
    info!(replica = %name, "ready");
    if seed.policy.is_some() || seed.default_capacity.is_some() {
        seed_settings(node, seed).await;
    }
}

/// Gives a group that was just formed the settings of the flags; tells where those of a group that was formed
/// before differ.
async fn seed_settings(node: Node, seed: Seed) {
    let mut revision = node.subscribe();
    let mut leadership = node.leadership();
    // Whoever leads an untouched ledger seeds it; the others wait for its first change.
    while *revision.borrow_and_update() == 0 {
        if leadership.borrow_and_update().is_some() {
            let put = PutSettings {
                policy: seed.policy.map(Into::into),
                default_capacity: seed.default_capacity,
                ..PutSettings::default()
            };
            if !differs(&node.read(|ledger| ledger.tables().settings().clone()), seed) {
                return;
            }
            let command = Command { source: Source::Api, only_in_term: None, action: Action::PutSettings(put) };
            match node.propose_here(vec![command], Instant::now() + ATTEMPT).await {
                Ok(_) => return,
                Err(failed) => warn!(%failed, "the settings of the flags are not in force yet"),
            }
        }
        let gone = tokio::select! {
            changed = revision.changed() => changed.is_err(),
            changed = leadership.changed() => changed.is_err(),
        };
        if gone {
            return;
        }
    }
    let settings = node.read(|ledger| ledger.tables().settings().clone());
    if differs(&settings, seed) {
        warn!(
            ?settings,
            ?seed,
            "the settings in force are not those of the flags, which count at formation only: holdfast settings set"
        );
    }
}

fn differs(settings: &Settings, seed: Seed) -> bool {
    seed.policy.is_some_and(|policy| settings.policy != policy.into())
        || seed.default_capacity.is_some_and(|capacity| settings.default_capacity != capacity)
}
