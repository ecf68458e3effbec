//! Compiles every `.proto` below `proto/`, without protoc.

use std::error::Error;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let mut protos = Vec::new();
    find(Path::new("proto"), &mut protos)?;
    protos.sort();
    println!("cargo:rerun-if-changed=proto");
    let set = protox::compile(&protos, ["proto"])?;
    // Log entries and snapshots pass through without a copy.
    tonic_prost_build::configure().bytes(".holdfast.raft.v1").compile_fds(set)?;
    Ok(())
}

fn find(dir: &Path, protos: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, protos)?;
        } else if path.extension().is_some_and(|e| e == "proto") {
            protos.push(path);
        }
    }
    Ok(())
}
