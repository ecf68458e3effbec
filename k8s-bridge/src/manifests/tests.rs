use std::fs;

use super::*;

const POOL: &str = "
apiVersion: crd.antrea.io/v1beta1
kind: IPPool
metadata: {name: pods}
spec:
  ipRanges: [{cidr: 10.0.0.0/24}]
  subnetInfo: {gateway: 10.0.0.1, prefixLength: 24}
";
const NODE: &str = "{apiVersion: v1, kind: Node, metadata: {name: a}}";

fn names(manifests: &Manifests) -> Vec<String> {
    manifests.objects().map(|object| object.reference().to_string()).collect()
}

fn refused(text: &str) -> Vec<String> {
    read_text("x.yaml", text).expect_err("must be refused").iter().map(ToString::to_string).collect()
}

#[test]
fn documents_and_lists_are_read_in_order_and_empty_documents_are_passed_over() {
    let text = format!(
        "---\n# nothing\n---{POOL}---\n{NODE}\n---\nkind: List\napiVersion: v1\nitems:\n- {NODE_B}\n- kind: List\n  \
         apiVersion: v1\n  items: [{{apiVersion: v1, kind: Namespace, metadata: {{name: ns}}}}]\n",
        NODE_B = NODE.replace("name: a", "name: b"),
    );
    let manifests = read_text("x.yaml", &text).expect("reads");
    assert_eq!(names(&manifests), ["IPPool pods", "Node a", "Node b", "Namespace ns"]);
    let places: Vec<String> = manifests.objects.iter().map(|placed| placed.place.to_string()).collect();
    assert_eq!(
        places,
        [
            "x.yaml: document 1 (line 4)",
            "x.yaml: document 2 (line 11)",
            "x.yaml: document 3 (line 13), items[0]",
            "x.yaml: document 3 (line 13), items[1].items[0]",
        ]
    );
    assert_eq!(manifests.notes, Vec::<String>::new());
}

#[test]
fn items_of_a_typed_list_need_not_say_what_they_are() {
    let text = r#"{"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]}"#;
    assert_eq!(names(&read_text("x.json", text).expect("reads")), ["Node a"]);
    assert_eq!(names(&read_text("-", text).expect("reads")), ["Node a"]);
    assert_eq!(names(&read_text("x.yaml", text).expect("reads")), ["Node a"]);
}

#[test]
fn an_empty_list_holds_nothing() {
    for text in ["{kind: List, apiVersion: v1}", "{kind: List, apiVersion: v1, items: null}", "", "---\n---\n"] {
        assert_eq!(names(&read_text("x.yaml", text).expect("reads")).len(), 0, "{text}");
    }
}

#[test]
fn other_kinds_and_versions_are_skipped_with_a_line_each() {
    let text = "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: ns, name: c}}\n---\n\
                {apiVersion: crd.antrea.io/v1alpha2, kind: Egress, metadata: {name: e}}\n---\n\
                {apiVersion: x/v1, kind: AllowList, metadata: {name: l}, items: {}}\n";
    let manifests = read_text("x.yaml", text).expect("reads");
    assert_eq!(
        manifests.notes,
        [
            "x.yaml: document 1 (line 1): ConfigMap ns/c (v1) skipped: not a kind that is read",
            "x.yaml: document 2 (line 3): Egress e (crd.antrea.io/v1alpha2) skipped: only crd.antrea.io/v1beta1 is read",
            "x.yaml: document 3 (line 5): AllowList l (x/v1) skipped: not a kind that is read",
        ]
    );
}

#[test]
fn every_problem_of_every_document_is_told_with_its_place() {
    let text = format!(
        "[1]\n---\n{{kind: Node}}\n---\n{{apiVersion: v1, kind: 5}}\n---\n\
         {{apiVersion: v1, kind: Node, metadata: {{name: 7}}}}\n---\n{NODE}\n---\n{NODE}\n---\n\
         {{apiVersion: v1, kind: List, items: [{{apiVersion: v1, kind: Node, metadata: {{name: A_B}}}}]}}\n"
    );
    let problems = refused(&text);
    assert_eq!(problems.len(), 6, "{problems:#?}");
    let expected = [
        "x.yaml: document 1 (line 1): object: .: [1] is not allowed: an object with apiVersion, kind and metadata",
        "x.yaml: document 2 (line 3): Node: apiVersion: nothing is not allowed: every object says what it is",
        "x.yaml: document 3 (line 5): object: kind: 5 is not allowed: ",
        "x.yaml: document 4 (line 7): Node: metadata.name: 7 is not allowed: a string, in quotes",
        "x.yaml: document 6 (line 11): Node a was given already, at x.yaml: document 5 (line 9)",
        "x.yaml: document 7 (line 13), items[0]: Node A_B: metadata.name: \"A_B\" is not allowed: ",
    ];
    for (problem, expected) in problems.iter().zip(expected) {
        assert!(problem.starts_with(expected), "{problem}\n  should begin with\n{expected}");
    }
}

