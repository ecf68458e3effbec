//! Which addresses an Egress's spec is to show. Pure.

use std::net::IpAddr;

use holdfast_statemachine::Name;
use holdfast_statemachine::row::{EgressItemRow, EgressRow};
use serde_json::{Value, json};

use super::requests::MANAGER;
use crate::bridge::watched::Manager;
use crate::objects::EgressSpec;

/// Antrea's controller: what it wrote, it chose.
const ANTREA: &str = "antrea-controller";

/// What is to be done about the addresses in a spec.
#[derive(Clone, Debug, PartialEq)]
pub enum Spec {
    /// Nothing: it shows what the ledger says.
    Right,
    /// The ledger has not been told of this spec yet; it will be, and says what follows.
    Ahead,
    /// These fields are to be written.
    Patch(Value),
}

/// Whether the addresses of a spec were chosen, not asked for: nobody but us, or Antrea's controller, wrote them.
pub fn chosen_by_us(spec: &EgressSpec, managers: &[Manager]) -> bool {
    let field = if is_plural(spec) { "egressIPs" } else { "egressIP" };
    let mut owners = managers.iter().filter(|manager| manager.owns(&["spec", field])).peekable();
    owners.peek().is_some() && owners.all(|owner| [MANAGER, ANTREA].contains(&&*owner.manager))
}

fn is_plural(spec: &EgressSpec) -> bool {
    !spec.egress_ips.is_empty() || !spec.external_ip_pools.is_empty()
}

/// Compares a spec with the row. `ours`: see [`chosen_by_us`].
///
/// Only what the ledger chose is written, and only what it had chosen is changed or taken away.
pub fn compare(spec: &EgressSpec, ours: bool, row: &EgressRow) -> Spec {
    if is_plural(spec) != row.plural {
        return Spec::Ahead;
    }
    if row.plural { plural(spec, ours, row) } else { singular(spec, ours, row) }
}

/// Whether somebody took away an address that was chosen and shown: the status, which is written after the spec, has it.
pub fn taken_away(spec: &EgressSpec, status: &Value, cluster: &str, row: &EgressRow) -> bool {
    if status.pointer("/holdfast/cluster").and_then(Value::as_str) != Some(cluster) {
        return false;
    }
    let shown = status.get("egressIPs").and_then(Value::as_array).into_iter().flatten();
    let shown: Vec<IpAddr> = shown.filter_map(|shown| shown.get("ip")?.as_str()?.parse().ok()).collect();
    let in_spec = |address: IpAddr| {
        let texts = spec.egress_ip.iter().chain(&spec.egress_ips);
        texts.filter_map(|text| text.parse::<IpAddr>().ok()).any(|there| there == address)
    };
    row.items.iter().filter_map(|item| item.chosen).any(|address| shown.contains(&address) && !in_spec(address))
}

fn singular(spec: &EgressSpec, ours: bool, row: &EgressRow) -> Spec {
    let [item] = row.items.as_slice() else { return Spec::Ahead };
    let named = |name: &Option<Name>| name.as_deref().filter(|name| !name.is_empty()).map(Name::from);
    if named(&spec.external_ip_pool) != item.pool {
        return Spec::Ahead;
    }
    match address(spec.egress_ip.as_deref(), ours, item) {
        Err(Untold) => Spec::Ahead,
        Ok(wanted) if wanted == spec.egress_ip => Spec::Right,
        Ok(wanted) => Spec::Patch(json!({"egressIP": wanted})),
    }
}

fn plural(spec: &EgressSpec, ours: bool, row: &EgressRow) -> Spec {
    let pools_named = row.items.iter().map(|item| item.pool.as_ref());
    let pools = spec.external_ip_pools.iter().map(Some);
    let is_static = spec.external_ip_pools.is_empty();
    if is_static || !pools.eq(pools_named) {
        // A static one has nothing that is chosen.
        return if is_static && row.items.iter().all(|item| item.pool.is_none()) { Spec::Right } else { Spec::Ahead };
    }
    let there = |i: usize| spec.egress_ips.get(i).map(|text| &**text).filter(|text| !text.is_empty());
    let wanted = row.items.iter().enumerate().map(|(i, item)| address(there(i), ours, item));
    let Ok(wanted) = wanted.collect::<Result<Vec<Option<Name>>, Untold>>() else { return Spec::Ahead };
    if wanted.iter().enumerate().all(|(i, wanted)| wanted.as_deref() == there(i)) {
        return Spec::Right;
    }
    if wanted.iter().all(Option::is_none) {
        return Spec::Patch(json!({"egressIPs": null}));
    }
    let texts: Vec<Name> = wanted.into_iter().map(Option::unwrap_or_default).collect();
    Spec::Patch(json!({"egressIPs": texts}))
}

/// The ledger has not been told of what an item shows.
#[derive(Debug)]
struct Untold;

/// What an item is to show.
fn address(there: Option<&str>, ours: bool, item: &EgressItemRow) -> Result<Option<Name>, Untold> {
    let text = |address: IpAddr| Name::from(address.to_string());
    let Some(there) = there else {
        return if item.asked.is_some() { Err(Untold) } else { Ok(item.chosen.map(text)) };
    };
    let shown = there.parse::<IpAddr>().map_err(|_| Untold)?;
    if item.asked == Some(shown) || item.chosen == Some(shown) {
        return Ok(Some(there.into()));
    }
    // Nobody asked for it, and it is chosen no longer.
    if ours && item.asked.is_none() { Ok(item.chosen.map(text)) } else { Err(Untold) }
}
