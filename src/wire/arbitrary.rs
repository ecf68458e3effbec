//! Any value of each ledger type that crosses the wire.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use holdfast_statemachine::adopt::{Adopt, AdoptItem, AdoptedBy, Conflict, ConflictReason, Mode};
use holdfast_statemachine::change::MoveReason;
use holdfast_statemachine::command::*;
use holdfast_statemachine::outcome::{Granted, Ineligible, Move, Note, PoolRoom, Waiting};
use holdfast_statemachine::row::*;
use holdfast_statemachine::{Cause, Change, Event, Family, Name, Outcome, Range, Rejection};
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;

fn name() -> BoxedStrategy<Name> {
    "[a-z0-9äß./-]{1,12}".prop_map(Name::from).boxed()
}

fn uid() -> BoxedStrategy<Name> {
    "[a-f0-9-]{0,12}".prop_map(Name::from).boxed()
}

fn text() -> BoxedStrategy<Name> {
    "[ -~]{0,20}".prop_map(Name::from).boxed()
}

pub fn address() -> BoxedStrategy<IpAddr> {
    prop_oneof![
        any::<u32>().prop_map(|n| IpAddr::V4(Ipv4Addr::from(n))),
        any::<u128>().prop_map(|n| IpAddr::V6(Ipv6Addr::from(n))),
    ]
    .boxed()
}

fn range() -> BoxedStrategy<Range> {
    let v4 = any::<(u32, u32)>().prop_map(|(a, b)| {
        Range::new(Ipv4Addr::from(a.min(b)).into(), Ipv4Addr::from(a.max(b)).into()).expect("ordered, of one family")
    });
    let v6 = any::<(u128, u128)>().prop_map(|(a, b)| {
        Range::new(Ipv6Addr::from(a.min(b)).into(), Ipv6Addr::from(a.max(b)).into()).expect("ordered, of one family")
    });
    prop_oneof![v4, v6].boxed()
}

fn family() -> BoxedStrategy<Family> {
    prop_oneof![Just(Family::V4), Just(Family::V6)].boxed()
}

fn policy() -> BoxedStrategy<Policy> {
    prop_oneof![Just(Policy::Sticky), Just(Policy::Spread), Just(Policy::ConsistentHash)].boxed()
}

fn pool_kind() -> BoxedStrategy<PoolKind> {
    prop_oneof![Just(PoolKind::IpPool), Just(PoolKind::ExternalIpPool)].boxed()
}

fn pool() -> BoxedStrategy<PoolId> {
    (pool_kind(), name()).prop_map(|(kind, name)| PoolId { kind, name }).boxed()
}

fn stateful_set() -> BoxedStrategy<StatefulSetId> {
    (name(), name()).prop_map(|(namespace, name)| StatefulSetId { namespace, name }).boxed()
}

fn object() -> BoxedStrategy<ObjectId> {
    prop_oneof![
        pool().prop_map(ObjectId::Pool),
        stateful_set().prop_map(ObjectId::Reservation),
        name().prop_map(ObjectId::Egress),
        name().prop_map(ObjectId::Node),
        (name(), name()).prop_map(|(namespace, name)| ObjectId::Pod(namespace, name)),
    ]
    .boxed()
}

pub fn source() -> BoxedStrategy<Source> {
    prop_oneof![Just(Source::Kubernetes), Just(Source::Api), name().prop_map(Source::Manifests)].boxed()
}

fn pod() -> BoxedStrategy<PodRef> {
    (name(), name(), uid(), of(name()), of(name()))
        .prop_map(|(namespace, name, uid, container_id, interface)| PodRef {
            namespace,
            name,
            uid,
            container_id,
            interface,
        })
        .boxed()
}

