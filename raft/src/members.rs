//! Who belongs to the group, and who leads it.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use holdfast_api::raft::v1 as pb;
use holdfast_api::raft::v1::change_members_request::{Change, Place};
use openraft::ChangeMembers;
use openraft::error::{ChangeMembershipError, ClientWriteError, RaftError};

use crate::formation::{identify, invite_with};
use crate::forward::millis_until;
use crate::peer::wire;
use crate::replica::{Replica, Running};
use crate::types::Member;
use crate::{MemberError, NodeId};

/// A change of the members.
#[derive(Clone, Debug)]
pub(crate) enum MemberChange {
    /// The member of this name is gone for good; an empty replica takes its place.
    Replace(String, Option<String>),
    /// An empty replica joins, without a vote.
    AddLearner(String, String),
    /// A learner gets a vote.
    Promote(String),
    /// A member leaves.
    Remove(String),
    /// Another voter takes the lead.
    Transfer(Option<String>),
}

impl MemberChange {
    pub(crate) fn from_wire(change: Change) -> MemberChange {
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        match change {
            Change::Replace(Place { name, address }) => MemberChange::Replace(name, some(address)),
            Change::AddLearner(Place { name, address }) => MemberChange::AddLearner(name, address),
            Change::Promote(name) => MemberChange::Promote(name),
            Change::Remove(name) => MemberChange::Remove(name),
            Change::Transfer(name) => MemberChange::Transfer(some(name)),
        }
    }

    fn to_wire(&self) -> Change {
        match self.clone() {
            MemberChange::Replace(name, address) => {
                Change::Replace(Place { name, address: address.unwrap_or_default() })
            }
            MemberChange::AddLearner(name, address) => Change::AddLearner(Place { name, address }),
            MemberChange::Promote(name) => Change::Promote(name),
            MemberChange::Remove(name) => Change::Remove(name),
            MemberChange::Transfer(name) => Change::Transfer(name.unwrap_or_default()),
        }
    }
}

fn refused<T>(why: impl Into<String>) -> Result<T, MemberError> {
    Err(MemberError::Refused { why: why.into() })
}

fn late<T>(why: impl Into<String>) -> Result<T, MemberError> {
    Err(MemberError::Deadline { why: why.into() })
}

impl Replica {
    /// Has the leader, whoever it is, change the members. Every change may be repeated.
    pub(crate) async fn change_members(&self, change: &MemberChange, deadline: Instant) -> Result<(), MemberError> {
        loop {
            let Some(running) = self.running() else {
                return Err(MemberError::NotReady { why: self.not_ready() });
            };
            if running.leads().is_some() {
                return self.change_members_here(change, deadline).await;
            }
            let why = match running.other_leader() {
                Some((node, member)) => match self.change_members_there(node, &member, change, deadline).await {
                    Ok(done) => return done,
                    Err(why) => why,
                },
                None => "no leader is known".to_owned(),
            };
            if !self.pause(deadline).await {
                return late(why);
            }
        }
    }

    /// `Err`: not looked at; to be tried again.
    async fn change_members_there(
        &self,
        node: NodeId,
        member: &Member,
        change: &MemberChange,
        deadline: Instant,
    ) -> Result<Result<(), MemberError>, String> {
        use pb::refused::Reason;
        let cluster = self.cluster().ok_or("no group")?;
        let mut client = self.peers.at(&member.address).map_err(|status| status.to_string())?;
        let request = pb::ChangeMembersRequest {
            route: Some(wire::route(cluster, node)),
            timeout_ms: millis_until(deadline),
            change: Some(change.to_wire()),
        };
        let answer = tokio::time::timeout_at(deadline.into(), client.change_members(request)).await;
        let answer = answer.map_err(|_| "the leader did not answer")?;
        let Some(refused) = answer.map_err(|status| status.to_string())?.into_inner().refused else {
            return Ok(Ok(()));
        };
        let why = refused.message.clone();
        match refused.reason() {
            Reason::NotLeader | Reason::NotReady => Err(why),
            Reason::Unspecified => Ok(Err(MemberError::Unknown { name: why })),
            Reason::Deadline => Ok(late(why)),
            _ => Ok(Err(MemberError::Refused { why })),
        }
    }

