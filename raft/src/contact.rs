//! How old a read without a read index may be.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a follower has heard from its leader.
#[derive(Debug, Default)]
pub(crate) struct Contact(Mutex<Heard>);

#[derive(Debug, Default)]
struct Heard {
    /// When a leader named a committed index that is not applied here yet, and which.
    pending: Option<(u64, Instant)>,
    /// When a leader last named one that is.
    fresh: Option<Instant>,
}

impl Contact {
    /// A leader said, at `now`, that all up to `committed` is committed; `applied` is the last index applied.
    pub(crate) fn heard(&self, committed: Option<u64>, applied: Option<u64>, now: Instant) {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.settle(applied);
        if committed <= applied {
            heard.fresh = Some(now);
            heard.pending = None;
        } else if heard.pending.is_none() {
            heard.pending = committed.map(|index| (index, now));
        }
    }

    /// How long ago all that was committed was applied here.
    pub(crate) fn age(&self, applied: Option<u64>, now: Instant) -> Option<Duration> {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.settle(applied);
        heard.fresh.map(|fresh| now.saturating_duration_since(fresh))
    }
}

impl Heard {
    fn settle(&mut self, applied: Option<u64>) {
        if let Some((index, when)) = self.pending
            && applied >= Some(index)
        {
            self.fresh = Some(when);
            self.pending = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_counts_from_the_last_time_that_nothing_was_missing() {
        let (contact, start) = (Contact::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(contact.age(None, at(0)), None);
        contact.heard(Some(5), Some(5), at(1));
        assert_eq!(contact.age(Some(5), at(3)), Some(Duration::from_secs(2)));
        contact.heard(Some(8), Some(5), at(4));
        contact.heard(Some(9), Some(6), at(5));
        assert_eq!(contact.age(Some(7), at(6)), Some(Duration::from_secs(5)), "8 is not applied");
        assert_eq!(contact.age(Some(8), at(6)), Some(Duration::from_secs(2)), "8 is what was committed at 4");
    }
}
