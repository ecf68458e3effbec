//! What an IPPool's status says of one StatefulSet.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::{Kind, Scene};

/// Addresses of a StatefulSet's ordinals in an IPPool's status, each with its phase, in order of ordinals.
pub fn entries(pool: &Value, namespace: &str, set: &str) -> Vec<(u64, String, String)> {
    let of = |entry: &Value| {
        let owner = &entry["owner"]["statefulSet"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (owner["namespace"] == namespace && owner["name"] == set)
            .then(|| (owner["index"].as_u64().expect("an ordinal"), text(&entry["ipAddress"]), text(&entry["phase"])))
    };
    let mut entries: Vec<_> = pool["status"]["ipAddresses"].as_array().into_iter().flatten().filter_map(of).collect();
    entries.sort();
    entries
}

/// `start`, and so many that follow it.
pub fn run_of(start: &str, count: u32) -> Vec<String> {
    let first: IpAddr = start.parse().expect("an address");
    let at = |i: u32| match first {
        IpAddr::V4(first) => IpAddr::V4((first.to_bits() + i).into()).to_string(),
        IpAddr::V6(first) => IpAddr::V6((first.to_bits() + u128::from(i)).into()).to_string(),
    };
    (0..count).map(at).collect()
}

impl Scene {
    /// Waits until a StatefulSet holds exactly these addresses of an IPPool, by ordinal from `first` on, as the pool's
    /// status says.
    #[track_caller]
    pub fn holds<'a>(
        &'a self,
        pool: &'a str,
        (namespace, set): (&'a str, &'a str),
        first: u64,
        addresses: &'a [String],
    ) -> impl Future<Output = ()> + 'a {
        let wanted: Vec<_> = (first..).zip(addresses.iter().cloned()).collect();
        let what = format!("{wanted:?} for {namespace}/{set}");
        let caller = std::panic::Location::caller();
        async move {
            let as_wanted = |pool: Option<&Value>| {
                let entries = pool.map(|pool| entries(pool, namespace, set)).unwrap_or_default();
                entries.into_iter().map(|(ordinal, address, _)| (ordinal, address)).eq(wanted.iter().cloned())
            };
            let what = format!("{what} (asked at {caller})");
            self.api.until(Kind::IpPool, "", pool, &what, as_wanted).await;
        }
    }

    /// Waits until a StatefulSet holds no address of an IPPool.
    pub async fn holds_none(&self, pool: &str, of: (&str, &str)) {
        self.holds(pool, of, 0, &[]).await;
    }

    /// Waits until an IPPool uses so many of so many.
    pub async fn used(&self, pool: &str, used: u64, total: u64) {
        let wanted = json!([used, total]);
        let as_wanted = |pool: Option<&Value>| {
            pool.is_some_and(|pool| {
                json!([pool["status"]["usage"]["used"], pool["status"]["usage"]["total"]]) == wanted
            })
        };
        self.api.until(Kind::IpPool, "", pool, &format!("{used} of {total} used"), as_wanted).await;
    }

    /// Waits until an object's condition is this; of a pool, for the generation that it has.
    pub async fn condition(&self, kind: Kind, name: &str, condition: &str, status: &str, reason: &str) -> Value {
        let as_wanted = |object: Option<&Value>| {
            object.is_some_and(|object| {
                let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
                conditions.into_iter().any(|it| {
                    (&it["type"], &it["status"], &it["reason"]) == (&json!(condition), &json!(status), &json!(reason))
                        && it["observedGeneration"] == object["metadata"]["generation"]
                })
            })
        };
        let what = format!("{condition} {status} for {reason}");
        let object = self.api.until(kind, "", name, &what, as_wanted).await.expect("it is there");
        let conditions = object["status"]["conditions"].as_array().expect("a list").clone();
        conditions.into_iter().find(|it| it["type"] == condition).expect("it is there")
    }

    /// Waits until a StatefulSet's Pods of these ordinals all run, each with an address of its own.
    pub async fn runs(&self, namespace: &str, set: &str, ordinals: std::ops::Range<u32>) -> BTreeMap<u32, Value> {
        let mut pods = BTreeMap::new();
        for ordinal in ordinals {
            let name = format!("{set}-{ordinal}");
            let runs = |pod: Option<&Value>| {
                pod.is_some_and(|pod| {
                    pod["status"]["podIP"].is_string() && pod["metadata"]["deletionTimestamp"].is_null()
                })
            };
            let pod = self.api.until(Kind::Pod, namespace, &name, "an address", runs).await;
            pods.insert(ordinal, pod.expect("it runs"));
        }
        pods
    }

    /// Changes a StatefulSet's number of Pods.
    pub async fn scale(&self, namespace: &str, set: &str, replicas: u32) {
        self.api.patch(Kind::StatefulSet, namespace, set, &json!({"spec": {"replicas": replicas}})).await;
    }
}
