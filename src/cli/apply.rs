//! `holdfast apply`: manifests into a running group.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use holdfast::wire::row::read_row;
use holdfast_api::{Client, v1};
use holdfast_bridge::manifests;
use holdfast_bridge::translate::{self, Plan};
use holdfast_statemachine::command::{Gone, ObjectId, Owner, Sweep};
use holdfast_statemachine::outcome::Note;
use holdfast_statemachine::{Action, Key, Name, Revision, Row, Source};

use super::asking::Asking;
use super::explain::kind_and_name;
use super::failure::Failure;
use super::outcome::{self, OutcomeView};
use super::output;
use super::proposal;

/// How often what changed during a sweep is looked at again.
const SWEEPS: usize = 3;

/// See `holdfast apply --help`.
#[derive(Args, Clone, Debug)]
pub struct ApplyArgs {
    /// Files or directories of manifests; - for standard input
    #[arg(short = 'f', long = "filename", value_name = "PATH", required = true, num_args = 1..)]
    paths: Vec<PathBuf>,
    /// Delete what was applied under the same --set and is not in these files
    #[arg(long)]
    prune: bool,
    /// The name of this set of manifests; objects of another set are not overwritten
    #[arg(long, default_value = "default", value_name = "NAME", value_parser = set_name)]
    set: String,
    /// Read, check and compare; change nothing
    #[arg(long)]
    dry_run: bool,
}

fn set_name(text: &str) -> Result<String, String> {
    let fits = !text.is_empty() && text.len() <= 253 && !text.chars().any(char::is_control);
    if fits { Ok(text.to_owned()) } else { Err("1 to 253 bytes without control characters".to_owned()) }
}

/// What the ledger holds of declarations, at one revision.
#[derive(Debug, Default)]
pub struct View {
    /// At which.
    pub revision: Revision,
    rows: BTreeMap<ObjectId, (Name, Source, Row)>,
}

impl View {
    /// Reads it.
    pub async fn read(client: &Client) -> Result<View, Failure> {
        let request = v1::RowsRequest { declarations_only: true, ..v1::RowsRequest::default() };
        let (header, rows) = client.rows(request).await?;
        let mut view = View { revision: header.revision, rows: BTreeMap::new() };
        for row in rows {
            let (key, row) = read_row(row)?;
            view.add(&key, row);
        }
        Ok(view)
    }

    fn add(&mut self, key: &Key, row: Row) {
        let declared = row.declaration(key).map(|(id, uid, source)| (id, uid.clone(), source.clone()));
        if let Some((id, uid, source)) = declared {
            self.rows.insert(id, (uid, source, row));
        }
    }

    fn has(&self, id: &ObjectId) -> bool {
        self.rows.contains_key(id)
    }

    /// The objects of this source that are not declared, with their UIDs; in the order in which they are deleted.
    pub fn gone(&self, source: &Source, declared: &BTreeMap<ObjectId, Name>) -> Vec<(ObjectId, Name)> {
        let gone = self.rows.iter().filter(|(id, (_, of, _))| of == source && !declared.contains_key(*id));
        let mut gone: Vec<(ObjectId, Name)> = gone.map(|(id, (uid, ..))| (id.clone(), uid.clone())).collect();
        // Egresses first, so that none is moved on its way out, pools last, so that none is retired for what goes too.
        gone.sort_by_key(|(id, _)| match id {
            ObjectId::Egress(_) => 0,
            ObjectId::Pod(..) => 1,
            ObjectId::Reservation(_) => 2,
            ObjectId::Node(_) => 3,
            ObjectId::Pool(_) => 4,
        });
        gone
    }

    /// Whether the object is declared here as it is there, whatever became of it.
    fn same(&self, other: &View, id: &ObjectId) -> bool {
        let content =
            |view: &View| view.rows.get(id).map(|(uid, source, row)| (uid.clone(), source.clone(), wanted(row)));
        content(self).is_some() && content(self) == content(other)
    }
}

/// What the declaration says, without what the ledger made of it.
fn wanted(row: &Row) -> String {
    match row {
        Row::Pool(row) => format!("{:?}", row.wanted),
        Row::Reservation(row) => format!("{:?}", row.spec),
        Row::Egress(row) => {
            let items: Vec<_> = row.items.iter().map(|item| (&item.pool, &item.asked)).collect();
            format!("{:?}", (row.plural, items, &row.rest))
        }
        Row::Node(row) => format!("{:?}", (&row.labels, row.ready, row.capacity)),
        Row::Ordinal(row) => format!("{:?}", row.pod),
        _ => String::new(),
    }
}

