//! What the other messages are made of.

use holdfast_api::v1;
use holdfast_statemachine::command::{ObjectId, StatefulSetId};
use holdfast_statemachine::outcome::{Ineligible, PoolRoom, Waiting};
use holdfast_statemachine::row::{Holder, PodRef, Policy, PoolId, PoolKind, Stamp};
use holdfast_statemachine::{Family, Range, Revision, Source};

use super::{Invalid, Wire, Within, address, count, field, list, messages, name, name_or_empty, required, string};
use super::{optional_name, optional_string, text, wire_enum};

wire_enum!(Family, v1::Family, { V4 = V4, V6 = V6 });
wire_enum!(PoolKind, v1::PoolKind, { IpPool = IpPool, ExternalIpPool = ExternalIpPool });
wire_enum!(Policy, v1::Policy, { Sticky = Sticky, Spread = Spread, ConsistentHash = ConsistentHash });

impl Wire for Source {
    type Message = String;

    fn to_message(&self) -> String {
        self.to_string()
    }

    fn from_message(message: String) -> Result<Source, Invalid> {
        match message.as_str() {
            "kubernetes" => return Ok(Source::Kubernetes),
            "api" => return Ok(Source::Api),
            _ => {}
        }
        let set = message.strip_prefix("manifests:").and_then(|set| name("", set.to_owned()).ok());
        set.map(Source::Manifests)
            .ok_or_else(|| Invalid::new("", message, "kubernetes, api, or manifests: and a name of 1 to 253 bytes"))
    }
}

impl Wire for PoolId {
    type Message = v1::PoolId;

    fn to_message(&self) -> v1::PoolId {
        v1::PoolId { kind: self.kind.to_message(), name: string(&self.name) }
    }

    fn from_message(message: v1::PoolId) -> Result<PoolId, Invalid> {
        Ok(PoolId { kind: PoolKind::from_message(message.kind).within("kind")?, name: name("name", message.name)? })
    }
}

impl Wire for Range {
    type Message = v1::Range;

    fn to_message(&self) -> v1::Range {
        v1::Range { first: self.first().to_string(), last: self.last().to_string() }
    }

    fn from_message(message: v1::Range) -> Result<Range, Invalid> {
        let (first, last) = (address("first", &message.first)?, address("last", &message.last)?);
        Range::new(first, last)
            .ok_or_else(|| Invalid::new("last", last, format!("an address of the family of {first}, not below it")))
    }
}

impl Wire for StatefulSetId {
    type Message = v1::StatefulSetId;

    fn to_message(&self) -> v1::StatefulSetId {
        v1::StatefulSetId { namespace: string(&self.namespace), name: string(&self.name) }
    }

    fn from_message(message: v1::StatefulSetId) -> Result<StatefulSetId, Invalid> {
        Ok(StatefulSetId { namespace: name("namespace", message.namespace)?, name: name("name", message.name)? })
    }
}

impl Wire for ObjectId {
    type Message = v1::ObjectId;

    fn to_message(&self) -> v1::ObjectId {
        use v1::object_id::Object;
        let object = match self {
            ObjectId::Pool(id) => Object::Pool(id.to_message()),
            ObjectId::Reservation(id) => Object::Reservation(id.to_message()),
            ObjectId::Egress(name) => Object::Egress(string(name)),
            ObjectId::Node(name) => Object::Node(string(name)),
            ObjectId::Pod(namespace, name) => {
                Object::Pod(v1::PodId { namespace: string(namespace), name: string(name) })
            }
        };
        v1::ObjectId { object: Some(object) }
    }

    fn from_message(message: v1::ObjectId) -> Result<ObjectId, Invalid> {
        use v1::object_id::Object;
        Ok(match required("object", message.object)? {
            Object::Pool(id) => ObjectId::Pool(PoolId::from_message(id).within("pool")?),
            Object::Reservation(id) => ObjectId::Reservation(StatefulSetId::from_message(id).within("reservation")?),
            Object::Egress(egress) => ObjectId::Egress(name("egress", egress)?),
            Object::Node(node) => ObjectId::Node(name("node", node)?),
            Object::Pod(pod) => ObjectId::Pod(name("pod.namespace", pod.namespace)?, name("pod.name", pod.name)?),
        })
    }
}

impl Wire for PodRef {
    type Message = v1::PodRef;

    fn to_message(&self) -> v1::PodRef {
        v1::PodRef {
            namespace: string(&self.namespace),
            name: string(&self.name),
            uid: string(&self.uid),
            container_id: optional_string(self.container_id.as_ref()),
            interface: optional_string(self.interface.as_ref()),
        }
    }

    fn from_message(message: v1::PodRef) -> Result<PodRef, Invalid> {
        Ok(PodRef {
            namespace: name("namespace", message.namespace)?,
            name: name("name", message.name)?,
            uid: name_or_empty("uid", message.uid)?,
            container_id: optional_name("container_id", message.container_id)?,
            interface: optional_name("interface", message.interface)?,
        })
    }
}

