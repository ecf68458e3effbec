//! What the ledger answers: values with names and numbers, never text to parse.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::adopt::{Conflict, Mode};
use crate::command::{Source, StatefulSetId};
use crate::row::{Holder, PoolId};
use crate::{Family, Name, Range, Revision};

/// What one command came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The ledger's revision after the command.
    pub revision: Revision,
    /// Whether anything changed.
    pub changed: bool,
    /// What the object is recorded as waiting for; the ledger retries it by itself.
    pub waiting: Vec<Waiting>,
    /// Addresses that this command granted to the object it names; for a `Grant`, all that the owner holds.
    pub granted: Vec<Granted>,
    /// Egress addresses that `Drain`, `Pin`, `Rebalance` moved.
    pub moves: Vec<Move>,
    /// What else is worth saying.
    pub notes: Vec<Note>,
}

/// A run of addresses granted together: `first`, `first + 1`, ...
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// From this pool.
    pub pool: PoolId,
    /// The lowest address.
    pub first: IpAddr,
    /// How many.
    pub count: u32,
    /// The ordinal that the first one belongs to; the others follow. `None` outside a reservation.
    pub ordinal: Option<u32>,
    /// The grant's id: the revision of the first.
    pub revision: Revision,
}

/// One Egress address moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The Egress.
    pub egress: Name,
    /// Which of its addresses.
    pub address: IpAddr,
    /// Where it was.
    pub from: Option<Name>,
    /// Where it is.
    pub to: Option<Name>,
}

/// Something worth saying that is neither a refusal nor a wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Note {
    /// A release named an owner, UID or revision that holds nothing (any more): nothing was done.
    NotHeld {
        /// The UID that holds it now, if one does.
        held_by_uid: Option<Name>,
        /// The revision of the grant that stands, if one does.
        revision: Option<Revision>,
    },
    /// The address had been freed within its pool's cool-down.
    WasCooling {
        /// Who held it before.
        former: Holder,
    },
    /// The address lay in the headroom of another reservation.
    WasHeadroom {
        /// Whose.
        of: StatefulSetId,
    },
    /// The capacity asked for was clamped to 0..=255.
    CapacityClamped {
        /// What was asked for.
        asked: i64,
        /// What is used.
        used: u32,
    },
    /// A `Sweep` left this many objects alone: changed since, of another source or UID, or unknown.
    LeftAlone {
        /// How many.
        objects: u32,
    },
    /// The pool still has this many addresses held, and is retired until the last is freed.
    Retired {
        /// How many.
        held: u64,
    },
    /// Something adopted contradicts what is held already.
    Conflict(Conflict),
}

/// Why something declared is recorded but not in force. The ledger retries it by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Waiting {
    /// A pool that is named is not there.
    UnknownPool {
        /// Those missing, in the order named.
        pools: Vec<PoolId>,
    },
    /// No pool of this family has enough free addresses.
    Exhausted {
        /// The family.
        family: Family,
        /// Each pool of that family that was tried, in order.
        tried: Vec<PoolRoom>,
    },
    /// A block is required and no pool of this family has a free run that is long enough.
    NoBlock {
        /// The family.
        family: Family,
        /// Each pool of that family that was tried, in order.
        tried: Vec<PoolRoom>,
    },
    /// An address asked for by name is held by someone else.
    AddressHeld {
        /// The address.
        address: IpAddr,
        /// Who holds it.
        by: Holder,
    },
    /// An address asked for by name is not one that the named pools give.
    AddressOutside {
        /// The address.
        address: IpAddr,
        /// The pools named, of that family; or the one pool of an Egress's item.
        pools: Vec<PoolId>,
    },
    /// The list of fixed addresses is shorter than the replicas; the other ordinals are granted.
    FixedAddressMissing {
        /// The family.
        family: Family,
        /// The first ordinal without one.
        first_ordinal: u32,
        /// How many ordinals have none.
        count: u32,
    },
    /// A range of the pool lies in another pool too.
    PoolOverlap {
        /// What is common.
        range: Range,
        /// The other pool.
        with: PoolId,
    },
    /// A range that the new spec no longer has holds addresses.
    RangeStillHeld {
        /// The lowest address held there.
        address: IpAddr,
        /// Who holds it.
        by: Holder,
        /// How many are held there.
        held: u64,
    },
    /// Addresses are chosen when all that the API says is adopted.
    NotAdopted,
}

