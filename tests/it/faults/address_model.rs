//! What one address does when its calls come one after the other, for the checker of histories.

use super::linearizability::{Model, Operation, check};

/// One address and the owners that want it, each of which wants no other.
#[derive(Debug)]
pub(crate) struct Address;

/// What is asked of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Grant it to this owner.
    Grant(u32),
    /// End this owner's grant.
    Release(u32),
    /// Who holds it?
    Read,
}

/// What is answered. Revisions are those of the grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The owner holds it.
    Granted {
        /// Since when.
        revision: u64,
        /// Whether since this call.
        changed: bool,
    },
    /// Another owner holds it.
    HeldBy(u32),
    /// The grant is ended.
    Released,
    /// The owner did not hold it.
    NotHeld,
    /// Who holds it, and since when.
    Holder(Option<(u32, u64)>),
}

/// An address between two calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// Who holds it, and since when, where that was told.
    holder: Option<(u32, Option<u64>)>,
    /// The latest revision told of any grant of it.
    latest: u64,
}

impl State {
    /// The same, once it is known that the holder holds it since this revision.
    fn seen(&self, owner: u32, revision: u64) -> Option<State> {
        match self.holder {
            Some((holder, Some(since))) if holder == owner && since == revision => Some(self.clone()),
            Some((holder, None)) if holder == owner && revision > self.latest => {
                Some(State { holder: Some((owner, Some(revision))), latest: revision })
            }
            _ => None,
        }
    }
}

impl Model for Address {
    type State = State;
    type Call = Call;
    type Reply = Reply;

    fn start() -> State {
        State { holder: None, latest: 0 }
    }

    fn step(state: &State, call: &Call, reply: Option<&Reply>) -> Option<State> {
        let free = State { holder: None, latest: state.latest };
        match (*call, state.holder, reply.copied()) {
            (Call::Grant(owner), None, None) => Some(State { holder: Some((owner, None)), ..free }),
            (Call::Grant(owner), None, Some(Reply::Granted { revision, changed: true })) if revision > state.latest => {
                Some(State { holder: Some((owner, Some(revision))), latest: revision })
            }
            (Call::Grant(owner), Some((holder, _)), Some(Reply::Granted { revision, changed: false }))
                if holder == owner =>
            {
                state.seen(owner, revision)
            }
            (Call::Grant(owner), Some((holder, _)), Some(Reply::HeldBy(by))) if holder == by && by != owner => {
                Some(state.clone())
            }
            (Call::Release(owner), Some((holder, _)), None | Some(Reply::Released)) if holder == owner => Some(free),
            (Call::Release(owner), holder, Some(Reply::NotHeld))
                if holder.is_none_or(|(holder, _)| holder != owner) =>
            {
                Some(state.clone())
            }
            (Call::Read, Some(_), Some(Reply::Holder(Some((by, revision))))) => state.seen(by, revision),
            // The last: of unknown fate, and it would change nothing here.
            (Call::Read, None, Some(Reply::Holder(None))) | (_, _, None) => Some(state.clone()),
            _ => None,
        }
    }
}

/// Client, call, when it was invoked, the reply and its time.
type Told = (usize, Call, u64, Option<(Reply, u64)>);

fn history(calls: &[Told]) -> Vec<Operation<Call, Reply>> {
    calls.iter().map(|&(client, call, invoked, reply)| Operation { client, call, invoked, reply }).collect()
}

fn granted(revision: u64) -> Reply {
    Reply::Granted { revision, changed: true }
}

#[test]
fn histories_with_an_order_are_accepted() {
    use Call::{Grant, Read, Release};
    let good: &[&[Told]] = &[
        &[],
        // One after the other.
        &[
            (0, Grant(1), 0, Some((granted(5), 1))),
            (1, Grant(2), 2, Some((Reply::HeldBy(1), 3))),
            (0, Release(1), 4, Some((Reply::Released, 5))),
            (1, Grant(2), 6, Some((granted(9), 7))),
            (2, Read, 8, Some((Reply::Holder(Some((2, 9))), 9))),
        ],
        // Two at once: the second to be invoked came first.
        &[(0, Grant(1), 0, Some((Reply::HeldBy(2), 3))), (1, Grant(2), 1, Some((granted(1), 2)))],
        // Two reads during one grant, before and after it.
        &[
            (0, Grant(1), 0, Some((granted(1), 5))),
            (1, Read, 1, Some((Reply::Holder(None), 2))),
            (1, Read, 3, Some((Reply::Holder(Some((1, 1))), 4))),
        ],
        // A grant of unknown fate was done, late, and its repetition says since when.
        &[
            (0, Grant(1), 0, None),
            (1, Read, 1, Some((Reply::Holder(None), 2))),
            (0, Grant(1), 3, Some((Reply::Granted { revision: 4, changed: false }, 4))),
            (1, Read, 5, Some((Reply::Holder(Some((1, 4))), 6))),
        ],
        // One of unknown fate was never done.
        &[(0, Grant(1), 0, None), (1, Read, 1, Some((Reply::Holder(None), 2)))],
        // A release of unknown fate took effect after a later grant of the same owner.
        &[
            (0, Grant(1), 0, Some((granted(1), 1))),
            (0, Release(1), 2, None),
            (0, Grant(1), 3, Some((Reply::Granted { revision: 1, changed: false }, 4))),
            (1, Read, 5, Some((Reply::Holder(None), 6))),
        ],
    ];
    for calls in good {
        check::<Address>(&history(calls)).unwrap_or_else(|error| panic!("{calls:?}: {error}"));
    }
}

