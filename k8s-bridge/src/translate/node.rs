//! Node.

use holdfast_statemachine::command::PutNode;

use super::said::Said;
use super::{annotations, uid};
use crate::objects::{Kind, Node};

/// A Node is live unless its Ready condition is there and other than `True`: one written by hand, without
/// conditions, counts as ready. A capacity that is no integer is the default one, as with Antrea.
pub(super) fn node(node: &Node, said: &mut Said) -> PutNode {
    let metadata = &node.metadata;
    let capacity = metadata.annotations.get(annotations::CAPACITY).and_then(|text| {
        let number = text.parse::<i64>().ok();
        if number.is_none() {
            let key = annotations::CAPACITY;
            said.note(format!("annotation {key}: {text:?} is not an integer; the default capacity is used"));
        }
        number
    });
    PutNode {
        name: metadata.name.clone(),
        uid: uid(Kind::Node, metadata),
        labels: metadata.labels.clone(),
        ready: node
            .status
            .conditions
            .iter()
            .all(|condition| &*condition.kind != "Ready" || &*condition.status == "True"),
        capacity,
    }
}
