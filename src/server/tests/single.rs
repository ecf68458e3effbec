//! A replica of one, without Raft, whose proposals can be made to fail.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use holdfast_api::{Client, v1};
use holdfast_raft::{ClusterId, MemberError, Phase, ProposeError, Proposed, ReadError, Role, Status};
use holdfast_statemachine::store::Options;
use holdfast_statemachine::{Action, Command, Entry, Key, Revision, Row, Store};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

use crate::server::{Replica, ServeError, serve_replica};
use crate::wire::messages;

/// What becomes of the next proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is not taken.
    Overloaded,
    /// It is applied, and its answer lost.
    AnswerLost,
    /// It is never applied, and no answer comes before the deadline.
    Stuck,
}

#[derive(Clone)]
pub struct Single {
    store: Arc<Store>,
    index: Arc<AtomicU64>,
    revision: watch::Sender<Revision>,
    fates: Arc<Mutex<Vec<Fate>>>,
    /// Whether reads can be confirmed.
    pub confirms: Arc<Mutex<bool>>,
    _directory: Arc<tempfile::TempDir>,
}

impl Single {
    pub fn new() -> Single {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let opened = Store::open(directory.path(), Options::default()).expect("an empty store opens");
        Single {
            store: Arc::new(opened.store),
            index: Arc::default(),
            revision: watch::channel(0).0,
            fates: Arc::default(),
            confirms: Arc::new(Mutex::new(true)),
            _directory: Arc::new(directory),
        }
    }

    /// What becomes of the next proposals, the first last.
    pub fn fate(&self, fates: &[Fate]) {
        *self.fates.lock().expect("no test panics with it") = fates.to_vec();
    }

    pub fn applied(&self) -> u64 {
        self.index.load(Ordering::SeqCst)
    }

    fn apply(&self, commands: Vec<Command>) -> Proposed {
        let index = self.index.fetch_add(1, Ordering::SeqCst) + 1;
        let entry = Entry { index, term: 1, proposed_at: 1_000_000 + index, commands };
        let applied = self.store.apply(&entry, &index.to_be_bytes()).expect("the store writes");
        self.revision.send_replace(self.store.read(|ledger| ledger.tables().clock().revision));
        Proposed { index, term: 1, outcomes: applied.outcomes }
    }
}

impl Replica for Single {
    async fn propose(&self, commands: Vec<Command>, deadline: Instant) -> Result<Proposed, ProposeError> {
        let fate = self.fates.lock().expect("no test panics with it").pop();
        match fate {
            None => Ok(self.apply(commands)),
            Some(Fate::Overloaded) => Err(ProposeError::Overloaded { commands: 7, bytes: 9 }),
            Some(Fate::AnswerLost) => {
                self.apply(commands);
                Err(ProposeError::Unknown { why: "leadership lost".to_owned() })
            }
            Some(Fate::Stuck) => {
                tokio::time::sleep_until(deadline.into()).await;
                Err(ProposeError::Unknown { why: "no answer by the deadline".to_owned() })
            }
        }
    }

    async fn read_index(&self, _: Instant) -> Result<(), ReadError> {
        if *self.confirms.lock().expect("no test panics with it") {
            return Ok(());
        }
        Err(ReadError::Deadline { why: "no quorum".to_owned() })
    }

    fn staleness(&self) -> Option<Duration> {
        Some(Duration::from_millis(5))
    }

    fn cluster(&self) -> Option<ClusterId> {
        Some(ClusterId(0xab))
    }

    fn applied_index(&self) -> Option<u64> {
        Some(self.applied())
    }

    fn store(&self) -> Arc<Store> {
        Arc::clone(&self.store)
    }

    fn subscribe(&self) -> watch::Receiver<Revision> {
        self.revision.subscribe()
    }

    async fn ready(&self, _: Instant) -> Result<(), ReadError> {
        Ok(())
    }

    async fn status(&self) -> Status {
        Status {
            cluster: self.cluster(),
            node: 1,
            name: "single".to_owned(),
            address: "127.0.0.1:1".to_owned(),
            phase: Phase::Member,
            role: Role::Leader,
            term: 1,
            leader: None,
            last_log: Some(self.applied()),
            committed: Some(self.applied()),
            applied: Some(self.applied()),
            snapshot: None,
            purged: None,
            revision: *self.revision.borrow(),
            log_bytes: 0,
            clock_skew_ms: Some(-61_000),
            free_bytes: 1,
            staleness: None,
            members: Vec::new(),
        }
    }

    async fn replace(&self, name: &str, _: Option<&str>, _: Instant) -> Result<(), MemberError> {
        Err(MemberError::Unknown { name: name.to_owned() })
    }

    async fn transfer_leadership(&self, _: Option<&str>, _: Instant) -> Result<(), MemberError> {
        Err(MemberError::Refused { why: "it is alone".to_owned() })
    }

    async fn snapshot(&self, _: Instant) -> Result<u64, MemberError> {
        Ok(self.applied())
    }
}

/// A server of one such replica on loopback, and how to stop it.
pub struct Served {
    pub replica: Single,
    pub address: SocketAddr,
    stop: oneshot::Sender<()>,
    done: tokio::task::JoinHandle<Result<(), ServeError>>,
}

impl Served {
    pub async fn start() -> Served {
        Served::start_with(Single::new(), "127.0.0.1:0").await
    }

    pub async fn start_with(replica: Single, address: &str) -> Served {
        let listener = TcpListener::bind(address).await.expect("a port on loopback");
        let address = listener.local_addr().expect("it is bound");
        let (stop, stopped) = oneshot::channel::<()>();
        let served = replica.clone();
        let done = tokio::spawn(async move {
            serve_replica(served, None, |routes| routes, listener, async { drop(stopped.await) }).await
        });
        Served { replica, address, stop, done }
    }

    pub fn client(&self) -> Client {
        Client::new([self.address.to_string()]).expect("an endpoint")
    }

    pub fn revision(&self) -> Revision {
        *self.replica.revision.borrow()
    }

    /// Every row of the replica.
    pub fn replica_rows(&self) -> Vec<(Key, Row)> {
        self.replica.store.read(|ledger| ledger.tables().rows().collect())
    }

    /// Proposes, and expects that no command is refused.
    pub async fn apply(&self, actions: &[Action]) {
        let request = v1::ProposeRequest { source: String::new(), commands: messages(actions) };
        let response = self.client().propose(request).await.expect("the replica answers");
        for result in response.results {
            let outcome = matches!(result.result, Some(v1::command_result::Result::Outcome(_)));
            assert!(outcome, "{result:?}");
        }
    }

    pub async fn stop(self) -> Single {
        drop(self.stop);
        self.done.await.expect("the server does not panic").expect("the server ends well");
        self.replica
    }
}
