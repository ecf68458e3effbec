use std::net::IpAddr;

use crate::change::{Cause, Change};
use crate::command::StatefulSetId;
use crate::row::{Holder, PodRef, PoolId, Stamp};
use crate::{Millis, Name, Revision};

/// From when to when something was so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// What was so.
    pub subject: Subject,
    /// What began it; `None` if that is older than the history.
    pub from: Option<Edge>,
    /// What ended it; `None` if it is still so.
    pub to: Option<Edge>,
}

/// What an interval is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Somebody held an address.
    Held {
        /// The address.
        address: IpAddr,
        /// Of this pool.
        pool: PoolId,
        /// Who.
        holder: Holder,
    },
    /// A Node carried an Egress address.
    Carried {
        /// The address.
        address: IpAddr,
        /// The Egress.
        egress: Name,
        /// The Node.
        node: Name,
    },
    /// A Pod was bound to an ordinal.
    Bound {
        /// The reservation.
        id: StatefulSetId,
        /// The ordinal.
        ordinal: u32,
        /// The Pod.
        pod: PodRef,
    },
}

/// One end of an [`Interval`]: the change that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The change's revision.
    pub revision: Revision,
    /// The log index of its entry.
    pub index: u64,
    /// That entry's time.
    pub at: Millis,
    /// What made it; `None` if the change is older than the history and known only from what still holds.
    pub cause: Option<Cause>,
}

impl Edge {
    pub(super) fn of(change: &Change) -> Edge {
        let cause = Some(change.cause.clone());
        Edge { revision: change.revision, index: change.index, at: change.at, cause }
    }

    pub(super) fn of_stamp(stamp: Stamp) -> Edge {
        Edge { revision: stamp.revision, index: stamp.index, at: stamp.at, cause: None }
    }
}
