//! Free disk space: a full disk is foreseen, not met.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use holdfast_statemachine::{Action, Command};

use crate::types::Member;
use crate::{NodeId, ProposeError};

/// How free space is found out: bytes, for a directory.
#[derive(Clone)]
pub struct FreeSpace(Arc<Probe>);

type Probe = dyn Fn(&Path) -> io::Result<u64> + Send + Sync;

impl FreeSpace {
    /// Asks `probe`.
    pub fn new(probe: impl Fn(&Path) -> io::Result<u64> + Send + Sync + 'static) -> FreeSpace {
        FreeSpace(Arc::new(probe))
    }

    pub(crate) fn bytes(&self, dir: &Path) -> io::Result<u64> {
        (self.0)(dir)
    }
}

impl Default for FreeSpace {
    /// Asks the file system.
    fn default() -> FreeSpace {
        FreeSpace::new(|dir| {
            let stat = rustix::fs::statvfs(dir)?;
            Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
        })
    }
}

impl fmt::Debug for FreeSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FreeSpace")
    }
}

/// What the leader knows of its voters' disks.
#[derive(Debug)]
pub(crate) struct Space {
    watermark: u64,
    /// As of the last round of questions; a voter that did not answer is missing.
    known: Mutex<Option<BTreeMap<NodeId, u64>>>,
}

impl Space {
    pub(crate) fn new(watermark: u64) -> Space {
        Space { watermark, known: Mutex::new(None) }
    }

    /// What a round of questions gave. `None`: this replica no longer leads.
    pub(crate) fn learned(&self, free: Option<BTreeMap<NodeId, u64>>) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = free;
    }

    /// What a voter has free, if it said so.
    pub(crate) fn of(&self, node: NodeId) -> Option<u64> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.get(&node).copied()
    }

    /// Refuses what takes addresses while fewer than a quorum of these voters are above the watermark. Before
    /// the first answers nothing is refused.
    pub(crate) fn admit<'a>(
        &self,
        commands: &[Command],
        voters: impl Iterator<Item = (NodeId, &'a Member)>,
    ) -> Result<(), ProposeError> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = &*known else { return Ok(()) };
        let (mut voting, mut above, mut free) = (0, 0, Vec::new());
        for (node, member) in voters {
            voting += 1;
            if let Some(bytes) = known.get(&node) {
                above += usize::from(*bytes >= self.watermark);
                free.push((member.name.clone(), *bytes));
            }
        }
        if above > voting / 2 || !commands.iter().any(takes_addresses) {
            return Ok(());
        }
        Err(ProposeError::DiskFull { watermark: self.watermark, free })
    }
}

fn takes_addresses(command: &Command) -> bool {
    match &command.action {
        Action::Grant(_) | Action::Reserve(_) => true,
        Action::PutEgress(put) => put.items.iter().any(|item| item.pool.is_some()),
        _ => false,
    }
}
