//! Which addresses an Egress's spec is to show. Pure.

use std::net::IpAddr;

use holdfast_statemachine::Name;
use holdfast_statemachine::command::PutEgress;
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

/// Takes addresses that were chosen, and are no longer, out of what an object asks for: the spec that shows them has
/// not been put right yet, and nobody asked for them.
pub fn forget_former(put: &mut PutEgress, ours: bool, row: &EgressRow) {
    if !ours || put.uid != row.uid {
        return;
    }
    for item in &mut put.items {
        // One without a pool cannot be chosen.
        let Some(pool) = &item.pool else { continue };
        match row.items.iter().find(|row| row.pool.as_ref() == Some(pool)) {
            Some(known) if known.asked != item.address && known.chosen != item.address => item.address = known.asked,
            // It was chosen from another pool, which the spec names no longer. (Of several, somebody may have put one.)
            None if !put.plural || row.items.iter().any(|row| row.chosen == item.address) => item.address = None,
            _ => {}
        }
    }
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

#[cfg(test)]
mod tests {
    use holdfast_statemachine::Source;
    use holdfast_statemachine::command::EgressItem;
    use holdfast_statemachine::row::{CreationKey, Stamp};

    use super::*;

    fn item(pool: &str, asked: &str, chosen: &str) -> EgressItemRow {
        let address = |text: &str| (!text.is_empty()).then(|| text.parse().expect("is an address"));
        let pool = (!pool.is_empty()).then(|| pool.into());
        EgressItemRow { pool, asked: address(asked), chosen: address(chosen), waiting: None }
    }

    fn row(plural: bool, items: Vec<EgressItemRow>) -> EgressRow {
        EgressRow {
            source: Source::Kubernetes,
            uid: "u".into(),
            created: CreationKey { seconds: 0, revision: 0, name: "e".into() },
            plural,
            items,
            rest: "".into(),
            stamp: Stamp::default(),
        }
    }

    fn spec(value: &Value) -> EgressSpec {
        let mut whole = json!({"appliedTo": {}});
        whole.as_object_mut().expect("is one").extend(value.as_object().expect("is one").clone());
        serde_json::from_value(whole).expect("is a spec")
    }

    fn patch(value: Value) -> Spec {
        Spec::Patch(value)
    }

    #[test]
    fn only_what_the_ledger_chose_is_written_changed_or_taken_away() {
        let pool = |address: &str| match address {
            "" => json!({"externalIPPool": "p"}),
            address => json!({"externalIPPool": "p", "egressIP": address}),
        };
        for (there, ours, item, expected) in [
            // Chosen, and not shown: new, or taken away by somebody.
            (pool(""), false, item("p", "", "1.1.1.2"), patch(json!({"egressIP": "1.1.1.2"}))),
            (pool("1.1.1.2"), true, item("p", "", "1.1.1.2"), Spec::Right),
            // The user wrote the chosen one into a manifest of their own.
            (pool("1.1.1.2"), false, item("p", "", "1.1.1.2"), Spec::Right),
            // Another was chosen; none is.
            (pool("1.1.1.2"), true, item("p", "", "2.2.2.2"), patch(json!({"egressIP": "2.2.2.2"}))),
            (pool("1.1.1.2"), true, item("p", "", ""), patch(json!({"egressIP": null}))),
            // The same of somebody else's: the ledger has not been told of it.
            (pool("1.1.1.2"), false, item("p", "", "2.2.2.2"), Spec::Ahead),
            (pool("1.1.1.2"), false, item("p", "", ""), Spec::Ahead),
            // A user's stays, in its own words, whether it is granted or not.
            (pool("2001:DB8::1"), false, item("p", "2001:db8::1", ""), Spec::Right),
            (pool("1.1.1.2"), true, item("p", "3.3.3.3", ""), Spec::Ahead),
            (pool(""), false, item("p", "3.3.3.3", ""), Spec::Ahead),
            (pool(""), false, item("p", "", ""), Spec::Right),
            // Another form, another pool, no address at all.
            (json!({"externalIPPools": ["p"]}), false, item("p", "", "1.1.1.2"), Spec::Ahead),
            (json!({"externalIPPool": "q"}), false, item("p", "", "1.1.1.2"), Spec::Ahead),
            (pool("1.1.1.x"), true, item("p", "", "1.1.1.2"), Spec::Ahead),
            (json!({"egressIP": "9.9.9.9"}), false, item("", "9.9.9.9", ""), Spec::Right),
        ] {
            let shown = there.to_string();
            assert_eq!(compare(&spec(&there), ours, &row(false, vec![item.clone()])), expected, "{shown} {item:?}");
        }
    }

    #[test]
    fn the_plural_form_is_filled_in_at_its_index_and_written_whole() {
        let there = |addresses: Value| json!({"externalIPPools": ["p", "q"], "egressIPs": addresses});
        let both = |first: &str, second: &str| patch(json!({"egressIPs": [first, second]}));
        let chosen = || vec![item("p", "1.1.1.1", ""), item("q", "", "2.2.2.2")];
        for (addresses, ours, items, expected) in [
            (json!(["1.1.1.1", ""]), false, chosen(), both("1.1.1.1", "2.2.2.2")),
            (json!(["1.1.1.1"]), false, chosen(), both("1.1.1.1", "2.2.2.2")),
            (json!(["1.1.1.1", "2.2.2.2"]), true, chosen(), Spec::Right),
            (json!([]), false, chosen(), Spec::Ahead),
            (json!(["", "2.2.2.2"]), true, vec![item("p", "", ""), item("q", "", "3.3.3.3")], both("", "3.3.3.3")),
            (
                json!(["", "2.2.2.2"]),
                true,
                vec![item("p", "", ""), item("q", "", "")],
                patch(json!({"egressIPs": null})),
            ),
            (json!([]), false, vec![item("p", "", ""), item("q", "", "")], Spec::Right),
            (json!(["5.5.5.5", ""]), false, vec![item("p", "", "1.1.1.1"), item("q", "", "2.2.2.2")], Spec::Ahead),
        ] {
            let shown = addresses.to_string();
            assert_eq!(compare(&spec(&there(addresses)), ours, &row(true, items)), expected, "{shown}");
        }
        let fixed = json!({"egressIPs": ["9.9.9.9", "8.8.8.8"]});
        assert_eq!(
            compare(&spec(&fixed), false, &row(true, vec![item("", "9.9.9.9", ""), item("", "8.8.8.8", "")])),
            Spec::Right
        );
    }

    #[test]
    fn whose_an_address_is_says_who_wrote_it() {
        let manager = |name: &str, field: &str| {
            let fields = json!({"f:spec": {format!("f:{field}"): {}}});
            serde_json::from_value::<Manager>(json!({"manager": name, "fieldsV1": fields})).expect("is one")
        };
        let of = spec(&json!({"externalIPPool": "p", "egressIP": "1.1.1.2"}));
        for (managers, expected) in [
            (vec![manager("holdfast", "egressIP"), manager("kubectl", "externalIPPool")], true),
            (vec![manager("antrea-controller", "egressIP")], true),
            (vec![manager("holdfast", "egressIP"), manager("kubectl", "egressIP")], false),
            (vec![manager("kubectl", "egressIP")], false),
            (vec![manager("holdfast", "egressIPs")], false),
            (vec![], false),
        ] {
            assert_eq!(chosen_by_us(&of, &managers), expected, "{managers:?}");
        }
    }

    #[test]
    fn what_was_chosen_and_is_no_longer_is_not_asked_for() {
        let put = |addresses: [&str; 2]| PutEgress {
            name: "e".into(),
            uid: "u".into(),
            created: None,
            plural: true,
            items: [("p", addresses[0]), ("q", addresses[1])]
                .map(|(pool, address)| EgressItem { pool: Some(pool.into()), address: address.parse().ok() })
                .to_vec(),
            rest: "".into(),
        };
        let row = row(true, vec![item("p", "", "1.1.1.9"), item("q", "2.2.2.2", "")]);
        for (shown, ours, expected) in [
            // The first was chosen from ranges that are no longer the pool's; the second is the user's.
            (["1.1.1.2", "2.2.2.2"], true, ["", "2.2.2.2"]),
            (["1.1.1.9", "2.2.2.2"], true, ["1.1.1.9", "2.2.2.2"]),
            (["", "2.2.2.2"], true, ["", "2.2.2.2"]),
            // A user wrote it.
            (["1.1.1.2", "2.2.2.2"], false, ["1.1.1.2", "2.2.2.2"]),
            (["1.1.1.9", ""], false, ["1.1.1.9", ""]),
        ] {
            let mut asked = put(shown);
            forget_former(&mut asked, ours, &row);
            assert_eq!(asked, put(expected), "{shown:?} {ours}");
        }
        let mut another = PutEgress { uid: "v".into(), ..put(["1.1.1.2", ""]) };
        forget_former(&mut another, true, &row);
        assert_eq!(another.items, put(["1.1.1.2", ""]).items);
    }

    #[test]
    fn an_address_that_the_status_shows_and_the_spec_does_not_was_taken_away() {
        let status = |cluster: &str, ip: &str| json!({"holdfast": {"cluster": cluster, "index": 5}, "egressIPs": [{"ip": ip, "node": "n"}]});
        let row = row(false, vec![item("p", "", "1.1.1.2")]);
        let without = spec(&json!({"externalIPPool": "p"}));
        assert!(taken_away(&without, &status("c", "1.1.1.2"), "c", &row));
        // Another was shown: the ledger chose anew.
        assert!(!taken_away(&without, &status("c", "1.1.1.9"), "c", &row));
        assert!(!taken_away(&without, &status("other", "1.1.1.2"), "c", &row));
        assert!(!taken_away(&without, &Value::Null, "c", &row));
        let with = spec(&json!({"externalIPPool": "p", "egressIP": "1.1.1.2"}));
        assert!(!taken_away(&with, &status("c", "1.1.1.2"), "c", &row));
    }
}
