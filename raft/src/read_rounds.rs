//! Linearizable reads: one confirmation of leadership for all that wait for one.

use std::sync::{Arc, Weak};
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};

use crate::ReadError;
use crate::replica::Replica;

/// Where readers ask for a read index.
#[derive(Debug)]
pub(crate) struct ReadRounds {
    queue: mpsc::UnboundedSender<Reader>,
}

type Answer = Result<u64, String>;

struct Reader {
    reply: oneshot::Sender<Answer>,
}

impl ReadRounds {
    /// The rounds, and the task that does them; to be spawned.
    pub(crate) fn new(replica: Weak<Replica>) -> (ReadRounds, impl Future<Output = ()> + Send) {
        let (queue, incoming) = mpsc::unbounded_channel();
        (ReadRounds { queue }, run(replica, incoming))
    }

    /// The index up to which a reader that asks now must wait. Rounds that fail are tried again until the
    /// deadline.
    pub(crate) async fn index(&self, replica: &Replica, deadline: Instant) -> Result<u64, ReadError> {
        let mut why = "no round came to an end".to_owned();
        loop {
            let (reply, answer) = oneshot::channel();
            self.queue.send(Reader { reply }).map_err(|_| ReadError::Stopping)?;
            match tokio::time::timeout_at(deadline.into(), answer).await {
                Ok(Ok(Ok(index))) => return Ok(index),
                Ok(Ok(Err(reason))) => why = reason,
                Ok(Err(_)) => return Err(ReadError::Stopping),
                Err(_) => return Err(ReadError::Deadline { why }),
            }
            if !replica.pause(deadline).await {
                return Err(ReadError::Deadline { why });
            }
        }
    }
}

/// A round takes all readers that came before it is sent, and none after: what a later reader must see may
/// be newer than what the round confirms.
async fn run(replica: Weak<Replica>, mut incoming: mpsc::UnboundedReceiver<Reader>) {
    while let Some(first) = incoming.recv().await {
        let mut readers = vec![first];
        while let Ok(reader) = incoming.try_recv() {
            readers.push(reader);
        }
        let Some(replica) = replica.upgrade() else { return };
        let answer = confirm(&replica).await;
        for reader in readers {
            // Nobody waits any more: the deadline passed.
            drop(reader.reply.send(answer.clone()));
        }
    }
}

async fn confirm(replica: &Arc<Replica>) -> Answer {
    let running = replica.running().ok_or("the group is not formed")?;
    if running.leads().is_some() {
        if running.is_handing_over() {
            return Err("the lead is being handed over".to_owned());
        }
        let index = running.raft.get_read_log_id().await.map_err(|error| error.to_string())?.0;
        return Ok(index.map_or(0, |id| id.index));
    }
    replica.ask_leader_for_read_index().await
}
