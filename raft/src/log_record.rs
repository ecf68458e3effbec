//! How votes and entries are written to the log's files.
//!
//! raft-log frames and checks each record, but a record tells its own length: a flipped bit there would look
//! like a record cut short by a crash, and all behind it would be dropped. So each payload begins with its
//! length and a checksum of that length alone (both 4 bytes, big-endian), and damage is told from a torn write.

use std::cmp::Ordering;
use std::io;

use bytes::Bytes;
use holdfast_statemachine::codec::{self, Kind};
use openraft::{CommittedLeaderId, EntryPayload};
use raft_log::codeq::{Decode, Encode};

use crate::types::{Entry, LogId, Membership, Proposal, TypeConfig, Vote};

/// The records' types, for raft-log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogTypes;

impl raft_log::Types for LogTypes {
    type LogId = RecordId;
    type LogPayload = RecordPayload;
    type Vote = RecordVote;
    type Callback = super::log_store::Flushed;
    type UserData = String;

    fn log_index(log_id: &RecordId) -> u64 {
        log_id.0.index
    }

    fn payload_size(payload: &RecordPayload) -> u64 {
        payload.bytes.len() as u64 + 64
    }
}

/// A log id: term, leader, index; 8 bytes each, big-endian.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RecordId(pub(crate) LogId);

impl Encode for RecordId {
    fn encode<W: io::Write>(&self, mut w: W) -> io::Result<usize> {
        for word in [self.0.leader_id.term, self.0.leader_id.node_id, self.0.index] {
            w.write_all(&word.to_be_bytes())?;
        }
        Ok(24)
    }
}

impl Decode for RecordId {
    fn decode<R: io::Read>(mut r: R) -> io::Result<Self> {
        let mut word = || {
            let mut bytes = [0; 8];
            r.read_exact(&mut bytes)?;
            io::Result::Ok(u64::from_be_bytes(bytes))
        };
        let (term, node, index) = (word()?, word()?, word()?);
        Ok(RecordId(LogId::new(CommittedLeaderId::new(term, node), index)))
    }
}

/// A vote, framed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordVote(pub(crate) Vote);

impl PartialOrd for RecordVote {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.0.partial_cmp(&other.0)
    }
}

impl Encode for RecordVote {
    fn encode<W: io::Write>(&self, w: W) -> io::Result<usize> {
        write_block(w, &codec::encode(Kind::LogVote, &self.0).map_err(invalid)?)
    }
}

impl Decode for RecordVote {
    fn decode<R: io::Read>(r: R) -> io::Result<Self> {
        codec::decode(Kind::LogVote, &read_block(r)?).map(RecordVote).map_err(invalid)
    }
}

/// What an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RecordKind {
    /// Nothing: a new leader's first.
    Blank = 0,
    /// Commands.
    Proposal = 1,
    /// A membership.
    Membership = 2,
}

impl TryFrom<u8> for RecordKind {
    type Error = io::Error;

    fn try_from(byte: u8) -> io::Result<RecordKind> {
        match byte {
            0 => Ok(RecordKind::Blank),
            1 => Ok(RecordKind::Proposal),
            2 => Ok(RecordKind::Membership),
            other => Err(invalid(format!("no entry is of kind {other}"))),
        }
    }
}

/// An entry but for its log id: the kind (1 byte), then the framed payload. It is decoded only when used, so
/// that opening a log costs no more than reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordPayload {
    pub(crate) kind: RecordKind,
    pub(crate) bytes: Bytes,
}

impl Encode for RecordPayload {
    fn encode<W: io::Write>(&self, mut w: W) -> io::Result<usize> {
        w.write_all(&[self.kind as u8])?;
        Ok(1 + write_block(w, &self.bytes)?)
    }
}

impl Decode for RecordPayload {
    fn decode<R: io::Read>(mut r: R) -> io::Result<Self> {
        let mut kind = [0];
        r.read_exact(&mut kind)?;
        let kind = RecordKind::try_from(kind[0])?;
        Ok(RecordPayload { kind, bytes: read_block(r)?.into() })
    }
}

impl RecordPayload {
    /// The bytes of an entry, in the log and to a peer alike.
    pub(crate) fn encode_entry(payload: EntryPayload<TypeConfig>) -> io::Result<RecordPayload> {
        Ok(match payload {
            EntryPayload::Blank => RecordPayload { kind: RecordKind::Blank, bytes: Bytes::new() },
            EntryPayload::Normal(proposal) => RecordPayload { kind: RecordKind::Proposal, bytes: proposal.bytes },
            EntryPayload::Membership(membership) => {
                let bytes = codec::encode(Kind::LogEntry, &membership).map_err(invalid)?;
                RecordPayload { kind: RecordKind::Membership, bytes: bytes.into() }
            }
        })
    }

    pub(crate) fn into_entry(self, log_id: LogId) -> io::Result<Entry> {
        let payload = match self.kind {
            RecordKind::Blank => EntryPayload::Blank,
            RecordKind::Proposal => EntryPayload::Normal(Proposal::from(self.bytes)),
            RecordKind::Membership => {
                let membership: Membership = codec::decode(Kind::LogEntry, &self.bytes).map_err(invalid)?;
                EntryPayload::Membership(membership)
            }
        };
        Ok(Entry { log_id, payload })
    }
}

/// Never `UnexpectedEof`: that would be taken for a torn write.
fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn write_block<W: io::Write>(mut w: W, bytes: &[u8]) -> io::Result<usize> {
    let length = u32::try_from(bytes.len()).map_err(invalid)?.to_be_bytes();
    w.write_all(&length)?;
    w.write_all(&crc32fast::hash(&length).to_be_bytes())?;
    w.write_all(bytes)?;
    Ok(8 + bytes.len())
}

fn read_block<R: io::Read>(mut r: R) -> io::Result<Vec<u8>> {
    let (mut length, mut sum) = ([0; 4], [0; 4]);
    r.read_exact(&mut length)?;
    r.read_exact(&mut sum)?;
    if crc32fast::hash(&length).to_be_bytes() != sum {
        return Err(invalid("the length of a payload does not match its checksum"));
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > codec::PAYLOAD_BYTES_MAX + codec::HEADER_BYTES {
        return Err(invalid(format!("a payload of {length} bytes")));
    }
    let mut bytes = vec![0; length];
    r.read_exact(&mut bytes)?;
    Ok(bytes)
}
