//! Errors as gRPC statuses, each with its reason for programs.

use holdfast_api::v1::failure::{
    DiskFull, Expired, FateUnknown, Invalid as InvalidField, NoLeader, NotFound, Overloaded, Reason, Refused, TooOld,
};
use holdfast_raft::{MemberError, ProposeError, ReadError};
use holdfast_statemachine::StoreError;
use tonic::Status;

use crate::wire::Invalid;

/// A field of the request is not allowed.
pub fn invalid(invalid: Invalid) -> Status {
    let text = invalid.to_string();
    let Invalid { field, value, allowed } = invalid;
    holdfast_api::status(Reason::Invalid(InvalidField { field, value, allowed }), text)
}

/// Something named is not there.
pub fn not_found(kind: &str, name: &impl ToString) -> Status {
    let name = name.to_string();
    let text = format!("no {kind} named {name}");
    holdfast_api::status(Reason::NotFound(NotFound { kind: kind.to_owned(), name }), text)
}

/// A bound of this replica is reached.
pub fn overloaded(what: &str, limit: usize) -> Status {
    let reason = Overloaded { what: what.to_owned(), limit: limit as u64 };
    holdfast_api::status(Reason::Overloaded(reason), format!("{what}: at most {limit}"))
}

/// The group's state does not allow it. Nothing was done.
pub fn refused(why: &str) -> Status {
    holdfast_api::status(Reason::Refused(Refused { why: why.to_owned() }), why)
}

/// The replica cannot serve the call; another one may. Nothing was done.
pub fn unavailable(why: &(impl ToString + ?Sized), last_known: Option<String>) -> Status {
    holdfast_api::status(Reason::NoLeader(NoLeader { last_known }), why.to_string())
}

/// Why a proposal has no outcome.
pub fn propose(error: &ProposeError) -> Status {
    let text = error.to_string();
    let reason = match error {
        ProposeError::Overloaded { commands, .. } => {
            Reason::Overloaded(Overloaded { what: "commands that wait".to_owned(), limit: *commands as u64 })
        }
        ProposeError::TooLarge { unit, size, max } => Reason::Invalid(InvalidField {
            field: "commands".to_owned(),
            value: format!("{size} {unit}"),
            allowed: format!("at most {max} {unit}"),
        }),
        ProposeError::DiskFull { watermark, free } => {
            let with_room = free.iter().filter(|(_, bytes)| bytes.is_some_and(|bytes| bytes >= *watermark)).count();
            Reason::DiskFull(DiskFull {
                voters_with_room: u32::try_from(with_room).unwrap_or(u32::MAX),
                quorum: u32::try_from(free.len() / 2 + 1).unwrap_or(u32::MAX),
            })
        }
        ProposeError::Unknown { why } => Reason::FateUnknown(FateUnknown { why: why.clone() }),
        ProposeError::Deadline { .. } => Reason::Expired(Expired {}),
        ProposeError::NotReady { .. } | ProposeError::Stopping => Reason::NoLeader(NoLeader { last_known: None }),
        ProposeError::NotLeader { leader } => {
            Reason::NoLeader(NoLeader { last_known: leader.map(|leader| format!("{leader:016x}")) })
        }
    };
    holdfast_api::status(reason, text)
}

/// Why a read cannot be linearizable: another replica may do better.
pub fn read(error: &ReadError) -> Status {
    match error {
        ReadError::Deadline { .. } => holdfast_api::status(Reason::Expired(Expired {}), error.to_string()),
        ReadError::NotReady { .. } | ReadError::Stopping => unavailable(error, None),
    }
}

/// Why the members were not changed.
pub fn member(error: &MemberError) -> Status {
    let text = error.to_string();
    let reason = match error {
        MemberError::Unknown { name } => Reason::NotFound(NotFound { kind: "member".to_owned(), name: name.clone() }),
        MemberError::Refused { why } => Reason::Refused(Refused { why: why.clone() }),
        MemberError::Deadline { why } => Reason::FateUnknown(FateUnknown { why: why.clone() }),
        MemberError::NotReady { .. } => Reason::NoLeader(NoLeader { last_known: None }),
    };
    holdfast_api::status(reason, text)
}

/// Why the store did not answer.
pub fn store(error: &StoreError) -> Status {
    match error {
        StoreError::TooOld { after, oldest, .. } => {
            let reason = TooOld { asked: *after, oldest: oldest.saturating_sub(1) };
            holdfast_api::status(Reason::TooOld(reason), error.to_string())
        }
        other => Status::internal(other.to_string()),
    }
}
