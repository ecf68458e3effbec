//! Holdfast's binary as a library, so that tests and benches reach its parts.

pub mod server;
pub mod wire;
