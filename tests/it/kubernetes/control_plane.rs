//! etcd, an API server and the controllers that make Pods of StatefulSets: real ones, on loopback.
//!
//! One for all tests of this binary: a test uses a namespace, or names, of its own; or it has the whole of it for
//! itself. There is no kubelet and no scheduler. Our definitions are installed.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};

use super::programs::{Programs, SWITCH, kept};
use super::server::Server;
use crate::fixtures::{Ran, free_addresses, run};

/// How long the servers may take: only a start that fails takes this long.
const PATIENCE: Duration = Duration::from_mins(2);
/// Garbage, namespaces, ServiceAccounts, StatefulSets, and PodDisruptionBudgets.
const CONTROLLERS: &str = "garbage-collector-controller,namespace-controller,serviceaccount-controller,\
    statefulset-controller,disruption-controller";

/// Who asked for what; of the control plane itself and the tests' administrator, only what they deleted.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    verbs: [delete, deletecollection]
  - level: None
    userGroups: [system:masters, system:nodes, system:serviceaccounts:kube-system]
  - level: None
    users: [system:kube-controller-manager, system:anonymous, system:apiserver]
  - level: Metadata
";

/// A control plane that runs until this process ends.
pub struct ControlPlane {
    programs: Programs,
    /// Logs, keys and etcd's data; kept until a later run.
    directory: PathBuf,
    /// Where etcd answers.
    etcd_address: String,
    /// Where the API server answers.
    address: String,
    /// The administrator's.
    kubeconfig: PathBuf,
    manager: Server,
    /// `None` while it is stopped.
    api_server: Mutex<Option<Server>>,
    /// The API server was started again, and nobody has seen yet that the controllers follow it.
    behind: Mutex<bool>,
    etcd: Server,
}

/// Tests that leave each other's objects alone share it; one that counts all objects has it for itself.
static GATE: RwLock<()> = RwLock::new(());

/// The control plane, beside other tests.
pub struct Shared {
    one: &'static ControlPlane,
    _gate: RwLockReadGuard<'static, ()>,
}

/// The control plane, without other tests.
pub struct Exclusive {
    one: &'static ControlPlane,
    _gate: RwLockWriteGuard<'static, ()>,
}

impl Deref for Shared {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        self.one
    }
}

impl Deref for Exclusive {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        self.one
    }
}

/// The one of this process; `None` where these tests are turned off. Asked for once in a test, and kept.
#[track_caller]
pub fn control_plane() -> Option<Shared> {
    let one = started()?;
    // A test that failed left nothing half done that others rely on.
    let gate = GATE.read().unwrap_or_else(PoisonError::into_inner);
    one.catch_up();
    Some(Shared { one, _gate: gate })
}

/// The same, without other tests.
#[track_caller]
pub fn whole_control_plane() -> Option<Exclusive> {
    let one = started()?;
    let gate = GATE.write().unwrap_or_else(PoisonError::into_inner);
    one.catch_up();
    Some(Exclusive { one, _gate: gate })
}

/// Started at the first call.
#[track_caller]
fn started() -> Option<&'static ControlPlane> {
    static ONE: OnceLock<Option<Result<ControlPlane, String>>> = OnceLock::new();
    let start = || {
        let off = std::env::var(SWITCH).is_ok_and(|value| value == "off");
        (!off).then(ControlPlane::start)
    };
    match ONE.get_or_init(start) {
        Some(Ok(one)) => Some(one),
        Some(Err(why)) => panic!("there is no control plane: {why}"),
        None => {
            eprintln!("not tested: {SWITCH}=off");
            None
        }
    }
}

