//! An Egress address, its pool and its Egress, as the scheduler knows them.

use std::net::IpAddr;

use super::{CreationKey, Name};

/// What is declared of an Egress address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressInput {
    /// Its Egress. Addresses of one Egress are siblings, and kept apart where that is possible.
    pub egress: Name,
    /// Its place among all addresses: the Egress's creation key, and its position in the Egress from 0.
    pub order: (CreationKey, u32),
    /// Its pool.
    pub pool: Name,
    /// The Node that carries it now, and whether it is pinned there.
    pub at: Option<(Name, bool)>,
}

/// The order of addresses. The address itself decides where two are given the same place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Order {
    pub created: CreationKey,
    pub position: u32,
    pub ip: IpAddr,
}

#[derive(Clone, Debug)]
pub(super) struct Address {
    pub order: Order,
    /// The hash of its text: where its search on a ring begins.
    pub key: u32,
    pub egress: u32,
    pub pool: u32,
    /// Its index in its pool's list.
    pub pool_slot: usize,
    pub node: Option<u32>,
    /// Its index in its Node's list, while it has one.
    pub slot: usize,
    pub pinned: bool,
}

/// A pool, or the name of one that addresses mention and that is not declared.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    pub name: Name,
    /// The ring of its selector; `None`: not declared.
    pub ring: Option<u32>,
    /// Its addresses, in no order to show.
    pub addresses: Vec<u32>,
}

/// An Egress with at least one address.
#[derive(Clone, Debug)]
pub(super) struct Egress {
    pub name: Name,
    /// Its addresses, in no order to show.
    pub addresses: Vec<u32>,
}
