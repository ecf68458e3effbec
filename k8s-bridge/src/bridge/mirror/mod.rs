//! Writes what the ledger says into the objects: status, and the Egress addresses that it chose.

use std::sync::Arc;

use super::office::Office;
use crate::ledger::Ledger;

/// Writes for as long as this replica leads.
pub async fn run<L: Ledger>(office: Arc<Office<L>>) {
    loop {
        office.mirror.take().await;
    }
}
