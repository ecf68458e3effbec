//! What is remembered of one object from one look at it to the next.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_statemachine::Name;

use super::contest::Contest;
use super::status::newer;
use crate::bridge::backoff;
use crate::bridge::observe::List;
use crate::bridge::watched::Live;

/// Of one object, in this term.
#[derive(Debug, Default)]
pub struct Memory {
    uid: Name,
    /// What a write or a question of ours was answered with, while the informer shows an older one.
    answered: Option<Arc<Live>>,
    /// The object as our last write of its status left it.
    pub written: Option<Arc<Live>>,
    /// No request before this time: it was written too shortly before, or something failed.
    pub not_before: Option<Instant>,
    failures: u32,
    /// When a patch of its spec may be sent, once its turn in the budget is known.
    pub spec_turn: Option<Instant>,
    /// When its status may be sent, likewise.
    pub status_turn: Option<Instant>,
    /// Others' changes to its spec.
    pub spec: Contest,
    /// Others' changes to its status.
    pub status: Contest,
    /// What is ours in the list of an IPPool that others write as well.
    pub list: List,
}

impl Memory {
    /// The newest version known, given the one that the informer shows.
    pub fn newest(&mut self, cached: Arc<Live>) -> Arc<Live> {
        let is_newer =
            |it: &&Arc<Live>| newer(&it.resource_version, &cached.resource_version) == Some(Ordering::Greater);
        if let Some(answered) = self.answered.as_ref().filter(is_newer) {
            return answered.clone();
        }
        self.is_of(&cached.uid);
        self.answered = None;
        // One copy of what may be large is enough.
        if self.written.as_ref().is_some_and(|it| it.resource_version == cached.resource_version) {
            self.written = Some(cached.clone());
        }
        cached
    }

    /// The API server answered with this version.
    pub fn answer(&mut self, live: Arc<Live>) {
        self.is_of(&live.uid);
        self.answered = Some(live);
    }

    /// Another object of the same name is another object.
    fn is_of(&mut self, uid: &Name) {
        if self.uid != *uid {
            *self = Memory { uid: uid.clone(), ..Memory::default() };
        }
    }

    /// A request was done.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// A request failed: when to try again. `after`: no earlier than the API server says.
    pub fn failed(&mut self, now: Instant, after: Option<Duration>) -> Instant {
        let pause = match after {
            Some(after) => after.mul_f64(rand::random_range(1.0..1.25)),
            None => backoff::pause(self.failures),
        };
        self.failures = self.failures.saturating_add(1);
        // Whoever says more than the longest pause is not believed.
        let again = now + pause.min(backoff::LONGEST);
        self.not_before = Some(again);
        again
    }
}
