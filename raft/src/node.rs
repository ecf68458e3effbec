//! The handle to a replica.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_api::raft::v1::peer_server::PeerServer;
use holdfast_statemachine::{Command, Ledger, Outcome, Rejection, Revision, Store};
use openraft::ServerState;
use tokio::sync::watch;

use crate::config::MESSAGE_BYTES;
use crate::leader_clock::wall_clock;
use crate::members::MemberChange;
use crate::peer::PeerService;
use crate::replica::{Replica, Running};
use crate::status::{MemberId, MemberStatus, Phase, Role};
use crate::{ClusterId, Error, MemberError, NodeConfig, NodeId, ProposeError, ReadError, Status, formation};

/// A replica: it proposes, reads, and changes the members. Cheap to clone.
#[derive(Clone)]
pub struct Node {
    replica: Arc<Replica>,
    revision: watch::Receiver<Revision>,
}

/// What became of a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposed {
    /// The log index of the entry that held it. Other proposals may be in the same entry.
    pub index: u64,
    /// That entry's term.
    pub term: u64,
    /// One for each command, in order.
    pub outcomes: Vec<Result<Outcome, Rejection>>,
}

impl Node {
    /// Opens the replica's files and starts it. It answers before the group is formed: mount
    /// [`peer_service`](Node::peer_service) on the server at `config.address` next, since that is how the
    /// group is formed, and wait for [`ready`](Node::ready).
    pub async fn start(config: NodeConfig) -> Result<Node, Error> {
        let opened = tokio::task::spawn_blocking(move || Replica::open(config)).await;
        let (replica, group) = opened.map_err(|error| Error::Store(error.to_string()))??;
        let replica = Arc::new(replica);
        let (sender, revision) = watch::channel(replica.applied.borrow().revision);
        let mut applied = replica.applied.clone();
        replica.spawn(async move {
            while applied.changed().await.is_ok() {
                let now = applied.borrow_and_update().revision;
                sender.send_if_modified(|revision| std::mem::replace(revision, now) != now);
            }
        });
        replica.spawn(formation::run(replica.clone(), group));
        Ok(Node { replica, revision })
    }

    /// What the other replicas call; to be served at the address configured.
    pub fn peer_service(&self) -> PeerServer<PeerService> {
        PeerServer::new(PeerService::new(&self.replica))
            .max_decoding_message_size(MESSAGE_BYTES)
            .max_encoding_message_size(MESSAGE_BYTES)
    }

    /// Waits until this replica takes part in its group and a read would be linearizable.
    pub async fn ready(&self, deadline: Instant) -> Result<(), ReadError> {
        let mut phase = self.replica.phase.subscribe();
        let member = phase.wait_for(|phase| *phase == Phase::Member);
        if !matches!(tokio::time::timeout_at(deadline.into(), member).await, Ok(Ok(_))) {
            return Err(ReadError::NotReady { why: self.replica.not_ready() });
        }
        self.read_index(deadline).await
    }

    /// Has the leader, whoever it is, put these commands into one entry of the log, and waits until that
    /// entry is applied there. One command list is never split over entries.
    pub async fn propose(&self, commands: Vec<Command>, deadline: Instant) -> Result<Proposed, ProposeError> {
        self.replica.propose(commands, deadline).await
    }

    /// As [`propose`](Node::propose), but only if this replica leads.
    pub async fn propose_here(&self, commands: Vec<Command>, deadline: Instant) -> Result<Proposed, ProposeError> {
        let bytes = self.replica.encode(&commands)?.len();
        self.replica.propose_here(Arc::new(commands), bytes, deadline).await
    }

    /// Waits until the ledger here has all that was decided before the call, so that a read that follows is
    /// linearizable.
    pub async fn read_index(&self, deadline: Instant) -> Result<(), ReadError> {
        self.replica.read_index(deadline).await
    }

