//! `holdfast apply` and `--prune`.

use crate::fixtures::{Dev, Ran, examples, manifests};

const POOL: &str = "
apiVersion: crd.antrea.io/v1beta1
kind: ExternalIPPool
metadata: {name: more}
spec:
  ipRanges: [{cidr: 198.18.0.0/29}]
  nodeSelector: {}
";

fn egress(name: &str) -> String {
    format!(
        "---\napiVersion: crd.antrea.io/v1beta1\nkind: Egress\nmetadata: {{name: {name}}}\n\
         spec: {{appliedTo: {{}}, externalIPPool: more}}\n"
    )
}

fn set(replicas: u32) -> String {
    format!(
        "---\napiVersion: apps/v1\nkind: StatefulSet\nmetadata: {{name: big, namespace: shop}}\nspec:\n  \
         replicas: {replicas}\n  template: {{metadata: {{annotations: {{ipam.antrea.io/ippools: pods-v4}}}}}}\n"
    )
}

fn apply(dev: &Dev, text: &str, more: &[&str]) -> Ran {
    let files = manifests(text);
    dev.holdfast(&[&["apply", "-f", files.path().to_str().expect("text")], more].concat())
}

#[test]
fn what_became_of_each_object_is_told_and_repeating_changes_nothing() {
    let dev = Dev::start(&examples());
    let text = format!("{}{}{}", set(1000), egress("e1"), format_args!("---{POOL}"));
    let ran = apply(&dev, &text, &[]).expect(0);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines[0], "ExternalIPPool more created", "kind by kind, whatever the order: {lines:#?}");
    assert!(
        lines[1].starts_with("StatefulSet shop/big waiting: ") && lines[1].contains("1000 needed, 25 free"),
        "{lines:#?}"
    );
    assert_eq!(lines[2], "Egress e1 created: 198.18.0.1");
    let again = apply(&dev, &text, &[]).expect(0);
    assert!(
        again.out.contains("ExternalIPPool more unchanged\n") && again.out.contains("Egress e1 unchanged"),
        "{again:#?}"
    );
    let smaller = apply(&dev, &set(5), &[]).expect(0);
    assert_eq!(smaller.out.trim(), "StatefulSet shop/big changed: 10.20.0.19-23");
    let json = apply(&dev, &set(5), &["-o", "json"]).expect(0).json();
    assert_eq!(
        (&json["results"][0]["kind"], &json["results"][0]["result"]),
        (&"StatefulSet".into(), &"unchanged".into())
    );
}

#[test]
fn prune_deletes_what_is_no_longer_in_the_files_of_the_set_and_nothing_else() {
    let dev = Dev::start(&examples());
    let others = dev.holdfast(&["egress", "list"]).expect(0).out;
    apply(&dev, &format!("{POOL}{}{}{}", egress("e1"), egress("e2"), set(2)), &["--set", "mine"]).expect(0);
    apply(&dev, &egress("e3"), &["--set", "yours"]).expect(0);
    let dry = apply(&dev, &format!("{POOL}{}", egress("e1")), &["--set", "mine", "--prune", "--dry-run"]).expect(0);
    assert!(dry.out.contains("Egress e2 would be deleted"), "{dry:#?}");
    let ran = apply(&dev, &format!("{POOL}{}", egress("e1")), &["--set", "mine", "--prune"]).expect(0);
    assert!(ran.out.contains("Egress e2 deleted") && ran.out.contains("StatefulSet shop/big deleted"), "{ran:#?}");
    assert!(!ran.out.contains("e3"), "{ran:#?}");
    dev.holdfast(&["egress", "get", "e2"]).expect(1);
    for name in ["e1", "e3"] {
        dev.holdfast(&["egress", "get", name]).expect(0);
    }
    for line in others.lines().skip(1) {
        let name = line.split_whitespace().next().expect("a name");
        dev.holdfast(&["egress", "get", name]).expect(0);
    }
}

#[test]
fn prune_deletes_an_egress_that_the_same_apply_moved() {
    let dev = Dev::start(&examples());
    let node = |name: &str, ready: &str| {
        format!(
            "---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{lone: \"yes\"}}}}\n\
             status: {{conditions: [{{type: Ready, status: \"{ready}\"}}]}}\n"
        )
    };
    let pool = POOL.replace("nodeSelector: {}", "nodeSelector: {matchLabels: {lone: \"yes\"}}");
    apply(&dev, &format!("{pool}{}{}", node("one", "True"), egress("e1")), &[]).expect(0);
    let text = format!("{pool}{}{}", node("one", "False"), node("two", "True"));
    let ran = apply(&dev, &text, &["--prune"]).expect(0);
    assert!(ran.out.contains("Egress e1 deleted"), "{ran:#?}");
    dev.holdfast(&["egress", "get", "e1"]).expect(1);
}

#[test]
fn an_object_of_another_set_is_refused_not_overwritten() {
    let dev = Dev::start(&examples());
    apply(&dev, &format!("{POOL}{}", egress("e1")), &["--set", "mine"]).expect(0);
    let ran = apply(&dev, &egress("e1"), &["--set", "yours"]).expect(1);
    assert!(ran.err.contains("Egress e1 refused: Egress e1 belongs to manifests:mine"), "{ran:#?}");
}

#[test]
fn export_gives_what_can_be_applied_again() {
    let dev = Dev::start(&examples());
    let export = dev.holdfast(&["export", "-o", "json"]).expect(0).json();
    let names: Vec<&str> = export["items"]
        .as_array()
        .expect("items")
        .iter()
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect();
    assert!(names.contains(&"lab-tests") && names.contains(&"pods-v4"), "{names:?}");
    let yaml = dev.holdfast(&["export"]).expect(0).out;
    let read: serde_json::Value = serde_saphyr::from_str(&yaml).expect("is YAML");
    assert_eq!(read["items"].as_array().map(Vec::len), Some(names.len()));
}
