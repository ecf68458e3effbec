//! What the command teaches.

use crate::fixtures::holdfast;

#[test]
fn the_command_alone_teaches() {
    let ran = holdfast(&[]).expect(0);
    for text in
        ["replicated ledger", "holdfast dev deploy/examples", "Exit codes:", "unknown; repeating it is safe", "explain"]
    {
        assert!(ran.out.contains(text), "{text:?} is not in {}", ran.out);
    }
    assert_eq!(holdfast(&["--help"]).expect(0).out.trim(), ran.out.trim());
}

/// The verbs that the help lists.
fn verbs() -> Vec<String> {
    let help = holdfast(&["-h"]).expect(0).out;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    listed.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
}

#[test]
fn every_verb_has_help_and_stands_in_the_reference() {
    let verbs = verbs();
    assert!(verbs.len() > 20, "{verbs:?}");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/cli.md");
    let reference = std::fs::read_to_string(path).expect("docs/cli.md is there");
    for verb in verbs.iter().filter(|verb| *verb != "help") {
        let ran = holdfast(&[verb, "--help"]).expect(0);
        assert!(ran.out.contains("Usage: holdfast "), "{ran:#?}");
        assert!(reference.contains(&format!("`holdfast {verb}")), "docs/cli.md does not tell of {verb}");
    }
}

#[test]
fn completion_is_generated_for_each_shell() {
    for (shell, sign) in [("bash", "_holdfast()"), ("zsh", "#compdef holdfast"), ("fish", "complete -c holdfast")] {
        let script = holdfast(&["completion", shell]).expect(0).out;
        assert!(script.contains(sign) && script.contains("rebalance"), "{shell}");
    }
}