    /// How long ago this replica was last known to be up to date: what a read without
    /// [`read_index`](Node::read_index) may be old. `None`: not since its start.
    pub fn staleness(&self) -> Option<Duration> {
        let running = self.replica.running()?;
        if running.leads().is_some() {
            return running.raft.metrics().borrow().millis_since_quorum_ack.map(Duration::from_millis);
        }
        self.replica.contact.age(self.replica.applied.borrow().index(), Instant::now())
    }

    /// Reads the ledger as it is here. Entries wait while `read` runs: keep it short.
    pub fn read<T>(&self, read: impl FnOnce(&Ledger) -> T) -> T {
        self.replica.store.read(read)
    }

    /// The ledger's store: history, digest, check.
    pub fn store(&self) -> &Arc<Store> {
        &self.replica.store
    }

    /// The ledger's revision here, whenever it changes.
    pub fn subscribe(&self) -> watch::Receiver<Revision> {
        self.revision.clone()
    }

    /// The last log index applied here.
    pub fn applied_index(&self) -> Option<u64> {
        self.replica.applied.borrow().index()
    }

    /// The term in which this replica leads and has applied an entry of its own, whenever that changes;
    /// `None` while it does not lead.
    pub fn leadership(&self) -> watch::Receiver<Option<u64>> {
        self.replica.leadership.subscribe()
    }

