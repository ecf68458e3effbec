//! One value of every variant of everything that is stored or logged. The exhaustive lists make a new variant fail to
//! compile here until it is counted, and then fail the test until it has a sample.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use holdfast_statemachine::adopt::{Adopt, AdoptItem, AdoptedBy, Conflict, ConflictReason, Mode};
use holdfast_statemachine::change::{Cause, Change, Event, MoveReason};
use holdfast_statemachine::command::{
    Action, Command, Contiguity, DeleteEgress, DeleteNode, DeletePool, Drain, EgressItem, Entry, Gone, Grant, ObjectId,
    Observe, Observed, Operator, Owner, OwnerRef, Pin, PodOwner, PutEgress, PutNode, PutPool, PutSettings, RangeSpec,
    Rebalance, ReleaseGrant, ReleaseReservation, Requirement, Reserve, ReserveSpec, Retention, Selector, Source,
    StatefulSetId, Subnet, Sweep, Undrain, Unpin,
};
use holdfast_statemachine::outcome::{Granted, Ineligible, Move, Note, Outcome, PoolRoom, Rejection, Waiting};
use holdfast_statemachine::row::{
    AdoptionRow, BoundPod, Clock, CoolingRow, CreationKey, EgressItemRow, EgressRow, GrantRow, Holder, Key, NodeRow,
    OrdinalRow, PlacementRow, PodRef, Policy, PoolId, PoolKind, PoolRow, ReservationRow, RetiredRow, Row, Settings,
    Stamp,
};
use holdfast_statemachine::{Family, Name, Range};

/// How many variants there are, by a list that the compiler holds to be complete.
macro_rules! variants {
    ($count:ident, $type:ty: $($variant:pat),* $(,)?) => {
        pub const $count: usize = [$(stringify!($variant)),*].len();
        const _: fn(&$type) = |value| match value {
            $($variant => (),)*
        };
    };
}

variants!(KEYS, Key: Key::Clock, Key::Settings, Key::Pool(..), Key::Retired(..), Key::Grant(..), Key::Cooling(..),
    Key::Reservation(..), Key::Ordinal(..), Key::Egress(..), Key::Placement(..), Key::Node(..), Key::Adoption);
variants!(ROWS, Row: Row::Clock(..), Row::Settings(..), Row::Pool(..), Row::Retired(..), Row::Grant(..),
    Row::Cooling(..), Row::Reservation(..), Row::Ordinal(..), Row::Egress(..), Row::Placement(..), Row::Node(..),
    Row::Adoption(..));
variants!(HOLDERS, Holder: Holder::Ordinal { .. }, Holder::Named { .. }, Holder::Pod { .. }, Holder::Egress { .. },
    Holder::Observed { .. });
variants!(ACTIONS, Action: Action::PutPool(..), Action::DeletePool(..), Action::Reserve(..),
    Action::ReleaseReservation(..), Action::Grant(..), Action::ReleaseGrant(..), Action::PutEgress(..),
    Action::DeleteEgress(..), Action::PutNode(..), Action::DeleteNode(..), Action::Drain(..), Action::Undrain(..),
    Action::Pin(..), Action::Unpin(..), Action::Rebalance(..), Action::PutSettings(..), Action::Sweep(..),
    Action::Observe(..), Action::Adopt(..));
variants!(EVENTS, Event: Event::Put(..), Event::Deleted(..), Event::Waits { .. }, Event::Met { .. },
    Event::Granted { .. }, Event::Transferred { .. }, Event::Released { .. }, Event::Bound { .. },
    Event::Unbound { .. }, Event::Retained { .. }, Event::Cooled { .. }, Event::Placed { .. },
    Event::Unplaced { .. }, Event::Pinned { .. }, Event::Drained { .. }, Event::Retired { .. }, Event::Settings,
    Event::AdoptionBegun { .. }, Event::Conflict(..), Event::AdoptionEnded { .. });
variants!(REASONS, MoveReason: MoveReason::Homeless, MoveReason::NodeNotReady, MoveReason::NodeGone,
    MoveReason::NodeMismatch, MoveReason::OverCapacity, MoveReason::NodeDrained, MoveReason::Pin,
    MoveReason::Rebalance, MoveReason::Recomputed, MoveReason::AddressGone);
