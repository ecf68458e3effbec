//! How every value is written: to sled, to the log, to a snapshot and to a peer.
//!
//! A value is a frame: kind (1 byte), format version of that kind (1), length of the payload (4, little-endian),
//! CRC-32 of all that precedes and of the payload (4, little-endian), payload. The payload is bincode's legacy
//! layout, which is why enums that are written only ever grow at their end. This module alone names bincode.
//! `docs/formats.md` gives every byte.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// What a value is. The number is written; numbers are never used again for something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A [`Row`](crate::Row) of the ledger.
    Row = 1,
    /// [`Change`](crate::Change)s of the history that follow one another.
    Changes = 2,
    /// The store's own record of what it holds.
    Meta = 3,
    /// The first record of a snapshot file.
    SnapshotHeader = 4,
    /// The last record of a snapshot file.
    SnapshotTrailer = 5,
    /// Where changes of the history are found by whom they concern.
    Index = 6,
    /// An entry of the log.
    LogEntry = 16,
    /// The vote of a replica.
    LogVote = 17,
    /// What else a replica keeps beside its log.
    LogState = 18,
    /// Who a replica is: its cluster and its node id.
    Identity = 19,
    /// The position of an entry: its log id and the membership in force.
    Position = 20,
    /// A request between replicas.
    PeerRequest = 32,
    /// The answer to one.
    PeerReply = 33,
    /// What the commands of an entry came to, as answered to the replica that forwarded them.
    Outcomes = 34,
}

impl Kind {
    /// The format version in which values of this kind are written. Only this one is read so far: a kind whose
    /// layout changes gets the next version here and a reader of the former one.
    pub fn version(self) -> u8 {
        1
    }
}

/// Bytes before the payload.
pub const HEADER_BYTES: usize = 10;

/// The longest payload, in bytes. A longer one is a fault, not data.
pub const PAYLOAD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes that are not a value of the kind expected, or a value too long to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// Fewer bytes than a header has.
    #[error("{found} bytes are too few for a header of {HEADER_BYTES}")]
    Header {
        /// How many there are.
        found: usize,
    },
    /// A value of another kind.
    #[error("a value of kind {found}, not {} ({expected:?})", *expected as u8)]
    Kind {
        /// What was expected.
        expected: Kind,
        /// The kind byte.
        found: u8,
    },
    /// Written by another version of Holdfast.
    #[error("a {kind:?} of format version {found}; this Holdfast reads {}", kind.version())]
    Version {
        /// The kind.
        kind: Kind,
        /// The version byte.
        found: u8,
    },
    /// Cut short, or followed by something else.
    #[error("a {kind:?} whose header says {said} bytes of payload, with {found}")]
    Length {
        /// The kind.
        kind: Kind,
        /// Bytes that the header promises.
        said: usize,
        /// Bytes that follow it.
        found: usize,
    },
    /// Damaged.
    #[error("a {kind:?} whose checksum is {found:08x}, not {said:08x}")]
    Checksum {
        /// The kind.
        kind: Kind,
        /// As written.
        said: u32,
        /// As computed.
        found: u32,
    },
    /// Undamaged, but not a value of this type: written by something else, or a type changed its layout.
    #[error("a {kind:?} whose payload does not decode: {why}")]
    Payload {
        /// The kind.
        kind: Kind,
        /// What the decoder says.
        why: String,
    },
    /// A value that cannot be written: longer than [`PAYLOAD_BYTES_MAX`].
    #[error("a {kind:?} that cannot be written: {why}")]
    Unwritable {
        /// The kind.
        kind: Kind,
        /// What the encoder says.
        why: String,
    },
}

fn config() -> impl bincode::config::Config {
    bincode::config::legacy().with_limit::<PAYLOAD_BYTES_MAX>()
}

/// The frame of a value.
pub fn encode<T: Serialize + ?Sized>(kind: Kind, value: &T) -> Result<Vec<u8>, CodecError> {
    let mut bytes = Vec::with_capacity(128);
    encode_into(kind, value, &mut bytes)?;
    Ok(bytes)
}