fn holder() -> BoxedStrategy<Holder> {
    prop_oneof![
        (stateful_set(), any::<u32>(), any::<bool>()).prop_map(|(id, ordinal, former)| Holder::Ordinal {
            id,
            ordinal,
            former
        }),
        (name(), uid(), source()).prop_map(|(name, uid, source)| Holder::Named { name, uid, source }),
        (pod(), source()).prop_map(|(pod, source)| Holder::Pod { pod, source }),
        name().prop_map(|name| Holder::Egress { name }),
        text().prop_map(|owner| Holder::Observed { owner }),
    ]
    .boxed()
}

fn stamp() -> BoxedStrategy<Stamp> {
    any::<(u64, u64, u64)>().prop_map(|(revision, index, at)| Stamp { revision, index, at }).boxed()
}

fn ineligible() -> BoxedStrategy<Ineligible> {
    prop_oneof![
        Just(Ineligible::NotReady),
        Just(Ineligible::NotLinux),
        Just(Ineligible::SelectorMismatch),
        Just(Ineligible::Drained),
        any::<(u32, u32)>().prop_map(|(carried, capacity)| Ineligible::AtCapacity { carried, capacity }),
    ]
    .boxed()
}

fn room() -> BoxedStrategy<PoolRoom> {
    (pool(), any::<(u128, u128, u128)>())
        .prop_map(|(pool, (needed, free, largest_free_run))| PoolRoom { pool, needed, free, largest_free_run })
        .boxed()
}

fn waiting() -> BoxedStrategy<Waiting> {
    prop_oneof![
        vec(pool(), 0..3).prop_map(|pools| Waiting::UnknownPool { pools }),
        (family(), vec(room(), 0..3)).prop_map(|(family, tried)| Waiting::Exhausted { family, tried }),
        (family(), vec(room(), 0..3)).prop_map(|(family, tried)| Waiting::NoBlock { family, tried }),
        (address(), holder()).prop_map(|(address, by)| Waiting::AddressHeld { address, by }),
        (address(), vec(pool(), 0..3)).prop_map(|(address, pools)| Waiting::AddressOutside { address, pools }),
        (family(), any::<(u32, u32)>()).prop_map(|(family, (first_ordinal, count))| Waiting::FixedAddressMissing {
            family,
            first_ordinal,
            count
        }),
        (range(), pool()).prop_map(|(range, with)| Waiting::PoolOverlap { range, with }),
        (address(), holder(), any::<u64>()).prop_map(|(address, by, held)| Waiting::RangeStillHeld {
            address,
            by,
            held
        }),
        Just(Waiting::NotAdopted),
    ]
    .boxed()
}

fn mode() -> BoxedStrategy<Mode> {
    prop_oneof![Just(Mode::Standalone), Just(Mode::Antrea)].boxed()
}

fn conflict() -> BoxedStrategy<Conflict> {
    let why = prop_oneof![
        holder().prop_map(|by| ConflictReason::Held { by }),
        Just(ConflictReason::UnknownPool),
        Just(ConflictReason::Outside),
        address().prop_map(|address| ConflictReason::OrdinalHolds { address }),
        (stateful_set(), any::<u32>()).prop_map(|(id, ordinal)| ConflictReason::PodBound { id, ordinal }),
        pod().prop_map(|pod| ConflictReason::OrdinalBound { pod }),
        (holder(), address()).prop_map(|(by, address)| ConflictReason::OwnerHolds { by, address }),
        text().prop_map(|code| ConflictReason::Refused { code }),
    ];
    (address(), pool(), holder(), why)
        .prop_map(|(address, pool, claimed_by, why)| Conflict { address, pool, claimed_by, why })
        .boxed()
}

fn pod_owner() -> BoxedStrategy<PodOwner> {
    (pod(), of((stateful_set(), any::<u32>())))
        .prop_map(|(pod, ordinal)| {
            let PodRef { namespace, name, uid, container_id, interface } = pod;
            PodOwner { namespace, name, uid, container_id, interface, ordinal }
        })
        .boxed()
}

