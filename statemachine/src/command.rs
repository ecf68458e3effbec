//! What can be asked of the ledger. Every type here is written to the log: enums only ever grow at
//! their end, and the golden bytes in `tests/` say when a change would not read an old log.
//!
//! Commands are declarative: each names an identity and the state wanted, so that repeating one whose
//! reply was lost changes nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::adopt::Adopt;
use crate::row::{Policy, PoolId, PoolKind};
use crate::{Millis, Name, Revision};

/// One entry of the log: what a replica applies at one index, whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The log index; strictly ascending, with gaps where the log held something else.
    pub index: u64,
    /// The term in which it was proposed.
    pub term: u64,
    /// The proposing leader's time. Never before that of an earlier entry.
    pub proposed_at: Millis,
    /// Applied in order; each stands alone.
    pub commands: Vec<Command>,
}

/// An action, and who asks for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Where the object comes from. Another source's object is refused, not overwritten.
    pub source: Source,
    /// If set, refused as `StaleTerm` unless the entry has this term: the bridge's batches carry the
    /// term in which their replica won, so that a deposed leader's late batch changes nothing.
    pub only_in_term: Option<u64>,
    /// What is wanted.
    pub action: Action,
}

/// Where an object was declared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Source {
    /// The Kubernetes API.
    Kubernetes,
    /// A set of manifests applied under this name.
    Manifests(Name),
    /// A client of the gRPC API.
    Api,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Kubernetes => f.write_str("kubernetes"),
            Source::Manifests(set) => write!(f, "manifests:{set}"),
            Source::Api => f.write_str("api"),
        }
    }
}

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Declares a pool.
    PutPool(PutPool),
    /// Takes a pool away; one with addresses held is retired.
    DeletePool(DeletePool),
    /// Declares what a StatefulSet needs.
    Reserve(Reserve),
    /// The StatefulSet is gone.
    ReleaseReservation(ReleaseReservation),
    /// Gives an owner an address, or binds a StatefulSet's Pod to its ordinal.
    Grant(Grant),
    /// Ends a grant or a binding.
    ReleaseGrant(ReleaseGrant),
    /// Declares an Egress.
    PutEgress(PutEgress),
    /// The Egress is gone.
    DeleteEgress(DeleteEgress),
    /// Declares a Node.
    PutNode(PutNode),
    /// The Node is gone.
    DeleteNode(DeleteNode),
    /// Empties a Node of Egress addresses and keeps it empty.
    Drain(Drain),
    /// Ends a drain.
    Undrain(Undrain),
    /// Moves one Egress address to a Node, once, and keeps it from `Rebalance`.
    Pin(Pin),
    /// Ends a pin; moves nothing.
    Unpin(Unpin),
    /// Evens out the Nodes' load by a bounded number of moves.
    Rebalance(Rebalance),
    /// Changes settings; those not named stay.
    PutSettings(PutSettings),
    /// Deletes rows of one source that a complete list of that source no longer has.
    Sweep(Sweep),
    /// What an observer saw in a pool that others allocate from too.
    Observe(Observe),
    /// Makes what an API already says the ledger's state: before anything else on a first start.
    Adopt(Adopt),
}

/// A StatefulSet's identity; also that of its reservation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StatefulSetId {
    /// Namespace.
    pub namespace: Name,
    /// Name.
    pub name: Name,
}

impl fmt::Display for StatefulSetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// One `ipRanges` item, as written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RangeSpec {
    /// `{cidr}`. Which of its addresses are never given: `docs/rules.md`.
    Cidr(Name),
    /// `{start, end}`, both given.
    StartEnd(Name, Name),
}

/// `subnetInfo`, as written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subnet {
    /// The gateway's address; never given to anyone.
    pub gateway: Name,
    /// 1..=31 for IPv4, 1..=127 for IPv6.
    pub prefix_length: u32,
    /// 802.1Q tag, 0..=4094; kept for those who configure interfaces.
    pub vlan: Option<u32>,
}

/// See [`Action::PutPool`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutPool {
    /// Identity.
    pub pool: PoolId,
    /// The object's UID. Another UID under the same name is a delete and a create.
    pub uid: Name,
    /// In the order in which they are given from. At least one.
    pub ranges: Vec<RangeSpec>,
    /// Required for an IPPool; `gateway` and `prefix_length` of an IPPool never change.
    pub subnet: Option<Subnet>,
    /// Which Nodes may carry addresses of this pool. Only of an ExternalIPPool.
    pub node_selector: Selector,
    /// How long a freed address is kept from other owners. Milliseconds, default 0.
    pub cool_down: Millis,
}

/// A Kubernetes label selector; empty matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Selector {
    /// Labels that must be there with these values.
    pub match_labels: BTreeMap<Name, Name>,
    /// Requirements that must all hold.
    pub match_expressions: Vec<Requirement>,
}

