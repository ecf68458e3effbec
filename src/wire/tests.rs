//! What is written is read back; what cannot be read is named; nothing panics.

use holdfast_api::v1;
use holdfast_statemachine::{Action, Change, Key, Outcome, Rejection, Source};
use proptest::prelude::*;
use prost::Message as _;

use super::row::{Mismatch, read_row, row_message};
use super::{Invalid, Wire, arbitrary};

/// Through the bytes of the wire and back.
fn through<T: Wire<Message: prost::Message + Default>>(value: &T) -> Result<T, Invalid> {
    let bytes = value.to_message().encode_to_vec();
    T::from_message(T::Message::decode(bytes.as_slice()).expect("what was encoded decodes"))
}

/// Reads the message that these bytes are, if they are one.
fn read<T: Wire<Message: prost::Message + Default>>(bytes: &[u8]) {
    if let Ok(message) = T::Message::decode(bytes)
        && let Err(invalid) = T::from_message(message)
    {
        assert!(!invalid.field.is_empty() && !invalid.allowed.is_empty(), "{invalid:?}");
        assert!(invalid.value.len() <= super::VALUE_MAX);
    }
}

/// A message's bytes with some of them changed.
fn damaged(mut bytes: Vec<u8>, damage: &[(usize, u8)]) -> Vec<u8> {
    for (at, value) in damage {
        if let Some(length) = bytes.len().checked_sub(1) {
            bytes[at % (length + 1)] = *value;
        }
    }
    bytes
}

fn damage() -> impl Strategy<Value = Vec<(usize, u8)>> {
    proptest::collection::vec(any::<(usize, u8)>(), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { fork: false, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn actions_survive(action in arbitrary::action()) {
        prop_assert_eq!(through(&action), Ok(action));
    }

    #[test]
    fn sources_survive(source in arbitrary::source()) {
        prop_assert_eq!(Source::from_message(source.to_message()), Ok(source));
    }

    #[test]
    fn results_survive(result in arbitrary::result()) {
        prop_assert_eq!(through(&result), Ok(result));
    }

    #[test]
    fn changes_survive(change in arbitrary::change()) {
        prop_assert_eq!(through(&change), Ok(change));
    }

    #[test]
    fn rows_survive((key, row) in arbitrary::row()) {
        let message = row_message(&key, &row).expect("key and row belong together");
        let bytes = message.encode_to_vec();
        let message = v1::Row::decode(bytes.as_slice()).expect("what was encoded decodes");
        prop_assert_eq!(read_row(message), Ok((key, row)));
    }

    #[test]
    fn noise_does_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        read::<Action>(&bytes);
        read::<Result<Outcome, Rejection>>(&bytes);
        read::<Change>(&bytes);
        if let Ok(message) = v1::Row::decode(bytes.as_slice()) {
            drop(read_row(message));
        }
    }

    #[test]
    fn damage_does_not_panic(
        (action, result) in (arbitrary::action(), arbitrary::result()),
        (change, (key, row)) in (arbitrary::change(), arbitrary::row()),
        damage in damage(),
    ) {
        read::<Action>(&damaged(action.to_message().encode_to_vec(), &damage));
        read::<Result<Outcome, Rejection>>(&damaged(result.to_message().encode_to_vec(), &damage));
        read::<Change>(&damaged(change.to_message().encode_to_vec(), &damage));
        let row = row_message(&key, &row).expect("key and row belong together").encode_to_vec();
        if let Ok(message) = v1::Row::decode(damaged(row, &damage).as_slice()) {
            drop(read_row(message));
        }
    }
}

fn invalid(field: &str, value: &str, allowed: &str) -> Invalid {
    Invalid { field: field.to_owned(), value: value.to_owned(), allowed: allowed.to_owned() }
}

fn command(action: v1::command::Action) -> v1::Command {
    v1::Command { action: Some(action) }
}

#[test]
fn a_command_without_an_action_is_named() {
    let read = Action::from_message(v1::Command::default());
    assert_eq!(read, Err(invalid("action", "", "must be set")));
}

#[test]
fn an_unknown_enum_value_is_named_by_path() {
    let pool = v1::PoolId { kind: 7, name: "p".into() };
    let put = v1::PutPool { pool: Some(pool), ..v1::PutPool::default() };
    let read = Action::from_message(command(v1::command::Action::PutPool(put)));
    assert_eq!(read, Err(invalid("put_pool.pool.kind", "7", "POOL_KIND_IP_POOL, POOL_KIND_EXTERNAL_IP_POOL")));
}

#[test]
fn an_address_that_does_not_parse_is_named_by_path() {
    let grant = v1::Grant {
        owner: Some(v1::Owner {
            owner: Some(v1::owner::Owner::Named(v1::owner::Named { name: "vm".into(), uid: String::new() })),
        }),
        kind: v1::PoolKind::IpPool.into(),
        pools: vec!["p".into()],
        addresses: vec!["10.0.0.1".into(), "10.0.0.256".into()],
    };
    let read = Action::from_message(command(v1::command::Action::Grant(grant)));
    assert_eq!(read, Err(invalid("grant.addresses[1]", "10.0.0.256", "an IPv4 or IPv6 address")));
}

#[test]
fn names_are_bounded() {
    let drain =
        |node: String| Action::from_message(command(v1::command::Action::Drain(v1::Drain { node, force: false })));
    assert!(drain("n".repeat(253)).is_ok());
    for refused in ["n".repeat(254), String::new(), "a\nb".to_owned()] {
        let read = drain(refused.clone());
        assert_eq!(read, Err(invalid("drain.node", &refused, "1 to 253 bytes without control characters")));
    }
}

#[test]
fn a_long_value_is_cut_at_a_character() {
    let cut = Invalid::new("f", "ä".repeat(200), "short");
    assert_eq!(cut.value, "ä".repeat(128));
    let cut = Invalid::new("f", format!("x{}", "ä".repeat(200)), "short");
    assert_eq!(cut.value, format!("x{}", "ä".repeat(127)));
}

#[test]
fn sources_are_known_words() {
    for refused in ["", "Api", "manifests", "manifests:", "kubernetes "] {
        let read = Source::from_message(refused.to_owned());
        assert_eq!(read.map_err(|invalid| invalid.value), Err(refused.to_owned()));
    }
}

#[test]
fn counts_are_digits_of_128_bits() {
    assert_eq!(super::count("c", "340282366920938463463374607431768211455"), Ok(u128::MAX));
    for refused in ["", "-1", "+1", "1.0", " 1", "340282366920938463463374607431768211456"] {
        let read = super::count("c", refused);
        assert_eq!(read, Err(invalid("c", refused, "a decimal number of at most 128 bits")));
    }
}

#[test]
fn a_range_runs_upwards_in_one_family() {
    let read = |first: &str, last: &str| {
        holdfast_statemachine::Range::from_message(v1::Range { first: first.into(), last: last.into() })
    };
    assert!(read("10.0.0.1", "10.0.0.1").is_ok());
    for (first, last) in [("10.0.0.2", "10.0.0.1"), ("10.0.0.1", "fd00::1")] {
        assert_eq!(read(first, last).map_err(|invalid| invalid.field), Err("last".to_owned()));
    }
}

#[test]
fn a_key_with_the_row_of_another_kind_has_no_message() {
    let row = holdfast_statemachine::Row::Clock(holdfast_statemachine::row::Clock::default());
    assert_eq!(row_message(&Key::Settings, &row), Err(Mismatch(Key::Settings)));
}