variants!(NOTES, Note: Note::NotHeld { .. }, Note::WasCooling { .. }, Note::WasHeadroom { .. },
    Note::CapacityClamped { .. }, Note::LeftAlone { .. }, Note::Retired { .. },
    Note::Conflict(..));
variants!(REJECTIONS, Rejection: Rejection::Malformed { .. }, Rejection::Immutable { .. },
    Rejection::OtherSource { .. }, Rejection::StaleTerm { .. }, Rejection::Unknown { .. },
    Rejection::PoolExhausted { .. }, Rejection::AddressHeld { .. }, Rejection::AddressOutside { .. },
    Rejection::OwnerHolds { .. }, Rejection::Ineligible { .. }, Rejection::NoRoom { .. },
    Rejection::PlacementsChanged { .. }, Rejection::Policy { .. },
    Rejection::NotAdopted, Rejection::NotAdopting, Rejection::OtherMode { .. }, Rejection::Mode { .. });
variants!(CONFLICTS, ConflictReason: ConflictReason::Held { .. }, ConflictReason::UnknownPool, ConflictReason::Outside,
    ConflictReason::OrdinalHolds { .. }, ConflictReason::PodBound { .. }, ConflictReason::OrdinalBound { .. },
    ConflictReason::OwnerHolds { .. }, ConflictReason::Refused { .. });
variants!(INELIGIBLE, Ineligible: Ineligible::NotReady, Ineligible::NotLinux, Ineligible::SelectorMismatch,
    Ineligible::Drained, Ineligible::AtCapacity { .. });
variants!(WAITINGS, Waiting: Waiting::UnknownPool { .. }, Waiting::Exhausted { .. }, Waiting::NoBlock { .. },
    Waiting::AddressHeld { .. }, Waiting::AddressOutside { .. }, Waiting::FixedAddressMissing { .. },
    Waiting::PoolOverlap { .. }, Waiting::RangeStillHeld { .. }, Waiting::NotAdopted);

fn n(text: &str) -> Name {
    Name::from(text)
}

fn v4() -> IpAddr {
    "10.0.0.7".parse().unwrap()
}

fn v6() -> IpAddr {
    "2001:db8::7".parse().unwrap()
}

fn range() -> Range {
    Range::new(v4(), "10.0.0.9".parse().unwrap()).unwrap()
}

fn ip_pool() -> PoolId {
    PoolId { kind: PoolKind::IpPool, name: n("blue") }
}

fn external_pool() -> PoolId {
    PoolId { kind: PoolKind::ExternalIpPool, name: n("out") }
}

fn set() -> StatefulSetId {
    StatefulSetId { namespace: n("shop"), name: n("db") }
}

fn stamp() -> Stamp {
    Stamp { revision: 5, index: 9, at: 1_700_000_000_000 }
}

fn pod() -> PodRef {
    PodRef { namespace: n("shop"), name: n("db-1"), uid: n("u1"), container_id: Some(n("c1")), interface: None }
}

fn manifests() -> Source {
    Source::Manifests(n("base"))
}

fn ordinal() -> Holder {
    Holder::Ordinal { id: set(), ordinal: 1, former: true }
}

fn selector() -> Selector {
    let operators = [Operator::In, Operator::NotIn, Operator::Exists, Operator::DoesNotExist];
    let requirement = |operator| Requirement { key: n("zone"), operator, values: vec![n("a"), n("b")] };
    Selector {
        match_labels: BTreeMap::from([(n("role"), n("gateway"))]),
        match_expressions: operators.map(requirement).to_vec(),
    }
}

fn put_pool(pool: PoolId) -> PutPool {
    PutPool {
        pool,
        uid: n("u"),
        ranges: vec![RangeSpec::Cidr(n("10.0.0.0/24")), RangeSpec::StartEnd(n("10.0.1.1"), n("10.0.1.9"))],
        subnet: Some(Subnet { gateway: n("10.0.0.1"), prefix_length: 16, vlan: Some(7) }),
        node_selector: selector(),
        cool_down: 30_000,
    }
}

