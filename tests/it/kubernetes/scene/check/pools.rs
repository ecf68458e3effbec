//! Pools: every entry is a grant, and the numbers are those of the entries.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use holdfast_api::v1::PoolKind;
use serde_json::Value;

use super::super::ledger::Held;
use super::{Findings, World, condition, usable};

pub(super) fn check(world: &World, findings: &mut Findings) {
    for (name, pool) in &world.pools {
        entries(world, name, pool, findings);
    }
    let all = world.pools.iter().map(|it| (false, it)).chain(world.externals.iter().map(|it| (true, it)));
    for (external, (name, pool)) in all {
        numbers(world, (external, name), pool, findings);
    }
    allocated_once(world, findings);
    for (external, name) in world.rows.pools.keys() {
        let there = if *external { world.externals.contains_key(name) } else { world.pools.contains_key(name) };
        findings.must(there, || format!("the ledger has a pool {name} that is gone"));
    }
}

/// The entries of `status.ipAddresses`.
pub(super) fn entries_of(pool: &Value) -> impl Iterator<Item = (IpAddr, &Value)> {
    let entries = pool["status"]["ipAddresses"].as_array().into_iter().flatten();
    entries.map(|entry| (entry["ipAddress"].as_str().and_then(|it| it.parse().ok()).expect("an address"), entry))
}

