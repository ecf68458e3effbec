//! Metrics and health of a replica over HTTP, for what watches it.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use holdfast_raft::{Node, Phase, Role, Status};
use holdfast_statemachine::Ledger;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

/// A replica that has not heard of a leader for so long is not ready.
const STALE: Duration = Duration::from_secs(10);

type Labels = Vec<(&'static str, String)>;
type Number = Gauge<f64, AtomicU64>;

/// Serves `/metrics`, `/livez` and `/readyz` until the process ends.
pub async fn serve(node: Node, listener: TcpListener) -> std::io::Result<()> {
    let routes = Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .with_state(node);
    axum::serve(listener, routes).await
}

async fn metrics(State(node): State<Node>) -> impl IntoResponse {
    let status = node.status().await;
    let mut registry = Registry::with_prefix("holdfast");
    of_replica(&mut registry, &status);
    node.read(|ledger| of_ledger(&mut registry, ledger));
    let mut text = String::new();
    encode(&mut text, &registry).expect("writing to a text cannot fail");
    ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
}

#[allow(clippy::cast_precision_loss)]
fn of_replica(registry: &mut Registry, status: &Status) {
    let mut number = |name: &str, help: &str, value: f64| {
        let gauge = Number::default();
        gauge.set(value);
        registry.register(name, help, gauge);
    };
    let index = |index: Option<u64>| index.unwrap_or_default() as f64;
    number("leader", "Whether this replica leads", f64::from(u8::from(status.role == Role::Leader)));
    number(
        "member",
        "Whether this replica takes part in its group",
        f64::from(u8::from(status.phase == Phase::Member)),
    );
    number("term", "Raft's term", status.term as f64);
    number("last_log_index", "The last log index", index(status.last_log));
    number("committed_index", "The last log index known to be committed", index(status.committed));
    number("applied_index", "The last log index applied", index(status.applied));
    number("snapshot_index", "The last log index in the newest snapshot", index(status.snapshot));
    number("purged_index", "The last log index that is purged", index(status.purged));
    number("revision", "The ledger's revision", status.revision as f64);
    number("log_bytes", "Size of the log on disk", status.log_bytes as f64);
    number("free_disk_bytes", "Free space where the data is", status.free_bytes as f64);
    let skew = status.clock_skew_ms.unwrap_or_default() as f64 / 1000.0;
    number("clock_skew_seconds", "How far the clock is ahead of the ledger's", skew);
    let staleness = status.staleness.map_or(f64::INFINITY, |age| age.as_secs_f64());
    number("staleness_seconds", "How old a stale read may be", staleness);
}

#[allow(clippy::cast_precision_loss)]
fn of_ledger(registry: &mut Registry, ledger: &Ledger) {
    let tables = ledger.tables();
    let addresses = Family::<Labels, Number>::default();
    for id in tables.pools().keys() {
        let usage = ledger.usage(id).unwrap_or_default();
        for (state, count) in [("used", usage.used), ("free", usage.free), ("cooling", usage.cooling)] {
            let labels = vec![("pool", id.to_string()), ("state", state.to_owned())];
            addresses.get_or_create(&labels).set(count as f64);
        }
    }
    registry.register("pool_addresses", "Addresses of each pool; cooling ones are free", addresses);
    let waiting = Family::<Labels, Number>::default();
    let items = tables.egresses().values().flat_map(|row| &row.items);
    let granted = items.clone().filter(|item| item.granted().is_some()).count();
    for (kind, count) in [
        ("pool", tables.pools().values().filter(|row| row.waiting.is_some()).count()),
        ("reservation", tables.reservations().values().filter(|row| row.waiting.is_some()).count()),
        ("egress", items.filter(|item| item.waiting.is_some()).count()),
    ] {
        waiting.get_or_create(&vec![("kind", kind.to_owned())]).set(count as f64);
    }
    registry.register("waiting", "Objects that wait, of an Egress each address", waiting);
    let placements = Family::<Labels, Number>::default();
    for node in tables.nodes().keys() {
        let (carried, _) = ledger.load(node).unwrap_or_default();
        placements.get_or_create(&vec![("node", node.to_string())]).set(f64::from(carried));
    }
    registry.register("node_egress_addresses", "Egress addresses on each Node", placements);
    let unplaced = Number::default();
    unplaced.set(granted.saturating_sub(tables.placements().len()) as f64);
    registry.register("unplaced_egress_addresses", "Egress addresses that are granted and on no Node", unplaced);
    let grants = Number::default();
    grants.set(tables.grants().len() as f64);
    registry.register("grants", "Addresses held", grants);
}

async fn ready(State(node): State<Node>, RawQuery(query): RawQuery) -> impl IntoResponse {
    let status = node.status().await;
    let checks = [
        ("member", status.phase == Phase::Member),
        ("leader-known", status.leader.is_some()),
        ("up-to-date", status.staleness.is_some_and(|age| age < STALE)),
    ];
    let ready = checks.iter().all(|(_, passed)| *passed);
    let mut text = String::new();
    if query.as_deref() == Some("verbose") || !ready {
        for (name, passed) in checks {
            text.push_str(if passed { "[+] " } else { "[-] " });
            text.push_str(name);
            text.push('\n');
        }
    }
    text.push_str(if ready { "ok\n" } else { "not ready\n" });
    (if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, text)
}
