//! The group of replicas: `status`, `member`, `leader`, `snapshot`, `check`.

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use futures::future::join_all;
use holdfast_api::{Client, ClientError, v1};
use serde::Serialize;

use super::asking::Asking;
use super::failure::Failure;
use super::kubernetes::KubernetesView;
use super::output;
use super::table::Table;
use super::words;

/// Between two questions for the leader, while there is none.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(50);

/// See `holdfast member --help`.
#[derive(Clone, Debug, Subcommand)]
pub enum MemberVerb {
    /// List the members
    List,
    /// Put an empty replica in the place of a member whose data is lost
    Replace(ReplaceArgs),
}

/// See `holdfast member replace --help`.
#[derive(Args, Clone, Debug)]
pub struct ReplaceArgs {
    /// The member, by name
    name: String,
    /// Where the empty replica listens; where the lost one did unless given
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<String>,
}

/// See `holdfast leader --help`.
#[derive(Clone, Debug, Subcommand)]
pub enum LeaderVerb {
    /// Show who leads
    Show,
    /// Hand the lead over
    Transfer {
        /// To the member of this name; to the most advanced one unless given
        #[arg(long)]
        to: Option<String>,
    },
}

/// A replica, as it says itself.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReplicaView {
    endpoint: String,
    name: String,
    id: String,
    version: String,
    role: &'static str,
    term: u64,
    leader: Option<String>,
    last_log_index: u64,
    committed_index: u64,
    applied_index: u64,
    snapshot_index: Option<u64>,
    purged_index: Option<u64>,
    revision: u64,
    ledger_time: String,
    digest: String,
    clock_skew_ms: i64,
    free_disk_bytes: Option<u64>,
    history_rows: u64,
    kubernetes: Option<KubernetesView>,
    warnings: Vec<String>,
}

/// A member, as the group knows it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct MemberView {
    name: String,
    id: String,
    address: String,
    voter: bool,
    leader: bool,
    matched_index: Option<u64>,
    free_disk_bytes: Option<u64>,
}

/// An endpoint that did not answer.
#[derive(Clone, Debug, Serialize)]
struct Silent {
    endpoint: String,
    why: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusView {
    cluster_id: String,
    replicas: Vec<ReplicaView>,
    members: Vec<MemberView>,
    unreachable: Vec<Silent>,
}

fn role(role: v1::Role) -> &'static str {
    match role {
        v1::Role::Unspecified => "Unknown",
        v1::Role::Leader => "Leader",
        v1::Role::Follower => "Follower",
        v1::Role::Candidate => "Candidate",
        v1::Role::Learner => "Learner",
        v1::Role::Unformed => "Unformed",
        v1::Role::Shutdown => "Stopping",
    }
}

impl ReplicaView {
    fn read(endpoint: &str, status: &v1::StatusResponse) -> ReplicaView {
        let leader = status.members.iter().find(|member| Some(member.id) == status.leader_id);
        ReplicaView {
            endpoint: endpoint.to_owned(),
            name: status.name.clone(),
            id: format!("{:016x}", status.id),
            version: status.version.clone(),
            role: role(status.role()),
            term: status.term,
            leader: leader.map(|member| member.name.clone()),
            last_log_index: status.last_log_index,
            committed_index: status.committed_index,
            applied_index: status.applied_index,
            snapshot_index: status.snapshot_index,
            purged_index: status.purged_index,
            revision: status.revision,
            ledger_time: words::time(status.ledger_time_ms),
            digest: status.digest.clone(),
            clock_skew_ms: status.clock_skew_ms,
            free_disk_bytes: status.free_disk_bytes,
            history_rows: status.history.unwrap_or_default().rows,
            kubernetes: status.kubernetes.as_ref().map(KubernetesView::read),
            warnings: status.warnings.clone(),
        }
    }

    fn cells(&self) -> Vec<String> {
        let optional = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        vec![
            self.name.clone(),
            self.endpoint.clone(),
            self.role.to_owned(),
            self.term.to_string(),
            self.committed_index.to_string(),
            self.applied_index.to_string(),
            optional(self.snapshot_index),
            self.revision.to_string(),
            self.digest.chars().take(16).collect(),
            self.free_disk_bytes.map(mebibytes).unwrap_or_default(),
        ]
    }
}

