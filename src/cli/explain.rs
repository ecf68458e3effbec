//! `holdfast explain`: why something is not as wanted.

use clap::Subcommand;
use holdfast::wire::Invalid;
use holdfast_api::{Client, v1};
use holdfast_statemachine::command::ObjectId;
use holdfast_statemachine::outcome::Ineligible;
use serde::Serialize;

use super::asking::{Asking, Reading};
use super::failure::Failure;
use super::listed;
use super::names::Namespaced;
use super::node::PlacementView;
use super::output::{self, Header, Items};
use super::pool::{Kind, PoolView};
use super::table::Table;
use super::waiting::{self, WaitView};
use super::words;

/// See `holdfast explain --help`.
#[derive(Clone, Debug, Subcommand)]
pub enum ExplainVerb {
    /// Why a pool's ranges are not in force
    Pool {
        /// Its name
        name: String,
        /// Its kind
        #[arg(long, value_enum, default_value = "ippool")]
        kind: Kind,
        #[command(flatten)]
        reading: Reading,
    },
    /// Why a reservation waits, with the numbers of each pool
    Reservation {
        /// The StatefulSet: NAMESPACE/NAME, or NAME in the namespace default
        name: Namespaced,
        #[command(flatten)]
        reading: Reading,
    },
    /// Why an Egress has no address or no Node: each Node and the first test that it fails
    Egress {
        /// Its name
        name: String,
        #[command(flatten)]
        reading: Reading,
    },
    /// The same for one Egress address
    Address {
        /// The address
        address: std::net::IpAddr,
        #[command(flatten)]
        reading: Reading,
    },
}

/// Why something is as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplanationView {
    /// The object's kind.
    pub kind: &'static str,
    /// The object: `name` or `namespace/name`.
    pub name: String,
    /// Of an Egress, which item, from 0.
    pub item: Option<u32>,
    /// Of an Egress, the address granted, or the static one.
    pub address: Option<String>,
    /// What it waits for.
    pub waiting: Option<WaitView>,
    /// Where the Egress address is.
    pub placement: Option<PlacementView>,
    /// The pools named that are there, as they are now.
    pub pools: Vec<PoolView>,
    /// How many Nodes fail which test.
    pub counts: Vec<CountView>,
    /// Each Node, and the first test that it fails; `null`: none.
    pub nodes: Vec<NodeReasonView>,
}

/// How many Nodes fail a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CountView {
    /// The test: `NotReady`, ...
    pub reason: &'static str,
    /// How many.
    pub nodes: u32,
}

/// A Node, and the first test that it fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReasonView {
    /// The Node.
    pub node: String,
    /// The test: `NotReady`, `AtCapacity 4/4`, ...
    pub why: Option<String>,
}

/// The kind and the name of an object.
pub fn kind_and_name(object: &ObjectId) -> (&'static str, String) {
    match object {
        ObjectId::Pool(id) => (super::pool::kind_name(id.kind), id.name.to_string()),
        ObjectId::Reservation(id) => ("StatefulSet", id.to_string()),
        ObjectId::Egress(name) => ("Egress", name.to_string()),
        ObjectId::Node(name) => ("Node", name.to_string()),
        ObjectId::Pod(namespace, name) => ("Pod", format!("{namespace}/{name}")),
    }
}

impl ExplanationView {
    fn read(it: v1::Explanation) -> Result<ExplanationView, Invalid> {
        let object: ObjectId = waiting::must("object", it.object)?;
        let (kind, name) = kind_and_name(&object);
        let counts = it.counts.iter().map(|count| CountView { reason: reason(count.reason()), nodes: count.nodes });
        let counts = counts.collect();
        let node = |it: v1::explanation::NodeReason| {
            let why: Option<Ineligible> = holdfast::wire::optional("why", it.why)?;
            Ok(NodeReasonView { node: it.node, why: why.map(|why| why.to_string()) })
        };
        Ok(ExplanationView {
            kind,
            name,
            item: it.item,
            address: it.address,
            waiting: WaitView::read(it.waiting)?,
            placement: it.placement.map(PlacementView::read),
            pools: it.pools.into_iter().map(PoolView::read).collect::<Result<_, _>>()?,
            counts,
            nodes: it.nodes.into_iter().map(node).collect::<Result<_, Invalid>>()?,
        })
    }

