//! A watch that outlives its connections.

use std::time::Instant;

use tonic::Streaming;

use super::{BACKOFF, Client, ClientError, Repeat, ledger};
use crate::v1::{WatchRequest, WatchResponse};

/// Changes from a revision on, resumed after a lost connection.
#[derive(Debug)]
pub struct Watch {
    client: Client,
    request: WatchRequest,
    stream: Option<Streaming<WatchResponse>>,
}

impl Watch {
    pub(super) fn new(client: Client, request: WatchRequest) -> Watch {
        Watch { client, request, stream: None }
    }

    /// The next part of the change feed; waits for as long as nothing changes. A lost connection is made good
    /// on another endpoint; an error comes only when none answers within the client's timeout, or when
    /// changes that are due are no longer kept.
    pub async fn next(&mut self) -> Result<WatchResponse, ClientError> {
        loop {
            let stream = match &mut self.stream {
                Some(stream) => stream,
                None => self.stream.insert(connect(&self.client, &self.request).await?),
            };
            match stream.message().await {
                Ok(Some(response)) => {
                    self.request.after_revision = Some(response.revision);
                    return Ok(response);
                }
                Ok(None) => self.stream = None,
                Err(status) => {
                    self.stream = None;
                    match ClientError::of(&status) {
                        Some(error @ (ClientError::TooOld { .. } | ClientError::Invalid { .. })) => return Err(error),
                        _ => tokio::time::sleep(BACKOFF).await,
                    }
                }
            }
        }
    }
}

/// Opens the stream at any endpoint, trying until the client's timeout has passed.
async fn connect(client: &Client, request: &WatchRequest) -> Result<Streaming<WatchResponse>, ClientError> {
    let deadline = Instant::now() + client.timeout;
    loop {
        let opened = client
            .call(Repeat::Read, request.clone(), |channel, request| async move { ledger(channel).watch(request).await })
            .await;
        match opened {
            Err(ClientError::Unreachable { .. }) if Instant::now() + BACKOFF < deadline => {
                tokio::time::sleep(BACKOFF).await;
            }
            opened => return opened,
        }
    }
}
