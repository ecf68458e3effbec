//! Group commit: commands of many callers go into one entry.
//!
//! openraft syncs one entry at a time. So while entries are in flight, callers wait, and the next entry
//! takes all that wait, within the bounds; an idle proposer sends at once. Everything that waits is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::time::Instant;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use holdfast_statemachine::{Command, Store};
use openraft::error::ClientWriteError;
use openraft::raft::ClientWriteResponse;
use tokio::sync::{mpsc, oneshot, watch};

use crate::config::Limits;
use crate::leader_clock::LeaderClock;
use crate::node::Proposed;
use crate::types::{Member, Proposal, Raft, TypeConfig};
use crate::{NodeId, ProposeError};

/// Where callers hand in their commands.
#[derive(Debug)]
pub(crate) struct Proposer {
    queue: mpsc::UnboundedSender<Waiting>,
    limits: Limits,
    waiting: Arc<Load>,
    /// Callers that have no answer yet.
    open: watch::Sender<usize>,
}

/// What waits or is in flight.
#[derive(Debug, Default)]
struct Load {
    /// Commands that wait for a place in an entry.
    commands: AtomicUsize,
    /// Their bytes.
    bytes: AtomicUsize,
}

/// One caller's commands.
struct Waiting {
    commands: Arc<Vec<Command>>,
    bytes: usize,
    claim: Arc<Claim>,
    reply: oneshot::Sender<Result<Proposed, ProposeError>>,
}

/// Who has the last word on commands that wait: the caller, who may give up, or the proposer, who takes them.
#[derive(Debug, Default)]
struct Claim(AtomicU8);

const FREE: u8 = 0;
const TAKEN: u8 = 1;
const GIVEN_UP: u8 = 2;