/// How much room a request found in a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolRoom {
    /// The pool.
    pub pool: PoolId,
    /// Addresses needed from it.
    pub needed: u128,
    /// Addresses free in it, cooling and headroom included.
    pub free: u128,
    /// Its longest run of free addresses inside one range.
    pub largest_free_run: u128,
}

/// Why a command was refused. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Rejection {
    /// The command makes no sense, whatever the state.
    #[error("{field}: {value:?} is not allowed: {allowed}")]
    Malformed {
        /// Which field, by its name in the API.
        field: Name,
        /// What it held.
        value: Name,
        /// What would be allowed.
        allowed: Name,
    },
    /// A field of an IPPool that never changes.
    #[error("{pool}: {field} is immutable: it is {held}, not {asked}")]
    Immutable {
        /// The pool.
        pool: PoolId,
        /// Which field.
        field: Name,
        /// As recorded.
        held: Name,
        /// As asked for.
        asked: Name,
    },
    /// The object was declared by another source.
    #[error("{kind} {name} belongs to {source_of}")]
    OtherSource {
        /// Its kind.
        kind: Name,
        /// Its name.
        name: Name,
        /// Whose it is.
        source_of: Source,
    },
    /// The command was meant for another term.
    #[error("meant for term {meant}, applied in term {term}")]
    StaleTerm {
        /// The term named.
        meant: u64,
        /// The entry's term.
        term: u64,
    },
    /// Something named does not exist.
    #[error("no {kind} named {name}")]
    Unknown {
        /// Its kind.
        kind: Name,
        /// Its name.
        name: Name,
    },
    /// No pool of this family has a free address.
    #[error("{pool} is exhausted: {needed} needed, {free} free, largest free run {largest_free_run}")]
    PoolExhausted {
        /// The last pool tried.
        pool: PoolId,
        /// Addresses needed.
        needed: u128,
        /// Addresses free.
        free: u128,
        /// The longest free run.
        largest_free_run: u128,
    },
    /// An address asked for by name is held by someone else.
    #[error("{address} is held by {by}")]
    AddressHeld {
        /// The address.
        address: IpAddr,
        /// Who holds it.
        by: Holder,
    },
    /// An address asked for by name is not one that the named pools give.
    #[error("{address} is not an address that {} gives", pool_names(.pools))]
    AddressOutside {
        /// The address.
        address: IpAddr,
        /// The pools named.
        pools: Vec<PoolId>,
    },
    /// The owner already holds another address than those asked for, or one of another pool.
    #[error("{owner} already holds {address} of {pool}: release it first")]
    OwnerHolds {
        /// The owner.
        owner: Holder,
        /// What it holds.
        address: IpAddr,
        /// From this pool.
        pool: PoolId,
    },
    /// The Node cannot carry the address.
    #[error("Node {node} cannot carry {address}: {why}")]
    Ineligible {
        /// The Node.
        node: Name,
        /// The address.
        address: IpAddr,
        /// Which test it failed.
        why: Ineligible,
    },
    /// Draining the Node would leave addresses without one.
    #[error("draining Node {node} would leave {left} of its {carried} addresses without a Node")]
    NoRoom {
        /// The Node.
        node: Name,
        /// Addresses that no other Node could take.
        left: u32,
        /// Addresses that it carries.
        carried: u32,
    },
    /// A placement changed after the revision that the plan was made on.
    #[error("placements changed at revision {changed}, after {at}")]
    PlacementsChanged {
        /// The revision named.
        at: Revision,
        /// The latest change of a placement.
        changed: Revision,
    },
    /// The policy in force does not allow it.
    #[error("policy {policy:?} does not allow {what}")]
    Policy {
        /// The policy.
        policy: crate::row::Policy,
        /// What was asked.
        what: Name,
    },
    /// What the API says is not adopted whole yet: until then no address is chosen.
    #[error("what the API already says is not adopted yet: no address is chosen before the end of that")]
    NotAdopted,
    /// No adoption is in progress.
    #[error("no adoption is in progress")]
    NotAdopting,
    /// The group began in another mode, and keeps it.
    #[error("the group began in mode {recorded} and keeps it: mode {asked} is another group")]
    OtherMode {
        /// The mode that it began with.
        recorded: Mode,
        /// The mode asked for.
        asked: Mode,
    },
    /// The group's mode does not allow it.
    #[error("mode {mode} does not allow {what}: {why}")]
    Mode {
        /// The mode.
        mode: Mode,
        /// What was asked.
        what: Name,
        /// Why not.
        why: Name,
    },
}

