//! Adoption: its steps, its conflicts, and the row that says how it went.

use std::net::IpAddr;

use holdfast_api::v1;
use holdfast_statemachine::adopt::{Adopt, AdoptItem, AdoptedBy, Conflict, ConflictReason, Mode};
use holdfast_statemachine::command::{Owner, PutEgress};
use holdfast_statemachine::row::AdoptionRow;
use holdfast_statemachine::{Key, Name, Row};

use super::command::{pod_owner_message, read_pod_owner};
use super::{Invalid, Wire, Within, address, addresses, each, field, list, messages, name, name_or_empty, names};
use super::{required, string, strings, wire_enum};

wire_enum!(Mode, v1::Mode, { Standalone = Standalone, Antrea = Antrea });

impl Wire for Adopt {
    type Message = v1::Adopt;

    fn to_message(&self) -> v1::Adopt {
        use v1::adopt::{self, Step};
        let step = match self {
            Adopt::Begin { mode } => Step::Begin(mode.to_message()),
            Adopt::Held(items) => Step::Held(adopt::Held { items: messages(items) }),
            Adopt::End => Step::End(()),
        };
        v1::Adopt { step: Some(step) }
    }

    fn from_message(message: v1::Adopt) -> Result<Adopt, Invalid> {
        use v1::adopt::Step;
        Ok(match required("step", message.step)? {
            Step::Begin(mode) => Adopt::Begin { mode: Mode::from_message(mode).within("begin")? },
            Step::Held(held) => Adopt::Held(list("items", held.items).within("held")?),
            Step::End(()) => Adopt::End,
        })
    }
}

impl Wire for AdoptItem {
    type Message = v1::adopt::Item;

    fn to_message(&self) -> v1::adopt::Item {
        use v1::adopt::{self, item::Item};
        let item = match self {
            AdoptItem::Address { pool, address, by } => Item::Address(adopt::Address {
                pool: Some(pool.to_message()),
                address: address.to_string(),
                by: Some(by_message(by)),
            }),
            AdoptItem::Egress { put, chosen, placed } => Item::Egress(adopt::Egress {
                put: Some(put.to_message()),
                chosen: chosen.iter().map(ToString::to_string).collect(),
                placed: placed.iter().map(placed_message).collect(),
            }),
        };
        v1::adopt::Item { item: Some(item) }
    }

    fn from_message(message: v1::adopt::Item) -> Result<AdoptItem, Invalid> {
        use v1::adopt::item::Item;
        Ok(match required("item", message.item)? {
            Item::Address(it) => AdoptItem::Address {
                pool: field("pool", it.pool).within("address")?,
                address: address("address.address", &it.address)?,
                by: read_by(required("by", it.by).within("address")?).within("address")?,
            },
            Item::Egress(it) => AdoptItem::Egress {
                put: field::<PutEgress>("put", it.put).within("egress")?,
                chosen: addresses("chosen", it.chosen).within("egress")?,
                placed: each("placed", it.placed, read_placed).within("egress")?,
            },
        })
    }
}

fn placed_message((address, node): &(IpAddr, Name)) -> v1::adopt::Placed {
    v1::adopt::Placed { address: address.to_string(), node: string(node) }
}

fn read_placed(it: v1::adopt::Placed) -> Result<(IpAddr, Name), Invalid> {
    Ok((address("address", &it.address)?, name("node", it.node)?))
}

fn by_message(by: &AdoptedBy) -> v1::adopt::address::By {
    use v1::adopt::{self, address::By};
    match by {
        AdoptedBy::Ordinal { id, uid, ordinal, pod, pools } => By::Ordinal(adopt::Ordinal {
            id: Some(id.to_message()),
            uid: string(uid),
            ordinal: *ordinal,
            pod: pod.as_ref().map(pod_owner_message),
            pools: strings(pools),
        }),
        AdoptedBy::Owner(owner) => By::Owner(owner.to_message()),
    }
}