impl Wire for Holder {
    type Message = v1::Holder;

    fn to_message(&self) -> v1::Holder {
        use v1::holder::{self, Holder as Kind};
        let kind = match self {
            Holder::Ordinal { id, ordinal, former } => {
                Kind::Ordinal(holder::Ordinal { id: Some(id.to_message()), ordinal: *ordinal, former: *former })
            }
            Holder::Named { name, uid, source } => {
                Kind::Named(holder::Named { name: string(name), uid: string(uid), source: source.to_message() })
            }
            Holder::Pod { pod, source } => {
                Kind::Pod(holder::Pod { pod: Some(pod.to_message()), source: source.to_message() })
            }
            Holder::Egress { name } => Kind::Egress(holder::Egress { name: string(name) }),
            Holder::Observed { owner } => Kind::Observed(holder::Observed { owner: string(owner) }),
        };
        v1::Holder { holder: Some(kind) }
    }

    fn from_message(message: v1::Holder) -> Result<Holder, Invalid> {
        use v1::holder::Holder as Kind;
        Ok(match required("holder", message.holder)? {
            Kind::Ordinal(ordinal) => Holder::Ordinal {
                id: field("id", ordinal.id).within("ordinal")?,
                ordinal: ordinal.ordinal,
                former: ordinal.former,
            },
            Kind::Named(named) => Holder::Named {
                name: name("named.name", named.name)?,
                uid: name_or_empty("named.uid", named.uid)?,
                source: Source::from_message(named.source).within("named.source")?,
            },
            Kind::Pod(pod) => Holder::Pod {
                pod: field("pod", pod.pod).within("pod")?,
                source: Source::from_message(pod.source).within("pod.source")?,
            },
            Kind::Egress(egress) => Holder::Egress { name: name("egress.name", egress.name)? },
            Kind::Observed(observed) => Holder::Observed { owner: text("observed.owner", observed.owner)? },
        })
    }
}

impl Wire for Stamp {
    type Message = v1::Stamp;

    fn to_message(&self) -> v1::Stamp {
        v1::Stamp { revision: self.revision, index: self.index, at_ms: self.at }
    }

    fn from_message(message: v1::Stamp) -> Result<Stamp, Invalid> {
        Ok(Stamp { revision: message.revision, index: message.index, at: message.at_ms })
    }
}

impl Wire for Ineligible {
    type Message = v1::Ineligible;

    fn to_message(&self) -> v1::Ineligible {
        use v1::ineligible::Reason;
        let (reason, carried, capacity) = match *self {
            Ineligible::NotReady => (Reason::NotReady, 0, 0),
            Ineligible::NotLinux => (Reason::NotLinux, 0, 0),
            Ineligible::SelectorMismatch => (Reason::SelectorMismatch, 0, 0),
            Ineligible::Drained => (Reason::Drained, 0, 0),
            Ineligible::AtCapacity { carried, capacity } => (Reason::AtCapacity, carried, capacity),
        };
        v1::Ineligible { reason: reason.into(), carried, capacity }
    }

    fn from_message(message: v1::Ineligible) -> Result<Ineligible, Invalid> {
        use v1::ineligible::Reason;
        Ok(match Reason::try_from(message.reason) {
            Ok(Reason::NotReady) => Ineligible::NotReady,
            Ok(Reason::NotLinux) => Ineligible::NotLinux,
            Ok(Reason::SelectorMismatch) => Ineligible::SelectorMismatch,
            Ok(Reason::Drained) => Ineligible::Drained,
            Ok(Reason::AtCapacity) => Ineligible::AtCapacity { carried: message.carried, capacity: message.capacity },
            Ok(Reason::Unspecified) | Err(_) => {
                return Err(Invalid::new("reason", message.reason, "a reason of the contract"));
            }
        })
    }
}

impl Wire for PoolRoom {
    type Message = v1::PoolRoom;

    fn to_message(&self) -> v1::PoolRoom {
        v1::PoolRoom {
            pool: Some(self.pool.to_message()),
            needed: self.needed.to_string(),
            free: self.free.to_string(),
            largest_free_run: self.largest_free_run.to_string(),
        }
    }

    fn from_message(message: v1::PoolRoom) -> Result<PoolRoom, Invalid> {
        Ok(PoolRoom {
            pool: field("pool", message.pool)?,
            needed: count("needed", &message.needed)?,
            free: count("free", &message.free)?,
            largest_free_run: count("largest_free_run", &message.largest_free_run)?,
        })
    }
}

impl Wire for Waiting {
    type Message = v1::Waiting;