fn adopt() -> BoxedStrategy<Adopt> {
    let ordinal = (stateful_set(), uid(), any::<u32>(), of(pod_owner()), vec(name(), 0..3))
        .prop_map(|(id, uid, ordinal, pod, pools)| AdoptedBy::Ordinal { id, uid, ordinal, pod, pools });
    let by = prop_oneof![ordinal, owner().prop_map(AdoptedBy::Owner)];
    let held = (pool(), address(), by).prop_map(|(pool, address, by)| AdoptItem::Address { pool, address, by });
    let egress = (put_egress(), vec(address(), 0..3), vec((address(), name()), 0..3))
        .prop_map(|(put, chosen, placed)| AdoptItem::Egress { put, chosen, placed });
    prop_oneof![
        mode().prop_map(|mode| Adopt::Begin { mode }),
        vec(prop_oneof![held, egress], 0..3).prop_map(Adopt::Held),
        Just(Adopt::End),
    ]
    .boxed()
}

fn selector() -> BoxedStrategy<Selector> {
    let operator =
        prop_oneof![Just(Operator::In), Just(Operator::NotIn), Just(Operator::Exists), Just(Operator::DoesNotExist)];
    let requirement =
        (text(), operator, vec(text(), 0..3)).prop_map(|(key, operator, values)| Requirement { key, operator, values });
    (labels(), vec(requirement, 0..3))
        .prop_map(|(match_labels, match_expressions)| Selector { match_labels, match_expressions })
        .boxed()
}

fn labels() -> BoxedStrategy<BTreeMap<Name, Name>> {
    btree_map(text(), text(), 0..3).boxed()
}

fn put_pool() -> BoxedStrategy<PutPool> {
    let range = prop_oneof![
        text().prop_map(RangeSpec::Cidr),
        (text(), text()).prop_map(|(start, end)| RangeSpec::StartEnd(start, end)),
    ];
    let subnet = (text(), any::<u32>(), any::<Option<u32>>()).prop_map(|(gateway, prefix_length, vlan)| Subnet {
        gateway,
        prefix_length,
        vlan,
    });
    (pool(), uid(), vec(range, 0..3), of(subnet), selector(), any::<u64>())
        .prop_map(|(pool, uid, ranges, subnet, node_selector, cool_down)| PutPool {
            pool,
            uid,
            ranges,
            subnet,
            node_selector,
            cool_down,
        })
        .boxed()
}

fn retention() -> BoxedStrategy<Retention> {
    prop_oneof![Just(Retention::Retain), Just(Retention::Release), any::<u64>().prop_map(Retention::After)].boxed()
}

fn reserve_spec() -> BoxedStrategy<ReserveSpec> {
    let contiguity = prop_oneof![Just(Contiguity::Required), Just(Contiguity::Preferred)];
    let numbers = any::<(u32, u32, u32, bool)>();
    (numbers, vec(name(), 0..3), vec(address(), 0..3), contiguity, retention(), retention())
        .prop_map(|((start, replicas, headroom, settled), pools, fixed, contiguity, when_scaled, when_deleted)| {
            ReserveSpec { start, replicas, pools, fixed, headroom, contiguity, when_scaled, when_deleted, settled }
        })
        .boxed()
}

fn owner() -> BoxedStrategy<Owner> {
    let named = (name(), uid()).prop_map(|(name, uid)| Owner::Named { name, uid });
    prop_oneof![named, pod_owner().prop_map(Owner::Pod)].boxed()
}

fn put_egress() -> BoxedStrategy<PutEgress> {
    let item = (of(name()), of(address())).prop_map(|(pool, address)| EgressItem { pool, address });
    (name(), uid(), any::<(Option<i64>, bool)>(), vec(item, 0..3), text())
        .prop_map(|(name, uid, (created, plural), items, rest)| PutEgress { name, uid, created, plural, items, rest })
        .boxed()
}

fn put_settings() -> BoxedStrategy<PutSettings> {
    (of(policy()), any::<(Option<u32>, Option<u64>, Option<u64>)>())
        .prop_map(|(policy, (default_capacity, history_rows, history_age))| PutSettings {
            policy,
            default_capacity,
            history_rows,
            history_age,
        })
        .boxed()
}

