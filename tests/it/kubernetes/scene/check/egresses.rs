//! Egresses: each has its address and its Node, or there is none to have.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::Value;

use super::super::ledger::Held;
use super::{Findings, World, condition};

pub(super) fn check(world: &World, findings: &mut Findings) {
    for (name, egress) in &world.egresses {
        if let Some(items) = items(egress) {
            pooled(world, (name, egress), &items, findings);
        } else {
            let status = &egress["status"];
            findings.must(status["conditions"].as_array().is_none_or(Vec::is_empty), || {
                format!("{name}: conditions of a static Egress")
            });
            findings.same(status["egressNode"].as_str().unwrap_or_default(), "", || format!("{name}: Node"));
        }
    }
    for name in world.rows.egresses.keys() {
        findings.must(world.egresses.contains_key(name), || format!("the ledger has an Egress {name} that is gone"));
    }
    for (node, carried) in loads(world) {
        let capacity = world.nodes.get(&node).map_or(0, |it| capacity(world, it));
        findings.must(carried <= capacity, || format!("{node} carries {carried} of {capacity}"));
    }
}

/// Pool and address of each item; `None` for a static Egress.
fn items(egress: &Value) -> Option<Vec<(String, Option<IpAddr>)>> {
    let spec = &egress["spec"];
    let address = |text: &Value| text.as_str().and_then(|text| text.parse().ok());
    if let Some(pool) = spec["externalIPPool"].as_str() {
        return Some(vec![(pool.to_owned(), address(&spec["egressIP"]))]);
    }
    let pools = spec["externalIPPools"].as_array()?;
    let item =
        |(at, pool): (usize, &Value)| (pool.as_str().expect("a name").to_owned(), address(&spec["egressIPs"][at]));
    Some(pools.iter().enumerate().map(item).collect())
}

fn pooled(world: &World, (name, egress): (&str, &Value), items: &[(String, Option<IpAddr>)], findings: &mut Findings) {
    let status = &egress["status"];
    findings
        .same(status["holdfast"]["cluster"].as_str(), Some(world.rows.cluster.as_str()), || format!("{name}: cluster"));
    let (mut granted, mut placed) = (0, 0);
    let mut first_placed = None;
    for (pool, address) in items {
        let holds =
            address.filter(|it| world.rows.grants.get(it).is_some_and(|it| it.held == Held::Egress(name.into())));
        let Some(holds) = holds else {
            // What was chosen once, and cannot be had any more, is chosen anew.
            let why = unmet(world, pool, address.filter(|_| !chosen_by_us(egress)));
            findings.must(why, || format!("{name}: no address of {pool}, which has one ({address:?})"));
            continue;
        };
        granted += 1;
        let inside = world.externals.contains_key(pool) && world.in_force(true, pool).contains(&holds);
        findings.must(inside, || format!("{name}: {holds} is none of {pool}"));
        let node = world.rows.placements.get(&holds).map(|row| row.node.clone());
        let written = status["egressIPs"].as_array().into_iter().flatten();
        let written = written.into_iter().find(|it| it["ip"].as_str().and_then(|ip| ip.parse().ok()) == Some(holds));
        let written = written.map(|it| it["node"].as_str().unwrap_or_default().to_owned());
        findings.same(written, Some(node.clone().unwrap_or_default()), || format!("{name}: Node of {holds}"));
        if let Some(node) = node {
            placed += 1;
            first_placed = first_placed.or(Some((holds, node.clone())));
            let eligible = world.nodes.get(&node).is_some_and(|it| eligible(world, it, pool));
            findings.must(eligible, || format!("{name}: {holds} is on {node}, which cannot carry it"));
        } else {
            let open = world.nodes.values().find(|node| eligible(world, node, pool) && has_room(world, node));
            findings.must(open.is_none(), || format!("{name}: {holds} is homeless, and {open:?} could carry it"));
        }
    }
    let (ip, node) = first_placed.map_or((String::new(), String::new()), |(ip, node)| (ip.to_string(), node));
    findings.same(status["egressIP"].as_str(), Some(&*ip), || format!("{name}: status.egressIP"));
    findings.same(status["egressNode"].as_str(), Some(&*node), || format!("{name}: status.egressNode"));
    let said = |kind, done| match (kind, done == items.len()) {
        ("IPAllocated", true) => ("True", "Allocated"),
        ("IPAllocated", false) => ("False", "AllocationError"),
        (_, true) => ("True", "Assigned"),
        (_, false) => ("False", "AssignmentError"),
    };
    for (kind, done) in [("IPAllocated", granted), ("IPAssigned", placed)] {
        let (status, reason, message) = condition(egress, kind);
        findings.same((status, reason), said(kind, done), || format!("{name}: {kind} ({message})"));
    }
}

