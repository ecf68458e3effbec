//! `holdfast grant`: addresses for anything with a name, and who holds what.

use std::net::IpAddr;

use clap::{Args, Subcommand};
use holdfast::wire::{self, Invalid};
use holdfast_api::{Client, v1};
use holdfast_statemachine::command::{Grant, Owner, OwnerRef, ReleaseGrant};
use holdfast_statemachine::row::Holder;
use holdfast_statemachine::{Action, PoolId, PoolKind};
use serde::Serialize;

use super::asking::{Asking, Reading, pages};
use super::failure::Failure;
use super::holder::HolderView;
use super::listed::{self, ListOptions, Listed};
use super::names::Namespaced;
use super::node::PlacementView;
use super::output::{self, Header, Item};
use super::pool::Kind;
use super::proposal::operate;
use super::waiting::must;
use super::words;

/// See `holdfast grant --help`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct GrantArgs {
    #[command(subcommand)]
    verb: Option<GrantVerb>,
    #[command(flatten)]
    new: NewGrant,
}

#[derive(Args, Clone, Debug)]
struct NewGrant {
    /// Who is to hold it: any name, such as that of a VM
    #[arg(required = true)]
    owner: Option<String>,
    /// From this pool; several: in order of preference, one address of each family
    #[arg(long = "pool", value_name = "POOL", required = true)]
    pools: Vec<String>,
    /// The pools' kind
    #[arg(long, value_enum, default_value = "ippool")]
    kind: Kind,
    /// This address; else the lowest free one. At most one of a family
    #[arg(long = "address", value_name = "ADDRESS")]
    addresses: Vec<IpAddr>,
    /// Tells this owner from a former one of the same name
    #[arg(long, default_value = "", hide_default_value = true)]
    uid: String,
}

#[derive(Clone, Debug, Subcommand)]
enum GrantVerb {
    /// List addresses held
    List {
        /// Only of this pool
        #[arg(long)]
        pool: Option<String>,
        /// The pool's kind
        #[arg(long, value_enum, default_value = "ippool", requires = "pool")]
        kind: Kind,
        #[command(flatten)]
        of: Of,
        #[command(flatten)]
        options: ListOptions,
    },
    /// Show what is known of one address
    Get {
        /// The address
        address: IpAddr,
        #[command(flatten)]
        reading: Reading,
    },
    /// Free all that a named owner holds
    Release(ReleaseArgs),
}

#[derive(Args, Clone, Debug)]
#[group(multiple = false)]
struct Of {
    /// Only of this named owner
    #[arg(long)]
    owner: Option<String>,
    /// Only of this Pod, NAMESPACE/NAME
    #[arg(long)]
    pod: Option<Namespaced>,
    /// Only of this StatefulSet, NAMESPACE/NAME
    #[arg(long)]
    reservation: Option<Namespaced>,
    /// Only of this Egress
    #[arg(long)]
    egress: Option<String>,
}

/// See `holdfast release --help`.
#[derive(Args, Clone, Debug)]
pub struct ReleaseArgs {
    /// The owner
    owner: String,
    /// Only if it is this one
    #[arg(long, default_value = "", hide_default_value = true)]
    uid: String,
    /// Only the grant made at this revision
    #[arg(long)]
    revision: Option<u64>,
}

/// An address held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrantView {
    /// The address.
    pub address: String,
    /// From this pool.
    pub pool: String,
    /// By whom.
    pub holder: HolderView,
    /// The grant's id.
    pub revision: u64,
    /// Since when.
    pub at: String,
    #[serde(skip)]
    shown: [String; 2],
}

impl GrantView {
    fn read(row: v1::GrantRow) -> Result<GrantView, Invalid> {
        let holder: Holder = must("holder", row.holder)?;
        let pool: PoolId = must("pool", row.pool)?;
        let stamp = row.stamp.unwrap_or_default();
        Ok(GrantView {
            address: row.address,
            pool: pool.to_string(),
            revision: stamp.revision,
            at: words::time(stamp.at_ms),
            shown: [holder.to_string(), words::clock(stamp.at_ms)],
            holder: HolderView::of(&holder),
        })
    }
}

impl Listed for GrantView {
    const HEADERS: &'static [&'static str] = &["ADDRESS", "POOL", "HOLDER", "REVISION", "SINCE"];

    fn id(&self) -> String {
        self.address.clone()
    }

    fn lines(&self) -> Vec<Vec<String>> {
        let [holder, since] = self.shown.clone();
        vec![vec![self.address.clone(), self.pool.clone(), holder, self.revision.to_string(), since]]
    }
}

/// What is known of one address.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AddressView {
    address: String,
    /// The pool that gives it.
    pool: Option<String>,
    /// `held`, `cooling`, `free` or `outside`.
    state: &'static str,
    grant: Option<GrantView>,
    cooling_until: Option<String>,
    former: Option<HolderView>,
    placement: Option<PlacementView>,
    pod: Option<String>,
}