fn put_node() -> BoxedStrategy<PutNode> {
    (name(), uid(), labels(), any::<(bool, Option<i64>)>())
        .prop_map(|(name, uid, labels, (ready, capacity))| PutNode { name, uid, labels, ready, capacity })
        .boxed()
}

fn release_grant() -> BoxedStrategy<ReleaseGrant> {
    let owner = prop_oneof![
        name().prop_map(OwnerRef::Named),
        (name(), name()).prop_map(|(namespace, name)| OwnerRef::Pod(namespace, name)),
    ];
    (owner, uid(), any::<Option<u64>>())
        .prop_map(|(owner, uid, revision)| ReleaseGrant { owner, uid, revision })
        .boxed()
}

/// Actions that declare an object or take it away.
fn declaring() -> BoxedStrategy<Action> {
    prop_oneof![
        put_pool().prop_map(Action::PutPool),
        (pool(), uid()).prop_map(|(pool, uid)| Action::DeletePool(DeletePool { pool, uid })),
        (stateful_set(), uid(), reserve_spec()).prop_map(|(id, uid, spec)| Action::Reserve(Reserve { id, uid, spec })),
        (stateful_set(), uid()).prop_map(|(id, uid)| Action::ReleaseReservation(ReleaseReservation { id, uid })),
        put_egress().prop_map(Action::PutEgress),
        (name(), uid()).prop_map(|(name, uid)| Action::DeleteEgress(DeleteEgress { name, uid })),
        put_node().prop_map(Action::PutNode),
        (name(), uid()).prop_map(|(name, uid)| Action::DeleteNode(DeleteNode { name, uid })),
    ]
    .boxed()
}

pub fn action() -> BoxedStrategy<Action> {
    let grant = (owner(), pool_kind(), vec(name(), 0..3), vec(address(), 0..3))
        .prop_map(|(owner, kind, pools, addresses)| Action::Grant(Grant { owner, kind, pools, addresses }));
    let gone = (object(), uid(), any::<u64>()).prop_map(|(object, uid, unchanged_since)| Gone {
        object,
        uid,
        unchanged_since,
    });
    let observed = (address(), text(), of((stateful_set(), any::<u32>())))
        .prop_map(|(address, owner, ordinal)| Observed { address, owner, ordinal });
    prop_oneof![
        declaring(),
        grant,
        release_grant().prop_map(Action::ReleaseGrant),
        (name(), any::<bool>()).prop_map(|(node, force)| Action::Drain(Drain { node, force })),
        name().prop_map(|node| Action::Undrain(Undrain { node })),
        (name(), of(address()), name()).prop_map(|(egress, address, node)| Action::Pin(Pin { egress, address, node })),
        (name(), of(address())).prop_map(|(egress, address)| Action::Unpin(Unpin { egress, address })),
        any::<(u32, Option<u64>)>().prop_map(|(max_moves, at)| Action::Rebalance(Rebalance { max_moves, at })),
        put_settings().prop_map(Action::PutSettings),
        vec(gone, 0..3).prop_map(|gone| Action::Sweep(Sweep { gone })),
        (name(), vec(observed, 0..3)).prop_map(|(pool, entries)| Action::Observe(Observe { pool, entries })),
        adopt().prop_map(Action::Adopt),
    ]
    .boxed()
}

fn note() -> BoxedStrategy<Note> {
    prop_oneof![
        (of(uid()), any::<Option<u64>>()).prop_map(|(held_by_uid, revision)| Note::NotHeld { held_by_uid, revision }),
        holder().prop_map(|former| Note::WasCooling { former }),
        stateful_set().prop_map(|of| Note::WasHeadroom { of }),
        any::<(i64, u32)>().prop_map(|(asked, used)| Note::CapacityClamped { asked, used }),
        any::<u32>().prop_map(|objects| Note::LeftAlone { objects }),
        any::<u64>().prop_map(|held| Note::Retired { held }),
        conflict().prop_map(Note::Conflict),
    ]
    .boxed()
}

