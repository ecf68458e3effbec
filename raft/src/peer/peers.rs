//! Connections to the other replicas.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdfast_api::raft::v1::peer_client::PeerClient;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use crate::config::MESSAGE_BYTES;

/// Connections to the other replicas: one an address, made when first needed and again when lost.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    channels: Arc<Mutex<HashMap<String, Channel>>>,
    connect: Duration,
}

/// Why a call had no answer.
#[derive(Debug)]
pub(crate) enum CallError {
    /// It did not reach the peer, or the peer refused to look at it. Nothing was done.
    NotDone(String),
    /// It may have been done.
    Unknown(String),
}

impl Peers {
    pub(crate) fn new(connect: Duration) -> Peers {
        Peers { channels: Arc::default(), connect }
    }

    /// The peer at an address.
    pub(crate) fn at(&self, address: &str) -> Result<PeerClient<Channel>, Status> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let channel = if let Some(channel) = channels.get(address) {
            channel.clone()
        } else {
            let endpoint = Endpoint::from_shared(format!("http://{address}"))
                .map_err(|error| Status::invalid_argument(format!("{address}: {error}")))?
                .connect_timeout(self.connect)
                .tcp_nodelay(true)
                // A peer that vanished without a word is noticed, and its connection made anew.
                .http2_keep_alive_interval(Duration::from_secs(2))
                .keep_alive_timeout(Duration::from_secs(2))
                .keep_alive_while_idle(true)
                .initial_stream_window_size(4 << 20)
                .initial_connection_window_size(8 << 20);
            let channel = endpoint.connect_lazy();
            channels.insert(address.to_owned(), channel.clone());
            channel
        };
        Ok(PeerClient::new(channel).max_decoding_message_size(MESSAGE_BYTES).max_encoding_message_size(MESSAGE_BYTES))
    }
}

impl CallError {
    /// Tells from an error whether the call can have been done. `FailedPrecondition` is what a replica
    /// answers to what is not meant for it.
    pub(crate) fn of(status: &Status) -> CallError {
        let refused = matches!(status.code(), Code::FailedPrecondition | Code::InvalidArgument);
        let text = status.message().to_owned();
        if refused || never_connected(status) { CallError::NotDone(text) } else { CallError::Unknown(text) }
    }

    pub(crate) fn into_text(self) -> String {
        match self {
            CallError::NotDone(text) | CallError::Unknown(text) => text,
        }
    }
}

fn never_connected(status: &Status) -> bool {
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        if error.is::<tonic::ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}
