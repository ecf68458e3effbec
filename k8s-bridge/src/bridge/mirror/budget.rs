//! How many requests of one sort are made in a second.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So many at once, and then one each period. Whoever comes gets a time at which its turn is, in order of coming.
#[derive(Debug)]
pub struct Budget {
    period: Duration,
    burst: u32,
    /// When the whole burst will be there again.
    full_at: Mutex<Option<Instant>>,
}

impl Budget {
    /// `rate` a second, `burst` at once.
    pub fn new(rate: u32, burst: u32) -> Budget {
        Budget { period: Duration::from_secs(1) / rate, burst, full_at: Mutex::new(None) }
    }

    /// Takes one, to be used from this time on.
    pub fn take(&self, now: Instant) -> Instant {
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let after = full_at.map_or(now, |full_at| full_at.max(now)) + self.period;
        *full_at = Some(after);
        now.max(after.checked_sub(self.period * self.burst).unwrap_or(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_at_once_and_then_one_each_period() {
        let budget = Budget::new(10, 3);
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        let turns: Vec<Instant> = (0..5).map(|_| budget.take(begin)).collect();
        assert_eq!(turns, [at(0), at(0), at(0), at(100), at(200)]);
        // 200 ms later one has come back for each period that passed, and both are promised already.
        assert_eq!(budget.take(at(200)), at(300));
        // After a long rest no more than the burst is there.
        let turns: Vec<Instant> = (0..4).map(|_| budget.take(at(60_000))).collect();
        assert_eq!(turns, [at(60_000), at(60_000), at(60_000), at(60_100)]);
    }
}
