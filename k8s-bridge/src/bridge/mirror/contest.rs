//! Who keeps changing what is the ledger's to say, and how often it is put right.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use holdfast_statemachine::Name;

/// Put right so often within [`SPAN`], an object is contested.
const OFTEN: usize = 5;
/// A contested object is put right once in this time; and is contested no longer after as long without a change.
const SPAN: Duration = Duration::from_mins(1);

/// What is known of others' changes to one part of one object.
#[derive(Debug, Default)]
pub struct Contest {
    /// When it was put right, in the last minute.
    repairs: VecDeque<Instant>,
    by: Option<Name>,
}

impl Contest {
    /// Until when it is not put right again.
    pub fn until(&self, now: Instant) -> Option<Instant> {
        self.by.as_ref()?;
        self.repairs.back().map(|last| *last + SPAN).filter(|until| *until > now)
    }

    /// It was put right after `by` had changed it. Whether it is contested from now on.
    pub fn repaired(&mut self, now: Instant, by: &Name) -> bool {
        self.repairs.push_back(now);
        while self.repairs.front().is_some_and(|first| *first + SPAN <= now) {
            self.repairs.pop_front();
        }
        let began = self.by.is_none() && self.repairs.len() >= OFTEN;
        if began || self.by.is_some() {
            self.by = Some(by.clone());
        }
        began
    }

    /// It is as it should be. When to look again at whether it stays so, if it is contested.
    pub fn is_right(&mut self, now: Instant) -> Option<Instant> {
        let until = self.until(now);
        if until.is_none() {
            self.by = None;
        }
        until
    }

    /// By whom it is contested, if it is.
    pub fn by(&self) -> Option<&Name> {
        self.by.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fifth_time_in_a_minute_raises_the_alarm_and_a_quiet_minute_ends_it() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let by = Name::from("kubectl-edit");
        let mut contest = Contest::default();
        for second in 0..4 {
            assert!(!contest.repaired(at(second), &by), "at {second}");
            assert_eq!(contest.until(at(second)), None);
        }
        assert!(contest.repaired(at(4), &by));
        assert_eq!((contest.by(), contest.until(at(5))), (Some(&by), Some(at(64))));
        assert_eq!(contest.is_right(at(63)), Some(at(64)));
        // Changed again: put right a minute later, and the alarm goes on.
        assert_eq!(contest.until(at(64)), None);
        assert!(!contest.repaired(at(64), &by));
        assert_eq!(contest.until(at(70)), Some(at(124)));
        assert_eq!(contest.is_right(at(124)), None);
        assert_eq!(contest.by(), None);
    }

    #[test]
    fn four_a_minute_are_no_contest() {
        let begin = Instant::now();
        let by = Name::from("x");
        let mut contest = Contest::default();
        for n in 0..20 {
            assert!(!contest.repaired(begin + Duration::from_secs(n * 15), &by), "{n}");
        }
    }
}
