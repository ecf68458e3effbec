//! What commands came to.

use holdfast_api::v1;
use holdfast_statemachine::adopt::{Conflict, Mode};
use holdfast_statemachine::outcome::{Granted, Move, Note, PoolRoom};
use holdfast_statemachine::row::Policy;
use holdfast_statemachine::{Name, Outcome, Rejection, Source};

use super::{Invalid, Wire, Within, address, field, list, messages, name, name_or_empty, required, string};
use super::{optional_name, optional_string};

impl Wire for Result<Outcome, Rejection> {
    type Message = v1::CommandResult;

    fn to_message(&self) -> v1::CommandResult {
        use v1::command_result::Result as Kind;
        let kind = match self {
            Ok(outcome) => Kind::Outcome(outcome.to_message()),
            Err(rejection) => Kind::Rejection(rejection.to_message()),
        };
        v1::CommandResult { result: Some(kind) }
    }

    fn from_message(message: v1::CommandResult) -> Result<Self, Invalid> {
        use v1::command_result::Result as Kind;
        Ok(match required("result", message.result)? {
            Kind::Outcome(outcome) => Ok(Outcome::from_message(outcome).within("outcome")?),
            Kind::Rejection(rejection) => Err(Rejection::from_message(rejection).within("rejection")?),
        })
    }
}

impl Wire for Outcome {
    type Message = v1::Outcome;

    fn to_message(&self) -> v1::Outcome {
        v1::Outcome {
            revision: self.revision,
            changed: self.changed,
            waiting: messages(&self.waiting),
            granted: messages(&self.granted),
            moves: messages(&self.moves),
            notes: messages(&self.notes),
        }
    }

    fn from_message(message: v1::Outcome) -> Result<Outcome, Invalid> {
        Ok(Outcome {
            revision: message.revision,
            changed: message.changed,
            waiting: list("waiting", message.waiting)?,
            granted: list("granted", message.granted)?,
            moves: list("moves", message.moves)?,
            notes: list("notes", message.notes)?,
        })
    }
}

impl Wire for Granted {
    type Message = v1::Granted;

    fn to_message(&self) -> v1::Granted {
        v1::Granted {
            pool: Some(self.pool.to_message()),
            first: self.first.to_string(),
            count: self.count,
            ordinal: self.ordinal,
            revision: self.revision,
        }
    }

    fn from_message(message: v1::Granted) -> Result<Granted, Invalid> {
        Ok(Granted {
            pool: field("pool", message.pool)?,
            first: address("first", &message.first)?,
            count: message.count,
            ordinal: message.ordinal,
            revision: message.revision,
        })
    }
}

impl Wire for Move {
    type Message = v1::Move;

    fn to_message(&self) -> v1::Move {
        v1::Move {
            egress: string(&self.egress),
            address: self.address.to_string(),
            from: optional_string(self.from.as_ref()),
            to: optional_string(self.to.as_ref()),
        }
    }

    fn from_message(message: v1::Move) -> Result<Move, Invalid> {
        Ok(Move {
            egress: name("egress", message.egress)?,
            address: address("address", &message.address)?,
            from: optional_name("from", message.from)?,
            to: optional_name("to", message.to)?,
        })
    }
}

impl Wire for Note {
    type Message = v1::Note;

    fn to_message(&self) -> v1::Note {
        use v1::note::{self, Note as Kind};
        let kind = match self {
            Note::NotHeld { held_by_uid, revision } => {
                Kind::NotHeld(note::NotHeld { held_by_uid: optional_string(held_by_uid.as_ref()), revision: *revision })
            }
            Note::WasCooling { former } => Kind::WasCooling(note::WasCooling { former: Some(former.to_message()) }),
            Note::WasHeadroom { of } => Kind::WasHeadroom(note::WasHeadroom { of: Some(of.to_message()) }),
            Note::CapacityClamped { asked, used } => {
                Kind::CapacityClamped(note::CapacityClamped { asked: *asked, used: *used })
            }
            Note::LeftAlone { objects } => Kind::LeftAlone(note::LeftAlone { objects: *objects }),
            Note::Retired { held } => Kind::Retired(note::Retired { held: *held }),
            Note::Conflict(conflict) => Kind::Conflict(conflict.to_message()),
        };
        v1::Note { note: Some(kind) }
    }

