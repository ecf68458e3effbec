//! Compiles every `.proto` under `proto/`, without `protoc`. The descriptor set is kept for the reflection service.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use protox::prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new("proto");
    println!("cargo::rerun-if-changed=proto");
    let mut files = Vec::new();
    protos(root, &mut files)?;
    files.sort();
    let set = protox::compile(files, [root])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), set.encode_to_vec())?;
    // Maps are ordered, so that equal messages have equal bytes. Log entries and snapshots pass without a copy.
    tonic_prost_build::configure()
        .btree_map(".holdfast")
        .bytes(".holdfast.raft.v1")
        .include_file("packages.rs")
        .compile_fds(set)?;
    Ok(())
}

fn protos(directory: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            protos(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            files.push(path);
        }
    }
    Ok(())
}
