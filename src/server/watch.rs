//! The change feed of one watch.

use std::sync::Arc;

use futures::Stream;
use holdfast_api::v1;
use holdfast_statemachine::{Change, Revision, Store};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::filter::Filter;
use super::page::chunks;
use super::status;
use crate::wire::Wire;

/// Changes read in one go.
const READ: usize = 1_000;
/// Messages made ready ahead of a slow client; it then slows down the reading, nothing else.
const AHEAD: usize = 4;

/// What a watch reads from.
pub struct Feed {
    store: Arc<Store>,
    revision: watch::Receiver<Revision>,
    stopping: watch::Receiver<bool>,
    filters: Vec<Filter>,
}

impl Feed {
    /// A feed of the changes that one of the filters matches, or of all if there is none.
    pub fn new(
        store: Arc<Store>,
        revision: watch::Receiver<Revision>,
        stopping: watch::Receiver<bool>,
        filters: Vec<Filter>,
    ) -> Feed {
        Feed { store, revision, stopping, filters }
    }

    /// Starts it after a revision. The first message comes at once, so that the client knows where it stands.
    pub async fn start(
        self,
        after: Revision,
        permit: OwnedSemaphorePermit,
    ) -> Result<impl Stream<Item = Result<v1::WatchResponse, Status>> + use<>, Status> {
        let first = self.read(after).await?;
        let (sender, receiver) = mpsc::channel(AHEAD);
        tokio::spawn(async move {
            let _held = permit;
            if let Err(ended) = self.run(after, first, &sender).await {
                // The client may be gone already; then nobody is to be told.
                drop(sender.send(Err(ended)).await);
            }
        });
        Ok(ReceiverStream::new(receiver))
    }

    async fn run(
        mut self,
        mut after: Revision,
        mut changes: Vec<Change>,
        sender: &mpsc::Sender<Result<v1::WatchResponse, Status>>,
    ) -> Result<(), Status> {
        let mut told = false;
        loop {
            let full = changes.len() == READ;
            after = changes.last().map_or(after, |change| change.revision);
            for message in self.part(after, &changes, told) {
                told = true;
                if sender.send(Ok(message)).await.is_err() {
                    return Ok(());
                }
            }
            if !full {
                tokio::select! {
                    () = sender.closed() => return Ok(()),
                    _ = self.stopping.wait_for(|stopping| *stopping) => {
                        return Err(status::unavailable("this replica is stopping", None));
                    }
                    more = self.revision.wait_for(|revision| *revision > after) => {
                        if more.is_err() {
                            return Err(status::unavailable("this replica has stopped", None));
                        }
                    }
                }
            }
            changes = self.read(after).await?;
        }
    }

    /// The messages for the changes up to `after`. Without a match there is one only at the start, and
    /// where changes were looked at.
    fn part(&self, after: Revision, changes: &[Change], told: bool) -> Vec<v1::WatchResponse> {
        let wanted = |change: &&Change| {
            self.filters.is_empty() || self.filters.iter().any(|filter| filter.matches(&change.event))
        };
        let wanted = changes.iter().filter(wanted).map(Wire::to_message);
        let mut messages: Vec<v1::WatchResponse> = chunks(wanted, READ)
            .map(|changes| v1::WatchResponse {
                revision: changes.last().map_or(0, |change: &v1::Change| change.revision),
                changes,
            })
            .collect();
        match messages.last_mut() {
            Some(last) => last.revision = after,
            None if told && changes.is_empty() => {}
            None => messages.push(v1::WatchResponse { revision: after, changes: Vec::new() }),
        }
        messages
    }

    async fn read(&self, after: Revision) -> Result<Vec<Change>, Status> {
        let store = Arc::clone(&self.store);
        let read = tokio::task::spawn_blocking(move || store.changes(after, READ));
        let read = read.await.map_err(|error| Status::internal(format!("a read failed: {error}")))?;
        read.map_err(|error| status::store(&error))
    }
}