    fn from_message(message: v1::Note) -> Result<Note, Invalid> {
        use v1::note::Note as Kind;
        Ok(match required("note", message.note)? {
            Kind::NotHeld(note) => Note::NotHeld {
                held_by_uid: note.held_by_uid.map(|uid| name_or_empty("not_held.held_by_uid", uid)).transpose()?,
                revision: note.revision,
            },
            Kind::WasCooling(note) => Note::WasCooling { former: field("former", note.former).within("was_cooling")? },
            Kind::WasHeadroom(note) => Note::WasHeadroom { of: field("of", note.of).within("was_headroom")? },
            Kind::CapacityClamped(note) => Note::CapacityClamped { asked: note.asked, used: note.used },
            Kind::LeftAlone(note) => Note::LeftAlone { objects: note.objects },
            Kind::Retired(note) => Note::Retired { held: note.held },
            Kind::Conflict(note) => Note::Conflict(Conflict::from_message(note).within("conflict")?),
        })
    }
}

impl Wire for Rejection {
    type Message = v1::Rejection;

    fn to_message(&self) -> v1::Rejection {
        v1::Rejection { reason: Some(reason(self)), code: self.code().to_owned(), text: self.to_string() }
    }

    fn from_message(message: v1::Rejection) -> Result<Rejection, Invalid> {
        read_reason(required("reason", message.reason)?)
    }
}

fn reason(rejection: &Rejection) -> v1::rejection::Reason {
    use v1::rejection::{self as message, Reason};
    match rejection {
        Rejection::Malformed { field, value, allowed } => Reason::Malformed(message::Malformed {
            field: string(field),
            value: string(value),
            allowed: string(allowed),
        }),
        Rejection::Immutable { pool, field, held, asked } => Reason::Immutable(message::Immutable {
            pool: Some(pool.to_message()),
            field: string(field),
            held: string(held),
            asked: string(asked),
        }),
        Rejection::OtherSource { kind, name, source_of } => Reason::OtherSource(message::OtherSource {
            kind: string(kind),
            name: string(name),
            source_of: source_of.to_message(),
        }),
        Rejection::StaleTerm { meant, term } => Reason::StaleTerm(message::StaleTerm { meant: *meant, term: *term }),
        Rejection::Unknown { kind, name } => {
            Reason::Unknown(message::Unknown { kind: string(kind), name: string(name) })
        }
        Rejection::PoolExhausted { pool, needed, free, largest_free_run } => {
            let (needed, free, largest_free_run) = (*needed, *free, *largest_free_run);
            Reason::PoolExhausted(PoolRoom { pool: pool.clone(), needed, free, largest_free_run }.to_message())
        }
        Rejection::AddressHeld { address, by } => {
            Reason::AddressHeld(message::AddressHeld { address: address.to_string(), by: Some(by.to_message()) })
        }
        Rejection::AddressOutside { address, pools } => {
            Reason::AddressOutside(message::AddressOutside { address: address.to_string(), pools: messages(pools) })
        }
        Rejection::OwnerHolds { owner, address, pool } => Reason::OwnerHolds(message::OwnerHolds {
            owner: Some(owner.to_message()),
            address: address.to_string(),
            pool: Some(pool.to_message()),
        }),
        Rejection::Ineligible { node, address, why } => Reason::Ineligible(message::NodeIneligible {
            node: string(node),
            address: address.to_string(),
            why: Some(why.to_message()),
        }),
        Rejection::NoRoom { node, left, carried } => {
            Reason::NoRoom(message::NoRoom { node: string(node), left: *left, carried: *carried })
        }
        Rejection::PlacementsChanged { at, changed } => {
            Reason::PlacementsChanged(message::PlacementsChanged { at_revision: *at, changed_revision: *changed })
        }
        Rejection::NotAdopted => Reason::NotAdopted(()),
        Rejection::NotAdopting => Reason::NotAdopting(()),
        Rejection::OtherMode { recorded, asked } => {
            Reason::OtherMode(message::OtherMode { recorded: recorded.to_message(), asked: asked.to_message() })
        }
        Rejection::Mode { mode, what, why } => {
            Reason::Mode(message::ModeForbids { mode: mode.to_message(), what: string(what), why: string(why) })
        }
        Rejection::Policy { policy, what } => {
            Reason::Policy(message::PolicyForbids { policy: policy.to_message(), what: string(what) })
        }
    }
}

