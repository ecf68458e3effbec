//! `holdfast watch`, and lists with `--watch`.

use serde_json::Value;

use crate::fixtures::{Dev, Process, examples};

fn changes(dev: &Dev, after: u64, limit: u64) -> Vec<Value> {
    let (after, limit) = (after.to_string(), limit.to_string());
    let ran = dev.holdfast(&["watch", "--after", &after, "--limit", &limit, "-o", "json"]).expect(0);
    ran.out.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

#[test]
fn a_watch_that_is_resumed_has_no_gap_and_repeats_nothing() {
    let dev = Dev::start(&examples());
    let whole = changes(&dev, 0, 30);
    let revisions: Vec<u64> = whole.iter().filter_map(|change| change["revision"].as_u64()).collect();
    assert_eq!(revisions, (1..=30).collect::<Vec<_>>());
    let mut parts = changes(&dev, 0, 11);
    parts.extend(changes(&dev, 11, 19));
    assert_eq!(parts, whole);
}

#[test]
fn a_watch_shows_what_happens_and_why_and_only_what_was_asked_for() {
    let dev = Dev::start(&examples());
    let mut all = Process::start(&mut dev.client(&["watch", "--after", "0"]));
    all.line(|line| line.contains("Egress lab-tests declared"));
    let mut web = Process::start(&mut dev.client(&["watch", "--after", "0", "--egress", "web"]));
    web.line(|line| line.contains("Egress web declared"));
    dev.holdfast(&["drain", "gateway-2", "--force"]).expect(0);
    dev.holdfast(&["drain", "gateway-1", "--force"]).expect(0);
    all.line(|line| line.contains("Node gateway-2 drained") && line.ends_with("[Drain gateway-2 by api]"));
    all.line(|line| line.contains("Egress web: 203.0.113.17") && line.contains("its Node is drained"));
    web.line(|line| line.contains("203.0.113.17") && line.contains("its Node is drained"));
    assert!(web.seen().iter().all(|line| line.contains("web")), "{:#?}", web.seen());
}

#[test]
fn a_list_that_is_watched_prints_what_changes_of_it() {
    let dev = Dev::start(&examples());
    let mut list = Process::start(&mut dev.client(&["egress", "list", "--watch"]));
    let line = list.line(|line| line.starts_with("web "));
    let from = if line.contains("gateway-1") { "gateway-1" } else { "gateway-2" };
    dev.holdfast(&["drain", from, "--force"]).expect(0);
    list.line(|line| line.starts_with("web ") && !line.contains(from));
}
