//! `holdfast egress`.

use clap::Subcommand;
use holdfast::wire::Invalid;
use holdfast_api::{Client, ClientError, v1};
use serde::Serialize;

use super::asking::{Asking, Reading, pages};
use super::explain;
use super::failure::Failure;
use super::listed::{self, ListOptions, Listed};
use super::output::Header;
use super::waiting::WaitView;

/// How many Egresses without a Node a list explains; `holdfast explain egress` explains any.
const EXPLAINED_MAX: usize = 50;

/// See `holdfast egress --help`.
#[derive(Clone, Debug, Subcommand)]
pub enum EgressVerb {
    /// List Egresses: each address, its Node, and why it has none
    List {
        /// Only with an address on this Node
        #[arg(long)]
        node: Option<String>,
        /// Only with an address of this ExternalIPPool
        #[arg(long)]
        pool: Option<String>,
        #[command(flatten)]
        options: ListOptions,
    },
    /// Show one Egress
    Get {
        /// Its name
        name: String,
        #[command(flatten)]
        reading: Reading,
    },
}

/// An Egress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EgressView {
    /// Its name.
    pub name: String,
    /// Who declared it.
    pub source: String,
    /// Its addresses, in the order of its spec.
    pub addresses: Vec<AddressView>,
}

/// One address of an Egress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressView {
    /// The ExternalIPPool; missing for a static Egress.
    pub pool: Option<String>,
    /// The address granted, or the static one.
    pub address: Option<String>,
    /// Asked for by the spec, not chosen by the ledger.
    pub asked: bool,
    /// Where it is.
    pub node: Option<String>,
    /// Placed, Pinned, Unplaced, Waiting or Static.
    pub state: &'static str,
    /// The placement's epoch; 0 without a Node.
    pub epoch: u64,
    /// What it waits for.
    pub waiting: Option<WaitView>,
    /// How many Nodes fail which test, if it has no Node: `2 SelectorMismatch, 1 NotReady`.
    pub unplaced: Option<String>,
}

impl EgressView {
    /// Reads an Egress.
    pub fn read(egress: v1::Egress) -> Result<EgressView, Invalid> {
        let row = egress.row.unwrap_or_default();
        let addresses = egress.addresses.into_iter().map(AddressView::read).collect::<Result<_, _>>()?;
        Ok(EgressView { name: row.name, source: row.source, addresses })
    }

    /// Whether one of its addresses is granted and on no Node.
    pub fn is_unplaced(&self) -> bool {
        self.addresses.iter().any(|address| address.state == UNPLACED)
    }
}

const UNPLACED: &str = "Unplaced";

impl AddressView {
    fn read(it: v1::EgressAddress) -> Result<AddressView, Invalid> {
        let item = it.item.unwrap_or_default();
        let waiting = WaitView::read(item.waiting)?;
        let state = match (&item.pool, &waiting, &it.node, it.pinned) {
            (None, ..) => "Static",
            (_, Some(_), ..) => "Waiting",
            (_, _, None, _) => UNPLACED,
            (_, _, Some(_), true) => "Pinned",
            (_, _, Some(_), false) => "Placed",
        };
        Ok(AddressView {
            pool: item.pool,
            address: it.address,
            asked: item.asked.is_some(),
            node: it.node,
            state,
            epoch: it.epoch,
            waiting,
            unplaced: None,
        })
    }

    fn why(&self) -> String {
        let waiting = self.waiting.as_ref().map(WaitView::text);
        waiting.or_else(|| self.unplaced.clone()).unwrap_or_default()
    }
}

impl Listed for EgressView {
    const HEADERS: &'static [&'static str] = &["EGRESS", "IP", "NODE", "POOL", "STATE", "WHY"];

    fn id(&self) -> String {
        self.name.clone()
    }

    fn lines(&self) -> Vec<Vec<String>> {
        let line = |it: &AddressView| {
            let text = |cell: &Option<String>| cell.clone().unwrap_or_default();
            vec![self.name.clone(), text(&it.address), text(&it.node), text(&it.pool), it.state.to_owned(), it.why()]
        };
        self.addresses.iter().map(line).collect()
    }
}

/// Which Egresses.
#[derive(Clone, Debug, Default)]
pub struct Which {
    /// With an address on this Node; empty: all.
    pub node: String,
    /// With an address of this pool; empty: all.
    pub pool: String,
}

/// Egresses, each unplaced address with how many Nodes fail which test.
pub async fn fetch(client: &Client, which: &Which, reading: Reading) -> Result<(Header, Vec<EgressView>), Failure> {
    let consistency = reading.consistency();
    let (header, found) = pages(async |page| {
        let Which { node, pool } = which.clone();
        let request = v1::ListEgressesRequest { consistency, page: Some(page), node, pool };
        let answer = client.list_egresses(request).await?;
        Ok((answer.header, answer.egresses, answer.next_page_token))
    })
    .await?;
    let mut egresses = found.into_iter().map(EgressView::read).collect::<Result<Vec<_>, _>>()?;
    for egress in egresses.iter_mut().filter(|egress| egress.is_unplaced()).take(EXPLAINED_MAX) {
        explain_unplaced(client, egress, reading).await?;
    }
    Ok((header, egresses))
}

async fn explain_unplaced(client: &Client, egress: &mut EgressView, reading: Reading) -> Result<(), Failure> {
    let subject = v1::explain_request::Subject::Egress(egress.name.clone());
    let explanations = match explain::fetch(client, subject, reading).await {
        Ok((_, explanations)) => explanations,
        // It was deleted after the list was made.
        Err(Failure::Client(ClientError::NotFound { .. })) => return Ok(()),
        Err(failure) => return Err(failure),
    };
    for address in egress.addresses.iter_mut().filter(|address| address.state == UNPLACED) {
        let explained = explanations.iter().find(|it| it.address == address.address && it.is_unplaced());
        address.unplaced = explained.map(explain::ExplanationView::counts_text);
    }
    Ok(())
}

/// Runs the verb.
pub async fn run(asking: &Asking, verb: EgressVerb) -> Result<(), Failure> {
    match verb {
        EgressVerb::List { node, pool, options } => {
            let which = Which { node: node.unwrap_or_default(), pool: pool.unwrap_or_default() };
            listed::list(asking, options, async |client| fetch(client, &which, options.reading).await).await
        }
        EgressVerb::Get { name, reading } => {
            let client = asking.client()?;
            let answer = client.get_egress(v1::GetEgressRequest { consistency: reading.consistency(), name }).await?;
            let header = Header::read(answer.header);
            reading.remark(&header);
            let mut view = EgressView::read(answer.egress.unwrap_or_default())?;
            if view.is_unplaced() {
                explain_unplaced(&client, &mut view, reading).await?;
            }
            listed::one(asking, &header, &view, &[])
        }
    }
}
