//! `holdfast history`: who held an address, and where an Egress address was.

use std::net::IpAddr;

use clap::Args;
use holdfast::wire::{self, Invalid, Wire};
use holdfast_api::v1;
use holdfast_statemachine::Cause;
use holdfast_statemachine::row::{Holder, PodRef, PoolId};
use serde::Serialize;

use super::asking::{Asking, Reading};
use super::change;
use super::failure::Failure;
use super::holder::HolderView;
use super::listed::{self, Listed};
use super::names::Namespaced;
use super::output::{self, Header, Items};
use super::waiting::must;
use super::words;

/// See `holdfast history --help`.
#[derive(Args, Clone, Debug)]
pub struct HistoryArgs {
    #[command(flatten)]
    of: Of,
    /// An ordinal of `--reservation`
    #[arg(long, requires = "reservation")]
    ordinal: Option<u32>,
    /// At most this many, the latest first
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    #[command(flatten)]
    reading: Reading,
}

#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
struct Of {
    /// An address: its holders, and its Nodes if it was an Egress's
    address: Option<IpAddr>,
    /// A named owner: the addresses that it held
    #[arg(long)]
    owner: Option<String>,
    /// An Egress: the addresses that it held and where they were
    #[arg(long)]
    egress: Option<String>,
    /// A Node: the Egress addresses that it carried
    #[arg(long)]
    node: Option<String>,
    /// A Pod, NAMESPACE/NAME: the addresses that it held and its ordinals
    #[arg(long)]
    pod: Option<Namespaced>,
    /// A StatefulSet, NAMESPACE/NAME, with --ordinal: its addresses and Pods
    #[arg(long, requires = "ordinal")]
    reservation: Option<Namespaced>,
    /// Another allocator's owner, as it writes it
    #[arg(long)]
    observed: Option<String>,
}

impl HistoryArgs {
    fn of(&self) -> Option<v1::history_request::Of> {
        use v1::history_request::Of as Kind;
        let of = self.of.clone();
        let ordinal = self.ordinal.unwrap_or_default();
        let address = of.address.map(|address| Kind::Address(address.to_string()));
        address
            .or(of.owner.map(Kind::Named))
            .or(of.egress.map(Kind::Egress))
            .or(of.node.map(Kind::Node))
            .or(of.pod.map(|pod| Kind::Pod(pod.pod())))
            .or(of.observed.map(Kind::Observed))
            .or(of.reservation.map(|it| Kind::Ordinal(v1::OrdinalId { id: Some(it.stateful_set()), ordinal })))
    }
}

/// A time during which something was so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IntervalView {
    /// `Held`, `Placed` or `Bound`.
    pub what: &'static str,
    /// The address; missing for a Pod bound to an ordinal.
    pub address: Option<String>,
    /// Held: of this pool.
    pub pool: Option<String>,
    /// Held: by whom.
    pub holder: Option<HolderView>,
    /// Placed: the Egress.
    pub egress: Option<String>,
    /// Placed: the Node.
    pub node: Option<String>,
    /// Bound: the StatefulSet's ordinal.
    pub ordinal: Option<String>,
    /// Bound: the Pod.
    pub pod: Option<String>,
    /// Since when; missing: since before history begins.
    pub from: Option<EndView>,
    /// Until when; missing: still.
    pub to: Option<EndView>,
    #[serde(skip)]
    who: String,
}

/// One end of an interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndView {
    /// The revision of the change.
    pub revision: u64,
    /// The log index of the entry that made it.
    pub index: u64,
    /// That entry's time.
    pub at: String,
    /// What made it, for people.
    pub cause: Option<String>,
    #[serde(skip)]
    clock: String,
}

impl EndView {
    fn read(end: v1::interval::End) -> Result<EndView, Invalid> {
        let cause: Option<Cause> = wire::optional("cause", end.cause)?;
        Ok(EndView {
            revision: end.revision,
            index: end.index,
            at: words::time(end.at_ms),
            cause: cause.map(|cause| change::cause_text(&cause)),
            clock: words::clock(end.at_ms),
        })
    }

    fn cell(end: Option<&EndView>, without: &str) -> String {
        end.map_or_else(|| without.to_owned(), |end| format!("{} rev {}", end.clock, end.revision))
    }
}

impl IntervalView {
    fn read(it: v1::Interval) -> Result<IntervalView, Invalid> {
        use v1::interval::What;
        let mut view = IntervalView {
            what: "Held",
            address: None,
            pool: None,
            holder: None,
            egress: None,
            node: None,
            ordinal: None,
            pod: None,
            from: it.from.map(EndView::read).transpose()?,
            to: it.to.map(EndView::read).transpose()?,
            who: String::new(),
        };
        match wire::required("what", it.what)? {
            What::Held(held) => {
                let holder: Holder = must("holder", held.holder)?;
                view.pool = held.pool.map(PoolId::from_message).transpose()?.map(|pool| pool.to_string());
                view.who = holder.to_string();
                view.holder = Some(HolderView::of(&holder));
                view.address = Some(held.address);
            }
            What::Placed(placed) => {
                view.what = "Placed";
                view.who = format!("Node {} for Egress {}", placed.node, placed.egress);
                view.address = Some(placed.address);
                view.egress = Some(placed.egress);
                view.node = Some(placed.node);
            }
            What::Bound(bound) => {
                view.what = "Bound";
                let pod: PodRef = must("pod", bound.pod)?;
                let ordinal = bound.ordinal.unwrap_or_default();
                let id = ordinal.id.unwrap_or_default();
                let of = format!("{}/{} ordinal {}", id.namespace, id.name, ordinal.ordinal);
                view.who = format!("Pod {}/{} on {of}", pod.namespace, pod.name);
                view.pod = Some(format!("{}/{}", pod.namespace, pod.name));
                view.ordinal = Some(of);
            }
        }
        Ok(view)
    }
}

impl Listed for IntervalView {
    const HEADERS: &'static [&'static str] = &["ADDRESS", "WHAT", "WHO", "FROM", "TO", "BEGUN BY", "ENDED BY"];

    fn id(&self) -> String {
        self.who.clone()
    }

    fn lines(&self) -> Vec<Vec<String>> {
        let cause = |end: &Option<EndView>| end.as_ref().and_then(|end| end.cause.clone()).unwrap_or_default();
        vec![vec![
            self.address.clone().unwrap_or_default(),
            self.what.to_owned(),
            self.who.clone(),
            EndView::cell(self.from.as_ref(), "before history"),
            EndView::cell(self.to.as_ref(), "now"),
            cause(&self.from),
            cause(&self.to),
        ]]
    }
}

/// Runs the verb.
pub async fn run(asking: &Asking, args: HistoryArgs) -> Result<(), Failure> {
    let page = Some(v1::Page { size: args.limit, token: String::new() });
    let request = v1::HistoryRequest { consistency: args.reading.consistency(), page, of: args.of() };
    let answer = asking.client()?.history(request).await?;
    let header = Header::read(answer.header);
    args.reading.remark(&header);
    let intervals = answer.intervals.into_iter().map(IntervalView::read).collect::<Result<Vec<_>, _>>()?;
    if !asking.for_people() {
        return output::value(asking.output, &Items::new(&header, &intervals));
    }
    if intervals.is_empty() {
        output::remark(format_args!("nothing known since revision {}", answer.oldest_revision));
        return Ok(());
    }
    output::say(listed::table(&intervals))?;
    if !answer.next_page_token.is_empty() {
        output::remark("there is more: ask with a larger --limit");
    }
    Ok(())
}
