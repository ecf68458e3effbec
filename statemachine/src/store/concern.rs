//! Under which addresses and owners a change is found again.

use std::fmt::Write;
use std::net::IpAddr;

use super::key::{put_address_index, put_owner_index};
use crate::change::{Change, Event};
use crate::command::StatefulSetId;
use crate::row::{Holder, PodRef};

/// The text that a holder's history is found under: `statefulset/NAMESPACE/NAME/ORDINAL`, `named/NAME`,
/// `pod/NAMESPACE/NAME`, `egress/NAME`, `observed/OWNER`. A Node's is `node/NAME`.
pub fn owner_text(holder: &Holder) -> String {
    let mut text = String::new();
    put_holder(holder, &mut text);
    text
}

fn put_holder(holder: &Holder, text: &mut String) {
    match holder {
        Holder::Ordinal { id, ordinal, .. } => put_ordinal(id, *ordinal, text),
        Holder::Named { name, .. } => put(text, &["named/", name]),
        Holder::Pod { pod, .. } => put_pod(pod, text),
        Holder::Egress { name } => put(text, &["egress/", name]),
        Holder::Observed { owner } => put(text, &["observed/", owner]),
    }
}

fn put(text: &mut String, pieces: &[&str]) {
    text.extend(pieces.iter().copied());
}

fn put_pod(pod: &PodRef, text: &mut String) {
    put(text, &["pod/", &pod.namespace, "/", &pod.name]);
}

fn put_ordinal(id: &StatefulSetId, ordinal: u32, text: &mut String) {
    put(text, &["statefulset/", &id.namespace, "/", &id.name, "/"]);
    write!(text, "{ordinal}").expect("writing to a String cannot fail");
}

/// The keys under which a change is found by address and by owner. Its buffers are used again for the next change.
#[derive(Debug, Default)]
pub(crate) struct Concerns {
    key: Vec<u8>,
    text: String,
    latest: String,
}

impl Concerns {
    /// Calls `each` with every such key, each once.
    pub(crate) fn keys(&mut self, change: &Change, mut each: impl FnMut(&[u8])) {
        let revision = change.revision.to_be_bytes();
        if let Some(address) = address_of(&change.event) {
            self.key.clear();
            put_address_index(address, &mut self.key);
            self.key.extend_from_slice(&revision);
            each(&self.key);
        }
        self.latest.clear();
        self.owners(&change.event, |key, text| {
            key.clear();
            put_owner_index(text, key);
            key.extend_from_slice(&revision);
            each(key);
        });
    }

    /// Calls `each` with the text of every owner that an event concerns, each once.
    fn owners(&mut self, event: &Event, mut each: impl FnMut(&mut Vec<u8>, &str)) {
        let mut one = |put: &dyn Fn(&mut String)| {
            self.text.clear();
            put(&mut self.text);
            if self.text != self.latest {
                each(&mut self.key, &self.text);
                std::mem::swap(&mut self.text, &mut self.latest);
            }
        };
        match event {
            Event::Granted { holder, .. } | Event::Released { holder, .. } => one(&|text| put_holder(holder, text)),
            Event::Transferred { from, to, .. } => {
                one(&|text| put_holder(from, text));
                one(&|text| put_holder(to, text));
            }
            Event::Bound { id, ordinal, pod } | Event::Unbound { id, ordinal, pod } => {
                one(&|text| put_ordinal(id, *ordinal, text));
                one(&|text| put_pod(pod, text));
            }
            Event::Placed { egress, from, to, .. } => {
                one(&|text| put(text, &["egress/", egress]));
                if let Some(from) = from {
                    one(&|text| put(text, &["node/", from]));
                }
                one(&|text| put(text, &["node/", to]));
            }
            Event::Unplaced { egress, from, .. } => {
                one(&|text| put(text, &["egress/", egress]));
                one(&|text| put(text, &["node/", from]));
            }
            _ => {}
        }
    }
}

fn address_of(event: &Event) -> Option<IpAddr> {
    match event {
        Event::Granted { address, .. }
        | Event::Transferred { address, .. }
        | Event::Released { address, .. }
        | Event::Placed { address, .. }
        | Event::Unplaced { address, .. } => Some(*address),
        _ => None,
    }
}
