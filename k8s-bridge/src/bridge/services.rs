//! Load-balancer addresses of Services that are of an ExternalIPPool: held from the first start until the Service is
//! gone. Nobody gives new ones here.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use holdfast_statemachine::adopt::{AdoptItem, AdoptedBy};
use holdfast_statemachine::command::{Owner, OwnerRef, ReleaseGrant};
use holdfast_statemachine::row::{Holder, PoolId, PoolKind};
use holdfast_statemachine::{Action, Name, Source};
use k8s_openapi::api::core::v1::Service;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use tracing::warn;

use super::backoff::pause;
use super::office::Office;
use super::requests;
use crate::ledger::Ledger;

/// Services in one page of a list.
const PAGE: u32 = 500;
/// Releases in one entry.
const ENTRY: usize = 200;
/// Between two looks at whether Services are still there, while addresses are held for any.
const LOOK: Duration = Duration::from_mins(5);
/// Of a Service: the pool that its load-balancer address is of.
const POOL: &str = "service.antrea.io/external-ip-pool";
/// What an owner is called that stands for a Service.
const SERVICE: &str = "Service ";

/// What is to be held for the Services that are there. Asked until the API answers.
pub async fn held<L: Ledger>(office: &Office<L>) -> Vec<AdoptItem> {
    let item = |it: LoadBalancer| AdoptItem::Address {
        pool: it.pool,
        address: it.address,
        by: AdoptedBy::Owner(Owner::Named { name: it.name, uid: it.uid }),
    };
    services(office).await.into_iter().map(item).collect()
}

/// Releases, for as long as this replica leads, what is held for Services that are gone.
pub async fn follow<L: Ledger>(office: Arc<Office<L>>) {
    loop {
        let held = held_now(&office);
        if !held.is_empty() {
            let there: BTreeSet<(Name, Name)> =
                services(&office).await.into_iter().map(|it| (it.name, it.uid)).collect();
            release(&office, held.difference(&there)).await;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The names and UIDs of the Services for which the ledger holds addresses.
fn held_now<L: Ledger>(office: &Office<L>) -> BTreeSet<(Name, Name)> {
    office.ledger.read(|ledger| {
        let grants = ledger.tables().grants().values();
        let named = grants.filter_map(|grant| match &grant.holder {
            Holder::Named { name, uid, source: Source::Kubernetes } if name.starts_with(SERVICE) => {
                Some((name.clone(), uid.clone()))
            }
            _ => None,
        });
        named.collect()
    })
}

async fn release<L: Ledger>(office: &Office<L>, gone: impl Iterator<Item = &(Name, Name)>) {
    let release = |(name, uid): &(Name, Name)| {
        let owner = OwnerRef::Named(name.clone());
        Action::ReleaseGrant(ReleaseGrant { owner, uid: uid.clone(), revision: None })
    };
    let releases: Vec<Action> = gone.map(release).collect();
    for entry in releases.chunks(ENTRY) {
        // The next look, here or at the next leader, does what is not done now.
        if let Err(error) = office.propose(entry.to_vec()).await {
            office.report.failed(&error);
            return;
        }
    }
}

/// A load-balancer address.
struct LoadBalancer {
    pool: PoolId,
    address: IpAddr,
    name: Name,
    uid: Name,
}

async fn services<L: Ledger>(office: &Office<L>) -> Vec<LoadBalancer> {
    let mut failures = 0;
    loop {
        match requests::answered(list(office)).await {
            Ok(found) => return found,
            Err(error) => {
                warn!(error, "the Services are not listed");
                office.report.failed(&format_args!("Services: {error}"));
                tokio::time::sleep(pause(failures)).await;
                failures += 1;
            }
        }
    }
}

async fn list<L: Ledger>(office: &Office<L>) -> Result<Vec<LoadBalancer>, kube::Error> {
    let services = Api::<Service>::all(office.client.clone());
    let mut found = Vec::new();
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = services.list(&page).await?;
        list.items.iter().for_each(|service| found.extend(load_balancers(service)));
        match list.metadata.continue_.filter(|more| !more.is_empty()) {
            Some(more) => page = page.continue_token(&more),
            None => return Ok(found),
        }
    }
}

fn load_balancers(service: &Service) -> Vec<LoadBalancer> {
    let Some(pool) = service.annotations().get(POOL) else { return Vec::new() };
    let ingress = service.status.as_ref().and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref());
    let name = Name::from(format!("{SERVICE}{}/{}", service.namespace().unwrap_or_default(), service.name_any()));
    let uid = Name::from(service.uid().unwrap_or_default());
    let addresses = ingress.into_iter().flatten().filter_map(|ingress| ingress.ip.as_ref()?.parse().ok());
    addresses
        .map(|address| LoadBalancer {
            pool: PoolId { kind: PoolKind::ExternalIpPool, name: pool.as_str().into() },
            address,
            name: name.clone(),
            uid: uid.clone(),
        })
        .collect()
}
