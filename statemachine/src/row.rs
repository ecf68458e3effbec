//! The ledger's rows: all that is stored, and the keys that it is stored under.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::adopt::{Conflict, Mode};
use crate::command::{ObjectId, PutPool, ReserveSpec, Retention, Source, StatefulSetId};
use crate::outcome::Waiting;
use crate::{Millis, Name, Range, Revision};

/// The two kinds of pool. Their names are separate, their addresses are not: no two pools overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PoolKind {
    /// Addresses for Pods.
    IpPool,
    /// Addresses for Egress.
    ExternalIpPool,
}

/// A pool's identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PoolId {
    /// Which kind.
    pub kind: PoolKind,
    /// The object's name.
    pub name: Name,
}

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            PoolKind::IpPool => "IPPool",
            PoolKind::ExternalIpPool => "ExternalIPPool",
        };
        write!(f, "{kind} {}", self.name)
    }
}

/// How Egress addresses are placed on Nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Policy {
    /// A placement stays while it is possible; a homeless address goes where the ring says.
    #[default]
    Sticky,
    /// As `Sticky`, but a homeless address goes to the eligible Node with the fewest.
    Spread,
    /// Everything recomputed from nothing, as Antrea does.
    ConsistentHash,
}

/// Names one row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Key {
    /// The one [`Clock`].
    Clock,
    /// The one [`Settings`].
    Settings,
    /// A [`PoolRow`].
    Pool(PoolId),
    /// A [`RetiredRow`]: what a deleted pool of this name still has held.
    Retired(PoolId),
    /// A [`GrantRow`].
    Grant(IpAddr),
    /// A [`CoolingRow`].
    Cooling(IpAddr),
    /// A [`ReservationRow`].
    Reservation(StatefulSetId),
    /// An [`OrdinalRow`].
    Ordinal(StatefulSetId, u32),
    /// An [`EgressRow`].
    Egress(Name),
    /// A [`PlacementRow`], by Egress address.
    Placement(IpAddr),
    /// A [`NodeRow`].
    Node(Name),
    /// The one [`AdoptionRow`], if an adoption was ever begun.
    Adoption,
}

/// One row. The variant always agrees with that of its [`Key`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Row {
    /// See [`Key::Clock`].
    Clock(Clock),
    /// See [`Key::Settings`].
    Settings(Settings),
    /// See [`Key::Pool`].
    Pool(PoolRow),
    /// See [`Key::Retired`].
    Retired(RetiredRow),
    /// See [`Key::Grant`].
    Grant(GrantRow),
    /// See [`Key::Cooling`].
    Cooling(CoolingRow),
    /// See [`Key::Reservation`].
    Reservation(ReservationRow),
    /// See [`Key::Ordinal`].
    Ordinal(OrdinalRow),
    /// See [`Key::Egress`].
    Egress(EgressRow),
    /// See [`Key::Placement`].
    Placement(PlacementRow),
    /// See [`Key::Node`].
    Node(NodeRow),
    /// See [`Key::Adoption`].
    Adoption(AdoptionRow),
}

/// When a row last changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// The ledger revision of the change.
    pub revision: Revision,
    /// The log index of the entry that made it.
    pub index: u64,
    /// That entry's time.
    pub at: Millis,
}

/// The ledger's own position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// The revision of the latest change.
    pub revision: Revision,
    /// The latest `proposed_at`.
    pub time: Millis,
    /// The revision of the latest change to any placement.
    pub placements: Revision,
}

/// What an operator can set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// How Egress addresses are placed.
    pub policy: Policy,
    /// Egress addresses a Node may carry if it does not say; 0..=255.
    pub default_capacity: u32,
    /// Bound on rows of history.
    pub history_rows: u64,
    /// Bound on the age of history, milliseconds.
    pub history_age: Millis,
}

impl Default for Settings {
    /// `Sticky`, 255 addresses a Node (what a Node can realise), 1,000,000 rows, 90 days.
    fn default() -> Settings {
        Settings {
            policy: Policy::Sticky,
            default_capacity: 255,
            history_rows: 1_000_000,
            history_age: 90 * 24 * 60 * 60 * 1000,
        }
    }
}

