//! Adoption: what an API already says of addresses becomes the ledger's state, before anything new is chosen.
//!
//! It is begun, given in pieces and ended by [`Adopt`]. What contradicts what is held already is a [`Conflict`], told
//! and recorded, and takes nothing from its holder.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::command::{Owner, PodOwner, PutEgress, StatefulSetId};
use crate::outcome::Waiting;
use crate::row::{Holder, PodRef, PoolId};
use crate::{Name, codec};

/// Whose rules a group lives by. It keeps the mode that it began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Mode {
    /// Its own alone.
    Standalone,
    /// Beside Antrea's agents and controller, who allocate from the same pools.
    Antrea,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Standalone => "standalone",
            Mode::Antrea => "antrea",
        })
    }
}

/// See [`crate::Action::Adopt`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Adopt {
    /// Nothing is chosen from now on, until the end.
    Begin {
        /// Whose rules to live by.
        mode: Mode,
    },
    /// What is held; at most [`Adopt::ITEMS_MAX`], each standing alone.
    Held(Vec<AdoptItem>),
    /// All is told: what waits is served.
    End,
}

impl Adopt {
    /// Most items of one piece.
    pub const ITEMS_MAX: usize = 1_000;
}

/// Something that the API says is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AdoptItem {
    /// An address of a pool.
    Address {
        /// The pool.
        pool: PoolId,
        /// The address.
        address: IpAddr,
        /// Whose it is.
        by: AdoptedBy,
    },
    /// An Egress, with what it has.
    Egress {
        /// The object.
        put: PutEgress,
        /// Which of its addresses were chosen by an allocator, not asked for by a user.
        chosen: Vec<IpAddr>,
        /// Where its addresses are.
        placed: Vec<(IpAddr, Name)>,
    },
}

/// Whose an adopted address is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AdoptedBy {
    /// An ordinal of a StatefulSet.
    Ordinal {
        /// The StatefulSet.
        id: StatefulSetId,
        /// Its UID.
        uid: Name,
        /// The ordinal.
        ordinal: u32,
        /// The Pod that runs with it.
        pod: Option<PodOwner>,
        /// The pools that the Pod's own annotation names.
        pools: Vec<Name>,
    },
    /// A Pod outside reservations, or a named owner.
    Owner(Owner),
}

/// Something that the API says and that is not so in the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// The address.
    pub address: IpAddr,
    /// The pool that the API says it is of.
    pub pool: PoolId,
    /// Whose the API says it is.
    pub claimed_by: Holder,
    /// Why it is not.
    pub why: ConflictReason,
}

impl Conflict {
    /// Tells conflicts apart that are not kept whole.
    pub fn fingerprint(&self) -> u64 {
        let bytes = codec::encode(codec::Kind::Row, self).unwrap_or_default();
        xxhash_rust::xxh3::xxh3_64(&bytes)
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conflict { address, pool, claimed_by, why } = self;
        write!(f, "{address} of {pool} is said to be held by {claimed_by}, but {why}")
    }
}

/// Why an adopted address is not the claimant's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConflictReason {
    /// Someone else holds it: the first one told keeps it.
    Held {
        /// Who.
        by: Holder,
    },
    /// There is no such pool.
    UnknownPool,
    /// The pool does not give this address.
    Outside,
    /// The ordinal has another address of that family, and no Pod is said to run with this one.
    OrdinalHolds {
        /// The address that it has.
        address: IpAddr,
    },
    /// The Pod is bound to another ordinal; it holds the address by itself.
    PodBound {
        /// The reservation.
        id: StatefulSetId,
        /// The ordinal.
        ordinal: u32,
    },
    /// Another Pod is bound to the ordinal; the one that was told holds the address by itself.
    OrdinalBound {
        /// The Pod bound.
        pod: PodRef,
    },
    /// Another owner of the same name holds addresses.
    OwnerHolds {
        /// That owner.
        by: Holder,
        /// The lowest address that it holds.
        address: IpAddr,
    },
    /// The Egress itself was refused, with this code.
    Refused {
        /// The rejection's code.
        code: Name,
    },
}

impl ConflictReason {
    /// Why an address that an Egress named is not to be had.
    pub(crate) fn of(waiting: &Waiting) -> Option<ConflictReason> {
        match waiting {
            Waiting::UnknownPool { .. } => Some(ConflictReason::UnknownPool),
            Waiting::AddressOutside { .. } => Some(ConflictReason::Outside),
            Waiting::AddressHeld { by, .. } => Some(ConflictReason::Held { by: by.clone() }),
            _ => None,
        }
    }

    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            ConflictReason::Held { .. } => "Held",
            ConflictReason::UnknownPool => "UnknownPool",
            ConflictReason::Outside => "Outside",
            ConflictReason::OrdinalHolds { .. } => "OrdinalHolds",
            ConflictReason::PodBound { .. } => "PodBound",
            ConflictReason::OrdinalBound { .. } => "OrdinalBound",
            ConflictReason::OwnerHolds { .. } => "OwnerHolds",
            ConflictReason::Refused { .. } => "Refused",
        }
    }
}

impl fmt::Display for ConflictReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConflictReason::Held { by } => write!(f, "{by} holds it"),
            ConflictReason::UnknownPool => f.write_str("there is no such pool"),
            ConflictReason::Outside => f.write_str("it is not an address that the pool gives"),
            ConflictReason::OrdinalHolds { address } => write!(f, "the ordinal has {address}"),
            ConflictReason::PodBound { id, ordinal } => {
                write!(f, "the Pod is bound to ordinal {ordinal} of StatefulSet {id}")
            }
            ConflictReason::OrdinalBound { pod } => {
                write!(f, "Pod {}/{} is bound to the ordinal", pod.namespace, pod.name)
            }
            ConflictReason::OwnerHolds { by, address } => write!(f, "another {by} holds {address}"),
            ConflictReason::Refused { code } => write!(f, "the Egress was refused: {code}"),
        }
    }
}
