//! Changes of the ledger in words, and for programs.

use holdfast_statemachine::change::MoveReason;
use holdfast_statemachine::{Cause, Change, Event, Waiting};
use serde::Serialize;

use super::explain::kind_and_name;
use super::holder::HolderView;
use super::waiting::ReasonView;
use super::words;

/// A change for programs. Fields that an event does not have are left out.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeView {
    /// Its revision.
    pub revision: u64,
    /// The log index of the entry that made it.
    pub index: u64,
    /// That entry's time.
    pub at: String,
    /// The event: `Granted`, `Placed`, ...
    pub event: &'static str,
    /// The object's kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    /// The object: `name` or `namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Which item of an Egress, or which ordinal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
    /// The address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Its pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Who holds it, or held it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<HolderView>,
    /// Where it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Why a placement changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'static str>,
    /// What is waited for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<ReasonView>,
    /// What made the change, for people.
    pub cause: String,
    /// All of it in words.
    pub text: String,
}

impl ChangeView {
    /// A change for programs.
    pub fn of(change: &Change) -> ChangeView {
        let mut view = ChangeView {
            revision: change.revision,
            index: change.index,
            at: words::time(change.at),
            event: event_name(&change.event),
            cause: cause_text(&change.cause),
            text: event_text(&change.event),
            ..ChangeView::default()
        };
        view.fill(&change.event);
        view
    }

    fn fill(&mut self, event: &Event) {
        match event {
            Event::Put(object) | Event::Deleted(object) => self.object(kind_and_name(object)),
            Event::Waits { object, item, waiting } => {
                self.object(kind_and_name(object));
                self.item = *item;
                self.waiting = waiting.iter().map(ReasonView::of).collect();
            }
            Event::Met { object, item } => {
                self.object(kind_and_name(object));
                self.item = *item;
            }
            Event::Granted { address, pool, holder } | Event::Released { address, pool, holder, .. } => {
                self.address = Some(address.to_string());
                self.pool = Some(pool.to_string());
                self.holder = Some(HolderView::of(holder));
            }
            Event::Transferred { address, pool, from, to } => {
                self.address = Some(address.to_string());
                self.pool = Some(pool.to_string());
                self.from = Some(from.to_string());
                self.holder = Some(HolderView::of(to));
            }
            Event::Bound { id, ordinal, pod } | Event::Unbound { id, ordinal, pod } => {
                self.object(("StatefulSet", id.to_string()));
                self.item = Some(*ordinal);
                self.to = Some(format!("{}/{}", pod.namespace, pod.name));
            }
            Event::Retained { id, ordinal, .. } => {
                self.object(("StatefulSet", id.to_string()));
                self.item = Some(*ordinal);
            }
            Event::Cooled { address } => self.address = Some(address.to_string()),
            Event::Placed { address, egress, from, to, why } => {
                self.object(("Egress", egress.to_string()));
                self.address = Some(address.to_string());
                self.from = from.as_ref().map(ToString::to_string);
                self.to = Some(to.to_string());
                self.why = Some(reason_name(*why));
            }
            Event::Unplaced { address, egress, from, why } => {
                self.object(("Egress", egress.to_string()));
                self.address = Some(address.to_string());
                self.from = Some(from.to_string());
                self.why = Some(reason_name(*why));
            }
            Event::Pinned { address, egress, .. } => {
                self.object(("Egress", egress.to_string()));
                self.address = Some(address.to_string());
            }
            Event::Drained { node, .. } => self.object(("Node", node.to_string())),
            Event::Retired { pool, .. } => self.pool = Some(pool.to_string()),
            Event::Conflict(conflict) => {
                self.address = Some(conflict.address.to_string());
                self.pool = Some(conflict.pool.to_string());
                self.why = Some(conflict.why.code());
            }
            Event::Settings | Event::AdoptionBegun { .. } | Event::AdoptionEnded { .. } => {}
        }
    }

    fn object(&mut self, (kind, name): (&'static str, String)) {
        self.kind = Some(kind);
        self.name = Some(name);
    }
}

/// One line for people: revision, time, what changed, and what made it.
pub fn line(change: &Change) -> String {
    format!(
        "rev {:<5} {}  {}  [{}]",
        change.revision,
        words::clock(change.at),
        event_text(&change.event),
        cause_text(&change.cause)
    )
}

/// What made a change: `PutEgress payments by manifests:dev`.
pub fn cause_text(cause: &Cause) -> String {
    match cause {
        Cause::Command { name, object, source } if object.is_empty() => format!("{name} by {source}"),
        Cause::Command { name, object, source } => format!("{name} {object} by {source}"),
        Cause::Deadline => "a deadline passed".to_owned(),
    }
}

fn event_name(event: &Event) -> &'static str {
    match event {
        Event::Put(_) => "Put",
        Event::Deleted(_) => "Deleted",
        Event::Waits { .. } => "Waits",
        Event::Met { .. } => "Met",
        Event::Granted { .. } => "Granted",
        Event::Transferred { .. } => "Transferred",
        Event::Released { .. } => "Released",
        Event::Bound { .. } => "Bound",
        Event::Unbound { .. } => "Unbound",
        Event::Retained { .. } => "Retained",
        Event::Cooled { .. } => "Cooled",
        Event::Placed { .. } => "Placed",
        Event::Unplaced { .. } => "Unplaced",
        Event::Pinned { .. } => "Pinned",
        Event::Drained { .. } => "Drained",
        Event::Retired { .. } => "Retired",
        Event::Settings => "Settings",
        Event::AdoptionBegun { .. } => "AdoptionBegun",
        Event::Conflict(_) => "Conflict",
        Event::AdoptionEnded { .. } => "AdoptionEnded",
    }
}

