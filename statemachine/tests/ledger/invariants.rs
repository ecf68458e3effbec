//! The ledger's invariants, each judged by the rows alone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use holdfast_statemachine::change::MoveReason;
use holdfast_statemachine::command::{Reserve, ReserveSpec, Retention, StatefulSetId};
use holdfast_statemachine::row::{EgressItemRow, Holder, OrdinalRow, Policy};
use holdfast_statemachine::{Action, Change, Command, Entry, Event, Family, Key, Name, PoolId, Range, Row};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::model::Model;

type Rows = BTreeMap<Key, Row>;
type Held = Result<(), TestCaseError>;

/// All of them, after one entry.
pub fn hold(before: &Rows, after: &Rows, entry: &Entry, changes: &[Change]) -> Held {
    one_holder(after)?;
    one_current_address(after)?;
    ordinals_keep_their_addresses(after, changes)?;
    what_is_left_comes_to_an_end(after)?;
    a_successor_keeps_nothing_it_does_not_want(before, after, entry)?;
    capacity(after)?;
    placements_are_of_granted_addresses(after)?;
    held_addresses_lie_in_their_pools(after)?;
    pools_do_not_overlap(after)?;
    nothing_waits_in_vain(after)?;
    only_what_must_moves(before, entry, changes)?;
    revisions_have_no_gaps(before, after, changes)
}

fn ranges_of<'a>(rows: &'a Rows, pool: &PoolId) -> Vec<&'a Range> {
    let mut ranges = Vec::new();
    if let Some(Row::Pool(row)) = rows.get(&Key::Pool(pool.clone())) {
        ranges.extend(&row.ranges);
    }
    if let Some(Row::Retired(row)) = rows.get(&Key::Retired(pool.clone())) {
        ranges.extend(&row.ranges);
    }
    ranges
}

fn grants(rows: &Rows) -> impl Iterator<Item = (IpAddr, &PoolId, &Holder)> {
    rows.iter().filter_map(|(key, row)| match (key, row) {
        (Key::Grant(address), Row::Grant(row)) => Some((*address, &row.pool, &row.holder)),
        _ => None,
    })
}

/// 1. An address has at most one holder: what an Egress says that it holds is its own, and none other's.
fn one_holder(rows: &Rows) -> Held {
    let mut said = BTreeSet::new();
    for (key, row) in rows {
        let (Key::Egress(name), Row::Egress(row)) = (key, row) else { continue };
        for address in row.items.iter().filter_map(EgressItemRow::granted) {
            prop_assert!(said.insert(address), "{address} is said to be held twice");
            let held = grants(rows)
                .any(|(held, _, holder)| held == address && *holder == Holder::Egress { name: name.clone() });
            prop_assert!(held, "Egress {name} says that it holds {address}");
        }
    }
    let of_egresses = grants(rows).filter(|(_, _, holder)| matches!(holder, Holder::Egress { .. })).count();
    prop_assert_eq!(of_egresses, said.len(), "an Egress holds what no item of it says");
    Ok(())
}

/// 1. An ordinal has one current address of a family, and a cooling address is not held.
fn one_current_address(rows: &Rows) -> Held {
    let mut current = BTreeSet::new();
    for (address, _, holder) in grants(rows) {
        if let Holder::Ordinal { id, ordinal, former: false } = holder {
            let first = current.insert((id.clone(), *ordinal, Family::of(address)));
            prop_assert!(first, "ordinal {ordinal} of {id} has two current addresses");
        }
        prop_assert!(!rows.contains_key(&Key::Cooling(address)), "{address} is held and cools");
    }
    Ok(())
}

/// 2. An ordinal keeps its current address while it is wanted, bound or retained, and its pool is named.
fn ordinals_keep_their_addresses(after: &Rows, changes: &[Change]) -> Held {
    for change in changes {
        let Event::Released { address, pool, holder: Holder::Ordinal { id, ordinal, former: false }, .. } =
            &change.event
        else {
            continue;
        };
        let later = changes.iter().any(|other| other.revision > change.revision && touches(&other.event, id));
        let Some(Row::Reservation(row)) = after.get(&Key::Reservation(id.clone())) else { continue };
        let Some(spec) = row.spec.as_ref().filter(|_| !later) else { continue };
        let wanted = *ordinal >= spec.start && ordinal - spec.start < spec.replicas && spec.pools.contains(&pool.name);
        prop_assert!(!wanted, "{address} was taken from ordinal {ordinal} of {id}, which is wanted");
        let bound = match after.get(&Key::Ordinal(id.clone(), *ordinal)) {
            Some(Row::Ordinal(row)) => row.pod.is_some() || row.retained_until.is_some(),
            _ => false,
        };
        prop_assert!(!bound, "{address} was taken from ordinal {ordinal} of {id}, which is bound or retained");
    }
    Ok(())
}

