//! What `holdfast serve` is told: by a file, the environment and flags, the latter winning.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use holdfast_bridge::bridge::Options;
use holdfast_raft::{Error, NodeConfig};
use serde::Deserialize;

use crate::cli::{Failure, Policy};
use crate::logging;

/// Where a replica listens unless told otherwise.
const LISTEN: &str = "127.0.0.1:7601";

/// Flags, each also an environment variable and, by the same name, a key of the file.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(after_help = "\
Every option is also a key of the TOML file given by --config (data-dir = \"/var/lib/holdfast\"); the
environment wins over the file, flags win over both.

The replica named first in --initial-members leads the formation; starting again later is harmless.
A replica that comes up with an empty directory facing a formed group takes no part, and says how it
is put back: holdfast member replace NAME.")]
pub struct Flags {
    /// Read options from this TOML file
    #[arg(long, env = "HOLDFAST_CONFIG", value_name = "FILE")]
    #[serde(skip)]
    config: Option<PathBuf>,
    /// This replica's name, unique in the group
    #[arg(long, env = "HOLDFAST_NAME")]
    name: Option<String>,
    /// This replica's own directory
    #[arg(long, env = "HOLDFAST_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Where to listen, for clients and replicas [default: 127.0.0.1:7601]
    #[arg(long, env = "HOLDFAST_LISTEN", value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Where the other replicas reach this one [default: as --listen]
    #[arg(long, env = "HOLDFAST_ADVERTISE", value_name = "HOST:PORT")]
    advertise: Option<String>,
    /// The replicas that form the group, this one among them: NAME=HOST:PORT,...
    #[arg(long, env = "HOLDFAST_INITIAL_MEMBERS", value_name = "NAME=HOST:PORT,...")]
    initial_members: Option<String>,
    /// Replicas form a group only with those that have the same token
    #[arg(long, env = "HOLDFAST_CLUSTER_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    cluster_token: Option<String>,
    /// How Egress addresses are placed; a seed at formation, later `holdfast settings set`
    #[arg(long, env = "HOLDFAST_POLICY", value_enum)]
    policy: Option<Policy>,
    /// Egress addresses that a Node may carry if it does not say; a seed at formation
    #[arg(long, env = "HOLDFAST_DEFAULT_CAPACITY", value_name = "0..255")]
    default_capacity: Option<u32>,
    /// The form of the log [default: text]
    #[arg(long, env = "HOLDFAST_LOG_FORMAT", value_enum)]
    log_format: Option<logging::Format>,
    /// Where to serve /metrics, /livez and /readyz?verbose over HTTP [default: nowhere]
    #[arg(long, env = "HOLDFAST_METRICS_LISTEN", value_name = "HOST:PORT")]
    metrics_listen: Option<String>,
    /// Follow the Kubernetes API: alone over its pools and Egresses, or beside Antrea [default mode: standalone]
    #[arg(
        long,
        env = "HOLDFAST_KUBERNETES",
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "standalone",
        help_heading = "Kubernetes"
    )]
    kubernetes: Option<Mode>,
    /// How long a Node may be without Ready before it counts as gone [default: 0s]
    #[arg(long, env = "HOLDFAST_NODE_GRACE", value_name = "DURATION", help_heading = "Kubernetes")]
    node_grace: Option<String>,
    /// How long a Node that returns must have been Ready before it counts as there [default: 0s]
    #[arg(long, env = "HOLDFAST_NODE_STABLE", value_name = "DURATION", help_heading = "Kubernetes")]
    node_stable: Option<String>,
    /// What is logged: error, warn, info, debug, trace, or directives [default: info,openraft=warn]
    #[arg(long, env = "HOLDFAST_LOG_LEVEL", value_name = "LEVEL")]
    log_level: Option<String>,
    /// Commands in one entry of the log [default: 1024]
    #[arg(long, env = "HOLDFAST_ENTRY_COMMANDS", value_name = "COUNT", help_heading = "Bounds")]
    entry_commands: Option<usize>,
    /// Bytes in one entry of the log [default: 1048576]
    #[arg(long, env = "HOLDFAST_ENTRY_BYTES", value_name = "BYTES", help_heading = "Bounds")]
    entry_bytes: Option<usize>,
    /// Commands that may wait for an entry; more are refused [default: 16384]
    #[arg(long, env = "HOLDFAST_WAITING_COMMANDS", value_name = "COUNT", help_heading = "Bounds")]
    waiting_commands: Option<usize>,
    /// Bytes of commands that may wait for an entry; more are refused [default: 16777216]
    #[arg(long, env = "HOLDFAST_WAITING_BYTES", value_name = "BYTES", help_heading = "Bounds")]
    waiting_bytes: Option<usize>,
    /// Take a snapshot after so many entries [default: 100000]
    #[arg(long, env = "HOLDFAST_SNAPSHOT_ENTRIES", value_name = "COUNT", help_heading = "Bounds")]
    snapshot_entries: Option<u64>,
    /// Take a snapshot after so many bytes of log [default: 67108864]
    #[arg(long, env = "HOLDFAST_SNAPSHOT_LOG_BYTES", value_name = "BYTES", help_heading = "Bounds")]
    snapshot_log_bytes: Option<u64>,
    /// Entries kept in the log behind a snapshot [default: 1000]
    #[arg(long, env = "HOLDFAST_SNAPSHOT_KEEP_ENTRIES", value_name = "COUNT", help_heading = "Bounds")]
    snapshot_keep_entries: Option<u64>,
    /// While fewer than a quorum have so many bytes free, what takes addresses is refused [default: 268435456]
    #[arg(long, env = "HOLDFAST_DISK_WATERMARK", value_name = "BYTES", help_heading = "Bounds")]
    disk_watermark: Option<u64>,
    /// Between heartbeats; also how long one append may take, disk included [default: 200ms]
    #[arg(long, env = "HOLDFAST_HEARTBEAT", value_name = "DURATION", help_heading = "Clocks")]
    heartbeat: Option<String>,
    /// The shortest silence after which a replica stands for election [default: 1s]
    #[arg(long, env = "HOLDFAST_ELECTION_MIN", value_name = "DURATION", help_heading = "Clocks")]
    election_min: Option<String>,
    /// The longest [default: 2s]
    #[arg(long, env = "HOLDFAST_ELECTION_MAX", value_name = "DURATION", help_heading = "Clocks")]
    election_max: Option<String>,
}