impl ControlPlane {
    fn start() -> Result<ControlPlane, String> {
        let programs = Programs::find()?;
        let directory = new_directory();
        let [etcd_client, etcd_peer, api] =
            <[String; 3]>::try_from(free_addresses(3)).map_err(|found| format!("three ports: {found:?}"))?;
        let key = rcgen::KeyPair::generate().map_err(|error| format!("a key for tokens: {error}"))?;
        write(&directory.join("service-accounts.key"), &key.serialize_pem());
        write(&directory.join("service-accounts.pub"), &key.public_key_pem());
        write(&directory.join("audit-policy.yaml"), AUDIT_POLICY);
        let token = || format!("{:032x}", rand::random::<u128>());
        let (admin, controllers) = (token(), token());
        let tokens = format!("{admin},admin,1,system:masters\n{controllers},system:kube-controller-manager,2,\n");
        write(&directory.join("tokens.csv"), &tokens);
        let start = |part: &str, args: &[String]| {
            Server::start(programs.command(part).args(args), &directory.join(format!("{part}.log")))
        };
        let etcd = start("etcd", &etcd_args(&directory, &etcd_client, &etcd_peer));
        let mut api_server = start("kube-apiserver", &api_server_args(&directory, &etcd_client, &api));
        let url = url(&api);
        let kubeconfig = write_kubeconfig(&directory, &url, "admin", &admin);
        let ready = || tried(&mut kubectl(&programs, &kubeconfig, &["get", "--raw", "/readyz"]));
        wait(ready, &mut api_server)?;
        let for_controllers = write_kubeconfig(&directory, &url, "controllers", &controllers);
        let mut manager = start("kube-controller-manager", &manager_args(&for_controllers));
        // Pods cannot be made before their namespace has its ServiceAccount.
        let working = || tried(&mut kubectl(&programs, &kubeconfig, &["get", "serviceaccount", "default"]));
        wait(working, &mut manager)?;
        let one = ControlPlane {
            programs,
            directory,
            etcd_address: etcd_client,
            address: api,
            kubeconfig,
            manager,
            api_server: Mutex::new(Some(api_server)),
            behind: Mutex::new(false),
            etcd,
        };
        one.install_definitions()?;
        eprintln!("a control plane runs at {url}, its logs are in {}", one.directory.display());
        Ok(one)
    }

    fn install_definitions(&self) -> Result<(), String> {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/crds");
        for args in
            [["apply", "--server-side", "--validate=strict"], ["wait", "--for=condition=Established", "--timeout=60s"]]
        {
            let ran = self.kubectl(&[&args[..], &["-f", directory]].concat());
            if ran.code != 0 {
                return Err(format!("our definitions are refused: {}", ran.err));
            }
        }
        Ok(())
    }

    /// Runs kubectl as the administrator.
    #[track_caller]
    pub fn kubectl(&self, args: &[&str]) -> Ran {
        run(kubectl(&self.programs, &self.kubeconfig, args).stdin(Stdio::null()))
    }

    /// The administrator's client. It belongs to the runtime in which it is made.
    pub async fn client(&self) -> Client {
        client(&self.kubeconfig).await
    }

    /// A client of a ServiceAccount, with a token as its Pods have it.
    pub async fn client_of(&self, namespace: &str, service_account: &str) -> Client {
        let token = self.token_of(namespace, service_account, None).await;
        let name = format!("{namespace}-{service_account}");
        client(&write_kubeconfig(&self.directory, &url(&self.address), &name, &token)).await
    }

