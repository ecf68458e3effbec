//! `holdfast serve`: three processes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::fixtures::{Group, command, free_addresses, run};

/// How long anything may take: only a test that fails takes this long.
const PATIENCE: Duration = Duration::from_mins(1);

#[test]
fn a_replica_that_is_asked_to_stop_hands_over_and_ends_with_zero() {
    let mut group = Group::start(3, &["--policy", "spread"]);
    // Whoever leads first seeds the ledger.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let settings = group.holdfast(&["settings", "get"]).expect(0).out;
        if settings.contains("spread") {
            break;
        }
        assert!(Instant::now() < deadline, "seeded at formation: {settings}");
    }
    let pool = crate::fixtures::manifests(
        "apiVersion: crd.antrea.io/v1beta1\nkind: IPPool\nmetadata: {name: p}\nspec:\n  \
         ipRanges: [{cidr: 10.1.0.0/24}]\n  subnetInfo: {gateway: 10.1.0.1, prefixLength: 24}\n",
    );
    group.holdfast(&["apply", "-f", pool.path().to_str().expect("text")]).expect(0);
    group.holdfast(&["grant", "vm", "--pool", "p"]).expect(0);
    let before = group.holdfast(&["grant", "list"]).expect(0).out;
    let leader = group.leader();
    let mut process = group.replicas[leader].take().expect("runs");
    process.terminate();
    assert_eq!(process.end(), 0, "{:#?}", process.seen());
    assert_eq!(group.holdfast(&["grant", "list", "--timeout", "30s"]).expect(0).out, before);
    assert_ne!(group.leader(), leader);
    group.start_replica(leader);
    group.holdfast(&["grant", "vm-2", "--pool", "p", "--timeout", "30s"]).expect(0);
}

#[test]
fn what_was_acknowledged_outlives_a_killed_leader_and_a_lost_directory() {
    let mut group = Group::start(3, &[]);
    let pool = crate::fixtures::manifests(
        "apiVersion: crd.antrea.io/v1beta1\nkind: IPPool\nmetadata: {name: p}\nspec:\n  \
         ipRanges: [{cidr: 10.1.0.0/24}]\n  subnetInfo: {gateway: 10.1.0.1, prefixLength: 24}\n",
    );
    group.holdfast(&["apply", "-f", pool.path().to_str().expect("text")]).expect(0);
    group.holdfast(&["grant", "vm", "--pool", "p"]).expect(0);
    let before = group.holdfast(&["grant", "list"]).expect(0).out;
    let lost = group.leader();
    group.kill(lost);
    assert_eq!(group.holdfast(&["grant", "list", "--timeout", "30s"]).expect(0).out, before);
    std::fs::remove_dir_all(group.data(lost)).expect("its data is there");
    group.start_replica(lost);
    let name = Group::name(lost);
    let command = format!("holdfast member replace {name}");
    group.replicas[lost].as_mut().expect("runs").line(|line| line.contains(&command));
    group.holdfast(&["member", "replace", name, "--timeout", "60s"]).expect(0);
    group.replicas[lost].as_mut().expect("runs").line(|line| line.contains("\"ready\""));
    let own = ["grant", "list", "--endpoints", &group.endpoints[lost]];
    assert_eq!(group.holdfast(&own).expect(0).out, before);
    let check = group.holdfast(&["check", "-o", "json"]).expect(0).json();
    assert_eq!(check["items"].as_array().map(Vec::len), Some(3), "{check}");
}

#[test]
fn a_line_about_a_change_carries_its_index_and_revision() {
    let mut group = Group::start(3, &["--log-level", "info,holdfast_raft=debug"]);
    let pool = crate::fixtures::manifests(
        "apiVersion: crd.antrea.io/v1beta1\nkind: ExternalIPPool\nmetadata: {name: p}\nspec:\n  \
         ipRanges: [{cidr: 10.1.0.0/24}]\n  nodeSelector: {}\n",
    );
    group.holdfast(&["apply", "-f", pool.path().to_str().expect("text")]).expect(0);
    let process = group.replicas[0].as_mut().expect("runs");
    let line = process.line(|line| line.contains("\"revision\""));
    let json: serde_json::Value = serde_json::from_str(&line).expect("a line of JSON");
    assert!(json["index"].is_u64() && json["revision"].is_u64(), "{line}");
}

#[test]
fn metrics_and_health_are_served_over_http() {
    let at = free_addresses(1).remove(0);
    let group = Group::start(1, &["--metrics-listen", &at]);
    let get = |path: &str| {
        let mut stream = TcpStream::connect(&at).expect("listens");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n").expect("is read");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answers");
        answer
    };
    assert!(get("/livez").starts_with("HTTP/1.1 200 "));
    let ready = get("/readyz?verbose");
    assert!(ready.starts_with("HTTP/1.1 200 ") && ready.contains("[+] up-to-date"), "{ready}");
    let metrics = get("/metrics");
    assert!(metrics.lines().any(|line| line == "holdfast_leader 1.0") && metrics.contains("# EOF"), "{metrics}");
    drop(group);
}

#[test]
fn a_configuration_that_makes_no_sense_names_its_key() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("holdfast.toml");
    std::fs::write(&file, "name = \"a\"\ndata-dir = \"/nowhere\"\nlisten = \"here\"\n").expect("writes");
    let ran = run(command().arg("serve").arg("--config").arg(&file)).expect(2);
    assert!(ran.err.contains("listen: \"here\" is not allowed: HOST:PORT"), "{ran:#?}");
    let ran = run(command().arg("serve").arg("--config").arg(&file).env("HOLDFAST_LISTEN", "there")).expect(2);
    assert!(ran.err.contains("listen: \"there\""), "the environment wins over the file: {ran:#?}");
    let mut flag = command();
    flag.arg("serve").arg("--config").arg(&file).env("HOLDFAST_LISTEN", "there").args(["--listen", "everywhere"]);
    assert!(run(&mut flag).expect(2).err.contains("listen: \"everywhere\""), "flags win over both");
    std::fs::write(&file, "nmae = \"a\"\n").expect("writes");
    let ran = run(command().arg("serve").arg("--config").arg(&file)).expect(2);
    assert!(ran.err.contains("nmae"), "{ran:#?}");
}
