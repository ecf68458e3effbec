//! Which files a list of paths names.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::FILE_MAX;
use crate::problem::Problem;

/// The most files that are read at once: a directory named by mistake should end early.
const FILES_MAX: usize = 10_000;
/// How deep directories are followed: a symbolic link to its own parent has an end.
const DEPTH_MAX: usize = 16;
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// One input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// Standard input.
    Stdin,
    /// A file.
    File(PathBuf),
}

impl Input {
    pub(super) fn name(&self) -> Arc<str> {
        match self {
            Input::Stdin => "-".into(),
            Input::File(path) => path.to_string_lossy().into(),
        }
    }

    pub(super) fn is_json(&self) -> bool {
        matches!(self, Input::File(path) if path.extension().is_some_and(|extension| extension == "json"))
    }

    /// All of it, at most [`FILE_MAX`] bytes.
    pub(super) fn load(&self, stdin: &mut dyn Read) -> Result<Vec<u8>, Problem> {
        let read = match self {
            Input::Stdin => bounded(stdin),
            Input::File(path) => File::open(path).and_then(bounded),
        };
        let bytes = read.map_err(|error| Problem::Unreadable { path: PathBuf::from(self.name().as_ref()), error })?;
        if bytes.len() as u64 > FILE_MAX {
            return Err(Problem::TooLarge { file: self.name(), limit: FILE_MAX });
        }
        Ok(bytes)
    }
}

fn bounded(reader: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(FILE_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The inputs that these paths name, in order, and what is wrong with the rest.
pub(super) fn find(paths: &[PathBuf]) -> (Vec<Input>, Vec<Problem>) {
    let mut found = Vec::new();
    let mut problems = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            found.push(Input::Stdin);
        } else {
            match fs::metadata(path) {
                Ok(metadata) if metadata.is_dir() => directory(path, 0, &mut found, &mut problems),
                Ok(_) => found.push(Input::File(path.clone())),
                Err(error) => problems.push(Problem::Unreadable { path: path.clone(), error }),
            }
        }
    }
    (found, problems)
}

fn directory(path: &Path, depth: usize, found: &mut Vec<Input>, problems: &mut Vec<Problem>) {
    let path = path.to_owned();
    if depth == DEPTH_MAX {
        return problems.push(Problem::TooMany { path, what: "nested directories", limit: DEPTH_MAX });
    }
    let entries = fs::read_dir(&path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut entries = match entries {
        Ok(entries) => entries,
        Err(error) => return problems.push(Problem::Unreadable { path, error }),
    };
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let path = entry.path();
        let wanted = path.extension().is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known));
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => directory(&path, depth + 1, found, problems),
            Ok(_) if wanted && found.len() == FILES_MAX => {
                return problems.push(Problem::TooMany { path, what: "files", limit: FILES_MAX });
            }
            Ok(_) if wanted => found.push(Input::File(path)),
            Err(error) if wanted => problems.push(Problem::Unreadable { path, error }),
            Ok(_) | Err(_) => {}
        }
    }
}
