//! Egress.

use serde_json::{Value, json};

use super::schema::{address, age, array, conditions, holdfast, object, rule, selector, text, told};
use super::{ADDRESS_LENGTH_MAX, EGRESS_ITEMS_MAX, Names};

fn spec() -> Value {
    let applied_to = object(&[], json!({"podSelector": selector(), "namespaceSelector": selector()}));
    let to_be_chosen_or_address = json!({
        "type": "string",
        "maxLength": ADDRESS_LENGTH_MAX,
        "oneOf": [{"maxLength": 0}, {"format": "ipv4"}, {"format": "ipv6"}],
    });
    let several = |items: Value| json!({"type": "array", "maxItems": EGRESS_ITEMS_MAX, "items": items});
    let mut bandwidth = object(&["rate", "burst"], json!({"rate": text(), "burst": text()}));
    bandwidth["x-kubernetes-validations"] = json!([
        rule("isQuantity(self.rate)", "rate must be a quantity, such as 100M"),
        rule("isQuantity(self.burst)", "burst must be a quantity, such as 200M"),
    ]);
    let mut spec = object(
        &["appliedTo"],
        json!({
            "appliedTo": told(applied_to, "Whose traffic; {} selects nothing."),
            "egressIP": told(address(), "The source address; chosen from externalIPPool if it is not given."),
            "egressIPs": told(
                several(to_be_chosen_or_address),
                "Several source addresses. The i-th belongs to the i-th of externalIPPools; one that is empty is chosen.",
            ),
            "externalIPPool": told(text(), "The pool of egressIP. Without one, the address is static."),
            "externalIPPools": told(several(text()), "The pools of egressIPs, each once."),
            "bandwidth": told(bandwidth, "How much traffic, in bits a second and bits in a burst."),
        }),
    );
    spec["oneOf"] = json!([
        {"anyOf": [{"required": ["egressIP"]}, {"required": ["externalIPPool"]}]},
        {"anyOf": [{"required": ["egressIPs"]}, {"required": ["externalIPPools"]}]},
    ]);
    spec
}

pub(super) fn definition() -> Value {
    let placed = array(object(&[], json!({"ip": text(), "node": told(text(), "Empty while no Node carries it.")})));
    let status = object(
        &[],
        json!({
            "egressNode": told(text(), "The Node of the first address that has one."),
            "egressIP": told(text(), "The first address that has a Node."),
            "egressIPs": told(placed, "Every address granted, in the order of the spec, and its Node."),
            "conditions": told(conditions(), "IPAllocated and IPAssigned; neither without a pool."),
            "holdfast": holdfast(),
        }),
    );
    let columns = json!([
        {
            "name": "EgressIP", "type": "string", "jsonPath": ".status.egressIP",
            "description": "The source address of the selected Pods' traffic",
        },
        age(),
        {
            "name": "Node", "type": "string", "jsonPath": ".status.egressNode",
            "description": "The Node that carries the address",
        },
    ]);
    let names = Names { kind: "Egress", plural: "egresses", singular: "egress", short: "eg" };
    let description = "One source address, or several, for the traffic of some Pods to the outside.";
    super::definition(&names, description, spec(), status, columns)
}