fn spec(contiguity: Contiguity, when_scaled: Retention) -> ReserveSpec {
    ReserveSpec {
        start: 1,
        replicas: 3,
        pools: vec![n("blue"), n("blue6")],
        fixed: vec![v4(), v6()],
        headroom: 2,
        contiguity,
        when_scaled,
        when_deleted: Retention::Release,
        settled: true,
    }
}

fn rooms() -> Vec<PoolRoom> {
    vec![PoolRoom { pool: ip_pool(), needed: 3, free: u128::MAX, largest_free_run: 2 }]
}

pub fn keys() -> Vec<Key> {
    vec![
        Key::Clock,
        Key::Settings,
        Key::Pool(ip_pool()),
        Key::Pool(external_pool()),
        Key::Retired(ip_pool()),
        Key::Grant(v4()),
        Key::Grant(v6()),
        Key::Cooling(v4()),
        Key::Reservation(set()),
        Key::Ordinal(set(), 258),
        Key::Egress(n("out")),
        Key::Egress(n("a\0b")),
        Key::Placement(v4()),
        Key::Node(n("node-1")),
        Key::Adoption,
    ]
}

pub fn rows() -> Vec<Row> {
    let waiting = || Some((4, Waiting::UnknownPool { pools: vec![ip_pool()] }));
    let settings = |policy| Settings { policy, default_capacity: 255, history_rows: 1_000, history_age: 60_000 };
    let item = |pool| EgressItemRow { pool, asked: Some(v4()), chosen: Some(v6()), waiting: waiting() };
    vec![
        Row::Clock(Clock { revision: 7, time: 1_700_000_000_000, placements: 6 }),
        Row::Settings(settings(Policy::Sticky)),
        Row::Settings(settings(Policy::Spread)),
        Row::Settings(settings(Policy::ConsistentHash)),
        Row::Pool(PoolRow {
            source: Source::Kubernetes,
            wanted: put_pool(ip_pool()),
            ranges: vec![range()],
            waiting: waiting(),
            stamp: stamp(),
            used: stamp(),
        }),
        Row::Retired(RetiredRow { ranges: vec![range()], cool_down: 30_000, stamp: stamp() }),
        Row::Grant(GrantRow { pool: ip_pool(), holder: ordinal(), stamp: stamp() }),
        Row::Cooling(CoolingRow { until: 1_700_000_000_000, former: ordinal() }),
        Row::Reservation(ReservationRow {
            source: manifests(),
            uid: n("u"),
            spec: Some(spec(Contiguity::Required, Retention::Retain)),
            when_deleted: Retention::After(5_000),
            waiting: Some((4, vec![Waiting::UnknownPool { pools: vec![ip_pool()] }])),
            stamp: stamp(),
        }),
        Row::Ordinal(OrdinalRow {
            pod: Some(BoundPod { pod: pod(), pools: vec![n("blue")], source: Source::Api }),
            retained_until: Some(1_700_000_000_000),
            stamp: stamp(),
            left: None,
        }),
        Row::Ordinal(OrdinalRow {
            pod: None,
            retained_until: Some(1_700_000_000_000),
            stamp: stamp(),
            left: Some(Retention::After(5_000)),
        }),
        Row::Egress(EgressRow {
            source: Source::Api,
            uid: n("u"),
            created: CreationKey { seconds: -5, revision: 3, name: n("out") },
            plural: true,
            items: vec![item(Some(n("out"))), item(None)],
            rest: n("{}"),
            stamp: stamp(),
        }),
        Row::Placement(PlacementRow { egress: n("out"), node: n("node-1"), pinned: true, stamp: stamp() }),
        Row::Node(NodeRow {
            source: Source::Kubernetes,
            uid: n("u"),
            labels: BTreeMap::from([(n("zone"), n("a"))]),
            ready: true,
            capacity: Some(4),
            drained: true,
            stamp: stamp(),
        }),
        Row::Adoption(AdoptionRow {
            mode: Mode::Antrea,
            complete: true,
            conflicts: conflicts(),
            conflicts_total: 300,
            others: BTreeSet::from([7, u64::MAX]),
            stamp: stamp(),
        }),
    ]
}

