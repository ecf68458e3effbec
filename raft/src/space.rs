//! Free disk space: a full disk is foreseen, not met.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_statemachine::{Action, Command};

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
    /// Fewer than a quorum of voters are above the watermark, and it is a disk's fault: voters that do not
    /// answer may be down, and then it is for Raft to say whether the others are enough.
    short: AtomicBool,
    /// As of the last round of questions: voters, and what those that answered have free.
    known: Mutex<BTreeMap<NodeId, (String, Option<u64>)>>,
}

impl Space {
    pub(crate) fn new(watermark: u64) -> Space {
        Space { watermark, short: AtomicBool::new(false), known: Mutex::default() }
    }

    /// What a round of questions to all voters gave; none, if this replica does not lead.
    pub(crate) fn learned(&self, voters: BTreeMap<NodeId, (String, Option<u64>)>) {
        let known = voters.values().filter_map(|(_, free)| *free);
        let (above, below): (Vec<u64>, Vec<u64>) = known.partition(|free| *free >= self.watermark);
        self.short.store(!below.is_empty() && above.len() <= voters.len() / 2, Ordering::Release);
        *self.known() = voters;
    }

    /// What a voter has free, if it said so.
    pub(crate) fn of(&self, node: NodeId) -> Option<u64> {
        self.known().get(&node)?.1
    }

    /// Refuses what takes addresses while fewer than a quorum of voters are above the watermark. Before the
    /// first answers nothing is refused.
    pub(crate) fn admit(&self, commands: &[Command]) -> Result<(), ProposeError> {
        if !self.short.load(Ordering::Acquire) || !commands.iter().any(takes_addresses) {
            return Ok(());
        }
        let free = self.known().values().cloned().collect();
        Err(ProposeError::DiskFull { watermark: self.watermark, free })
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<NodeId, (String, Option<u64>)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn takes_addresses(command: &Command) -> bool {
    match &command.action {
        Action::Grant(_) | Action::Reserve(_) => true,
        Action::PutEgress(put) => put.items.iter().any(|item| item.pool.is_some()),
        _ => false,
    }
}
