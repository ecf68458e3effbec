//! Sending commands to the group.

use holdfast::wire::{self, Wire};
use holdfast_api::{Client, v1};
use holdfast_statemachine::{Action, Outcome, Rejection, Source};
use prost::Message as _;

use super::asking::Asking;
use super::failure::Failure;
use super::outcome::{self, OutcomeView};

/// The most commands of one proposal: an entry is applied in one go, and readers wait for it.
pub const COMMANDS_MAX: usize = 500;
/// The most bytes of one proposal; an entry holds at most 1 MiB.
const BYTES_MAX: usize = 512 * 1024;

/// What came of each command, in order.
pub type Results = Vec<Result<Outcome, Rejection>>;

/// Proposes these as one entry. They are repeated, if need be, until answered: that is safe for all that are
/// declarative.
pub async fn declare(client: &Client, source: &Source, actions: &[Action]) -> Result<Results, Failure> {
    let answer = client.propose_repeatedly(request(source, actions)).await?;
    Ok(wire::list("results", answer.results)?)
}

/// Splits commands into proposals: none mixes kinds of object, none is above a bound.
pub fn batches(actions: &[Action]) -> Vec<&[Action]> {
    let mut batches = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (at, action) in actions.iter().enumerate() {
        let size = action.to_message().encoded_len();
        let other = std::mem::discriminant(action) != std::mem::discriminant(&actions[start]);
        if other || at - start == COMMANDS_MAX || bytes + size > BYTES_MAX {
            batches.push(&actions[start..at]);
            (start, bytes) = (at, 0);
        }
        bytes += size;
    }
    batches.push(&actions[start..]);
    batches.retain(|batch| !batch.is_empty());
    batches
}

/// Proposes an operator's command once: what may have been done is not repeated, but told with exit code 4.
pub async fn operate(asking: &Asking, action: Action) -> Result<(), Failure> {
    let client = asking.client()?;
    let answer = client.propose(request(&Source::Api, std::slice::from_ref(&action))).await?;
    let results: Results = wire::list("results", answer.results)?;
    let outcomes: Vec<OutcomeView> = results.iter().map(|result| OutcomeView::of(&action, result, None)).collect();
    outcome::tell(asking.output, &outcomes)
}

fn request(source: &Source, actions: &[Action]) -> v1::ProposeRequest {
    v1::ProposeRequest { source: source.to_string(), commands: wire::messages(actions) }
}

#[cfg(test)]
mod tests {
    use holdfast_statemachine::command::{DeleteEgress, DeleteNode};

    use super::*;

    #[test]
    fn a_batch_holds_one_kind_and_no_more_than_its_bounds() {
        let node = |at: usize| Action::DeleteNode(DeleteNode { name: format!("n{at}").into(), uid: "".into() });
        let egress = |text: usize| Action::DeleteEgress(DeleteEgress { name: "x".repeat(text).into(), uid: "".into() });
        let mut actions: Vec<Action> = (0..=COMMANDS_MAX).map(node).collect();
        actions.extend([egress(BYTES_MAX / 2), egress(BYTES_MAX / 2 + 1), egress(1)]);
        let sizes: Vec<usize> = batches(&actions).iter().map(|batch| batch.len()).collect();
        assert_eq!(sizes, [COMMANDS_MAX, 1, 1, 2]);
        assert!(batches(&[]).is_empty());
    }
}
