//! What goes to standard output, and in which form.

use std::fmt::Display;
use std::io::Write;

use clap::ValueEnum;
use holdfast_api::v1;
use holdfast_bridge::export;
use serde::Serialize;

use super::failure::Failure;
use super::words;

/// The form of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Columns for people.
    #[default]
    Table,
    /// JSON, for programs.
    Json,
    /// YAML, for programs.
    Yaml,
}

/// Writes one line, or several, and a newline.
pub fn say(text: impl Display) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()?;
    Ok(())
}

/// Writes a line to standard error, where it does not mix with what programs read.
pub fn remark(text: impl Display) {
    eprintln!("{text}");
}

/// Writes a value whole: indented JSON, or a YAML document.
pub fn value(format: Format, value: &impl Serialize) -> Result<(), Failure> {
    let text = match format {
        Format::Json => export::to_json(value)?,
        Format::Yaml | Format::Table => export::to_yaml(value)?,
    };
    say(text.trim_end())
}

/// Writes one of many values that come in turn: a line of JSON, or a YAML document behind `---`.
pub fn next_value(format: Format, value: &impl Serialize) -> Result<(), Failure> {
    if format == Format::Json {
        let text = serde_json::to_string(value).map_err(|error| Failure::Refused(error.to_string()))?;
        return say(text);
    }
    say(format_args!("---\n{}", export::to_yaml(value)?.trim_end()))
}

/// Which state an answer shows, and who gave it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The ledger's revision.
    pub revision: u64,
    /// The log index that the answer includes.
    pub index: u64,
    /// The ledger's time.
    pub time: String,
    /// The group.
    pub cluster_id: String,
    /// The replica's name.
    pub served_by: String,
    /// Only of a stale read: how old it may be, in milliseconds; `null`: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_by_ms: Option<u64>,
}

impl Header {
    /// Reads the header of an answer; one that is missing is all empty.
    pub fn read(header: Option<v1::Header>) -> Header {
        let header = header.unwrap_or_default();
        Header {
            revision: header.revision,
            index: header.index,
            time: words::time(header.time_ms),
            cluster_id: header.cluster_id,
            served_by: header.served_by,
            stale_by_ms: header.stale_by_ms,
        }
    }
}

/// A list for programs.
#[derive(Serialize)]
pub struct Items<'a, T> {
    #[serde(flatten)]
    header: &'a Header,
    items: &'a [T],
}

impl<'a, T> Items<'a, T> {
    /// These, at that state.
    pub fn new(header: &'a Header, items: &'a [T]) -> Self {
        Items { header, items }
    }
}

/// One object for programs.
#[derive(Serialize)]
pub struct Item<'a, T> {
    #[serde(flatten)]
    header: &'a Header,
    item: &'a T,
}

impl<'a, T> Item<'a, T> {
    /// This, at that state.
    pub fn new(header: &'a Header, item: &'a T) -> Self {
        Item { header, item }
    }
}
