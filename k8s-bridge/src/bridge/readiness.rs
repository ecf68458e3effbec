//! When a Node counts as there. Both spans count from the condition's own `lastTransitionTime`.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::Options;
use crate::objects::Node;

/// Whether a Node counts as there at a time, and after how long that should be asked again, if nothing else changes.
///
/// `before`: whether it counted so far; `None` for a Node that was not known.
pub fn readiness(node: &Node, before: Option<bool>, now: Timestamp, options: &Options) -> (bool, Option<Duration>) {
    let condition = node.status.conditions.iter().find(|condition| &*condition.kind == "Ready");
    let says = condition.is_some_and(|condition| &*condition.status == "True");
    // A Node that was never known is not one that returns, nor one that may still come back.
    let Some(before) = before.filter(|before| *before != says) else { return (says, None) };
    let span = if says { options.node_stable } else { options.node_grace };
    let since = condition.and_then(|condition| condition.since);
    let left = since.map_or(Duration::ZERO, |since| left(since, span, now));
    if left.is_zero() { (says, None) } else { (before, Some(left)) }
}

/// What is left of a span that began at `since`. One that began in the future begins now.
fn left(since: Timestamp, span: Duration, now: Timestamp) -> Duration {
    let passed = now.duration_since(since).max(SignedDuration::ZERO).unsigned_abs();
    span.saturating_sub(passed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(status: &str, since: i64) -> Node {
        let since = Timestamp::from_second(since).expect("is a time").to_string();
        serde_json::from_value(json!({
            "metadata": {"name": "n"},
            "status": {"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": since}]},
        }))
        .expect("is a Node")
    }

    #[test]
    fn each_change_counts_once_its_span_has_passed() {
        let options =
            Options { node_grace: Duration::from_secs(30), node_stable: Duration::from_secs(10), ..Options::default() };
        let at = |seconds| Timestamp::from_second(seconds).expect("is a time");
        let left = |seconds| Some(Duration::from_secs(seconds));
        for (status, before, now, expected) in [
            // Lost at 100: there until 130.
            ("False", Some(true), 100, (true, left(30))),
            ("Unknown", Some(true), 129, (true, left(1))),
            ("False", Some(true), 130, (false, None)),
            ("False", Some(false), 101, (false, None)),
            // Back at 100: there from 110 on.
            ("True", Some(false), 100, (false, left(10))),
            ("True", Some(false), 110, (true, None)),
            ("True", Some(true), 100, (true, None)),
            // Never seen before: as it says.
            ("True", None, 100, (true, None)),
            ("False", None, 100, (false, None)),
            // The other clock is ahead: the span begins now.
            ("False", Some(true), 90, (true, left(30))),
        ] {
            assert_eq!(readiness(&node(status, 100), before, at(now), &options), expected, "{status} {before:?} {now}");
        }
    }

    #[test]
    fn without_spans_a_node_counts_as_it_says() {
        let now = Timestamp::from_second(100).expect("is a time");
        assert_eq!(readiness(&node("False", 100), Some(true), now, &Options::default()), (false, None));
        let silent: Node = serde_json::from_value(json!({"metadata": {"name": "n"}})).expect("is a Node");
        assert_eq!(readiness(&silent, Some(true), now, &Options::default()), (false, None));
    }
}
