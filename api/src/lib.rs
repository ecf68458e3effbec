//! Holdfast's gRPC contract and the types made from it.

/// What the replicas of a group say to each other.
#[allow(clippy::all, clippy::pedantic, missing_docs)]
pub mod raft {
    /// Version 1.
    pub mod v1 {
        tonic::include_proto!("holdfast.raft.v1");
    }
}
