//! Whether a history of calls and replies can be explained by one order of its calls.
//!
//! The search is that of Wing and Gong with Lowe's memory of configurations seen: calls are taken one by
//! one, each between its invocation and its reply, and a dead end is taken back. A call of unknown fate
//! has no reply: it may take effect at any time after its invocation, or never.
//!
//! Linearizability is local: if no call touches two objects, each object's calls can be checked alone,
//! which is what keeps the search small.

use std::collections::HashSet;
use std::fmt::{self, Debug};
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};

/// What one object does when its calls come one after the other.
pub(crate) trait Model {
    /// The object between two calls.
    type State: Clone + Eq + Hash + Debug;
    /// What is asked.
    type Call: Debug;
    /// What is answered.
    type Reply: Debug;

    /// The object before the first call.
    fn start() -> Self::State;

    /// The object after the call, if it can answer so; without a reply, any answer will do.
    fn step(state: &Self::State, call: &Self::Call, reply: Option<&Self::Reply>) -> Option<Self::State>;
}

/// One call. The times are those of one [`Clock`].
#[derive(Debug)]
pub(crate) struct Operation<C, R> {
    /// Who called.
    pub(crate) client: usize,
    /// What was asked.
    pub(crate) call: C,
    /// Before it was sent.
    pub(crate) invoked: u64,
    /// What was answered and when; `None`: nobody knows whether it was done.
    pub(crate) reply: Option<(R, u64)>,
}

/// Gives out instants in the order of real time, no two alike.
#[derive(Debug, Default)]
pub(crate) struct Clock(AtomicU64);

impl Clock {
    /// The next instant.
    pub(crate) fn now(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// Why there is no such order.
#[derive(Debug)]
pub(crate) struct NotLinearizable {
    /// How many calls the best attempt could order.
    pub(crate) ordered: usize,
    /// Of how many.
    pub(crate) of: usize,
    /// The object there.
    pub(crate) state: String,
    /// The calls of which none could come next there.
    pub(crate) stuck: Vec<String>,
}

impl fmt::Display for NotLinearizable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotLinearizable { ordered, of, state, stuck } = self;
        write!(f, "{ordered} of {of} calls have an order; then, in {state}, none of these can come next: {stuck:#?}")
    }
}

/// Looks for an order of the calls that the model explains and that real time allows.
pub(crate) fn check<M: Model>(history: &[Operation<M::Call, M::Reply>]) -> Result<(), NotLinearizable> {
    Search::<M>::new(history).run()
}

/// Marks both ends of the list.
const END: usize = usize::MAX;

/// Invocations and replies by time, as a list from which pairs are lifted and to which they are put back.
struct Search<'a, M: Model> {
    history: &'a [Operation<M::Call, M::Reply>],
    /// Events by time: a call's index, and whether it is the reply.
    events: Vec<(usize, bool)>,
    next: Vec<usize>,
    previous: Vec<usize>,
    first: usize,
    /// For each call, where its reply is among the events.
    replies: Vec<Option<usize>>,
    ordered: Vec<u64>,
    seen: HashSet<(Vec<u64>, M::State)>,
}

impl<'a, M: Model> Search<'a, M> {
    fn new(history: &'a [Operation<M::Call, M::Reply>]) -> Self {
        let mut timed = Vec::new();
        for (at, operation) in history.iter().enumerate() {
            timed.push((operation.invoked, at, false));
            timed.extend(operation.reply.as_ref().map(|(_, time)| (*time, at, true)));
        }
        timed.sort_unstable();
        let events: Vec<_> = timed.into_iter().map(|(_, at, reply)| (at, reply)).collect();
        let mut replies = vec![None; history.len()];
        for (place, (at, _)) in events.iter().enumerate().filter(|(_, (_, reply))| *reply) {
            replies[*at] = Some(place);
        }
        let last = events.len();
        let next = (1..=last).map(|place| if place == last { END } else { place }).collect();
        let previous = (0..last).map(|place| place.checked_sub(1).unwrap_or(END)).collect();
        let ordered = vec![0; history.len().div_ceil(64)];
        let first = if last == 0 { END } else { 0 };
        Search { history, events, next, previous, first, replies, ordered, seen: HashSet::new() }
    }

    fn run(mut self) -> Result<(), NotLinearizable> {
        let mut left = self.replies.iter().flatten().count();
        let mut state = M::start();
        let mut taken: Vec<(usize, M::State)> = Vec::new();
        let mut best: Option<NotLinearizable> = None;
        let mut place = self.first;
        while left > 0 {
            let (at, is_reply) = self.events[place];
            if is_reply {
                // Its call should have come before, and could not.
                if best.as_ref().is_none_or(|best| best.ordered < taken.len()) {
                    best = Some(self.stuck(taken.len(), &state));
                }
                let Some((back, before)) = taken.pop() else {
                    return Err(best.expect("set above"));
                };
                state = before;
                let (at, _) = self.events[back];
                self.ordered[at / 64] &= !(1 << (at % 64));
                left += usize::from(self.replies[at].is_some());
                self.put_back(back);
                place = self.next[back];
                continue;
            }
            let operation = &self.history[at];
            let after = M::step(&state, &operation.call, operation.reply.as_ref().map(|(reply, _)| reply));
            if let Some(after) = after {
                self.ordered[at / 64] |= 1 << (at % 64);
                if self.seen.insert((self.ordered.clone(), after.clone())) {
                    taken.push((place, std::mem::replace(&mut state, after)));
                    left -= usize::from(self.replies[at].is_some());
                    self.lift(place);
                    place = self.first;
                    continue;
                }
                self.ordered[at / 64] &= !(1 << (at % 64));
            }
            place = self.next[place];
        }
        Ok(())
    }

    /// Takes a call and its reply out of the list.
    fn lift(&mut self, place: usize) {
        self.unlink(place);
        if let Some(reply) = self.replies[self.events[place].0] {
            self.unlink(reply);
        }
    }

    /// Undoes the last `lift`.
    fn put_back(&mut self, place: usize) {
        if let Some(reply) = self.replies[self.events[place].0] {
            self.relink(reply);
        }
        self.relink(place);
    }

    fn unlink(&mut self, place: usize) {
        let (previous, next) = (self.previous[place], self.next[place]);
        match previous {
            END => self.first = next,
            previous => self.next[previous] = next,
        }
        if next != END {
            self.previous[next] = previous;
        }
    }

    fn relink(&mut self, place: usize) {
        let (previous, next) = (self.previous[place], self.next[place]);
        match previous {
            END => self.first = place,
            previous => self.next[previous] = place,
        }
        if next != END {
            self.previous[next] = place;
        }
    }

    fn stuck(&self, ordered: usize, state: &M::State) -> NotLinearizable {
        let mut stuck = Vec::new();
        let mut place = self.first;
        while place != END && !self.events[place].1 {
            let Operation { client, call, invoked, reply } = &self.history[self.events[place].0];
            stuck.push(format!("client {client} at {invoked}: {call:?}, answered {reply:?}"));
            place = self.next[place];
        }
        NotLinearizable { ordered, of: self.history.len(), state: format!("{state:?}"), stuck }
    }
}