fn outcome() -> BoxedStrategy<Outcome> {
    let granted = (pool(), address(), any::<(u32, Option<u32>, u64)>())
        .prop_map(|(pool, first, (count, ordinal, revision))| Granted { pool, first, count, ordinal, revision });
    let moved = (name(), address(), of(name()), of(name())).prop_map(|(egress, address, from, to)| Move {
        egress,
        address,
        from,
        to,
    });
    (any::<(u64, bool)>(), vec(waiting(), 0..3), vec(granted, 0..3), vec(moved, 0..3), vec(note(), 0..3))
        .prop_map(|((revision, changed), waiting, granted, moves, notes)| Outcome {
            revision,
            changed,
            waiting,
            granted,
            moves,
            notes,
        })
        .boxed()
}

fn rejection() -> BoxedStrategy<Rejection> {
    prop_oneof![
        (text(), text(), text()).prop_map(|(field, value, allowed)| Rejection::Malformed { field, value, allowed }),
        (pool(), text(), text(), text()).prop_map(|(pool, field, held, asked)| Rejection::Immutable {
            pool,
            field,
            held,
            asked
        }),
        (text(), text(), source()).prop_map(|(kind, name, source_of)| Rejection::OtherSource { kind, name, source_of }),
        any::<(u64, u64)>().prop_map(|(meant, term)| Rejection::StaleTerm { meant, term }),
        (text(), text()).prop_map(|(kind, name)| Rejection::Unknown { kind, name }),
        room().prop_map(|PoolRoom { pool, needed, free, largest_free_run }| Rejection::PoolExhausted {
            pool,
            needed,
            free,
            largest_free_run
        }),
        (address(), holder()).prop_map(|(address, by)| Rejection::AddressHeld { address, by }),
        (address(), vec(pool(), 0..3)).prop_map(|(address, pools)| Rejection::AddressOutside { address, pools }),
        (holder(), address(), pool()).prop_map(|(owner, address, pool)| Rejection::OwnerHolds { owner, address, pool }),
        (name(), address(), ineligible()).prop_map(|(node, address, why)| Rejection::Ineligible { node, address, why }),
        (name(), any::<(u32, u32)>()).prop_map(|(node, (left, carried))| Rejection::NoRoom { node, left, carried }),
        any::<(u64, u64)>().prop_map(|(at, changed)| Rejection::PlacementsChanged { at, changed }),
        (policy(), text()).prop_map(|(policy, what)| Rejection::Policy { policy, what }),
        Just(Rejection::NotAdopted),
        Just(Rejection::NotAdopting),
        (mode(), mode()).prop_map(|(recorded, asked)| Rejection::OtherMode { recorded, asked }),
        (mode(), text(), text()).prop_map(|(mode, what, why)| Rejection::Mode { mode, what, why }),
    ]
    .boxed()
}

pub fn result() -> BoxedStrategy<Result<Outcome, Rejection>> {
    prop_oneof![outcome().prop_map(Ok), rejection().prop_map(Err)].boxed()
}

fn move_reason() -> BoxedStrategy<MoveReason> {
    prop_oneof![
        Just(MoveReason::Homeless),
        Just(MoveReason::NodeNotReady),
        Just(MoveReason::NodeGone),
        Just(MoveReason::NodeMismatch),
        Just(MoveReason::OverCapacity),
        Just(MoveReason::NodeDrained),
        Just(MoveReason::Pin),
        Just(MoveReason::Rebalance),
        Just(MoveReason::Recomputed),
        Just(MoveReason::AddressGone),
    ]
    .boxed()
}

