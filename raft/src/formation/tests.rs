//! A formation that ends early at each of its steps, and goes on later.

use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio_stream::wrappers::TcpListenerStream;

use super::*;
use crate::NodeConfig;
use crate::peer::PeerService;
use holdfast_api::raft::v1::peer_server::PeerServer;

/// A replica that answers, and forms or joins nothing by itself.
struct Passive {
    replica: Arc<Replica>,
    runtime: Runtime,
}

fn start(config: NodeConfig) -> Passive {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads");
    let replica = open(&config);
    let service = PeerServer::new(PeerService::new(&replica));
    runtime.spawn(async move {
        let listener = bind(&config.address).await;
        let server = tonic::transport::Server::builder().add_service(service);
        server.serve_with_incoming(TcpListenerStream::new(listener)).await
    });
    Passive { replica, runtime }
}

/// An address that nobody uses, and nobody else will: of a loopback address that no other call and no other process gets.
fn free_address() -> String {
    static CALLS: AtomicU16 = AtomicU16::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let [.., high, low] = std::process::id().to_be_bytes();
    format!("127.{}.{high}.{low}:{}", 10 + call % 240, 7701 + call / 240)
}

/// The address of a replica that was just stopped is free a moment later.
async fn bind(address: &str) -> TcpListener {
    let give_up = Instant::now() + Duration::from_secs(30);
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) => assert!(Instant::now() < give_up, "{address}: {error}"),
        }
        tokio::task::yield_now().await;
    }
}

/// The files of a replica that was just stopped are free a moment later.
fn open(config: &NodeConfig) -> Arc<Replica> {
    let give_up = Instant::now() + Duration::from_secs(30);
    loop {
        match Replica::open(config.clone()) {
            Ok((replica, _)) => return Arc::new(replica),
            Err(error) => assert!(Instant::now() < give_up, "{error}"),
        }
        std::thread::yield_now();
    }
}

impl Passive {
    fn crash(self) {
        let Passive { replica, runtime } = self;
        drop(replica);
        runtime.shutdown_background();
    }

    /// Runs its part of the formation as far as `last`, once the others answer.
    fn form(&self, last: Step) {
        let replica = self.replica.clone();
        let give_up = Instant::now() + Duration::from_secs(30);
        self.runtime.block_on(async move {
            loop {
                match form(&replica, last).await {
                    Ok(()) => return,
                    Err(Obstacle::Wait(why)) => assert!(Instant::now() < give_up, "{why}"),
                    Err(other) => panic!("{other:?}"),
                }
                tokio::task::yield_now().await;
            }
        });
    }

    /// Waits until the group has a leader and committed an entry.
    fn wait_led(&self) {
        let replica = self.replica.clone();
        self.runtime.block_on(async move {
            let deadline = Instant::now() + Duration::from_secs(30);
            while replica.read_index(deadline).await.is_err() {
                assert!(Instant::now() < deadline, "{}", replica.not_ready());
                tokio::task::yield_now().await;
            }
        });
    }
}

fn configs(dir: &std::path::Path) -> Vec<NodeConfig> {
    let members: Vec<_> = ["a", "b", "c"].into_iter().map(|name| (name.to_owned(), free_address())).collect();
    let config = |(name, address): &(String, String)| {
        let mut config = NodeConfig::new(name.as_str(), dir.join(name), address.as_str());
        config.initial_members.clone_from(&members);
        config.timings.heartbeat = Duration::from_millis(50);
        config.timings.election_min = Duration::from_millis(200);
        config.timings.election_max = Duration::from_millis(500);
        config
    };
    members.iter().map(config).collect()
}

/// Ends the first member's part after `last`, crashes it (and `others`, too, if asked), and starts again.
fn crash_after(last: Step, others: bool) {
    let dir = tempfile::tempdir().expect("a directory");
    let configs = configs(dir.path());
    let first = start(configs[0].clone());
    let mut rest: Vec<_> = configs[1..].iter().cloned().map(start).collect();
    first.form(last);
    let recorded = Group::load(&configs[0].data_dir).expect("it is read").map(|group| group.cluster);
    assert_eq!(recorded.is_some(), last >= Step::Recorded);
    first.crash();
    if others {
        rest.into_iter().for_each(Passive::crash);
        rest = configs[1..].iter().cloned().map(start).collect();
    }
    let again = start(configs[0].clone());
    again.form(Step::Started);
    again.wait_led();
    let cluster = again.replica.cluster();
    assert!(cluster.is_some() && (recorded.is_none() || recorded == cluster), "{recorded:?}, then {cluster:?}");
    for config in &configs {
        let group = Group::load(&config.data_dir).expect("it is read").expect("each has the record");
        assert_eq!((Some(group.cluster), group.founders.len()), (cluster, 3), "{}", config.name);
    }
    again.crash();
    rest.into_iter().for_each(Passive::crash);
}

#[test]
fn a_crash_at_any_step_is_harmless() {
    for last in [Step::Asked, Step::Recorded, Step::Joined(0), Step::Joined(1), Step::Joined(2)] {
        crash_after(last, false);
    }
}

#[test]
fn so_is_a_crash_of_all() {
    for last in [Step::Recorded, Step::Joined(1), Step::Joined(2)] {
        crash_after(last, true);
    }
}

#[test]
fn a_member_that_loses_its_record_before_the_start_joins_under_a_new_id() {
    let dir = tempfile::tempdir().expect("a directory");
    let configs = configs(dir.path());
    let mut all: Vec<_> = configs.iter().cloned().map(start).collect();
    all[0].form(Step::Joined(2));
    let former = all[2].replica.node();
    all.pop().expect("three").crash();
    std::fs::remove_dir_all(&configs[2].data_dir).expect("it is there");
    all.push(start(configs[2].clone()));
    assert_ne!(all[2].replica.node(), former);
    all[0].form(Step::Started);
    all[0].wait_led();
    all[2].wait_led();
    all.into_iter().for_each(Passive::crash);
}

#[test]
fn an_invitation_for_another_replica_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = configs(dir.path()).remove(0);
    let passive = start(config.clone());
    let route = Some(wire::route(ClusterId(7), passive.replica.node() ^ 1));
    let request = pb::JoinRequest { token: String::new(), route, members: Vec::new() };
    let refused = passive.runtime.block_on(join(&passive.replica, &request)).expect_err("it is for another");
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
    assert_eq!(Group::load(&config.data_dir).expect("it is read"), None);
    passive.crash();
}
