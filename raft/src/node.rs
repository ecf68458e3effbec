//! The handle to a replica.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_api::raft::v1::peer_server::PeerServer;
use holdfast_statemachine::{Command, Ledger, Outcome, Rejection, Revision};
use tokio::sync::watch;

use crate::peer::PeerService;
use crate::{Error, MemberError, NodeConfig, NodeId, ProposeError, ReadError, Status};

/// A replica: it proposes, reads, and changes the members. Cheap to clone.
#[derive(Clone)]
pub struct Node {
    config: Arc<NodeConfig>,
    revision: watch::Receiver<Revision>,
    ledger: Arc<std::sync::RwLock<Ledger>>,
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
        config.validate()?;
        let (_, revision) = watch::channel(0);
        Ok(Node { config: Arc::new(config), revision, ledger: Arc::default() })
    }

    /// What the other replicas call; to be served at the address configured.
    pub fn peer_service(&self) -> PeerServer<PeerService> {
        PeerServer::new(PeerService {})
    }

    /// Resolves when this replica is a member of its group and a leader is known, or at the deadline with
    /// what it still waits for.
    pub async fn ready(&self, deadline: Instant) -> Result<(), ReadError> {
        self.read_index(deadline).await
    }

    /// Has the leader, whoever it is, put these commands into one entry of the log, and waits until that
    /// entry is applied there.
    pub async fn propose(&self, commands: Vec<Command>, deadline: Instant) -> Result<Proposed, ProposeError> {
        let _ = (commands, deadline);
        Err(ProposeError::NotReady { why: self.config.name.clone() })
    }

    /// As [`propose`](Node::propose), but only if this replica leads.
    pub async fn propose_here(&self, commands: Vec<Command>, deadline: Instant) -> Result<Proposed, ProposeError> {
        self.propose(commands, deadline).await
    }

    /// Waits until the ledger here has all that was decided before the call, so that a read that follows is
    /// linearizable.
    pub async fn read_index(&self, deadline: Instant) -> Result<(), ReadError> {
        let _ = deadline;
        Err(ReadError::NotReady { why: self.config.name.clone() })
    }

    /// How long ago this replica was last known to be up to date: what a read without
    /// [`read_index`](Node::read_index) may be old. `None`: it has not heard from a leader since its start.
    pub fn staleness(&self) -> Option<Duration> {
        None
    }

    /// Reads the ledger as it is here. Entries wait while `read` runs: keep it short.
    pub fn read<T>(&self, read: impl FnOnce(&Ledger) -> T) -> T {
        read(&self.ledger.read().expect("no reader panics"))
    }

    /// The ledger's revision here, whenever it changes.
    pub fn subscribe(&self) -> watch::Receiver<Revision> {
        self.revision.clone()
    }

    /// The term in which this replica leads and has applied an entry of its own, whenever that changes;
    /// `None` while it does not lead.
    pub fn leadership(&self) -> watch::Receiver<Option<u64>> {
        watch::channel(None).1
    }

    /// What this replica says of itself and of its group.
    pub async fn status(&self) -> Status {
        unreachable!("the node is not started")
    }

    /// Puts an empty replica in the place of the member of this name, whose data is gone. `address`: where
    /// the empty one is; `None`: where the lost one was.
    pub async fn replace(&self, name: &str, address: Option<&str>, deadline: Instant) -> Result<(), MemberError> {
        let _ = (address, deadline);
        Err(MemberError::Unknown { name: name.to_owned() })
    }

    /// Adds the empty replica at this address as a member that does not vote.
    pub async fn add_learner(&self, name: &str, address: &str, deadline: Instant) -> Result<(), MemberError> {
        let _ = (address, deadline);
        Err(MemberError::Unknown { name: name.to_owned() })
    }

    /// Lets a learner vote.
    pub async fn promote(&self, name: &str, deadline: Instant) -> Result<(), MemberError> {
        let _ = deadline;
        Err(MemberError::Unknown { name: name.to_owned() })
    }

    /// Takes a member out of the group.
    pub async fn remove(&self, name: &str, deadline: Instant) -> Result<(), MemberError> {
        let _ = deadline;
        Err(MemberError::Unknown { name: name.to_owned() })
    }

    /// Hands the lead to the member of this name, or to the most advanced voter.
    pub async fn transfer_leadership(&self, to: Option<&str>, deadline: Instant) -> Result<NodeId, MemberError> {
        let _ = (to, deadline);
        Err(MemberError::Unknown { name: self.config.name.clone() })
    }

    /// Refuses new proposals, finishes those in flight, hands the lead over if it has it, and stops.
    pub async fn shutdown(&self, deadline: Instant) {
        let _ = deadline;
    }

    /// Resolves when this replica can go on no longer: a file could not be written, an entry not be read.
    /// The process must end.
    pub async fn fatal(&self) -> Error {
        std::future::pending().await
    }
}
