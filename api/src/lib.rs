//! The gRPC contract of Holdfast: its `.proto` files, the types made from them, and a thin client.
//!
//! It knows the wire and nothing of what is behind it: neither the ledger's own types nor Raft.

pub mod client;
mod failure;

mod generated {
    #![allow(missing_docs, rustdoc::all, clippy::all, clippy::pedantic)]
    include!(concat!(env!("OUT_DIR"), "/packages.rs"));
}

pub use client::{Client, ClientError};
pub use failure::{FAILURE_TYPE_URL, failure, status};
#[doc(inline)]
pub use generated::holdfast::*;

/// Every `.proto` file's descriptor, encoded, for the reflection service.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
