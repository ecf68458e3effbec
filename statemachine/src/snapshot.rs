//! Snapshot files: all rows and the history as of one entry, checked to the last byte.
//!
//! A file is a magic text with the format's version, and blocks: a header, records, a trailer. Each block has its own
//! checksum, so that damage is found where it is; the trailer has one over all before it, so that no block is missing,
//! doubled or out of place. `docs/formats.md` gives every byte.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sled::Batch;
use xxhash_rust::xxh3::Xxh3;

use crate::Revision;
use crate::codec::{self, Kind};
use crate::store::{Disk, META, Meta, SnapshotScan, StoreError, sync_path};

/// Begins every file. The last four bytes are the format's version.
const MAGIC: &[u8; 12] = b"HOLDFAST0001";
const HEADER: u8 = b'H';
const RECORDS: u8 = b'R';
const TRAILER: u8 = b'T';
/// A block: what it is, the length of its payload, CRC-32 of both and of the payload.
const BLOCK_HEADER_BYTES: usize = 9;
/// A block of records is written when it has so many bytes.
const BLOCK_BYTES: usize = 64 * 1024;
/// No block is longer: one record more than [`BLOCK_BYTES`], whose key is bounded by what a request may carry.
const BLOCK_BYTES_MAX: usize = 32 * 1024 * 1024;

/// What a snapshot is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotInfo {
    /// Position, digest, number of rows, extent of the history: as of the entry at which it was begun.
    pub meta: Meta,
    /// The ledger's revision then.
    pub revision: Revision,
}

#[derive(Serialize, Deserialize)]
struct Trailer {
    /// Records in all blocks.
    records: u64,
    /// XXH3-128 of all bytes before the trailer's block.
    hash: u128,
}

impl SnapshotScan {
    /// Writes the snapshot: to a file beside `path`, synced, then renamed, the directory synced too. After an error
    /// there is no file of that name, unless there was one before.
    pub fn write_to(mut self, path: &Path) -> Result<SnapshotInfo, StoreError> {
        let fresh = path.with_added_extension("new");
        let written = self.write_file(&fresh).and_then(|info| {
            fs::rename(&fresh, path).map_err(StoreError::io("rename", &fresh))?;
            match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                Some(parent) => sync_path(parent)?,
                None => sync_path(Path::new("."))?,
            }
            Ok(info)
        });
        if written.is_err() {
            // The error that counts is the first one; what is left over is overwritten by the next snapshot.
            drop(fs::remove_file(&fresh));
        }
        written
    }

    fn write_file(&mut self, path: &Path) -> Result<SnapshotInfo, StoreError> {
        let info = SnapshotInfo { meta: self.meta().clone(), revision: self.revision() };
        let mut file = BlockWriter::create(path)?;
        file.write_value(HEADER, Kind::SnapshotHeader, &info)?;
        let mut records = 0;
        let mut block = Vec::with_capacity(2 * BLOCK_BYTES);
        let mut items = Vec::new();
        let mut more = true;
        while more {
            more = self.step(&mut items)?;
            for (key, value) in items.drain(..) {
                put_record(&mut block, &key, &value);
                records += 1;
                if block.len() >= BLOCK_BYTES {
                    file.write(RECORDS, &block)?;
                    block.clear();
                }
            }
        }
        if !block.is_empty() {
            file.write(RECORDS, &block)?;
        }
        let hash = file.hasher.digest128();
        file.write_value(TRAILER, Kind::SnapshotTrailer, &Trailer { records, hash })?;
        file.finish()?;
        Ok(info)
    }
}

/// What the snapshot in a file is of, by its first block; the rest is not read.
pub fn info(path: &Path) -> Result<SnapshotInfo, StoreError> {
    BlockReader::open(path)?.header()
}

/// Reads a file to its last byte and refuses it if any is not as written.
pub fn verify(path: &Path) -> Result<SnapshotInfo, StoreError> {
    read(path, |_| Ok(()))
}

/// Puts all records of a file into an empty database.
pub(crate) fn fill(path: &Path, disk: &Disk) -> Result<(), StoreError> {
    let info = read(path, |records| {
        let mut batch = Batch::default();
        for (key, value) in records {
            batch.insert(*key, *value);
        }
        Ok(disk.tree.apply_batch(batch)?)
    })?;
    let meta = codec::encode(Kind::Meta, &info.meta);
    let meta = meta.map_err(|source| StoreError::Value { key: "the store's record".to_owned(), source })?;
    disk.tree.insert(META, meta)?;
    Ok(())
}

type Record<'a> = (&'a [u8], &'a [u8]);

