//! Random histories: the ledger and the naive model give the same answers and rows, the invariants hold, and
//! a ledger made again from its log or from its rows is the same ledger.

use holdfast_statemachine::{Change, Entry, Ledger, Outcome, Rejection};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::invariants;
use crate::machine::Machine;
use crate::model::Model;
use crate::strategy::{Step, entries, history};

/// Of a malformed command only that it is one counts: the words are the ledger's.
fn plain(outcome: &Result<Outcome, Rejection>) -> Result<Outcome, Rejection> {
    match outcome {
        Err(Rejection::Malformed { .. }) => Err(crate::model::malformed("")),
        Err(Rejection::Mode { mode, what, .. }) => {
            Err(Rejection::Mode { mode: *mode, what: what.clone(), why: "".into() })
        }
        other => other.clone(),
    }
}

fn same_changes(ledger: &[Change], model: &[Change], entry: &Entry) -> Result<(), TestCaseError> {
    for (of_ledger, of_model) in ledger.iter().zip(model) {
        prop_assert_eq!(of_ledger, of_model, "ledger (left) and model (right) differ in a change of {:#?}", entry);
    }
    let more = ledger.get(model.len()).or(model.get(ledger.len()));
    prop_assert!(ledger.len() == model.len(), "{} and {} changes, {more:#?} of {entry:#?}", ledger.len(), model.len());
    Ok(())
}

fn same_rows(ledger: &impl Machine, model: &impl Machine, entry: &Entry) -> Result<(), TestCaseError> {
    let (ours, theirs) = (ledger.rows(), model.rows());
    for key in ours.keys().chain(theirs.keys()) {
        prop_assert_eq!(ours.get(key), theirs.get(key), "the rows (left, right) of {:?} after {:#?}", key, entry);
    }
    Ok(())
}

fn agree(steps: &[Step]) -> Result<(), TestCaseError> {
    let mut ledger = Ledger::empty();
    let mut model = Model::empty();
    for entry in entries(steps) {
        let before = ledger.rows();
        let (of_ledger, changes) = Machine::apply(&mut ledger, &entry);
        let (of_model, expected) = Machine::apply(&mut model, &entry);
        same_changes(&changes, &expected, &entry)?;
        for (of_ledger, of_model) in of_ledger.iter().zip(&of_model) {
            prop_assert_eq!(plain(of_ledger), plain(of_model), "an outcome (left, right) of {:#?}", entry);
        }
        prop_assert_eq!(of_ledger.len(), of_model.len());
        same_rows(&ledger, &model, &entry)?;
        invariants::hold(&before, &ledger.rows(), &entry, &changes)?;
        let found = ledger.check();
        prop_assert!(found.is_empty(), "{:#?} after {:#?}", found, entry);
    }
    Ok(())
}

/// A ledger made from its rows half-way, and one that replays the log, end as the one that never stopped.
fn comes_back(steps: &[Step], half: usize) -> Result<(), TestCaseError> {
    let entries = entries(steps);
    let mut ledger = Ledger::empty();
    let mut restored = Ledger::empty();
    let mut answers = Vec::new();
    for (i, entry) in entries.iter().enumerate() {
        if i == half % entries.len() {
            restored = Ledger::from_rows(ledger.rows()).expect("its own rows");
        }
        let answer = Machine::apply(&mut ledger, entry);
        if i >= half % entries.len() {
            prop_assert_eq!(&Machine::apply(&mut restored, entry), &answer, "after a restart, {:#?}", entry);
            same_rows(&restored, &ledger, entry)?;
        }
        answers.push(answer);
    }
    let mut replayed = Ledger::empty();
    for (entry, answer) in entries.iter().zip(&answers) {
        prop_assert_eq!(&Machine::apply(&mut replayed, entry), answer, "replaying {:#?}", entry);
    }
    prop_assert_eq!(replayed.rows(), ledger.rows());
    Ok(())
}

proptest! {
    #[test]
    fn entries_of_one_command_agree_with_the_model(steps in history(1)) {
        agree(&steps)?;
    }

    #[test]
    fn entries_of_several_commands_agree_with_the_model(steps in history(5)) {
        agree(&steps)?;
    }

    #[test]
    fn a_ledger_comes_back_from_its_rows_and_its_log(steps in history(3), half in 0..100_usize) {
        comes_back(&steps, half)?;
    }
}