/// Events of addresses and Pods.
fn holding_event() -> BoxedStrategy<Event> {
    prop_oneof![
        (address(), pool(), holder()).prop_map(|(address, pool, holder)| Event::Granted { address, pool, holder }),
        (address(), pool(), holder(), holder()).prop_map(|(address, pool, from, to)| Event::Transferred {
            address,
            pool,
            from,
            to
        }),
        (address(), pool(), holder(), any::<Option<u64>>()).prop_map(|(address, pool, holder, cooling_until)| {
            Event::Released { address, pool, holder, cooling_until }
        }),
        (stateful_set(), any::<u32>(), pod()).prop_map(|(id, ordinal, pod)| Event::Bound { id, ordinal, pod }),
        (stateful_set(), any::<u32>(), pod()).prop_map(|(id, ordinal, pod)| Event::Unbound { id, ordinal, pod }),
        (stateful_set(), any::<(u32, Option<u64>)>()).prop_map(|(id, (ordinal, until))| Event::Retained {
            id,
            ordinal,
            until
        }),
        address().prop_map(|address| Event::Cooled { address }),
        (pool(), any::<u64>()).prop_map(|(pool, held)| Event::Retired { pool, held }),
    ]
    .boxed()
}

fn event() -> BoxedStrategy<Event> {
    prop_oneof![
        holding_event(),
        object().prop_map(Event::Put),
        object().prop_map(Event::Deleted),
        (object(), any::<Option<u32>>(), vec(waiting(), 0..3)).prop_map(|(object, item, waiting)| Event::Waits {
            object,
            item,
            waiting
        }),
        (object(), any::<Option<u32>>()).prop_map(|(object, item)| Event::Met { object, item }),
        (address(), name(), of(name()), name(), move_reason())
            .prop_map(|(address, egress, from, to, why)| Event::Placed { address, egress, from, to, why }),
        (address(), name(), name(), move_reason()).prop_map(|(address, egress, from, why)| Event::Unplaced {
            address,
            egress,
            from,
            why
        }),
        (address(), name(), any::<bool>()).prop_map(|(address, egress, pinned)| Event::Pinned {
            address,
            egress,
            pinned
        }),
        (name(), any::<bool>()).prop_map(|(node, drained)| Event::Drained { node, drained }),
        Just(Event::Settings),
        mode().prop_map(|mode| Event::AdoptionBegun { mode }),
        conflict().prop_map(Event::Conflict),
        any::<u64>().prop_map(|conflicts| Event::AdoptionEnded { conflicts }),
    ]
    .boxed()
}

pub fn change() -> BoxedStrategy<Change> {
    let command = (text(), text(), text()).prop_map(|(name, object, source)| Cause::Command { name, object, source });
    let cause = prop_oneof![command, Just(Cause::Deadline)];
    (any::<(u64, u64, u64)>(), cause, event())
        .prop_map(|((revision, index, at), cause, event)| Change { revision, index, at, cause, event })
        .boxed()
}

fn pool_row() -> BoxedStrategy<PoolRow> {
    let wait = of((any::<u64>(), waiting()));
    (source(), put_pool(), vec(range(), 0..3), wait, stamp(), stamp())
        .prop_map(|(source, wanted, ranges, waiting, stamp, used)| PoolRow {
            source,
            wanted,
            ranges,
            waiting,
            stamp,
            used,
        })
        .boxed()
}

fn reservation_row() -> BoxedStrategy<ReservationRow> {
    let wait = of((any::<u64>(), vec(waiting(), 1..3)));
    (source(), uid(), of(reserve_spec()), retention(), wait, stamp())
        .prop_map(|(source, uid, spec, when_deleted, waiting, stamp)| ReservationRow {
            source,
            uid,
            spec,
            when_deleted,
            waiting,
            stamp,
        })
        .boxed()
}

fn egress_row() -> BoxedStrategy<(Key, Row)> {
    let item = (of(name()), of(address()), of(address()), of((any::<u64>(), waiting())))
        .prop_map(|(pool, asked, chosen, waiting)| EgressItemRow { pool, asked, chosen, waiting });
    (name(), source(), uid(), any::<(i64, u64, bool)>(), vec(item, 0..3), text(), stamp())
        .prop_map(|(name, source, uid, (seconds, revision, plural), items, rest, stamp)| {
            let created = CreationKey { seconds, revision, name: name.clone() };
            (Key::Egress(name), Row::Egress(EgressRow { source, uid, created, plural, items, rest, stamp }))
        })
        .boxed()
}

