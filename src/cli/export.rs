//! `holdfast export`: pools and Egresses as Kubernetes will hold them.

use clap::Args;
use holdfast::wire::row::read_row;
use holdfast_api::{Client, v1};
use holdfast_bridge::export::{self, List};
use holdfast_statemachine::Ledger;

use super::asking::{Asking, Reading};
use super::failure::Failure;
use super::output::{self, Format};

/// See `holdfast export --help`.
#[derive(Args, Clone, Debug)]
pub struct ExportArgs {
    #[command(flatten)]
    reading: Reading,
}

/// Every IPPool, ExternalIPPool and Egress at one revision.
pub async fn fetch(client: &Client, reading: Reading) -> Result<List, Failure> {
    let request = v1::RowsRequest { consistency: reading.consistency(), declarations_only: false };
    let (header, rows) = client.rows(request).await?;
    let rows = rows.into_iter().map(read_row).collect::<Result<Vec<_>, _>>()?;
    let ledger = Ledger::from_rows(rows).map_err(|error| Failure::Replica(error.to_string()))?;
    Ok(export::list(&ledger, &header.cluster_id))
}

/// Runs the verb.
pub async fn run(asking: &Asking, args: ExportArgs) -> Result<(), Failure> {
    let list = fetch(&asking.client()?, args.reading).await?;
    let format = if asking.output == Format::Json { Format::Json } else { Format::Yaml };
    output::value(format, &list)
}
