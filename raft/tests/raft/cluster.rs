//! A group of replicas in this process, each with its own server and directory.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use holdfast_raft::{Error, Node, NodeConfig, Phase, Role, Timings};
use holdfast_statemachine::command::PutNode;
use holdfast_statemachine::{Action, Command, Source};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio_stream::wrappers::TcpListenerStream;

/// Long enough for anything here on a loaded machine; a test that needs it all has failed.
pub fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

pub fn put_node(name: &str) -> Command {
    let put = PutNode { name: name.into(), uid: name.into(), labels: BTreeMap::new(), ready: true, capacity: None };
    Command { source: Source::Api, only_in_term: None, action: Action::PutNode(put) }
}

/// A replica that runs, on threads of its own: dropping them cuts its connections as the end of a process would.
pub struct Replica {
    pub node: Node,
    runtime: Runtime,
}

impl Replica {
    pub async fn start(config: NodeConfig) -> Result<Replica, Error> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads");
        let started = runtime.spawn(async move {
            // The files of a replica that was just stopped are free a moment later.
            let give_up = soon();
            let node = loop {
                match Node::start(config.clone()).await {
                    Ok(node) => break node,
                    Err(error) if Instant::now() < give_up && is_in_use(&error) => tokio::task::yield_now().await,
                    Err(error) => return Err(error),
                }
            };
            let listener = bind(&config.address).await;
            let server = tonic::transport::Server::builder().tcp_nodelay(true).add_service(node.peer_service());
            tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
            Ok(node)
        });
        match started.await.expect("no panic") {
            Ok(node) => Ok(Replica { node, runtime }),
            Err(error) => {
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    /// As kill -9 would, but for the page cache.
    pub fn kill(self) {
        self.runtime.shutdown_background();
    }

    pub async fn shutdown(self) {
        let node = self.node.clone();
        self.runtime.spawn(async move { node.shutdown(soon()).await }).await.expect("no panic");
        self.runtime.shutdown_background();
    }
}

fn is_in_use(error: &Error) -> bool {
    let text = error.to_string();
    text.contains("in use") || text.to_lowercase().contains("lock")
}

/// A group of replicas, some of them running.
pub struct Cluster {
    dir: tempfile::TempDir,
    pub members: Vec<(String, String)>,
    pub replicas: BTreeMap<String, Replica>,
    tune: fn(&mut NodeConfig),
}

impl Cluster {
    /// Of this many, named `a`, `b`, ...; none runs.
    pub fn new(count: usize) -> Cluster {
        Cluster::tuned(count, |_| {})
    }

    pub fn tuned(count: usize, tune: fn(&mut NodeConfig)) -> Cluster {
        let dir = tempfile::tempdir().expect("a directory");
        let mut members = Vec::new();
        for i in 0..count {
            let name = char::from(b'a' + u8::try_from(i).expect("few")).to_string();
            members.push((name, free_address()));
        }
        Cluster { dir, members, replicas: BTreeMap::new(), tune }
    }

    /// A group that is formed and has a leader.
    pub async fn formed(count: usize) -> Cluster {
        Cluster::formed_tuned(count, |_| {}).await
    }

    pub async fn formed_tuned(count: usize, tune: fn(&mut NodeConfig)) -> Cluster {
        let mut cluster = Cluster::tuned(count, tune);
        cluster.start_all().await;
        cluster.ready().await;
        cluster
    }

    pub fn data_dir(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn config(&self, name: &str) -> NodeConfig {
        let address = self.members.iter().find(|(other, _)| other == name).expect("a member").1.clone();
        let mut config = NodeConfig::new(name, self.data_dir(name), address);
        config.initial_members.clone_from(&self.members);
        "token".clone_into(&mut config.cluster_token);
        config.disk_watermark = 0;
        let ms = Duration::from_millis;
        config.timings = Timings {
            heartbeat: ms(100),
            election_min: ms(300),
            election_max: ms(800),
            connect: ms(100),
            snapshot: Duration::from_mins(1),
            housekeeping: ms(20),
        };
        (self.tune)(&mut config);
        config
    }

    pub async fn start(&mut self, name: &str) -> &Node {
        let replica = Replica::start(self.config(name)).await.expect("a replica starts");
        self.replicas.insert(name.to_owned(), replica);
        self.node(name)
    }

    pub async fn start_all(&mut self) {
        for (name, _) in self.members.clone() {
            if !self.replicas.contains_key(&name) {
                self.start(&name).await;
            }
        }
    }

    pub async fn ready(&self) {
        for replica in self.replicas.values() {
            replica.node.ready(soon()).await.expect("a replica gets ready");
        }
    }

    pub fn node(&self, name: &str) -> &Node {
        &self.replicas[name].node
    }

    pub fn kill(&mut self, name: &str) {
        self.replicas.remove(name).expect("it runs").kill();
    }

    /// The name of the replica that leads, once one does.
    pub async fn leader(&self) -> String {
        let give_up = soon();
        loop {
            for (name, replica) in &self.replicas {
                let status = replica.node.status().await;
                if status.role == Role::Leader && replica.node.leadership().borrow().is_some() {
                    return name.clone();
                }
            }
            assert!(Instant::now() < give_up, "nobody leads");
            tokio::task::yield_now().await;
        }
    }

    pub async fn follower(&self) -> String {
        let leader = self.leader().await;
        self.replicas.keys().find(|name| **name != leader).expect("another runs").clone()
    }

    /// Waits until all that run have applied the same, and compares their digests.
    pub async fn agree(&self) {
        let leader = self.leader().await;
        self.node(&leader).read_index(soon()).await.expect("a leader reads");
        let index = self.node(&leader).applied_index();
        let give_up = soon();
        for (name, replica) in &self.replicas {
            while replica.node.applied_index() < index {
                assert!(Instant::now() < give_up, "{name} is at {:?}, not {index:?}", replica.node.applied_index());
                tokio::task::yield_now().await;
            }
        }
        let digest = self.node(&leader).store().digest();
        for (name, replica) in &self.replicas {
            assert_eq!(replica.node.store().digest(), digest, "digest of {name}");
        }
    }

    /// Waits for a replica to say this of itself.
    pub async fn wait_phase(&self, name: &str, wanted: impl Fn(&Phase) -> bool) {
        let mut phase = self.node(name).phase();
        let there = phase.wait_for(|phase| wanted(phase));
        tokio::time::timeout_at(soon().into(), there).await.expect("in time").expect("it runs");
    }
}

/// An address that nobody uses, and nobody else will: of a loopback address that no other call and no other process gets.
/// A port that is free on 127.0.0.1 may be another's the next moment.
pub fn free_address() -> String {
    static CALLS: AtomicU16 = AtomicU16::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let [.., high, low] = std::process::id().to_be_bytes();
    format!("127.{}.{high}.{low}:{}", 10 + call % 240, 7701 + call / 240)
}

/// The address of a replica that was just stopped is free a moment later.
async fn bind(address: &str) -> TcpListener {
    let give_up = soon();
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) => assert!(Instant::now() < give_up, "{address}: {error}"),
        }
        tokio::task::yield_now().await;
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // A runtime must not be dropped where a test awaits.
        std::mem::take(&mut self.replicas).into_values().for_each(Replica::kill);
    }
}
