//! Kubernetes objects in, ledger commands out; ledger state in, object status out.
//!
//! - [`objects`]: the kinds that Holdfast reads and writes, with exactly the fields that it uses.
//! - [`manifests`]: files of such objects, read whole or refused whole.
//! - [`translate`]: what an object asks of the ledger, as commands.
//! - [`export`]: what the ledger says of an object, as Kubernetes holds it.
//! - [`crds`]: the definitions of the kinds that Holdfast owns.
//!
//! All of it is pure: the same objects give the same commands, the same rows the same text. This crate
//! must never know about Raft, or who leads; it sees the ledger only by its commands and its rows.

pub mod bridge;
pub mod crds;
pub mod export;
pub mod ledger;
pub mod manifests;
pub mod objects;
mod problem;
mod rest;
pub mod translate;

pub use problem::{FieldProblem, Place, Problem};
