//! The change feed.

use holdfast_api::v1;
use holdfast_statemachine::adopt::{Conflict, Mode};
use holdfast_statemachine::change::MoveReason;
use holdfast_statemachine::command::{ObjectId, StatefulSetId};
use holdfast_statemachine::row::PodRef;
use holdfast_statemachine::{Cause, Change, Event, Name};

use super::{Invalid, Wire, Within, address, field, list, messages, name, required, string};
use super::{optional_name, optional_string, wire_enum};

wire_enum!(MoveReason, v1::MoveReason, {
    Homeless = Homeless,
    NodeNotReady = NodeNotReady,
    NodeGone = NodeGone,
    NodeMismatch = NodeMismatch,
    OverCapacity = OverCapacity,
    NodeDrained = NodeDrained,
    Pin = Pin,
    Rebalance = Rebalance,
    Recomputed = Recomputed,
    AddressGone = AddressGone,
});

impl Wire for Change {
    type Message = v1::Change;

    fn to_message(&self) -> v1::Change {
        v1::Change {
            revision: self.revision,
            index: self.index,
            at_ms: self.at,
            cause: Some(self.cause.to_message()),
            event: Some(self.event.to_message()),
        }
    }

    fn from_message(message: v1::Change) -> Result<Change, Invalid> {
        Ok(Change {
            revision: message.revision,
            index: message.index,
            at: message.at_ms,
            cause: field("cause", message.cause)?,
            event: field("event", message.event)?,
        })
    }
}

impl Wire for Cause {
    type Message = v1::Cause;

    fn to_message(&self) -> v1::Cause {
        use v1::cause::{self, Cause as Kind};
        let kind = match self {
            Cause::Command { name, object, source } => {
                let (name, object, source) = (string(name), string(object), string(source));
                Kind::Command(cause::Command { name, object, source })
            }
            Cause::Deadline => Kind::Deadline(()),
        };
        v1::Cause { cause: Some(kind) }
    }

    fn from_message(message: v1::Cause) -> Result<Cause, Invalid> {
        use v1::cause::Cause as Kind;
        Ok(match required("cause", message.cause)? {
            Kind::Command(it) => Cause::Command {
                name: Name::from(it.name),
                object: Name::from(it.object),
                source: Name::from(it.source),
            },
            Kind::Deadline(()) => Cause::Deadline,
        })
    }
}

impl Wire for Event {
    type Message = v1::Event;

    fn to_message(&self) -> v1::Event {
        v1::Event { event: Some(kind(self)) }
    }

    fn from_message(message: v1::Event) -> Result<Event, Invalid> {
        read_kind(required("event", message.event)?)
    }
}

fn binding(id: &StatefulSetId, ordinal: u32, pod: &PodRef) -> v1::event::Binding {
    v1::event::Binding { id: Some(id.to_message()), ordinal, pod: Some(pod.to_message()) }
}

fn kind(event: &Event) -> v1::event::Event {
    use v1::event::{self as message, Event as Kind};
    match event {
        Event::Put(object) => Kind::Put(object.to_message()),
        Event::Deleted(object) => Kind::Deleted(object.to_message()),
        Event::Waits { object, item, waiting } => {
            Kind::Waits(message::Waits { object: Some(object.to_message()), item: *item, waiting: messages(waiting) })
        }
        Event::Met { object, item } => Kind::Met(message::Met { object: Some(object.to_message()), item: *item }),
        Event::Granted { address, pool, holder } => Kind::Granted(message::AddressGranted {
            address: address.to_string(),
            pool: Some(pool.to_message()),
            holder: Some(holder.to_message()),
        }),
        Event::Transferred { address, pool, from, to } => Kind::Transferred(message::Transferred {
            address: address.to_string(),
            pool: Some(pool.to_message()),
            from: Some(from.to_message()),
            to: Some(to.to_message()),
        }),
        Event::Released { address, pool, holder, cooling_until } => Kind::Released(message::Released {
            address: address.to_string(),
            pool: Some(pool.to_message()),
            holder: Some(holder.to_message()),
            cooling_until_ms: *cooling_until,
        }),
        Event::Bound { id, ordinal, pod } => Kind::Bound(binding(id, *ordinal, pod)),
        Event::Unbound { id, ordinal, pod } => Kind::Unbound(binding(id, *ordinal, pod)),
        Event::Retained { id, ordinal, until } => {
            Kind::Retained(message::Retained { id: Some(id.to_message()), ordinal: *ordinal, until_ms: *until })
        }
        Event::Cooled { address } => Kind::Cooled(message::Cooled { address: address.to_string() }),
        Event::Placed { address, egress, from, to, why } => Kind::Placed(message::Placed {
            address: address.to_string(),
            egress: string(egress),
            from: optional_string(from.as_ref()),
            to: string(to),
            why: why.to_message(),
        }),
        Event::Unplaced { address, egress, from, why } => Kind::Unplaced(message::Unplaced {
            address: address.to_string(),
            egress: string(egress),
            from: string(from),
            why: why.to_message(),
        }),
        Event::Pinned { address, egress, pinned } => {
            Kind::Pinned(message::Pinned { address: address.to_string(), egress: string(egress), pinned: *pinned })
        }
        Event::Drained { node, drained } => Kind::Drained(message::Drained { node: string(node), drained: *drained }),
        Event::Retired { pool, held } => Kind::Retired(message::Retired { pool: Some(pool.to_message()), held: *held }),
        Event::Settings => Kind::Settings(()),
        Event::AdoptionBegun { mode } => Kind::AdoptionBegun(mode.to_message()),
        Event::Conflict(conflict) => Kind::Conflict(conflict.to_message()),
        Event::AdoptionEnded { conflicts } => Kind::AdoptionEnded(*conflicts),
    }
}