fn ordinal_row() -> BoxedStrategy<OrdinalRow> {
    let bound = (pod(), vec(name(), 0..3), source()).prop_map(|(pod, pools, source)| BoundPod { pod, pools, source });
    (of(bound), any::<Option<u64>>(), stamp(), of(retention()))
        .prop_map(|(pod, retained_until, stamp, left)| OrdinalRow { pod, retained_until, stamp, left })
        .boxed()
}

fn node_row() -> BoxedStrategy<NodeRow> {
    (source(), uid(), labels(), any::<(bool, Option<u32>, bool)>(), stamp())
        .prop_map(|(source, uid, labels, (ready, capacity, drained), stamp)| NodeRow {
            source,
            uid,
            labels,
            ready,
            capacity,
            drained,
            stamp,
        })
        .boxed()
}

/// The rows of which there is one.
fn single_row() -> BoxedStrategy<(Key, Row)> {
    let clock = any::<(u64, u64, u64)>()
        .prop_map(|(revision, time, placements)| (Key::Clock, Row::Clock(Clock { revision, time, placements })));
    let settings =
        (policy(), any::<(u32, u64, u64)>()).prop_map(|(policy, (default_capacity, history_rows, history_age))| {
            let row = Settings { policy, default_capacity, history_rows, history_age };
            (Key::Settings, Row::Settings(row))
        });
    let others = proptest::collection::btree_set(any::<u64>(), 0..3);
    let adoption = (mode(), any::<(bool, u64)>(), vec(conflict(), 0..3), others, stamp()).prop_map(
        |(mode, (complete, conflicts_total), conflicts, others, stamp)| {
            let row = AdoptionRow { mode, complete, conflicts, conflicts_total, others, stamp };
            (Key::Adoption, Row::Adoption(row))
        },
    );
    prop_oneof![clock, settings, adoption].boxed()
}

pub fn row() -> BoxedStrategy<(Key, Row)> {
    let retired = (vec(range(), 0..3), any::<u64>(), stamp()).prop_map(|(ranges, cool_down, stamp)| RetiredRow {
        ranges,
        cool_down,
        stamp,
    });
    let grant = (pool(), holder(), stamp()).prop_map(|(pool, holder, stamp)| GrantRow { pool, holder, stamp });
    let cooling = (any::<u64>(), holder()).prop_map(|(until, former)| CoolingRow { until, former });
    let placement = (name(), name(), any::<bool>(), stamp()).prop_map(|(egress, node, pinned, stamp)| PlacementRow {
        egress,
        node,
        pinned,
        stamp,
    });
    prop_oneof![
        single_row(),
        pool_row().prop_map(|row| (Key::Pool(row.wanted.pool.clone()), Row::Pool(row))),
        (pool(), retired).prop_map(|(id, row)| (Key::Retired(id), Row::Retired(row))),
        (address(), grant).prop_map(|(address, row)| (Key::Grant(address), Row::Grant(row))),
        (address(), cooling).prop_map(|(address, row)| (Key::Cooling(address), Row::Cooling(row))),
        (stateful_set(), reservation_row()).prop_map(|(id, row)| (Key::Reservation(id), Row::Reservation(row))),
        (stateful_set(), any::<u32>(), ordinal_row())
            .prop_map(|(id, ordinal, row)| (Key::Ordinal(id, ordinal), Row::Ordinal(row))),
        egress_row(),
        (address(), placement).prop_map(|(address, row)| (Key::Placement(address), Row::Placement(row))),
        (name(), node_row()).prop_map(|(name, row)| (Key::Node(name), Row::Node(row))),
    ]
    .boxed()
}
