//! The ledger's objects as messages: what is recorded, and what the ledger derives from it.

use std::collections::BTreeSet;
use std::ops::Bound;

use holdfast_api::v1;
use holdfast_statemachine::command::StatefulSetId;
use holdfast_statemachine::ledger::{Holding, Usage};
use holdfast_statemachine::row::{EgressRow, Holder, NodeRow, ReservationRow};
use holdfast_statemachine::{Family, Ledger, Name, PoolId, Range, address};

use crate::wire::row::{
    cooling_message, egress_message, grant_message, node_message, placement_message, reservation_message,
    retired_message,
};
use crate::wire::{Wire, messages};

/// The most blocks that a reservation lists.
const BLOCKS_MAX: usize = 1_000;

/// A pool, declared or retired or both; `None` if there is neither.
pub fn pool(ledger: &Ledger, id: &PoolId) -> Option<v1::Pool> {
    let declared = ledger.tables().pools().get(id);
    let retired = ledger.tables().retired().get(id);
    if declared.is_none() && retired.is_none() {
        return None;
    }
    let usage = ledger.usage(id).unwrap_or_default();
    Some(v1::Pool {
        id: Some(id.to_message()),
        declared: declared.map(Wire::to_message),
        usage: declared.map(|_| usage_message(usage)),
        retired: retired.map(|row| retired_message(id, row)),
        retired_held: usage.retired,
    })
}

fn usage_message(usage: Usage) -> v1::Usage {
    v1::Usage {
        total: usage.total.to_string(),
        used: usage.used.to_string(),
        free: usage.free.to_string(),
        cooling: usage.cooling.to_string(),
        headroom: usage.headroom.to_string(),
        largest_free_run: usage.largest_free_run.to_string(),
    }
}

/// What is known of one address.
pub fn grant(ledger: &Ledger, address: std::net::IpAddr) -> v1::GetGrantResponse {
    let tables = ledger.tables();
    let grant = tables.grants().get(&address);
    let bound = grant.and_then(|grant| match &grant.holder {
        Holder::Ordinal { id, ordinal, .. } => tables.ordinals().get(&(id.clone(), *ordinal)),
        _ => None,
    });
    let mut pools = tables.pools().iter();
    let inside = pools.find(|(_, row)| row.ranges.iter().any(|range| range.contains(address)));
    v1::GetGrantResponse {
        header: None,
        address: address.to_string(),
        grant: grant.map(|row| grant_message(address, row)),
        cooling: tables.cooling().get(&address).map(|row| cooling_message(address, row)),
        pool: inside.map(|(id, _)| id.to_message()),
        placement: tables.placements().get(&address).map(|row| placement_message(address, row)),
        pod: bound.and_then(|row| row.pod.as_ref()).map(Wire::to_message),
    }
}

/// A reservation without its ordinals.
pub fn reservation(ledger: &Ledger, id: &StatefulSetId, row: &ReservationRow) -> v1::Reservation {
    let holdings = ledger.holdings(id);
    let pods = ordinal_rows(ledger, id, None).filter(|(_, row)| row.pod.is_some()).count();
    let mut blocks = blocks(&holdings);
    let block_count = blocks.len();
    blocks.truncate(BLOCKS_MAX);
    v1::Reservation {
        row: Some(reservation_message(id, row)),
        phase: phase(row, &holdings).into(),
        addresses: number(holdings.len()),
        pods: number(pods),
        blocks,
        block_count: number(block_count),
        headroom: messages(&ledger.headroom(id)),
    }
}

fn phase(row: &ReservationRow, holdings: &[Holding]) -> v1::reservation::Phase {
    use v1::reservation::Phase;
    match (&row.spec, &row.waiting) {
        (None, _) => Phase::Releasing,
        (Some(_), None) => Phase::Granted,
        (Some(_), Some(_)) if holdings.is_empty() => Phase::Pending,
        (Some(_), Some(_)) => Phase::Partial,
    }
}

/// Runs of current addresses of consecutive ordinals, by first ordinal, IPv4 before IPv6.
fn blocks(holdings: &[Holding]) -> Vec<v1::Block> {
    struct Run<'a> {
        pool: &'a PoolId,
        range: Range,
        first_ordinal: u32,
        count: u32,
    }
    let mut runs: Vec<Run<'_>> = Vec::new();
    for family in Family::ALL {
        let mut latest: Option<Run<'_>> = None;
        for holding in holdings.iter().filter(|it| !it.former && Family::of(it.address) == family) {
            let single = Range::new(holding.address, holding.address).expect("an address is a range of one");
            latest = Some(match latest {
                Some(run)
                    if run.pool == &holding.pool
                        && run.first_ordinal.checked_add(run.count) == Some(holding.ordinal)
                        && address::offset(run.range.last(), 1) == Some(holding.address) =>
                {
                    let range = Range::new(run.range.first(), holding.address).unwrap_or(run.range);
                    Run { range, count: run.count + 1, ..run }
                }
                ended => {
                    runs.extend(ended);
                    Run { pool: &holding.pool, range: single, first_ordinal: holding.ordinal, count: 1 }
                }
            });
        }
        runs.extend(latest);
    }
    runs.sort_by_key(|run| (run.first_ordinal, run.range.family()));
    runs.iter()
        .map(|run| v1::Block {
            pool: Some(run.pool.to_message()),
            range: Some(run.range.to_message()),
            first_ordinal: run.first_ordinal,
            count: run.count,
        })
        .collect()
}

