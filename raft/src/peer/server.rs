//! The side that answers.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use holdfast_api::raft::v1 as pb;
use holdfast_statemachine::Command;
use holdfast_statemachine::codec::{self, Kind};
use openraft::Snapshot;
use tokio::io::AsyncWriteExt;
use tonic::{Request, Response, Status, Streaming};

use super::wire;
use crate::members::MemberChange;
use crate::node::Proposed;
use crate::replica::{Replica, Running};
use crate::snapshot_dir::{SnapshotFile, check};
use crate::types::SnapshotMeta;
use crate::{MemberError, ProposeError, ReadError, formation};

/// Answers the other replicas.
#[derive(Clone)]
pub struct PeerService {
    /// Weak: a connection that a peer keeps open must not keep a stopped replica's files open.
    replica: Weak<Replica>,
}

/// What a forwarded request may take at most, whatever it asks for.
const LONGEST: Duration = Duration::from_mins(5);

fn running(replica: &Replica) -> &Running {
    replica.running().expect("checked before")
}

fn deadline(timeout_ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(timeout_ms).min(LONGEST)
}

impl PeerService {
    pub(crate) fn new(replica: &Arc<Replica>) -> PeerService {
        PeerService { replica: Arc::downgrade(replica) }
    }

    fn replica(&self) -> Result<Arc<Replica>, Status> {
        self.replica.upgrade().ok_or_else(|| Status::failed_precondition("stopped"))
    }

    /// Refuses what is meant for another group or another replica.
    fn check(&self, route: Option<pb::Route>) -> Result<Arc<Replica>, Status> {
        let replica = self.replica()?;
        let route = route.ok_or_else(|| Status::invalid_argument("route is missing"))?;
        if replica.running().is_none() {
            return Err(Status::failed_precondition(replica.not_ready()));
        }
        let cluster = replica.cluster().map_or(0, |cluster| cluster.0);
        if route.cluster != cluster {
            let (meant, mine) = (route.cluster, cluster);
            return Err(Status::failed_precondition(format!("meant for group {meant:016x}; this is {mine:016x}")));
        }
        let node = replica.node();
        if route.target != node {
            let meant = route.target;
            return Err(Status::failed_precondition(format!("meant for replica {meant:016x}; this is {node:016x}")));
        }
        Ok(replica)
    }

    async fn receive(
        head: &pb::SnapshotHead,
        parts: &mut Streaming<pb::SnapshotPart>,
        file: &SnapshotFile,
    ) -> Result<SnapshotMeta, Status> {
        let failed = |error: std::io::Error| Status::internal(format!("{}: {error}", file.path.display()));
        let mut out = tokio::fs::File::create(&file.path).await.map_err(failed)?;
        let mut received = 0;
        while let Some(part) = parts.message().await? {
            let Some(pb::snapshot_part::Part::Data(data)) = part.part else {
                return Err(Status::invalid_argument("a second head"));
            };
            received += data.len() as u64;
            if received > head.size {
                break;
            }
            out.write_all(&data).await.map_err(failed)?;
        }
        if received != head.size {
            return Err(Status::data_loss(format!("{received} bytes of {}", head.size)));
        }
        out.sync_all().await.map_err(failed)?;
        let path = file.path.clone();
        let checked = tokio::task::spawn_blocking(move || check(&path)).await;
        let meta = checked.map_err(|error| Status::internal(error.to_string()))?;
        let meta = meta.map_err(|error| Status::data_loss(error.to_string()))?;
        let said = (head.last_log.as_ref().map(wire::log_id_of), wire::membership_of(&head.membership)?);
        if (meta.last_log_id, &meta.last_membership) != (said.0, &said.1) {
            return Err(Status::data_loss("the snapshot is of another position than its head says"));
        }
        Ok(meta)
    }
}

#[tonic::async_trait]
impl pb::peer_server::Peer for PeerService {
    async fn vote(&self, request: Request<pb::VoteRequest>) -> Result<Response<pb::VoteResponse>, Status> {
        let request = request.into_inner();
        let replica = self.check(request.route)?;
        let running = running(&replica);
        let response = running.raft.vote(wire::vote_request_of(&request)?).await;
        let response = response.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(Response::new(wire::vote_response(&response)))
    }

    async fn append(&self, request: Request<pb::AppendRequest>) -> Result<Response<pb::AppendResponse>, Status> {
        let request = request.into_inner();
        let replica = self.check(request.route)?;
        let running = running(&replica);
        let request = wire::append_request_of(request)?;
        let committed = request.leader_commit.map(|id| id.index);
        let response = running.raft.append_entries(request).await;
        let response = response.map_err(|error| Status::unavailable(error.to_string()))?;
        if response.is_success() {
            replica.contact.heard(committed, replica.applied.borrow().index(), Instant::now());
        }
        Ok(Response::new(wire::append_response(&response)))
    }

    async fn snapshot(
        &self,
        request: Request<Streaming<pb::SnapshotPart>>,
    ) -> Result<Response<pb::SnapshotResponse>, Status> {
        let mut parts = request.into_inner();
        let first = parts.message().await?.and_then(|part| part.part);
        let Some(pb::snapshot_part::Part::Head(head)) = first else {
            return Err(Status::invalid_argument("a snapshot begins with its head"));
        };
        let replica = self.check(head.route)?;
        let running = running(&replica);
        let vote = wire::vote_of(head.ballot)?;
        let file = replica.snapshots.part();
        let meta = match Self::receive(&head, &mut parts, &file).await {
            Ok(meta) => meta,
            Err(status) => {
                tracing::warn!(%status, "refusing a snapshot");
                // What is left over is removed at the next start at the latest.
                drop(std::fs::remove_file(&file.path));
                return Err(status);
            }
        };
        let snapshot = Snapshot { meta, snapshot: Box::new(file.clone()) };
        let response = running.raft.install_full_snapshot(vote, snapshot).await;
        // Installed, it has got another name; else it is of no use.
        drop(std::fs::remove_file(&file.path));
        let response = response.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(Response::new(pb::SnapshotResponse { ballot: Some(wire::ballot(&response.vote)) }))
    }