impl Claim {
    fn make(&self, claim: u8) -> bool {
        self.0.compare_exchange(FREE, claim, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl Proposer {
    /// A proposer, and the task that does its work; to be spawned.
    pub(crate) fn new(
        raft: Raft,
        store: Arc<Store>,
        limits: Limits,
        leadership: watch::Receiver<Option<u64>>,
    ) -> (Proposer, impl Future<Output = ()> + Send) {
        let (queue, incoming) = mpsc::unbounded_channel();
        let waiting = Arc::new(Load::default());
        let batcher = Batcher {
            raft,
            store,
            limits: limits.clone(),
            leadership,
            clock: LeaderClock::default(),
            waiting: waiting.clone(),
            incoming,
            left_over: None,
            in_flight: FuturesUnordered::new(),
        };
        (Proposer { queue, limits, waiting, open: watch::Sender::new(0) }, batcher.run())
    }

    /// Has the commands, which are `bytes` long, put into an entry, if this replica leads. Nothing is sent
    /// after the deadline.
    pub(crate) async fn propose(
        &self,
        commands: Arc<Vec<Command>>,
        bytes: usize,
        deadline: Instant,
    ) -> Result<Proposed, ProposeError> {
        self.admit(commands.len(), bytes)?;
        let _open = Open::new(&self.open);
        let claim = Arc::new(Claim::default());
        let (reply, answer) = oneshot::channel();
        let waiting = Waiting { commands, bytes, claim: claim.clone(), reply };
        self.queue.send(waiting).map_err(|_| ProposeError::Stopping)?;
        match tokio::time::timeout_at(deadline.into(), answer).await {
            Ok(Ok(answer)) => answer,
            // The proposer ended while it held them.
            Ok(Err(_)) if claim.make(GIVEN_UP) => Err(ProposeError::Stopping),
            Ok(Err(_)) => Err(ProposeError::Unknown { why: "this replica stopped".to_owned() }),
            Err(_) if claim.make(GIVEN_UP) => {
                Err(ProposeError::Deadline { why: "it waited for a place in an entry".to_owned() })
            }
            Err(_) => Err(ProposeError::Unknown { why: "not applied before the deadline".to_owned() }),
        }
    }

    /// Waits until nothing waits any more and nothing is in flight.
    pub(crate) async fn drained(&self, deadline: Instant) {
        let mut open = self.open.subscribe();
        // At the deadline the rest is left to its fate.
        drop(tokio::time::timeout_at(deadline.into(), open.wait_for(|open| *open == 0)).await);
    }

    fn admit(&self, commands: usize, bytes: usize) -> Result<(), ProposeError> {
        // An empty proposal still takes a place in the queue.
        let count = commands.max(1);
        let all_commands = self.waiting.commands.fetch_add(count, Ordering::AcqRel) + count;
        let all_bytes = self.waiting.bytes.fetch_add(bytes, Ordering::AcqRel) + bytes;
        if all_commands > self.limits.waiting_commands || all_bytes > self.limits.waiting_bytes {
            self.waiting.leave(commands, bytes);
            return Err(ProposeError::Overloaded { commands: all_commands - count, bytes: all_bytes - bytes });
        }
        Ok(())
    }
}

/// A caller without an answer.
struct Open<'a>(&'a watch::Sender<usize>);

impl Open<'_> {
    fn new(open: &watch::Sender<usize>) -> Open<'_> {
        open.send_modify(|open| *open += 1);
        Open(open)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

impl Load {
    fn leave(&self, commands: usize, bytes: usize) {
        self.commands.fetch_sub(commands.max(1), Ordering::AcqRel);
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
    }
}

type WriteResult = Result<ClientWriteResponse<TypeConfig>, ClientWriteError<NodeId, Member>>;

/// An entry that was handed to openraft and is not applied yet.
struct InFlight {
    callers: Vec<Waiting>,
    /// Whether the entry ever reached the log.
    logged: Arc<AtomicBool>,
}

struct Batcher {
    raft: Raft,
    store: Arc<Store>,
    limits: Limits,
    leadership: watch::Receiver<Option<u64>>,
    clock: LeaderClock,
    waiting: Arc<Load>,
    incoming: mpsc::UnboundedReceiver<Waiting>,
    /// Taken from the queue, and too much for the entry before.
    left_over: Option<Waiting>,
    in_flight: FuturesUnordered<BoxFuture<'static, (Option<WriteResult>, InFlight)>>,
}

impl Batcher {
    async fn run(mut self) {
        loop {
            let room = self.in_flight.len() < self.limits.entries_in_flight;
            if room && let Some(first) = self.left_over.take() {
                self.submit(first).await;
                continue;
            }
            tokio::select! {
                Some((result, entry)) = self.in_flight.next() => entry.finish(result),
                first = self.incoming.recv(), if room => match first {
                    Some(first) => self.submit(first).await,
                    None => return,
                },
                // Once this replica no longer leads, entries in flight may hang for long: their callers go on
                // waiting for them, but nobody else does.
                changed = self.leadership.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    for mut entry in std::mem::take(&mut self.in_flight) {
                        tokio::spawn(async move {
                            let (result, entry) = (&mut entry).await;
                            entry.finish(result);
                        });
                    }
                }
            }
        }
    }

    /// Sends one entry with the commands of `first` and of as many others as wait and fit.
    async fn submit(&mut self, first: Waiting) {
        let callers = self.gather(first);
        let Some(term) = *self.leadership.borrow() else {
            let leader = self.raft.metrics().borrow().current_leader;
            return refuse(callers, &ProposeError::NotLeader { leader });
        };
        let commands: Vec<&Command> = callers.iter().flat_map(|caller| caller.commands.iter()).collect();
        let now = self.clock.now(term, || self.store.read(|ledger| ledger.tables().clock().time));
        let proposed = Proposal::encode(now, &commands);
        let mut proposal = match proposed {
            Ok(proposal) => proposal,
            Err(error) => {
                let why = format!("not encoded: {error}");
                return refuse(callers, &ProposeError::Deadline { why });
            }
        };
        let logged = Arc::new(AtomicBool::new(false));
        proposal.logged = Some(logged.clone());
        let entry = InFlight { callers, logged };
        match self.raft.client_write_ff(proposal).await {
            Ok(answer) => self.in_flight.push(Box::pin(async move { (answer.await.ok(), entry) })),
            Err(_stopped) => refuse(entry.callers, &ProposeError::Stopping),
        }
    }

    fn gather(&mut self, first: Waiting) -> Vec<Waiting> {
        let (mut commands, mut bytes) = (0, 0);
        let mut callers = Vec::new();
        let mut next = Some(first);
        while let Some(caller) = next {
            commands += caller.commands.len();
            bytes += caller.bytes;
            if !callers.is_empty() && (commands > self.limits.entry_commands || bytes > self.limits.entry_bytes) {
                self.left_over = Some(caller);
                break;
            }
            self.waiting.leave(caller.commands.len(), caller.bytes);
            if caller.claim.make(TAKEN) {
                callers.push(caller);
            }
            next = self.incoming.try_recv().ok();
        }
        callers
    }
}

fn refuse(callers: Vec<Waiting>, error: &ProposeError) {
    for caller in callers {
        caller.answer(Err(error.clone()));
    }
}

impl Waiting {
    fn answer(self, answer: Result<Proposed, ProposeError>) {
        // Nobody waits any more: the deadline passed.
        drop(self.reply.send(answer));
    }
}

impl InFlight {
    /// `None`: openraft dropped it without a word.
    fn finish(self, result: Option<WriteResult>) {
        let error = match result {
            Some(Ok(response)) => return self.deal(response),
            Some(Err(ClientWriteError::ForwardToLeader(forward))) if !self.logged.load(Ordering::Acquire) => {
                ProposeError::NotLeader { leader: forward.leader_id }
            }
            Some(Err(error)) => ProposeError::Unknown { why: error.to_string() },
            None => ProposeError::Unknown { why: "this replica stopped".to_owned() },
        };
        refuse(self.callers, &error);
    }

    fn deal(self, response: ClientWriteResponse<TypeConfig>) {
        let (index, term) = (response.log_id.index, response.log_id.leader_id.term);
        let mut outcomes = response.data.outcomes.into_iter();
        for caller in self.callers {
            let outcomes = outcomes.by_ref().take(caller.commands.len()).collect();
            caller.answer(Ok(Proposed { index, term, outcomes }));
        }
    }
}
