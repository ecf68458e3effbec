//! Egress.

use std::net::IpAddr;

use holdfast_statemachine::row::{EgressRow, PlacementRow};
use holdfast_statemachine::{Ledger, Name};

use super::status::{Condition, EgressAddress, EgressStatus, Holdfast};
use super::{Metadata, Whole, seconds};
use crate::objects::{EgressSpec, Kind};
use crate::rest::Rest;

pub(super) fn whole(ledger: &Ledger, name: &Name, row: &EgressRow, cluster: &str) -> Whole<EgressSpec, EgressStatus> {
    let mut metadata = Metadata::new(name, &row.uid);
    // Revision 0 says that the seconds are those of the object's own timestamp.
    metadata.creation_timestamp = (row.created.revision == 0).then(|| seconds(row.created.seconds));
    Whole::new(Kind::Egress, metadata, spec(row), status(ledger, row, cluster))
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
pub fn status(ledger: &Ledger, row: &EgressRow, cluster: &str) -> EgressStatus {
    let placements = ledger.tables().placements();
    let holdfast = Holdfast { cluster: cluster.into(), index: row.stamp.index };
    if row.items.iter().all(|item| item.pool.is_none()) {
        return EgressStatus { holdfast, ..EgressStatus::default() };
    }
    let granted: Vec<(IpAddr, Option<&PlacementRow>)> =
        row.items.iter().filter_map(|item| item.granted().map(|address| (address, placements.get(&address)))).collect();
    let first = granted.iter().find_map(|(address, placement)| Some((address, (*placement)?)));
    let addresses = granted.iter().map(|(ip, placement)| EgressAddress {
        ip: *ip,
        node: placement.map(|placement| placement.node.clone()).unwrap_or_default(),
    });
    EgressStatus {
        egress_node: first.map(|(_, placement)| placement.node.clone()).unwrap_or_default(),
        egress_ip: first.map(|(address, _)| address.to_string()).unwrap_or_default(),
        egress_ips: addresses.collect(),
        conditions: vec![allocated(ledger, row), assigned(ledger, row, &granted)],
        holdfast,
    }
}

fn allocated(ledger: &Ledger, row: &EgressRow) -> Condition {
    let total = row.items.len();
    let done = row.items.iter().filter(|item| item.granted().is_some()).count();
    if done == total {
        let message = if total == 1 { "the address is allocated".to_owned() } else { format!("{done} of {total}") };
        return Condition::new("IPAllocated", true, row.stamp.at, "Allocated", message);
    }
    let waiting = row.items.iter().filter_map(|item| item.waiting.as_ref());
    let why = waiting.map(|(_, waiting)| format!("waits: {}", ledger.refreshed(waiting)));
    Condition::new("IPAllocated", false, row.stamp.at, "AllocationError", counted(done, total, why))
}

fn assigned(ledger: &Ledger, row: &EgressRow, granted: &[(IpAddr, Option<&PlacementRow>)]) -> Condition {
    let total = row.items.len();
    let placed: Vec<&PlacementRow> = granted.iter().filter_map(|(_, placement)| *placement).collect();
    let at = placed.iter().map(|placement| placement.stamp.at).max().unwrap_or(row.stamp.at);
    if placed.len() == total {
        let nodes: Vec<&str> = placed.iter().map(|placement| &*placement.node).collect();
        let s = if nodes.len() == 1 { "" } else { "s" };
        let message = format!("decided for Node{s} {}, not confirmed by an agent", nodes.join(", "));
        return Condition::new("IPAssigned", true, at, "Assigned", message);
    }
    let homeless = granted.iter().filter(|(_, placement)| placement.is_none());
    let homeless = homeless.map(|(address, _)| unplaced(ledger, *address));
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

/// Why no Node carries an address: how many fail which test.
fn unplaced(ledger: &Ledger, address: IpAddr) -> String {
    let why = ledger.explain_address(address).unwrap_or_default();
    let tests = [
        (why.not_ready, "NotReady"),
        (why.not_linux, "NotLinux"),
        (why.selector_mismatch, "SelectorMismatch"),
        (why.drained, "Drained"),
        (why.at_capacity, "AtCapacity"),
        (why.eligible, "NotOnRing"),
    ];
    let counted = tests.iter().filter(|(count, _)| *count > 0).map(|(count, test)| format!("{count} {test}"));
    let counted = counted.collect::<Vec<_>>();
    let why = if counted.is_empty() { "there is none".to_owned() } else { counted.join(", ") };
    format!("no Node can carry {address}: {why}")
}

/// `2 of 3; why; why`, without the count where there is but one.
fn counted(done: usize, total: usize, why: impl Iterator<Item = String>) -> String {
    let count = (total > 1).then(|| format!("{done} of {total}"));
    count.into_iter().chain(why).collect::<Vec<_>>().join("; ")
}
