//! `holdfast reservation`.

use clap::Subcommand;
use holdfast::wire::{self, Invalid};
use holdfast_api::{Client, v1};
use holdfast_statemachine::command::Retention;
use holdfast_statemachine::{PoolId, Range};
use serde::Serialize;

use super::asking::{Asking, Reading, pages};
use super::failure::Failure;
use super::listed::{self, ListOptions, Listed};
use super::names::Namespaced;
use super::output::Header;
use super::table::Table;
use super::waiting::{self, WaitView};
use super::words;

/// See `holdfast reservation --help`.
#[derive(Clone, Debug, Subcommand)]
pub enum ReservationVerb {
    /// List reservations, with their blocks and what they wait for
    List {
        /// Only of this namespace
        #[arg(short, long)]
        namespace: Option<String>,
        #[command(flatten)]
        options: ListOptions,
    },
    /// Show one reservation with its ordinals
    Get {
        /// The StatefulSet: NAMESPACE/NAME, or NAME in the namespace default
        name: Namespaced,
        #[command(flatten)]
        reading: Reading,
    },
}

/// A StatefulSet's reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReservationView {
    /// The StatefulSet's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Pending, Partial, Granted or Releasing.
    pub phase: &'static str,
    /// Who declared it.
    pub source: String,
    /// The first wanted ordinal; missing if there is no StatefulSet (any more).
    pub start: Option<u32>,
    /// Wanted ordinals.
    pub replicas: Option<u32>,
    /// IPPools named, in order of preference.
    pub pools: Vec<String>,
    /// Addresses held, both families.
    pub addresses: u32,
    /// Pods bound.
    pub pods: u32,
    /// Runs of addresses of consecutive ordinals; at most 1,000.
    pub blocks: Vec<BlockView>,
    /// How many blocks there are.
    pub block_count: u32,
    /// What is kept open right behind it.
    pub headroom: Vec<String>,
    /// What it waits for.
    pub waiting: Option<WaitView>,
    /// Its ordinals; only where one reservation is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordinals: Option<Vec<OrdinalView>>,
}

/// A run of addresses of consecutive ordinals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockView {
    /// Its IPPool.
    pub pool: String,
    /// The lowest address.
    pub first: String,
    /// The highest.
    pub last: String,
    /// The ordinal of the first.
    pub first_ordinal: u32,
    /// How many.
    pub count: u32,
    #[serde(skip)]
    short: String,
}

/// One ordinal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OrdinalView {
    /// Which.
    pub ordinal: u32,
    /// Whether the StatefulSet wants it.
    pub wanted: bool,
    /// What it holds.
    pub addresses: Vec<HeldView>,
    /// The Pod bound to it.
    pub pod: Option<String>,
    /// Only retained, until this time.
    pub retained_until: Option<String>,
    /// Left by a former StatefulSet and not wanted since: `release`, or for how long it is kept without a Pod.
    pub left: Option<String>,
}

/// An address that an ordinal holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldView {
    /// The address.
    pub address: String,
    /// Its IPPool.
    pub pool: String,
    /// Superseded, and kept while a Pod may use it.
    pub former: bool,
    /// The grant's id.
    pub revision: u64,
}

impl ReservationView {
    /// Reads a reservation.
    pub fn read(reservation: v1::Reservation) -> Result<ReservationView, Invalid> {
        use v1::reservation::Phase;
        let phase = match reservation.phase() {
            Phase::Unspecified | Phase::Pending => "Pending",
            Phase::Partial => "Partial",
            Phase::Granted => "Granted",
            Phase::Releasing => "Releasing",
        };
        let row = reservation.row.unwrap_or_default();
        let id = row.id.unwrap_or_default();
        let headroom: Vec<Range> = wire::list("headroom", reservation.headroom)?;
        Ok(ReservationView {
            namespace: id.namespace,
            name: id.name,
            phase,
            source: row.source,
            start: row.spec.as_ref().map(|spec| spec.start),
            replicas: row.spec.as_ref().map(|spec| spec.replicas),
            pools: row.spec.map(|spec| spec.pools).unwrap_or_default(),
            addresses: reservation.addresses,
            pods: reservation.pods,
            blocks: reservation.blocks.into_iter().map(BlockView::read).collect::<Result<_, _>>()?,
            block_count: reservation.block_count,
            headroom: headroom.into_iter().map(words::range).collect(),
            waiting: WaitView::read(row.waiting)?,
            ordinals: None,
        })
    }

    fn blocks_text(&self) -> String {
        /// More than this in a line is for `reservation get`.
        const SHOWN: usize = 6;
        let mut blocks: Vec<&str> = self.blocks.iter().take(SHOWN).map(|block| block.short.as_str()).collect();
        let more = (self.block_count as usize).saturating_sub(blocks.len());
        let rest = format!("and {more} more");
        if more > 0 {
            blocks.push(&rest);
        }
        blocks.join(", ")
    }
}

impl BlockView {
    fn read(block: v1::Block) -> Result<BlockView, Invalid> {
        let pool: PoolId = waiting::must("pool", block.pool)?;
        let range: Range = waiting::must("range", block.range)?;
        Ok(BlockView {
            pool: pool.name.to_string(),
            first: range.first().to_string(),
            last: range.last().to_string(),
            first_ordinal: block.first_ordinal,
            count: block.count,
            short: words::range(range),
        })
    }
}

