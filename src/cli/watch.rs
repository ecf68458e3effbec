//! `holdfast watch`: the change feed.

use std::net::IpAddr;

use clap::Args;
use holdfast::wire;
use holdfast_api::v1;
use holdfast_api::v1::object_id::Object;
use holdfast_statemachine::Change;

use super::asking::Asking;
use super::change::{self, ChangeView};
use super::failure::Failure;
use super::names::Namespaced;
use super::output::{self, Format};
use super::pool::Kind;

/// See `holdfast watch --help`.
#[derive(Args, Clone, Debug)]
pub struct WatchArgs {
    /// Changes after this revision; 0: all that are kept. Else from now on
    #[arg(long, value_name = "REVISION")]
    after: Option<u64>,
    /// Only of this address; this and the following may be repeated, any match will do
    #[arg(long)]
    address: Vec<IpAddr>,
    /// Only of this Egress
    #[arg(long)]
    egress: Vec<String>,
    /// Only of this StatefulSet, NAMESPACE/NAME
    #[arg(long)]
    reservation: Vec<Namespaced>,
    /// Only of this Node
    #[arg(long)]
    node: Vec<String>,
    /// Only of this pool
    #[arg(long)]
    pool: Vec<String>,
    /// The kind of --pool
    #[arg(long, value_enum, default_value = "ippool", requires = "pool")]
    kind: Kind,
    /// Only of this Pod, NAMESPACE/NAME
    #[arg(long)]
    pod: Vec<Namespaced>,
    /// Only of this named owner
    #[arg(long)]
    owner: Vec<String>,
    /// End after this many changes
    #[arg(long, value_name = "CHANGES")]
    limit: Option<u64>,
}

impl WatchArgs {
    fn request(&self) -> v1::WatchRequest {
        use v1::watch_filter::Concerns;
        let kind = self.kind.message().into();
        let pool = |name: String| Object::Pool(v1::PoolId { kind, name });
        let objects = (self.egress.iter().cloned().map(Object::Egress))
            .chain(self.node.iter().cloned().map(Object::Node))
            .chain(self.reservation.iter().cloned().map(|it| Object::Reservation(it.stateful_set())))
            .chain(self.pod.iter().cloned().map(|it| Object::Pod(it.pod())))
            .chain(self.pool.iter().cloned().map(pool));
        let concerns = objects
            .map(|object| Concerns::Object(v1::ObjectId { object: Some(object) }))
            .chain(self.address.iter().map(|address| Concerns::Address(address.to_string())))
            .chain(self.owner.iter().cloned().map(Concerns::Named));
        let filters = concerns.map(|concerns| v1::WatchFilter { concerns: Some(concerns) }).collect();
        v1::WatchRequest { after_revision: self.after, filters }
    }
}

/// Runs the verb.
pub async fn run(asking: &Asking, args: WatchArgs) -> Result<(), Failure> {
    let mut watch = asking.client()?.watch(args.request());
    let mut left = args.limit.unwrap_or(u64::MAX);
    while left > 0 {
        for change in wire::list::<Change>("changes", watch.next().await?.changes)? {
            match asking.output {
                Format::Table => output::say(change::line(&change))?,
                format => output::next_value(format, &ChangeView::of(&change))?,
            }
            left -= 1;
            if left == 0 {
                break;
            }
        }
    }
    Ok(())
}
