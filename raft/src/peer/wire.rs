//! Between openraft's types and the messages.

use holdfast_api::raft::v1 as pb;
use holdfast_statemachine::codec::{self, Kind};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, VoteRequest, VoteResponse};
use openraft::{CommittedLeaderId, EntryPayload};
use tonic::Status;

use crate::log_record::{RecordKind, RecordPayload};
use crate::types::{Entry, LogId, StoredMembership, TypeConfig, Vote};
use crate::{ClusterId, NodeId, ProposeError};

pub(crate) fn route(cluster: ClusterId, target: NodeId) -> pb::Route {
    pb::Route { cluster: cluster.0, target }
}

fn missing(field: &'static str) -> Status {
    Status::invalid_argument(format!("{field} is missing"))
}

fn invalid(error: impl std::fmt::Display) -> Status {
    Status::invalid_argument(error.to_string())
}

pub(crate) fn ballot(vote: &Vote) -> pb::Ballot {
    pb::Ballot { term: vote.leader_id.term, node: vote.leader_id.node_id, committed: vote.committed }
}

pub(crate) fn vote_of(ballot: Option<pb::Ballot>) -> Result<Vote, Status> {
    let ballot = ballot.ok_or_else(|| missing("ballot"))?;
    let new = if ballot.committed { Vote::new_committed } else { Vote::new };
    Ok(new(ballot.term, ballot.node))
}

pub(crate) fn log_id(id: &LogId) -> pb::LogId {
    pb::LogId { term: id.leader_id.term, node: id.leader_id.node_id, index: id.index }
}

pub(crate) fn log_id_of(id: &pb::LogId) -> LogId {
    LogId::new(CommittedLeaderId::new(id.term, id.node), id.index)
}

pub(crate) fn vote_request(request: &VoteRequest<NodeId>, route: pb::Route) -> pb::VoteRequest {
    pb::VoteRequest {
        route: Some(route),
        ballot: Some(ballot(&request.vote)),
        last_log: request.last_log_id.as_ref().map(log_id),
    }
}

pub(crate) fn vote_request_of(request: &pb::VoteRequest) -> Result<VoteRequest<NodeId>, Status> {
    Ok(VoteRequest::new(vote_of(request.ballot)?, request.last_log.as_ref().map(log_id_of)))
}

pub(crate) fn vote_response(response: &VoteResponse<NodeId>) -> pb::VoteResponse {
    pb::VoteResponse {
        ballot: Some(ballot(&response.vote)),
        granted: response.vote_granted,
        last_log: response.last_log_id.as_ref().map(log_id),
    }
}

pub(crate) fn vote_response_of(response: &pb::VoteResponse) -> Result<VoteResponse<NodeId>, Status> {
    let vote = vote_of(response.ballot)?;
    Ok(VoteResponse::new(vote, response.last_log.as_ref().map(log_id_of), response.granted))
}

pub(crate) fn append_request(
    request: AppendEntriesRequest<TypeConfig>,
    route: pb::Route,
) -> std::io::Result<pb::AppendRequest> {
    Ok(pb::AppendRequest {
        route: Some(route),
        ballot: Some(ballot(&request.vote)),
        previous: request.prev_log_id.as_ref().map(log_id),
        entries: request.entries.into_iter().map(log_entry).collect::<std::io::Result<_>>()?,
        committed: request.leader_commit.as_ref().map(log_id),
    })
}

fn log_entry(entry: Entry) -> std::io::Result<pb::LogEntry> {
    let id = log_id(&entry.log_id);
    let kind = match &entry.payload {
        EntryPayload::Blank => pb::log_entry::Kind::Blank,
        EntryPayload::Normal(_) => pb::log_entry::Kind::Proposal,
        EntryPayload::Membership(_) => pb::log_entry::Kind::Membership,
    };
    let payload = RecordPayload::encode_entry(entry.payload)?.bytes;
    Ok(pb::LogEntry { id: Some(id), kind: kind.into(), payload })
}

pub(crate) fn append_request_of(request: pb::AppendRequest) -> Result<AppendEntriesRequest<TypeConfig>, Status> {
    Ok(AppendEntriesRequest {
        vote: vote_of(request.ballot)?,
        prev_log_id: request.previous.as_ref().map(log_id_of),
        entries: request.entries.into_iter().map(log_entry_of).collect::<Result<_, _>>()?,
        leader_commit: request.committed.as_ref().map(log_id_of),
    })
}