    /// A token of a ServiceAccount, as its Pods have it; one bound to a Secret is good for as long as that is there.
    pub async fn token_of(&self, namespace: &str, account: &str, bound: Option<BoundObjectReference>) -> String {
        let accounts = Api::<ServiceAccount>::namespaced(self.client().await, namespace);
        let spec = TokenRequestSpec {
            bound_object_ref: bound,
            expiration_seconds: Some(3_600),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let given = accounts.create_token_request(account, &PostParams::default(), &request).await;
        given.expect("a token").status.expect("is given").token
    }

    /// A kubeconfig for whoever has the token in this file.
    pub fn kubeconfig_for(&self, token_file: &Path) -> String {
        kubeconfig(&self.directory, &url(&self.address), "file", &json!({"tokenFile": token_file})).to_string()
    }

    /// Stops the API server. Whoever watches is cut off.
    pub fn stop_api_server(&self) {
        let running = self.api_server().take();
        running.expect("it runs").end();
    }

    /// Starts it again, where it was, and waits until it is ready.
    pub fn start_api_server(&self) {
        let args = api_server_args(&self.directory, &self.etcd_address, &self.address);
        let mut command = self.programs.command("kube-apiserver");
        let mut server = Server::start(command.args(args), &self.directory.join("kube-apiserver-again.log"));
        let ready = || tried(&mut kubectl(&self.programs, &self.kubeconfig, &["get", "--raw", "/readyz"]));
        wait(ready, &mut server).expect("it starts again");
        *self.api_server() = Some(server);
        *self.behind() = true;
    }

    fn behind(&self) -> std::sync::MutexGuard<'_, bool> {
        self.behind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the controllers follow an API server that was away. Each of their watches pauses by itself, for up
    /// to a minute: garbage collection that follows StatefulSets already and Pods not yet takes orphans for garbage.
    #[track_caller]
    fn catch_up(&self) {
        let mut behind = self.behind();
        if !*behind {
            return;
        }
        let labels = json!({"set": "probe"});
        let probe = json!({
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"namespace": "default", "name": "probe"},
            "spec": {
                "replicas": 1,
                "serviceName": "none",
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "only", "image": "none"}]},
                },
            },
        });
        let file = self.directory.join("probe.json");
        write(&file, &probe.to_string());
        self.kubectl(&["apply", "-f", file.to_str().expect("text")]).expect(0);
        self.kubectl(&["wait", "--for=create", "pod/probe-0", "--timeout=180s"]).expect(0);
        self.kubectl(&["delete", "statefulset/probe", "--cascade=background"]).expect(0);
        self.kubectl(&["wait", "--for=delete", "pod/probe-0", "--timeout=180s"]).expect(0);
        *behind = false;
    }

    fn api_server(&self) -> std::sync::MutexGuard<'_, Option<Server>> {
        self.api_server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes etcd forget all that was before now: nobody can go on from an older version.
    pub fn compact_etcd(&self) {
        // "AA==" is a key of one zero byte, of which there is none.
        let now = self.ask_etcd("range", &json!({"key": "AA=="}))["header"]["revision"].clone();
        self.ask_etcd("compaction", &json!({"revision": now, "physical": true}));
    }

    fn ask_etcd(&self, verb: &str, body: &Value) -> Value {
        let body = body.to_string();
        let head = format!("POST /v3/kv/{verb} HTTP/1.0\r\nContent-Length: {}\r\n\r\n", body.len());
        let mut stream = TcpStream::connect(&self.etcd_address).expect("etcd listens");
        stream.write_all((head + &body).as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.lines().next().is_some_and(|line| line.contains(" 200 ")), "{answer}");
        serde_json::from_str(body).expect("JSON")
    }

    /// The most memory that its servers ever had resident, in all, in bytes.
    pub fn most_memory(&self) -> u64 {
        let api_server = self.api_server().as_ref().map(Server::id);
        let servers = api_server.into_iter().chain([self.manager.id(), self.etcd.id()]);
        servers.map(most_memory_of).sum()
    }

    /// The API server's record of what ServiceAccounts asked for, so far.
    pub fn audit(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.directory.join("audit.log")).expect("there is a record");
        // The last line may be on its way.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }
}

fn kubectl(programs: &Programs, kubeconfig: &Path, args: &[&str]) -> Command {
    let mut kubectl = programs.command("kubectl");
    kubectl.env("KUBECONFIG", kubeconfig).args(args);
    kubectl
}

fn tried(command: &mut Command) -> Result<(), String> {
    let ran = run(command.stdin(Stdio::null()));
    if ran.code == 0 { Ok(()) } else { Err(ran.err) }
}

