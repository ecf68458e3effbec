//! What is wrong with what was given.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::objects::ObjectRef;

/// Where an object was read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file as named, or `-` for standard input.
    pub file: Arc<str>,
    /// Which document of the file that holds anything, from 1.
    pub document: usize,
    /// The line on which the document begins, from 1; 0 where it is not known (JSON).
    pub line: u64,
    /// Which item of a list in it: `items[2]`, `items[0].items[1]`; empty for the document itself.
    pub item: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: document {}", self.file, self.document)?;
        if self.line > 0 {
            write!(f, " (line {})", self.line)?;
        }
        if !self.item.is_empty() {
            write!(f, ", {}", self.item)?;
        }
        Ok(())
    }
}

/// A field of an object that does not hold what it may.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{object}: {field}: {value} is not allowed: {allowed}")]
pub struct FieldProblem {
    /// The object, as far as it is known.
    pub object: ObjectRef,
    /// The field's path: `spec.ipRanges[0].cidr`, `metadata.annotations[holdfast.dev/headroom]`.
    pub field: String,
    /// What it holds, as JSON, cut to 200 characters; `nothing` where it is missing.
    pub value: String,
    /// What would be allowed.
    pub allowed: String,
}

impl FieldProblem {
    /// A problem with a field that holds text.
    pub(crate) fn text(object: &ObjectRef, field: impl Into<String>, value: &str, allowed: impl Into<String>) -> Self {
        let value = serde_json::Value::from(value);
        FieldProblem { object: object.clone(), field: field.into(), value: shown(&value), allowed: allowed.into() }
    }

    /// A problem with a field that is not there.
    pub(crate) fn missing(object: &ObjectRef, field: impl Into<String>, allowed: impl Into<String>) -> Self {
        let value = "nothing".to_owned();
        FieldProblem { object: object.clone(), field: field.into(), value, allowed: allowed.into() }
    }
}

/// A value as JSON, cut to 200 characters.
pub(crate) fn shown(value: &serde_json::Value) -> String {
    const LONGEST: usize = 200;
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Why manifests are refused.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// A file or directory cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A file is larger than is read.
    #[error("{file}: larger than {limit} bytes")]
    TooLarge {
        /// Which.
        file: Arc<str>,
        /// The most that is read, in bytes.
        limit: u64,
    },
    /// More files than are read at once, or directories nested too deep.
    #[error("{}: {what}: at most {limit}", path.display())]
    TooMany {
        /// Where it was noticed.
        path: PathBuf,
        /// What there is too much of.
        what: &'static str,
        /// How many are allowed.
        limit: usize,
    },
    /// A document is neither YAML nor JSON, or passes a bound of the reader (depth, nodes, aliases).
    #[error("{place}: {message}")]
    Syntax {
        /// Which document.
        place: Place,
        /// What the parser says, with line and column.
        message: String,
    },
    /// A field does not hold what it may.
    #[error("{place}: {problem}")]
    Field {
        /// Where the object was read.
        place: Place,
        /// Which field. Boxed: it is large, and a `Result` is as large as its error.
        problem: Box<FieldProblem>,
    },
    /// One object is given twice.
    #[error("{second}: {object} was given already, at {first}")]
    Duplicate {
        /// The object.
        object: ObjectRef,
        /// Where it was read first.
        first: Box<Place>,
        /// Where it was read again.
        second: Box<Place>,
    },
    /// An object cannot be written as text.
    #[error("cannot be written as {format}: {message}")]
    Unwritable {
        /// YAML or JSON.
        format: &'static str,
        /// What the writer says.
        message: String,
    },
}