fn read_reason(reason: v1::rejection::Reason) -> Result<Rejection, Invalid> {
    use v1::rejection::Reason;
    Ok(match reason {
        // What was refused is repeated as it came, so that nothing is asked of it.
        Reason::Malformed(it) => Rejection::Malformed {
            field: Name::from(it.field),
            value: Name::from(it.value),
            allowed: Name::from(it.allowed),
        },
        Reason::Immutable(it) => Rejection::Immutable {
            pool: field("pool", it.pool).within("immutable")?,
            field: Name::from(it.field),
            held: Name::from(it.held),
            asked: Name::from(it.asked),
        },
        Reason::OtherSource(it) => Rejection::OtherSource {
            kind: Name::from(it.kind),
            name: Name::from(it.name),
            source_of: Source::from_message(it.source_of).within("other_source.source_of")?,
        },
        Reason::StaleTerm(it) => Rejection::StaleTerm { meant: it.meant, term: it.term },
        Reason::Unknown(it) => Rejection::Unknown { kind: Name::from(it.kind), name: Name::from(it.name) },
        Reason::PoolExhausted(it) => {
            let room = PoolRoom::from_message(it).within("pool_exhausted")?;
            let PoolRoom { pool, needed, free, largest_free_run } = room;
            Rejection::PoolExhausted { pool, needed, free, largest_free_run }
        }
        Reason::AddressHeld(it) => Rejection::AddressHeld {
            address: address("address_held.address", &it.address)?,
            by: field("by", it.by).within("address_held")?,
        },
        Reason::AddressOutside(it) => Rejection::AddressOutside {
            address: address("address_outside.address", &it.address)?,
            pools: list("pools", it.pools).within("address_outside")?,
        },
        Reason::OwnerHolds(it) => Rejection::OwnerHolds {
            owner: field("owner", it.owner).within("owner_holds")?,
            address: address("owner_holds.address", &it.address)?,
            pool: field("pool", it.pool).within("owner_holds")?,
        },
        Reason::Ineligible(it) => Rejection::Ineligible {
            node: name("ineligible.node", it.node)?,
            address: address("ineligible.address", &it.address)?,
            why: field("why", it.why).within("ineligible")?,
        },
        Reason::NoRoom(it) => {
            Rejection::NoRoom { node: name("no_room.node", it.node)?, left: it.left, carried: it.carried }
        }
        Reason::PlacementsChanged(it) => {
            Rejection::PlacementsChanged { at: it.at_revision, changed: it.changed_revision }
        }
        Reason::NotAdopted(()) => Rejection::NotAdopted,
        Reason::NotAdopting(()) => Rejection::NotAdopting,
        Reason::OtherMode(it) => Rejection::OtherMode {
            recorded: Mode::from_message(it.recorded).within("other_mode.recorded")?,
            asked: Mode::from_message(it.asked).within("other_mode.asked")?,
        },
        Reason::Mode(it) => Rejection::Mode {
            mode: Mode::from_message(it.mode).within("mode.mode")?,
            what: Name::from(it.what),
            why: Name::from(it.why),
        },
        Reason::Policy(it) => Rejection::Policy {
            policy: Policy::from_message(it.policy).within("policy.policy")?,
            what: Name::from(it.what),
        },
    })
}