pub fn conflicts() -> Vec<Conflict> {
    let conflict = |why| Conflict { address: v4(), pool: ip_pool(), claimed_by: ordinal(), why };
    let reasons = [
        ConflictReason::Held { by: ordinal() },
        ConflictReason::UnknownPool,
        ConflictReason::Outside,
        ConflictReason::OrdinalHolds { address: v6() },
        ConflictReason::PodBound { id: set(), ordinal: 2 },
        ConflictReason::OrdinalBound { pod: pod() },
        ConflictReason::OwnerHolds { by: ordinal(), address: v6() },
        ConflictReason::Refused { code: n("OtherSource") },
    ];
    reasons.map(conflict).to_vec()
}

pub fn holders() -> Vec<Holder> {
    vec![
        ordinal(),
        Holder::Named { name: n("vm"), uid: n(""), source: Source::Api },
        Holder::Pod { pod: PodRef { interface: Some(n("eth0")), ..pod() }, source: manifests() },
        Holder::Egress { name: n("out") },
        Holder::Observed { owner: n("someone") },
    ]
}

pub fn entry(action: &Action) -> Entry {
    let command = |source, only_in_term| Command { source, only_in_term, action: action.clone() };
    let commands = vec![command(Source::Kubernetes, Some(3)), command(manifests(), None), command(Source::Api, None)];
    Entry { index: 9, term: 3, proposed_at: 1_700_000_000_000, commands }
}

pub fn actions() -> Vec<Action> {
    let grant = |owner| {
        Action::Grant(Grant { owner, kind: PoolKind::IpPool, pools: vec![n("blue")], addresses: vec![v4(), v6()] })
    };
    let reserve = |contiguity, when_scaled| {
        Action::Reserve(Reserve { id: set(), uid: n("u"), spec: spec(contiguity, when_scaled) })
    };
    let release = |owner| Action::ReleaseGrant(ReleaseGrant { owner, uid: n("u"), revision: Some(5) });
    let mut actions = vec![
        Action::PutPool(put_pool(ip_pool())),
        Action::PutPool(put_pool(external_pool())),
        Action::DeletePool(DeletePool { pool: external_pool(), uid: n("u") }),
        reserve(Contiguity::Required, Retention::Retain),
        reserve(Contiguity::Preferred, Retention::After(5_000)),
        Action::ReleaseReservation(ReleaseReservation { id: set(), uid: n("u") }),
        grant(Owner::Named { name: n("vm"), uid: n("") }),
        grant(Owner::Pod(PodOwner {
            namespace: n("shop"),
            name: n("db-1"),
            uid: n("u1"),
            container_id: Some(n("c1")),
            interface: Some(n("eth0")),
            ordinal: Some((set(), 1)),
        })),
        release(OwnerRef::Named(n("vm"))),
        release(OwnerRef::Pod(n("shop"), n("db-1"))),
    ];
    actions.extend(later_actions());
    actions
}

fn later_actions() -> Vec<Action> {
    let gone = |object| Gone { object, uid: n("u"), unchanged_since: 4 };
    vec![
        Action::PutEgress(PutEgress {
            name: n("out"),
            uid: n("u"),
            created: Some(1_700_000_000),
            plural: true,
            items: vec![EgressItem { pool: Some(n("out")), address: Some(v4()) }],
            rest: n("{}"),
        }),
        Action::DeleteEgress(DeleteEgress { name: n("out"), uid: n("u") }),
        Action::PutNode(PutNode {
            name: n("node-1"),
            uid: n("u"),
            labels: BTreeMap::from([(n("zone"), n("a"))]),
            ready: true,
            capacity: Some(-4),
        }),
        Action::DeleteNode(DeleteNode { name: n("node-1"), uid: n("u") }),
        Action::Drain(Drain { node: n("node-1"), force: true }),
        Action::Undrain(Undrain { node: n("node-1") }),
        Action::Pin(Pin { egress: n("out"), address: Some(v4()), node: n("node-1") }),
        Action::Unpin(Unpin { egress: n("out"), address: None }),
        Action::Rebalance(Rebalance { max_moves: 10, at: Some(6) }),
        Action::PutSettings(PutSettings {
            policy: Some(Policy::Spread),
            default_capacity: Some(4),
            history_rows: Some(1_000),
            history_age: None,
        }),
        Action::Sweep(Sweep { gone: objects().into_iter().map(gone).collect() }),
        Action::Observe(Observe {
            pool: n("blue"),
            entries: vec![Observed { address: v4(), owner: n("someone"), ordinal: Some((set(), 1)) }],
        }),
        Action::Adopt(Adopt::Begin { mode: Mode::Standalone }),
        Action::Adopt(Adopt::Held(adopt_items())),
        Action::Adopt(Adopt::End),
    ]
}