fn read_by(by: v1::adopt::address::By) -> Result<AdoptedBy, Invalid> {
    use v1::adopt::address::By;
    Ok(match by {
        By::Ordinal(it) => AdoptedBy::Ordinal {
            id: field("id", it.id).within("ordinal")?,
            uid: name_or_empty("ordinal.uid", it.uid)?,
            ordinal: it.ordinal,
            pod: it.pod.map(read_pod_owner).transpose().within("pod").within("ordinal")?,
            pools: names("pools", it.pools).within("ordinal")?,
        },
        By::Owner(it) => AdoptedBy::Owner(Owner::from_message(it).within("owner")?),
    })
}

impl Wire for Conflict {
    type Message = v1::Conflict;

    fn to_message(&self) -> v1::Conflict {
        use v1::conflict::{self, Why};
        let why = match &self.why {
            ConflictReason::Held { by } => Why::Held(conflict::Held { by: Some(by.to_message()) }),
            ConflictReason::UnknownPool => Why::UnknownPool(()),
            ConflictReason::Outside => Why::Outside(()),
            ConflictReason::OrdinalHolds { address } => {
                Why::OrdinalHolds(conflict::OrdinalHolds { address: address.to_string() })
            }
            ConflictReason::PodBound { id, ordinal } => {
                Why::PodBound(conflict::PodBound { id: Some(id.to_message()), ordinal: *ordinal })
            }
            ConflictReason::OrdinalBound { pod } => {
                Why::OrdinalBound(conflict::OrdinalBound { pod: Some(pod.to_message()) })
            }
            ConflictReason::OwnerHolds { by, address } => {
                Why::OwnerHolds(conflict::OwnerHolds { by: Some(by.to_message()), address: address.to_string() })
            }
            ConflictReason::Refused { code } => Why::Refused(conflict::Refused { code: string(code) }),
        };
        v1::Conflict {
            address: self.address.to_string(),
            pool: Some(self.pool.to_message()),
            claimed_by: Some(self.claimed_by.to_message()),
            why: Some(why),
            text: self.to_string(),
        }
    }

    fn from_message(message: v1::Conflict) -> Result<Conflict, Invalid> {
        use v1::conflict::Why;
        let why = match required("why", message.why)? {
            Why::Held(it) => ConflictReason::Held { by: field("by", it.by).within("held")? },
            Why::UnknownPool(()) => ConflictReason::UnknownPool,
            Why::Outside(()) => ConflictReason::Outside,
            Why::OrdinalHolds(it) => {
                ConflictReason::OrdinalHolds { address: address("ordinal_holds.address", &it.address)? }
            }
            Why::PodBound(it) => {
                ConflictReason::PodBound { id: field("id", it.id).within("pod_bound")?, ordinal: it.ordinal }
            }
            Why::OrdinalBound(it) => {
                ConflictReason::OrdinalBound { pod: field("pod", it.pod).within("ordinal_bound")? }
            }
            Why::OwnerHolds(it) => ConflictReason::OwnerHolds {
                by: field("by", it.by).within("owner_holds")?,
                address: address("owner_holds.address", &it.address)?,
            },
            Why::Refused(it) => ConflictReason::Refused { code: Name::from(it.code) },
        };
        Ok(Conflict {
            address: address("address", &message.address)?,
            pool: field("pool", message.pool)?,
            claimed_by: field("claimed_by", message.claimed_by)?,
            why,
        })
    }
}

/// The message of how an adoption went.
pub fn adoption_message(row: &AdoptionRow) -> v1::AdoptionRow {
    v1::AdoptionRow {
        mode: row.mode.to_message(),
        complete: row.complete,
        conflicts: messages(&row.conflicts),
        conflicts_total: row.conflicts_total,
        others: row.others.iter().copied().collect(),
        stamp: Some(row.stamp.to_message()),
    }
}

pub(super) fn read_adoption(message: v1::AdoptionRow) -> Result<(Key, Row), Invalid> {
    let row = AdoptionRow {
        mode: Mode::from_message(message.mode).within("mode")?,
        complete: message.complete,
        conflicts: list("conflicts", message.conflicts)?,
        conflicts_total: message.conflicts_total,
        others: message.others.into_iter().collect(),
        stamp: field("stamp", message.stamp)?,
    };
    Ok((Key::Adoption, Row::Adoption(row)))
}
