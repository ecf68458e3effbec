//! Three replicas in this process, with real gRPC between them on loopback.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::future::join_all;
use holdfast::server::{self, ServeError};
use holdfast_bridge::bridge::{Options, Unfit};
use holdfast_raft::{Node, NodeConfig};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::cli::{DEFAULT_ENDPOINTS, Failure};
use crate::kubernetes::Bridge;
use crate::serve::SHUTDOWN;

const NAMES: [&str; 3] = ["dev-1", "dev-2", "dev-3"];
/// Where a data directory says at which addresses its replicas were formed.
const ADDRESSES: &str = "addresses";
/// How long forming, or electing a leader again, may take.
const READY: Duration = Duration::from_secs(30);

/// The replicas; their data goes with them unless it was given a directory.
pub struct Replicas {
    nodes: Vec<Node>,
    servers: Vec<JoinHandle<Result<(), ServeError>>>,
    stop: watch::Sender<bool>,
    addresses: Vec<String>,
    directory: Option<TempDir>,
    bridges: JoinSet<Unfit>,
}

impl Replicas {
    /// Starts three, and waits until they have a leader.
    ///
    /// `kubernetes`: each has a bridge to the Kubernetes API, and the leader's is at work.
    pub async fn start(
        data: Option<&Path>,
        asked: &[String],
        kubernetes: Option<&Options>,
    ) -> Result<Replicas, Failure> {
        let (directory, root) = if let Some(data) = data {
            std::fs::create_dir_all(data)?;
            (None, data.to_owned())
        } else {
            let directory = tempfile::Builder::new().prefix("holdfast-dev-").tempdir()?;
            let root = directory.path().to_owned();
            (Some(directory), root)
        };
        let (listeners, addresses) = listen(&root, asked).await?;
        let (stop, _) = watch::channel(false);
        let mut replicas =
            Replicas { nodes: Vec::new(), servers: Vec::new(), stop, addresses, directory, bridges: JoinSet::new() };
        for (name, listener) in NAMES.iter().zip(listeners) {
            let bridge = match kubernetes {
                Some(options) => Some(Bridge::find(options.clone()).await?),
                None => None,
            };
            replicas.add(name, &root, listener, bridge).await?;
        }
        let deadline = Instant::now() + READY;
        for ready in join_all(replicas.nodes.iter().map(|node| node.ready(deadline))).await {
            ready.map_err(|error| Failure::Replica(error.to_string()))?;
        }
        Ok(replicas)
    }

    async fn add(
        &mut self,
        name: &str,
        root: &Path,
        listener: TcpListener,
        bridge: Option<Bridge>,
    ) -> Result<(), Failure> {
        let address = &self.addresses[self.nodes.len()];
        let mut config = NodeConfig::new(name, root.join(name), address.as_str());
        let members = NAMES.iter().zip(&self.addresses);
        config.initial_members = members.map(|(name, address)| ((*name).to_owned(), address.clone())).collect();
        "dev".clone_into(&mut config.cluster_token);
        // Nothing but loopback lies between them: a person waits for the first answer.
        config.timings.election_min = Duration::from_millis(500);
        config.timings.election_max = Duration::from_secs(1);
        config.timings.housekeeping = Duration::from_millis(50);
        config.disk_watermark = 16 << 20;
        let node = Node::start(config).await.map_err(|error| Failure::Replica(error.to_string()))?;
        let told = bridge.as_ref().map(Bridge::told);
        if let Some(bridge) = bridge {
            self.bridges.spawn(bridge.run(node.clone()));
        }
        let mut stopping = self.stop.subscribe();
        self.servers.push(tokio::spawn(server::serve(node.clone(), told, listener, async move {
            // An error means that the sender is gone: then it is to stop, too.
            drop(stopping.wait_for(|stop| *stop).await);
        })));
        self.nodes.push(node);
        Ok(())
    }

    /// Where they listen.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Resolves when one of them cannot go on.
    pub async fn failed(&mut self) -> Failure {
        let failed = self.nodes.iter().map(|node| Box::pin(node.fatal()));
        let failed = futures::future::select_all(failed);
        tokio::select! {
            (error, ..) = failed => Failure::Replica(error.to_string()),
            Some(Ok(unfit)) = self.bridges.join_next() => Failure::Replica(unfit.to_string()),
        }
    }

    /// Stops all of them, and removes their data if nobody asked to keep it.
    pub async fn stop(mut self) -> Result<(), Failure> {
        self.bridges.shutdown().await;
        let deadline = Instant::now() + SHUTDOWN;
        join_all(self.nodes.iter().map(|node| node.shutdown(deadline))).await;
        self.stop.send_replace(true);
        drop(join_all(self.servers).await);
        match self.directory {
            Some(directory) => Ok(directory.close()?),
            None => Ok(()),
        }
    }
}

/// The addresses of the data directory, if it has some; else those asked for; else the default ones, if all are
/// free; else free ones.
async fn listen(root: &Path, asked: &[String]) -> Result<(Vec<TcpListener>, Vec<String>), Failure> {
    let file: PathBuf = root.join(ADDRESSES);
    if let Ok(text) = std::fs::read_to_string(&file) {
        let addresses: Vec<String> = text.lines().map(str::to_owned).collect();
        if addresses.len() != NAMES.len() {
            return Err(Failure::Replica(format!("{} does not hold three addresses", file.display())));
        }
        let listeners = bind(&addresses).await.map_err(|(address, error)| {
            let why = format!("the replicas in {} were formed at {address}: {error}", root.display());
            Failure::Replica(why)
        })?;
        return Ok((listeners, addresses));
    }
    let listeners = if asked.is_empty() {
        match bind(&DEFAULT_ENDPOINTS).await {
            Ok(listeners) => listeners,
            Err(_) => bind(&["127.0.0.1:0"; 3]).await.map_err(|(_, error)| Failure::from(error))?,
        }
    } else {
        let refused = |(address, error)| Failure::Replica(format!("--listen {address}: {error}"));
        bind(asked).await.map_err(refused)?
    };
    let addresses = listeners.iter().map(|listener| listener.local_addr().map(|address| address.to_string()));
    let addresses: Vec<String> = addresses.collect::<io::Result<_>>()?;
    std::fs::write(&file, addresses.join("\n"))?;
    Ok((listeners, addresses))
}

async fn bind(addresses: &[impl AsRef<str>]) -> Result<Vec<TcpListener>, (String, io::Error)> {
    let mut listeners = Vec::new();
    for address in addresses {
        let bound = TcpListener::bind(address.as_ref()).await;
        listeners.push(bound.map_err(|error| (address.as_ref().to_owned(), error))?);
    }
    Ok(listeners)
}
