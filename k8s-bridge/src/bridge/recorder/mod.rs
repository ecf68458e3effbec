//! Events: what people read with `kubectl describe`. Best effort: what is too much is dropped, and counted.

mod series;
mod teller;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use holdfast_statemachine::Name;
use jiff::Timestamp;
use tokio::sync::mpsc;

use super::key::Key;

pub use teller::run;

/// Events that wait to be written: with [`teller`]'s budget, for less than a minute.
const WAITING: usize = 1_024;

/// Something to tell about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Telling {
    /// The object.
    pub about: Key,
    /// Its UID, where it is known.
    pub uid: Name,
    /// Whether somebody should do something.
    pub warning: bool,
    /// One word in CamelCase: `Reserved`, `Waiting`, ...
    pub reason: &'static str,
    /// One line.
    pub note: String,
}

/// Takes what is to be told, and never waits.
#[derive(Debug)]
pub struct Recorder {
    sender: mpsc::Sender<(Timestamp, Telling)>,
    /// Taken by whoever writes them.
    receiver: Mutex<Option<mpsc::Receiver<(Timestamp, Telling)>>>,
    dropped: AtomicU64,
}

impl Default for Recorder {
    fn default() -> Recorder {
        let (sender, receiver) = mpsc::channel(WAITING);
        Recorder { sender, receiver: Mutex::new(Some(receiver)), dropped: AtomicU64::new(0) }
    }
}

impl Recorder {
    /// To be told soon, or never if there is too much to tell.
    pub fn tell(&self, telling: Telling) {
        tracing::info!(about = %telling.about, reason = telling.reason, "{}", telling.note);
        if self.sender.try_send((Timestamp::now(), telling)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What waits to be told, for the first who asks.
    fn receiver(&self) -> Option<mpsc::Receiver<(Timestamp, Telling)>> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// How many were dropped since this was asked last.
    fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }
}