    /// How far this replica is, whenever that changes.
    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.replica.phase.subscribe()
    }

    /// The group's id; `None` before formation.
    pub fn cluster(&self) -> Option<ClusterId> {
        self.replica.cluster()
    }

    /// This replica's id.
    pub fn id(&self) -> NodeId {
        self.replica.node()
    }

    /// What this replica says of itself and of its group.
    pub async fn status(&self) -> Status {
        let replica = &self.replica;
        let applied = *replica.applied.borrow();
        let mut status = Status {
            cluster: replica.cluster(),
            node: replica.node(),
            name: replica.config.name.clone(),
            address: replica.config.address.clone(),
            phase: replica.phase.borrow().clone(),
            role: Role::None,
            term: 0,
            leader: None,
            last_log: None,
            committed: None,
            applied: applied.index(),
            snapshot: replica.snapshots.newest().and_then(|(meta, _)| meta.last_log_id).map(|id| id.index),
            purged: replica.log.purged().map(|id| id.index),
            revision: applied.revision,
            log_bytes: replica.log.disk_bytes(),
            clock_skew_ms: applied.time.map(|(ledger, since)| {
                let ledger = i128::from(ledger) + i128::try_from(since.elapsed().as_millis()).unwrap_or(0);
                i64::try_from(i128::from(wall_clock()) - ledger).unwrap_or(i64::MAX)
            }),
            free_bytes: replica.config.free_space.bytes(&replica.config.data_dir).unwrap_or(0),
            staleness: self.staleness(),
            members: Vec::new(),
        };
        if let Some(running) = replica.running() {
            status.committed =
                running.raft.with_raft_state(|state| state.committed.map(|id| id.index)).await.ok().flatten();
            self.add_group(running, &mut status);
        }
        status
    }

    fn add_group(&self, running: &Running, status: &mut Status) {
        let metrics = running.raft.metrics();
        let metrics = metrics.borrow();
        status.role = match metrics.state {
            _ if metrics.running_state.is_err() => Role::Stopped,
            ServerState::Learner => Role::Learner,
            ServerState::Follower => Role::Follower,
            ServerState::Candidate => Role::Candidate,
            ServerState::Leader => Role::Leader,
            ServerState::Shutdown => Role::Stopped,
        };
        status.term = metrics.current_term;
        status.last_log = metrics.last_log_index;
        let membership = metrics.membership_config.membership();
        for (node, member) in membership.nodes() {
            let id = MemberId { node: *node, name: member.name.clone(), address: member.address.clone() };
            let leader = metrics.current_leader == Some(*node);
            if leader {
                status.leader = Some(id.clone());
            }
            let matched = metrics.replication.as_ref().and_then(|all| all.get(node).copied().flatten());
            status.members.push(MemberStatus {
                id,
                voter: membership.voter_ids().any(|voter| voter == *node),
                leader,
                matched: matched.map(|id| id.index),
                free_bytes: self.replica.space.of(*node),
            });
        }
        status.members.sort_by(|a, b| (&a.id.name, a.id.node).cmp(&(&b.id.name, b.id.node)));
    }

    /// The members by name, as this replica sees them.
    pub async fn members(&self) -> Vec<MemberStatus> {
        self.status().await.members
    }

    /// Puts an empty replica in the place of the member of this name, whose data is gone. `address`: where
    /// the empty one is; `None`: where the lost one was.
    pub async fn replace(&self, name: &str, address: Option<&str>, deadline: Instant) -> Result<(), MemberError> {
        self.change(MemberChange::Replace(name.to_owned(), address.map(str::to_owned)), deadline).await
    }

    /// Adds the empty replica at this address as a member that does not vote.
    pub async fn add_learner(&self, name: &str, address: &str, deadline: Instant) -> Result<(), MemberError> {
        self.change(MemberChange::AddLearner(name.to_owned(), address.to_owned()), deadline).await
    }

    /// Lets a learner vote.
    pub async fn promote(&self, name: &str, deadline: Instant) -> Result<(), MemberError> {
        self.change(MemberChange::Promote(name.to_owned()), deadline).await
    }

    /// Takes a member out of the group.
    pub async fn remove(&self, name: &str, deadline: Instant) -> Result<(), MemberError> {
        self.change(MemberChange::Remove(name.to_owned()), deadline).await
    }

    /// Hands the lead to the member of this name, or to the most advanced voter.
    pub async fn transfer_leadership(&self, to: Option<&str>, deadline: Instant) -> Result<(), MemberError> {
        self.change(MemberChange::Transfer(to.map(str::to_owned)), deadline).await
    }

    async fn change(&self, change: MemberChange, deadline: Instant) -> Result<(), MemberError> {
        self.replica.change_members(&change, deadline).await
    }

    /// Takes a snapshot now, whatever the policy says.
    pub async fn take_snapshot(&self) -> Result<(), ReadError> {
        let not_ready = || ReadError::NotReady { why: self.replica.not_ready() };
        let running = self.replica.running().ok_or_else(not_ready)?;
        running.raft.trigger().snapshot().await.map_err(|_| ReadError::Stopping)
    }

    /// Refuses new proposals, finishes those in flight, hands the lead over if it has it, and stops.
    pub async fn shutdown(&self, deadline: Instant) {
        self.replica.stopping.send_replace(true);
        if let Some(running) = self.replica.running()
            && running.leads().is_some()
        {
            running.proposer.drained(deadline).await;
            if running.voters().len() > 1
                && let Err(error) = self.replica.change_members_here(&MemberChange::Transfer(None), deadline).await
            {
                tracing::warn!(%error, "stopping without handing the lead over");
            }
        }
        self.stop().await;
    }

    /// Stops at once, as a crash would, but for the files that are closed.
    pub async fn stop(&self) {
        self.replica.stopping.send_replace(true);
        if let Some(running) = self.replica.running()
            && let Err(error) = running.raft.shutdown().await
        {
            tracing::warn!(%error, "raft did not stop cleanly");
        }
        self.replica.end_tasks().await;
        let store = self.replica.store.clone();
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || store.flush()).await {
            tracing::warn!(%error, "the ledger's store was not flushed");
        }
    }

    /// Resolves when this replica can go on no longer: a file could not be written, an entry not be read.
    /// The process must end.
    pub async fn fatal(&self) -> Error {
        let mut failed = self.replica.failed.subscribe();
        let why = match failed.wait_for(Option::is_some).await {
            Ok(why) => why.clone(),
            Err(_) => None,
        };
        Error::Raft(why.unwrap_or_else(|| "the replica is gone".to_owned()))
    }
}
