//! Egress.

use std::net::IpAddr;

use holdfast_statemachine::row::{EgressRow, PlacementRow};
use holdfast_statemachine::{Name, Tables};

use super::status::{Condition, EgressAddress, EgressStatus, Holdfast, waits};
use super::{Facts, Metadata, Whole, seconds};
use crate::objects::{EgressSpec, Kind};
use crate::rest::Rest;

pub(super) fn whole(
    tables: &Tables,
    name: &Name,
    row: &EgressRow,
    cluster: &str,
    facts: Facts<'_>,
) -> Whole<EgressSpec, EgressStatus> {
    let mut metadata = Metadata::new(name, &row.uid);
    // Revision 0 says that the seconds are those of the object's own timestamp.
    metadata.creation_timestamp = (row.created.revision == 0).then(|| seconds(row.created.seconds));
    Whole::new(Kind::Egress, metadata, spec(row), status(tables, row, cluster, facts))
}

/// `spec` in the form in which it was written, with the addresses that the ledger chose.
pub fn spec(row: &EgressRow) -> EgressSpec {
    let Rest { applied_to, bandwidth } = Rest::from_text(&row.rest);
    let text = |address: IpAddr| Name::from(address.to_string());
    let addresses = row.items.iter().map(|item| item.asked.or(item.chosen).map(text));
    let pools = row.items.iter().filter_map(|item| item.pool.clone());
    let mut spec = EgressSpec {
        applied_to,
        egress_ip: None,
        egress_ips: Vec::new(),
        external_ip_pool: None,
        external_ip_pools: Vec::new(),
        bandwidth,
    };
    if row.plural {
        spec.external_ip_pools = pools.collect();
        spec.egress_ips = addresses.map(Option::unwrap_or_default).collect();
        // Nothing known is written as nothing, not as a list of empty texts.
        if spec.egress_ips.iter().all(|address| address.is_empty()) {
            spec.egress_ips.clear();
        }
    } else {
        spec.egress_ip = addresses.take(1).flatten().next();
        spec.external_ip_pool = pools.take(1).next();
    }
    spec
}

/// `status`, whose first placed address stands for the whole in the singular fields.
pub fn status(tables: &Tables, row: &EgressRow, cluster: &str, facts: Facts<'_>) -> EgressStatus {
    let holdfast = Holdfast { cluster: cluster.into(), index: row.stamp.index };
    if row.items.iter().all(|item| item.pool.is_none()) {
        return EgressStatus { holdfast, ..EgressStatus::default() };
    }
    let granted: Vec<(IpAddr, Option<&PlacementRow>)> = row
        .items
        .iter()
        .filter_map(|item| item.granted().map(|address| (address, tables.placements().get(&address))))
        .collect();
    let first = granted.iter().find_map(|(address, placement)| Some((address, (*placement)?)));
    let addresses = granted.iter().map(|(ip, placement)| EgressAddress {
        ip: *ip,
        node: placement.map(|placement| placement.node.clone()).unwrap_or_default(),
    });
    EgressStatus {
        egress_node: first.map(|(_, placement)| placement.node.clone()).unwrap_or_default(),
        egress_ip: first.map(|(address, _)| address.to_string()).unwrap_or_default(),
        egress_ips: addresses.collect(),
        conditions: vec![allocated(row), assigned(row, &granted, facts)],
        holdfast,
    }
}

fn allocated(row: &EgressRow) -> Condition {
    let total = row.items.len();
    let done = row.items.iter().filter(|item| item.granted().is_some()).count();
    if done == total {
        let message = if total == 1 { "the address is allocated".to_owned() } else { format!("{done} of {total}") };
        return Condition::new("IPAllocated", true, row.stamp.at, "Allocated", message);
    }
    let why = row.items.iter().filter_map(|item| item.waiting.as_ref().map(|(_, waiting)| waits(waiting)));
    Condition::new("IPAllocated", false, row.stamp.at, "AllocationError", counted(done, total, why))
}

fn assigned(row: &EgressRow, granted: &[(IpAddr, Option<&PlacementRow>)], facts: Facts<'_>) -> Condition {
    let total = row.items.len();
    let placed: Vec<&PlacementRow> = granted.iter().filter_map(|(_, placement)| *placement).collect();
    let at = placed.iter().map(|placement| placement.stamp.at).max().unwrap_or(row.stamp.at);
    if placed.len() == total {
        let nodes: Vec<&str> = placed.iter().map(|placement| &*placement.node).collect();
        let s = if nodes.len() == 1 { "" } else { "s" };
        let message = format!("decided for Node{s} {}, not confirmed by an agent", nodes.join(", "));
        return Condition::new("IPAssigned", true, at, "Assigned", message);
    }
    let homeless = granted.iter().filter(|(_, placement)| placement.is_none()).map(|(address, _)| {
        let why = (facts.unplaced)(*address);
        let colon = if why.is_empty() { "" } else { ": " };
        format!("no Node can carry {address}{colon}{why}")
    });
    let without = total - granted.len();
    let unallocated = (without > 0)
        .then(|| if total == 1 { "no address is allocated".to_owned() } else { format!("{without} not allocated") });
    Condition::new(
        "IPAssigned",
        false,
        row.stamp.at,
        "AssignmentError",
        counted(placed.len(), total, homeless.chain(unallocated)),
    )
}

/// `2 of 3; why; why`, without the count where there is but one.
fn counted(done: usize, total: usize, why: impl Iterator<Item = String>) -> String {
    let count = (total > 1).then(|| format!("{done} of {total}"));
    count.into_iter().chain(why).collect::<Vec<_>>().join("; ")
}
