//! Why a verb did not do what was asked, and the exit code that says so to scripts.

use std::io;

use holdfast::wire::Invalid;
use holdfast_api::ClientError;
use holdfast_bridge::{FieldProblem, Problem};

/// Why a verb did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The group did not answer, or refused the call.
    #[error("{0}")]
    Client(#[from] ClientError),
    /// A rule of the ledger says no.
    #[error("{0}")]
    Refused(String),
    /// Manifests that cannot be read: nothing of them was applied.
    #[error("{}\nnothing was applied", lines(.0))]
    Manifests(Vec<Problem>),
    /// Manifests that contradict each other: nothing of them was applied.
    #[error("{}\nnothing was applied", lines(.0))]
    Objects(Vec<FieldProblem>),
    /// Something that cannot be written as asked.
    #[error("{0}")]
    Unwritable(#[from] Problem),
    /// The command line or the configuration makes no sense.
    #[error("{0}")]
    Usage(String),
    /// A replica said something that this release does not understand.
    #[error("the answer cannot be read: {0}")]
    Answer(#[from] Invalid),
    /// A replica in this process cannot go on.
    #[error("{0}")]
    Replica(String),
    /// Nobody reads standard output any more.
    #[error("standard output is closed")]
    Closed,
    /// Standard output or another file cannot be written or read.
    #[error("{0}")]
    Io(io::Error),
}

impl Failure {
    /// 0 done, 1 refused by a rule, 2 wrong use, 3 not reachable, 4 unknown fate.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Closed => 0,
            Failure::Client(error) => error.exit_code(),
            Failure::Refused(_)
            | Failure::Manifests(_)
            | Failure::Objects(_)
            | Failure::Unwritable(_)
            | Failure::Replica(_)
            | Failure::Io(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Answer(_) => 3,
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe { Failure::Closed } else { Failure::Io(error) }
    }
}

fn lines(problems: &[impl ToString]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
