//! The handle to a replica.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_statemachine::{Command, Ledger, Outcome, Rejection, Revision};
use tokio::sync::watch;

use crate::status::MemberStatus;
use crate::{Error, MemberError, NodeConfig, ProposeError, ReadError, Status};

/// A replica: it proposes, reads, and changes the members. Cheap to clone.
#[derive(Clone)]
pub struct Node {
    inner: Arc<()>,
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