/// Whether what the spec says of addresses is the bridge's own word.
fn chosen_by_us(egress: &Value) -> bool {
    let managers = egress["metadata"]["managedFields"].as_array().into_iter().flatten();
    managers.into_iter().any(|it| it["manager"] == "holdfast" && it["fieldsV1"]["f:spec"]["f:egressIP"].is_object())
}

/// Whether an item that has no address can have none.
fn unmet(world: &World, pool: &str, asked: Option<IpAddr>) -> bool {
    if !world.externals.contains_key(pool) {
        return true;
    }
    let usable = world.in_force(true, pool);
    let held = |address: &IpAddr| world.rows.grants.contains_key(address);
    match asked {
        Some(asked) => !usable.contains(&asked) || held(&asked),
        None => usable.iter().all(held),
    }
}

/// How many addresses each Node carries.
pub fn loads(world: &World) -> BTreeMap<String, usize> {
    let mut loads = BTreeMap::new();
    for placement in world.rows.placements.values() {
        *loads.entry(placement.node.clone()).or_default() += 1;
    }
    loads
}

fn capacity(world: &World, node: &Value) -> usize {
    let own = node.pointer("/metadata/annotations/node.antrea.io~1max-egress-ips").and_then(Value::as_str);
    let own = own.and_then(|text| text.parse::<i64>().ok()).map(|number| number.clamp(0, 255));
    own.map_or(world.rows.default_capacity as usize, |number| usize::try_from(number).expect("0 to 255"))
}

fn has_room(world: &World, node: &Value) -> bool {
    let name = node["metadata"]["name"].as_str().expect("a name");
    loads(world).get(name).copied().unwrap_or_default() < capacity(world, node)
}

/// All tests but that for room.
fn eligible(world: &World, node: &Value, pool: &str) -> bool {
    let Some(pool) = world.externals.get(pool) else { return false };
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions.into_iter().any(|it| it["type"] == "Ready" && it["status"] == "True");
    let labels = &node["metadata"]["labels"];
    let linux = labels["kubernetes.io/os"].as_str().is_none_or(|os| os == "linux");
    let name = node["metadata"]["name"].as_str().expect("a name");
    let drained = world.rows.nodes.get(name).is_some_and(|row| row.drained);
    ready && linux && !drained && matches(&pool["spec"]["nodeSelector"], labels)
}

fn matches(selector: &Value, labels: &Value) -> bool {
    let all = selector["matchLabels"].as_object();
    let labelled = all.into_iter().flatten().all(|(key, value)| labels[key] == *value);
    let required = selector["matchExpressions"].as_array().into_iter().flatten().all(|it| {
        let label = &labels[it["key"].as_str().expect("a key")];
        let values: BTreeSet<_> = it["values"].as_array().into_iter().flatten().map(Value::to_string).collect();
        match it["operator"].as_str() {
            Some("In") => values.contains(&label.to_string()),
            Some("NotIn") => !values.contains(&label.to_string()),
            Some("Exists") => !label.is_null(),
            _ => label.is_null(),
        }
    });
    labelled && required
}