/// Appends the frame of a value. On an error the buffer is as it was.
pub fn encode_into<T: Serialize + ?Sized>(kind: Kind, value: &T, bytes: &mut Vec<u8>) -> Result<(), CodecError> {
    let start = bytes.len();
    bytes.extend_from_slice(&[kind as u8, kind.version(), 0, 0, 0, 0, 0, 0, 0, 0]);
    let unwritable = |bytes: &mut Vec<u8>, why: String| {
        bytes.truncate(start);
        Err(CodecError::Unwritable { kind, why })
    };
    if let Err(error) = bincode::serde::encode_into_std_write(value, bytes, config()) {
        return unwritable(bytes, error.to_string());
    }
    let length = bytes.len() - start - HEADER_BYTES;
    let Some(said) = u32::try_from(length).ok().filter(|_| length <= PAYLOAD_BYTES_MAX) else {
        return unwritable(bytes, format!("{length} bytes, of {PAYLOAD_BYTES_MAX} allowed"));
    };
    bytes[start + 2..start + 6].copy_from_slice(&said.to_le_bytes());
    let checksum = checksum(&bytes[start..]);
    bytes[start + 6..start + HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    Ok(())
}

/// The value of a frame that fills `bytes`.
pub fn decode<T: DeserializeOwned>(kind: Kind, bytes: &[u8]) -> Result<T, CodecError> {
    let payload = payload(kind, bytes)?;
    let (value, used) = bincode::serde::decode_from_slice(payload, config())
        .map_err(|error| CodecError::Payload { kind, why: error.to_string() })?;
    if used != payload.len() {
        let why = format!("{} bytes are left over", payload.len() - used);
        return Err(CodecError::Payload { kind, why });
    }
    Ok(value)
}

/// The whole length, header included, of the frame that these bytes begin, as its header says; unchecked.
pub fn frame_bytes(bytes: &[u8]) -> Option<usize> {
    let length = bytes.get(2..6)?.try_into().ok().map(u32::from_le_bytes)?;
    usize::try_from(length).ok()?.checked_add(HEADER_BYTES)
}

fn payload(kind: Kind, bytes: &[u8]) -> Result<&[u8], CodecError> {
    let found = bytes.len();
    let (Some(whole), Some(sum)) = (frame_bytes(bytes), bytes.get(6..HEADER_BYTES)) else {
        return Err(CodecError::Header { found });
    };
    if bytes[0] != kind as u8 {
        return Err(CodecError::Kind { expected: kind, found: bytes[0] });
    }
    if bytes[1] != kind.version() {
        return Err(CodecError::Version { kind, found: bytes[1] });
    }
    if whole != found {
        return Err(CodecError::Length { kind, said: whole - HEADER_BYTES, found: found - HEADER_BYTES });
    }
    let said = u32::from_le_bytes([sum[0], sum[1], sum[2], sum[3]]);
    let found = checksum(bytes);
    if said != found {
        return Err(CodecError::Checksum { kind, said, found });
    }
    Ok(&bytes[HEADER_BYTES..])
}

/// Of a frame, without the four bytes of the checksum itself.
fn checksum(frame: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&frame[..6]);
    hasher.update(&frame[HEADER_BYTES..]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_back() {
        let value = ("name".to_owned(), 7u64, vec![1u8, 2, 3]);
        let bytes = encode(Kind::Row, &value).unwrap();
        assert_eq!(decode::<(String, u64, Vec<u8>)>(Kind::Row, &bytes), Ok(value));
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        let bytes = encode(Kind::Row, &("name".to_owned(), 7u64)).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode::<(String, u64)>(Kind::Row, &bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn every_cut_and_every_addition_is_refused() {
        let bytes = encode(Kind::Row, &("name".to_owned(), 7u64)).unwrap();
        for length in 0..bytes.len() {
            assert!(decode::<(String, u64)>(Kind::Row, &bytes[..length]).is_err(), "{length} bytes");
        }
        let mut long = bytes;
        long.push(0);
        assert_eq!(
            decode::<(String, u64)>(Kind::Row, &long),
            Err(CodecError::Length { kind: Kind::Row, said: 20, found: 21 })
        );
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let mut bytes = encode(Kind::Row, &7u64).unwrap();
        assert_eq!(decode::<u64>(Kind::Row, &bytes[..9]), Err(CodecError::Header { found: 9 }));
        assert_eq!(decode::<u64>(Kind::Meta, &bytes), Err(CodecError::Kind { expected: Kind::Meta, found: 1 }));
        assert!(matches!(decode::<u32>(Kind::Row, &bytes), Err(CodecError::Payload { .. })));
        assert!(matches!(decode::<String>(Kind::Row, &bytes), Err(CodecError::Payload { .. })));
        bytes[12] ^= 1;
        assert!(matches!(decode::<u64>(Kind::Row, &bytes), Err(CodecError::Checksum { .. })));
        bytes[1] = 2;
        assert_eq!(decode::<u64>(Kind::Row, &bytes), Err(CodecError::Version { kind: Kind::Row, found: 2 }));
    }

    #[test]
    fn what_is_too_long_is_not_written() {
        let mut bytes = vec![1, 2];
        let long = vec![0u8; PAYLOAD_BYTES_MAX];
        assert!(matches!(encode_into(Kind::Row, &long, &mut bytes), Err(CodecError::Unwritable { .. })));
        assert_eq!(bytes, [1, 2]);
    }

    #[test]
    fn a_length_in_the_payload_that_is_not_there_is_refused_without_reserving_it() {
        let mut bytes = encode(Kind::Row, &(u64::MAX, 0u64)).unwrap();
        let sum = checksum(&bytes);
        bytes[6..10].copy_from_slice(&sum.to_le_bytes());
        assert!(matches!(decode::<Vec<u64>>(Kind::Row, &bytes), Err(CodecError::Payload { .. })));
    }
}
