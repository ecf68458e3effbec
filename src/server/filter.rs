//! What a change concerns.

use std::net::IpAddr;

use holdfast_api::v1;
use holdfast_statemachine::adopt::Conflict;
use holdfast_statemachine::command::{ObjectId, StatefulSetId};
use holdfast_statemachine::row::Holder;
use holdfast_statemachine::{Event, Name, PoolId};

use crate::wire::{self, Invalid, Wire, Within};

/// A change is wanted if it concerns this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// An address.
    Address(IpAddr),
    /// An object, or an address of it.
    Object(ObjectId),
    /// A named owner.
    Named(Name),
}

impl Filter {
    /// What a request asks for.
    pub fn of(message: v1::WatchFilter) -> Result<Filter, Invalid> {
        use v1::watch_filter::Concerns;
        Ok(match wire::required("concerns", message.concerns)? {
            Concerns::Address(address) => Filter::Address(wire::address("address", &address)?),
            Concerns::Object(object) => Filter::Object(ObjectId::from_message(object).within("object")?),
            Concerns::Named(name) => Filter::Named(wire::name("named", name)?),
        })
    }

    /// Whether an event concerns it.
    pub fn matches(&self, event: &Event) -> bool {
        match self {
            Filter::Address(address) => address_of(event) == Some(*address),
            Filter::Named(name) => {
                holders(event).any(|holder| matches!(holder, Holder::Named { name: held, .. } if held == name))
            }
            Filter::Object(object) => declared(event) == Some(object) || touches(event, object),
        }
    }
}

/// The address that an event is about, if it is about one.
fn address_of(event: &Event) -> Option<IpAddr> {
    match event {
        Event::Granted { address, .. }
        | Event::Transferred { address, .. }
        | Event::Released { address, .. }
        | Event::Cooled { address }
        | Event::Placed { address, .. }
        | Event::Unplaced { address, .. }
        | Event::Pinned { address, .. }
        | Event::Conflict(Conflict { address, .. }) => Some(*address),
        _ => None,
    }
}

/// The object whose declaration an event is about.
fn declared(event: &Event) -> Option<&ObjectId> {
    match event {
        Event::Put(object) | Event::Deleted(object) | Event::Waits { object, .. } | Event::Met { object, .. } => {
            Some(object)
        }
        _ => None,
    }
}

/// Who holds, held, or is said to hold the address that an event is about.
fn holders(event: &Event) -> impl Iterator<Item = &Holder> {
    let (one, other) = match event {
        Event::Granted { holder, .. } | Event::Released { holder, .. } => (Some(holder), None),
        Event::Conflict(conflict) => (Some(&conflict.claimed_by), None),
        Event::Transferred { from, to, .. } => (Some(from), Some(to)),
        _ => (None, None),
    };
    one.into_iter().chain(other)
}

/// Whether an event is about an address, a Pod, or a state of the object.
fn touches(event: &Event, object: &ObjectId) -> bool {
    match object {
        ObjectId::Pool(id) => pool_of(event) == Some(id),
        ObjectId::Reservation(id) => {
            reservation_of(event) == Some(id)
                || holders(event).any(|holder| matches!(holder, Holder::Ordinal { id: of, .. } if of == id))
        }
        ObjectId::Egress(name) => {
            egress_of(event) == Some(name)
                || holders(event).any(|holder| matches!(holder, Holder::Egress { name: of } if of == name))
        }
        ObjectId::Node(name) => nodes_of(event).contains(&Some(name)),
        ObjectId::Pod(namespace, name) => {
            let bound = match event {
                Event::Bound { pod, .. } | Event::Unbound { pod, .. } => Some(pod),
                _ => None,
            };
            let holding = holders(event).filter_map(|holder| match holder {
                Holder::Pod { pod, .. } => Some(pod),
                _ => None,
            });
            bound.into_iter().chain(holding).any(|pod| pod.namespace == *namespace && pod.name == *name)
        }
    }
}

fn pool_of(event: &Event) -> Option<&PoolId> {
    match event {
        Event::Granted { pool, .. }
        | Event::Transferred { pool, .. }
        | Event::Released { pool, .. }
        | Event::Retired { pool, .. }
        | Event::Conflict(Conflict { pool, .. }) => Some(pool),
        _ => None,
    }
}

fn reservation_of(event: &Event) -> Option<&StatefulSetId> {
    match event {
        Event::Bound { id, .. } | Event::Unbound { id, .. } | Event::Retained { id, .. } => Some(id),
        _ => None,
    }
}

fn egress_of(event: &Event) -> Option<&Name> {
    match event {
        Event::Placed { egress, .. } | Event::Unplaced { egress, .. } | Event::Pinned { egress, .. } => Some(egress),
        _ => None,
    }
}

fn nodes_of(event: &Event) -> [Option<&Name>; 2] {
    match event {
        Event::Placed { from, to, .. } => [from.as_ref(), Some(to)],
        Event::Unplaced { from, .. } => [Some(from), None],
        Event::Drained { node, .. } => [Some(node), None],
        _ => [None, None],
    }
}