    async fn propose(&self, request: Request<pb::ProposeRequest>) -> Result<Response<pb::ProposeResponse>, Status> {
        use pb::propose_response::{Applied, Result as Answer};
        let request = request.into_inner();
        let replica = self.check(request.route)?;
        let commands: Vec<Command> = codec::decode(Kind::PeerRequest, &request.commands)
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let bytes = request.commands.len();
        let proposed = replica.propose_here(Arc::new(commands), bytes, deadline(request.timeout_ms)).await;
        let result = match proposed {
            Ok(Proposed { index, term, outcomes }) => match codec::encode(Kind::Outcomes, &outcomes) {
                Ok(outcomes) => Answer::Applied(Applied { index, term, outcomes: outcomes.into() }),
                // Applied, but its outcomes cannot be told.
                Err(error) => Answer::Refused(wire::refused(&ProposeError::Unknown { why: error.to_string() })),
            },
            Err(error) => Answer::Refused(wire::refused(&error)),
        };
        Ok(Response::new(pb::ProposeResponse { result: Some(result) }))
    }

    async fn read_index(
        &self,
        request: Request<pb::ReadIndexRequest>,
    ) -> Result<Response<pb::ReadIndexResponse>, Status> {
        use pb::read_index_response::Result as Answer;
        let request = request.into_inner();
        let replica = self.check(request.route)?;
        let running = running(&replica);
        let result = if running.leads().is_none() {
            let leader = running.other_leader().map(|(node, _)| node);
            Answer::Refused(wire::refused(&ProposeError::NotLeader { leader }))
        } else {
            match running.reads.index(&replica, deadline(request.timeout_ms)).await {
                Ok(index) => Answer::Index(index),
                Err(ReadError::Stopping) => Answer::Refused(wire::refused(&ProposeError::Stopping)),
                Err(error) => Answer::Refused(wire::refused(&ProposeError::Deadline { why: error.to_string() })),
            }
        };
        Ok(Response::new(pb::ReadIndexResponse { result: Some(result) }))
    }

    async fn identify(&self, request: Request<pb::IdentifyRequest>) -> Result<Response<pb::IdentifyResponse>, Status> {
        let replica = self.replica()?;
        formation::check_token(&replica, &request.into_inner().token)?;
        Ok(Response::new(pb::IdentifyResponse {
            node: replica.node(),
            name: replica.config.name.clone(),
            cluster: replica.cluster().map_or(0, |cluster| cluster.0),
            empty: replica.log.is_unused(),
        }))
    }

    async fn join(&self, request: Request<pb::JoinRequest>) -> Result<Response<pb::JoinResponse>, Status> {
        let request = request.into_inner();
        let replica = self.replica()?;
        formation::check_token(&replica, &request.token)?;
        formation::join(&replica, &request).await?;
        Ok(Response::new(pb::JoinResponse {}))
    }

    async fn elect(&self, request: Request<pb::ElectRequest>) -> Result<Response<pb::ElectResponse>, Status> {
        let replica = self.check(request.into_inner().route)?;
        let running = running(&replica);
        if replica.is_stopping() {
            return Err(Status::failed_precondition("stopping"));
        }
        let asked = running.raft.trigger().elect().await;
        asked.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(Response::new(pb::ElectResponse {}))
    }

    async fn space(&self, request: Request<pb::SpaceRequest>) -> Result<Response<pb::SpaceResponse>, Status> {
        let replica = self.check(request.into_inner().route)?;
        let config = &replica.config;
        let free_bytes = config.free_space.bytes(&config.data_dir);
        let free_bytes = free_bytes.map_err(|error| Status::unavailable(error.to_string()))?;
        let space = pb::Space { name: config.name.clone(), free_bytes: Some(free_bytes) };
        Ok(Response::new(pb::SpaceResponse { space: Some(space) }))
    }

    async fn change_members(
        &self,
        request: Request<pb::ChangeMembersRequest>,
    ) -> Result<Response<pb::ChangeMembersResponse>, Status> {
        let request = request.into_inner();
        let replica = self.check(request.route)?;
        let running = running(&replica);
        let change = request.change.ok_or_else(|| Status::invalid_argument("change is missing"))?;
        let deadline = deadline(request.timeout_ms);
        let refused = if running.leads().is_none() {
            let leader = running.other_leader().map(|(node, _)| node);
            Some(wire::refused(&ProposeError::NotLeader { leader }))
        } else {
            replica.change_members_here(&MemberChange::from_wire(change), deadline).await.err().map(refused_change)
        };
        Ok(Response::new(pb::ChangeMembersResponse { refused }))
    }
}

fn refused_change(error: MemberError) -> pb::Refused {
    use pb::refused::Reason;
    let (reason, message) = match error {
        MemberError::Unknown { name } => (Reason::Unspecified, name),
        MemberError::Refused { why } => (Reason::Refused, why),
        MemberError::Deadline { why } => (Reason::Deadline, why),
        MemberError::NotReady { why } => (Reason::NotReady, why),
    };
    pb::Refused { reason: reason.into(), message, ..pb::Refused::default() }
}
