//! Who a replica is and which group it belongs to: two small files in its data directory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

use holdfast_statemachine::codec::{self, Kind};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::types::Member;
use crate::{ClusterId, Error, NodeId};

/// Who a replica is. Made at its first start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) node: NodeId,
    pub(crate) name: String,
}

/// Which group a replica belongs to. Written before it takes any part in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Group {
    pub(crate) cluster: ClusterId,
    /// The voters that the group was formed with; empty for a replica that was added later.
    pub(crate) founders: BTreeMap<NodeId, Member>,
}

const IDENTITY: &str = "identity";
const GROUP: &str = "group";

impl Identity {
    /// Reads it from the data directory, or draws a new id and writes it.
    pub(crate) fn load_or_make(dir: &Path, name: &str) -> Result<Identity, Error> {
        std::fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
        let path = dir.join(IDENTITY);
        if let Some(identity) = read::<Identity>(&path, Kind::Identity)? {
            if identity.name != name {
                return Err(Error::OtherReplica { path, found: identity.name, name: name.to_owned() });
            }
            return Ok(identity);
        }
        // 0 stands for "none" in messages.
        let node = std::iter::repeat_with(rand::random).find(|node| *node != 0).expect("random numbers are not all 0");
        let identity = Identity { node, name: name.to_owned() };
        write(&path, Kind::Identity, &identity)?;
        Ok(identity)
    }
}

impl Group {
    pub(crate) fn load(dir: &Path) -> Result<Option<Group>, Error> {
        read(&dir.join(GROUP), Kind::LogState)
    }

    /// Returns once it is on disk.
    pub(crate) fn store(&self, dir: &Path) -> Result<(), Error> {
        write(&dir.join(GROUP), Kind::LogState, self)
    }
}

fn read<T: DeserializeOwned>(path: &Path, kind: Kind) -> Result<Option<T>, Error> {
    match std::fs::read(path) {
        Ok(bytes) => codec::decode(kind, &bytes).map(Some).map_err(|error| Error::Damaged {
            path: path.to_owned(),
            offset: 0,
            why: error.to_string(),
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

fn write<T: Serialize>(path: &Path, kind: Kind, value: &T) -> Result<(), Error> {
    let bytes = codec::encode(kind, value).map_err(|error| Error::Store(error.to_string()))?;
    write_synced(path, &bytes).map_err(Error::io("write", path))
}

/// Puts a file in place whole: after a crash it is either as before or as wanted.
pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let fresh = path.with_added_extension("new");
    let mut file = File::create(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)?;
    sync_parent(path)
}

/// Makes what was done to a file's name survive a loss of power.
pub(crate) fn sync_parent(path: &Path) -> std::io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}
