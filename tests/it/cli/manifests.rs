//! Manifests that are wrong: told with file, document, field, value and what is allowed; nothing half applied.

use std::process::Stdio;

use crate::fixtures::{Dev, command, examples, manifests, run};

const POOL: &str = "
apiVersion: crd.antrea.io/v1beta1
kind: IPPool
metadata: {name: fresh}
spec:
  ipRanges: [{start: 10.77.0.10, end: 10.77.0.20}]
  subnetInfo: {gateway: 10.77.0.1, prefixLength: 24}
";

#[test]
fn dev_ends_with_one_and_names_the_mistake() {
    let bad = manifests(&format!("{POOL}---{}", POOL.replace("fresh", "other").replace("10.77.0.20", "10.77.0.2000")));
    let ran = run(command().arg("dev").arg(bad.path())).expect(1);
    for text in
        ["all.yaml", "document 2", "spec.ipRanges[0].end", "\"10.77.0.2000\"", "is not allowed", "nothing was applied"]
    {
        assert!(ran.err.contains(text), "{text:?} is not in {}", ran.err);
    }
    assert!(ran.out.is_empty(), "{ran:#?}");
}

#[test]
fn apply_changes_nothing_if_one_file_of_several_is_wrong() {
    let dev = Dev::start(&examples());
    let (good, bad) = (manifests(POOL), manifests("apiVersion: v1\nkind: Node\nmetadata: {name: 5}\n"));
    let paths = [good.path(), bad.path()].map(|path| path.to_str().expect("text"));
    let ran = dev.holdfast(&["apply", "-f", paths[0], "-f", paths[1]]).expect(1);
    assert!(ran.err.contains("metadata.name") && ran.err.contains("nothing was applied"), "{ran:#?}");
    dev.holdfast(&["pool", "get", "fresh"]).expect(1);
    dev.holdfast(&["apply", "-f", paths[0]]).expect(0);
    dev.holdfast(&["pool", "get", "fresh"]).expect(0);
}

#[test]
fn other_kinds_are_skipped_with_a_line_and_standard_input_is_read() {
    let dev = Dev::start(&examples());
    let text = format!("apiVersion: v1\nkind: Service\nmetadata: {{name: s}}\n---{POOL}");
    let mut apply = dev.client(&["apply", "-f", "-"]);
    let mut child = apply.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    std::io::Write::write_all(&mut child.stdin.take().expect("is piped"), text.as_bytes()).expect("is read");
    let output = child.wait_with_output().expect("ends");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    assert!(out.contains("IPPool fresh created"), "{out}");
    assert!(err.contains("Service s (v1) skipped"), "{err}");
}

#[test]
fn files_without_an_object_that_is_read_are_refused() {
    let dev = Dev::start(&examples());
    let empty = manifests("# nothing\n");
    dev.holdfast(&["apply", "-f", empty.path().to_str().expect("text"), "--prune"]).expect(1);
}
