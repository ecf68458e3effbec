//! A look at the log's files before they are opened, which tells a torn write from damage.

use std::io;
use std::path::{Path, PathBuf};

use raft_log::RaftLogRecord;
use raft_log::codeq::Decode;

use crate::Error;
use crate::log_record::LogTypes;

/// Decodes every record of every file. The last file may end in the middle of a record, or in zeros, as a
/// crash leaves it; raft-log drops that. Anything else is an error, even where raft-log would drop it.
pub(crate) fn check_log(dir: &Path) -> Result<(), Error> {
    let mut files = Vec::new();
    for item in std::fs::read_dir(dir).map_err(Error::io("list", dir))? {
        let path = item.map_err(Error::io("list", dir))?.path();
        if path.extension().is_some_and(|extension| extension == "wal") {
            files.push(path);
        }
    }
    files.sort();
    let last = files.len().saturating_sub(1);
    files.into_iter().enumerate().try_for_each(|(i, path)| check_file(path, i == last))
}

fn check_file(path: PathBuf, last: bool) -> Result<(), Error> {
    let bytes = std::fs::read(&path).map_err(Error::io("read", &path))?;
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let record = rest;
        if let Err(error) = decode(&mut rest) {
            let offset = (bytes.len() - record.len()) as u64;
            if last && is_torn(record, &error) {
                tracing::warn!(file = %path.display(), offset, "dropping a record that a crash cut short");
                return Ok(());
            }
            return Err(Error::Damaged { path, offset, why: error.to_string() });
        }
    }
    Ok(())
}

fn decode(bytes: &mut &[u8]) -> io::Result<()> {
    RaftLogRecord::<LogTypes>::decode(bytes).map(drop)
}

/// Whether a crash can have left this behind the last whole record. If a whole record follows, it cannot:
/// records are written in order, and a cut takes all that is behind it.
fn is_torn(tail: &[u8], error: &io::Error) -> bool {
    let cut = error.kind() == io::ErrorKind::UnexpectedEof;
    let zeros = tail.iter().all(|byte| *byte == 0);
    zeros || (cut && !(1..tail.len()).any(|start| begins_record(&tail[start..])))
}

fn begins_record(bytes: &[u8]) -> bool {
    // Types are 0 to 5 in four bytes, and no record is shorter than its type and its checksum.
    let mut rest = bytes;
    bytes.len() > 12 && bytes[..3] == [0; 3] && bytes[3] <= 5 && decode(&mut rest).is_ok()
}