    /// Changes the members, as leader.
    pub(crate) async fn change_members_here(
        &self,
        change: &MemberChange,
        deadline: Instant,
    ) -> Result<(), MemberError> {
        let Some(running) = self.running() else { return Err(MemberError::NotReady { why: self.not_ready() }) };
        match change {
            MemberChange::Replace(name, address) => self.replace(running, name, address.as_deref(), deadline).await,
            MemberChange::AddLearner(name, address) => {
                let taken = running.named(name);
                if let Some((node, _, _)) = taken.first() {
                    let there = identify(self, address).await.or_else(late)?.node;
                    return if there == *node { Ok(()) } else { refused(format!("a member is named {name} already")) };
                }
                self.welcome(running, name, address, deadline).await.map(drop)
            }
            MemberChange::Promote(name) => {
                let (node, _) = running.one_named(name)?;
                running.change(ChangeMembers::AddVoterIds([node].into()), deadline).await
            }
            MemberChange::Remove(name) => {
                let (node, voter) = running.one_named(name)?;
                if node == self.node() {
                    return refused(format!("{name} leads: let another take the lead first"));
                }
                let nodes = BTreeSet::from([node]);
                let change = if voter { ChangeMembers::RemoveVoters(nodes) } else { ChangeMembers::RemoveNodes(nodes) };
                running.change(change, deadline).await
            }
            MemberChange::Transfer(name) => self.transfer(running, name.as_deref(), deadline).await,
        }
    }

    /// The new one joins without a vote and is brought up to date; then one joint change gives it the vote of
    /// the lost one.
    async fn replace(
        &self,
        running: &Running,
        name: &str,
        address: Option<&str>,
        deadline: Instant,
    ) -> Result<(), MemberError> {
        let former = running.named(name);
        let Some((_, lost, _)) = former.iter().max_by_key(|(_, _, voter)| *voter).map(|(n, m, v)| (*n, m.clone(), *v))
        else {
            return Err(MemberError::Unknown { name: name.to_owned() });
        };
        let address = address.unwrap_or(&lost.address).to_owned();
        let node = self.welcome(running, name, &address, deadline).await?;
        let others: BTreeSet<NodeId> =
            former.iter().map(|(other, _, _)| *other).filter(|other| *other != node).collect();
        if others.is_empty() {
            return refused(format!("{name} at {address} is a member and has its data: there is nothing to replace"));
        }
        let voters = running.voters();
        let lost_voters: BTreeSet<NodeId> = voters.intersection(&others).copied().collect();
        if !lost_voters.is_empty() {
            let mut wanted: BTreeSet<NodeId> = voters.difference(&lost_voters).copied().collect();
            wanted.insert(node);
            running.change(ChangeMembers::ReplaceAllVoters(wanted), deadline).await?;
        }
        let learners: BTreeSet<NodeId> = others.difference(&lost_voters).copied().collect();
        if !learners.is_empty() {
            running.change(ChangeMembers::RemoveNodes(learners), deadline).await?;
        }
        Ok(())
    }

    /// Makes the empty replica at an address a learner, and waits until it is up to date. Does nothing to one
    /// that is a member already.
    async fn welcome(
        &self,
        running: &Running,
        name: &str,
        address: &str,
        deadline: Instant,
    ) -> Result<NodeId, MemberError> {
        let answer = identify(self, address).await.or_else(late)?;
        if answer.name != name {
            return refused(format!("the replica at {address} is named {}", answer.name));
        }
        let node = answer.node;
        if running.member(node).is_some() {
            return Ok(node);
        }
        let Some(cluster) = self.cluster() else { return Err(MemberError::NotReady { why: self.not_ready() }) };
        if !answer.empty {
            return refused(format!("the replica at {address} has data of group {:016x}", answer.cluster));
        }
        invite_with(self, cluster, node, address, Vec::new()).await.or_else(late)?;
        let member = Member { name: name.to_owned(), address: address.to_owned() };
        let added = running.raft.add_learner(node, member, true);
        match tokio::time::timeout_at(deadline.into(), added).await {
            Ok(Ok(_)) => Ok(node),
            Ok(Err(error)) => failed(&error),
            Err(_) => late(format!("{name} is added, and not yet up to date")),
        }
    }

    /// Stops asserting the lead until the voters' promise to this leader has run out, then has the best of
    /// them stand for election.
    async fn transfer(&self, running: &Running, to: Option<&str>, deadline: Instant) -> Result<(), MemberError> {
        let Some((node, member)) = self.successor(running, to)? else {
            return refused("there is no other voter");
        };
        if node == self.node() {
            return Ok(());
        }
        if running.handing_over.swap(true, Ordering::AcqRel) {
            return refused("the lead is being handed over already");
        }
        let done = self.hand_over(running, node, &member, deadline).await;
        running.raft.runtime_config().heartbeat(true);
        running.handing_over.store(false, Ordering::Release);
        done
    }