async fn client(kubeconfig: &Path) -> Client {
    let read = Kubeconfig::read_from(kubeconfig).expect("is a kubeconfig");
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.expect("is complete");
    Client::try_from(config).expect("a client")
}

/// Asks again and again; each question is a process, which is pause enough.
fn wait(done: impl Fn() -> Result<(), String>, server: &mut Server) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    while let Err(why) = done() {
        if let Some(last_words) = server.ended() {
            return Err(last_words);
        }
        if Instant::now() > deadline {
            return Err(format!("a server does not become ready: {why}"));
        }
    }
    Ok(())
}

/// A directory for this run. Those of runs that have ended go.
fn new_directory() -> PathBuf {
    let runs = kept().join("runs");
    fs::create_dir_all(&runs).expect("a directory for runs");
    for entry in fs::read_dir(&runs).expect("can be read").flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        if pid.is_none_or(|pid| test_kill_process(pid).is_err()) {
            // Another test that starts now may have been faster.
            drop(fs::remove_dir_all(entry.path()));
        }
    }
    let directory = runs.join(std::process::id().to_string());
    fs::create_dir_all(&directory).expect("a directory for this run");
    directory
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn write_kubeconfig(directory: &Path, url: &str, name: &str, token: &str) -> PathBuf {
    let path = directory.join(format!("{name}.kubeconfig"));
    write(&path, &kubeconfig(directory, url, name, &json!({"token": token})).to_string());
    path
}

fn kubeconfig(directory: &Path, url: &str, name: &str, user: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        // The API server made it and signed it itself when it started.
        "clusters": [{"name": "test", "cluster": {
            "server": url,
            "certificate-authority": directory.join("certificates/apiserver.crt"),
        }}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
        "current-context": "test",
    })
}

fn url(address: &str) -> String {
    format!("https://{address}")
}

/// The most memory that a process ever had resident, in bytes.
pub fn most_memory_of(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux says so");
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kibibytes << 10
}

fn etcd_args(directory: &Path, client: &str, peer: &str) -> Vec<String> {
    vec![
        format!("--data-dir={}", directory.join("etcd").display()),
        format!("--listen-client-urls=http://{client}"),
        format!("--advertise-client-urls=http://{client}"),
        format!("--listen-peer-urls=http://{peer}"),
        format!("--initial-advertise-peer-urls=http://{peer}"),
        format!("--initial-cluster=default=http://{peer}"),
        "--log-level=warn".to_owned(),
        // Nobody needs what it stored once the machine has crashed.
        "--unsafe-no-fsync".to_owned(),
    ]
}

fn api_server_args(directory: &Path, etcd: &str, address: &str) -> Vec<String> {
    let (host, port) = address.rsplit_once(':').expect("has a port");
    let file = |name: &str| directory.join(name).display().to_string();
    vec![
        format!("--etcd-servers=http://{etcd}"),
        format!("--secure-port={port}"),
        format!("--bind-address={host}"),
        format!("--advertise-address={host}"),
        // An address of loopback may not stand in Endpoints.
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--cert-dir={}", file("certificates")),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={}", file("service-accounts.pub")),
        format!("--service-account-signing-key-file={}", file("service-accounts.key")),
        format!("--token-auth-file={}", file("tokens.csv")),
        "--authorization-mode=RBAC".to_owned(),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        format!("--audit-policy-file={}", file("audit-policy.yaml")),
        format!("--audit-log-path={}", file("audit.log")),
    ]
}

fn manager_args(kubeconfig: &Path) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--controllers={CONTROLLERS}"),
        "--use-service-account-credentials".to_owned(),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        // Tests make hundreds of StatefulSets at once.
        "--kube-api-qps=1000".to_owned(),
        "--kube-api-burst=2000".to_owned(),
        "--concurrent-statefulset-syncs=20".to_owned(),
    ]
}