fn ordinals(rows: &Rows) -> impl Iterator<Item = (&StatefulSetId, u32, &OrdinalRow)> {
    rows.iter().filter_map(|(key, row)| match (key, row) {
        (Key::Ordinal(id, ordinal), Row::Ordinal(row)) => Some((id, *ordinal, row)),
        _ => None,
    })
}

fn wants(spec: &ReserveSpec, ordinal: u32) -> bool {
    !spec.pools.is_empty() && ordinal >= spec.start && ordinal - spec.start < spec.replicas
}

/// What a former StatefulSet left is not wanted, and without a Pod it is kept for a time only.
fn what_is_left_comes_to_an_end(rows: &Rows) -> Held {
    for (id, ordinal, row) in ordinals(rows).filter(|(_, _, row)| row.left.is_some()) {
        let Some(Row::Reservation(reservation)) = rows.get(&Key::Reservation(id.clone())) else {
            return Err(TestCaseError::fail(format!("ordinal {ordinal} is left of {id}, which is not there")));
        };
        let wanted = reservation.spec.as_ref().is_some_and(|spec| wants(spec, ordinal));
        prop_assert!(!wanted, "ordinal {ordinal} of {id} is left and wanted");
        let ends = row.pod.is_some() || row.retained_until.is_some();
        prop_assert!(
            ends && row.left != Some(Retention::Retain),
            "ordinal {ordinal} of {id} is left for ever: {row:?}"
        );
    }
    Ok(())
}

/// A Reserve of another UID, alone in its entry: of what it does not want, all that has a Pod is left, and what has
/// none is gone or kept for a time.
fn a_successor_keeps_nothing_it_does_not_want(before: &Rows, after: &Rows, entry: &Entry) -> Held {
    let [Command { action: Action::Reserve(Reserve { id, uid, spec }), .. }] = &entry.commands[..] else {
        return Ok(());
    };
    let (Some(Row::Reservation(former)), Some(Row::Reservation(now))) =
        (before.get(&Key::Reservation(id.clone())), after.get(&Key::Reservation(id.clone())))
    else {
        return Ok(());
    };
    let taken_over = now.uid == *uid && now.spec.as_ref() == Some(spec) && former.uid != *uid;
    if !taken_over || former.uid.is_empty() {
        return Ok(());
    }
    let unwanted = ordinals(after).filter(|(of, ordinal, _)| *of == id && !wants(spec, *ordinal));
    for (_, ordinal, row) in unwanted {
        prop_assert!(row.left.is_some(), "ordinal {ordinal} of {id} is kept by one that does not want it: {row:?}");
    }
    for (of, ordinal, row) in ordinals(before).filter(|(of, ..)| *of == id) {
        let gone = !after.contains_key(&Key::Ordinal(of.clone(), ordinal));
        prop_assert!(!(gone && row.pod.is_some()), "ordinal {ordinal} of {id} is gone, and its Pod is not");
    }
    Ok(())
}

fn touches(event: &Event, id: &StatefulSetId) -> bool {
    match event {
        Event::Bound { id: of, .. } | Event::Unbound { id: of, .. } | Event::Retained { id: of, .. } => of == id,
        Event::Put(object) | Event::Deleted(object) => {
            *object == holdfast_statemachine::command::ObjectId::Reservation(id.clone())
        }
        _ => false,
    }
}

/// 3. A Node never carries more than its capacity. Under `consistent-hash` too: an entry ends with a recomputation.
fn capacity(rows: &Rows) -> Held {
    let Some(Row::Settings(settings)) = rows.get(&Key::Settings) else {
        return Err(TestCaseError::fail("no settings"));
    };
    let mut loads: BTreeMap<&Name, u32> = BTreeMap::new();
    for row in rows.values() {
        if let Row::Placement(row) = row {
            *loads.entry(&row.node).or_default() += 1;
        }
    }
    for (node, load) in loads {
        let Some(Row::Node(row)) = rows.get(&Key::Node(node.clone())) else {
            return Err(TestCaseError::fail(format!("Node {node} is not there and carries {load}")));
        };
        let capacity = row.capacity.unwrap_or(settings.default_capacity);
        prop_assert!(load <= capacity, "Node {node} carries {load} of {capacity}");
    }
    Ok(())
}