/// Reads manifests and translates them. What is skipped is told on standard error.
pub fn read(paths: &[PathBuf], source: &Source) -> Result<Plan, Failure> {
    let manifests = manifests::read(paths, &mut std::io::stdin().lock()).map_err(Failure::Manifests)?;
    let plan = translate::plan(manifests.objects(), source, None).map_err(Failure::Objects)?;
    manifests.notes.iter().for_each(output::remark);
    plan.notes.iter().for_each(output::remark);
    Ok(plan)
}

/// Proposes these in bounded batches, kind by kind.
pub async fn send(
    client: &Client,
    source: &Source,
    actions: &[Action],
    before: &View,
) -> Result<Vec<OutcomeView>, Failure> {
    let mut outcomes = Vec::new();
    for batch in proposal::batches(actions) {
        let results = proposal::declare(client, source, batch).await?;
        let views = batch.iter().zip(&results).map(|(action, result)| {
            let existed = object(action).map(|id| before.has(&id));
            OutcomeView::of(action, result, existed)
        });
        outcomes.extend(views);
    }
    Ok(outcomes)
}

/// The declared object that an action puts.
fn object(action: &Action) -> Option<ObjectId> {
    Some(match action {
        Action::PutPool(it) => ObjectId::Pool(it.pool.clone()),
        Action::Reserve(it) => ObjectId::Reservation(it.id.clone()),
        Action::PutEgress(it) => ObjectId::Egress(it.name.clone()),
        Action::PutNode(it) => ObjectId::Node(it.name.clone()),
        Action::Grant(it) => match &it.owner {
            Owner::Pod(pod) => ObjectId::Pod(pod.namespace.clone(), pod.name.clone()),
            Owner::Named { .. } => return None,
        },
        _ => return None,
    })
}

/// Deletes the objects of the source that are not declared and that nobody declared anew since `before` was read.
async fn prune(client: &Client, source: &Source, plan: &Plan, before: &View) -> Result<Vec<OutcomeView>, Failure> {
    let mut left = before.gone(source, &plan.declared);
    let mut unchanged_since = before.revision;
    let mut outcomes = Vec::new();
    for sweep in 1..=SWEEPS {
        let one = |(object, uid): &(ObjectId, Name)| {
            let gone = Gone { object: object.clone(), uid: uid.clone(), unchanged_since };
            Action::Sweep(Sweep { gone: vec![gone] })
        };
        let actions: Vec<Action> = left.iter().map(one).collect();
        let mut again = Vec::new();
        for (batch, objects) in actions.chunks(proposal::COMMANDS_MAX).zip(left.chunks(proposal::COMMANDS_MAX)) {
            let results = proposal::declare(client, source, batch).await?;
            for ((action, object), result) in batch.iter().zip(objects).zip(&results) {
                let alone = matches!(result, Ok(outcome) if outcome.notes.iter().any(|note| matches!(note, Note::LeftAlone { .. })));
                if alone && sweep < SWEEPS {
                    again.push(object.clone());
                } else {
                    outcomes.push(OutcomeView::of(action, result, None));
                }
            }
        }
        if again.is_empty() {
            break;
        }
        // What we just applied may have moved an Egress or met a reservation: that is no new declaration.
        let now = View::read(client).await?;
        again.retain(|(id, _)| now.same(before, id));
        (left, unchanged_since) = (again, now.revision);
    }
    Ok(outcomes)
}

/// Runs the verb.
pub async fn run(asking: &Asking, args: ApplyArgs) -> Result<(), Failure> {
    let source = Source::Manifests(args.set.into());
    let plan = read(&args.paths, &source)?;
    if plan.declared.is_empty() && plan.commands.is_empty() {
        return Err(Failure::Refused("the files hold no object of a kind that is read".to_owned()));
    }
    let client = asking.client()?;
    let before = View::read(&client).await?;
    if args.dry_run {
        return dry_run(&plan, &before, args.prune.then_some(&source));
    }
    let actions: Vec<Action> = plan.commands.iter().map(|command| command.action.clone()).collect();
    let mut outcomes = send(&client, &source, &actions, &before).await?;
    if args.prune {
        outcomes.extend(prune(&client, &source, &plan, &before).await?);
    }
    outcome::tell(asking.output, &outcomes)
}

fn dry_run(plan: &Plan, before: &View, prune: Option<&Source>) -> Result<(), Failure> {
    let ids: BTreeSet<&ObjectId> = plan.declared.keys().collect();
    for id in ids {
        let (kind, name) = kind_and_name(id);
        let word = if before.has(id) { "is there" } else { "would be created" };
        output::say(format_args!("{kind} {name} {word} (dry run)"))?;
    }
    for (id, _) in prune.map(|source| before.gone(source, &plan.declared)).unwrap_or_default() {
        let (kind, name) = kind_and_name(&id);
        output::say(format_args!("{kind} {name} would be deleted (dry run)"))?;
    }
    Ok(())
}