impl MemberView {
    fn read(member: &v1::Member) -> MemberView {
        MemberView {
            name: member.name.clone(),
            id: format!("{:016x}", member.id),
            address: member.address.clone(),
            voter: member.voter,
            leader: member.leader,
            matched_index: member.matched_index,
            free_disk_bytes: member.free_disk_bytes,
        }
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

/// Asks each endpoint for itself. Fails only if none answers.
async fn each<T>(
    asking: &Asking,
    ask: impl AsyncFn(&Client) -> Result<T, ClientError>,
) -> Result<(Vec<(String, T)>, Vec<Silent>), Failure> {
    let one = async |endpoint: &String| {
        let client = Client::new([endpoint])?.with_timeout(asking.timeout);
        ask(&client).await
    };
    let answers = join_all(asking.endpoints.iter().map(one)).await;
    let (mut answered, mut silent, mut last) = (Vec::new(), Vec::new(), None);
    for (endpoint, answer) in asking.endpoints.iter().zip(answers) {
        match answer {
            Ok(answer) => answered.push((endpoint.clone(), answer)),
            Err(error) => {
                silent.push(Silent { endpoint: endpoint.clone(), why: error.to_string() });
                last = Some(error);
            }
        }
    }
    match last {
        Some(ClientError::Unreachable { .. }) if answered.is_empty() => {
            let tried = silent.into_iter().map(|silent| (silent.endpoint, silent.why)).collect();
            Err(ClientError::Unreachable { tried }.into())
        }
        Some(error) if answered.is_empty() => Err(error.into()),
        _ => Ok((answered, silent)),
    }
}

fn tell_silent(silent: &[Silent]) {
    for Silent { endpoint, why } in silent {
        output::remark(format_args!("{endpoint} does not answer: {why}"));
    }
}

/// Runs `status`.
pub async fn status(asking: &Asking) -> Result<(), Failure> {
    let (answered, unreachable) =
        each(asking, async |client| client.status(v1::StatusRequest::default()).await).await?;
    // The leader knows most of the members.
    let best = answered.iter().find(|(_, status)| status.role() == v1::Role::Leader).or(answered.first());
    let members = best.map(|(_, status)| status.members.iter().map(MemberView::read).collect()).unwrap_or_default();
    let view = StatusView {
        cluster_id: best.map(|(_, status)| status.cluster_id.clone()).unwrap_or_default(),
        replicas: answered.iter().map(|(endpoint, status)| ReplicaView::read(endpoint, status)).collect(),
        members,
        unreachable,
    };
    if !asking.for_people() {
        return output::value(asking.output, &view);
    }
    let mut table = Table::new(&[
        "REPLICA",
        "ENDPOINT",
        "ROLE",
        "TERM",
        "COMMITTED",
        "APPLIED",
        "SNAPSHOT",
        "REVISION",
        "DIGEST",
        "FREE DISK",
    ]);
    view.replicas.iter().for_each(|replica| table.push(replica.cells()));
    output::say(format_args!("cluster {}\n{table}", view.cluster_id))?;
    tell_silent(&view.unreachable);
    for replica in &view.replicas {
        if let Some(kubernetes) = &replica.kubernetes {
            kubernetes.tell(&replica.name)?;
        }
        for warning in &replica.warnings {
            output::say(format_args!("warning from {}: {warning}", replica.name))?;
        }
    }
    Ok(())
}

fn tell_members(asking: &Asking, members: &[v1::Member]) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Members {
        items: Vec<MemberView>,
    }
    let items: Vec<MemberView> = members.iter().map(MemberView::read).collect();
    if !asking.for_people() {
        return output::value(asking.output, &Members { items });
    }
    let mut table = Table::new(&["MEMBER", "ADDRESS", "ID", "VOTER", "LEADER", "MATCHED"]);
    for member in items {
        let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
        let matched = member.matched_index.map(|index| index.to_string()).unwrap_or_default();
        table.push(vec![member.name, member.address, member.id, yes(member.voter), yes(member.leader), matched]);
    }
    output::say(table)
}

/// Runs `member`.
pub async fn member(asking: &Asking, verb: MemberVerb) -> Result<(), Failure> {
    let client = asking.client()?;
    let members = match verb {
        MemberVerb::List => client.member_list(v1::MemberListRequest::default()).await?.members,
        MemberVerb::Replace(args) => {
            let address = args.address.unwrap_or_default();
            client.member_replace(v1::MemberReplaceRequest { name: args.name, address }).await?.members
        }
    };
    tell_members(asking, &members)
}

/// Runs `leader`.
pub async fn leader(asking: &Asking, verb: LeaderVerb) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Leader {
        leader: String,
        id: String,
    }
    let client = asking.client()?;
    let leader = match verb {
        LeaderVerb::Show => {
            let leader = elected(asking, &client).await?;
            Leader { leader: leader.name, id: format!("{:016x}", leader.id) }
        }
        LeaderVerb::Transfer { to } => {
            let answer = client.leader_transfer(v1::LeaderTransferRequest { to: to.unwrap_or_default() }).await?;
            Leader { leader: answer.leader, id: format!("{:016x}", answer.leader_id) }
        }
    };
    if asking.for_people() { output::say(leader.leader) } else { output::value(asking.output, &leader) }
}