fn reason_name(why: MoveReason) -> &'static str {
    match why {
        MoveReason::Homeless => "Homeless",
        MoveReason::NodeNotReady => "NodeNotReady",
        MoveReason::NodeGone => "NodeGone",
        MoveReason::NodeMismatch => "NodeMismatch",
        MoveReason::OverCapacity => "OverCapacity",
        MoveReason::NodeDrained => "NodeDrained",
        MoveReason::Pin => "Pin",
        MoveReason::Rebalance => "Rebalance",
        MoveReason::Recomputed => "Recomputed",
        MoveReason::AddressGone => "AddressGone",
    }
}

fn reason_text(why: MoveReason) -> &'static str {
    match why {
        MoveReason::Homeless => "it had no Node",
        MoveReason::NodeNotReady => "its Node is not ready",
        MoveReason::NodeGone => "its Node is gone",
        MoveReason::NodeMismatch => "its Node no longer matches the pool",
        MoveReason::OverCapacity => "its Node may carry fewer",
        MoveReason::NodeDrained => "its Node is drained",
        MoveReason::Pin => "pinned",
        MoveReason::Rebalance => "rebalanced",
        MoveReason::Recomputed => "recomputed",
        MoveReason::AddressGone => "the address is no longer its own",
    }
}

/// What changed, in words.
fn event_text(event: &Event) -> String {
    match event {
        Event::Put(object) => named(kind_and_name(object), "declared"),
        Event::Deleted(object) => named(kind_and_name(object), "gone"),
        Event::Waits { object, item, waiting } => {
            let reasons: Vec<String> = waiting.iter().map(Waiting::to_string).collect();
            format!("{}{} waits: {}", named(kind_and_name(object), "").trim_end(), item_text(*item), reasons.join("; "))
        }
        Event::Met { object, item } => {
            format!("{}{} no longer waits", named(kind_and_name(object), "").trim_end(), item_text(*item))
        }
        Event::Granted { address, pool, holder } => format!("{address} of {pool} granted to {holder}"),
        Event::Transferred { address, from, to, .. } => format!("{address} passed from {from} to {to}"),
        Event::Released { address, pool, holder, cooling_until } => {
            let cooling = cooling_until.map(|until| format!(", cooling until {}", words::clock(until)));
            format!("{address} of {pool} freed by {holder}{}", cooling.unwrap_or_default())
        }
        Event::Bound { id, ordinal, pod } => {
            format!("Pod {}/{} bound to StatefulSet {id} ordinal {ordinal}", pod.namespace, pod.name)
        }
        Event::Unbound { id, ordinal, pod } => {
            format!("Pod {}/{} gone from StatefulSet {id} ordinal {ordinal}", pod.namespace, pod.name)
        }
        Event::Retained { id, ordinal, until: Some(until) } => {
            format!("StatefulSet {id} ordinal {ordinal} retained until {}", words::clock(*until))
        }
        Event::Retained { id, ordinal, until: None } => {
            format!("StatefulSet {id} ordinal {ordinal} no longer only retained")
        }
        Event::Cooled { address } => format!("{address} has cooled down"),
        Event::Placed { address, egress, from: None, to, why } => {
            format!("Egress {egress}: {address} placed on Node {to}: {}", reason_text(*why))
        }
        Event::Placed { address, egress, from: Some(from), to, why } => {
            format!("Egress {egress}: {address} moved from Node {from} to Node {to}: {}", reason_text(*why))
        }
        Event::Unplaced { address, egress, from, why } => {
            format!("Egress {egress}: {address} left Node {from} and has none: {}", reason_text(*why))
        }
        Event::Pinned { address, egress, pinned } => {
            format!("Egress {egress}: {address} {}", if *pinned { "pinned" } else { "unpinned" })
        }
        Event::Drained { node, drained } => {
            format!("Node {node} {}", if *drained { "drained" } else { "no longer drained" })
        }
        Event::Retired { pool, held: 0 } => format!("what was left of {pool} is gone"),
        Event::Retired { pool, held } => format!("{pool} retired, {held} addresses still held"),
        Event::Settings => "settings changed".to_owned(),
        Event::AdoptionBegun { mode } => format!("adoption of what the API says begun, in mode {mode}"),
        Event::Conflict(conflict) => format!("conflict: {conflict}"),
        Event::AdoptionEnded { conflicts } => {
            let conflicts = words::counted(*conflicts, "conflict", "conflicts");
            format!("what the API says is adopted, with {conflicts}")
        }
    }
}

fn named((kind, name): (&'static str, String), said: &str) -> String {
    format!("{kind} {name} {said}")
}

fn item_text(item: Option<u32>) -> String {
    item.filter(|item| *item > 0).map(|item| format!(" item {item}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_revision_what_and_why() {
        let event = Event::Placed {
            address: "10.9.0.1".parse().expect("an address"),
            egress: "pay".into(),
            from: Some("a".into()),
            to: "b".into(),
            why: MoveReason::NodeDrained,
        };
        let cause = Cause::Command { name: "Drain".into(), object: "a".into(), source: "api".into() };
        let change = Change { revision: 7, index: 3, at: 0, cause, event };
        let line = line(&change);
        assert_eq!(
            line,
            "rev 7     1970-01-01 00:00:00  Egress pay: 10.9.0.1 moved from Node a to Node b: its Node is drained  \
             [Drain a by api]"
        );
        let view = ChangeView::of(&change);
        assert_eq!((view.event, view.why, view.to.as_deref()), ("Placed", Some("NodeDrained"), Some("b")));
    }
}
