//! When something that failed is tried again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::key::Key;

/// The first pause, at most.
const FIRST: Duration = Duration::from_millis(500);
/// The longest.
pub const LONGEST: Duration = Duration::from_secs(30);

/// The pause after so many failures in a row: doubling up to [`LONGEST`], each with jitter.
pub fn pause(failures: u32) -> Duration {
    let doubled = FIRST * 2_u32.saturating_pow(failures.min(16));
    doubled.min(LONGEST).mul_f64(rand::random_range(0.5..1.0))
}

/// The pauses of one watch, which begin anew after a success.
#[derive(Debug, Default)]
pub struct Pauses {
    failures: u32,
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = pause(self.failures);
        self.failures = self.failures.saturating_add(1);
        Some(pause)
    }
}

impl kube::runtime::utils::Backoff for Pauses {
    fn reset(&mut self) {
        self.failures = 0;
    }
}

/// How often in a row each object failed.
#[derive(Debug, Default)]
pub struct Backoff(Mutex<HashMap<Key, u32>>);

impl Backoff {
    /// It failed: when to try it again.
    pub fn failed(&self, key: &Key) -> Duration {
        let mut failures = self.lock();
        let failures = failures.entry(key.clone()).or_default();
        *failures += 1;
        pause(*failures - 1)
    }

    /// It did not.
    pub fn succeeded(&self, key: &Key) {
        self.lock().remove(key);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Kind;

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_anew_after_a_success() {
        let backoff = Backoff::default();
        let key = Key::cluster(Kind::Node, "n".into());
        for (failures, most) in [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000].into_iter().enumerate() {
            let pause = backoff.failed(&key);
            let most = Duration::from_millis(most);
            assert!(pause <= most && pause >= most / 2, "after {failures}: {pause:?}");
        }
        backoff.succeeded(&key);
        assert!(backoff.failed(&key) <= FIRST);
    }
}
