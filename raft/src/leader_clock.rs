//! The time that a leader stamps on its entries.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use holdfast_statemachine::Millis;

/// The later of the wall clock and of the ledger's time when this replica took office plus the monotonic
/// clock since: time never runs backwards, and never stands still, whatever the wall clock does.
#[derive(Debug, Default)]
pub(crate) struct LeaderClock {
    /// The term, the ledger's time when it began, and when that was.
    office: Option<(u64, Millis, Instant)>,
    last: Millis,
}

impl LeaderClock {
    /// The time now. `ledger`: the ledger's time, with all entries of former terms applied; asked for once a
    /// term.
    pub(crate) fn now(&mut self, term: u64, ledger: impl FnOnce() -> Millis) -> Millis {
        self.at(term, ledger, Instant::now(), wall_clock())
    }

    fn at(&mut self, term: u64, ledger: impl FnOnce() -> Millis, now: Instant, wall: Millis) -> Millis {
        let (began, since) = match self.office {
            Some((office, began, since)) if office == term => (began, since),
            _ => {
                let ledger = ledger();
                self.office = Some((term, ledger, now));
                (ledger, now)
            }
        };
        let elapsed = u64::try_from(now.duration_since(since).as_millis()).unwrap_or(u64::MAX);
        self.last = wall.max(began.saturating_add(elapsed)).max(self.last);
        self.last
    }
}

/// Milliseconds since the Unix epoch; 0 before it.
pub(crate) fn wall_clock() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_follows_the_wall_clock_but_never_back() {
        let (mut clock, start) = (LeaderClock::default(), Instant::now());
        let later = |ms| start + Duration::from_millis(ms);
        assert_eq!(clock.at(1, || 5_000, start, 9_000), 9_000);
        assert_eq!(clock.at(1, || 5_000, later(10), 9_010), 9_010);
        assert_eq!(clock.at(1, || 5_000, later(20), 2_000), 9_010, "the wall clock was set back");
        assert_eq!(clock.at(2, || 9_010, later(30), 2_000), 9_010);
        assert_eq!(clock.at(2, || 9_010, later(90), 2_000), 9_070, "and yet time goes on");
    }

    #[test]
    fn a_ledger_ahead_of_the_wall_clock_goes_on_at_its_own_pace() {
        let (mut clock, start) = (LeaderClock::default(), Instant::now());
        assert_eq!(clock.at(7, || 50_000, start, 1_000), 50_000);
        assert_eq!(clock.at(7, || 50_000, start + Duration::from_millis(250), 1_250), 50_250);
    }
}
