//! What all parts of a replica share.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use holdfast_statemachine::Store;
use holdfast_statemachine::store::Options;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::contact::Contact;
use crate::identity::{Group, Identity};
use crate::leader_clock::wall_clock;
use crate::log_store::LogStore;
use crate::peer::{Network, Peers};
use crate::proposer::Proposer;
use crate::read_rounds::ReadRounds;
use crate::snapshot_dir::SnapshotDir;
use crate::space::Space;
use crate::state_machine::{Applied, Position, StateMachine};
use crate::status::Phase;
use crate::types::{Member, Raft};
use crate::{ClusterId, Error, NodeConfig, NodeId, deadlines, observer};

/// What all parts of a replica share.
pub(crate) struct Replica {
    pub(crate) config: NodeConfig,
    pub(crate) identity: Identity,
    pub(crate) log: LogStore,
    pub(crate) store: Arc<Store>,
    pub(crate) snapshots: Arc<SnapshotDir>,
    pub(crate) peers: Peers,
    pub(crate) applied: watch::Receiver<Applied>,
    pub(crate) contact: Contact,
    pub(crate) space: Space,
    pub(crate) phase: watch::Sender<Phase>,
    /// Some term while this replica leads and has applied an entry of its own.
    pub(crate) leadership: watch::Sender<Option<u64>>,
    pub(crate) stopping: watch::Sender<bool>,
    /// Why this replica can go on no longer.
    pub(crate) failed: watch::Sender<Option<String>>,
    /// Held while this replica joins a group: it does so once.
    pub(crate) group: tokio::sync::Mutex<Option<Group>>,
    /// The group in which messages are sent and accepted; 0: none.
    cluster: Arc<AtomicU64>,
    /// Until it is given to openraft.
    machine: Mutex<Option<StateMachine>>,
    running: OnceLock<Running>,
    tasks: Mutex<JoinSet<()>>,
}

/// What there is once the replica belongs to a group.
pub(crate) struct Running {
    pub(crate) raft: Raft,
    pub(crate) proposer: Proposer,
    pub(crate) reads: ReadRounds,
    /// The lead is being handed over: no proposals, no reads.
    pub(crate) handing_over: AtomicBool,
    /// Held while the members are changed.
    pub(crate) changing: tokio::sync::Mutex<()>,
    leadership: watch::Receiver<Option<u64>>,
}

impl Running {
    /// The term in which this replica leads and has applied an entry of its own.
    pub(crate) fn leads(&self) -> Option<u64> {
        *self.leadership.borrow()
    }

    pub(crate) fn is_handing_over(&self) -> bool {
        self.handing_over.load(Ordering::Acquire)
    }

    /// The leader, if it is known and another replica.
    pub(crate) fn other_leader(&self) -> Option<(NodeId, Member)> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let leader = metrics.current_leader.filter(|leader| *leader != metrics.id)?;
        let member = metrics.membership_config.membership().get_node(&leader)?;
        Some((leader, member.clone()))
    }

    /// A member by its id.
    pub(crate) fn member(&self, node: NodeId) -> Option<Member> {
        self.raft.metrics().borrow().membership_config.membership().get_node(&node).cloned()
    }
}

impl Replica {
    /// Opens all files. Whatever is wrong with the ledger's store, it is rebuilt; whatever is wrong with the
    /// log is an error.
    pub(crate) fn open(config: NodeConfig) -> Result<(Replica, Option<Group>), Error> {
        config.validate()?;
        let dir = config.data_dir.clone();
        let identity = Identity::load_or_make(&dir, &config.name)?;
        let group = Group::load(&dir)?;
        let log = LogStore::open(&dir.join("log"), &dir.join("log-used"), &config.name)?;
        let snapshots = Arc::new(SnapshotDir::open(&dir.join("snapshots"), config.snapshots.keep_files)?);
        let store = Arc::new(open_store(&dir.join("ledger"), &config.name, &log, &snapshots)?);
        let machine = StateMachine::new(store.clone(), snapshots.clone())?;
        let replica = Replica {
            peers: Peers::new(config.timings.connect),
            applied: machine.applied(),
            contact: Contact::default(),
            space: Space::new(config.disk_watermark),
            phase: watch::Sender::new(Phase::Forming { why: "starting".to_owned() }),
            leadership: watch::Sender::new(None),
            stopping: watch::Sender::new(false),
            failed: watch::Sender::new(None),
            group: tokio::sync::Mutex::new(group.clone()),
            cluster: Arc::new(AtomicU64::new(group.as_ref().map_or(0, |group| group.cluster.0))),
            machine: Mutex::new(Some(machine)),
            running: OnceLock::new(),
            tasks: Mutex::new(JoinSet::new()),
            config,
            identity,
            log,
            store,
            snapshots,
        };
        Ok((replica, group))
    }

    pub(crate) fn node(&self) -> NodeId {
        self.identity.node
    }

    pub(crate) fn cluster(&self) -> Option<ClusterId> {
        Some(self.cluster.load(Ordering::Acquire)).filter(|cluster| *cluster != 0).map(ClusterId)
    }

