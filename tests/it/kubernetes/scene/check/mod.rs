//! What must hold at rest, from a naive reading of the objects.

mod egresses;
mod pools;
mod reservations;

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::Value;

use super::api::{Api, Kind};
use super::ledger::Rows;
use super::stage::{name_of, namespace_of};

/// The objects of all kinds that are followed, and the ledger.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// By name.
    pub namespaces: BTreeMap<String, Value>,
    /// By name.
    pub nodes: BTreeMap<String, Value>,
    /// By namespace and name.
    pub sets: BTreeMap<(String, String), Value>,
    /// By namespace and name.
    pub pods: BTreeMap<(String, String), Value>,
    /// IPPools by name.
    pub pools: BTreeMap<String, Value>,
    /// ExternalIPPools by name.
    pub externals: BTreeMap<String, Value>,
    /// By name.
    pub egresses: BTreeMap<String, Value>,
    /// The ledger.
    pub rows: Rows,
}

impl World {
    /// The objects; the ledger is left out.
    pub async fn of(api: &Api) -> World {
        let named = |objects: Vec<Value>| -> BTreeMap<String, Value> {
            objects.into_iter().map(|object| (name_of(&object).to_owned(), object)).collect()
        };
        let spaced = |objects: Vec<Value>| {
            let key = |object: &Value| (namespace_of(object).to_owned(), name_of(object).to_owned());
            objects.into_iter().map(|object| (key(&object), object)).collect()
        };
        World {
            namespaces: named(api.list(Kind::Namespace).await),
            nodes: named(api.list(Kind::Node).await),
            sets: spaced(api.list(Kind::StatefulSet).await),
            pods: spaced(api.list(Kind::Pod).await),
            pools: named(api.list(Kind::IpPool).await),
            externals: named(api.list(Kind::ExternalIpPool).await),
            egresses: named(api.list(Kind::Egress).await),
            rows: Rows::default(),
        }
    }

    /// All of it that bears on addresses, a line for each object and row.
    pub fn told(&self) -> String {
        let brief = |object: &Value| {
            let metadata = &object["metadata"];
            let of = ["annotations", "labels", "uid", "deletionTimestamp", "managedFields"];
            let metadata: Vec<_> = of.iter().map(|field| format!("{field} {}", metadata[*field])).collect();
            format!("{} spec {} status {}", metadata.join(" "), object["spec"], object["status"])
        };
        let mut lines = Vec::new();
        let spaced = self.sets.iter().chain(&self.pods).filter(|((space, _), _)| space != "holdfast");
        lines.extend(spaced.map(|(name, object)| format!("{} {name:?}: {}", object["kind"], brief(object))));
        let named = self.pools.iter().chain(&self.externals).chain(&self.egresses).chain(&self.nodes);
        lines.extend(named.map(|(name, object)| format!("{} {name}: {}", object["kind"], brief(object))));
        let rows = &self.rows;
        lines.extend(rows.grants.iter().map(|row| format!("{row:?}")));
        lines.extend(rows.reservations.values().map(|row| format!("{row:?}")));
        lines.extend(rows.ordinals.values().map(|row| format!("{row:?}")));
        lines.extend(rows.egresses.values().map(|row| format!("{row:?}")));
        lines.extend(rows.placements.values().map(|row| format!("{row:?}")));
        lines.extend(rows.nodes.values().map(|row| format!("{row:?}")));
        lines.join("\n")
    }

    /// The pools that a StatefulSet's Pods draw from.
    pub fn pools_of(&self, set: &Value) -> Vec<String> {
        self.drawn_from(set, &set["spec"]["template"])
    }

