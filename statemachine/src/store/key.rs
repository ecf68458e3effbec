//! The keys that rows and history are stored under: in sled's order, rows lie in the order of [`Key`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::command::StatefulSetId;
use crate::row::{Key, PoolId, PoolKind};
use crate::{Name, Revision};

/// The store's own record.
pub(crate) const META: &[u8] = &[0x00];
/// Rows of the ledger: `ROW + variant` of their [`Key`].
const ROW: u8 = 0x10;
/// Rows begin with a byte from here on.
pub(crate) const ROWS: u8 = ROW;
/// Rows begin with a byte below this one.
pub(crate) const ROWS_END: u8 = 0x20;
/// Changes that follow one another: this byte and the revision of the first.
pub(crate) const CHANGES: u8 = 0x40;
/// Where changes are found by whom they concern: this byte and the revision of the first change covered.
pub(crate) const INDEX: u8 = 0x41;

/// Appends the key of a row.
pub fn encode_key(key: &Key, bytes: &mut Vec<u8>) {
    match key {
        Key::Clock => bytes.push(ROW),
        Key::Settings => bytes.push(ROW + 1),
        Key::Pool(id) => put_pool(ROW + 2, id, bytes),
        Key::Retired(id) => put_pool(ROW + 3, id, bytes),
        Key::Grant(address) => put_tagged_address(ROW + 4, *address, bytes),
        Key::Cooling(address) => put_tagged_address(ROW + 5, *address, bytes),
        Key::Reservation(id) => put_set(ROW + 6, id, bytes),
        Key::Ordinal(id, ordinal) => {
            put_set(ROW + 7, id, bytes);
            bytes.extend_from_slice(&ordinal.to_be_bytes());
        }
        Key::Egress(name) => put_name(ROW + 8, name, bytes),
        Key::Placement(address) => put_tagged_address(ROW + 9, *address, bytes),
        Key::Node(name) => put_name(ROW + 10, name, bytes),
        Key::Adoption => bytes.push(ROW + 11),
    }
}

/// The row that a key names, or `None` for bytes that [`encode_key`] does not write.
pub fn decode_key(bytes: &[u8]) -> Option<Key> {
    let (&tag, mut rest) = bytes.split_first()?;
    let rest = &mut rest;
    let key = match tag.checked_sub(ROW)? {
        0 => Key::Clock,
        1 => Key::Settings,
        2 => Key::Pool(take_pool(rest)?),
        3 => Key::Retired(take_pool(rest)?),
        4 => Key::Grant(take_address(rest)?),
        5 => Key::Cooling(take_address(rest)?),
        6 => Key::Reservation(take_set(rest)?),
        7 => Key::Ordinal(take_set(rest)?, u32::from_be_bytes(take(rest)?)),
        8 => Key::Egress(take_text(rest)?),
        9 => Key::Placement(take_address(rest)?),
        10 => Key::Node(take_text(rest)?),
        11 => Key::Adoption,
        _ => return None,
    };
    rest.is_empty().then_some(key)
}

/// A key of the history: of changes, or of their index.
pub(crate) fn history_key(tag: u8, revision: Revision) -> [u8; 9] {
    let mut bytes = [tag; 9];
    bytes[1..].copy_from_slice(&revision.to_be_bytes());
    bytes
}

/// The revision in a key of the history; `None` for a key of something else.
pub(crate) fn revision_of(key: &[u8]) -> Option<Revision> {
    match key.split_first()? {
        (&(CHANGES | INDEX), rest) => rest.first_chunk::<8>().copied().map(Revision::from_be_bytes),
        _ => None,
    }
}

/// The key of part `number`, 1 and up, of the value whose first part is under `key`. No key begins with another, so
/// that parts lie right behind their first one and are nobody else's.
pub(crate) fn part_key(key: &[u8], number: u16) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(key.len() + 2);
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes
}

fn put_pool(tag: u8, id: &PoolId, bytes: &mut Vec<u8>) {
    let kind = match id.kind {
        PoolKind::IpPool => 0,
        PoolKind::ExternalIpPool => 1,
    };
    bytes.extend_from_slice(&[tag, kind]);
    put_text(&id.name, bytes);
}

fn put_set(tag: u8, id: &StatefulSetId, bytes: &mut Vec<u8>) {
    put_name(tag, &id.namespace, bytes);
    put_text(&id.name, bytes);
}

