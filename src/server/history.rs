//! History as messages.

use std::net::IpAddr;

use holdfast_api::v1;
use holdfast_statemachine::command::StatefulSetId;
use holdfast_statemachine::row::{Holder, PodRef};
use holdfast_statemachine::store::{Edge, Interval, Subject, owner_text};
use holdfast_statemachine::{Name, Revision, Source, Store, StoreError};

use super::page::Part;
use crate::wire::{self, Invalid, Wire, Within};

/// Whose history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// An address's.
    Address(IpAddr),
    /// An owner's, by the text that it is found under.
    Owner(String),
}

impl Whose {
    /// What a request asks for.
    pub fn of(of: Option<v1::history_request::Of>) -> Result<Whose, Invalid> {
        use v1::history_request::Of as Kind;
        let holder = match wire::required("of", of)? {
            Kind::Address(address) => return Ok(Whose::Address(wire::address("address", &address)?)),
            Kind::Node(node) => return Ok(Whose::Owner(format!("node/{}", wire::name("node", node)?))),
            Kind::Named(name) => {
                Holder::Named { name: wire::name("named", name)?, uid: Name::from(""), source: Source::Api }
            }
            Kind::Egress(name) => Holder::Egress { name: wire::name("egress", name)? },
            Kind::Observed(owner) => Holder::Observed { owner: wire::text("observed", owner)? },
            Kind::Pod(pod) => {
                let namespace = wire::name("pod.namespace", pod.namespace)?;
                let name = wire::name("pod.name", pod.name)?;
                let pod = PodRef { namespace, name, uid: Name::from(""), container_id: None, interface: None };
                Holder::Pod { pod, source: Source::Api }
            }
            Kind::Ordinal(ordinal) => {
                let id: StatefulSetId = wire::field("id", ordinal.id).within("ordinal")?;
                Holder::Ordinal { id, ordinal: ordinal.ordinal, former: false }
            }
        };
        Ok(Whose::Owner(owner_text(&holder)))
    }

    /// Its intervals, the latest first.
    pub fn intervals(
        &self,
        store: &Store,
        before: Option<Revision>,
        limit: usize,
    ) -> Result<Vec<Interval>, StoreError> {
        match self {
            Whose::Address(address) => store.history_of_address(*address, before, limit),
            Whose::Owner(owner) => store.history_of_owner(owner, before, limit),
        }
    }
}

/// The revision that the intervals of a part began before.
pub fn before(part: &Part) -> Result<Option<Revision>, Invalid> {
    match part.after.as_str() {
        "" => Ok(None),
        token => token.parse().map(Some).map_err(|_| part.bad_token()),
    }
}

/// An interval with its token: the revision that it began at. Those whose beginning is no longer known are
/// the last ones, given all at once.
pub fn item(it: &Interval) -> (String, v1::Interval) {
    (it.from.as_ref().map_or(0, |edge| edge.revision).to_string(), interval(it))
}

fn interval(interval: &Interval) -> v1::Interval {
    v1::Interval {
        what: Some(subject(&interval.subject)),
        from: interval.from.as_ref().map(end),
        to: interval.to.as_ref().map(end),
    }
}

fn end(edge: &Edge) -> v1::interval::End {
    let cause = edge.cause.as_ref().map(Wire::to_message);
    v1::interval::End { revision: edge.revision, index: edge.index, at_ms: edge.at, cause }
}

fn subject(subject: &Subject) -> v1::interval::What {
    use v1::interval::{Bound, Held, Placed, What};
    match subject {
        Subject::Held { address, pool, holder } => What::Held(Held {
            pool: Some(pool.to_message()),
            holder: Some(holder.to_message()),
            address: address.to_string(),
        }),
        Subject::Carried { address, egress, node } => {
            let (egress, node) = (egress.to_string(), node.to_string());
            What::Placed(Placed { egress, node, address: address.to_string() })
        }
        Subject::Bound { id, ordinal, pod } => What::Bound(Bound {
            ordinal: Some(v1::OrdinalId { id: Some(id.to_message()), ordinal: *ordinal }),
            pod: Some(pod.to_message()),
        }),
    }
}
