//! `holdfast export`: pools and Egresses as Kubernetes will hold them.

use std::net::IpAddr;

use clap::Args;
use holdfast::wire::row::read_row;
use holdfast_api::{Client, v1};
use holdfast_bridge::export::{self, Facts, List, Usage};
use holdfast_statemachine::{Ledger, PoolId};

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
    Ok(list(&ledger, &header.cluster_id))
}

fn list(ledger: &Ledger, cluster: &str) -> List {
    let usage = |id: &PoolId| {
        let usage = ledger.usage(id).unwrap_or_default();
        Usage { total: usage.total, used: usage.used, free: usage.free }
    };
    let unplaced = |address: IpAddr| {
        let Some(explained) = ledger.explain_address(address) else { return String::new() };
        let counts = [
            (explained.not_ready, "NotReady"),
            (explained.not_linux, "NotLinux"),
            (explained.selector_mismatch, "SelectorMismatch"),
            (explained.drained, "Drained"),
            (explained.at_capacity, "AtCapacity"),
        ];
        let counts = counts.iter().filter(|(nodes, _)| *nodes > 0).map(|(nodes, why)| format!("{nodes} {why}"));
        counts.collect::<Vec<_>>().join(", ")
    };
    export::list(ledger.tables(), cluster, Facts { usage: &usage, unplaced: &unplaced })
}

/// Runs the verb.
pub async fn run(asking: &Asking, args: ExportArgs) -> Result<(), Failure> {
    let list = fetch(&asking.client()?, args.reading).await?;
    let format = if asking.output == Format::Json { Format::Json } else { Format::Yaml };
    output::value(format, &list)
}