/// One requirement of a [`Selector`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Requirement {
    /// The label.
    pub key: Name,
    /// How its value is tested.
    pub operator: Operator,
    /// Values for `In` and `NotIn`; none for the others.
    pub values: Vec<Name>,
}

/// Kubernetes' four set-based operators. `NotIn` and `DoesNotExist` hold for a missing label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Operator {
    /// The value is one of these.
    In,
    /// The label is missing or its value none of these.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is missing.
    DoesNotExist,
}

impl Selector {
    /// Whether these labels satisfy every requirement.
    pub fn matches(&self, labels: &BTreeMap<Name, Name>) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|requirement| {
                let value = labels.get(&requirement.key);
                let listed = value.is_some_and(|v| requirement.values.contains(v));
                match requirement.operator {
                    Operator::In => listed,
                    Operator::NotIn => !listed,
                    Operator::Exists => value.is_some(),
                    Operator::DoesNotExist => value.is_none(),
                }
            })
    }
}

/// See [`Action::DeletePool`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletePool {
    /// Identity.
    pub pool: PoolId,
    /// Deletes only the object with this UID.
    pub uid: Name,
}

/// What is kept when it is no longer wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Retention {
    /// Kept until the StatefulSet is deleted. Not for `when_deleted`.
    Retain,
    /// Freed when neither wanted nor used by a Pod.
    Release,
    /// Freed this many milliseconds after it was last wanted or used.
    After(Millis),
}

/// Whether a request may be met by scattered addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Contiguity {
    /// One block, or wait.
    Required,
    /// One block if there is one, else the lowest free addresses.
    Preferred,
}

/// See [`Action::Reserve`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserve {
    /// Identity.
    pub id: StatefulSetId,
    /// The StatefulSet's UID; another one takes the reservation over, addresses and Pods included, and what it does not
    /// want goes as the former one's `when_deleted` says.
    pub uid: Name,
    /// What is wanted.
    pub spec: ReserveSpec,
}

/// What a StatefulSet wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReserveSpec {
    /// The first wanted ordinal.
    pub start: u32,
    /// How many ordinals are wanted. `start + replicas` is at most 2^31.
    pub replicas: u32,
    /// IPPools by name, in order of preference; one or more of each family. Empty: nothing more is wanted.
    pub pools: Vec<Name>,
    /// Fixed addresses; the i-th of a family belongs to ordinal `start + i`. No address twice.
    pub fixed: Vec<IpAddr>,
    /// Addresses right behind the block that others get only when nothing else is left.
    pub headroom: u32,
    /// Whether scattered addresses will do.
    pub contiguity: Contiguity,
    /// For ordinals no longer wanted.
    pub when_scaled: Retention,
    /// For all ordinals once the StatefulSet is gone. `Release` or `After`.
    pub when_deleted: Retention,
    /// The StatefulSet's current and update revisions agree: no Pod of an old template is due.
    pub settled: bool,
}

/// See [`Action::ReleaseReservation`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseReservation {
    /// Identity.
    pub id: StatefulSetId,
    /// Releases only that of the StatefulSet with this UID.
    pub uid: Name,
}

/// Who is to hold an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Owner {
    /// Anything with a name: a VM, a person, an appliance.
    Named {
        /// Unique among named owners.
        name: Name,
        /// Tells this one from a former one of the same name; may be empty.
        uid: Name,
    },
    /// A Pod. Known by its UID once seen.
    Pod(PodOwner),
}

/// A Pod that holds, or is to hold, an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodOwner {
    /// Namespace.
    pub namespace: Name,
    /// Name.
    pub name: Name,
    /// UID; never empty.
    pub uid: Name,
    /// The sandbox that asked, where known.
    pub container_id: Option<Name>,
    /// The interface inside it, where known.
    pub interface: Option<Name>,
    /// Whose Pod it is and which ordinal, if a StatefulSet's.
    pub ordinal: Option<(StatefulSetId, u32)>,
}

/// See [`Action::Grant`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Who is to hold it.
    pub owner: Owner,
    /// Which kind the pools are of.
    pub kind: PoolKind,
    /// Pools by name, in order of preference; one address of each family named is granted. For an
    /// ordinal's Pod: what its own annotation names, which says the block that it uses.
    pub pools: Vec<Name>,
    /// Addresses asked for by name, at most one of a family; empty: the lowest free ones.
    pub addresses: Vec<IpAddr>,
}

/// Names an owner in a release.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum OwnerRef {
    /// A named owner.
    Named(Name),
    /// A Pod, by namespace and name.
    Pod(Name, Name),
}

/// See [`Action::ReleaseGrant`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseGrant {
    /// Who holds it.
    pub owner: OwnerRef,
    /// The owner's UID; another one's grant is left alone.
    pub uid: Name,
    /// If set, only the grant made at this revision is released.
    pub revision: Option<Revision>,
}