/// 4. An Egress address is on at most one Node: its row's key says so, and its Egress holds it.
fn placements_are_of_granted_addresses(rows: &Rows) -> Held {
    for (key, row) in rows {
        let (Key::Placement(address), Row::Placement(row)) = (key, row) else { continue };
        let Some(Row::Egress(egress)) = rows.get(&Key::Egress(row.egress.clone())) else {
            return Err(TestCaseError::fail(format!("{address} is placed for no Egress")));
        };
        let granted = egress.items.iter().any(|item| item.granted() == Some(*address));
        prop_assert!(granted, "{address} is placed for Egress {}, which does not hold it", row.egress);
    }
    Ok(())
}

/// 5. Every held address lies in its pool's ranges, or in a retired one's. 8. So used + free = total.
fn held_addresses_lie_in_their_pools(rows: &Rows) -> Held {
    for (address, pool, holder) in grants(rows) {
        let ranges = ranges_of(rows, pool);
        let inside = ranges.iter().filter(|range| range.contains(address)).count();
        prop_assert_eq!(inside, 1, "{} of {}, held by {}, lies in {} ranges", address, pool, holder, inside);
    }
    for (key, row) in rows {
        let (Key::Retired(pool), Row::Retired(row)) = (key, row) else { continue };
        let held = grants(rows).any(|(address, of, _)| of == pool && row.ranges.iter().any(|r| r.contains(address)));
        prop_assert!(held, "{pool} is retired and holds nothing");
    }
    Ok(())
}

/// No address is in two pools, whichever is retired.
fn pools_do_not_overlap(rows: &Rows) -> Held {
    let mut all: Vec<Range> = Vec::new();
    for row in rows.values() {
        match row {
            Row::Pool(row) => all.extend(&row.ranges),
            Row::Retired(row) => all.extend(&row.ranges),
            _ => {}
        }
    }
    for (i, range) in all.iter().enumerate() {
        let other = all[..i].iter().find(|other| other.intersection(*range).is_some());
        prop_assert!(other.is_none(), "{range} and {other:?} are both in force");
    }
    Ok(())
}

/// 6. Nothing waits that could be met.
fn nothing_waits_in_vain(rows: &Rows) -> Held {
    let model = Model::from_rows(rows.clone());
    prop_assert!(!model.could_meet(), "something waits that could be met");
    Ok(())
}

/// 7. Under `sticky` and `spread` nothing moves but what the entry made impossible or was asked to move.
fn only_what_must_moves(before: &Rows, entry: &Entry, changes: &[Change]) -> Held {
    let hash = |rows: &Rows| match rows.get(&Key::Settings) {
        Some(Row::Settings(settings)) => settings.policy == Policy::ConsistentHash,
        _ => false,
    };
    let may_recompute =
        hash(before) || entry.commands.iter().any(|command| matches!(command.action, Action::PutSettings(_)));
    let asked = |test: fn(&Action) -> bool| entry.commands.iter().any(|command| test(&command.action));
    for change in changes {
        let (address, from, why) = match &change.event {
            Event::Placed { address, from: Some(from), why, .. } | Event::Unplaced { address, from, why, .. } => {
                (address, from, *why)
            }
            _ => continue,
        };
        let allowed = match why {
            MoveReason::Pin => asked(|action| matches!(action, Action::Pin(_))),
            MoveReason::Rebalance => asked(|action| matches!(action, Action::Rebalance(_))),
            MoveReason::NodeDrained => asked(|action| matches!(action, Action::Drain(_))),
            MoveReason::Recomputed => may_recompute,
            MoveReason::Homeless => false,
            MoveReason::NodeNotReady
            | MoveReason::NodeGone
            | MoveReason::NodeMismatch
            | MoveReason::OverCapacity
            | MoveReason::AddressGone => true,
        };
        prop_assert!(allowed || may_recompute, "{address} left Node {from}: {why:?}");
    }
    Ok(())
}

/// Every change takes the next revision.
fn revisions_have_no_gaps(before: &Rows, after: &Rows, changes: &[Change]) -> Held {
    let revision = |rows: &Rows| match rows.get(&Key::Clock) {
        Some(Row::Clock(clock)) => clock.revision,
        _ => 0,
    };
    for (expected, change) in (revision(before) + 1..).zip(changes) {
        prop_assert_eq!(change.revision, expected);
    }
    prop_assert_eq!(revision(after), revision(before) + changes.len() as u64);
    Ok(())
}