fn adopt_items() -> Vec<AdoptItem> {
    let address = |by| AdoptItem::Address { pool: ip_pool(), address: v4(), by };
    let pod = PodOwner {
        namespace: n("shop"),
        name: n("db-1"),
        uid: n("u1"),
        container_id: None,
        interface: None,
        ordinal: None,
    };
    let put = PutEgress {
        name: n("out"),
        uid: n("u"),
        created: None,
        plural: false,
        items: vec![EgressItem { pool: Some(n("out")), address: Some(v4()) }],
        rest: n("{}"),
    };
    vec![
        address(AdoptedBy::Ordinal {
            id: set(),
            uid: n("u"),
            ordinal: 1,
            pod: Some(pod.clone()),
            pools: vec![n("blue")],
        }),
        address(AdoptedBy::Owner(Owner::Pod(pod))),
        AdoptItem::Egress { put, chosen: vec![v4()], placed: vec![(v4(), n("node-1"))] },
    ]
}

fn objects() -> Vec<ObjectId> {
    vec![
        ObjectId::Pool(ip_pool()),
        ObjectId::Reservation(set()),
        ObjectId::Egress(n("out")),
        ObjectId::Node(n("node-1")),
        ObjectId::Pod(n("shop"), n("db-1")),
    ]
}

pub fn changes(event: &Event) -> Vec<Change> {
    let command = Cause::Command { name: n("Reserve"), object: n("shop/db"), source: n("api") };
    let change = |revision, cause| Change { revision, index: 9, at: 1_700_000_000_000, cause, event: event.clone() };
    vec![change(5, command), change(6, Cause::Deadline)]
}

pub fn events() -> Vec<Event> {
    let (address, pool, egress) = (v4(), ip_pool(), n("out"));
    let object = ObjectId::Egress(n("out"));
    let why = MoveReason::NodeGone;
    let mut events: Vec<Event> = objects().into_iter().map(Event::Put).collect();
    events.extend([
        Event::Deleted(object.clone()),
        Event::Waits { object: object.clone(), item: Some(1), waiting: waitings()[..8].to_vec() },
        Event::Met { object, item: None },
        Event::Granted { address, pool: pool.clone(), holder: ordinal() },
        Event::Transferred { address: v6(), pool: pool.clone(), from: ordinal(), to: holders().remove(1) },
        Event::Released { address, pool: pool.clone(), holder: ordinal(), cooling_until: Some(1_700_000_000_000) },
        Event::Bound { id: set(), ordinal: 1, pod: pod() },
        Event::Unbound { id: set(), ordinal: 1, pod: pod() },
        Event::Retained { id: set(), ordinal: 1, until: Some(1_700_000_000_000) },
        Event::Cooled { address },
        Event::Placed { address, egress: egress.clone(), from: Some(n("node-1")), to: n("node-2"), why },
        Event::Unplaced { address, egress: egress.clone(), from: n("node-1"), why },
        Event::Pinned { address, egress, pinned: true },
        Event::Drained { node: n("node-1"), drained: true },
        Event::Retired { pool, held: 4 },
        Event::Settings,
        Event::AdoptionBegun { mode: Mode::Standalone },
        Event::Conflict(conflicts().remove(0)),
        Event::AdoptionEnded { conflicts: 3 },
    ]);
    events
}

