//! How a group comes to be, once.
//!
//! The first of the initial members asks the others for their ids. It writes the group's id and its founders
//! to its own disk, then has each of the others do the same, and only when all have answered starts the
//! group. A replica with that record and neither vote nor log still counts as empty, so a crash anywhere is
//! harmless: the first member begins again, with the ids that there are then.
//!
//! An empty replica that meets a formed group takes no part: under its name another id may have voted. It
//! waits to be put in that one's place by `holdfast member replace`.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_api::raft::v1 as pb;
use tonic::Status;

use crate::identity::Group;
use crate::peer::{CallError, wire};
use crate::replica::Replica;
use crate::status::Phase;
use crate::types::Member;
use crate::{ClusterId, Error, NodeId};

#[cfg(test)]
mod tests;

/// How far a formation goes: in production to the end; tests stop it where a crash might.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// All others have said who they are.
    Asked,
    /// The record is on the first member's disk.
    Recorded,
    /// This many of the others have written it too.
    Joined(usize),
    /// The group is started.
    Started,
}

/// Why there is no group yet.
#[derive(Debug)]
pub(crate) enum Obstacle {
    /// Something that passes, or that an operator has to see to; tried again.
    Wait(String),
    /// There is a group already.
    Formed(ClusterId),
    /// This replica cannot go on.
    Failed(Error),
}

impl From<Error> for Obstacle {
    fn from(error: Error) -> Obstacle {
        Obstacle::Failed(error)
    }
}

/// Brings a replica into its group: at once if it was in one, else by formation, or it waits to be added.
pub(crate) async fn run(replica: Arc<Replica>, group: Option<Group>) {
    let first = replica.config.initial_members.first().is_some_and(|(name, _)| *name == replica.config.name);
    if let Some(group) = group
        && !(first && replica.log.is_unused() && !group.founders.is_empty())
    {
        let _joining = replica.group.lock().await;
        if let Err(error) = replica.begin(&group).await {
            replica.fail(&error);
        }
        return;
    }
    loop {
        let outcome = if first { form(&replica, Step::Started).await } else { look_for_group(&replica).await };
        if replica.running().is_some() && (!first || outcome.is_ok()) {
            return;
        }
        match outcome {
            Ok(()) => {}
            Err(Obstacle::Wait(why)) => wait(&replica, Phase::Forming { why }),
            Err(Obstacle::Formed(cluster)) => {
                let name = &replica.config.name;
                let why = format!(
                    "group {cluster} is formed, and this replica has no data of it; it takes no part until \
                     `holdfast member replace {name}` puts it in the place of its former self"
                );
                wait(&replica, Phase::AwaitingReplacement { why });
            }
            Err(Obstacle::Failed(error)) => return replica.fail(&error),
        }
        tokio::time::sleep(replica.config.timings.housekeeping).await;
    }
}

fn wait(replica: &Replica, phase: Phase) {
    // A replica that was made a member meanwhile stays one.
    replica.phase.send_if_modified(|now| {
        let news = *now != Phase::Member && *now != phase;
        if news {
            match &phase {
                Phase::AwaitingReplacement { why } => tracing::error!(why, "this replica takes no part"),
                Phase::Forming { why } => tracing::info!(why, "the group is not formed yet"),
                Phase::Member => {}
            }
            *now = phase;
        }
        news
    });
}

/// The first member's part. May be begun again at any time before the group is started.
pub(crate) async fn form(replica: &Arc<Replica>, last: Step) -> Result<(), Obstacle> {
    let (myself, name) = (replica.node(), &replica.config.name);
    let mut founders = BTreeMap::new();
    for (other, address) in &replica.config.initial_members {
        let member = Member { name: other.clone(), address: address.clone() };
        let node = if other == name { myself } else { ask_empty(replica, &member).await? };
        if founders.insert(node, member).is_some() {
            return Err(Obstacle::Wait(format!("two of the initial members have the id {node:016x}")));
        }
    }
    if last == Step::Asked {
        return Ok(());
    }
    let mut joining = replica.group.lock().await;
    // The id of an attempt that did not come to its end is used again.
    let cluster = joining.as_ref().map_or_else(|| ClusterId(rand::random::<u64>() | 1), |group| group.cluster);
    let group = Group { cluster, founders };
    group.store(&replica.config.data_dir)?;
    *joining = Some(group.clone());
    if last == Step::Recorded {
        return Ok(());
    }
    let others = group.founders.iter().filter(|(node, _)| **node != myself);
    for (done, (node, member)) in others.enumerate() {
        if last == Step::Joined(done) {
            return Ok(());
        }
        invite(replica, &group, *node, member).await?;
    }
    if last < Step::Started {
        return Ok(());
    }
    replica.begin(&group).await?;
    let running = replica.running().expect("it has just begun");
    match running.raft.initialize(group.founders).await {
        Ok(()) => tracing::info!(cluster = %group.cluster, "the group is formed"),
        // It was started before.
        Err(error) if error.api_error().is_some() => tracing::info!(%error, "the group was formed before"),
        Err(error) => return Err(Obstacle::Failed(Error::Raft(error.to_string()))),
    }
    Ok(())
}