/// Waits until a leader is known.
async fn elected(asking: &Asking, client: &Client) -> Result<v1::Member, Failure> {
    let deadline = Instant::now() + asking.timeout;
    loop {
        let members = client.member_list(v1::MemberListRequest::default()).await?.members;
        if let Some(leader) = members.into_iter().find(|member| member.leader) {
            return Ok(leader);
        }
        if Instant::now() >= deadline {
            let waited = asking.timeout.as_secs_f64();
            return Err(Failure::Refused(format!("no leader is known, after {waited} s")));
        }
        tokio::time::sleep(BETWEEN_QUESTIONS).await;
    }
}

/// Runs `snapshot`.
pub async fn snapshot(asking: &Asking) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Taken {
        endpoint: String,
        index: u64,
    }
    #[derive(Serialize)]
    struct Snapshots {
        items: Vec<Taken>,
        unreachable: Vec<Silent>,
    }
    let (answered, unreachable) =
        each(asking, async |client| client.snapshot(v1::SnapshotRequest::default()).await).await?;
    let taken = answered.into_iter().map(|(endpoint, answer)| Taken { endpoint, index: answer.index });
    let view = Snapshots { items: taken.collect(), unreachable };
    if !asking.for_people() {
        return output::value(asking.output, &view);
    }
    let mut table = Table::new(&["ENDPOINT", "INDEX"]);
    view.items.into_iter().for_each(|taken| table.push(vec![taken.endpoint, taken.index.to_string()]));
    output::say(table)?;
    tell_silent(&view.unreachable);
    Ok(())
}

/// What a replica found when it checked itself.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CheckView {
    endpoint: String,
    name: String,
    revision: u64,
    index: u64,
    digest: String,
    recomputed_digest: String,
    findings: Vec<String>,
}

impl CheckView {
    fn read(endpoint: String, answer: v1::CheckResponse) -> CheckView {
        CheckView {
            endpoint,
            name: answer.name,
            revision: answer.revision,
            index: answer.index,
            digest: answer.digest,
            recomputed_digest: answer.recomputed_digest,
            findings: answer.findings,
        }
    }

    /// What is wrong here, its own digest and those of the others at the same index included.
    fn wrong(&self, all: &[CheckView]) -> Vec<String> {
        let mut wrong = self.findings.clone();
        if self.digest != self.recomputed_digest {
            wrong.push(format!("its digest is {}, its rows give {}", self.digest, self.recomputed_digest));
        }
        let other = all.iter().find(|other| other.index == self.index && other.digest != self.digest);
        wrong.extend(
            other.map(|other| format!("its digest differs from that of {} at index {}", other.name, self.index)),
        );
        wrong.iter().map(|wrong| format!("{}: {wrong}", self.name)).collect()
    }
}

/// Runs `check`.
pub async fn check(asking: &Asking) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Checks<'a> {
        items: &'a [CheckView],
        unreachable: &'a [Silent],
    }
    let (answered, unreachable) = each(asking, async |client| client.check(v1::CheckRequest::default()).await).await?;
    let items: Vec<CheckView> = answered.into_iter().map(|(endpoint, it)| CheckView::read(endpoint, it)).collect();
    if asking.for_people() {
        let mut table = Table::new(&["REPLICA", "ENDPOINT", "INDEX", "REVISION", "DIGEST", "FINDINGS"]);
        for it in &items {
            let (index, revision) = (it.index.to_string(), it.revision.to_string());
            let findings = it.wrong(&items).len().to_string();
            table.push(vec![it.name.clone(), it.endpoint.clone(), index, revision, it.digest.clone(), findings]);
        }
        output::say(table)?;
        tell_silent(&unreachable);
    } else {
        output::value(asking.output, &Checks { items: &items, unreachable: &unreachable })?;
    }
    let wrong: Vec<String> = items.iter().flat_map(|it| it.wrong(&items)).collect();
    if wrong.is_empty() { Ok(()) } else { Err(Failure::Refused(wrong.join("\n"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_compared_at_equal_indexes_only() {
        let check = |name: &str, index, digest: &str| CheckView {
            endpoint: String::new(),
            name: name.to_owned(),
            revision: 1,
            index,
            digest: digest.to_owned(),
            recomputed_digest: digest.to_owned(),
            findings: Vec::new(),
        };
        let all = [check("a", 5, "x"), check("b", 6, "y"), check("c", 5, "z")];
        assert_eq!(all[0].wrong(&all), ["a: its digest differs from that of c at index 5"]);
        assert!(all[1].wrong(&all).is_empty());
    }
}
