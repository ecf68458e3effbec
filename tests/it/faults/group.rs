//! A group of `holdfast serve` processes with directories of their own.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use holdfast_api::v1::{CheckRequest, GetSettingsRequest, Role, StatusRequest, StatusResponse};
use holdfast_api::{Client, ClientError};

/// Where every replica listens; each has a loopback address of its own, so that no outgoing connection takes
/// the port of a replica that is down.
const PORT: u16 = 7_946;
/// Nothing that is waited for takes longer, unless the machine is stuck.
const PATIENCE: Duration = Duration::from_mins(1);
/// Between two looks at something that has no event to wait for.
const LOOK: Duration = Duration::from_millis(10);

/// One replica: a process, when it runs, and what it keeps.
#[derive(Debug)]
pub(crate) struct Replica {
    /// Its name: `r0`, `r1`, ...
    pub(crate) name: String,
    /// `host:port` where it listens.
    pub(crate) address: String,
    /// Its data directory.
    pub(crate) data: PathBuf,
    /// What it is started with besides.
    pub(crate) options: Vec<String>,
    child: Option<Child>,
    log: PathBuf,
}

/// Replicas that form one group. All are killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Group {
    /// By number.
    pub(crate) replicas: Vec<Replica>,
    /// Removed with the group.
    _dir: tempfile::TempDir,
    /// For `--initial-members`.
    members: String,
}

impl Group {
    /// Replicas that are not started yet, with these options besides the usual ones.
    pub(crate) fn new(size: usize, options: &[&str]) -> Group {
        let dir = tempfile::Builder::new().prefix("holdfast-faults-").tempdir().expect("a temporary directory");
        let addresses = loopback_addresses(size);
        let replicas: Vec<_> = addresses
            .into_iter()
            .enumerate()
            .map(|(number, address)| Replica {
                name: format!("r{number}"),
                address,
                data: dir.path().join(format!("r{number}")),
                options: options.iter().map(ToString::to_string).collect(),
                child: None,
                log: dir.path().join(format!("r{number}.log")),
            })
            .collect();
        let members = replicas.iter().map(|it| format!("{}={}", it.name, it.address)).collect::<Vec<_>>().join(",");
        Group { replicas, _dir: dir, members }
    }

    /// Replicas that run and have a leader.
    pub(crate) async fn formed(size: usize, options: &[&str]) -> Group {
        let mut group = Group::new(size, options);
        for number in 0..size {
            group.start(number);
        }
        group.leader().await;
        group
    }

