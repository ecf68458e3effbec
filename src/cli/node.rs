//! `holdfast node`.

use std::collections::BTreeMap;

use clap::Subcommand;
use holdfast_api::{Client, v1};
use serde::Serialize;

use super::asking::{Asking, Reading, pages};
use super::failure::Failure;
use super::listed::{self, ListOptions, Listed};
use super::output::Header;
use super::table::Table;

/// See `holdfast node --help`.
#[derive(Clone, Debug, Subcommand)]
pub enum NodeVerb {
    /// List Nodes, with how many Egress addresses each carries and may carry
    List {
        #[command(flatten)]
        options: ListOptions,
    },
    /// Show one Node and what it carries
    Get {
        /// Its name
        name: String,
        #[command(flatten)]
        reading: Reading,
    },
}

/// A Node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// Who declared it.
    pub source: String,
    /// Whether it is live.
    pub ready: bool,
    /// Kept empty by an operator.
    pub drained: bool,
    /// Egress addresses that it carries.
    pub carried: u32,
    /// Egress addresses that it may carry.
    pub capacity: u32,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// What it carries; only where one Node is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placements: Option<Vec<PlacementView>>,
}

/// An Egress address on a Node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementView {
    /// The address.
    pub address: String,
    /// The Egress.
    pub egress: String,
    /// The Node.
    pub node: String,
    /// Kept from `rebalance`.
    pub pinned: bool,
    /// The placement's epoch.
    pub epoch: u64,
}

impl PlacementView {
    /// Reads a placement.
    pub fn read(row: v1::PlacementRow) -> PlacementView {
        PlacementView {
            address: row.address,
            egress: row.egress,
            node: row.node,
            pinned: row.pinned,
            epoch: row.stamp.unwrap_or_default().revision,
        }
    }
}

impl NodeView {
    /// Reads a Node.
    pub fn read(node: v1::Node) -> NodeView {
        let row = node.row.unwrap_or_default();
        NodeView {
            name: row.name,
            source: row.source,
            ready: row.ready,
            drained: row.drained,
            carried: node.carried,
            capacity: node.capacity,
            labels: row.labels,
            placements: None,
        }
    }

    fn state(&self) -> String {
        let ready = if self.ready { "Ready" } else { "NotReady" };
        format!("{ready}{}", if self.drained { ",Drained" } else { "" })
    }
}

impl Listed for NodeView {
    const HEADERS: &'static [&'static str] = &["NODE", "STATE", "EGRESS-IPS", "CAPACITY", "SOURCE"];

    fn id(&self) -> String {
        self.name.clone()
    }

    fn lines(&self) -> Vec<Vec<String>> {
        let numbers = [self.carried.to_string(), self.capacity.to_string()];
        let [carried, capacity] = numbers;
        vec![vec![self.name.clone(), self.state(), carried, capacity, self.source.clone()]]
    }
}

/// All Nodes.
pub async fn fetch(client: &Client, reading: Reading) -> Result<(Header, Vec<NodeView>), Failure> {
    let consistency = reading.consistency();
    let (header, nodes) = pages(async |page| {
        let answer = client.list_nodes(v1::ListNodesRequest { consistency, page: Some(page) }).await?;
        Ok((answer.header, answer.nodes, answer.next_page_token))
    })
    .await?;
    Ok((header, nodes.into_iter().map(NodeView::read).collect()))
}

/// Runs the verb.
pub async fn run(asking: &Asking, verb: NodeVerb) -> Result<(), Failure> {
    match verb {
        NodeVerb::List { options } => {
            listed::list(asking, options, async |client| fetch(client, options.reading).await).await
        }
        NodeVerb::Get { name, reading } => {
            let request = v1::GetNodeRequest { consistency: reading.consistency(), name };
            let answer = asking.client()?.get_node(request).await?;
            let header = Header::read(answer.header);
            reading.remark(&header);
            let placements: Vec<PlacementView> = answer.placements.into_iter().map(PlacementView::read).collect();
            let mut table = Table::new(&["IP", "EGRESS", "PINNED", "EPOCH"]);
            for it in &placements {
                let pinned = if it.pinned { "yes" } else { "no" };
                table.push(vec![it.address.clone(), it.egress.clone(), pinned.to_owned(), it.epoch.to_string()]);
            }
            let mut view = NodeView::read(answer.node.unwrap_or_default());
            view.placements = Some(placements);
            listed::one(asking, &header, &view, &[table])
        }
    }
}