    fn to_message(&self) -> v1::Waiting {
        use v1::waiting::{self, Reason};
        let room =
            |family: &Family, tried: &[PoolRoom]| waiting::Room { family: family.to_message(), tried: messages(tried) };
        let reason = match self {
            Waiting::UnknownPool { pools } => Reason::UnknownPool(waiting::UnknownPool { pools: messages(pools) }),
            Waiting::Exhausted { family, tried } => Reason::Exhausted(room(family, tried)),
            Waiting::NoBlock { family, tried } => Reason::NoBlock(room(family, tried)),
            Waiting::AddressHeld { address, by } => {
                Reason::AddressHeld(waiting::AddressHeld { address: address.to_string(), by: Some(by.to_message()) })
            }
            Waiting::AddressOutside { address, pools } => {
                Reason::AddressOutside(waiting::AddressOutside { address: address.to_string(), pools: messages(pools) })
            }
            Waiting::FixedAddressMissing { family, first_ordinal, count } => {
                Reason::FixedAddressMissing(waiting::FixedAddressMissing {
                    family: family.to_message(),
                    first_ordinal: *first_ordinal,
                    count: *count,
                })
            }
            Waiting::PoolOverlap { range, with } => Reason::PoolOverlap(waiting::PoolOverlap {
                range: Some(range.to_message()),
                with: Some(with.to_message()),
            }),
            Waiting::RangeStillHeld { address, by, held } => Reason::RangeStillHeld(waiting::RangeStillHeld {
                address: address.to_string(),
                by: Some(by.to_message()),
                held: *held,
            }),
            Waiting::NotAdopted => Reason::NotAdopted(()),
        };
        v1::Waiting { reason: Some(reason) }
    }

    fn from_message(message: v1::Waiting) -> Result<Waiting, Invalid> {
        use v1::waiting::Reason;
        Ok(match required("reason", message.reason)? {
            Reason::UnknownPool(unknown) => {
                Waiting::UnknownPool { pools: list("pools", unknown.pools).within("unknown_pool")? }
            }
            Reason::Exhausted(room) => {
                let (family, tried) = read_room(room).within("exhausted")?;
                Waiting::Exhausted { family, tried }
            }
            Reason::NoBlock(room) => {
                let (family, tried) = read_room(room).within("no_block")?;
                Waiting::NoBlock { family, tried }
            }
            Reason::AddressHeld(held) => Waiting::AddressHeld {
                address: address("address_held.address", &held.address)?,
                by: field("by", held.by).within("address_held")?,
            },
            Reason::AddressOutside(outside) => Waiting::AddressOutside {
                address: address("address_outside.address", &outside.address)?,
                pools: list("pools", outside.pools).within("address_outside")?,
            },
            Reason::FixedAddressMissing(missing) => Waiting::FixedAddressMissing {
                family: Family::from_message(missing.family).within("fixed_address_missing.family")?,
                first_ordinal: missing.first_ordinal,
                count: missing.count,
            },
            Reason::PoolOverlap(overlap) => Waiting::PoolOverlap {
                range: field("range", overlap.range).within("pool_overlap")?,
                with: field("with", overlap.with).within("pool_overlap")?,
            },
            Reason::RangeStillHeld(held) => Waiting::RangeStillHeld {
                address: address("range_still_held.address", &held.address)?,
                by: field("by", held.by).within("range_still_held")?,
                held: held.held,
            },
            Reason::NotAdopted(()) => Waiting::NotAdopted,
        })
    }
}

fn read_room(room: v1::waiting::Room) -> Result<(Family, Vec<PoolRoom>), Invalid> {
    Ok((Family::from_message(room.family).within("family")?, list("tried", room.tried)?))
}

impl Wire for (Revision, Vec<Waiting>) {
    type Message = v1::Wait;

    fn to_message(&self) -> v1::Wait {
        v1::Wait { since_revision: self.0, waiting: messages(&self.1) }
    }

    fn from_message(message: v1::Wait) -> Result<Self, Invalid> {
        let waiting: Vec<Waiting> = list("waiting", message.waiting)?;
        if waiting.is_empty() {
            return Err(Invalid::new("waiting", "", "one or more"));
        }
        Ok((message.since_revision, waiting))
    }
}

impl Wire for (Revision, Waiting) {
    type Message = v1::Wait;

    fn to_message(&self) -> v1::Wait {
        v1::Wait { since_revision: self.0, waiting: vec![self.1.to_message()] }
    }

    fn from_message(message: v1::Wait) -> Result<Self, Invalid> {
        let waiting: Vec<Waiting> = list("waiting", message.waiting)?;
        let number = waiting.len();
        let mut waiting = waiting.into_iter();
        match (waiting.next(), waiting.next()) {
            (Some(only), None) => Ok((message.since_revision, only)),
            _ => Err(Invalid::new("waiting", format!("{number} items"), "exactly one")),
        }
    }
}
