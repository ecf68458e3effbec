//! Durable grants per second of three replicas, each a process of its own, on this machine.
//!
//! `cargo bench --bench cluster -- --clients 64 --seconds 10`
//!
//! Every client is a task that asks for one address per call and waits for the answer before it asks for the
//! next. Each has a connection of its own, as processes on different machines would (`--connections` shares
//! them). All ask the leader, as a client does that has found it; with `--spread` they ask all replicas in
//! turn, and two thirds of the calls are forwarded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use hdrhistogram::Histogram;
use holdfast_api::Client;
use holdfast_api::v1::ProposeResponse;

#[allow(dead_code, reason = "the fault tests use all of it")]
#[path = "../tests/it/faults/ask.rs"]
mod ask;
#[allow(dead_code, reason = "the fault tests use all of it")]
#[path = "../tests/it/faults/group.rs"]
mod group;

use ask::{grant, only, propose, put_pool};
use group::Group;

/// Addresses asked for come from here: more than any run takes.
const POOL: &str = "10.0.0.0/8";

#[derive(Parser)]
#[command(about = "Durable grants per second of three replicas on this machine")]
struct Options {
    /// Clients that ask at the same time.
    #[arg(long, default_value_t = 64)]
    clients: usize,
    /// Connections that the clients share; each has its own unless this is less.
    #[arg(long)]
    connections: Option<usize>,
    /// How long is measured.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// How long is not, before.
    #[arg(long, default_value_t = 2)]
    warm_up: u64,
    /// Ask all replicas, not only the leader.
    #[arg(long)]
    spread: bool,
    /// Replicas.
    #[arg(long, default_value_t = 3)]
    replicas: usize,
    /// Options for `holdfast serve`, separated by blanks.
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    serve: String,
    /// Said by `cargo bench`; changes nothing.
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() {
    let options = Options::parse();
    let serve: Vec<_> = options.serve.split_whitespace().collect();
    let group = Group::formed(options.replicas, &serve).await;
    let leader = group.leader().await;
    let made = group.client().propose_repeatedly(propose([put_pool("bench", POOL)])).await;
    only(made.expect("a group that is formed")).expect("a good pool");

    let mut endpoints = group.endpoints();
    if !options.spread {
        endpoints = vec![endpoints.swap_remove(leader)];
    }
    let connections = options.connections.unwrap_or(options.clients).clamp(1, options.clients);
    let clients: Vec<_> = (0..connections)
        .map(|number| Arc::new(Client::new([&endpoints[number % endpoints.len()]]).expect("a good endpoint")))
        .collect();
    let begin = Instant::now() + Duration::from_secs(options.warm_up);
    let end = begin + Duration::from_secs(options.seconds);
    let refused = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..options.clients)
        .map(|number| tokio::spawn(ask_on(clients[number % connections].clone(), number, begin, end, refused.clone())))
        .collect();
    let mut latencies = histogram();
    for task in tasks {
        latencies.add(task.await.expect("a client")).expect("all have the same bounds");
    }
    report(&options, connections, &latencies, refused.load(Ordering::Relaxed));
    group.assert_equal_digests().await;
}

/// Asks for one address after the other, and measures those answered between `begin` and `end`.
async fn ask_on(
    client: Arc<Client>,
    number: usize,
    begin: Instant,
    end: Instant,
    refused: Arc<AtomicU64>,
) -> Histogram<u64> {
    let mut latencies = histogram();
    for call in 0_u64.. {
        let request = propose([grant(&format!("vm-{number}-{call}"), "bench", None)]);
        let asked = Instant::now();
        if asked >= end {
            break;
        }
        let answer = client.propose(request).await;
        let answered = Instant::now();
        if !answer.map(|answer: ProposeResponse| only(answer)).is_ok_and(|answer| answer.is_ok()) {
            refused.fetch_add(1, Ordering::Relaxed);
        } else if answered >= begin && answered < end {
            let micros = u64::try_from((answered - asked).as_micros()).expect("less than an hour");
            latencies.saturating_record(micros.max(1));
        }
    }
    latencies
}

/// Of microseconds, up to a minute.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000, 3).expect("good bounds")
}

#[allow(clippy::cast_precision_loss, reason = "for people to read")]
fn report(options: &Options, connections: usize, latencies: &Histogram<u64>, refused: u64) {
    let millis = |quantile| latencies.value_at_quantile(quantile) as f64 / 1_000.0;
    let endpoints = if options.spread { "all replicas" } else { "the leader" };
    println!(
        "{} replicas, {} clients on {connections} connections to {endpoints}: {:.0} grants/s, p50 {:.2} ms, p99 {:.2} ms, \
         max {:.2} ms ({} in {} s, {refused} not answered with an address)",
        options.replicas,
        options.clients,
        latencies.len() as f64 / options.seconds as f64,
        millis(0.5),
        millis(0.99),
        latencies.max() as f64 / 1_000.0,
        latencies.len(),
        options.seconds,
    );
}