    pub(crate) fn running(&self) -> Option<&Running> {
        self.running.get()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// What stands in the way while this replica belongs to no group.
    pub(crate) fn not_ready(&self) -> String {
        match &*self.phase.borrow() {
            Phase::Forming { why } | Phase::AwaitingReplacement { why } => why.clone(),
            Phase::Member => "starting".to_owned(),
        }
    }

    /// Notes why this replica can go on no longer; the first reason stays.
    pub(crate) fn fail(&self, why: &impl ToString) {
        self.failed.send_if_modified(|failed| {
            let first = failed.is_none();
            if first {
                tracing::error!(why = why.to_string(), "this replica cannot go on");
                *failed = Some(why.to_string());
            }
            first
        });
    }

    /// Runs a task until the replica stops.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_stopping() {
            tasks.spawn(task);
        }
    }

    /// Ends all tasks.
    pub(crate) async fn end_tasks(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.shutdown().await;
    }

    /// Waits a moment before something is tried again. `false`: the deadline has come.
    pub(crate) async fn pause(&self, deadline: Instant) -> bool {
        let moment = (self.config.timings.heartbeat / 8).max(Duration::from_millis(1));
        let now = Instant::now();
        tokio::time::sleep_until(deadline.min(now + moment).into()).await;
        now + moment < deadline
    }

    /// Waits until an index is applied here.
    pub(crate) async fn wait_applied(&self, index: u64, deadline: Instant) -> bool {
        let mut applied = self.applied.clone();
        let there = applied.wait_for(|applied| applied.index() >= Some(index));
        matches!(tokio::time::timeout_at(deadline.into(), there).await, Ok(Ok(_)))
    }

    /// Makes this replica a member: the record is on disk before it takes any part. Called with the lock of
    /// `group` held.
    pub(crate) async fn begin(self: &Arc<Self>, group: &Group) -> Result<(), Error> {
        self.cluster.store(group.cluster.0, Ordering::Release);
        let machine = self.machine.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(machine) = machine else { return Ok(()) };
        let network = Network::new(self.peers.clone(), self.cluster.clone(), self.node());
        let config = Arc::new(raft_config(&self.config, self.node())?);
        let raft = Raft::new(self.node(), config, network, self.log.clone(), machine).await;
        let raft = raft.map_err(|error| Error::Raft(error.to_string()))?;
        let leadership = self.leadership.subscribe();
        let (proposer, batcher) =
            Proposer::new(raft.clone(), self.store.clone(), self.config.limits.clone(), leadership.clone());
        let (reads, rounds) = ReadRounds::new(Arc::downgrade(self));
        let running = Running {
            raft: raft.clone(),
            proposer,
            reads,
            handing_over: AtomicBool::new(false),
            changing: tokio::sync::Mutex::new(()),
            leadership,
        };
        if self.running.set(running).is_err() {
            unreachable!("the state machine is taken once");
        }
        self.spawn(batcher);
        self.spawn(rounds);
        self.spawn(observer::watch_leadership(Arc::downgrade(self), raft.clone()));
        self.spawn(observer::keep_house(Arc::downgrade(self), raft));
        self.spawn(deadlines::propose_due(Arc::downgrade(self)));
        self.phase.send_replace(Phase::Member);
        tracing::info!(cluster = %group.cluster, node = self.node(), "this replica is a member of its group");
        Ok(())
    }
}

/// Opens the ledger's store, and brings it to the newest snapshot if that is ahead: openraft would not.
fn open_store(dir: &Path, name: &str, log: &LogStore, snapshots: &SnapshotDir) -> Result<Store, Error> {
    let failed = |error: holdfast_statemachine::StoreError| Error::Store(error.to_string());
    let options = Options { now_seconds: wall_clock() / 1_000, ..Options::default() };
    let opened = Store::open(dir, options).map_err(failed)?;
    if let Some(aside) = opened.set_aside {
        tracing::error!(path = %aside.path.display(), why = %aside.why, "the ledger's store was set aside; rebuilding it");
    }
    let store = opened.store;
    let position = Position::decode(store.position().as_deref())?;
    let mut applied = position.applied;
    if let Some((meta, file)) = snapshots.newest()
        && meta.last_log_id > applied
    {
        tracing::warn!(snapshot = meta.snapshot_id, "the ledger is behind the newest snapshot; installing it");
        store.install(&file.path).map_err(failed)?;
        applied = meta.last_log_id;
    }
    match log.purged() {
        Some(purged) if applied < Some(purged) => Err(Error::Hole { purged: purged.index, name: name.to_owned() }),
        _ => Ok(store),
    }
}

/// Parts of the election window, so that two replicas rarely stand at once.
const WINDOWS: u64 = 5;

fn raft_config(config: &NodeConfig, node: NodeId) -> Result<openraft::Config, Error> {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let timings = &config.timings;
    let (min, max) = (millis(timings.election_min), millis(timings.election_max));
    let width = (max - min) / WINDOWS;
    let first = min + width * (node % WINDOWS);
    let config = openraft::Config {
        cluster_name: config.name.clone(),
        heartbeat_interval: millis(timings.heartbeat),
        election_timeout_min: first,
        election_timeout_max: first + width,
        install_snapshot_timeout: millis(timings.snapshot),
        // Appends are bounded by bytes, in the log store.
        max_payload_entries: 4_096,
        // We take them by bytes and entries.
        snapshot_policy: openraft::SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: config.snapshots.keep_entries,
        purge_batch_size: 1,
        ..openraft::Config::default()
    };
    config.validate().map_err(|error| Error::Config { key: "timings", why: error.to_string() })
}