fn read_kind(kind: v1::event::Event) -> Result<Event, Invalid> {
    use v1::event::Event as Kind;
    Ok(match kind {
        Kind::Put(object) => Event::Put(ObjectId::from_message(object).within("put")?),
        Kind::Deleted(object) => Event::Deleted(ObjectId::from_message(object).within("deleted")?),
        Kind::Waits(it) => Event::Waits {
            object: field("object", it.object).within("waits")?,
            item: it.item,
            waiting: list("waiting", it.waiting).within("waits")?,
        },
        Kind::Met(it) => Event::Met { object: field("object", it.object).within("met")?, item: it.item },
        Kind::Granted(it) => Event::Granted {
            address: address("granted.address", &it.address)?,
            pool: field("pool", it.pool).within("granted")?,
            holder: field("holder", it.holder).within("granted")?,
        },
        Kind::Transferred(it) => Event::Transferred {
            address: address("transferred.address", &it.address)?,
            pool: field("pool", it.pool).within("transferred")?,
            from: field("from", it.from).within("transferred")?,
            to: field("to", it.to).within("transferred")?,
        },
        Kind::Released(it) => Event::Released {
            address: address("released.address", &it.address)?,
            pool: field("pool", it.pool).within("released")?,
            holder: field("holder", it.holder).within("released")?,
            cooling_until: it.cooling_until_ms,
        },
        Kind::Bound(it) => {
            let (id, ordinal, pod) = read_binding(it).within("bound")?;
            Event::Bound { id, ordinal, pod }
        }
        Kind::Unbound(it) => {
            let (id, ordinal, pod) = read_binding(it).within("unbound")?;
            Event::Unbound { id, ordinal, pod }
        }
        Kind::Retained(it) => {
            Event::Retained { id: field("id", it.id).within("retained")?, ordinal: it.ordinal, until: it.until_ms }
        }
        Kind::Cooled(it) => Event::Cooled { address: address("cooled.address", &it.address)? },
        Kind::Placed(it) => read_placed(it).within("placed")?,
        Kind::Unplaced(it) => Event::Unplaced {
            address: address("unplaced.address", &it.address)?,
            egress: name("unplaced.egress", it.egress)?,
            from: name("unplaced.from", it.from)?,
            why: MoveReason::from_message(it.why).within("unplaced.why")?,
        },
        Kind::Pinned(it) => Event::Pinned {
            address: address("pinned.address", &it.address)?,
            egress: name("pinned.egress", it.egress)?,
            pinned: it.pinned,
        },
        Kind::Drained(it) => Event::Drained { node: name("drained.node", it.node)?, drained: it.drained },
        Kind::Retired(it) => Event::Retired { pool: field("pool", it.pool).within("retired")?, held: it.held },
        Kind::Settings(()) => Event::Settings,
        Kind::AdoptionBegun(mode) => Event::AdoptionBegun { mode: Mode::from_message(mode).within("adoption_begun")? },
        Kind::Conflict(it) => Event::Conflict(Conflict::from_message(it).within("conflict")?),
        Kind::AdoptionEnded(conflicts) => Event::AdoptionEnded { conflicts },
    })
}

fn read_binding(it: v1::event::Binding) -> Result<(StatefulSetId, u32, PodRef), Invalid> {
    Ok((field("id", it.id)?, it.ordinal, field("pod", it.pod)?))
}

fn read_placed(it: v1::event::Placed) -> Result<Event, Invalid> {
    Ok(Event::Placed {
        address: address("address", &it.address)?,
        egress: name("egress", it.egress)?,
        from: optional_name("from", it.from)?,
        to: name("to", it.to)?,
        why: MoveReason::from_message(it.why).within("why")?,
    })
}
