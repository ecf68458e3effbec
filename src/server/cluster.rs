//! The service `Cluster`.

use std::sync::Arc;

use holdfast_api::v1;
use holdfast_api::v1::cluster_server::Cluster as Service;
use holdfast_raft::{MemberStatus, Phase, Role, Status as ReplicaStatus, applied_index};
use holdfast_statemachine::{Ledger, Store};
use tonic::{Request, Response, Status};

use super::deadline::deadline;
use super::kubernetes::Kubernetes;
use super::replica::Replica;
use super::status;
use crate::wire;

/// The most findings that `Check` lists.
const FINDINGS_MAX: usize = 1_000;
/// A clock that differs by more from the ledger's is worth a warning, milliseconds.
const SKEW_MAX_MS: u64 = 60_000;

/// Answers for one replica.
pub struct ClusterService<R> {
    replica: R,
    kubernetes: Option<Kubernetes>,
}

impl<R: Replica> ClusterService<R> {
    /// The service of this replica, and of the bridge beside it.
    pub fn new(replica: R, kubernetes: Option<Kubernetes>) -> ClusterService<R> {
        ClusterService { replica, kubernetes }
    }
}

fn member(member: &MemberStatus) -> v1::Member {
    v1::Member {
        id: member.id.node,
        name: member.id.name.clone(),
        address: member.id.address.clone(),
        voter: member.voter,
        leader: member.leader,
        matched_index: member.matched,
        free_disk_bytes: member.free_bytes,
    }
}

fn members(told: &ReplicaStatus) -> Vec<v1::Member> {
    told.members.iter().map(member).collect()
}

fn role(role: Role) -> v1::Role {
    match role {
        Role::None => v1::Role::Unformed,
        Role::Learner => v1::Role::Learner,
        Role::Follower => v1::Role::Follower,
        Role::Candidate => v1::Role::Candidate,
        Role::Leader => v1::Role::Leader,
        Role::Stopped => v1::Role::Shutdown,
    }
}

/// What an operator should look at.
fn warnings(told: &ReplicaStatus) -> Vec<String> {
    let mut warnings = Vec::new();
    match &told.phase {
        Phase::Forming { why } | Phase::AwaitingReplacement { why } => warnings.push(why.clone()),
        Phase::Member if told.leader.is_none() => warnings.push("no leader is known".to_owned()),
        Phase::Member => {}
    }
    if let Some(skew) = told.clock_skew_ms.filter(|skew| skew.unsigned_abs() > SKEW_MAX_MS) {
        let (by, direction) = (skew.unsigned_abs() / 1_000, if skew > 0 { "ahead of" } else { "behind" });
        warnings.push(format!("this replica's clock is {by} s {direction} the ledger's"));
    }
    warnings
}

fn history_extent(store: &Store) -> v1::HistoryExtent {
    let extent = store.history_extent();
    let first_revision = if extent.count() == 0 { 0 } else { extent.first };
    v1::HistoryExtent { rows: extent.count(), first_revision, last_revision: extent.last() }
}

fn hexadecimal(digest: u128) -> String {
    format!("{digest:032x}")
}

/// Everything wrong with a store, and its digest as recomputed if it could be.
fn check(store: &Arc<Store>) -> v1::CheckResponse {
    // A copy is checked, so that entries wait for the copying alone.
    let ledger = store.read(Ledger::clone);
    let mut findings: Vec<String> = ledger.check().iter().map(ToString::to_string).take(FINDINGS_MAX).collect();
    drop(ledger);
    // Entries go on: what is told of the store is all of one of them.
    let (meta, recomputed_digest) = match store.check() {
        Ok(found) => {
            let digest = hexadecimal(found.digest);
            (found, digest)
        }
        Err(error) => {
            findings.push(error.to_string());
            (store.meta(), String::new())
        }
    };
    v1::CheckResponse {
        index: applied_index(&meta).unwrap_or_default(),
        revision: meta.history.last(),
        digest: hexadecimal(meta.digest),
        recomputed_digest,
        findings,
        ..v1::CheckResponse::default()
    }
}