/// Who else writes pools and Egresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Nobody: they are this group's alone
    Standalone,
    /// Antrea's agents and controller: only reservations are written
    Antrea,
}

impl From<Mode> for holdfast_bridge::bridge::Mode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Standalone => holdfast_bridge::bridge::Mode::Standalone,
            Mode::Antrea => holdfast_bridge::bridge::Mode::Antrea,
        }
    }
}

/// Settings that flags give to a group when it is formed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seed {
    /// How Egress addresses are placed.
    pub policy: Option<Policy>,
    /// Egress addresses that a Node may carry if it does not say.
    pub default_capacity: Option<u32>,
}

/// Everything that a replica is told, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// The replica.
    pub node: NodeConfig,
    /// Where it listens.
    pub listen: String,
    /// Settings at formation.
    pub seed: Seed,
    /// The form of the log.
    pub log_format: logging::Format,
    /// What is logged.
    pub log_level: String,
    /// The bridge to the Kubernetes API, if there is to be one.
    pub kubernetes: Option<Options>,
    /// Where metrics and health are served over HTTP, if anywhere.
    pub metrics_listen: Option<String>,
}

impl Config {
    /// Reads the file, if one is named, puts environment and flags over it, and checks every value.
    pub fn load(flags: Flags) -> Result<Config, Failure> {
        let file = match &flags.config {
            Some(path) => read_file(path)?,
            None => Flags::default(),
        };
        flags.over(file).check()
    }
}

fn read_file(path: &Path) -> Result<Flags, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Usage(format!("config: {}: {error}", path.display())))?;
    toml::from_str(&text).map_err(|error| Failure::Usage(format!("config: {}: {error}", path.display())))
}

fn refuse(key: &str, value: impl Display, allowed: &str) -> Failure {
    let variable = format!("HOLDFAST_{}", key.replace('-', "_").to_uppercase());
    Failure::Usage(format!("{key}: {value} is not allowed: {allowed} (--{key}, {variable}, or {key} in the file)"))
}

fn required<T>(key: &str, value: Option<T>) -> Result<T, Failure> {
    value.ok_or_else(|| refuse(key, "nothing", "it is required"))
}

/// `host:port`, both there.
fn address(key: &str, text: String) -> Result<String, Failure> {
    let split = text.rsplit_once(':');
    let fits = split.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    if fits { Ok(text) } else { Err(refuse(key, format!("{text:?}"), "HOST:PORT")) }
}

fn duration(key: &str, text: Option<String>, default: Duration) -> Result<Duration, Failure> {
    let Some(text) = text else { return Ok(default) };
    let millis = holdfast_bridge::translate::duration::parse(&text).filter(|millis| *millis > 0);
    let allowed = "an integer and ms, s or m, such as 500ms or 2s";
    millis.map(Duration::from_millis).ok_or_else(|| refuse(key, format!("{text:?}"), allowed))
}