    /// Whether it is granted, of a pool, and on no Node.
    pub fn is_unplaced(&self) -> bool {
        self.waiting.is_none() && self.placement.is_none() && !self.nodes.is_empty()
    }

    /// How many Nodes fail which test: `2 SelectorMismatch, 1 NotReady`.
    pub fn counts_text(&self) -> String {
        let counts = self.counts.iter().map(|count| format!("{} {}", count.nodes, count.reason));
        counts.collect::<Vec<_>>().join(", ")
    }

    fn title(&self) -> String {
        let address = self.address.as_ref().map(|address| format!(", address {address}")).unwrap_or_default();
        let item = match (self.item, &self.address) {
            (Some(item), None) => format!(", item {item}"),
            _ => String::new(),
        };
        let said = match (&self.waiting, &self.placement) {
            (Some(waiting), _) => format!("waits since revision {}: {}", waiting.since_revision, waiting.text()),
            (None, Some(placement)) => {
                let pinned = if placement.pinned { ", pinned" } else { "" };
                format!("is on Node {} since revision {}{pinned}", placement.node, placement.epoch)
            }
            (None, None) if self.kind != "Egress" => "waits for nothing".to_owned(),
            (None, None) if self.nodes.is_empty() && self.pools.is_empty() => "is static: it is not placed".to_owned(),
            (None, None) if self.nodes.is_empty() => "has no Node: there is none".to_owned(),
            (None, None) => format!("has no Node: {}", self.counts_text()),
        };
        format!("{} {}{address}{item} {said}", self.kind, self.name)
    }

    /// All of it for people.
    pub fn text(&self) -> String {
        let mut text = self.title();
        if !self.nodes.is_empty() {
            let mut table = Table::new(&["  NODE", "WHY NOT"]);
            for node in &self.nodes {
                let there = self.placement.as_ref().is_some_and(|placement| placement.node == node.node);
                let eligible = if there { "it is there" } else { "eligible" };
                let why = node.why.clone().unwrap_or_else(|| eligible.to_owned());
                table.push(vec![format!("  {}", node.node), why]);
            }
            text = format!("{text}\n{table}");
        } else if !self.pools.is_empty() {
            text = format!("{text}\n{}", listed::table(&self.pools));
        }
        text
    }
}

fn reason(reason: v1::ineligible::Reason) -> &'static str {
    use v1::ineligible::Reason;
    match reason {
        Reason::Unspecified => "Unknown",
        Reason::NotReady => "NotReady",
        Reason::NotLinux => "NotLinux",
        Reason::SelectorMismatch => "SelectorMismatch",
        Reason::Drained => "Drained",
        Reason::AtCapacity => "AtCapacity",
    }
}

/// Explains one thing.
pub async fn fetch(
    client: &Client,
    subject: v1::explain_request::Subject,
    reading: Reading,
) -> Result<(Header, Vec<ExplanationView>), Failure> {
    let request = v1::ExplainRequest { consistency: reading.consistency(), subject: Some(subject) };
    let answer = client.explain(request).await?;
    let explanations = answer.explanations.into_iter().map(ExplanationView::read).collect::<Result<_, _>>()?;
    Ok((Header::read(answer.header), explanations))
}

/// Runs the verb.
pub async fn run(asking: &Asking, verb: ExplainVerb) -> Result<(), Failure> {
    use v1::explain_request::Subject;
    let (subject, reading) = match verb {
        ExplainVerb::Pool { name, kind, reading } => {
            (Subject::Pool(v1::PoolId { kind: kind.message().into(), name }), reading)
        }
        ExplainVerb::Reservation { name, reading } => (Subject::Reservation(name.stateful_set()), reading),
        ExplainVerb::Egress { name, reading } => (Subject::Egress(name), reading),
        ExplainVerb::Address { address, reading } => (Subject::Address(address.to_string()), reading),
    };
    let (header, explanations) = fetch(&asking.client()?, subject, reading).await?;
    reading.remark(&header);
    if !asking.for_people() {
        return output::value(asking.output, &Items::new(&header, &explanations));
    }
    let texts: Vec<String> = explanations.iter().map(ExplanationView::text).collect();
    output::say(texts.join("\n\n"))?;
    if explanations.len() > 1 {
        let placed = explanations.iter().filter(|it| it.placement.is_some()).count();
        output::say(format_args!(
            "\n{placed} of {} on a Node",
            words::counted(explanations.len() as u64, "address", "addresses")
        ))?;
    }
    Ok(())
}
