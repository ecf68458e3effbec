//! Hands objects to writers: many at once, never one object to two.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use tokio::task::JoinSet;

use super::memory::Memory;
use super::turn::{Budgets, Next, Turn};
use crate::bridge::key::Key;
use crate::bridge::office::Office;
use crate::ledger::Ledger;

/// Requests in flight.
const AT_ONCE: usize = 32;

/// What is to be looked at of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Spec,
    Status,
}

/// A writer has looked at an object.
struct Looked {
    key: Key,
    memory: Memory,
    next: Next,
}

/// Keys in the order in which they came, each once.
#[derive(Default)]
struct Line {
    order: VecDeque<Key>,
    members: HashSet<Key>,
}

impl Line {
    fn push(&mut self, key: Key) {
        if self.members.insert(key.clone()) {
            self.order.push_back(key);
        }
    }

    fn pop(&mut self) -> Option<Key> {
        let key = self.order.pop_front()?;
        self.members.remove(&key);
        Some(key)
    }
}

/// Since when which objects may not say what they should.
#[derive(Default)]
struct Unwritten {
    since: HashMap<Key, Instant>,
    oldest: BTreeSet<(Instant, Key)>,
}

impl Unwritten {
    fn add(&mut self, key: &Key, now: Instant) {
        if !self.since.contains_key(key) {
            self.since.insert(key.clone(), now);
            self.oldest.insert((now, key.clone()));
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some(since) = self.since.remove(key) {
            self.oldest.remove(&(since, key.clone()));
        }
    }
}

struct Writers<L> {
    office: Arc<Office<L>>,
    budgets: Arc<Budgets>,
    /// What is known of each object; not of one that a writer has.
    memories: HashMap<Key, Memory>,
    /// Objects that writers have; whether they came again meanwhile.
    busy: HashMap<Key, bool>,
    /// Specs go before statuses, of all objects.
    specs: Line,
    statuses: Line,
    unwritten: Unwritten,
    tasks: JoinSet<Looked>,
}

/// Writes whatever is due, until it is dropped.
pub async fn run<L: Ledger>(office: Arc<Office<L>>) {
    let mut writers = Writers {
        office: office.clone(),
        budgets: Arc::default(),
        memories: HashMap::new(),
        busy: HashMap::new(),
        specs: Line::default(),
        statuses: Line::default(),
        unwritten: Unwritten::default(),
        tasks: JoinSet::new(),
    };
    loop {
        writers.start();
        writers.report();
        tokio::select! {
            keys = office.mirror.take() => keys.into_iter().for_each(|key| writers.came(key)),
            Some(looked) = writers.tasks.join_next() => match looked {
                Ok(looked) => writers.looked(looked),
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            },
        }
    }
}

impl<L: Ledger> Writers<L> {
    fn came(&mut self, key: Key) {
        self.unwritten.add(&key, Instant::now());
        match self.busy.get_mut(&key) {
            Some(again) => *again = true,
            None => self.specs.push(key),
        }
    }

    fn start(&mut self) {
        while self.tasks.len() < AT_ONCE {
            let (key, part) = match (self.specs.pop(), &mut self.statuses) {
                (Some(key), _) => (key, Part::Spec),
                (None, statuses) => match statuses.pop() {
                    Some(key) => (key, Part::Status),
                    None => return,
                },
            };
            if let Some(again) = self.busy.get_mut(&key) {
                // It waited in both lines. A look at its spec leads to its status anyway: asking for another look at
                // both would go on for ever.
                *again |= part == Part::Spec;
                continue;
            }
            self.busy.insert(key.clone(), false);
            let memory = self.memories.remove(&key).unwrap_or_default();
            let mut turn =
                Turn { office: self.office.clone(), budgets: self.budgets.clone(), key: key.clone(), memory };
            self.tasks.spawn(async move {
                let next = match part {
                    Part::Spec => turn.spec().await,
                    Part::Status => turn.status().await,
                };
                Looked { key, memory: turn.memory, next }
            });
        }
    }

    fn looked(&mut self, looked: Looked) {
        let Looked { key, memory, next } = looked;
        let again = self.busy.remove(&key).unwrap_or_default();
        if next != Next::Gone {
            self.memories.insert(key.clone(), memory);
        }
        match next {
            Next::Status => self.statuses.push(key.clone()),
            Next::At(at) => {
                self.office.mirror.add_after(key.clone(), at.saturating_duration_since(Instant::now()));
            }
            Next::Right | Next::Gone if self.specs.members.contains(&key) => {}
            Next::Right | Next::Gone => self.unwritten.remove(&key),
        }
        if again {
            self.came(key);
        }
    }

    fn report(&self) {
        let oldest = self.unwritten.oldest.first().map(|(since, _)| *since);
        self.office.report.change(|state| {
            state.unwritten = self.unwritten.since.len();
            state.behind_since = oldest;
        });
    }
}