/// As a duration, but zero is allowed, and the default.
fn span(key: &str, text: Option<&str>) -> Result<Duration, Failure> {
    let Some(text) = text else { return Ok(Duration::ZERO) };
    let millis = holdfast_bridge::translate::duration::parse(text);
    let allowed = "an integer and ms, s or m, such as 0s or 30s";
    millis.map(Duration::from_millis).ok_or_else(|| refuse(key, format!("{text:?}"), allowed))
}

impl Flags {
    /// What is not given here is taken from the file.
    fn over(self, file: Flags) -> Flags {
        Flags {
            config: self.config,
            name: self.name.or(file.name),
            data_dir: self.data_dir.or(file.data_dir),
            listen: self.listen.or(file.listen),
            advertise: self.advertise.or(file.advertise),
            initial_members: self.initial_members.or(file.initial_members),
            cluster_token: self.cluster_token.or(file.cluster_token),
            policy: self.policy.or(file.policy),
            default_capacity: self.default_capacity.or(file.default_capacity),
            log_format: self.log_format.or(file.log_format),
            log_level: self.log_level.or(file.log_level),
            metrics_listen: self.metrics_listen.or(file.metrics_listen),
            kubernetes: self.kubernetes.or(file.kubernetes),
            node_grace: self.node_grace.or(file.node_grace),
            node_stable: self.node_stable.or(file.node_stable),
            entry_commands: self.entry_commands.or(file.entry_commands),
            entry_bytes: self.entry_bytes.or(file.entry_bytes),
            waiting_commands: self.waiting_commands.or(file.waiting_commands),
            waiting_bytes: self.waiting_bytes.or(file.waiting_bytes),
            snapshot_entries: self.snapshot_entries.or(file.snapshot_entries),
            snapshot_log_bytes: self.snapshot_log_bytes.or(file.snapshot_log_bytes),
            snapshot_keep_entries: self.snapshot_keep_entries.or(file.snapshot_keep_entries),
            disk_watermark: self.disk_watermark.or(file.disk_watermark),
            heartbeat: self.heartbeat.or(file.heartbeat),
            election_min: self.election_min.or(file.election_min),
            election_max: self.election_max.or(file.election_max),
        }
    }

    fn check(self) -> Result<Config, Failure> {
        let name = required("name", self.name.clone())?;
        let data_dir = required("data-dir", self.data_dir.clone())?;
        let listen = address("listen", self.listen.clone().unwrap_or_else(|| LISTEN.to_owned()))?;
        let advertise = match self.advertise.clone() {
            Some(advertise) => address("advertise", advertise)?,
            None if is_unspecified(&listen) => {
                let allowed = "with a --listen that names no host, the others must be told where this one is";
                return Err(refuse("advertise", "nothing", allowed));
            }
            None => listen.clone(),
        };
        if let Some(capacity) = self.default_capacity
            && capacity > 255
        {
            return Err(refuse("default-capacity", capacity, "0 to 255"));
        }
        let mut node = NodeConfig::new(name, data_dir, advertise);
        node.initial_members = self.members()?;
        let named = |name: &String| node.initial_members.iter().any(|(member, _)| member == name);
        if !node.initial_members.is_empty() && !named(&node.name) {
            let allowed = format!("this replica, {:?}, is one of the initial members", node.name);
            return Err(refuse("initial-members", format!("{:?}", self.initial_members.unwrap_or_default()), &allowed));
        }
        let seed = Seed { policy: self.policy, default_capacity: self.default_capacity };
        let log_format = self.log_format.unwrap_or_default();
        let log_level = self.log_level.clone().unwrap_or_else(|| "info,openraft=warn".to_owned());
        let metrics_listen = self.metrics_listen.clone().map(|at| address("metrics-listen", at)).transpose()?;
        let kubernetes = self.bridge()?;
        self.bounds(&mut node)?;
        Ok(Config { node, listen, seed, log_format, log_level, kubernetes, metrics_listen })
    }

    fn bridge(&self) -> Result<Option<Options>, Failure> {
        let node_grace = span("node-grace", self.node_grace.as_deref())?;
        let node_stable = span("node-stable", self.node_stable.as_deref())?;
        for (key, given) in [("node-grace", &self.node_grace), ("node-stable", &self.node_stable)] {
            if self.kubernetes.is_none()
                && let Some(given) = given
            {
                return Err(refuse(key, format!("{given:?}"), "only with --kubernetes"));
            }
        }
        Ok(self.kubernetes.map(|mode| Options { mode: mode.into(), node_grace, node_stable }))
    }

