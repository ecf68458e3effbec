//! Logs: text or JSON, to standard error, so that standard output is what was asked for.

use clap::ValueEnum;
use serde::Deserialize;
use tracing_subscriber::EnvFilter;

use crate::cli::Failure;

/// The form of a line of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// For people
    #[default]
    Text,
    /// One JSON object a line
    Json,
}

/// Starts logging what `level` lets through: `info`, or directives such as `info,holdfast_raft=debug`.
pub fn start(format: Format, level: &str) -> Result<(), Failure> {
    let filter = EnvFilter::builder().parse(level).map_err(|error| {
        let allowed = "error, warn, info, debug, trace, or directives such as info,holdfast_raft=debug";
        Failure::Usage(format!("log-level: {level:?} is not allowed: {allowed} ({error})"))
    })?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match format {
        Format::Text => lines.with_ansi(false).try_init(),
        Format::Json => lines.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| Failure::Replica(error.to_string()))
}