    /// Starts a replica's process. It does not run already.
    pub(crate) fn start(&mut self, number: usize) {
        let replica = &mut self.replicas[number];
        assert!(replica.child.is_none(), "{} runs already", replica.name);
        let log = File::options().create(true).append(true).open(&replica.log).expect("a log file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HOLDFAST_")) {
            command.env_remove(name);
        }
        let child = command
            .arg("serve")
            .args(["--name", &replica.name, "--listen", &replica.address, "--advertise", &replica.address])
            .args(["--initial-members", &self.members, "--cluster-token", "faults"])
            .args(["--log-level", "info,openraft=error"])
            .arg("--data-dir")
            .arg(&replica.data)
            .args(&replica.options)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .spawn()
            .expect("the binary starts");
        replica.child = Some(child);
    }

    /// SIGKILL. Returns when the process is gone.
    pub(crate) fn kill(&mut self, number: usize) {
        if let Some(mut child) = self.replicas[number].child.take() {
            child.kill().expect("our own child");
            child.wait().expect("our own child");
        }
    }

    /// Sends a signal to a replica that runs.
    pub(crate) fn signal(&self, number: usize, signal: rustix::process::Signal) {
        let child = self.replicas[number].child.as_ref().expect("it runs");
        rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).expect("our own child");
    }

    /// Waits until a replica has ended by itself.
    pub(crate) async fn ended(&mut self, number: usize) -> ExitStatus {
        let mut child = self.replicas[number].child.take().expect("it runs");
        eventually("the process ends", async || child.try_wait().expect("our own child")).await
    }

    /// Whether a replica's process runs.
    pub(crate) fn runs(&mut self, number: usize) -> bool {
        let child = self.replicas[number].child.as_mut();
        child.is_some_and(|child| child.try_wait().expect("our own child").is_none())
    }

    /// All that a replica has written to its output since its first start.
    pub(crate) fn log(&self, number: usize) -> String {
        fs::read_to_string(&self.replicas[number].log).unwrap_or_default()
    }

    /// The endpoints of all replicas.
    pub(crate) fn endpoints(&self) -> Vec<String> {
        self.replicas.iter().map(|replica| replica.address.clone()).collect()
    }

    /// A client of all replicas, with connections of its own.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.endpoints()).expect("good endpoints")
    }

    /// A client of one replica.
    pub(crate) fn client_of(&self, number: usize) -> Client {
        Client::new([&self.replicas[number].address]).expect("a good endpoint")
    }

    /// What a replica says of itself, if it answers.
    pub(crate) async fn status(&self, number: usize) -> Result<StatusResponse, ClientError> {
        self.client_of(number).with_timeout(Duration::from_secs(2)).status(StatusRequest {}).await
    }

    /// Waits for a leader that knows itself confirmed, and says which replica it is.
    pub(crate) async fn leader(&self) -> usize {
        eventually("there is a leader", async || self.leads().await).await
    }

    /// The replica that leads, if one says so and answers a linearizable read, which a deposed one cannot.
    async fn leads(&self) -> Option<usize> {
        for number in 0..self.replicas.len() {
            if self.replicas[number].child.is_none() {
                continue;
            }
            let Ok(status) = self.status(number).await else { continue };
            let client = self.client_of(number).with_timeout(Duration::from_secs(2));
            if status.role() == Role::Leader && client.get_settings(GetSettingsRequest::default()).await.is_ok() {
                return Some(number);
            }
        }
        None
    }

    /// Waits until all replicas that run have applied the same, and returns what they say of themselves. Nobody
    /// proposes meanwhile.
    pub(crate) async fn settled(&self) -> Vec<StatusResponse> {
        eventually("all replicas have applied the same", async || {
            let mut all = Vec::new();
            for number in (0..self.replicas.len()).filter(|number| self.replicas[*number].child.is_some()) {
                all.push(self.status(number).await.ok()?);
            }
            let last = all.iter().map(|status| status.last_log_index).max()?;
            let led = all.iter().any(|status| status.role() == Role::Leader);
            (led && all.iter().all(|status| status.applied_index == last)).then_some(all)
        })
        .await
    }

    /// Waits as [`settled`](Group::settled) and asserts that all digests are equal and no invariant is broken.
    pub(crate) async fn assert_equal_digests(&self) -> Vec<StatusResponse> {
        let all = self.settled().await;
        for status in &all {
            assert_eq!(status.digest, all[0].digest, "{} and {}: {all:?}", status.name, all[0].name);
            assert_eq!(status.history, all[0].history, "{} and {}", status.name, all[0].name);
            let address = &self.replicas.iter().find(|it| it.name == status.name).expect("one of ours").address;
            let check = Client::new([address]).expect("a good endpoint").check(CheckRequest {}).await;
            let check = check.expect("a replica that runs answers");
            assert_eq!(check.findings, Vec::<String>::new(), "{}", status.name);
            assert_eq!(check.recomputed_digest, status.digest, "{}", status.name);
        }
        all
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let panicking = std::thread::panicking();
        for replica in &mut self.replicas {
            if let Some(mut child) = replica.child.take() {
                let _ = child.kill();
                let _ = child.wait();
            }
            if panicking {
                let log = fs::read_to_string(&replica.log).unwrap_or_default();
                let lines: Vec<_> = log.lines().collect();
                let tail = lines[lines.len().saturating_sub(20)..].join("\n");
                eprintln!("--- the last lines of {}\n{tail}", replica.name);
            }
        }
    }
}

/// Looks again and again until there is something; panics if there is nothing for long.
pub(crate) async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(LOOK).await;
    }
}

/// Loopback addresses that nobody listens at, for one group.
fn loopback_addresses(size: usize) -> Vec<String> {
    loop {
        let [b, c] = rand::random::<[u8; 2]>();
        let listen = |number| {
            let at = SocketAddrV4::new(Ipv4Addr::new(127, b, c, number), PORT);
            TcpListener::bind(at).ok().map(|_| at.to_string())
        };
        let number = u8::try_from(size).expect("a small group");
        if let Some(free) = (1..=number).map(listen).collect() {
            return free;
        }
    }
}