    fn members(&self) -> Result<Vec<(String, String)>, Failure> {
        let text = self.initial_members.as_deref().unwrap_or_default();
        let member = |item: &str| {
            let refused = || refuse("initial-members", format!("{item:?}"), "NAME=HOST:PORT, comma-separated");
            let (name, at) = item.split_once('=').ok_or_else(refused)?;
            let (name, at) = (name.trim(), at.trim());
            if name.is_empty() {
                return Err(refused());
            }
            Ok((name.to_owned(), address("initial-members", at.to_owned())?))
        };
        text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(member).collect()
    }

    fn bounds(self, node: &mut NodeConfig) -> Result<(), Failure> {
        node.cluster_token = self.cluster_token.unwrap_or_default();
        let limits = &mut node.limits;
        limits.entry_commands = self.entry_commands.unwrap_or(limits.entry_commands);
        limits.entry_bytes = self.entry_bytes.unwrap_or(limits.entry_bytes);
        limits.waiting_commands = self.waiting_commands.unwrap_or(limits.waiting_commands);
        limits.waiting_bytes = self.waiting_bytes.unwrap_or(limits.waiting_bytes);
        let snapshots = &mut node.snapshots;
        snapshots.entries = self.snapshot_entries.unwrap_or(snapshots.entries);
        snapshots.log_bytes = self.snapshot_log_bytes.unwrap_or(snapshots.log_bytes);
        snapshots.keep_entries = self.snapshot_keep_entries.unwrap_or(snapshots.keep_entries);
        node.disk_watermark = self.disk_watermark.unwrap_or(node.disk_watermark);
        let timings = &mut node.timings;
        timings.heartbeat = duration("heartbeat", self.heartbeat, timings.heartbeat)?;
        timings.election_min = duration("election-min", self.election_min, timings.election_min)?;
        timings.election_max = duration("election-max", self.election_max, timings.election_max)?;
        node.validate().map_err(|error| match error {
            Error::Config { key, why } => Failure::Usage(format!("{}: {why}", key.replace('_', "-"))),
            error => Failure::Usage(error.to_string()),
        })
    }
}

fn is_unspecified(listen: &str) -> bool {
    let host = listen.rsplit_once(':').map_or(listen, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minimal() -> Flags {
        Flags { name: Some("a".into()), data_dir: Some("/data".into()), ..Flags::default() }
    }

    fn refusal(flags: Flags) -> String {
        let failure = flags.check().expect_err("must be refused");
        assert_eq!(failure.exit_code(), 2);
        failure.to_string()
    }

    #[test]
    fn flags_win_over_the_file() {
        let file: Flags = toml::from_str(
            "name = \"file\"\ndata-dir = \"/file\"\npolicy = \"spread\"\nentry-commands = 7\nheartbeat = \"250ms\"",
        )
        .expect("reads");
        let flags = Flags { name: Some("flag".into()), ..Flags::default() };
        let config = flags.over(file).check().expect("is right");
        assert_eq!((config.node.name.as_str(), config.node.data_dir.to_str()), ("flag", Some("/file")));
        assert_eq!((config.node.limits.entry_commands, config.node.timings.heartbeat.as_millis()), (7, 250));
        assert_eq!((config.seed.policy, config.listen.as_str()), (Some(Policy::Spread), LISTEN));
    }

    #[test]
    fn a_value_that_is_not_allowed_is_named_by_its_key() {
        assert!(refusal(Flags { name: None, ..minimal() }).starts_with("name: nothing is not allowed"));
        let with = |change: fn(&mut Flags)| {
            let mut flags = minimal();
            change(&mut flags);
            refusal(flags)
        };
        for (text, key) in [
            (with(|flags| flags.listen = Some("here".into())), "listen: \"here\""),
            (with(|flags| flags.listen = Some("0.0.0.0:1".into())), "advertise: nothing"),
            (with(|flags| flags.default_capacity = Some(256)), "default-capacity: 256"),
            (with(|flags| flags.initial_members = Some("a=x:1,b".into())), "initial-members: \"b\""),
            (with(|flags| flags.initial_members = Some("b=x:1".into())), "initial-members: \"b=x:1\""),
            (with(|flags| flags.heartbeat = Some("soon".into())), "heartbeat: \"soon\""),
            (with(|flags| flags.election_min = Some("1ms".into())), "timings.election-min: "),
        ] {
            assert!(text.starts_with(key), "{text}");
        }
    }

    #[test]
    fn a_key_that_the_file_may_not_have_is_named() {
        let error = toml::from_str::<Flags>("data_dir = \"x\"").expect_err("must be refused").to_string();
        assert!(error.contains("data_dir") && error.contains("data-dir"), "{error}");
    }
}
