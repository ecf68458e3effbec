//! What the replicas say to each other: one gRPC connection a peer, one message a call.
//!
//! Every message names the group and the replica that it is meant for, and is refused by any other: an
//! address may by now belong to someone else, and a node id is never used again after its data is lost.

mod network;
mod peers;
mod server;
pub(crate) mod wire;

pub(crate) use network::Network;
pub(crate) use peers::{CallError, Peers};
pub use server::PeerService;
