//! Following the files of a directory: what changed of them is applied again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use holdfast_api::Client;
use holdfast_bridge::translate::{self, Plan};
use holdfast_statemachine::{Action, Source};
use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecursiveMode, Watcher};
use tokio::sync::mpsc;

use crate::cli::{self, Failure};

/// Files are read once nothing was written for so long: an editor may write several times.
const QUIET: Duration = Duration::from_millis(100);

/// What the files said last, and what of it the group was told.
pub struct Applied {
    client: Client,
    source: Source,
    paths: Vec<PathBuf>,
    told: Vec<Action>,
}

/// What came of applying the files.
pub struct Told {
    /// How many objects the files declare.
    pub objects: usize,
    /// What a rule said no to.
    pub refused: Vec<String>,
    /// How many commands were proposed.
    pub proposed: usize,
}

impl Applied {
    /// Nothing yet.
    pub fn new(client: Client, source: Source, paths: Vec<PathBuf>) -> Applied {
        Applied { client, source, paths, told: Vec::new() }
    }

    /// Reads the files again and applies what differs from what was told last.
    pub async fn again(&mut self) -> Result<Told, Failure> {
        let plan = cli::read_manifests(&self.paths, &self.source)?;
        self.apply(plan).await
    }

    /// Applies what differs from what was told last; objects that are not declared any more are deleted.
    pub async fn apply(&mut self, plan: Plan) -> Result<Told, Failure> {
        let actions: Vec<Action> = plan.commands.into_iter().map(|command| command.action).collect();
        let new: Vec<Action> = actions.iter().filter(|action| !self.told.contains(action)).cloned().collect();
        let view = cli::View::read(&self.client).await?;
        let mut outcomes = cli::send_actions(&self.client, &self.source, &new, &view).await?;
        let gone = view.gone(&self.source, &plan.declared);
        let deletions = translate::deletions(&gone, &self.source, None);
        let deletions: Vec<Action> = deletions.into_iter().map(|command| command.action).collect();
        outcomes.extend(cli::send_actions(&self.client, &self.source, &deletions, &view).await?);
        self.told = actions;
        let refused = outcomes.iter().filter(|outcome| outcome.is_refused()).map(cli::OutcomeView::text).collect();
        Ok(Told { objects: plan.declared.len(), refused, proposed: new.len() + deletions.len() })
    }
}

/// Tells when something was written below the paths.
pub struct Files {
    // Ends its watching when it is dropped.
    _watcher: notify::RecommendedWatcher,
    written: mpsc::Receiver<()>,
}

impl Files {
    /// Watches from now on.
    pub fn watch(paths: &[PathBuf]) -> Result<Files, Failure> {
        // One place is enough: it says "since you last looked".
        let (tell, written) = mpsc::channel(1);
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let kind = event.map_or(EventKind::Any, |event| event.kind);
            // Our own reading is no reason to read again.
            let written = !kind.is_access() || kind == EventKind::Access(AccessKind::Close(AccessMode::Write));
            if written && tell.try_send(()).is_err() {
                // It is told already, or nobody listens any more.
            }
        })
        .map_err(failed)?;
        for path in paths {
            if path.is_dir() {
                watcher.watch(path, RecursiveMode::Recursive).map_err(failed)?;
            } else {
                // Editors put a new file in the place of the old one: only the directory sees both.
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                watcher.watch(parent.unwrap_or(Path::new(".")), RecursiveMode::NonRecursive).map_err(failed)?;
            }
        }
        Ok(Files { _watcher: watcher, written })
    }

    /// Resolves when something was written and then nothing for a moment. `None`: the watching has ended.
    pub async fn written(&mut self) -> Option<()> {
        self.written.recv().await?;
        while let Ok(more) = tokio::time::timeout(QUIET, self.written.recv()).await {
            more?;
        }
        Some(())
    }
}

#[allow(clippy::needless_pass_by_value)]
fn failed(error: notify::Error) -> Failure {
    Failure::Replica(format!("watching the files: {error}"))
}
