//! `holdfast pool`.

use clap::{Subcommand, ValueEnum};
use holdfast::wire::{self, Invalid};
use holdfast_api::{Client, ClientError, v1};
use holdfast_statemachine::{PoolId, PoolKind, Range};
use serde::Serialize;

use super::asking::{Asking, Reading, pages};
use super::failure::Failure;
use super::listed::{self, ListOptions, Listed};
use super::output::Header;
use super::waiting::{self, WaitView};
use super::words;

/// The two kinds of pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Addresses for Pods
    Ippool,
    /// Addresses for Egresses
    Externalippool,
}

impl Kind {
    /// As the contract says it.
    pub fn message(self) -> v1::PoolKind {
        match self {
            Kind::Ippool => v1::PoolKind::IpPool,
            Kind::Externalippool => v1::PoolKind::ExternalIpPool,
        }
    }
}

/// See `holdfast pool --help`.
#[derive(Clone, Debug, Subcommand)]
pub enum PoolVerb {
    /// List pools, with how much of each is used
    List {
        /// Only pools of this kind
        #[arg(long, value_enum)]
        kind: Option<Kind>,
        #[command(flatten)]
        options: ListOptions,
    },
    /// Show one pool
    Get {
        /// Its name
        name: String,
        /// Its kind; both are looked for unless given
        #[arg(long, value_enum)]
        kind: Option<Kind>,
        #[command(flatten)]
        reading: Reading,
    },
}

/// A pool, declared or retired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolView {
    /// `IPPool` or `ExternalIPPool`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Who declared it; missing if it is only retired.
    pub source: Option<String>,
    /// The usable ranges in force; of a retired pool, those still counted.
    pub ranges: Vec<String>,
    /// Usable addresses.
    pub total: u128,
    /// Addresses held.
    pub used: u128,
    /// Addresses not held; the next two are among them.
    pub free: u128,
    /// Kept from other owners for now.
    pub cooling: u128,
    /// Kept open behind a reservation.
    pub headroom: u128,
    /// The longest run of free addresses in one range.
    pub largest_free_run: u128,
    /// Addresses still held of a deleted pool of this name.
    pub retired_held: u64,
    /// Why what is wanted is not in force.
    pub waiting: Option<WaitView>,
}

/// The kind's name in Kubernetes.
pub fn kind_name(kind: PoolKind) -> &'static str {
    match kind {
        PoolKind::IpPool => "IPPool",
        PoolKind::ExternalIpPool => "ExternalIPPool",
    }
}

impl PoolView {
    /// Reads a pool.
    pub fn read(pool: v1::Pool) -> Result<PoolView, Invalid> {
        let id: PoolId = waiting::must("id", pool.id)?;
        let usage = pool.usage.unwrap_or_default();
        let count = |field: &str, text: &str| if text.is_empty() { Ok(0) } else { wire::count(field, text) };
        let (source, ranges, waiting) = match (pool.declared, pool.retired) {
            (Some(declared), _) => (Some(declared.source), declared.ranges, declared.waiting),
            (None, retired) => (None, retired.map(|row| row.ranges).unwrap_or_default(), None),
        };
        let ranges: Vec<Range> = wire::list("ranges", ranges)?;
        Ok(PoolView {
            kind: kind_name(id.kind),
            name: id.name.to_string(),
            source,
            ranges: ranges.into_iter().map(words::range).collect(),
            total: count("usage.total", &usage.total)?,
            used: count("usage.used", &usage.used)?,
            free: count("usage.free", &usage.free)?,
            cooling: count("usage.cooling", &usage.cooling)?,
            headroom: count("usage.headroom", &usage.headroom)?,
            largest_free_run: count("usage.largest_free_run", &usage.largest_free_run)?,
            retired_held: pool.retired_held,
            waiting: WaitView::read(waiting)?,
        })
    }

    fn state(&self) -> String {
        match (&self.source, &self.waiting) {
            (None, _) => format!("retired, {} still held", self.retired_held),
            (Some(_), Some(waiting)) => format!("waiting: {}", waiting.text()),
            (Some(_), None) if self.retired_held > 0 => format!("ready; {} held of a former one", self.retired_held),
            (Some(_), None) => "ready".to_owned(),
        }
    }
}

impl Listed for PoolView {
    const HEADERS: &'static [&'static str] =
        &["KIND", "NAME", "TOTAL", "USED", "FREE", "LARGEST-FREE-RUN", "COOLING", "HEADROOM", "RANGES", "STATE"];

    fn id(&self) -> String {
        format!("{} {}", self.kind, self.name)
    }

    fn lines(&self) -> Vec<Vec<String>> {
        let numbers = [self.total, self.used, self.free, self.largest_free_run, self.cooling, self.headroom];
        let mut cells = vec![self.kind.to_owned(), self.name.clone()];
        cells.extend(numbers.iter().map(ToString::to_string));
        cells.extend([self.ranges.join(","), self.state()]);
        vec![cells]
    }
}

/// All pools, or those of one kind.
pub async fn fetch(client: &Client, kind: Option<Kind>, reading: Reading) -> Result<(Header, Vec<PoolView>), Failure> {
    let kind = kind.map_or(v1::PoolKind::Unspecified, Kind::message).into();
    let consistency = reading.consistency();
    let (header, pools) = pages(async |page| {
        let answer = client.list_pools(v1::ListPoolsRequest { consistency, page: Some(page), kind }).await?;
        Ok((answer.header, answer.pools, answer.next_page_token))
    })
    .await?;
    let pools = pools.into_iter().map(PoolView::read).collect::<Result<_, _>>()?;
    Ok((header, pools))
}

/// Runs the verb.
pub async fn run(asking: &Asking, verb: PoolVerb) -> Result<(), Failure> {
    match verb {
        PoolVerb::List { kind, options } => {
            listed::list(asking, options, async |client| fetch(client, kind, options.reading).await).await
        }
        PoolVerb::Get { name, kind, reading } => {
            let client = asking.client()?;
            let kinds = kind.map_or(vec![Kind::Ippool, Kind::Externalippool], |kind| vec![kind]);
            let mut found = false;
            for kind in kinds {
                let pool = v1::PoolId { kind: kind.message().into(), name: name.clone() };
                let request = v1::GetPoolRequest { consistency: reading.consistency(), pool: Some(pool) };
                match client.get_pool(request).await {
                    Ok(answer) => {
                        let header = Header::read(answer.header);
                        reading.remark(&header);
                        listed::one(asking, &header, &PoolView::read(answer.pool.unwrap_or_default())?, &[])?;
                        found = true;
                    }
                    Err(ClientError::NotFound { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if found { Ok(()) } else { Err(ClientError::NotFound { kind: "pool".to_owned(), name }.into()) }
        }
    }
}