fn entries(world: &World, name: &str, pool: &Value, findings: &mut Findings) {
    let order: Vec<_> = entries_of(pool).map(|(address, _)| address).collect();
    findings.must(order.is_sorted_by(|a, b| a < b), || format!("{name}: entries out of order: {order:?}"));
    let written: BTreeMap<_, _> = entries_of(pool).collect();
    let mut granted = world.rows.grants_of(PoolKind::IpPool, name);
    // What a former pool of this name left, another object's status told.
    let in_force: BTreeSet<_> = world.in_force(false, name).into_iter().collect();
    granted.retain(|address, _| in_force.contains(address));
    let (is, must) = (keys_of(&written), keys_of(&granted));
    findings.must(is == must, || {
        let extra: Vec<_> = is.difference(&must).collect();
        let missing: Vec<_> = must.difference(&is).collect();
        format!("{name}: entries that nobody holds: {extra:?}; held, and not written: {missing:?}")
    });
    for (address, entry) in &written {
        let Some(held) = granted.get(address) else { continue };
        let set = &entry["owner"]["statefulSet"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let is = if set.is_null() {
            None
        } else {
            Some((text(&set["namespace"]), text(&set["name"]), set["index"].as_u64()))
        };
        let must = match held {
            Held::Ordinal { namespace, name, ordinal, .. } => {
                Some((namespace.clone(), name.clone(), Some(u64::from(*ordinal))))
            }
            _ => None,
        };
        findings.same(is, must, || format!("{name} {address}: owner"));
    }
}

fn keys_of<T>(map: &BTreeMap<IpAddr, T>) -> BTreeSet<IpAddr> {
    map.keys().copied().collect()
}

fn numbers(world: &World, (external, name): (bool, &str), pool: &Value, findings: &mut Findings) {
    let about = format!("{} {name}", if external { "ExternalIPPool" } else { "IPPool" });
    let status = &pool["status"];
    findings.same(status["holdfast"]["cluster"].as_str(), Some(world.rows.cluster.as_str()), || {
        format!("{about}: cluster")
    });
    let generation = &pool["metadata"]["generation"];
    for condition in status["conditions"].as_array().into_iter().flatten() {
        findings.same(&condition["observedGeneration"], generation, || format!("{about}: observedGeneration"));
    }
    let (ready, _, why) = condition(pool, "Ready");
    let usable: BTreeSet<_> = usable(pool, external).into_iter().collect();
    let kind = if external { PoolKind::ExternalIpPool } else { PoolKind::IpPool };
    let granted = world.rows.grants_of(kind, name);
    let fits = fits(world, (external, name), &usable, &granted.keys().copied().collect());
    if fits {
        findings.same(ready, "True", || format!("{about}: Ready ({why})"));
    } else {
        // What is in force is not what is wanted, so its numbers are those of an older spec.
        findings.same(ready, "False", || format!("{about}: Ready"));
        return;
    }
    let used = granted.keys().filter(|address| usable.contains(address)).count() as u64;
    let total = usable.len() as u64;
    findings.same(status["usage"]["total"].as_u64(), Some(total), || format!("{about}: total"));
    findings.same(status["usage"]["used"].as_u64(), Some(used), || format!("{about}: used"));
    findings.same(status["usage"]["free"].as_u64(), Some(total - used), || format!("{about}: free"));
    let exhausted = if used == total { "True" } else { "False" };
    findings.same(condition(pool, "Exhausted").0, exhausted, || format!("{about}: Exhausted"));
}

/// Whether a pool's spec can be in force: it has no address that another pool has too, and leaves none out that is
/// held. (No two pools of any test overlap, but where one is put later than the other.)
fn fits(world: &World, (external, name): (bool, &str), own: &BTreeSet<IpAddr>, granted: &BTreeSet<IpAddr>) -> bool {
    let all = world.pools.iter().map(|it| (false, it)).chain(world.externals.iter().map(|it| (true, it)));
    let mut others = all.filter(|(kind, (other, _))| (*kind, other.as_str()) != (external, name));
    let overlaps = others.any(|(kind, (_, other))| {
        let other_is_first = condition(other, "Ready").0 == "True";
        other_is_first && usable(other, kind).iter().any(|address| own.contains(address))
    });
    let retired = world.rows.retired.contains(&(external, name.to_owned()));
    // An address that was chosen is given up for another; one that was asked for is not.
    let asked = |address: &IpAddr| {
        let items = world.rows.egresses.values().flat_map(|row| &row.items);
        let mut asked = items.filter_map(|item| item.asked.as_ref()?.parse::<IpAddr>().ok());
        !external || asked.any(|asked| asked == *address)
    };
    // What is held beyond the ranges in force is of a former pool of the name, and goes on without this one.
    let in_force = world.rows.in_force(external, name);
    let own_still = |address: &IpAddr| !retired || in_force.contains(address);
    let left_out = granted.iter().any(|address| !own.contains(address) && own_still(address) && asked(address));
    !overlaps && !left_out
}

/// Of what an ordinal holds, its Pod uses one address of each family.
fn allocated_once(world: &World, findings: &mut Findings) {
    let mut of_ordinals = BTreeMap::<(String, String, bool), Vec<(IpAddr, &Value)>>::new();
    for (address, entry) in world.pools.values().flat_map(entries_of) {
        let set = &entry["owner"]["statefulSet"];
        if let (Some(namespace), Some(name), Some(index)) =
            (set["namespace"].as_str(), set["name"].as_str(), set["index"].as_u64())
        {
            let key = (namespace.to_owned(), format!("{name}-{index}"), address.is_ipv4());
            of_ordinals.entry(key).or_default().push((address, entry));
        }
    }
    for ((namespace, pod, v4), entries) in of_ordinals {
        let allocated: Vec<_> = entries.iter().filter(|(_, entry)| entry["phase"] == "Allocated").collect();
        let lives = world.lives(&namespace, &pod);
        let hidden = if lives { retired(world, &namespace, &pod, v4) } else { Vec::new() };
        let must = usize::from(lives && !runs_with(world, &namespace, &pod, v4, &hidden));
        // One that was bound while its address was hidden counts as using it, though it may have come to run with another.
        let may = if hidden.is_empty() { must } else { 0 };
        let is = allocated.len();
        findings.must(is == must || is == may, || {
            format!("{namespace}/{pod}: {is} addresses allocated, must be {must}, of {entries:?}")
        });
        for (address, entry) in entries {
            let is = &entry["owner"]["pod"];
            let named = (is["namespace"].as_str(), is["name"].as_str());
            let must = if entry["phase"] == "Allocated" {
                (Some(namespace.as_str()), Some(pod.as_str()))
            } else {
                (None, None)
            };
            findings.same(named, must, || format!("{address}: Pod"));
        }
    }
}

/// Addresses of a family that a Pod's ordinal holds in pools that the Pod draws from or runs with, and no pool's status
/// shows: their pools are gone, or do not have them any more.
fn retired(world: &World, namespace: &str, pod: &str, v4: bool) -> Vec<IpAddr> {
    let object = &world.pods[&(namespace.to_owned(), pod.to_owned())];
    let pools = world.drawn_from(object, object);
    let held = world.rows.grants.iter().filter(|(address, grant)| {
        let Held::Ordinal { namespace: of, name, ordinal, .. } = &grant.held else { return false };
        let its_own = of == namespace && format!("{name}-{ordinal}") == pod && address.is_ipv4() == v4;
        let drawn_from = pools.contains(&grant.pool) || addresses_of(object).any(|ip| ip == **address);
        its_own && drawn_from
    });
    let is_gone = |pool: &String, address: &IpAddr| {
        !world.pools.contains_key(pool) || !world.in_force(false, pool).contains(address)
    };
    held.filter(|(address, grant)| is_gone(&grant.pool, address)).map(|(address, _)| *address).collect()
}

/// Whether a Pod runs with one of these; or waits for one, for ever: nobody is told of it.
fn runs_with(world: &World, namespace: &str, pod: &str, v4: bool, hidden: &[IpAddr]) -> bool {
    let object = &world.pods[&(namespace.to_owned(), pod.to_owned())];
    let mut has = addresses_of(object).filter(|ip| ip.is_ipv4() == v4).peekable();
    if has.peek().is_none() { !hidden.is_empty() } else { has.any(|ip| hidden.contains(&ip)) }
}

fn addresses_of(pod: &Value) -> impl Iterator<Item = IpAddr> + '_ {
    let has = pod["status"]["podIPs"].as_array().into_iter().flatten();
    has.filter_map(|it| it["ip"].as_str()?.parse::<IpAddr>().ok())
}