impl OrdinalView {
    fn read(ordinal: v1::Ordinal) -> Result<OrdinalView, Invalid> {
        let held = |it: v1::ordinal::Address| HeldView {
            address: it.address,
            pool: it.pool.unwrap_or_default().name,
            former: it.former,
            revision: it.revision,
        };
        let pod = ordinal.pod.and_then(|bound| bound.pod);
        let left: Option<Retention> = wire::optional("left", ordinal.left)?;
        Ok(OrdinalView {
            ordinal: ordinal.ordinal,
            wanted: ordinal.wanted,
            addresses: ordinal.addresses.into_iter().map(held).collect(),
            pod: pod.map(|pod| format!("{}/{}", pod.namespace, pod.name)),
            retained_until: ordinal.retained_until_ms.map(words::time),
            left: left.map(words::retention),
        })
    }

    fn cells(&self) -> Vec<String> {
        let shown = |held: &HeldView| format!("{}{}", held.address, if held.former { " (former)" } else { "" });
        let state = match (&self.retained_until, &self.left, self.wanted) {
            (Some(until), ..) => format!("retained until {until}"),
            (None, Some(rule), _) => format!("left: when-deleted {rule}"),
            (None, None, true) => "wanted".to_owned(),
            (None, None, false) => "not wanted".to_owned(),
        };
        vec![
            self.ordinal.to_string(),
            self.addresses.iter().map(shown).collect::<Vec<_>>().join(", "),
            self.pod.clone().unwrap_or_default(),
            state,
        ]
    }
}

impl Listed for ReservationView {
    const HEADERS: &'static [&'static str] =
        &["STATEFULSET", "PHASE", "REPLICAS", "ADDRESSES", "PODS", "BLOCKS", "HEADROOM", "WAITING"];

    fn id(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    fn lines(&self) -> Vec<Vec<String>> {
        vec![vec![
            self.id(),
            self.phase.to_owned(),
            self.replicas.map(|replicas| replicas.to_string()).unwrap_or_default(),
            self.addresses.to_string(),
            self.pods.to_string(),
            self.blocks_text(),
            self.headroom.join(", "),
            waiting::text(self.waiting.as_ref()),
        ]]
    }
}

/// All reservations, or those of one namespace.
pub async fn fetch(
    client: &Client,
    namespace: Option<&str>,
    reading: Reading,
) -> Result<(Header, Vec<ReservationView>), Failure> {
    let consistency = reading.consistency();
    let (header, found) = pages(async |page| {
        let namespace = namespace.unwrap_or_default().to_owned();
        let request = v1::ListReservationsRequest { consistency, page: Some(page), namespace };
        let answer = client.list_reservations(request).await?;
        Ok((answer.header, answer.reservations, answer.next_page_token))
    })
    .await?;
    Ok((header, found.into_iter().map(ReservationView::read).collect::<Result<_, _>>()?))
}

/// Runs the verb.
pub async fn run(asking: &Asking, verb: ReservationVerb) -> Result<(), Failure> {
    match verb {
        ReservationVerb::List { namespace, options } => {
            let fetch = async |client: &Client| fetch(client, namespace.as_deref(), options.reading).await;
            listed::list(asking, options, fetch).await
        }
        ReservationVerb::Get { name, reading } => get(asking, name, reading).await,
    }
}

async fn get(asking: &Asking, name: Namespaced, reading: Reading) -> Result<(), Failure> {
    let client = asking.client()?;
    let (id, consistency) = (name.stateful_set(), reading.consistency());
    let mut reservation = None;
    let (header, ordinals) = pages(async |page| {
        let request = v1::GetReservationRequest { consistency, id: Some(id.clone()), page: Some(page) };
        let answer = client.get_reservation(request).await?;
        reservation = reservation.take().or(answer.reservation);
        Ok((answer.header, answer.ordinals, answer.next_page_token))
    })
    .await?;
    reading.remark(&header);
    let ordinals = ordinals.into_iter().map(OrdinalView::read).collect::<Result<Vec<_>, _>>()?;
    let mut table = Table::new(&["ORDINAL", "ADDRESSES", "POD", "STATE"]);
    for ordinal in &ordinals {
        table.push(ordinal.cells());
    }
    let mut view = ReservationView::read(reservation.unwrap_or_default())?;
    view.ordinals = Some(ordinals);
    listed::one(asking, &header, &view, &[table])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinals_state_is_told() {
        let state = |ordinal: v1::Ordinal| {
            let view = OrdinalView::read(ordinal).expect("it can be read");
            view.cells().pop().expect("a state")
        };
        let left = |rule| v1::Ordinal { left: Some(v1::Retention { rule: Some(rule) }), ..v1::Ordinal::default() };
        assert_eq!(state(v1::Ordinal { wanted: true, ..v1::Ordinal::default() }), "wanted");
        assert_eq!(state(v1::Ordinal::default()), "not wanted");
        assert_eq!(state(left(v1::retention::Rule::Release(()))), "left: when-deleted release");
        let for_a_minute = left(v1::retention::Rule::AfterMs(60_000));
        assert_eq!(state(for_a_minute.clone()), "left: when-deleted 1m");
        let retained = v1::Ordinal { retained_until_ms: Some(1_764_489_600_000), ..for_a_minute };
        assert_eq!(state(retained), "retained until 2025-11-30T08:00:00.000Z");
    }
}
