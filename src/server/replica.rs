//! What the services ask of a replica.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_raft::{ClusterId, MemberError, ProposeError, Proposed, ReadError, Status};
use holdfast_statemachine::{Command, Revision, Store};
use tokio::sync::watch;

/// A replica as the services see it. [`Node`](holdfast_raft::Node) is one; tests have a smaller one.
pub trait Replica: Clone + Send + Sync + 'static {
    /// Puts commands into one entry of the log and waits until it is applied.
    fn propose(
        &self,
        commands: Vec<Command>,
        deadline: Instant,
    ) -> impl Future<Output = Result<Proposed, ProposeError>> + Send;

    /// Waits until the ledger here has all that was decided before the call.
    fn read_index(&self, deadline: Instant) -> impl Future<Output = Result<(), ReadError>> + Send;

    /// How old a read without [`read_index`](Replica::read_index) may be; `None`: not known.
    fn staleness(&self) -> Option<Duration>;

    /// The group; `None` before it is formed.
    fn cluster(&self) -> Option<ClusterId>;

    /// The last log index applied here.
    fn applied_index(&self) -> Option<u64>;

    /// The ledger and its history.
    fn store(&self) -> Arc<Store>;

    /// The ledger's revision, whenever it changes.
    fn subscribe(&self) -> watch::Receiver<Revision>;

    /// Resolves when the replica is a member of its group and a leader is known.
    fn ready(&self, deadline: Instant) -> impl Future<Output = Result<(), ReadError>> + Send;

    /// What the replica says of itself and of its group.
    fn status(&self) -> impl Future<Output = Status> + Send;

    /// Puts an empty replica in the place of a member whose data is gone.
    fn replace(
        &self,
        name: &str,
        address: Option<&str>,
        deadline: Instant,
    ) -> impl Future<Output = Result<(), MemberError>> + Send;

    /// Hands the lead over.
    fn transfer_leadership(
        &self,
        to: Option<&str>,
        deadline: Instant,
    ) -> impl Future<Output = Result<(), MemberError>> + Send;

    /// Takes a snapshot that has all that is applied here now, and returns the last log index in it.
    fn snapshot(&self, deadline: Instant) -> impl Future<Output = Result<u64, MemberError>> + Send;
}