fn put_name(tag: u8, name: &str, bytes: &mut Vec<u8>) {
    bytes.push(tag);
    put_text(name, bytes);
}

/// Text ends with two zero bytes; a zero in it is followed by 0xff. So a text sorts before every longer one that
/// begins with it, whatever follows either.
fn put_text(text: &str, bytes: &mut Vec<u8>) {
    if text.as_bytes().contains(&0) {
        for byte in text.bytes() {
            bytes.push(byte);
            if byte == 0 {
                bytes.push(0xff);
            }
        }
    } else {
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes.extend_from_slice(&[0, 0]);
}

/// Family (4 or 6), then the address, most significant byte first.
fn put_tagged_address(tag: u8, address: IpAddr, bytes: &mut Vec<u8>) {
    match address {
        IpAddr::V4(v4) => {
            bytes.extend_from_slice(&[tag, 4]);
            bytes.extend_from_slice(&v4.octets());
        }
        IpAddr::V6(v6) => {
            bytes.extend_from_slice(&[tag, 6]);
            bytes.extend_from_slice(&v6.octets());
        }
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}

fn take_text(rest: &mut &[u8]) -> Option<Name> {
    let mut text = Vec::new();
    loop {
        let [byte] = take(rest)?;
        if byte != 0 {
            text.push(byte);
            continue;
        }
        match take(rest)? {
            [0] => return String::from_utf8(text).ok().map(Name::from),
            [0xff] => text.push(0),
            _ => return None,
        }
    }
}

fn take_set(rest: &mut &[u8]) -> Option<StatefulSetId> {
    Some(StatefulSetId { namespace: take_text(rest)?, name: take_text(rest)? })
}

fn take_pool(rest: &mut &[u8]) -> Option<PoolId> {
    let kind = match take(rest)? {
        [0] => PoolKind::IpPool,
        [1] => PoolKind::ExternalIpPool,
        _ => return None,
    };
    Some(PoolId { kind, name: take_text(rest)? })
}

fn take_address(rest: &mut &[u8]) -> Option<IpAddr> {
    match take(rest)? {
        [4] => take::<4>(rest).map(|octets| IpAddr::V4(Ipv4Addr::from(octets))),
        [6] => take::<16>(rest).map(|octets| IpAddr::V6(Ipv6Addr::from(octets))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_name() -> impl Strategy<Value = Name> {
        "[a\u{0}\u{1}é\u{ff}]{0,3}".prop_map(Name::from)
    }

    fn any_key() -> impl Strategy<Value = Key> {
        let pool = (prop_oneof![Just(PoolKind::IpPool), Just(PoolKind::ExternalIpPool)], any_name())
            .prop_map(|(kind, name)| PoolId { kind, name })
            .boxed();
        let set = (any_name(), any_name()).prop_map(|(namespace, name)| StatefulSetId { namespace, name }).boxed();
        let address = prop_oneof![
            any::<u32>().prop_map(|n| IpAddr::V4(n.into())),
            any::<u128>().prop_map(|n| IpAddr::V6(n.into()))
        ]
        .boxed();
        prop_oneof![
            Just(Key::Clock),
            Just(Key::Settings),
            pool.clone().prop_map(Key::Pool),
            pool.prop_map(Key::Retired),
            address.clone().prop_map(Key::Grant),
            address.clone().prop_map(Key::Cooling),
            set.clone().prop_map(Key::Reservation),
            (set, any::<u32>()).prop_map(|(set, ordinal)| Key::Ordinal(set, ordinal)),
            any_name().prop_map(Key::Egress),
            address.prop_map(Key::Placement),
            any_name().prop_map(Key::Node),
        ]
    }

    fn bytes_of(key: &Key) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_key(key, &mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn keys_come_back_and_keep_their_order(a in any_key(), b in any_key()) {
            let (bytes_a, bytes_b) = (bytes_of(&a), bytes_of(&b));
            prop_assert_eq!(decode_key(&bytes_a), Some(a.clone()));
            prop_assert_eq!(bytes_a.cmp(&bytes_b), a.cmp(&b));
            prop_assert!(a == b || !bytes_b.starts_with(&bytes_a), "one key begins another");
        }

        #[test]
        fn bytes_that_are_no_key_are_refused_or_come_back(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            if let Some(key) = decode_key(&bytes) {
                prop_assert_eq!(bytes_of(&key), bytes);
            }
        }
    }
}
