//! What following many Pods costs.

use super::server::{PODS, Stub};
use crate::fixtures::{Process, command, free_addresses};

/// How much the largest resident size may grow, in KiB.
const GROWTH_MAX: u64 = 300 << 10;

/// Fifty thousand Pods of 8 KiB, listed twice: the largest resident size of the replica grows by at most 300 MiB.
#[tokio::test(flavor = "multi_thread")]
async fn fifty_thousand_pods_cost_at_most_300_mib() {
    let addresses = free_addresses(3);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut stub = Stub::start(&addresses[0]).await;
    let mut serve = command();
    serve.env("KUBECONFIG", stub.kubeconfig(directory.path()));
    serve.args(["serve", "--kubernetes", "--name", "a", "--listen", &addresses[1], "--log-format", "json"]);
    serve.arg("--data-dir").arg(directory.path().join("data"));
    serve.args(["--initial-members", &format!("a={}", addresses[1]), "--disk-watermark", "0"]);
    let mut replica = tokio::task::block_in_place(|| Process::start(&mut serve));
    tokio::task::block_in_place(|| replica.line(|line| line.contains("\"the bridge is in office\"")));
    let before = high_water_mark(&replica);
    let pods = |line: &str| line.contains("\"listed\"") && line.contains("\"Pod\"") && line.contains(&PODS.to_string());
    tokio::task::block_in_place(|| replica.line(pods));
    let first = high_water_mark(&replica);
    stub.expire_watches();
    stub.listed.wait_for(|times| *times == 2).await.expect("the stub is there");
    tokio::task::block_in_place(|| replica.line(|line| line.contains("\"listed again\"") && line.contains("\"Pod\"")));
    let second = high_water_mark(&replica);
    println!("VmHWM: {before} KiB, after the first list {first} KiB, after another {second} KiB");
    assert!(second - before <= GROWTH_MAX, "it grew by {} KiB", second - before);
}

/// The largest resident size so far, in KiB.
fn high_water_mark(process: &Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("is told");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