/// A declared pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolRow {
    /// Who declared it.
    pub source: Source,
    /// What is wanted, as last put.
    pub wanted: PutPool,
    /// The usable ranges in force, in order; empty until first accepted.
    pub ranges: Vec<Range>,
    /// Why what is wanted is not in force, since which revision.
    pub waiting: Option<(Revision, Waiting)>,
    /// When the declaration, or what is in force of it, last changed.
    pub stamp: Stamp,
    /// When an address in it was last granted, bound or freed, or as `stamp`.
    pub used: Stamp,
}

/// What is left of deleted pools of one name: no new grants, gone with the last address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetiredRow {
    /// Still counted for overlap.
    pub ranges: Vec<Range>,
    /// How long a freed address of it cools. Milliseconds.
    pub cool_down: Millis,
    /// When it was retired, or last shrank.
    pub stamp: Stamp,
}

/// An address held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantRow {
    /// The pool that it was granted from; there may be only a [`RetiredRow`] of it left.
    pub pool: PoolId,
    /// Who holds it.
    pub holder: Holder,
    /// When it was granted. The revision is the grant's id.
    pub stamp: Stamp,
}

/// Who holds an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Holder {
    /// An ordinal of a reservation.
    Ordinal {
        /// The reservation.
        id: StatefulSetId,
        /// The ordinal.
        ordinal: u32,
        /// Superseded by an address of another pool, and kept while a Pod may use it.
        former: bool,
    },
    /// A named owner.
    Named {
        /// Its name.
        name: Name,
        /// Its UID; may be empty.
        uid: Name,
        /// Who asked.
        source: Source,
    },
    /// A Pod outside any reservation.
    Pod {
        /// The Pod.
        pod: PodRef,
        /// Who asked.
        source: Source,
    },
    /// An Egress.
    Egress {
        /// Its name.
        name: Name,
    },
    /// Another allocator, as observed.
    Observed {
        /// The owner, as that allocator writes it.
        owner: Name,
    },
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Ordinal { id, ordinal, .. } => write!(f, "StatefulSet {id} ordinal {ordinal}"),
            Holder::Named { name, .. } => write!(f, "{name}"),
            Holder::Pod { pod, .. } => write!(f, "Pod {}/{}", pod.namespace, pod.name),
            Holder::Egress { name } => write!(f, "Egress {name}"),
            Holder::Observed { owner } => write!(f, "{owner} (observed)"),
        }
    }
}

/// A freed address that other owners get only when nothing else is left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoolingRow {
    /// Until this time.
    pub until: Millis,
    /// Who held it.
    pub former: Holder,
}

/// A StatefulSet's reservation. Its addresses are grants, its Pods are [`OrdinalRow`]s.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationRow {
    /// Who declared it, or first bound a Pod to it.
    pub source: Source,
    /// The StatefulSet's UID; empty while only its Pods have been seen.
    pub uid: Name,
    /// What is wanted; `None` before the StatefulSet was seen and after it is gone.
    pub spec: Option<ReserveSpec>,
    /// What `when_deleted` said last.
    pub when_deleted: Retention,
    /// Everything wanted that is not granted, and why; since which revision. Never empty.
    pub waiting: Option<(Revision, Vec<Waiting>)>,
    /// When any of the above last changed.
    pub stamp: Stamp,
}

/// An ordinal that has, or had, a Pod. One that never had any has no row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrdinalRow {
    /// The Pod now bound.
    pub pod: Option<BoundPod>,
    /// Neither wanted nor bound, and kept until this time.
    pub retained_until: Option<Millis>,
    /// When any of the above last changed.
    pub stamp: Stamp,
    /// Left by a former StatefulSet of this name, and not wanted since: what that one's `when_deleted` said, which is
    /// its rule instead of what the present one says. Never `Retain`.
    pub left: Option<Retention>,
}

/// A Pod bound to an ordinal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundPod {
    /// The Pod.
    pub pod: PodRef,
    /// The pools that its own annotation named when it was bound.
    pub pools: Vec<Name>,
    /// Who reported it.
    pub source: Source,
}

/// A Pod, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodRef {
    /// Namespace.
    pub namespace: Name,
    /// Name.
    pub name: Name,
    /// UID.
    pub uid: Name,
    /// The sandbox that asked, where known.
    pub container_id: Option<Name>,
    /// The interface inside it, where known.
    pub interface: Option<Name>,
}

