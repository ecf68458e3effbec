//! The bytes of everything that is stored or logged, as checked in under `tests/golden/`: one line a value, its name and
//! its frame in hexadecimal. A change of format shows as a difference here, and old bytes must go on decoding to the
//! same values: a changed line means that the kind needs a new version and a reader of the former one, not a new file.
//!
//! New values get lines by `HOLDFAST_BLESS=1 cargo test -p holdfast-statemachine --test golden`, which adds those missing
//! and leaves the others as they are.

#[path = "golden/samples.rs"]
mod samples;

use std::collections::BTreeSet;
use std::fmt::{Debug, Write};
use std::fs;
use std::mem::discriminant;
use std::path::PathBuf;

use holdfast_statemachine::codec::{Kind, decode, encode};
use holdfast_statemachine::store::{Extent, Meta, decode_key, encode_key};
use holdfast_statemachine::{Key, snapshot::SnapshotInfo};
use serde::Serialize;
use serde::de::DeserializeOwned;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap()).collect()
}

/// The lines of a file, after adding those missing if that is asked for.
fn golden(file: &str, samples: &[(String, Vec<u8>)]) -> Vec<(String, Vec<u8>)> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    let mut text = fs::read_to_string(&path).unwrap_or_default();
    if std::env::var_os("HOLDFAST_BLESS").is_some() {
        for (name, bytes) in samples {
            if !text.lines().any(|line| line.split(' ').next() == Some(name)) {
                writeln!(text, "{name} {}", hex(bytes)).unwrap();
            }
        }
        fs::write(&path, &text).unwrap();
    }
    let lines = text.lines().map(|line| {
        let (name, hex) = line.split_once(' ').unwrap_or_else(|| panic!("{file}: {line}"));
        (name.to_owned(), bytes(hex))
    });
    lines.collect()
}

/// Compares samples with their lines, both ways.
fn check<T: Serialize + DeserializeOwned + PartialEq + Debug>(file: &str, kind: Kind, samples: &[(String, T)]) {
    let written: Vec<_> = samples.iter().map(|(name, value)| (name.clone(), encode(kind, value).unwrap())).collect();
    let golden = golden(file, &written);
    assert_eq!(golden.len(), samples.len(), "{file} has other lines than there are samples");
    for (((name, value), (_, written)), (line, bytes)) in samples.iter().zip(&written).zip(&golden) {
        assert_eq!(name, line, "{file}");
        assert_eq!(hex(written), hex(bytes), "{file}: {name} is written otherwise");
        assert_eq!(&decode::<T>(kind, bytes).unwrap(), value, "{file}: {name} is read otherwise");
    }
}

/// `variant`, or `variant-2` for its second sample and so on.
fn named<T: Debug>(samples: Vec<T>) -> Vec<(String, T)> {
    let mut seen = BTreeSet::new();
    let names = samples.into_iter().map(|sample| {
        let text = format!("{sample:?}");
        let variant: String = text.chars().take_while(char::is_ascii_alphanumeric).collect();
        let mut name = variant.clone();
        let mut nth = 1;
        while !seen.insert(name.clone()) {
            nth += 1;
            name = format!("{variant}-{nth}");
        }
        (name, sample)
    });
    names.collect()
}

/// As many variants as the exhaustive list beside the samples has.
fn covers<T>(samples: &[T], variants: usize) {
    let mut seen = Vec::new();
    for sample in samples {
        if !seen.contains(&discriminant(sample)) {
            seen.push(discriminant(sample));
        }
    }
    assert_eq!(seen.len(), variants);
}

#[test]
fn keys() {
    covers(&samples::keys(), samples::KEYS);
    let samples = named(samples::keys());
    let key_bytes = |key: &Key| {
        let mut bytes = Vec::new();
        encode_key(key, &mut bytes);
        bytes
    };
    let written: Vec<_> = samples.iter().map(|(name, key)| (name.clone(), key_bytes(key))).collect();
    let golden = golden("key.hex", &written);
    assert_eq!(golden, written);
    for ((_, bytes), (_, key)) in golden.iter().zip(&samples) {
        assert_eq!(decode_key(bytes).as_ref(), Some(key));
    }
}

#[test]
fn rows() {
    covers(&samples::rows(), samples::ROWS);
    let reasons: Vec<_> = samples::conflicts().into_iter().map(|conflict| conflict.why).collect();
    covers(&reasons, samples::CONFLICTS);
    check("row.hex", Kind::Row, &named(samples::rows()));
}

#[test]
fn holders() {
    covers(&samples::holders(), samples::HOLDERS);
    check("holder.hex", Kind::Row, &named(samples::holders()));
}

#[test]
fn entries() {
    let actions = samples::actions();
    covers(&actions, samples::ACTIONS);
    let entries = named(actions).into_iter().map(|(name, action)| (name, samples::entry(&action)));
    check("entry.hex", Kind::LogEntry, &entries.collect::<Vec<_>>());
}

#[test]
fn changes() {
    let events = samples::events();
    covers(&events, samples::EVENTS);
    let changes = named(events).into_iter().map(|(name, event)| (name, samples::changes(&event)));
    check("changes.hex", Kind::Changes, &changes.collect::<Vec<_>>());
}

#[test]
fn reasons() {
    covers(&samples::reasons(), samples::REASONS);
    check("move-reason.hex", Kind::Changes, &named(samples::reasons()));
}

#[test]
fn outcomes() {
    covers(&samples::notes(), samples::NOTES);
    covers(&samples::rejections(), samples::REJECTIONS);
    covers(&samples::ineligible(), samples::INELIGIBLE);
    let notes = named(samples::notes()).into_iter();
    check("outcome.hex", Kind::Outcomes, &notes.map(|(name, note)| (name, samples::outcome(note))).collect::<Vec<_>>());
    check("rejection.hex", Kind::Outcomes, &named(samples::rejections()));
    check("ineligible.hex", Kind::Outcomes, &named(samples::ineligible()));
}

#[test]
fn waitings() {
    covers(&samples::waitings(), samples::WAITINGS);
    check("waiting.hex", Kind::Row, &named(samples::waitings()));
}

#[test]
fn the_stores_own_records() {
    let meta = Meta {
        position: Some(vec![1, 2, 3]),
        digest: 0x0123_4567_89ab_cdef_0011_2233_4455_6677,
        rows: 7,
        history: Extent { first: 5, next: 2_000 },
        indexed: 1_025,
    };
    check(
        "snapshot-header.hex",
        Kind::SnapshotHeader,
        &[("SnapshotInfo".to_owned(), SnapshotInfo { meta: meta.clone(), revision: 1_999 })],
    );
    check(
        "meta.hex",
        Kind::Meta,
        &[("Meta".to_owned(), meta.clone()), ("Meta-2".to_owned(), Meta { position: None, ..meta })],
    );
    check("index.hex", Kind::Index, &[("Index".to_owned(), vec![(0x0123_4567_89ab_cdefu64, 7u64), (u64::MAX, 1)])]);
}
