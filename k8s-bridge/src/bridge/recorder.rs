//! Events: what people read with `kubectl describe`. Best effort.

use holdfast_statemachine::Name;

use super::key::Key;

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
#[derive(Debug, Default)]
pub struct Recorder;

impl Recorder {
    /// To be told soon, or never if there is too much to tell.
    pub fn tell(&self, telling: Telling) {
        tracing::info!(about = %telling.about, reason = telling.reason, "{}", telling.note);
    }
}
