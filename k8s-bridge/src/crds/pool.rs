//! IPPool and ExternalIPPool.

use serde_json::{Value, json};

use super::schema::{
    array, conditions, holdfast, integer, object, pool_columns, pool_rules, ranges, selector, subnet_info, text, told,
    usage,
};
use super::{Names, definition};

pub(super) fn ip_pool() -> Value {
    let mut spec = object(&["ipRanges", "subnetInfo"], json!({"ipRanges": ranges(), "subnetInfo": subnet_info(true)}));
    spec["x-kubernetes-validations"] = pool_rules();
    let status = object(
        &[],
        json!({
            "ipAddresses": told(array(ip_address()), "Every address held, ascending; cut where it would be too large."),
            "usage": usage(),
            "conditions": told(conditions(), "Ready and Exhausted."),
            "holdfast": holdfast(),
        }),
    );
    let names = Names { kind: "IPPool", plural: "ippools", singular: "ippool", short: "ipp" };
    definition(&names, "Addresses for Pods.", spec, status, pool_columns())
}

fn ip_address() -> Value {
    let pod = json!({"name": text(), "namespace": text(), "containerID": text(), "ifName": text()});
    let stateful_set = json!({"name": text(), "namespace": text(), "index": integer()});
    let owner = json!({
        "pod": told(object(&[], pod), "The Pod that uses it."),
        "statefulSet": told(object(&[], stateful_set), "The StatefulSet, and the ordinal, that it is held for."),
        "name": told(text(), "An owner that is neither."),
    });
    let phase = "Reserved: held for an ordinal that no Pod uses now. Allocated: in use.";
    object(&[], json!({"ipAddress": text(), "phase": told(text(), phase), "owner": object(&[], owner)}))
}

pub(super) fn external_ip_pool() -> Value {
    let node_selector = told(selector(), "The Nodes that may carry the addresses; {} matches every Node.");
    let mut spec = object(
        &["ipRanges", "nodeSelector"],
        json!({"ipRanges": ranges(), "subnetInfo": subnet_info(false), "nodeSelector": node_selector}),
    );
    spec["x-kubernetes-validations"] = pool_rules();
    let status = object(
        &[],
        json!({
            "usage": usage(),
            "conditions": told(conditions(), "Ready and Exhausted."),
            "holdfast": holdfast(),
        }),
    );
    let names = Names { kind: "ExternalIPPool", plural: "externalippools", singular: "externalippool", short: "eip" };
    definition(&names, "Addresses for Egress.", spec, status, pool_columns())
}