fn ordinal_rows<'a>(
    ledger: &'a Ledger,
    id: &StatefulSetId,
    after: Option<u32>,
) -> impl Iterator<Item = (u32, &'a holdfast_statemachine::row::OrdinalRow)> {
    let first = match after {
        None => Bound::Included((id.clone(), 0)),
        Some(ordinal) => Bound::Excluded((id.clone(), ordinal)),
    };
    let rows = ledger.tables().ordinals().range((first, Bound::Included((id.clone(), u32::MAX))));
    rows.map(|((_, ordinal), row)| (*ordinal, row))
}

/// At most `limit` ordinals of a reservation behind `after` that are wanted, hold an address or have a Pod.
pub fn ordinals(
    ledger: &Ledger,
    (id, row): (&StatefulSetId, &ReservationRow),
    after: Option<u32>,
    limit: usize,
) -> Vec<v1::Ordinal> {
    let holdings = ledger.holdings(id);
    let behind = |ordinal: &u32| after.is_none_or(|after| *ordinal > after);
    let wanted = row.spec.as_ref().map_or(0..0, |spec| spec.start..spec.start.saturating_add(spec.replicas));
    let from = after.map_or(wanted.start, |after| wanted.start.max(after.saturating_add(1)));
    let mut listed: BTreeSet<u32> = (from..wanted.end).filter(behind).take(limit).collect();
    let mut latest = None;
    let held = holdings.iter().map(|it| it.ordinal).filter(|ordinal| latest.replace(*ordinal) != Some(*ordinal));
    listed.extend(held.filter(behind).take(limit));
    listed.extend(ordinal_rows(ledger, id, after).map(|(ordinal, _)| ordinal).take(limit));
    let one = |ordinal: u32| {
        let row = ledger.tables().ordinals().get(&(id.clone(), ordinal));
        let first = holdings.partition_point(|it| it.ordinal < ordinal);
        let held = holdings[first..].iter().take_while(|it| it.ordinal == ordinal);
        let mut addresses: Vec<&Holding> = held.collect();
        addresses.sort_by_key(|it| (Family::of(it.address), it.former, it.address));
        v1::Ordinal {
            ordinal,
            wanted: wanted.contains(&ordinal),
            addresses: addresses.into_iter().map(|it| held_address(ledger, it)).collect(),
            pod: row.and_then(|row| row.pod.as_ref()).map(Wire::to_message),
            retained_until_ms: row.and_then(|row| row.retained_until),
            left: row.and_then(|row| row.left.as_ref()).map(Wire::to_message),
        }
    };
    listed.into_iter().take(limit).map(one).collect()
}

fn held_address(ledger: &Ledger, holding: &Holding) -> v1::ordinal::Address {
    v1::ordinal::Address {
        address: holding.address.to_string(),
        pool: Some(holding.pool.to_message()),
        former: holding.former,
        revision: ledger.tables().grants().get(&holding.address).map_or(0, |row| row.stamp.revision),
    }
}

/// An Egress with its placements.
pub fn egress(ledger: &Ledger, name: &Name, row: &EgressRow) -> v1::Egress {
    let addresses = row.items.iter().map(|item| {
        // A static Egress's addresses are its own, though none is granted.
        let address = if item.pool.is_none() { item.asked } else { item.granted() };
        let placement = address.filter(|_| item.pool.is_some()).and_then(|it| ledger.tables().placements().get(&it));
        v1::EgressAddress {
            item: Some(item.to_message()),
            address: address.map(|it| it.to_string()),
            node: placement.map(|row| row.node.to_string()),
            epoch: placement.map_or(0, |row| row.stamp.revision),
            pinned: placement.is_some_and(|row| row.pinned),
        }
    });
    v1::Egress { row: Some(egress_message(name, row)), addresses: addresses.collect() }
}

/// A Node with its load.
pub fn node(ledger: &Ledger, name: &Name, row: &NodeRow) -> v1::Node {
    let (carried, capacity) = ledger.load(name).unwrap_or_default();
    v1::Node { row: Some(node_message(name, row)), carried, capacity }
}

/// What a Node carries, ascending.
pub fn carried(ledger: &Ledger, node: &Name) -> Vec<v1::PlacementRow> {
    let placements = ledger.tables().placements().iter().filter(|(_, row)| row.node == *node);
    placements.map(|(address, row)| placement_message(*address, row)).collect()
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
