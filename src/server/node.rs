//! A raft node is a replica.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_raft::{ClusterId, MemberError, Node, ProposeError, Proposed, ReadError, Status};
use holdfast_statemachine::{Command, Revision, Store};
use tokio::sync::watch;

use super::replica::Replica;

/// How often we look whether a snapshot asked for is there.
const SNAPSHOT_CHECK: Duration = Duration::from_millis(20);

impl Replica for Node {
    async fn propose(&self, commands: Vec<Command>, deadline: Instant) -> Result<Proposed, ProposeError> {
        Node::propose(self, commands, deadline).await
    }

    async fn read_index(&self, deadline: Instant) -> Result<(), ReadError> {
        Node::read_index(self, deadline).await
    }

    fn staleness(&self) -> Option<Duration> {
        Node::staleness(self)
    }

    fn cluster(&self) -> Option<ClusterId> {
        Node::cluster(self)
    }

    fn applied_index(&self) -> Option<u64> {
        Node::applied_index(self)
    }

    fn store(&self) -> Arc<Store> {
        Arc::clone(Node::store(self))
    }

    fn subscribe(&self) -> watch::Receiver<Revision> {
        Node::subscribe(self)
    }

    async fn ready(&self, deadline: Instant) -> Result<(), ReadError> {
        Node::ready(self, deadline).await
    }

    async fn status(&self) -> Status {
        Node::status(self).await
    }

    async fn replace(&self, name: &str, address: Option<&str>, deadline: Instant) -> Result<(), MemberError> {
        Node::replace(self, name, address, deadline).await
    }

    async fn transfer_leadership(&self, to: Option<&str>, deadline: Instant) -> Result<(), MemberError> {
        Node::transfer_leadership(self, to, deadline).await
    }

    async fn snapshot(&self, deadline: Instant) -> Result<u64, MemberError> {
        let wanted = Node::applied_index(self);
        if wanted.is_none() {
            return Err(MemberError::Refused { why: "nothing is applied yet: there is nothing to take".to_owned() });
        }
        self.take_snapshot().await.map_err(|error| MemberError::NotReady { why: error.to_string() })?;
        loop {
            let taken = Node::status(self).await.snapshot;
            if let Some(index) = taken.filter(|_| taken >= wanted) {
                return Ok(index);
            }
            if Instant::now() + SNAPSHOT_CHECK >= deadline {
                return Err(MemberError::Deadline { why: "the snapshot is still being written".to_owned() });
            }
            tokio::time::sleep(SNAPSHOT_CHECK).await;
        }
    }
}
