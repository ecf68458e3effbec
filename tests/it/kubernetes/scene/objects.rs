//! Objects that tests make.

use serde_json::{Value, json};

/// `start`-`end` of a pool.
pub fn range(start: &str, end: &str) -> Value {
    json!({"start": start, "end": end})
}

/// A network of a pool.
pub fn cidr(cidr: &str) -> Value {
    json!({"cidr": cidr})
}

/// An IPPool.
pub fn pool(name: &str, ranges: &[Value], gateway: &str, prefix_length: u32) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"ipRanges": ranges, "subnetInfo": {"gateway": gateway, "prefixLength": prefix_length}},
    })
}

/// An ExternalIPPool that every Node may carry.
pub fn external_pool(name: &str, ranges: &[Value]) -> Value {
    json!({"metadata": {"name": name}, "spec": {"ipRanges": ranges, "nodeSelector": {}}})
}

/// A StatefulSet whose Pods draw from these pools; from those of its Namespace where none is named.
pub fn set(namespace: &str, name: &str, replicas: u32, pools: &str) -> Value {
    let mut set = json!({
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "replicas": replicas,
            "serviceName": "none",
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"set": name}},
            "template": {
                "metadata": {"labels": {"set": name}},
                "spec": {"containers": [{"name": "only", "image": "none"}]},
            },
        },
    });
    if !pools.is_empty() {
        set["spec"]["template"]["metadata"]["annotations"] = json!({"ipam.antrea.io/ippools": pools});
    }
    set
}

/// An Egress of nobody's traffic, with these fields.
pub fn egress(name: &str, fields: &Value) -> Value {
    let mut spec = json!({"appliedTo": {"podSelector": {"matchLabels": {"app": name}}}});
    for (field, value) in fields.as_object().expect("fields") {
        spec[field] = value.clone();
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

/// A Node that is Ready.
pub fn node(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/os": "linux", "kubernetes.io/hostname": name}},
        "status": {"conditions": [ready("True")]},
    })
}

/// The Ready condition of a Node, since now.
pub fn ready(status: &str) -> Value {
    let now = now();
    json!({"type": "Ready", "status": status, "reason": "Test", "message": "", "lastHeartbeatTime": now, "lastTransitionTime": now})
}

/// This second, as Kubernetes writes it.
pub fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// As antrea-controller reserves for a StatefulSet.
pub fn reserved(address: &str, namespace: &str, set: &str, index: u32) -> Value {
    json!({
        "ipAddress": address,
        "phase": "Reserved",
        "owner": {"statefulSet": {"name": set, "namespace": namespace, "index": index}},
    })
}

/// As an agent that sets a Pod up changes an entry.
pub fn set_up(entry: &mut Value, namespace: &str, pod: &str, container: &str) {
    entry["phase"] = "Allocated".into();
    entry["owner"]["pod"] = json!({"name": pod, "namespace": namespace, "containerID": container, "ifName": "eth0"});
}
