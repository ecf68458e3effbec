//! The side that asks, as openraft calls it.

#![allow(clippy::result_large_err, reason = "openraft's errors are returned as it wants them")]

use std::future::Future;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use holdfast_api::raft::v1 as pb;
use openraft::error::{
    Fatal, NetworkError, RPCError, RaftError, ReplicationClosed, StreamingError, Timeout, Unreachable,
};
use openraft::network::{Backoff, RPCOption, RPCTypes, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse};
use openraft::{AnyError, Snapshot, StorageIOError};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

use super::{Peers, wire};
use crate::snapshot_dir::SnapshotFile;
use crate::types::{Member, TypeConfig, Vote};
use crate::{ClusterId, NodeId};

/// How long a peer that was not reached is left alone.
const BACKOFF: Duration = Duration::from_millis(100);
/// Bytes of a snapshot in one message.
const PART_BYTES: usize = 256 << 10;
/// Messages of a snapshot read ahead of the connection.
const PARTS_AHEAD: usize = 4;

/// Makes the clients that openraft asks for.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    peers: Peers,
    cluster: Arc<AtomicU64>,
    node: NodeId,
}

impl Network {
    /// `cluster`: the group as of each message.
    pub(crate) fn new(peers: Peers, cluster: Arc<AtomicU64>, node: NodeId) -> Network {
        Network { peers, cluster, node }
    }
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = PeerNetwork;

    async fn new_client(&mut self, target: NodeId, member: &Member) -> PeerNetwork {
        PeerNetwork {
            peers: self.peers.clone(),
            address: member.address.clone(),
            cluster: self.cluster.clone(),
            node: self.node,
            target,
        }
    }
}

/// One peer.
#[derive(Debug)]
pub struct PeerNetwork {
    peers: Peers,
    address: String,
    cluster: Arc<AtomicU64>,
    node: NodeId,
    target: NodeId,
}

type RpcError<E = RaftError<NodeId>> = RPCError<NodeId, Member, E>;

impl PeerNetwork {
    fn route(&self) -> pb::Route {
        wire::route(ClusterId(self.cluster.load(Ordering::Acquire)), self.target)
    }

    fn error<E: std::error::Error>(&self, status: &Status) -> RpcError<E> {
        let error = AnyError::error(format!("{}: {:?}: {}", self.address, status.code(), status.message()));
        match status.code() {
            Code::Unavailable | Code::FailedPrecondition | Code::Unimplemented => {
                RPCError::Unreachable(Unreachable::from(error))
            }
            _ => RPCError::Network(NetworkError::from(error)),
        }
    }

    fn timeout<E: std::error::Error>(&self, action: RPCTypes, timeout: Duration) -> RpcError<E> {
        RPCError::Timeout(Timeout { action, id: self.node, target: self.target, timeout })
    }

    async fn stream(
        &self,
        vote: Vote,
        snapshot: Snapshot<TypeConfig>,
    ) -> Result<SnapshotResponse<NodeId>, StreamingError<TypeConfig, Fatal<NodeId>>> {
        let failed = |status: &Status| match self.error::<Fatal<NodeId>>(status) {
            RPCError::Unreachable(error) => StreamingError::Unreachable(error),
            RPCError::Network(error) => StreamingError::Network(error),
            other => StreamingError::Network(NetworkError::new(&other)),
        };
        let unread = |error: &std::io::Error| {
            StreamingError::StorageError(StorageIOError::read_snapshot(Some(snapshot.meta.signature()), error).into())
        };
        let file = std::fs::File::open(&snapshot.snapshot.path).map_err(|error| unread(&error))?;
        let size = file.metadata().map_err(|error| unread(&error))?.len();
        let head = pb::SnapshotHead {
            route: Some(self.route()),
            ballot: Some(wire::ballot(&vote)),
            last_log: snapshot.meta.last_log_id.as_ref().map(wire::log_id),
            membership: wire::membership(&snapshot.meta.last_membership)
                .map_err(|error| failed(&Status::internal(error.to_string())))?
                .into(),
            snapshot_id: snapshot.meta.snapshot_id.clone(),
            size,
        };
        let mut client = self.peers.at(&self.address).map_err(|status| failed(&status))?;
        let response = client.snapshot(parts(head, file, *snapshot.snapshot.clone())).await;
        let response = response.map_err(|status| failed(&status))?.into_inner();
        Ok(SnapshotResponse::new(wire::vote_of(response.ballot).map_err(|status| failed(&status))?))
    }
}

/// The head, then the file's bytes, read by a thread of its own. If reading fails the stream ends early, and
/// the receiver, who knows the size, refuses it.
fn parts(head: pb::SnapshotHead, mut file: std::fs::File, name: SnapshotFile) -> ReceiverStream<pb::SnapshotPart> {
    let (sender, receiver) = mpsc::channel(PARTS_AHEAD);
    tokio::task::spawn_blocking(move || {
        let part = |part| pb::SnapshotPart { part: Some(part) };
        let mut next = part(pb::snapshot_part::Part::Head(head));
        loop {
            if sender.blocking_send(next).is_err() {
                return;
            }
            let mut data = vec![0; PART_BYTES];
            match file.read(&mut data) {
                Ok(0) => return,
                Ok(length) => {
                    data.truncate(length);
                    next = part(pb::snapshot_part::Part::Data(Bytes::from(data)));
                }
                Err(error) => {
                    tracing::error!(file = %name.path.display(), %error, "a snapshot cannot be read");
                    return;
                }
            }
        }
    });
    ReceiverStream::new(receiver)
}

impl RaftNetwork<TypeConfig> for PeerNetwork {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<NodeId>, RpcError> {
        // openraft itself bounds the time of this call.
        let request = wire::append_request(request, self.route());
        let request = request.map_err(|error| RPCError::Network(NetworkError::new(&error)))?;
        let mut client = self.peers.at(&self.address).map_err(|status| self.error(&status))?;
        let response = client.append(request).await.map_err(|status| self.error(&status))?;
        wire::append_response_of(response.into_inner()).map_err(|status| self.error(&status))
    }

    async fn vote(
        &mut self,
        request: VoteRequest<NodeId>,
        option: RPCOption,
    ) -> Result<VoteResponse<NodeId>, RpcError> {
        let request = wire::vote_request(&request, self.route());
        let mut client = self.peers.at(&self.address).map_err(|status| self.error(&status))?;
        let response = tokio::time::timeout(option.hard_ttl(), client.vote(request)).await;
        let response = response.map_err(|_| self.timeout(RPCTypes::Vote, option.hard_ttl()))?;
        let response = response.map_err(|status| self.error(&status))?;
        wire::vote_response_of(&response.into_inner()).map_err(|status| self.error(&status))
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot<TypeConfig>,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<NodeId>, StreamingError<TypeConfig, Fatal<NodeId>>> {
        let timeout = option.hard_ttl();
        tokio::select! {
            closed = cancel => Err(closed.into()),
            sent = tokio::time::timeout(timeout, self.stream(vote, snapshot)) => sent.unwrap_or_else(|_| {
                let (id, target) = (self.node, self.target);
                Err(StreamingError::Timeout(Timeout { action: RPCTypes::InstallSnapshot, id, target, timeout }))
            }),
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(BACKOFF))
    }
}
