//! What commands came to, one object a line.

use holdfast_statemachine::command::OwnerRef;
use holdfast_statemachine::outcome::{Granted, Move, Note};
use holdfast_statemachine::{Action, Outcome, Rejection};
use serde::Serialize;

use super::failure::Failure;
use super::holder::HolderView;
use super::output::{self, Format};
use super::waiting::ReasonView;
use super::words;

/// What a command came to.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutcomeView {
    /// The object's kind; empty for what concerns none.
    pub kind: &'static str,
    /// The object: `name` or `namespace/name`.
    pub name: String,
    /// `created`, `changed`, `unchanged`, `waiting`, `granted`, `released`, `deleted`, `kept`, `drained`,
    /// `undrained`, `pinned`, `unpinned` or `refused`.
    pub result: &'static str,
    /// The ledger's revision afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// Why it was refused: a stable code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// The same for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What it waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<ReasonView>,
    /// Addresses granted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<GrantedView>,
    /// Egress addresses moved.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<MoveView>,
    /// What else is worth saying.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<NoteView>,
}

/// A run of addresses granted together.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GrantedView {
    /// From this pool.
    pub pool: String,
    /// The lowest address.
    pub first: String,
    /// How many.
    pub count: u32,
    /// The ordinal of the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ordinal: Option<u32>,
    /// The grant's id.
    pub revision: u64,
    #[serde(skip)]
    short: String,
}

/// An Egress address moved.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MoveView {
    /// The Egress.
    pub egress: String,
    /// Which of its addresses.
    pub address: String,
    /// Where it was.
    pub from: Option<String>,
    /// Where it is.
    pub to: Option<String>,
}

/// Something else worth saying.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NoteView {
    /// A stable code.
    pub code: &'static str,
    /// The same for people.
    pub text: String,
    /// Who held it before, where that is what it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub former: Option<HolderView>,
}

impl OutcomeView {
    /// What this action came to. `existed`: whether its object was declared before, where that is known.
    pub fn of(action: &Action, result: &Result<Outcome, Rejection>, existed: Option<bool>) -> OutcomeView {
        let (kind, name) = subject(action);
        let mut view = OutcomeView {
            kind,
            name,
            result: "refused",
            revision: None,
            code: None,
            message: None,
            waiting: Vec::new(),
            granted: Vec::new(),
            moves: Vec::new(),
            notes: Vec::new(),
        };
        match result {
            Err(rejection) => {
                view.code = Some(rejection.code());
                view.message = Some(rejection.to_string());
            }
            Ok(outcome) => {
                view.result = word(action, outcome, existed);
                view.revision = Some(outcome.revision);
                view.waiting = outcome.waiting.iter().map(ReasonView::of).collect();
                view.granted = outcome.granted.iter().map(GrantedView::of).collect();
                view.moves = outcome.moves.iter().map(MoveView::of).collect();
                view.notes = outcome.notes.iter().map(NoteView::of).collect();
            }
        }
        view
    }

    /// Whether a rule said no.
    pub fn is_refused(&self) -> bool {
        self.result == "refused"
    }

    /// For people: `StatefulSet shop/web created: 10.2.2.100-104`.
    pub fn text(&self) -> String {
        let mut text = format!("{} {} {}", self.kind, self.name, self.result).trim().replace("  ", " ");
        let granted: Vec<&str> = self.granted.iter().map(|granted| granted.short.as_str()).collect();
        let waiting = self.waiting.iter().map(|reason| reason.text.clone());
        let mut said: Vec<String> = self.message.iter().cloned().chain(waiting).collect();
        if !granted.is_empty() {
            said.insert(0, granted.join(", "));
        }
        if !said.is_empty() {
            text = format!("{text}: {}", said.join("; "));
        }
        for it in &self.moves {
            let place = |node: &Option<String>| node.clone().unwrap_or_else(|| "no Node".to_owned());
            text = format!("{text}\n  {} {}: {} -> {}", it.egress, it.address, place(&it.from), place(&it.to));
        }
        for note in &self.notes {
            text = format!("{text}\n  note: {}", note.text);
        }
        text
    }
}

fn word(action: &Action, outcome: &Outcome, existed: Option<bool>) -> &'static str {
    let (done, not_done) = match action {
        Action::PutPool(_) | Action::Reserve(_) | Action::PutEgress(_) | Action::PutNode(_) => {
            (if existed == Some(false) { "created" } else { "changed" }, "unchanged")
        }
        Action::Grant(_) => ("granted", "unchanged"),
        Action::ReleaseGrant(_) => ("released", "kept"),
        Action::DeletePool(_)
        | Action::ReleaseReservation(_)
        | Action::DeleteEgress(_)
        | Action::DeleteNode(_)
        | Action::Sweep(_) => ("deleted", "kept"),
        Action::Drain(_) => ("drained", "unchanged"),
        Action::Undrain(_) => ("undrained", "unchanged"),
        Action::Pin(_) => ("pinned", "unchanged"),
        Action::Unpin(_) => ("unpinned", "unchanged"),
        Action::Rebalance(_) | Action::PutSettings(_) | Action::Observe(_) => ("changed", "unchanged"),
        Action::Adopt(_) => ("adopted", "unchanged"),
    };
    match (outcome.waiting.is_empty(), outcome.changed) {
        (false, _) => "waiting",
        (true, true) => done,
        (true, false) => not_done,
    }
}

