//! Under which addresses and owners a change is found again.

use std::fmt::Write;
use std::net::IpAddr;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::adopt::Conflict;
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

/// Under what a change is found again: the hash of an address, or of an owner's text. Two that have the same one are told
/// apart by the changes themselves.
pub(crate) fn address_hash(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(v4) => xxh3_64_with_seed(&v4.octets(), ADDRESS),
        IpAddr::V6(v6) => xxh3_64_with_seed(&v6.octets(), ADDRESS),
    }
}

/// See [`address_hash`].
pub(crate) fn owner_hash(owner: &str) -> u64 {
    xxh3_64_with_seed(owner.as_bytes(), OWNER)
}

const ADDRESS: u64 = 1;
const OWNER: u64 = 2;

/// Calls `each` with every hash that a change is found by. The text is a buffer.
pub(crate) fn hashes(change: &Change, text: &mut String, mut each: impl FnMut(u64)) {
    if let Some(address) = address_of(&change.event) {
        each(address_hash(address));
    }
    let mut latest = None;
    owners(&change.event, text, |text| {
        let hash = owner_hash(text);
        if latest.replace(hash) != Some(hash) {
            each(hash);
        }
    });
}

/// Calls `each` with the text of every owner that an event concerns.
fn owners(event: &Event, text: &mut String, mut each: impl FnMut(&str)) {
    let mut one = |put: &dyn Fn(&mut String)| {
        text.clear();
        put(text);
        each(text);
    };
    match event {
        Event::Granted { holder, .. } | Event::Released { holder, .. } => one(&|text| put_holder(holder, text)),
        Event::Conflict(conflict) => one(&|text| put_holder(&conflict.claimed_by, text)),
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

fn address_of(event: &Event) -> Option<IpAddr> {
    match event {
        Event::Granted { address, .. }
        | Event::Transferred { address, .. }
        | Event::Released { address, .. }
        | Event::Placed { address, .. }
        | Event::Unplaced { address, .. }
        | Event::Conflict(Conflict { address, .. }) => Some(*address),
        _ => None,
    }
}
