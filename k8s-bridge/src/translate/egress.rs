//! Egress.

use std::collections::BTreeSet;
use std::net::IpAddr;

use holdfast_statemachine::Name;
use holdfast_statemachine::command::{EgressItem, PutEgress};

use super::said::Said;
use super::uid;
use crate::objects::{Egress, EgressSpec, Kind};
use crate::rest::Rest;

/// The most addresses of one Egress.
const ITEMS_MAX: usize = 16;
const ADDRESS: &str = "an IPv4 or IPv6 address";

/// Singular form: `egressIP`, `externalIPPool` or both. Plural form: `egressIPs[i]` belongs to `externalIPPools[i]`,
/// and one that is `""` or not there is chosen from that pool; without pools each is an address, and static.
pub(super) fn egress(egress: &Egress, said: &mut Said) -> PutEgress {
    let (metadata, spec) = (&egress.metadata, &egress.spec);
    let plural = !spec.egress_ips.is_empty() || !spec.external_ip_pools.is_empty();
    let items = if plural { plural_items(spec, said) } else { singular_items(spec, said) };
    selectors(spec, said);
    let rest = Rest { applied_to: spec.applied_to.clone(), bandwidth: spec.bandwidth.clone() }.to_text();
    if rest.len() > PutEgress::REST_MAX {
        let allowed = format!("appliedTo and bandwidth together are at most {} bytes of JSON", PutEgress::REST_MAX);
        said.refuse("spec.appliedTo", &rest, allowed);
    }
    PutEgress {
        name: metadata.name.clone(),
        uid: uid(Kind::Egress, metadata),
        created: metadata.creation_timestamp.map(jiff::Timestamp::as_second),
        plural,
        items,
        rest,
    }
}

fn selectors(spec: &EgressSpec, said: &mut Said) {
    let applied_to = &spec.applied_to;
    for (name, selector) in
        [("podSelector", &applied_to.pod_selector), ("namespaceSelector", &applied_to.namespace_selector)]
    {
        if let Some(selector) = selector {
            said.selector(&format!("spec.appliedTo.{name}"), selector);
        }
    }
}

fn address(field: &str, text: &str, said: &mut Said) -> Option<IpAddr> {
    let address = text.parse().ok();
    if address.is_none() {
        said.refuse(field, text, ADDRESS);
    }
    address
}

fn singular_items(spec: &EgressSpec, said: &mut Said) -> Vec<EgressItem> {
    let pool = spec.external_ip_pool.clone().filter(|pool| !pool.is_empty());
    let address = spec.egress_ip.as_ref().and_then(|text| address("spec.egressIP", text, said));
    if pool.is_none() && spec.egress_ip.is_none() {
        said.missing("spec.egressIP", "one of egressIP, externalIPPool, egressIPs and externalIPPools is required");
    }
    vec![EgressItem { pool, address }]
}

fn plural_items(spec: &EgressSpec, said: &mut Said) -> Vec<EgressItem> {
    for (field, held) in [("spec.egressIP", &spec.egress_ip), ("spec.externalIPPool", &spec.external_ip_pool)] {
        if let Some(held) = held {
            said.refuse(field, held, "nothing, beside egressIPs or externalIPPools");
        }
    }
    let (ips, pools) = (&spec.egress_ips, &spec.external_ip_pools);
    if pools.is_empty() {
        let items = ips
            .iter()
            .enumerate()
            .map(|(i, text)| EgressItem { pool: None, address: address(&format!("spec.egressIPs[{i}]"), text, said) });
        let items: Vec<_> = items.collect();
        bounded("spec.egressIPs", &items, said);
        return items;
    }
    if let Some(text) = ips.get(pools.len()) {
        let allowed = format!("at most one address for each of the {} externalIPPools", pools.len());
        said.refuse(format!("spec.egressIPs[{}]", pools.len()), text, allowed);
    }
    let mut items = Vec::new();
    let mut seen = BTreeSet::<&Name>::new();
    for (i, pool) in pools.iter().enumerate() {
        let field = format!("spec.externalIPPools[{i}]");
        if pool.is_empty() {
            said.refuse(field, pool, "the name of an ExternalIPPool");
        } else if !seen.insert(pool) {
            said.refuse(field, pool, "each pool once");
        }
        let text = ips.get(i).filter(|text| !text.is_empty());
        let address = text.and_then(|text| address(&format!("spec.egressIPs[{i}]"), text, said));
        items.push(EgressItem { pool: Some(pool.clone()), address });
    }
    bounded("spec.externalIPPools", &items, said);
    items
}

fn bounded(field: &str, items: &[EgressItem], said: &mut Said) {
    if items.len() > ITEMS_MAX {
        said.refuse(field, &format!("{} items", items.len()), format!("at most {ITEMS_MAX} items"));
    }
    let mut seen = BTreeSet::new();
    for (i, item) in items.iter().enumerate() {
        if let Some(address) = item.address
            && !seen.insert(address)
        {
            said.refuse(format!("spec.egressIPs[{i}]"), &address.to_string(), "each address once");
        }
    }
}
