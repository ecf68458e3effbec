//! The programs of a control plane: those of `KUBEBUILDER_ASSETS`, or one built from `tests/controlplane`.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names a directory with etcd, kube-apiserver, kube-controller-manager and kubectl.
const ASSETS: &str = "KUBEBUILDER_ASSETS";
/// Turns the tests that need a control plane off.
pub const SWITCH: &str = "HOLDFAST_TEST_KUBERNETES";

/// What kubectl wants to hear from the server, or it refuses to work with it.
const LINKER_FLAGS: &str = "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 \
    -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36";

/// Where the programs are.
pub enum Programs {
    /// Each by its name in this directory.
    Assets(PathBuf),
    /// This one is all of them.
    Built(PathBuf),
}

impl Programs {
    /// Finds them; builds them where they were not built before, which takes some minutes. The error says what to
    /// install.
    pub fn find() -> Result<Programs, String> {
        if let Some(directory) = std::env::var_os(ASSETS).map(PathBuf::from) {
            for part in ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"] {
                if !directory.join(part).exists() {
                    return Err(format!("{ASSETS} is {}, but it has no {part}", directory.display()));
                }
            }
            return Ok(Programs::Assets(directory));
        }
        build().map(Programs::Built)
    }

    /// One of them, ready for its arguments.
    pub fn command(&self, part: &str) -> Command {
        match self {
            Programs::Assets(directory) => Command::new(directory.join(part)),
            Programs::Built(program) => {
                let mut command = Command::new(program);
                command.arg(part);
                command
            }
        }
    }
}

/// Where what is made for the control plane is kept.
pub fn kept() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("lies in the target directory").join("control-plane")
}

fn build() -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/controlplane");
    let program = kept().join(format!("{:016x}", key(&source)));
    let failed = |error: std::io::Error| format!("{}: {error}", program.display());
    fs::create_dir_all(kept()).map_err(failed)?;
    let lock = File::create(kept().join("lock")).map_err(failed)?;
    // Only one of the test binaries that start at once builds it. The lock ends with the file.
    lock.lock().map_err(failed)?;
    if program.exists() {
        return Ok(program);
    }
    eprintln!("building a Kubernetes control plane from {}; this takes some minutes, once", source.display());
    let unfinished = program.with_extension("unfinished");
    let output = Command::new("go")
        .args(["build", "-buildvcs=false", "-trimpath", "-ldflags", LINKER_FLAGS, "-o"])
        .arg(&unfinished)
        .arg(".")
        .current_dir(&source)
        .env("CGO_ENABLED", "0")
        .output()
        .map_err(|error| {
            format!(
                "go cannot be started ({error}). Tests against a real Kubernetes API server need Go 1.26 \
                 (https://go.dev/dl), or {ASSETS} naming a directory with etcd, kube-apiserver, \
                 kube-controller-manager and kubectl. {SWITCH}=off turns them off."
            )
        })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("go build in {} failed: {said}\n{SWITCH}=off turns these tests off.", source.display()));
    }
    fs::rename(&unfinished, &program).map_err(failed)?;
    Ok(program)
}

/// Differs where the program would.
fn key(source: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    for file in ["go.mod", "go.sum", "main.go"] {
        fs::read(source.join(file)).expect("the program's source is there").hash(&mut hasher);
    }
    LINKER_FLAGS.hash(&mut hasher);
    hasher.finish()
}