#[test]
fn histories_without_an_order_are_refused() {
    use Call::{Grant, Read, Release};
    let bad: &[&[Told]] = &[
        // An acknowledged grant is lost.
        &[(0, Grant(1), 0, Some((granted(1), 1))), (1, Read, 2, Some((Reply::Holder(None), 3)))],
        // Two hold it.
        &[(0, Grant(1), 0, Some((granted(1), 2))), (1, Grant(2), 1, Some((granted(2), 3)))],
        // A read goes back in time.
        &[
            (0, Grant(1), 0, Some((granted(1), 5))),
            (1, Read, 1, Some((Reply::Holder(Some((1, 1))), 2))),
            (2, Read, 3, Some((Reply::Holder(None), 4))),
        ],
        // A grant that nobody asked for.
        &[(0, Read, 0, Some((Reply::Holder(Some((1, 1))), 1)))],
        // One asked for only later.
        &[(0, Read, 0, Some((Reply::Holder(Some((1, 1))), 1))), (1, Grant(1), 2, None)],
        // A release that was acknowledged, and undone.
        &[
            (0, Grant(1), 0, Some((granted(1), 1))),
            (0, Release(1), 2, Some((Reply::Released, 3))),
            (1, Read, 4, Some((Reply::Holder(Some((1, 1))), 5))),
        ],
        // A grant of unknown fate done twice: its second effect would need another call.
        &[
            (0, Grant(1), 0, None),
            (1, Read, 1, Some((Reply::Holder(Some((1, 1))), 2))),
            (1, Release(1), 3, Some((Reply::Released, 4))),
            (1, Read, 5, Some((Reply::Holder(Some((1, 6))), 6))),
        ],
        // Revisions go down.
        &[
            (0, Grant(1), 0, Some((granted(5), 1))),
            (0, Release(1), 2, Some((Reply::Released, 3))),
            (0, Grant(1), 4, Some((granted(4), 5))),
        ],
        // Refused though it was free all the time.
        &[(0, Grant(1), 0, Some((Reply::HeldBy(2), 1)))],
    ];
    for calls in bad {
        let error = check::<Address>(&history(calls)).expect_err(&format!("{calls:?}"));
        assert!(error.ordered < error.of, "{calls:?}: {error}");
    }
}

/// Any one reply that is changed in a long history with an order takes the order away.
#[test]
fn one_wrong_reply_in_a_long_history_is_found() {
    let mut calls = Vec::new();
    for round in 0..200_u64 {
        let time = round * 10;
        let (owner, other) = (u32::try_from(round % 7).unwrap(), 9);
        calls.push((0, Call::Grant(owner), time, Some((granted(round + 1), time + 3))));
        calls.push((1, Call::Grant(other), time + 4, Some((Reply::HeldBy(owner), time + 5))));
        calls.push((2, Call::Read, time + 1, Some((Reply::Holder(Some((owner, round + 1))), time + 6))));
        calls.push((0, Call::Release(owner), time + 7, Some((Reply::Released, time + 8))));
    }
    check::<Address>(&history(&calls)).unwrap_or_else(|error| panic!("{error}"));
    for wrong in 0..calls.len() {
        let mut calls = calls.clone();
        let reply = match calls[wrong].1 {
            Call::Grant(9) => Reply::HeldBy(8),
            Call::Grant(_) => Reply::Granted { revision: 1_000_000, changed: true },
            Call::Release(_) => Reply::NotHeld,
            Call::Read => Reply::Holder(Some((9, 5_000))),
        };
        let time = calls[wrong].3.expect("all have one").1;
        calls[wrong].3 = Some((reply, time));
        check::<Address>(&history(&calls)).expect_err(&format!("reply {wrong} is wrong"));
    }
}
