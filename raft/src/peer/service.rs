//! The side that answers.

use holdfast_api::raft::v1 as pb;
use tonic::{Request, Response, Status, Streaming};

/// Answers the other replicas.
pub struct PeerService {}

#[tonic::async_trait]
impl pb::peer_server::Peer for PeerService {
    async fn vote(&self, _: Request<pb::VoteRequest>) -> Result<Response<pb::VoteResponse>, Status> {
        Err(Status::unavailable("starting"))
    }
    async fn append(&self, _: Request<pb::AppendRequest>) -> Result<Response<pb::AppendResponse>, Status> {
        Err(Status::unavailable("starting"))
    }
    async fn snapshot(
        &self,
        _: Request<Streaming<pb::SnapshotPart>>,
    ) -> Result<Response<pb::SnapshotResponse>, Status> {
        Err(Status::unavailable("starting"))
    }
    async fn propose(&self, _: Request<pb::ProposeRequest>) -> Result<Response<pb::ProposeResponse>, Status> {
        Err(Status::unavailable("starting"))
    }
    async fn read_index(&self, _: Request<pb::ReadIndexRequest>) -> Result<Response<pb::ReadIndexResponse>, Status> {
        Err(Status::unavailable("starting"))
    }
    async fn identify(&self, _: Request<pb::IdentifyRequest>) -> Result<Response<pb::IdentifyResponse>, Status> {
        Err(Status::unavailable("starting"))
    }
    async fn join(&self, _: Request<pb::JoinRequest>) -> Result<Response<pb::JoinResponse>, Status> {
        Err(Status::unavailable("starting"))
    }
    async fn elect(&self, _: Request<pb::ElectRequest>) -> Result<Response<pb::ElectResponse>, Status> {
        Err(Status::unavailable("starting"))
    }
    async fn space(&self, _: Request<pb::SpaceRequest>) -> Result<Response<pb::SpaceResponse>, Status> {
        Err(Status::unavailable("starting"))
    }
    async fn change_members(
        &self,
        _: Request<pb::ChangeMembersRequest>,
    ) -> Result<Response<pb::ChangeMembersResponse>, Status> {
        Err(Status::unavailable("starting"))
    }
}