/// Who is at an address.
pub(crate) async fn identify(replica: &Replica, address: &str) -> Result<pb::IdentifyResponse, String> {
    let mut client = replica.peers.at(address).map_err(|status| status.message().to_owned())?;
    let request = pb::IdentifyRequest { token: replica.config.cluster_token.clone() };
    let answer = tokio::time::timeout(replica.config.timings.election_min, client.identify(request)).await;
    match answer {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) => Err(format!("{address}: {}", status.message())),
        Err(_) => Err(format!("{address} does not answer")),
    }
}

async fn ask_empty(replica: &Replica, member: &Member) -> Result<NodeId, Obstacle> {
    let wait = |why: String| Obstacle::Wait(format!("waiting for {} at {}: {why}", member.name, member.address));
    let answer = identify(replica, &member.address).await.map_err(wait)?;
    if answer.name != member.name {
        return Err(wait(format!("the replica there is named {}", answer.name)));
    }
    if !answer.empty {
        return Err(Obstacle::Formed(ClusterId(answer.cluster)));
    }
    Ok(answer.node)
}

async fn invite(replica: &Replica, group: &Group, node: NodeId, member: &Member) -> Result<(), Obstacle> {
    let members = group.founders.iter().map(|(node, member)| pb::Member {
        node: *node,
        name: member.name.clone(),
        address: member.address.clone(),
    });
    let invited = invite_with(replica, group.cluster, node, &member.address, members.collect()).await;
    invited.map_err(|why| Obstacle::Wait(format!("waiting for {} at {}: {why}", member.name, member.address)))
}

/// Makes an empty replica a member of a group; on its disk when this returns. `members`: the founders, or
/// none if the group is formed.
pub(crate) async fn invite_with(
    replica: &Replica,
    cluster: ClusterId,
    node: NodeId,
    address: &str,
    members: Vec<pb::Member>,
) -> Result<(), String> {
    let mut client = replica.peers.at(address).map_err(|status| status.message().to_owned())?;
    let token = replica.config.cluster_token.clone();
    let request = pb::JoinRequest { token, route: Some(wire::route(cluster, node)), members };
    match tokio::time::timeout(replica.config.timings.election_max, client.join(request)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(status)) => Err(CallError::of(&status).into_text()),
        Err(_) => Err("no answer".to_owned()),
    }
}

/// The others' part: they wait to be invited, and meanwhile see whether they come too late.
async fn look_for_group(replica: &Replica) -> Result<(), Obstacle> {
    let members = &replica.config.initial_members;
    for (_, address) in members.iter().filter(|(name, _)| *name != replica.config.name) {
        if let Ok(answer) = identify(replica, address).await
            && !answer.empty
        {
            return Err(Obstacle::Formed(ClusterId(answer.cluster)));
        }
    }
    let why = match members.first() {
        Some((first, address)) if members.iter().any(|(name, _)| *name == replica.config.name) => {
            format!("waiting for {first} at {address} to form the group")
        }
        _ => "not one of the initial members: waiting to be added to a group".to_owned(),
    };
    Err(Obstacle::Wait(why))
}

/// Takes an invitation, if this replica is still free to.
pub(crate) async fn join(replica: &Arc<Replica>, request: &pb::JoinRequest) -> Result<(), Status> {
    let route = request.route.ok_or_else(|| Status::invalid_argument("route is missing"))?;
    if route.target != replica.node() {
        let (meant, mine) = (route.target, replica.node());
        return Err(Status::failed_precondition(format!("meant for replica {meant:016x}; this is {mine:016x}")));
    }
    if route.cluster == 0 {
        return Err(Status::invalid_argument("a group's id is not 0"));
    }
    let cluster = ClusterId(route.cluster);
    let mut joining = replica.group.lock().await;
    if !replica.log.is_unused() {
        return match joining.as_ref() {
            Some(group) if group.cluster == cluster => Ok(()),
            group => {
                let mine = group.map_or_else(String::new, |group| group.cluster.to_string());
                Err(Status::failed_precondition(format!("this replica belongs to group {mine}")))
            }
        };
    }
    let member =
        |member: &pb::Member| (member.node, Member { name: member.name.clone(), address: member.address.clone() });
    let group = Group { cluster, founders: request.members.iter().map(member).collect() };
    let stored = group.store(&replica.config.data_dir);
    let begun = match stored {
        Ok(()) => replica.begin(&group).await,
        failed => failed,
    };
    begun.map_err(|error| {
        replica.fail(&error);
        Status::internal(error.to_string())
    })?;
    *joining = Some(group);
    Ok(())
}

/// Refuses those that were given another token. Takes as long whichever byte differs.
pub(crate) fn check_token(replica: &Replica, token: &str) -> Result<(), Status> {
    let mine = replica.config.cluster_token.as_bytes();
    let differ =
        mine.len() != token.len() || mine.iter().zip(token.as_bytes()).fold(0, |differ, (a, b)| differ | (a ^ b)) != 0;
    if differ { Err(Status::permission_denied("another cluster token")) } else { Ok(()) }
}
