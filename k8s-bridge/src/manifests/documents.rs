//! The documents of a file, as untyped values.

use std::io::Cursor;
use std::sync::Arc;

use serde_json::Value;
use serde_saphyr::{Options, Spanned};

use super::FILE_MAX;
use crate::problem::{Place, Problem};

/// The most nodes (scalars, sequences, mappings) of a YAML document, aliases expanded: what [`FILE_MAX`] of ordinary
/// objects holds, and no more than some hundred MiB of memory.
const NODES_MAX: usize = 2_000_000;
/// The most parser events that aliases may stand for: an anchor used a few hundred times, not an alias bomb.
const REPLAYED_MAX: usize = 100_000;

/// Each document that holds anything, or what is wrong with it. JSON is also recognised by its first character, so
/// that standard input needs no name; what is not JSON after all is read as YAML.
pub(super) fn split(file: &Arc<str>, bytes: &[u8], json: bool) -> Vec<Result<(Place, Value), Problem>> {
    if json {
        return split_json(file, bytes);
    }
    if bytes.trim_ascii_start().starts_with(b"{") {
        let documents = split_json(file, bytes);
        if documents.iter().all(Result::is_ok) {
            return documents;
        }
    }
    split_yaml(file, bytes)
}

fn place(file: &Arc<str>, document: usize, line: u64) -> Place {
    Place { file: file.clone(), document, line, item: String::new() }
}

fn split_json(file: &Arc<str>, bytes: &[u8]) -> Vec<Result<(Place, Value), Problem>> {
    let values = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    let numbered = values.enumerate().map(|(i, value)| {
        let place = place(file, i + 1, 0);
        match value {
            Ok(value) => Ok((place, value)),
            Err(error) => Err(Problem::Syntax { place, message: error.to_string() }),
        }
    });
    numbered.collect()
}

fn split_yaml(file: &Arc<str>, bytes: &[u8]) -> Vec<Result<(Place, Value), Problem>> {
    let mut cursor = Cursor::new(bytes);
    let values = serde_saphyr::read_with_options::<_, Spanned<Value>>(&mut cursor, options());
    let numbered = values.enumerate().map(|(i, value)| match value {
        Ok(value) => Ok((place(file, i + 1, value.referenced.line()), value.value)),
        Err(error) => {
            let line = error.location().map_or(0, |location| location.line());
            Err(Problem::Syntax { place: place(file, i + 1, line), message: one_line(&error) })
        }
    });
    numbered.collect()
}

fn one_line(error: &serde_saphyr::Error) -> String {
    error.without_snippet().to_string().lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_reader_input_bytes: usize::try_from(FILE_MAX).ok(),
            max_events: 3 * NODES_MAX,
            max_nodes: NODES_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: REPLAYED_MAX },
        with_snippet: false,
        emit_comments: false,
    }
}