fn read(
    path: &Path,
    mut each: impl FnMut(&[Record<'_>]) -> Result<(), StoreError>,
) -> Result<SnapshotInfo, StoreError> {
    let mut file = BlockReader::open(path)?;
    let info = file.header()?;
    let mut records = 0;
    let mut latest = Vec::new();
    loop {
        let hash = file.hasher.digest128();
        let (tag, payload) = file.block()?;
        match tag {
            RECORDS => {
                let Some(block) = take_records(&payload) else {
                    return Err(file.bad("records that do not fill their block"));
                };
                for (key, _) in &block {
                    if *key <= &latest[..] {
                        return Err(file.bad("keys that do not ascend"));
                    }
                    latest.clear();
                    latest.extend_from_slice(key);
                }
                records += block.len() as u64;
                each(&block)?;
            }
            TRAILER => {
                let trailer: Trailer = file.value(Kind::SnapshotTrailer, &payload)?;
                if (trailer.records, trailer.hash) != (records, hash) {
                    return Err(file.bad("a trailer that does not fit what precedes it"));
                }
                return if file.at_end()? { Ok(info) } else { Err(file.bad("bytes after the trailer")) };
            }
            _ => return Err(file.bad("a block out of place")),
        }
    }
}

/// Length of the key, length of the value (4 bytes each, little-endian), key, value.
fn put_record(block: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    for length in [key.len(), value.len()] {
        let length = u32::try_from(length).expect("keys are bounded by requests and values by PART_BYTES");
        block.extend_from_slice(&length.to_le_bytes());
    }
    block.extend_from_slice(key);
    block.extend_from_slice(value);
}

fn take_records(mut block: &[u8]) -> Option<Vec<Record<'_>>> {
    let mut records = Vec::new();
    while !block.is_empty() {
        let (key, rest) = block.split_first_chunk::<4>()?;
        let (value, rest) = rest.split_first_chunk::<4>()?;
        let length = |bytes: &[u8; 4]| usize::try_from(u32::from_le_bytes(*bytes)).ok();
        let (key, rest) = rest.split_at_checked(length(key)?)?;
        let (value, rest) = rest.split_at_checked(length(value)?)?;
        records.push((key, value));
        block = rest;
    }
    Some(records)
}

struct BlockWriter {
    file: BufWriter<File>,
    path: PathBuf,
    hasher: Xxh3,
}

impl BlockWriter {
    fn create(path: &Path) -> Result<BlockWriter, StoreError> {
        let file = File::create(path).map_err(StoreError::io("create", path))?;
        let file = BufWriter::with_capacity(4 * BLOCK_BYTES, file);
        let mut writer = BlockWriter { file, path: path.to_owned(), hasher: Xxh3::new() };
        writer.put(MAGIC)?;
        Ok(writer)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.hasher.update(bytes);
        self.file.write_all(bytes).map_err(StoreError::io("write", &self.path))
    }

    fn write(&mut self, tag: u8, payload: &[u8]) -> Result<(), StoreError> {
        let header = block_header(tag, payload);
        self.put(&header)?;
        self.put(payload)
    }

    fn write_value<T: Serialize>(&mut self, tag: u8, kind: Kind, value: &T) -> Result<(), StoreError> {
        let bytes = codec::encode(kind, value);
        let bytes = bytes.map_err(|source| StoreError::Value { key: "a snapshot's block".to_owned(), source })?;
        self.write(tag, &bytes)
    }

    fn finish(mut self) -> Result<(), StoreError> {
        self.file.flush().map_err(StoreError::io("write", &self.path))?;
        self.file.get_ref().sync_all().map_err(StoreError::io("sync", &self.path))
    }
}

fn block_header(tag: u8, payload: &[u8]) -> [u8; BLOCK_HEADER_BYTES] {
    let length = u32::try_from(payload.len()).expect("a block is below BLOCK_BYTES_MAX");
    let mut header = [tag; BLOCK_HEADER_BYTES];
    header[1..5].copy_from_slice(&length.to_le_bytes());
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&header[..5]);
    checksum.update(payload);
    header[5..].copy_from_slice(&checksum.finalize().to_le_bytes());
    header
}

struct BlockReader {
    file: BufReader<File>,
    path: PathBuf,
    hasher: Xxh3,
    /// Where the block read last begins, and where it ends.
    at: u64,
    end: u64,
    bytes: u64,
}

impl BlockReader {
    fn open(path: &Path) -> Result<BlockReader, StoreError> {
        let file = File::open(path).map_err(StoreError::io("open", path))?;
        let bytes = file.metadata().map_err(StoreError::io("read", path))?.len();
        let file = BufReader::with_capacity(4 * BLOCK_BYTES, file);
        let mut reader = BlockReader { file, path: path.to_owned(), hasher: Xxh3::new(), at: 0, end: 0, bytes };
        let magic = reader.take(MAGIC.len())?;
        if magic[..8] != MAGIC[..8] {
            return Err(reader.bad("not a snapshot"));
        }
        if magic[8..] != MAGIC[8..] {
            return Err(reader.bad("a snapshot of another version"));
        }
        Ok(reader)
    }

    fn bad(&self, why: &str) -> StoreError {
        StoreError::Snapshot { path: self.path.clone(), at: self.at, why: why.to_owned() }
    }

    fn take(&mut self, length: usize) -> Result<Vec<u8>, StoreError> {
        if self.bytes - self.end < length as u64 {
            return Err(self.bad("cut short"));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact(&mut bytes).map_err(StoreError::io("read", &self.path))?;
        self.hasher.update(&bytes);
        self.end += length as u64;
        Ok(bytes)
    }

    fn block(&mut self) -> Result<(u8, Vec<u8>), StoreError> {
        self.at = self.end;
        let header = self.take(BLOCK_HEADER_BYTES)?;
        let length = u32::from_le_bytes([header[1], header[2], header[3], header[4]]);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > BLOCK_BYTES_MAX {
            return Err(self.bad("a block too long"));
        }
        let payload = self.take(length)?;
        if block_header(header[0], &payload)[..] != header[..] {
            return Err(self.bad("a block whose checksum is wrong"));
        }
        Ok((header[0], payload))
    }

    fn header(&mut self) -> Result<SnapshotInfo, StoreError> {
        match self.block()? {
            (HEADER, payload) => self.value(Kind::SnapshotHeader, &payload),
            _ => Err(self.bad("a block out of place")),
        }
    }

    fn value<T: serde::de::DeserializeOwned>(&self, kind: Kind, payload: &[u8]) -> Result<T, StoreError> {
        codec::decode(kind, payload).map_err(|error| self.bad(&error.to_string()))
    }

    fn at_end(&mut self) -> Result<bool, StoreError> {
        let more = self.file.read(&mut [0]).map_err(StoreError::io("read", &self.path))?;
        Ok(more == 0)
    }
}