/// The kind and the name of the object that an action names.
fn subject(action: &Action) -> (&'static str, String) {
    let pool = |id: &holdfast_statemachine::PoolId| (super::pool::kind_name(id.kind), id.name.to_string());
    match action {
        Action::PutPool(it) => pool(&it.pool),
        Action::DeletePool(it) => pool(&it.pool),
        Action::Reserve(it) => ("StatefulSet", it.id.to_string()),
        Action::ReleaseReservation(it) => ("StatefulSet", it.id.to_string()),
        Action::Grant(it) => owner(&it.owner),
        Action::ReleaseGrant(it) => match &it.owner {
            OwnerRef::Named(name) => ("owner", name.to_string()),
            OwnerRef::Pod(namespace, name) => ("Pod", format!("{namespace}/{name}")),
        },
        Action::PutEgress(it) => ("Egress", it.name.to_string()),
        Action::DeleteEgress(it) => ("Egress", it.name.to_string()),
        Action::PutNode(it) => ("Node", it.name.to_string()),
        Action::DeleteNode(it) => ("Node", it.name.to_string()),
        Action::Drain(it) => ("Node", it.node.to_string()),
        Action::Undrain(it) => ("Node", it.node.to_string()),
        Action::Pin(it) => ("Egress", it.egress.to_string()),
        Action::Unpin(it) => ("Egress", it.egress.to_string()),
        Action::Rebalance(_) => ("", "placements".to_owned()),
        Action::PutSettings(_) => ("", "settings".to_owned()),
        Action::Sweep(it) => match it.gone.as_slice() {
            [gone] => super::explain::kind_and_name(&gone.object),
            gone => ("", words::counted(gone.len() as u64, "object", "objects")),
        },
        Action::Observe(it) => ("IPPool", it.pool.to_string()),
        Action::Adopt(_) => ("", "what the API says".to_owned()),
    }
}

fn owner(owner: &holdfast_statemachine::command::Owner) -> (&'static str, String) {
    use holdfast_statemachine::command::Owner;
    match owner {
        Owner::Named { name, .. } => ("owner", name.to_string()),
        Owner::Pod(pod) => ("Pod", format!("{}/{}", pod.namespace, pod.name)),
    }
}

impl GrantedView {
    fn of(granted: &Granted) -> GrantedView {
        GrantedView {
            pool: granted.pool.to_string(),
            first: granted.first.to_string(),
            count: granted.count,
            ordinal: granted.ordinal,
            revision: granted.revision,
            short: words::run(granted.first, granted.count),
        }
    }
}

impl MoveView {
    fn of(it: &Move) -> MoveView {
        MoveView {
            egress: it.egress.to_string(),
            address: it.address.to_string(),
            from: it.from.as_ref().map(ToString::to_string),
            to: it.to.as_ref().map(ToString::to_string),
        }
    }
}

impl NoteView {
    fn of(note: &Note) -> NoteView {
        let (code, text, former) = match note {
            Note::NotHeld { held_by_uid: None, .. } => {
                ("NotHeld", "it holds nothing: nothing was done".to_owned(), None)
            }
            Note::NotHeld { held_by_uid: Some(uid), .. } => {
                ("NotHeld", format!("what stands belongs to UID {uid:?}: nothing was done"), None)
            }
            Note::WasCooling { former } => {
                ("WasCooling", format!("{former} held it within the pool's cool-down"), Some(HolderView::of(former)))
            }
            Note::WasHeadroom { of } => ("WasHeadroom", format!("it was headroom of StatefulSet {of}"), None),
            Note::CapacityClamped { asked, used } => {
                ("CapacityClamped", format!("capacity {asked} is outside 0..=255: {used} is used"), None)
            }
            Note::LeftAlone { objects } => (
                "LeftAlone",
                format!("{} changed meanwhile, left alone", words::counted(*objects, "object", "objects")),
                None,
            ),
            Note::Retired { held } => (
                "Retired",
                format!(
                    "{} still held: the pool is retired until they are freed",
                    words::counted(*held, "address is", "addresses are")
                ),
                None,
            ),
            Note::Conflict(conflict) => ("Conflict", conflict.to_string(), None),
        };
        NoteView { code, text, former }
    }
}

/// Prints outcomes and fails if one was refused.
pub fn tell(format: Format, outcomes: &[OutcomeView]) -> Result<(), Failure> {
    match format {
        Format::Table => outcomes.iter().filter(|it| !it.is_refused()).try_for_each(|it| output::say(it.text()))?,
        format => output::value(format, &Results { results: outcomes })?,
    }
    let refused: Vec<String> = outcomes.iter().filter(|it| it.is_refused()).map(OutcomeView::text).collect();
    if refused.is_empty() { Ok(()) } else { Err(Failure::Refused(refused.join("\n"))) }
}

#[derive(Serialize)]
struct Results<'a> {
    results: &'a [OutcomeView],
}