    fn successor(&self, running: &Running, to: Option<&str>) -> Result<Option<(NodeId, Member)>, MemberError> {
        if let Some(name) = to {
            let (node, voter) = running.one_named(name)?;
            if !voter {
                return refused(format!("{name} does not vote"));
            }
            return Ok(running.member(node).map(|member| (node, member)));
        }
        let metrics = running.raft.metrics();
        let metrics = metrics.borrow();
        let progress = metrics.replication.iter().flatten();
        let voters = running.voters();
        let others = progress.filter(|(node, _)| voters.contains(node) && **node != self.node());
        let best = others.max_by_key(|(_, matched)| **matched).map(|(node, _)| *node);
        Ok(best.and_then(|node| Some((node, running.member(node)?))))
    }

    async fn hand_over(
        &self,
        running: &Running,
        node: NodeId,
        member: &Member,
        deadline: Instant,
    ) -> Result<(), MemberError> {
        let mut metrics = running.raft.metrics();
        let even = metrics.wait_for(|metrics| {
            let matched = metrics.replication.as_ref().and_then(|all| all.get(&node).copied().flatten());
            metrics.current_leader != Some(metrics.id) || matched.map(|id| id.index) == metrics.last_log_index
        });
        if !matches!(tokio::time::timeout_at(deadline.into(), even).await, Ok(Ok(_))) {
            return late(format!("{} is not up to date", member.name));
        }
        running.raft.runtime_config().heartbeat(false);
        let promise = self.config.timings.election_max + Duration::from_millis(10);
        tokio::time::sleep_until(deadline.min(Instant::now() + promise).into()).await;
        let elected = async {
            let cluster = self.cluster().ok_or("no group")?;
            let mut client = self.peers.at(&member.address).map_err(|status| status.to_string())?;
            let asked = client.elect(pb::ElectRequest { route: Some(wire::route(cluster, node)) }).await;
            asked.map_err(|status| status.message().to_owned())?;
            let over = metrics.wait_for(|metrics| metrics.current_leader.is_some_and(|leader| leader != metrics.id));
            over.await.map(drop).map_err(|error| error.to_string())
        };
        match tokio::time::timeout_at(deadline.into(), elected).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(why)) => late::<()>(why),
            Err(_) => late("no other replica was elected"),
        }
    }
}

fn failed<T>(error: &RaftError<NodeId, ClientWriteError<NodeId, Member>>) -> Result<T, MemberError> {
    match error {
        RaftError::APIError(ClientWriteError::ChangeMembershipError(error)) => refused(error.to_string()),
        RaftError::APIError(ClientWriteError::ForwardToLeader(_)) => late("this replica leads no longer"),
        RaftError::Fatal(error) => late(error.to_string()),
    }
}

impl Running {
    pub(crate) fn voters(&self) -> BTreeSet<NodeId> {
        self.raft.metrics().borrow().membership_config.membership().voter_ids().collect()
    }

    /// Members of a name, and whether each votes. Two while one replaces the other.
    fn named(&self, name: &str) -> Vec<(NodeId, Member, bool)> {
        let voters = self.voters();
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let nodes = metrics.membership_config.nodes().filter(|(_, member)| member.name == name);
        nodes.map(|(node, member)| (*node, member.clone(), voters.contains(node))).collect()
    }

    fn one_named(&self, name: &str) -> Result<(NodeId, bool), MemberError> {
        match self.named(name).as_slice() {
            [(node, _, voter)] => Ok((*node, *voter)),
            [] => Err(MemberError::Unknown { name: name.to_owned() }),
            _ => refused(format!("{name} is being replaced: `holdfast member replace {name}` comes first")),
        }
    }

    /// One change at a time: what a former one left half done comes to its end first.
    async fn change(&self, change: ChangeMembers<NodeId, Member>, deadline: Instant) -> Result<(), MemberError> {
        let changed = async {
            let _changing = self.changing.lock().await;
            let mut metrics = self.raft.metrics();
            loop {
                match self.raft.change_membership(change.clone(), false).await {
                    Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(
                        ChangeMembershipError::InProgress(_),
                    ))) if metrics.changed().await.is_ok() => {}
                    Err(error) => return failed(&error),
                    Ok(_) => return Ok(()),
                }
            }
        };
        tokio::time::timeout_at(deadline.into(), changed)
            .await
            .unwrap_or_else(|_| late("the change is not committed yet"))
    }

    /// A change of voters has two steps, and its leader may be lost, or its caller give up, between them. Who
    /// leads does the second.
    pub(crate) async fn finish_change(&self, deadline: Instant) {
        let Ok(_changing) = self.changing.try_lock() else { return };
        let membership = self.raft.metrics().borrow().membership_config.membership().clone();
        if let [_, wanted] = membership.get_joint_config().as_slice() {
            let finished = self.raft.change_membership(wanted.clone(), false);
            if let Ok(Err(error)) = tokio::time::timeout_at(deadline.into(), finished).await {
                tracing::debug!(%error, "a change of voters is still half done");
            }
        }
    }
}
