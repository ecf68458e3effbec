//! Reservations: whole, or waiting for what is not there.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::ledger::Held;
use super::super::stage::{name_of, namespace_of};
use super::{Findings, World};

pub(super) fn check(world: &World, findings: &mut Findings) {
    for set in world.sets.values() {
        whole_or_waiting(world, set, findings);
    }
    for (address, grant) in &world.rows.grants {
        if let Held::Ordinal { namespace, name, ordinal, .. } = &grant.held {
            let reason = justified(world, (namespace, name), *ordinal);
            findings.must(reason, || format!("{address}: held for {namespace}/{name}-{ordinal} without a reason"));
        }
    }
}

/// First wanted ordinal, and the one behind the last.
pub fn wanted(set: &Value) -> std::ops::Range<u32> {
    let number = |value: &Value| u32::try_from(value.as_u64().unwrap_or_default()).expect("fits");
    let start = number(&set["spec"]["ordinals"]["start"]);
    start..start + number(&set["spec"]["replicas"])
}

fn whole_or_waiting(world: &World, set: &Value, findings: &mut Findings) {
    let (namespace, name) = (namespace_of(set), name_of(set));
    let about = || format!("{namespace}/{name}");
    let pools = world.pools_of(set);
    let row = world.rows.reservations.get(&(namespace.to_owned(), name.to_owned()));
    let waits = row.is_some_and(|row| row.waiting.is_some());
    if pools.is_empty() {
        findings.must(!waits, || format!("{}: waits without naming a pool", about()));
        return;
    }
    findings.must(row.is_some(), || format!("{}: the ledger does not know it", about()));
    if pools.iter().any(|pool| !world.pools.contains_key(pool)) {
        findings.must(waits, || format!("{}: does not wait for a pool that is not there", about()));
        return;
    }
    let held = world.rows.addresses(namespace, name);
    let mut families = BTreeMap::<bool, Vec<&String>>::new();
    for pool in &pools {
        let first = world.in_force(false, pool);
        families.entry(first.first().is_none_or(std::net::IpAddr::is_ipv4)).or_default().push(pool);
    }
    let fixed = set.pointer("/spec/template/metadata/annotations/ipam.antrea.io~1pod-ips").is_some();
    let mut missing_any = false;
    let mut cannot = fixed;
    for (v4, pools) in &families {
        let of_family: std::collections::BTreeSet<_> =
            pools.iter().flat_map(|pool| world.in_force(false, pool)).collect();
        let right = |ordinal: u32| {
            let held = held.get(&ordinal).into_iter().flatten().filter(|address| address.is_ipv4() == *v4);
            held.filter(|address| of_family.contains(address)).count()
        };
        let missing = wanted(set).filter(|ordinal| right(*ordinal) == 0).count();
        let twice: Vec<_> = wanted(set).filter(|ordinal| right(*ordinal) > 1).collect();
        findings.must(twice.is_empty(), || format!("{}: two addresses of one family: {twice:?}", about()));
        missing_any |= missing > 0;
        let free = |pool: &str| {
            let held = |address: &std::net::IpAddr| world.rows.grants.contains_key(address);
            world.in_force(false, pool).iter().filter(|address| !held(address)).count()
        };
        cannot |= missing > 0 && pools.iter().all(|pool| free(pool) < missing);
    }
    findings.same(waits, missing_any, || format!("{}: waits", about()));
    findings.must(!missing_any || cannot, || format!("{}: waits for what is there", about()));
}

/// Whether anything says that an ordinal is to hold something.
fn justified(world: &World, (namespace, name): (&str, &str), ordinal: u32) -> bool {
    if world.lives(namespace, &format!("{name}-{ordinal}")) {
        return true;
    }
    let row = world.rows.ordinals.get(&(namespace.to_owned(), name.to_owned(), ordinal));
    // What is kept of a deleted one is kept for a time that its ordinals say.
    let for_a_time = row.is_some_and(|row| row.retained_until_ms.is_some());
    let Some(set) = world.sets.get(&(namespace.to_owned(), name.to_owned())) else { return for_a_time };
    let names_pools = !world.pools_of(set).is_empty();
    if names_pools && wanted(set).contains(&ordinal) {
        return true;
    }
    // One that never had a Pod is freed at once.
    let Some(row) = row else { return false };
    // A former one of this name is a deleted one.
    if row.left.is_some() {
        return for_a_time;
    }
    // As it was made, it has scaled nothing away: what it does not want was a former one's, and should say so.
    let as_made = set["metadata"]["generation"] == 1;
    let when_scaled = set.pointer("/metadata/annotations/holdfast.dev~1when-scaled").and_then(Value::as_str);
    names_pools && !as_made && when_scaled != Some("release")
}