/// One item of an Egress: an address and the pool that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EgressItem {
    /// The ExternalIPPool, by name. `None` in every item of a static Egress.
    pub pool: Option<Name>,
    /// The address named in the spec, if one is.
    pub address: Option<IpAddr>,
}

/// See [`Action::PutEgress`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutEgress {
    /// Identity.
    pub name: Name,
    /// The object's UID. Another UID under the same name is a delete and a create.
    pub uid: Name,
    /// `creationTimestamp` in seconds since the Unix epoch, if the object has one.
    pub created: Option<i64>,
    /// Written with the plural fields; the mirror writes the form that it read.
    pub plural: bool,
    /// At least one; either all have a pool, each another one, or none has and each has an address.
    pub items: Vec<EgressItem>,
    /// The rest of the declaration, which the ledger keeps and does not read: canonical text, at most
    /// [`PutEgress::REST_MAX`] bytes. Another text is another declaration.
    pub rest: Name,
}

impl PutEgress {
    /// The longest `rest`, in bytes.
    pub const REST_MAX: usize = 16 * 1024;
}

/// See [`Action::DeleteEgress`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteEgress {
    /// Identity.
    pub name: Name,
    /// Deletes only the object with this UID.
    pub uid: Name,
}

/// See [`Action::PutNode`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutNode {
    /// Identity.
    pub name: Name,
    /// The object's UID. Another UID under the same name is another Node, but a drain stays.
    pub uid: Name,
    /// Labels. `kubernetes.io/os` other than `linux` excludes the Node.
    pub labels: BTreeMap<Name, Name>,
    /// Whether it is live.
    pub ready: bool,
    /// `node.antrea.io/max-egress-ips`, if an integer; clamped to 0..=255. Else the default of the settings.
    pub capacity: Option<i64>,
}

/// See [`Action::DeleteNode`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteNode {
    /// Identity.
    pub name: Name,
    /// Deletes only the object with this UID.
    pub uid: Name,
}

/// See [`Action::Drain`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    /// The Node.
    pub node: Name,
    /// Drain even if some addresses would be left without a Node.
    pub force: bool,
}

/// See [`Action::Undrain`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undrain {
    /// The Node.
    pub node: Name,
}

/// See [`Action::Pin`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The Egress.
    pub egress: Name,
    /// Which of its addresses; `None` if it has just one.
    pub address: Option<IpAddr>,
    /// Where to.
    pub node: Name,
}

/// See [`Action::Unpin`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpin {
    /// The Egress.
    pub egress: Name,
    /// Which of its addresses; `None` if it has just one.
    pub address: Option<IpAddr>,
}

/// See [`Action::Rebalance`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rebalance {
    /// At most this many moves; 1 or more.
    pub max_moves: u32,
    /// If set, refused when a placement changed after this revision: the plan was made on it.
    pub at: Option<Revision>,
}

/// See [`Action::PutSettings`]. `None` leaves a setting as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutSettings {
    /// How Egress addresses are placed.
    pub policy: Option<Policy>,
    /// Egress addresses a Node may carry if it does not say; 0..=255.
    pub default_capacity: Option<u32>,
    /// Bound on rows of history; 1,000..=100,000,000.
    pub history_rows: Option<u64>,
    /// Bound on the age of history, milliseconds; at least 60,000.
    pub history_age: Option<Millis>,
}

/// See [`Action::Sweep`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sweep {
    /// What is gone; at most 1,000.
    pub gone: Vec<Gone>,
}

/// An object that a list of its source no longer has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gone {
    /// Which object.
    pub object: ObjectId,
    /// The UID that the ledger had when the list began.
    pub uid: Name,
    /// The ledger revision read before the list began: an object changed since is left alone.
    pub unchanged_since: Revision,
}

/// Any declared object, and Pods bound to an ordinal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ObjectId {
    /// A pool.
    Pool(PoolId),
    /// A StatefulSet's reservation.
    Reservation(StatefulSetId),
    /// An Egress.
    Egress(Name),
    /// A Node.
    Node(Name),
    /// A Pod, by namespace and name.
    Pod(Name, Name),
}

/// See [`Action::Observe`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observe {
    /// An IPPool.
    pub pool: Name,
    /// Everything that others hold in it now, and all that is reserved for a StatefulSet, by whomever; what is missing
    /// here is no longer observed.
    pub entries: Vec<Observed>,
}

/// One address that another allocator holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// The address.
    pub address: IpAddr,
    /// Its owner, as that allocator writes it.
    pub owner: Name,
    /// The ordinal that it is reserved for, if it is reserved for a StatefulSet.
    pub ordinal: Option<(StatefulSetId, u32)>,
}
