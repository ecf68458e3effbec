//! Random histories: the ledger and the naive model give the same answers and rows, the invariants hold, and
//! a ledger made again from its log or from its rows is the same ledger.

use holdfast_statemachine::adopt::Adopt;
use holdfast_statemachine::command::{Grant, Owner, ReleaseGrant};
use holdfast_statemachine::row::Holder;
use holdfast_statemachine::{Action, Change, Command, Entry, Ledger, Outcome, Rejection};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::invariants;
use crate::machine::Machine;
use crate::model::Model;
use crate::strategy::{Step, command, entries, history};

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

/// What the ledger says that it has changes nothing; what was just declared, it has.
fn has_what_it_has(steps: &[Step], questions: &[Command]) -> Result<(), TestCaseError> {
    let mut ledger = Ledger::empty();
    let entries = entries(steps);
    let mut asked: Vec<Command> = questions.iter().flat_map(alike).collect();
    for entry in &entries {
        let (outcomes, _) = Machine::apply(&mut ledger, entry);
        if let (Some(command), Some(Ok(outcome))) = (entry.commands.last(), outcomes.last())
            && is_had(command, outcome, &ledger)
        {
            prop_assert!(ledger.has(&command.source, &command.action), "it was just declared: {:#?}", command);
        }
        let clock = ledger.tables().clock();
        asked.extend(entry.commands.iter().flat_map(alike));
        // Enough of what was before: the history is long.
        asked.drain(..asked.len().saturating_sub(60));
        for command in &asked {
            if ledger.has(&command.source, &command.action) {
                let mut trial = ledger.clone();
                let entry =
                    Entry { index: entry.index + 1, term: 1, proposed_at: clock.time, commands: vec![command.clone()] };
                let (outcomes, changes) = Machine::apply(&mut trial, &entry);
                prop_assert!(changes.is_empty(), "it has {:#?}, but {:#?} and {:#?}", command, outcomes, changes);
                prop_assert_eq!(trial.rows(), ledger.rows(), "it has {:#?}", command);
            }
        }
    }
    Ok(())
}

/// A command, and those that differ from it in one thing.
fn alike(command: &Command) -> Vec<Command> {
    let mut other = command.action.clone();
    match &mut other {
        Action::PutPool(put) => put.uid = "other".into(),
        Action::DeletePool(delete) => delete.uid = "other".into(),
        Action::Reserve(reserve) => reserve.uid = "other".into(),
        Action::ReleaseReservation(release) => release.uid = "other".into(),
        Action::PutEgress(put) => put.uid = "other".into(),
        Action::PutNode(put) => put.ready = !put.ready,
        Action::Grant(grant) => grant.pools.truncate(1),
        Action::ReleaseGrant(release) => release.revision = None,
        _ => {}
    }
    let plain = |source, action| Command { source, only_in_term: None, action };
    let api = plain(holdfast_statemachine::Source::Api, command.action.clone());
    vec![plain(command.source.clone(), command.action.clone()), plain(command.source.clone(), other), api]
}

/// Commands that the ledger must know to have when they were the last thing done, unless what followed undid them.
fn is_had(command: &Command, outcome: &Outcome, ledger: &Ledger) -> bool {
    match &command.action {
        // An ordinal's Pod was bound; a release may have named another UID.
        Action::Grant(Grant { owner: Owner::Pod(_), .. })
        | Action::PutPool(_)
        | Action::PutNode(_)
        | Action::Reserve(_)
        | Action::PutEgress(_)
        | Action::ReleaseGrant(ReleaseGrant { revision: None, .. })
        | Action::DeletePool(_)
        | Action::DeleteEgress(_)
        | Action::DeleteNode(_)
        | Action::PutSettings(_)
        | Action::Drain(_)
        | Action::Undrain(_)
        | Action::Adopt(Adopt::Begin { .. } | Adopt::End) => true,
        Action::ReleaseReservation(release) => {
            let row = ledger.tables().reservations().get(&release.id);
            row.is_none_or(|row| row.source == command.source)
        }
        Action::Grant(_) => !outcome.granted.is_empty(),
        _ => false,
    }
}

/// What an action takes from ordinals that have no Pod is what the ledger tells of it before.
fn tells_what_goes(steps: &[Step], questions: &[Command]) -> Result<(), TestCaseError> {
    let mut ledger = Ledger::empty();
    let mut asked: Vec<Command> = questions.to_vec();
    for entry in &entries(steps) {
        Machine::apply(&mut ledger, entry);
        asked.extend(entry.commands.iter().cloned());
        asked.drain(..asked.len().saturating_sub(60));
        let grants = ledger.tables().grants();
        let proposed_at = ledger.tables().clock().time;
        for command in asked.iter().filter(|it| matches!(it.action, Action::Reserve(_) | Action::ReleaseReservation(_)))
        {
            let told = ledger.at_stake(&command.action).map(|(_, told)| told).unwrap_or_default();
            let mut trial = ledger.clone();
            let entry = Entry { index: entry.index + 1, term: 1, proposed_at, commands: vec![command.clone()] };
            Machine::apply(&mut trial, &entry);
            for (address, grant) in grants {
                let Holder::Ordinal { id, ordinal, .. } = &grant.holder else { continue };
                let row = ledger.tables().ordinals().get(&(id.clone(), *ordinal));
                let goes = !trial.tables().grants().contains_key(address);
                if goes && row.is_none_or(|row| row.pod.is_none()) {
                    let told = told.get(ordinal).is_some_and(|of| of.contains_key(address));
                    prop_assert!(told, "{} of {:?} {} goes with {:#?}", address, id, ordinal, command);
                }
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn what_goes_from_ordinals_without_a_pod_is_told_before(steps in history(1), questions in vec(command(), 0..12)) {
        tells_what_goes(&steps, &questions)?;
    }

    #[test]
    fn what_the_ledger_has_changes_nothing(steps in history(1), questions in vec(command(), 0..12)) {
        has_what_it_has(&steps, &questions)?;
    }

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
