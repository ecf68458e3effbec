//! Writes what the ledger says into the objects: status, and the Egress addresses that it chose.
//!
//! [`feed`] follows the ledger's changes and says which objects may be affected; [`writers`] hands objects to one
//! writer each, and a [`turn`] is one look at one of them. What is to be written is decided by pure functions of the
//! object, its rows and what is remembered of it.

pub mod addresses;
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

use tokio::task::JoinSet;

use super::Mode;
use super::office::Office;
use super::recorder;
use crate::ledger::Ledger;

pub use budget::Budget;
pub use requests::MANAGER;

/// Follows the ledger's changes, and tells people of them, for as long as this replica leads.
pub async fn follow<L: Ledger>(office: Arc<Office<L>>) {
    tokio::join!(feed::run(office.clone()), recorder::run(office));
}

/// Writes for as long as this replica leads.
pub async fn run<L: Ledger>(office: Arc<Office<L>>) {
    // Dropping the set ends every task in it.
    let mut tasks = JoinSet::new();
    match office.options.mode {
        Mode::Standalone => {
            tasks.spawn(writers::run(office));
        }
        Mode::Antrea => {
            tasks.spawn(async move {
                loop {
                    office.mirror.take().await;
                }
            });
        }
    }
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended
            && let Ok(panic) = error.try_into_panic()
        {
            std::panic::resume_unwind(panic);
        }
    }
}