impl AddressView {
    fn read(answer: v1::GetGrantResponse) -> Result<AddressView, Invalid> {
        let pool: Option<PoolId> = wire::optional("pool", answer.pool)?;
        let grant = answer.grant.map(GrantView::read).transpose()?;
        let former: Option<Holder> = match &answer.cooling {
            Some(cooling) => wire::optional("cooling.former", cooling.former.clone())?,
            None => None,
        };
        let state = match (&grant, &answer.cooling, &pool) {
            (Some(_), ..) => "held",
            (None, Some(_), _) => "cooling",
            (None, None, Some(_)) => "free",
            (None, None, None) => "outside",
        };
        Ok(AddressView {
            address: answer.address,
            pool: pool.map(|pool| pool.to_string()),
            state,
            grant,
            cooling_until: answer.cooling.map(|cooling| words::time(cooling.until_ms)),
            former: former.as_ref().map(HolderView::of),
            placement: answer.placement.map(PlacementView::read),
            pod: answer.pod.and_then(|bound| bound.pod).map(|pod| format!("{}/{}", pod.namespace, pod.name)),
        })
    }

    fn text(&self) -> String {
        let pool = self.pool.as_ref().map_or("no pool".to_owned(), Clone::clone);
        let mut text = match &self.grant {
            Some(grant) => {
                let [holder, since] = &grant.shown;
                format!(
                    "{} of {} is held by {holder} since {since}, revision {}",
                    self.address, grant.pool, grant.revision
                )
            }
            None if self.state == "outside" => format!("{} is in no pool", self.address),
            None => format!("{} of {pool} is free", self.address),
        };
        if let (Some(until), Some(former)) = (&self.cooling_until, &self.former) {
            text = format!("{text}, cooling until {until}; {} {} held it", former.kind, former.name);
        }
        if let Some(pod) = &self.pod {
            text = format!("{text}; its Pod is {pod}");
        }
        if let Some(placement) = &self.placement {
            text = format!("{text}; it is on Node {} since revision {}", placement.node, placement.epoch);
        }
        text
    }
}

async fn fetch(
    client: &Client,
    pool: Option<v1::PoolId>,
    of: &Of,
    reading: Reading,
) -> Result<(Header, Vec<GrantView>), Failure> {
    use v1::holder_ref::Holder as Ref;
    let named = of.owner.clone().map(Ref::Named);
    let holder = named
        .or(of.pod.clone().map(|pod| Ref::Pod(pod.pod())))
        .or(of.reservation.clone().map(|it| Ref::Reservation(it.stateful_set())))
        .or(of.egress.clone().map(Ref::Egress));
    let holder = holder.map(|holder| v1::HolderRef { holder: Some(holder) });
    let consistency = reading.consistency();
    let (header, rows) = pages(async |page| {
        let (pool, holder) = (pool.clone(), holder.clone());
        let answer = client.list_grants(v1::ListGrantsRequest { consistency, page: Some(page), pool, holder }).await?;
        Ok((answer.header, answer.grants, answer.next_page_token))
    })
    .await?;
    Ok((header, rows.into_iter().map(GrantView::read).collect::<Result<_, _>>()?))
}

/// Runs the verb.
pub async fn run(asking: &Asking, args: GrantArgs) -> Result<(), Failure> {
    match args.verb {
        None => create(asking, args.new).await,
        Some(GrantVerb::List { pool, kind, of, options }) => {
            let pool = pool.map(|name| v1::PoolId { kind: kind.message().into(), name });
            let fetch = async |client: &Client| fetch(client, pool.clone(), &of, options.reading).await;
            listed::list(asking, options, fetch).await
        }
        Some(GrantVerb::Get { address, reading }) => {
            let request = v1::GetGrantRequest { consistency: reading.consistency(), address: address.to_string() };
            let answer = asking.client()?.get_grant(request).await?;
            let header = Header::read(answer.header.clone());
            reading.remark(&header);
            let view = AddressView::read(answer)?;
            if asking.for_people() {
                return output::say(view.text());
            }
            output::value(asking.output, &Item::new(&header, &view))
        }
        Some(GrantVerb::Release(args)) => release(asking, args).await,
    }
}

async fn create(asking: &Asking, new: NewGrant) -> Result<(), Failure> {
    let name = new.owner.unwrap_or_default().into();
    let kind = match new.kind {
        Kind::Ippool => PoolKind::IpPool,
        Kind::Externalippool => PoolKind::ExternalIpPool,
    };
    let grant = Grant {
        owner: Owner::Named { name, uid: new.uid.into() },
        kind,
        pools: new.pools.into_iter().map(Into::into).collect(),
        addresses: new.addresses,
    };
    operate(asking, Action::Grant(grant)).await
}

/// Runs `release`.
pub async fn release(asking: &Asking, args: ReleaseArgs) -> Result<(), Failure> {
    let owner = OwnerRef::Named(args.owner.into());
    let release = ReleaseGrant { owner, uid: args.uid.into(), revision: args.revision };
    operate(asking, Action::ReleaseGrant(release)).await
}
