//! Why something is not as wanted, as data.

use std::net::IpAddr;

use holdfast_api::v1;
use holdfast_statemachine::command::{ObjectId, StatefulSetId};
use holdfast_statemachine::outcome::{Ineligible, Waiting};
use holdfast_statemachine::row::EgressRow;
use holdfast_statemachine::{Ledger, Name, PoolId, PoolKind, Revision};
use tonic::Status;

use super::{status, views};
use crate::wire::row::placement_message;
use crate::wire::{Wire, messages};

/// What is to be explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A pool.
    Pool(PoolId),
    /// A reservation.
    Reservation(StatefulSetId),
    /// An Egress, all its addresses.
    Egress(Name),
    /// One Egress address.
    Address(IpAddr),
}

/// Explains it as things are now.
pub fn explain(ledger: &Ledger, subject: &Subject) -> Result<Vec<v1::Explanation>, Status> {
    match subject {
        Subject::Pool(id) => {
            let shown = views::pool(ledger, id).ok_or_else(|| status::not_found("pool", id))?;
            let waiting = ledger.tables().pools().get(id).and_then(|row| row.waiting.as_ref());
            let mut explanation = about(&ObjectId::Pool(id.clone()));
            explanation.waiting = waiting.map(|(since, waiting)| wait(ledger, *since, std::slice::from_ref(waiting)));
            explanation.pools = vec![shown];
            Ok(vec![explanation])
        }
        Subject::Reservation(id) => {
            let row = ledger.tables().reservations().get(id);
            let row = row.ok_or_else(|| status::not_found("reservation", id))?;
            let named = row.spec.iter().flat_map(|spec| &spec.pools);
            let ids = named.map(|name| PoolId { kind: PoolKind::IpPool, name: name.clone() });
            let mut explanation = about(&ObjectId::Reservation(id.clone()));
            explanation.waiting = row.waiting.as_ref().map(|(since, waiting)| wait(ledger, *since, waiting));
            explanation.pools = ids.filter_map(|id| views::pool(ledger, &id)).collect();
            Ok(vec![explanation])
        }
        Subject::Egress(name) => {
            let row = ledger.tables().egresses().get(name);
            let row = row.ok_or_else(|| status::not_found("Egress", name))?;
            Ok((0..row.items.len()).map(|item| egress_item(ledger, name, row, item)).collect())
        }
        Subject::Address(address) => {
            let unknown = || status::not_found("Egress address", address);
            let grant = ledger.tables().grants().get(address).ok_or_else(unknown)?;
            let holdfast_statemachine::row::Holder::Egress { name } = &grant.holder else { return Err(unknown()) };
            let row = ledger.tables().egresses().get(name).ok_or_else(unknown)?;
            let item = row.items.iter().position(|item| item.granted() == Some(*address)).ok_or_else(unknown)?;
            Ok(vec![egress_item(ledger, name, row, item)])
        }
    }
}

fn about(object: &ObjectId) -> v1::Explanation {
    v1::Explanation { object: Some(object.to_message()), ..v1::Explanation::default() }
}

/// A wait with the numbers as they are now.
fn wait(ledger: &Ledger, since: Revision, waiting: &[Waiting]) -> v1::Wait {
    let refreshed: Vec<Waiting> = waiting.iter().map(|waiting| ledger.refreshed(waiting)).collect();
    v1::Wait { since_revision: since, waiting: messages(&refreshed) }
}

fn egress_item(ledger: &Ledger, name: &Name, row: &EgressRow, position: usize) -> v1::Explanation {
    let item = &row.items[position];
    let mut explanation = about(&ObjectId::Egress(name.clone()));
    explanation.item = u32::try_from(position).ok();
    explanation.waiting = item.waiting.as_ref().map(|(since, it)| wait(ledger, *since, std::slice::from_ref(it)));
    let Some(pool) = &item.pool else {
        explanation.address = item.asked.map(|address| address.to_string());
        return explanation;
    };
    let id = PoolId { kind: PoolKind::ExternalIpPool, name: pool.clone() };
    explanation.pools = views::pool(ledger, &id).into_iter().collect();
    let Some(address) = item.granted() else { return explanation };
    explanation.address = Some(address.to_string());
    let placement = ledger.tables().placements().get(&address);
    explanation.placement = placement.map(|row| placement_message(address, row));
    if let Some(nodes) = ledger.explain_address(address) {
        explanation.counts = [
            (Ineligible::NotReady, nodes.not_ready),
            (Ineligible::NotLinux, nodes.not_linux),
            (Ineligible::SelectorMismatch, nodes.selector_mismatch),
            (Ineligible::Drained, nodes.drained),
            (Ineligible::AtCapacity { carried: 0, capacity: 0 }, nodes.at_capacity),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(test, count)| v1::explanation::ReasonCount { reason: test.to_message().reason, nodes: count })
        .collect();
        let one = |(node, why): &(Name, Option<Ineligible>)| v1::explanation::NodeReason {
            node: node.to_string(),
            why: why.as_ref().map(Wire::to_message),
        };
        explanation.nodes = nodes.nodes.iter().map(one).collect();
    }
    explanation
}
