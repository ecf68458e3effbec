//! A server process that does not outlive the test, however the test ends.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Kills the process that it is given when its standard input ends, which it does with the test's process.
const GUARD: &str = "read -r _ || kill -9 \"$1\"";

/// A running server.
pub struct Server {
    child: Child,
    guard: Child,
    log: PathBuf,
}

impl Server {
    /// Starts it. What it prints goes to a file.
    pub fn start(command: &mut Command, log: &Path) -> Server {
        let file = File::create(log).expect("a file for the log");
        let both = file.try_clone().expect("a file for the log");
        // In a group of its own: Ctrl-C is for the test, whose end the guard sees.
        let child = command.stdin(Stdio::null()).stdout(file).stderr(both).process_group(0).spawn();
        let child = child.unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display()));
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "guard", &child.id().to_string()]).stdin(Stdio::piped()).process_group(0);
        let guard = guard.spawn().expect("a shell");
        Server { child, guard, log: log.to_owned() }
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it. An API server that is asked to end waits for its clients for up to a minute.
    pub fn end(mut self) {
        // It knows the process by a number that may soon be another's.
        self.guard.kill().expect("it can be killed");
        self.guard.wait().expect("it can be waited for");
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it can be waited for");
    }

    /// Its last words, if it has ended.
    pub fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().expect("it can be waited for")?;
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(20)..].join("\n");
        Some(format!("{status}; {} ends with:\n{last}", self.log.display()))
    }
}

#[test]
fn a_server_ends_with_the_process_that_started_it() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut server = Server::start(Command::new("sleep").arg("1000"), &directory.path().join("log"));
    assert_eq!(server.ended(), None);
    // As when the process that holds the other end is gone.
    drop(server.guard.stdin.take());
    let status = server.child.wait().expect("it can be waited for");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    assert!(server.guard.wait().expect("it can be waited for").success());
}