/// An Egress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EgressRow {
    /// Who declared it.
    pub source: Source,
    /// The object's UID.
    pub uid: Name,
    /// Its place in every order of Egress addresses.
    pub created: CreationKey,
    /// Written with the plural fields.
    pub plural: bool,
    /// Its addresses, in the order of the spec.
    pub items: Vec<EgressItemRow>,
    /// The rest of the declaration, as last put; not read.
    pub rest: Name,
    /// When the declaration, an address or a placement of it last changed.
    pub stamp: Stamp,
}

/// One address of an Egress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EgressItemRow {
    /// The ExternalIPPool; `None` for a static Egress.
    pub pool: Option<Name>,
    /// The address that the spec asks for, if it is not one that the ledger chose.
    pub asked: Option<IpAddr>,
    /// The address that the ledger chose.
    pub chosen: Option<IpAddr>,
    /// Why no address is granted, since which revision.
    pub waiting: Option<(Revision, Waiting)>,
}

impl EgressItemRow {
    /// The address held for this item: asked or chosen, granted, from a pool.
    pub fn granted(&self) -> Option<IpAddr> {
        if self.pool.is_none() || self.waiting.is_some() {
            return None;
        }
        self.asked.or(self.chosen)
    }
}

/// (seconds, revision, name): `(creationTimestamp, 0, name)`, or without a timestamp (second of the
/// first entry that put it, its revision, name).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CreationKey {
    /// Seconds since the Unix epoch.
    pub seconds: i64,
    /// 0 where the object has a timestamp.
    pub revision: Revision,
    /// The Egress.
    pub name: Name,
}

/// An Egress address on a Node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementRow {
    /// The Egress.
    pub egress: Name,
    /// The Node.
    pub node: Name,
    /// Kept from `Rebalance`.
    pub pinned: bool,
    /// When it was decided. The revision is the placement's epoch.
    pub stamp: Stamp,
}

/// A Node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRow {
    /// Who declared it.
    pub source: Source,
    /// The object's UID.
    pub uid: Name,
    /// Labels.
    pub labels: BTreeMap<Name, Name>,
    /// Whether it is live.
    pub ready: bool,
    /// Capacity of its own, clamped to 0..=255.
    pub capacity: Option<u32>,
    /// Kept empty of Egress addresses by an operator.
    pub drained: bool,
    /// When any of the above last changed.
    pub stamp: Stamp,
}

/// How the adoption of what an API already said went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptionRow {
    /// Whose rules the group lives by.
    pub mode: Mode,
    /// All is told.
    pub complete: bool,
    /// The first [`AdoptionRow::CONFLICTS_MAX`] conflicts.
    pub conflicts: Vec<Conflict>,
    /// How many there were.
    pub conflicts_total: u64,
    /// Fingerprints of those beyond the first, until all is told: none counts twice.
    pub others: BTreeSet<u64>,
    /// When any of the above last changed.
    pub stamp: Stamp,
}

impl AdoptionRow {
    /// Most conflicts that are kept whole.
    pub const CONFLICTS_MAX: usize = 256;
}

impl Row {
    /// The declared object that this row is the declaration of, if it is one, with its UID and source.
    pub fn declaration<'a>(&'a self, key: &Key) -> Option<(ObjectId, &'a Name, &'a Source)> {
        match (key, self) {
            (Key::Pool(id), Row::Pool(row)) => Some((ObjectId::Pool(id.clone()), &row.wanted.uid, &row.source)),
            (Key::Reservation(id), Row::Reservation(row)) if row.spec.is_some() => {
                Some((ObjectId::Reservation(id.clone()), &row.uid, &row.source))
            }
            (Key::Egress(name), Row::Egress(row)) => Some((ObjectId::Egress(name.clone()), &row.uid, &row.source)),
            (Key::Node(name), Row::Node(row)) => Some((ObjectId::Node(name.clone()), &row.uid, &row.source)),
            (Key::Ordinal(..), Row::Ordinal(OrdinalRow { pod: Some(bound), .. })) => Some((
                ObjectId::Pod(bound.pod.namespace.clone(), bound.pod.name.clone()),
                &bound.pod.uid,
                &bound.source,
            )),
            _ => None,
        }
    }
}
