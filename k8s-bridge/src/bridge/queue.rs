//! A queue of keys, each in it at most once.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::key::Key;

/// Keys to be looked at, now or at a later time. A key that is added again before it is taken is taken once.
#[derive(Debug, Default)]
pub struct Queue {
    keys: Mutex<Keys>,
    added: Notify,
}

#[derive(Debug, Default)]
struct Keys {
    due: BTreeSet<Key>,
    later: BTreeSet<(Instant, Key)>,
    /// A key stands in `later` once, under the earliest time asked for.
    at: HashMap<Key, Instant>,
}

impl Queue {
    /// To be looked at now.
    pub fn add(&self, key: Key) {
        self.add_all([key]);
    }

    /// All to be looked at now.
    pub fn add_all(&self, keys: impl IntoIterator<Item = Key>) {
        self.lock().due.extend(keys);
        self.added.notify_one();
    }

    /// To be looked at once this time has passed, whatever adds it before. Of several such times the earliest counts.
    pub fn add_after(&self, key: Key, delay: Duration) {
        let at = Instant::now() + delay;
        let mut keys = self.lock();
        if let Some(earlier) = keys.at.insert(key.clone(), at) {
            keys.later.remove(&(earlier, key.clone()));
            if earlier < at {
                keys.at.insert(key.clone(), earlier);
                keys.later.insert((earlier, key));
                return;
            }
        }
        keys.later.insert((at, key));
        drop(keys);
        self.added.notify_one();
    }

    /// Waits until something is due, and takes all that is, in order of keys. One taker at a time.
    pub async fn take(&self) -> Vec<Key> {
        loop {
            let next = {
                let mut keys = self.lock();
                let now = Instant::now();
                while keys.later.first().is_some_and(|(at, _)| *at <= now) {
                    let (_, key) = keys.later.pop_first().expect("there is one");
                    keys.at.remove(&key);
                    keys.due.insert(key);
                }
                if !keys.due.is_empty() {
                    return std::mem::take(&mut keys.due).into_iter().collect();
                }
                keys.later.first().map(|(at, _)| *at)
            };
            match next {
                Some(at) => drop(tokio::time::timeout_at(at.into(), self.added.notified()).await),
                None => self.added.notified().await,
            }
        }
    }

    /// How many are due now.
    pub fn due(&self) -> usize {
        self.lock().due.len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Keys> {
        // Nothing that is done under the lock can leave it half done.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Kind;

    fn key(kind: Kind, name: &str) -> Key {
        Key::cluster(kind, name.into())
    }

    #[tokio::test]
    async fn a_key_is_taken_once_and_in_the_order_of_a_load() {
        let queue = Queue::default();
        queue.add_all([key(Kind::Egress, "a"), key(Kind::Node, "n"), key(Kind::IpPool, "p")]);
        queue.add(key(Kind::Egress, "a"));
        let taken = queue.take().await;
        assert_eq!(taken, [key(Kind::IpPool, "p"), key(Kind::Node, "n"), key(Kind::Egress, "a")]);
        assert_eq!(queue.due(), 0);
    }

    #[tokio::test]
    async fn a_later_key_comes_when_its_time_has_passed_and_an_earlier_add_does_not_take_it_away() {
        let queue = Queue::default();
        queue.add_after(key(Kind::Node, "n"), Duration::from_millis(5));
        queue.add(key(Kind::Node, "n"));
        assert_eq!(queue.take().await, [key(Kind::Node, "n")]);
        assert_eq!(queue.take().await, [key(Kind::Node, "n")]);
    }

    #[tokio::test]
    async fn a_taker_that_waits_is_woken() {
        let queue = std::sync::Arc::new(Queue::default());
        let taker = tokio::spawn({
            let queue = queue.clone();
            async move { queue.take().await }
        });
        tokio::task::yield_now().await;
        queue.add(key(Kind::IpPool, "p"));
        assert_eq!(taker.await.expect("ends"), [key(Kind::IpPool, "p")]);
    }
}
