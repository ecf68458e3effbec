//! Pieces of schemas that several kinds share.

use serde_json::{Value, json};

use super::{ADDRESS_LENGTH_MAX, CIDR_LENGTH_MAX, RANGES_MAX};

/// What the values of labels match.
const LABEL_VALUE: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";

pub(super) fn object(required: &[&str], properties: Value) -> Value {
    let mut object = json!({"type": "object"});
    object["properties"] = properties;
    if !required.is_empty() {
        object["required"] = required.into();
    }
    object
}

pub(super) fn array(items: Value) -> Value {
    let mut array = json!({"type": "array"});
    array["items"] = items;
    array
}

pub(super) fn text() -> Value {
    json!({"type": "string"})
}

pub(super) fn integer() -> Value {
    json!({"type": "integer"})
}

/// Counts and indexes beyond 32 bits.
pub(super) fn long() -> Value {
    json!({"type": "integer", "format": "int64"})
}

/// The same with a description.
pub(super) fn told(mut schema: Value, description: &str) -> Value {
    schema["description"] = description.into();
    schema
}

pub(super) fn address() -> Value {
    json!({"type": "string", "maxLength": ADDRESS_LENGTH_MAX, "oneOf": [{"format": "ipv4"}, {"format": "ipv6"}]})
}

/// A rule in CEL, and what is said to whoever breaks it.
pub(super) fn rule(rule: &str, message: &str) -> Value {
    json!({"rule": rule, "message": message})
}

/// A label selector.
pub(super) fn selector() -> Value {
    let value = json!({"type": "string", "pattern": LABEL_VALUE});
    let operator = json!({"type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist"]});
    let requirement = object(&[], json!({"key": text(), "operator": operator, "values": array(value.clone())}));
    object(
        &[],
        json!({
            "matchExpressions": array(requirement),
            "matchLabels": {"type": "object", "additionalProperties": value},
        }),
    )
}

/// `ipRanges`, with the rules that one range can be held against.
pub(super) fn ranges() -> Value {
    let mut range = object(
        &[],
        json!({
            "cidr": {"type": "string", "format": "cidr", "maxLength": CIDR_LENGTH_MAX},
            "start": address(),
            "end": address(),
        }),
    );
    range["description"] = "Either cidr, or start and end, both of which belong to the range.".into();
    range["oneOf"] = json!([{"required": ["cidr"]}, {"required": ["start", "end"]}]);
    let both = "has(self.start) && has(self.end)";
    let v4 = "ip(self.start).family() == 4 && ip(self.end).family() == 4";
    range["x-kubernetes-validations"] = json!([
        rule(
            &format!("!({both}) || ip(self.start).family() == ip(self.end).family()"),
            "start and end must be of one family",
        ),
        rule(
            &format!("!({both} && {v4}) || {} <= {}", v4_number("self.start"), v4_number("self.end")),
            "start must not be above end",
        ),
    ]);
    json!({"type": "array", "maxItems": RANGES_MAX, "items": range})
}

/// An IPv4 address as a number: CEL cannot order addresses.
fn v4_number(text: &str) -> String {
    let octet = |at: u32| format!("int({text}.split('.')[{at}]) * {}", 1_u32 << (24 - 8 * at));
    format!("({})", [0, 1, 2, 3].map(octet).join(" + "))
}

/// The rules that a pool's `spec` is held against.
pub(super) fn pool_rules() -> Value {
    let family =
        |range: &str| format!("(has({range}.cidr) ? cidr({range}.cidr).ip().family() : ip({range}.start).family())");
    let one_family = format!("self.ipRanges.all(r, {} == {})", family("r"), family("self.ipRanges[0]"));
    // With a prefixLength beyond its family there is no subnet, and `subnetInfo` says so itself.
    let no_subnet =
        "!has(self.subnetInfo) || ip(self.subnetInfo.gateway).family() == 4 && self.subnetInfo.prefixLength > 31";
    let holds = "has(r.cidr) ? s.containsCIDR(r.cidr) : s.containsIP(r.start) && s.containsIP(r.end)";
    let inside = format!("{no_subnet} || [{}].all(s, self.ipRanges.all(r, {holds}))", subnet());
    json!([
        rule(&one_family, "all ranges must be of one family"),
        rule(&inside, "every range must lie inside the subnet of gateway and prefixLength"),
    ])
}

/// The subnet as a CIDR. `string(prefixLength)` would do, but CEL takes the text of a number for one of any length,
/// which costs more than a rule may.
fn subnet() -> String {
    let length = "self.subnetInfo.prefixLength";
    let digit = |of: &str| format!("'0123456789'.substring({of}, {of} + 1)");
    let hundreds = format!("({length} >= 100 ? '1' : '')");
    let tens = format!("({length} >= 10 ? {} : '')", digit(&format!("{length} / 10 % 10")));
    format!("cidr(self.subnetInfo.gateway + '/' + {hundreds} + {tens} + {})", digit(&format!("{length} % 10")))
}

/// `subnetInfo`; `fixed`: gateway and prefixLength cannot be changed.
pub(super) fn subnet_info(fixed: bool) -> Value {
    let mut gateway = told(address(), "Its address is never given to anyone.");
    let mut prefix_length = json!({"type": "integer", "minimum": 1, "maximum": 127});
    if fixed {
        gateway["x-kubernetes-validations"] = json!([rule("self == oldSelf", "gateway cannot be changed")]);
        prefix_length["x-kubernetes-validations"] = json!([rule("self == oldSelf", "prefixLength cannot be changed")]);
    }
    let vlan = json!({"type": "integer", "minimum": 0, "maximum": 4094});
    let properties = json!({"gateway": gateway, "prefixLength": prefix_length, "vlan": vlan});
    let mut info = object(&["gateway", "prefixLength"], properties);
    info["x-kubernetes-validations"] = json!([rule(
        "ip(self.gateway).family() == 6 || self.prefixLength <= 31",
        "prefixLength must be at most 31 with an IPv4 gateway",
    )]);
    info
}

/// `status.usage`.
pub(super) fn usage() -> Value {
    let count =
        |of: &str| told(long(), &format!("{of}, at most 2^53 - 1 here; the whole number is in `holdfast pool`."));
    object(
        &[],
        json!({
            "total": count("Addresses that can be given"),
            "used": count("Addresses held"),
            "free": count("Addresses that can be given and are not held"),
        }),
    )
}

/// `status.conditions`.
pub(super) fn conditions() -> Value {
    array(object(
        &[],
        json!({
            "type": text(),
            "status": text(),
            "observedGeneration": told(long(), "The metadata.generation that the condition tells of."),
            "lastTransitionTime": text(),
            "reason": text(),
            "message": text(),
        }),
    ))
}

/// `status.holdfast`.
pub(super) fn holdfast() -> Value {
    let properties = json!({
        "cluster": told(text(), "The id of the group of replicas."),
        "index": told(long(), "The index of the last entry of its log that changed what this status shows."),
    });
    told(object(&[], properties), "Which state of which ledger this status shows.")
}

/// The columns of both kinds of pools.
pub(super) fn pool_columns() -> Value {
    json!([
        {
            "name": "Total", "type": "integer", "jsonPath": ".status.usage.total",
            "description": "The number of addresses that can be given",
        },
        {
            "name": "Used", "type": "integer", "jsonPath": ".status.usage.used",
            "description": "The number of addresses held",
        },
        age(),
    ])
}

pub(super) fn age() -> Value {
    json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"})
}
