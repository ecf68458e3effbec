//! What the replicas say to each other.

mod service;

pub use service::PeerService;
