//! Writes what the ledger says into the objects: status, and the Egress addresses that it chose.
//!
//! [`feed`] follows the ledger's changes and says which objects may be affected; [`writers`] hands objects to one
//! writer each, and a [`turn`] is one look at one of them. What is to be written is decided by pure functions of the
//! object, its rows and what is remembered of it.

pub mod addresses;
mod antrea;
mod antrea_merge;
mod budget;
mod contest;
mod cut;
mod feed;
mod memory;
mod news;
mod other_writer;
mod requests;
mod status;
mod turn;
mod wanted;
mod writers;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::office::Office;
use super::recorder;
use crate::ledger::Ledger;

pub use budget::Budget;
pub use requests::MANAGER;
pub(super) use status::newer;

/// Follows the ledger's changes, and tells people of them, for as long as this replica leads.
pub async fn follow<L: Ledger>(office: Arc<Office<L>>) {
    tokio::join!(feed::run(office.clone()), recorder::run(office));
}

/// Writes for as long as this replica leads.
pub async fn run<L: Ledger>(office: Arc<Office<L>>) {
    writers::run(office).await;
}
