//! Tests across crates, with real processes of the built binary on loopback. One binary: it links once.

mod cli;
mod faults;
mod fixtures;
mod kubernetes;
mod stub;