#[test]
fn what_is_not_yaml_is_told_with_its_line_and_repeated_keys_are_refused() {
    let problems = refused("a: [1\n");
    assert!(problems[0].starts_with("x.yaml: document 1"), "{problems:?}");
    let problems = refused("apiVersion: v1\nkind: Node\nkind: Pod\n");
    assert!(problems[0].contains("line 3") && problems[0].contains("kind"), "{problems:?}");
    let problems = read_text("x.json", "{\"a\": }").expect_err("must be refused");
    assert_eq!(problems[0].to_string(), "x.json: document 1: expected value at line 1 column 7");
}

#[test]
fn a_document_after_one_with_a_repeated_key_is_still_read() {
    let problems = refused("a: 1\na: 2\n---\n{apiVersion: v1, kind: Node, metadata: {name: 7}}\n");
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[1].starts_with("x.yaml: document 2"), "{problems:?}");
}

#[test]
fn an_alias_bomb_is_refused() {
    let line = |i: u32| format!("a{i}: &a{i} [{}]\n", [format!("*a{}", i - 1).as_str(); 10].join(", "));
    let text: String = ["a0: &a0 [x, x, x, x]\n".to_owned()].into_iter().chain((1..12).map(line)).collect();
    let problems = refused(&text);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].contains("alias") || problems[0].contains("anchor"), "{problems:?}");
}

#[test]
fn depth_is_bounded_in_yaml_and_json() {
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    assert_eq!(refused(&deep).len(), 1);
    assert_eq!(read_text("x.json", &deep).expect_err("must be refused").len(), 1);
}

#[test]
fn anchors_and_merges_work() {
    let text = "apiVersion: v1\nkind: Node\nmetadata:\n  name: a\n  labels: &l {x: \"1\"}\n  annotations: {<<: *l, y: \"2\"}\n";
    let manifests = read_text("x.yaml", text).expect("reads");
    let annotations = &manifests.objects[0].object.metadata().annotations;
    assert_eq!(annotations.get("x").map(|v| &**v), Some("1"));
    assert_eq!(annotations.len(), 2);
}

#[test]
fn a_directory_is_read_in_name_order_and_what_begins_with_a_dot_is_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |name: &str, node: &str| {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().expect("has one")).expect("made");
        fs::write(path, NODE.replace("name: a", &format!("name: {node}"))).expect("written");
    };
    fs::write(dir.path().join("30.json"), r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"three"}}"#)
        .expect("written");
    write("10.yaml", "one");
    write("20/b.yml", "two-b");
    write("20/a.yaml", "two-a");
    write(".hidden.yaml", "hidden");
    write("..data/x.yaml", "hidden");
    write("notes.txt", "text");
    let mut stdin = NODE.as_bytes();
    let paths = [dir.path().to_owned(), PathBuf::from("-"), dir.path().join("notes.txt")];
    let manifests = read(&paths, &mut stdin).expect("reads");
    assert_eq!(names(&manifests), ["Node one", "Node two-a", "Node two-b", "Node three", "Node a", "Node text"]);
    assert_eq!(manifests.objects[4].place.to_string(), "-: document 1 (line 1)");
}

#[test]
fn problems_of_all_files_are_collected() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("a.yaml"), "a: [").expect("written");
    fs::write(dir.path().join("b.yaml"), "{kind: Node}").expect("written");
    let paths = [dir.path().to_owned(), dir.path().join("missing")];
    let problems = read(&paths, &mut std::io::empty()).expect_err("must be refused");
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert!(matches!(&problems[0], Problem::Unreadable { path, .. } if path.ends_with("missing")));
}

#[test]
fn a_file_past_the_bound_is_not_read() {
    let problems = read(&["-".into()], &mut std::io::repeat(b' ')).expect_err("must be refused");
    assert!(matches!(&problems[..], [Problem::TooLarge { limit: FILE_MAX, .. }]), "{problems:?}");
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "[ \\na-z0-9:{}\\[\\],&*!<\"'|>#-]{0,80}", bytes in proptest::collection::vec(0_u8.., 0..64)) {
        for name in ["x.yaml", "x.json"] {
            drop(read_text(name, &text));
        }
        drop(read(&["-".into()], &mut bytes.as_slice()));
    }

    #[test]
    fn an_object_that_is_damaged_is_refused_whole_or_taken_by_the_ledger(at in 0..POOL.len(), byte in 32_u8..127) {
        let mut bytes = POOL.as_bytes().to_vec();
        bytes[at] = byte;
        if let Ok(manifests) = read(&["-".into()], &mut bytes.as_slice()) {
            let source = holdfast_statemachine::Source::Api;
            let commands = translate::plan(manifests.objects(), &source, None).expect("what reads also plans").commands;
            let entry = holdfast_statemachine::Entry { index: 1, term: 1, proposed_at: 1, commands };
            let applied = holdfast_statemachine::Ledger::new().apply(&entry);
            proptest::prop_assert!(applied.outcomes.iter().all(Result::is_ok), "{:?}", applied.outcomes);
        }
    }
}