#[tonic::async_trait]
impl<R: Replica> Service for ClusterService<R> {
    async fn status(&self, _: Request<v1::StatusRequest>) -> Result<Response<v1::StatusResponse>, Status> {
        let told = self.replica.status().await;
        let store = self.replica.store();
        // Digest, index and revision of one entry: two replicas can be compared by them.
        let meta = store.meta();
        let (ledger_time_ms, kubernetes) = store.read(|ledger| {
            let kubernetes = self.kubernetes.as_ref().map(|bridge| bridge.status(ledger.tables().adoption()));
            (ledger.tables().clock().time, kubernetes)
        });
        Ok(Response::new(v1::StatusResponse {
            cluster_id: told.cluster.map(|id| id.to_string()).unwrap_or_default(),
            id: told.node,
            name: told.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            role: role(told.role).into(),
            term: told.term,
            leader_id: told.leader.as_ref().map(|leader| leader.node),
            members: members(&told),
            last_log_index: told.last_log.unwrap_or(0),
            committed_index: told.committed.unwrap_or(0),
            applied_index: applied_index(&meta).unwrap_or(0),
            snapshot_index: told.snapshot,
            purged_index: told.purged,
            revision: meta.history.last(),
            ledger_time_ms,
            digest: hexadecimal(meta.digest),
            history: Some(history_extent(&store)),
            clock_skew_ms: told.clock_skew_ms.unwrap_or(0),
            free_disk_bytes: Some(told.free_bytes),
            warnings: warnings(&told),
            kubernetes,
        }))
    }

    async fn member_list(&self, _: Request<v1::MemberListRequest>) -> Result<Response<v1::MemberListResponse>, Status> {
        let told = self.replica.status().await;
        let cluster_id = told.cluster.map(|id| id.to_string()).unwrap_or_default();
        Ok(Response::new(v1::MemberListResponse { cluster_id, members: members(&told) }))
    }

    async fn member_replace(
        &self,
        request: Request<v1::MemberReplaceRequest>,
    ) -> Result<Response<v1::MemberReplaceResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let name = wire::name("name", request.name).map_err(status::invalid)?;
        let address = wire::name_or_empty("address", request.address).map_err(status::invalid)?;
        let address = (!address.is_empty()).then_some(&*address);
        let replaced = self.replica.replace(&name, address, deadline(&metadata)).await;
        replaced.map_err(|error| status::member(&error))?;
        let told = self.replica.status().await;
        Ok(Response::new(v1::MemberReplaceResponse { members: members(&told) }))
    }

    async fn leader_transfer(
        &self,
        request: Request<v1::LeaderTransferRequest>,
    ) -> Result<Response<v1::LeaderTransferResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let to = wire::name_or_empty("to", request.to).map_err(status::invalid)?;
        let to = (!to.is_empty()).then_some(&*to);
        let transferred = self.replica.transfer_leadership(to, deadline(&metadata)).await;
        transferred.map_err(|error| status::member(&error))?;
        let leader = self.replica.status().await.leader;
        let (leader_id, leader) = leader.map(|leader| (leader.node, leader.name)).unwrap_or_default();
        Ok(Response::new(v1::LeaderTransferResponse { leader_id, leader }))
    }

    async fn snapshot(&self, request: Request<v1::SnapshotRequest>) -> Result<Response<v1::SnapshotResponse>, Status> {
        let taken = self.replica.snapshot(deadline(request.metadata())).await;
        let index = taken.map_err(|error| status::member(&error))?;
        Ok(Response::new(v1::SnapshotResponse { index }))
    }

    async fn check(&self, _: Request<v1::CheckRequest>) -> Result<Response<v1::CheckResponse>, Status> {
        let name = self.replica.status().await.name;
        let store = self.replica.store();
        let checked = tokio::task::spawn_blocking(move || check(&store)).await;
        let checked = checked.map_err(|error| Status::internal(format!("the check failed: {error}")))?;
        Ok(Response::new(v1::CheckResponse { name, ..checked }))
    }
}
