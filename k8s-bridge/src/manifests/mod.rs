//! Manifests: files of Kubernetes objects, read whole or refused whole.
//!
//! - A path is a file, a directory or `-` (standard input). A file named by its path is read whatever its
//!   name; of a directory, the `.yaml`, `.yml` and `.json` files, and its directories, in name order; names
//!   that begin with a dot are passed over (a mounted ConfigMap keeps its versions there).
//! - A file holds any number of documents; a document is an object, or a list of them (`v1 List`, `PodList`,
//!   ...), nested at will. Documents that hold nothing are passed over and not counted.
//! - An object of another kind, or of another version of a kind, is skipped, with a note.
//! - Everything wrong is collected, over all files; with one problem nothing is given back.

mod documents;
mod files;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::objects::{Kind, Object, ObjectRef, reference_of};
use crate::problem::{FieldProblem, Place, Problem, shown};
use crate::translate;

/// The most that one file may hold, in bytes: some 50,000 objects.
pub const FILE_MAX: u64 = 64 * 1024 * 1024;

/// What the files hold.
#[derive(Debug, Default)]
pub struct Manifests {
    /// Every object of a kind that is read, in reading order.
    pub objects: Vec<Placed>,
    /// One line for each object that was skipped.
    pub notes: Vec<String>,
}

/// An object, and where it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// The object.
    pub object: Object,
    /// Where it was read.
    pub place: Place,
}

impl Manifests {
    /// The objects, in reading order.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        self.objects.iter().map(|placed| &placed.object)
    }
}

/// Reads all paths, in order. `stdin` is read where a path is `-`.
pub fn read(paths: &[PathBuf], stdin: &mut dyn Read) -> Result<Manifests, Vec<Problem>> {
    let mut reading = Reading::default();
    let (files, problems) = files::find(paths);
    reading.problems = problems;
    for file in files {
        match file.load(stdin) {
            Ok(bytes) => reading.text(&file.name(), &bytes, file.is_json()),
            Err(problem) => reading.problems.push(problem),
        }
    }
    reading.finish()
}

/// Reads one text as a file of this name; a name that ends in `.json` says that it is JSON.
pub fn read_text(name: &str, text: &str) -> Result<Manifests, Vec<Problem>> {
    let mut reading = Reading::default();
    let json = std::path::Path::new(name).extension().is_some_and(|extension| extension == "json");
    reading.text(&name.into(), text.as_bytes(), json);
    reading.finish()
}

#[derive(Default)]
struct Reading {
    manifests: Manifests,
    seen: BTreeMap<ObjectRef, Place>,
    problems: Vec<Problem>,
}

impl Reading {
    fn text(&mut self, file: &Arc<str>, bytes: &[u8], json: bool) {
        for document in documents::split(file, bytes, json) {
            match document {
                Ok((place, value)) => self.value(place, value, None),
                Err(problem) => self.problems.push(problem),
            }
        }
    }

    /// Takes in one object or list. `inherited` is what a typed list says of items that do not say it.
    fn value(&mut self, place: Place, value: Value, inherited: Option<&(String, String)>) {
        let Value::Object(mut fields) = value else {
            let reference = reference_of(&Value::Null);
            let value = shown(&value);
            let allowed = "an object with apiVersion, kind and metadata".to_owned();
            return self.refuse(place, FieldProblem { object: reference, field: ".".to_owned(), value, allowed });
        };
        if let Some((api_version, kind)) = inherited {
            fields.entry("apiVersion").or_insert_with(|| api_version.as_str().into());
            fields.entry("kind").or_insert_with(|| kind.as_str().into());
        }
        let (Some(api_version), Some(kind)) =
            (self.text_field(&place, &fields, "apiVersion"), self.text_field(&place, &fields, "kind"))
        else {
            return;
        };
        if let Some(item) = kind.strip_suffix("List")
            && let Some(items) = list_items(&mut fields, item)
        {
            let of = (!item.is_empty()).then(|| (api_version, item.to_owned()));
            for (i, value) in items.into_iter().enumerate() {
                let dot = if place.item.is_empty() { "" } else { "." };
                let item = format!("{}{dot}items[{i}]", place.item);
                self.value(Place { item, ..place.clone() }, value, of.as_ref());
            }
            return;
        }
        let value = Value::Object(fields);
        match Kind::find(&api_version, &kind) {
            Some(kind) => self.object(place, kind, &value),
            None => self.skip(&place, &api_version, &kind, &value),
        }
    }

    fn text_field(&mut self, place: &Place, fields: &Map<String, Value>, field: &str) -> Option<String> {
        let held = fields.get(field);
        if let Some(Value::String(text)) = held
            && !text.is_empty()
        {
            return Some(text.clone());
        }
        let object = reference_of(&Value::Object(fields.clone()));
        let value = held.map_or_else(|| "nothing".to_owned(), shown);
        let allowed = "every object says what it is: a text is required".to_owned();
        self.refuse(place.clone(), FieldProblem { object, field: field.to_owned(), value, allowed });
        None
    }

    fn skip(&mut self, place: &Place, api_version: &str, kind: &str, value: &Value) {
        let read = Kind::ALL.into_iter().find(|read| read.name() == kind);
        let why = match read {
            Some(read) => format!("only {} is read", read.api_version()),
            None => "not a kind that is read".to_owned(),
        };
        self.manifests.notes.push(format!("{place}: {} ({api_version}) skipped: {why}", reference_of(value)));
    }

    fn object(&mut self, place: Place, kind: Kind, value: &Value) {
        let object = match Object::from_value(kind, value) {
            Ok(object) => object,
            Err(problem) => return self.refuse(place, problem),
        };
        for problem in translate::check(&object) {
            self.refuse(place.clone(), problem);
        }
        let reference = object.reference();
        if let Some(first) = self.seen.get(&reference) {
            let (first, second) = (Box::new(first.clone()), Box::new(place));
            return self.problems.push(Problem::Duplicate { object: reference, first, second });
        }
        self.seen.insert(reference, place.clone());
        self.manifests.objects.push(Placed { object, place });
    }

    fn refuse(&mut self, place: Place, problem: FieldProblem) {
        self.problems.push(Problem::Field { place, problem: Box::new(problem) });
    }

    fn finish(self) -> Result<Manifests, Vec<Problem>> {
        if self.problems.is_empty() { Ok(self.manifests) } else { Err(self.problems) }
    }
}

/// The items of a list; `None` if this is no list but an object of a kind whose name ends like one.
fn list_items(fields: &mut Map<String, Value>, item: &str) -> Option<Vec<Value>> {
    match fields.get_mut("items") {
        Some(Value::Array(items)) => Some(std::mem::take(items)),
        Some(Value::Null) | None if item.is_empty() => Some(Vec::new()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