    /// The pools that the annotations of something say, or else those of the Namespace in which an object is.
    fn drawn_from(&self, object: &Value, says: &Value) -> Vec<String> {
        let annotation = |at: &Value| at.pointer("/metadata/annotations/ipam.antrea.io~1ippools").cloned();
        let named = annotation(says);
        let named = named.or_else(|| annotation(self.namespaces.get(namespace_of(object))?));
        let named = named.as_ref().and_then(Value::as_str).unwrap_or_default();
        named.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    /// The addresses that can be given from a pool now: where what is wanted is not in force, an older spec's.
    fn in_force(&self, external: bool, name: &str) -> Vec<IpAddr> {
        let pool = if external { &self.externals[name] } else { &self.pools[name] };
        if condition(pool, "Ready").0 != "False" {
            return usable(pool, external);
        }
        self.rows.in_force(external, name)
    }

    /// Whether a Pod is there that is not over.
    pub fn lives(&self, namespace: &str, name: &str) -> bool {
        let pod = self.pods.get(&(namespace.to_owned(), name.to_owned()));
        pod.is_some_and(|pod| !["Succeeded", "Failed"].iter().any(|phase| pod["status"]["phase"] == *phase))
    }
}

impl Rows {
    /// The addresses that the ledger gives from a pool.
    fn in_force(&self, external: bool, name: &str) -> Vec<IpAddr> {
        let row = self.pools.get(&(external, name.to_owned()));
        let ranges = row.into_iter().flat_map(|row| &row.ranges);
        let end = |text: &str| text.parse().expect("an address");
        ranges.flat_map(|range| addresses(end(&range.first), end(&range.last))).collect()
    }
}

/// All that is not as it must be.
pub fn findings(world: &World) -> Vec<String> {
    let mut findings = Findings(Vec::new());
    pools::check(world, &mut findings);
    reservations::check(world, &mut findings);
    egresses::check(world, &mut findings);
    findings.0
}

/// What is not as it must be.
struct Findings(Vec<String>);

impl Findings {
    /// Something must hold.
    fn must(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.0.push(what());
        }
    }

    /// Both must be equal.
    #[expect(clippy::needless_pass_by_value, reason = "a check is easier to read without references")]
    fn same<T: PartialEq + std::fmt::Debug>(&mut self, is: T, wanted: T, what: impl FnOnce() -> String) {
        if is != wanted {
            self.0.push(format!("{}: {is:?}, must be {wanted:?}", what()));
        }
    }
}

/// A condition's status, reason and message; empty where it is not there.
fn condition<'a>(object: &'a Value, kind: &str) -> (&'a str, &'a str, &'a str) {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let text = |condition: &'a Value, field: &str| condition[field].as_str().unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition["type"] == kind);
    found.map_or(("", "", ""), |it| (text(it, "status"), text(it, "reason"), text(it, "message")))
}

/// The addresses that can be given from a pool, in its order.
pub fn usable(pool: &Value, external: bool) -> Vec<IpAddr> {
    let spec = &pool["spec"];
    let subnet = &spec["subnetInfo"];
    let gateway: Option<IpAddr> = subnet["gateway"].as_str().and_then(|text| text.parse().ok());
    let mut usable = Vec::new();
    for range in spec["ipRanges"].as_array().into_iter().flatten() {
        let Some(cidr) = range["cidr"].as_str() else {
            let end = |name: &str| range[name].as_str().expect("an end").parse::<IpAddr>().expect("an address");
            usable.extend(addresses(end("start"), end("end")));
            continue;
        };
        let (network, length) = cidr.split_once('/').expect("a CIDR");
        let (network, length): (IpAddr, u32) =
            (network.parse().expect("an address"), length.parse().expect("a length"));
        let bits = if network.is_ipv4() { 32 } else { 128 };
        let size = 1_u128 << (bits - length);
        let first = number(network) / size * size;
        let at = |number: u128| if network.is_ipv4() { v4(number) } else { IpAddr::V6(number.into()) };
        let mut inside: Vec<_> = (first..first + size).map(at).collect();
        if size > 2 {
            inside.remove(0);
            let whole_subnet = subnet["prefixLength"].as_u64() == Some(length.into());
            if network.is_ipv4() && (external || whole_subnet) {
                inside.pop();
            }
        }
        usable.extend(inside);
    }
    usable.retain(|address| Some(*address) != gateway);
    usable
}

/// All from one to another.
fn addresses(first: IpAddr, last: IpAddr) -> Vec<IpAddr> {
    let at = |number: u128| if first.is_ipv4() { v4(number) } else { IpAddr::V6(number.into()) };
    (number(first)..=number(last)).map(at).collect()
}

/// An address as a number.
pub fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn v4(number: u128) -> IpAddr {
    IpAddr::V4(u32::try_from(number).expect("an IPv4 address").into())
}
