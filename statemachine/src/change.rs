//! The change feed: one record for each revision. It is what `watch` streams and what history keeps.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::adopt::{Conflict, Mode};
use crate::command::{ObjectId, StatefulSetId};
use crate::outcome::Waiting;
use crate::row::{Holder, PodRef, PoolId};
use crate::{Millis, Name, Revision};

/// One change, at its own revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Its revision.
    pub revision: Revision,
    /// The log index of the entry that made it.
    pub index: u64,
    /// That entry's time.
    pub at: Millis,
    /// What made it.
    pub cause: Cause,
    /// What changed.
    pub event: Event,
}

/// What made a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// A command: its name (`Reserve`, `Drain`, ...), what it names, and its source as text.
    Command {
        /// The command's name.
        name: Name,
        /// The object that it names.
        object: Name,
        /// Where it came from.
        source: Name,
    },
    /// A time that passed: the end of a retention or of a cool-down.
    Deadline,
}

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// An object was declared, or its declaration changed.
    Put(ObjectId),
    /// An object is gone.
    Deleted(ObjectId),
    /// An object, or one address of an Egress (its position), waits, or waits for something else.
    Waits {
        /// The object.
        object: ObjectId,
        /// For an Egress, which item, from 0.
        item: Option<u32>,
        /// What for; one but for a reservation, whose families may each wait.
        waiting: Vec<Waiting>,
    },
    /// An object, or one address of an Egress, no longer waits.
    Met {
        /// The object.
        object: ObjectId,
        /// For an Egress, which item, from 0.
        item: Option<u32>,
    },
    /// An address was granted.
    Granted {
        /// The address.
        address: IpAddr,
        /// From this pool.
        pool: PoolId,
        /// To this holder.
        holder: Holder,
    },
    /// An address passed to another holder without being freed.
    Transferred {
        /// The address.
        address: IpAddr,
        /// Its pool now.
        pool: PoolId,
        /// Who held it.
        from: Holder,
        /// Who holds it.
        to: Holder,
    },
    /// An address was freed.
    Released {
        /// The address.
        address: IpAddr,
        /// Of this pool.
        pool: PoolId,
        /// Who held it.
        holder: Holder,
        /// Kept from others until this time, if the pool has a cool-down.
        cooling_until: Option<Millis>,
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
    /// A Pod is gone from its ordinal.
    Unbound {
        /// The reservation.
        id: StatefulSetId,
        /// The ordinal.
        ordinal: u32,
        /// The Pod.
        pod: PodRef,
    },
    /// The retention of an ordinal began, or ended by its being wanted or bound again.
    Retained {
        /// The reservation.
        id: StatefulSetId,
        /// The ordinal.
        ordinal: u32,
        /// Until when; `None`: no longer.
        until: Option<Millis>,
    },
    /// A cool-down ended.
    Cooled {
        /// The address.
        address: IpAddr,
    },
    /// An Egress address was placed on a Node, from another one or from none.
    Placed {
        /// The address.
        address: IpAddr,
        /// The Egress.
        egress: Name,
        /// Where it was.
        from: Option<Name>,
        /// Where it is.
        to: Name,
        /// Why it moved.
        why: MoveReason,
    },
    /// An Egress address has no Node any more.
    Unplaced {
        /// The address.
        address: IpAddr,
        /// The Egress.
        egress: Name,
        /// Where it was.
        from: Name,
        /// Why it left.
        why: MoveReason,
    },
    /// A placement was pinned or unpinned.
    Pinned {
        /// The address.
        address: IpAddr,
        /// The Egress.
        egress: Name,
        /// Now pinned, or not.
        pinned: bool,
    },
    /// A Node was drained, or its drain ended.
    Drained {
        /// The Node.
        node: Name,
        /// Now drained, or not.
        drained: bool,
    },
    /// What is left of a deleted pool changed: how many addresses are still held.
    Retired {
        /// The pool.
        pool: PoolId,
        /// Addresses still held; 0: it is gone.
        held: u64,
    },
    /// Settings changed.
    Settings,
    /// The adoption of what the API says began.
    AdoptionBegun {
        /// Whose rules the group lives by from now on.
        mode: Mode,
    },
    /// Something that the API says is not so in the ledger.
    Conflict(Conflict),
    /// All that the API says is adopted.
    AdoptionEnded {
        /// How many conflicts there were.
        conflicts: u64,
    },
}

/// Why an Egress address moved or left its Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MoveReason {
    /// It had no Node.
    Homeless,
    /// Its Node is not ready.
    NodeNotReady,
    /// Its Node is gone.
    NodeGone,
    /// Its Node no longer matches the pool's selector, or is not Linux.
    NodeMismatch,
    /// Its Node may carry fewer addresses than it did.
    OverCapacity,
    /// Its Node was drained.
    NodeDrained,
    /// An operator pinned it.
    Pin,
    /// A rebalance.
    Rebalance,
    /// The policy `consistent-hash` computed another Node.
    Recomputed,
    /// The address is no longer the Egress's.
    AddressGone,
}