fn pool_names(pools: &[PoolId]) -> String {
    let names: Vec<String> = pools.iter().map(PoolId::to_string).collect();
    if names.is_empty() { "no pool named".to_owned() } else { names.join(", ") }
}

impl Rejection {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Rejection::Malformed { .. } => "Malformed",
            Rejection::Immutable { .. } => "Immutable",
            Rejection::OtherSource { .. } => "OtherSource",
            Rejection::StaleTerm { .. } => "StaleTerm",
            Rejection::Unknown { .. } => "Unknown",
            Rejection::PoolExhausted { .. } => "PoolExhausted",
            Rejection::AddressHeld { .. } => "AddressHeld",
            Rejection::AddressOutside { .. } => "AddressOutside",
            Rejection::OwnerHolds { .. } => "OwnerHolds",
            Rejection::Ineligible { .. } => "Ineligible",
            Rejection::NoRoom { .. } => "NoRoom",
            Rejection::PlacementsChanged { .. } => "PlacementsChanged",
            Rejection::Policy { .. } => "Policy",
            Rejection::NotAdopted => "NotAdopted",
            Rejection::NotAdopting => "NotAdopting",
            Rejection::OtherMode { .. } => "OtherMode",
            Rejection::Mode { .. } => "Mode",
        }
    }
}

impl Waiting {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Waiting::UnknownPool { .. } => "UnknownPool",
            Waiting::Exhausted { .. } => "Exhausted",
            Waiting::NoBlock { .. } => "NoBlock",
            Waiting::AddressHeld { .. } => "AddressHeld",
            Waiting::AddressOutside { .. } => "AddressOutside",
            Waiting::FixedAddressMissing { .. } => "FixedAddressMissing",
            Waiting::PoolOverlap { .. } => "PoolOverlap",
            Waiting::RangeStillHeld { .. } => "RangeStillHeld",
            Waiting::NotAdopted => "NotAdopted",
        }
    }
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rooms = |f: &mut std::fmt::Formatter<'_>, tried: &[PoolRoom]| {
            for room in tried {
                write!(
                    f,
                    "; {}: {} needed, {} free, largest free run {}",
                    room.pool, room.needed, room.free, room.largest_free_run
                )?;
            }
            Ok(())
        };
        match self {
            Waiting::UnknownPool { pools } => write!(f, "there is no {}", pool_names(pools)),
            Waiting::Exhausted { family, tried } => {
                write!(f, "no pool has enough {family} addresses")?;
                rooms(f, tried)
            }
            Waiting::NoBlock { family, tried } => {
                write!(f, "no pool has a long enough block of {family} addresses")?;
                rooms(f, tried)
            }
            Waiting::AddressHeld { address, by } => write!(f, "{address} is held by {by}"),
            Waiting::AddressOutside { address, pools } => {
                write!(f, "{address} is not an address that {} gives", pool_names(pools))
            }
            Waiting::FixedAddressMissing { family, first_ordinal, count } => {
                write!(f, "no fixed {family} address for {count} ordinals from {first_ordinal} on")
            }
            Waiting::PoolOverlap { range, with } => write!(f, "{range} lies in {with} too"),
            Waiting::RangeStillHeld { address, by, held } => {
                write!(f, "{held} addresses outside the new ranges are held, the lowest is {address}, by {by}")
            }
            Waiting::NotAdopted => f.write_str("no address is chosen before all that the API says is adopted"),
        }
    }
}

/// Which test a Node fails, in the order in which they are made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Ineligible {
    /// It is not live.
    NotReady,
    /// It does not run Linux.
    NotLinux,
    /// The pool's selector does not match it.
    SelectorMismatch,
    /// An operator drained it.
    Drained,
    /// It carries as many addresses as it may.
    AtCapacity {
        /// Carried now.
        carried: u32,
        /// May carry.
        capacity: u32,
    },
}

impl std::fmt::Display for Ineligible {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ineligible::NotReady => f.write_str("NotReady"),
            Ineligible::NotLinux => f.write_str("NotLinux"),
            Ineligible::SelectorMismatch => f.write_str("SelectorMismatch"),
            Ineligible::Drained => f.write_str("Drained"),
            Ineligible::AtCapacity { carried, capacity } => {
                write!(f, "AtCapacity {carried}/{capacity}")
            }
        }
    }
}