fn log_entry_of(entry: pb::LogEntry) -> Result<Entry, Status> {
    let kind = match entry.kind() {
        pb::log_entry::Kind::Blank => RecordKind::Blank,
        pb::log_entry::Kind::Proposal => RecordKind::Proposal,
        pb::log_entry::Kind::Membership => RecordKind::Membership,
    };
    let id = entry.id.as_ref().map(log_id_of).ok_or_else(|| missing("id"))?;
    RecordPayload { kind, bytes: entry.payload }.into_entry(id).map_err(invalid)
}

pub(crate) fn append_response(response: &AppendEntriesResponse<NodeId>) -> pb::AppendResponse {
    use pb::append_response::{Conflict, Done, Result};
    let result = match response {
        AppendEntriesResponse::Success => Result::Done(Done {}),
        // Sent by a transport that cuts an append; a replica takes all of it or none.
        AppendEntriesResponse::PartialSuccess(_) | AppendEntriesResponse::Conflict => Result::Conflict(Conflict {}),
        AppendEntriesResponse::HigherVote(vote) => Result::Higher(ballot(vote)),
    };
    pb::AppendResponse { result: Some(result) }
}

pub(crate) fn append_response_of(response: pb::AppendResponse) -> Result<AppendEntriesResponse<NodeId>, Status> {
    use pb::append_response::Result;
    Ok(match response.result.ok_or_else(|| missing("result"))? {
        Result::Done(_) => AppendEntriesResponse::Success,
        Result::Conflict(_) => AppendEntriesResponse::Conflict,
        Result::Higher(ballot) => AppendEntriesResponse::HigherVote(vote_of(Some(ballot))?),
    })
}

pub(crate) fn membership(membership: &StoredMembership) -> Result<Vec<u8>, codec::CodecError> {
    codec::encode(Kind::PeerRequest, membership)
}

pub(crate) fn membership_of(bytes: &[u8]) -> Result<StoredMembership, Status> {
    codec::decode(Kind::PeerRequest, bytes).map_err(invalid)
}

/// What a replica answers to the one that forwarded a client's request.
pub(crate) fn refused(error: &ProposeError) -> pb::Refused {
    use pb::refused::Reason;
    let mut refused = pb::Refused { message: error.to_string(), ..pb::Refused::default() };
    let reason = match error {
        ProposeError::NotLeader { leader } => {
            refused.leader = leader.unwrap_or(0);
            Reason::NotLeader
        }
        ProposeError::Overloaded { commands, bytes } => {
            (refused.size, refused.max) = (*commands as u64, *bytes as u64);
            Reason::Overloaded
        }
        ProposeError::TooLarge { unit, size, max } => {
            (refused.size, refused.max) = (*size as u64, *max as u64);
            (*unit).clone_into(&mut refused.message);
            Reason::TooLarge
        }
        ProposeError::DiskFull { watermark, free } => {
            refused.watermark = *watermark;
            refused.space =
                free.iter().map(|(name, free)| pb::Space { name: name.clone(), free_bytes: *free }).collect();
            Reason::DiskFull
        }
        ProposeError::Unknown { why } => {
            refused.message.clone_from(why);
            Reason::Unknown
        }
        ProposeError::Deadline { .. } => Reason::Deadline,
        ProposeError::NotReady { .. } => Reason::NotReady,
        ProposeError::Stopping => Reason::Stopping,
    };
    refused.set_reason(reason);
    refused
}

/// The error that [`refused`] was made from.
pub(crate) fn error_of(refused: pb::Refused) -> ProposeError {
    use pb::refused::Reason;
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    match refused.reason() {
        Reason::NotLeader => ProposeError::NotLeader { leader: Some(refused.leader).filter(|node| *node != 0) },
        Reason::Overloaded => ProposeError::Overloaded { commands: number(refused.size), bytes: number(refused.max) },
        Reason::TooLarge => ProposeError::TooLarge {
            unit: if refused.message == "commands" { "commands" } else { "bytes" },
            size: number(refused.size),
            max: number(refused.max),
        },
        Reason::DiskFull => ProposeError::DiskFull {
            watermark: refused.watermark,
            free: refused.space.into_iter().map(|space| (space.name, space.free_bytes)).collect(),
        },
        Reason::Deadline => ProposeError::Deadline { why: refused.message },
        Reason::NotReady | Reason::Refused => ProposeError::NotReady { why: refused.message },
        Reason::Stopping => ProposeError::Stopping,
        Reason::Unknown | Reason::Unspecified => ProposeError::Unknown { why: refused.message },
    }
}
