//! Why a call did not succeed.

use std::fmt;

use tonic::{Code, Status};

use crate::failure::failure;
use crate::v1::failure::Reason;

/// Why a call did not succeed. Only after [`FateUnknown`](ClientError::FateUnknown) may a write have been done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// An endpoint that is not `host:port` or a URL.
    #[error("{endpoint:?} is not an endpoint: host:port")]
    Endpoint {
        /// What was given.
        endpoint: String,
    },
    /// No endpoint answered. Nothing was done.
    #[error("no replica answers: {}", Tried(.tried))]
    Unreachable {
        /// Each endpoint tried, and what went wrong there.
        tried: Vec<(String, String)>,
    },
    /// A field of the request is not allowed. Nothing was done.
    #[error("{field}: {value:?} is not allowed: {allowed}")]
    Invalid {
        /// The field's path.
        field: String,
        /// What it held.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// Something named is not there. Nothing was done.
    #[error("no {kind} named {name}")]
    NotFound {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
    /// A bound is reached. Nothing was done; try again in a moment.
    #[error("overloaded: {what}, at most {limit}")]
    Overloaded {
        /// Which bound.
        what: String,
        /// Its number.
        limit: u64,
    },
    /// Too few replicas have room on disk. Nothing was done.
    #[error("too few replicas have room on disk: {voters_with_room} of {quorum} needed")]
    DiskFull {
        /// Voters above the watermark.
        voters_with_room: u32,
        /// Needed.
        quorum: u32,
    },
    /// A write may or may not be done, now or later. Repeating it is safe.
    #[error("the fate of the write is unknown, repeating it is safe: {why}")]
    FateUnknown {
        /// What happened.
        why: String,
    },
    /// Changes after the revision asked for are no longer kept.
    #[error("changes after revision {asked} are no longer kept, only those after {oldest}")]
    TooOld {
        /// Asked for changes after this one.
        asked: u64,
        /// The least revision that can be resumed after.
        oldest: u64,
    },
    /// The group does not allow it now. Nothing was done.
    #[error("{why}")]
    Refused {
        /// Why.
        why: String,
    },
    /// What the contract does not foresee.
    #[error("{code:?}: {message}")]
    Other {
        /// The gRPC code.
        code: Code,
        /// What was said.
        message: String,
    },
}

struct Tried<'a>(&'a [(String, String)]);

impl fmt::Display for Tried<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (endpoint, why)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "; " };
            write!(f, "{comma}{endpoint}: {why}")?;
        }
        Ok(())
    }
}

impl ClientError {
    /// The exit code of the `holdfast` command: 1 refused by a rule, 2 wrong use, 3 not reachable, 4 unknown fate.
    pub fn exit_code(&self) -> u8 {
        match self {
            ClientError::NotFound { .. }
            | ClientError::DiskFull { .. }
            | ClientError::TooOld { .. }
            | ClientError::Refused { .. } => 1,
            ClientError::Endpoint { .. } | ClientError::Invalid { .. } => 2,
            ClientError::Unreachable { .. } | ClientError::Overloaded { .. } | ClientError::Other { .. } => 3,
            ClientError::FateUnknown { .. } => 4,
        }
    }

    /// What a replica's answer says; `None` if it does not say more than that it cannot serve the call now.
    pub(super) fn of(status: &Status) -> Option<ClientError> {
        Some(match failure(status)? {
            Reason::Invalid(it) => ClientError::Invalid { field: it.field, value: it.value, allowed: it.allowed },
            Reason::NotFound(it) => ClientError::NotFound { kind: it.kind, name: it.name },
            Reason::Overloaded(it) => ClientError::Overloaded { what: it.what, limit: it.limit },
            Reason::DiskFull(it) => ClientError::DiskFull { voters_with_room: it.voters_with_room, quorum: it.quorum },
            Reason::FateUnknown(it) => ClientError::FateUnknown { why: it.why },
            Reason::TooOld(it) => ClientError::TooOld { asked: it.asked, oldest: it.oldest },
            Reason::Refused(it) => ClientError::Refused { why: it.why },
            Reason::NoLeader(_) | Reason::Expired(_) => return None,
        })
    }
}
