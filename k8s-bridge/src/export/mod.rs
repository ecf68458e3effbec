//! The ledger's pools and Egresses as Kubernetes holds them: spec and status.
//!
//! The shapes are Antrea's (`crd.antrea.io/v1beta1`), and more under `status`: `usage.free`, `conditions`,
//! `holdfast`, `egressIPs`. What only Kubernetes knows (`metadata.generation`, and with it
//! `observedGeneration`) is left out.
//!
//! Times are those of the rows: `lastTransitionTime` is when the row that the condition tells of last changed.

mod egress;
mod pool;
mod status;

use std::collections::BTreeMap;

use holdfast_statemachine::{Ledger, Millis, Name, PoolKind};
use jiff::Timestamp;
use serde::Serialize;

use crate::objects::{EgressSpec, ExternalIpPoolSpec, IpPoolSpec, Kind};
use crate::problem::Problem;

pub use egress::{spec as egress_spec, status as egress_status};
pub use pool::{entries as pool_entries, external_ip_pool_spec, external_ip_pool_status, ip_pool_spec, ip_pool_status};
pub use status::{
    Condition, EgressAddress, EgressStatus, ExternalIpPoolStatus, Holdfast, IpAddressState, IpPoolStatus, Owner,
    PodOwner, StatefulSetOwner, Usage,
};

/// A `v1` List.
#[derive(Clone, Debug, Serialize)]
pub struct List {
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    kind: &'static str,
    /// Sorted by kind and name.
    pub items: Vec<Exported>,
}

/// One object of a [`List`].
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Exported {
    /// An Egress.
    Egress(Whole<EgressSpec, EgressStatus>),
    /// An ExternalIPPool.
    ExternalIpPool(Whole<ExternalIpPoolSpec, ExternalIpPoolStatus>),
    /// An IPPool.
    IpPool(Whole<IpPoolSpec, IpPoolStatus>),
}

/// An object whole.
#[derive(Clone, Debug, Serialize)]
pub struct Whole<Spec, Status> {
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    kind: &'static str,
    /// What identifies it.
    pub metadata: Metadata,
    /// What is wanted, with the addresses that the ledger chose.
    pub spec: Spec,
    /// What the ledger says.
    pub status: Status,
}

impl<Spec, Status> Whole<Spec, Status> {
    fn new(kind: Kind, metadata: Metadata, spec: Spec, status: Status) -> Self {
        Whole { api_version: kind.api_version(), kind: kind.name(), metadata, spec, status }
    }
}

/// `metadata`, as far as the ledger keeps it: applying the text again changes nothing.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Name.
    pub name: Name,
    /// UID, if the Kubernetes API gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<Name>,
    /// When the Kubernetes API first stored it; only of Egresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<String>,
    /// Annotations that the ledger's state follows from.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<&'static str, String>,
}

impl Metadata {
    fn new(name: &Name, uid: &Name) -> Metadata {
        // Without a UID from the API, the name stands in for it.
        let uid = (uid != name && !uid.is_empty()).then(|| uid.clone());
        Metadata { name: name.clone(), uid, creation_timestamp: None, annotations: BTreeMap::new() }
    }
}

/// Every pool and Egress of the ledger. `cluster` is the id of the replicas' group.
pub fn list(ledger: &Ledger, cluster: &str) -> List {
    let tables = ledger.tables();
    let egress = |(name, row)| Exported::Egress(egress::whole(ledger, name, row, cluster));
    let mut items: Vec<Exported> = tables.egresses().iter().map(egress).collect();
    let of_kind = |kind| tables.pools().iter().filter(move |(id, _)| id.kind == kind);
    for (id, row) in of_kind(PoolKind::ExternalIpPool) {
        items.push(Exported::ExternalIpPool(pool::external_whole(ledger, id, row, cluster)));
    }
    for (id, row) in of_kind(PoolKind::IpPool) {
        items.push(Exported::IpPool(pool::ip_pool_whole(ledger, id, row, cluster)));
    }
    List { api_version: "v1", kind: "List", items }
}

/// A value as YAML that Kubernetes reads.
pub fn to_yaml(value: &impl Serialize) -> Result<String, Problem> {
    // Quoted by YAML 1.1's rules too, and never folded: one line of text stays one line.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(value, options)
        .map_err(|error| Problem::Unwritable { format: "YAML", message: error.to_string() })
}

/// A value as indented JSON that ends in a newline.
pub fn to_json(value: &impl Serialize) -> Result<String, Problem> {
    let mut text = serde_json::to_string_pretty(value)
        .map_err(|error| Problem::Unwritable { format: "JSON", message: error.to_string() })?;
    text.push('\n');
    Ok(text)
}

/// A time as Kubernetes writes it, in whole seconds: `2026-11-30T08:00:00Z`.
fn time(millis: Millis) -> String {
    seconds(i64::try_from(millis / 1000).unwrap_or(i64::MAX))
}

/// Seconds since the Unix epoch, likewise; out of the calendar's range, its end.
fn seconds(seconds: i64) -> String {
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests;