pub fn reasons() -> Vec<MoveReason> {
    vec![
        MoveReason::Homeless,
        MoveReason::NodeNotReady,
        MoveReason::NodeGone,
        MoveReason::NodeMismatch,
        MoveReason::OverCapacity,
        MoveReason::NodeDrained,
        MoveReason::Pin,
        MoveReason::Rebalance,
        MoveReason::Recomputed,
        MoveReason::AddressGone,
    ]
}

pub fn waitings() -> Vec<Waiting> {
    let family = Family::V6;
    vec![
        Waiting::UnknownPool { pools: vec![ip_pool(), external_pool()] },
        Waiting::Exhausted { family, tried: rooms() },
        Waiting::NoBlock { family: Family::V4, tried: rooms() },
        Waiting::AddressHeld { address: v4(), by: ordinal() },
        Waiting::AddressOutside { address: v6(), pools: vec![ip_pool()] },
        Waiting::FixedAddressMissing { family, first_ordinal: 2, count: 3 },
        Waiting::PoolOverlap { range: range(), with: external_pool() },
        Waiting::RangeStillHeld { address: v4(), by: ordinal(), held: 4 },
        Waiting::NotAdopted,
    ]
}

pub fn notes() -> Vec<Note> {
    vec![
        Note::NotHeld { held_by_uid: Some(n("u2")), revision: Some(5) },
        Note::WasCooling { former: ordinal() },
        Note::WasHeadroom { of: set() },
        Note::CapacityClamped { asked: -4, used: 0 },
        Note::LeftAlone { objects: 2 },
        Note::Retired { held: 4 },
        Note::Conflict(conflicts().remove(4)),
    ]
}

pub fn outcome(note: Note) -> Outcome {
    Outcome {
        revision: 5,
        changed: true,
        waiting: vec![Waiting::UnknownPool { pools: vec![ip_pool()] }],
        granted: vec![Granted { pool: ip_pool(), first: v4(), count: 3, ordinal: Some(1), revision: 5 }],
        moves: vec![Move { egress: n("out"), address: v6(), from: None, to: Some(n("node-1")) }],
        notes: vec![note],
    }
}

pub fn ineligible() -> Vec<Ineligible> {
    vec![
        Ineligible::NotReady,
        Ineligible::NotLinux,
        Ineligible::SelectorMismatch,
        Ineligible::Drained,
        Ineligible::AtCapacity { carried: 4, capacity: 4 },
    ]
}

pub fn rejections() -> Vec<Rejection> {
    vec![
        Rejection::Malformed { field: n("f"), value: n("v"), allowed: n("a") },
        Rejection::Immutable { pool: ip_pool(), field: n("f"), held: n("h"), asked: n("a") },
        Rejection::OtherSource { kind: n("Egress"), name: n("out"), source_of: manifests() },
        Rejection::StaleTerm { meant: 3, term: 4 },
        Rejection::Unknown { kind: n("Node"), name: n("node-1") },
        Rejection::PoolExhausted { pool: ip_pool(), needed: 3, free: 2, largest_free_run: 1 },
        Rejection::AddressHeld { address: v4(), by: ordinal() },
        Rejection::AddressOutside { address: v6(), pools: vec![ip_pool()] },
        Rejection::OwnerHolds { owner: ordinal(), address: v4(), pool: ip_pool() },
        Rejection::Ineligible {
            node: n("node-1"),
            address: v4(),
            why: Ineligible::AtCapacity { carried: 4, capacity: 4 },
        },
        Rejection::NoRoom { node: n("node-1"), left: 1, carried: 4 },
        Rejection::PlacementsChanged { at: 6, changed: 7 },
        Rejection::Policy { policy: Policy::ConsistentHash, what: n("Pin") },
        Rejection::NotAdopted,
        Rejection::NotAdopting,
        Rejection::OtherMode { recorded: Mode::Standalone, asked: Mode::Antrea },
        Rejection::Mode { mode: Mode::Antrea, what: n("Drain"), why: n("w") },
    ]
}
