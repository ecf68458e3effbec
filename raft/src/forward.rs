//! Any replica takes any request: what only the leader can do is forwarded to it, once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_api::raft::v1 as pb;
use holdfast_statemachine::Command;
use holdfast_statemachine::codec::{self, Kind};

use crate::node::Proposed;
use crate::peer::{CallError, wire};
use crate::replica::{Replica, Running};
use crate::types::Member;
use crate::{NodeId, ProposeError, ReadError};

impl Replica {
    /// Has the leader, whoever it is, put these commands into one entry. A call that may have reached the
    /// leader is never repeated.
    pub(crate) async fn propose(&self, commands: Vec<Command>, deadline: Instant) -> Result<Proposed, ProposeError> {
        let commands = Arc::new(commands);
        let encoded = self.encode(&commands)?;
        let mut hint = None;
        loop {
            let (node, member) = match self.propose_here(commands.clone(), encoded.len(), deadline).await {
                Err(ProposeError::NotLeader { leader }) => {
                    let running = self.member_of_group()?;
                    let named = leader.or(hint.take()).filter(|node| *node != self.node());
                    let named = named.and_then(|node| Some((node, running.member(node)?)));
                    let Some(leader) = named.or_else(|| running.other_leader()) else {
                        self.pause_proposal(deadline, "no leader is known").await?;
                        continue;
                    };
                    leader
                }
                done => return done,
            };
            match self.propose_there(node, &member, encoded.clone(), deadline).await {
                Err(ProposeError::NotLeader { leader }) => {
                    // Followed at once if it is news, else the one asked has yet to learn it.
                    hint = leader.filter(|leader| *leader != node);
                    self.pause_proposal(deadline, "the replica asked does not lead").await?;
                }
                Err(ProposeError::Stopping) => self.pause_proposal(deadline, "the leader is stopping").await?,
                Err(ProposeError::NotReady { why }) => self.pause_proposal(deadline, &why).await?,
                done => return done,
            }
        }
    }

    /// As [`propose`](Replica::propose), if this replica leads. `bytes`: their size.
    pub(crate) async fn propose_here(
        &self,
        commands: Arc<Vec<Command>>,
        bytes: usize,
        deadline: Instant,
    ) -> Result<Proposed, ProposeError> {
        let running = self.member_of_group()?;
        if self.is_stopping() {
            return Err(ProposeError::Stopping);
        }
        if running.leads().is_none() || running.is_handing_over() {
            return Err(ProposeError::NotLeader { leader: running.other_leader().map(|(node, _)| node) });
        }
        self.space.admit(&commands)?;
        running.proposer.propose(commands, bytes, deadline).await
    }

    /// Checks the size, too.
    pub(crate) fn encode(&self, commands: &[Command]) -> Result<Vec<u8>, ProposeError> {
        let limits = &self.config.limits;
        let too_large = |unit, size, max| Err(ProposeError::TooLarge { unit, size, max });
        if commands.len() > limits.entry_commands {
            return too_large("commands", commands.len(), limits.entry_commands);
        }
        match codec::encode(Kind::PeerRequest, commands) {
            Ok(encoded) if encoded.len() > limits.entry_bytes => too_large("bytes", encoded.len(), limits.entry_bytes),
            Ok(encoded) => Ok(encoded),
            Err(_longer_than_any) => too_large("bytes", usize::MAX, limits.entry_bytes),
        }
    }

    fn member_of_group(&self) -> Result<&Running, ProposeError> {
        self.running().ok_or_else(|| ProposeError::NotReady { why: self.not_ready() })
    }

    async fn pause_proposal(&self, deadline: Instant, why: &str) -> Result<(), ProposeError> {
        if self.pause(deadline).await { Ok(()) } else { Err(ProposeError::Deadline { why: why.to_owned() }) }
    }

    async fn propose_there(
        &self,
        node: NodeId,
        member: &Member,
        commands: Vec<u8>,
        deadline: Instant,
    ) -> Result<Proposed, ProposeError> {
        use pb::propose_response::Result as Answer;
        let nowhere = || ProposeError::NotReady { why: self.not_ready() };
        let route = wire::route(self.cluster().ok_or_else(nowhere)?, node);
        let mut client =
            self.peers.at(&member.address).map_err(|status| ProposeError::NotReady { why: status.to_string() })?;
        let request =
            pb::ProposeRequest { route: Some(route), commands: commands.into(), timeout_ms: millis_until(deadline) };
        // The leader keeps the deadline itself; the moment is for its answer.
        let patience = deadline + self.config.timings.heartbeat / 4;
        let unknown = |why: String| ProposeError::Unknown { why };
        let answer = match tokio::time::timeout_at(patience.into(), client.propose(request)).await {
            Ok(Ok(answer)) => answer.into_inner(),
            Ok(Err(status)) => {
                return Err(match CallError::of(&status) {
                    CallError::NotDone(why) => ProposeError::NotReady { why },
                    CallError::Unknown(why) => unknown(why),
                });
            }
            Err(_) => return Err(unknown("the leader did not answer before the deadline".to_owned())),
        };
        match answer.result {
            Some(Answer::Applied(applied)) => {
                let outcomes = codec::decode(Kind::Outcomes, &applied.outcomes);
                let outcomes = outcomes.map_err(|error| unknown(error.to_string()))?;
                Ok(Proposed { index: applied.index, term: applied.term, outcomes })
            }
            Some(Answer::Refused(refused)) => Err(wire::error_of(refused)),
            None => Err(unknown("an empty answer".to_owned())),
        }
    }

    /// Waits until the ledger here has all that was decided before the call.
    pub(crate) async fn read_index(&self, deadline: Instant) -> Result<(), ReadError> {
        let Some(running) = self.running() else { return Err(ReadError::NotReady { why: self.not_ready() }) };
        let index = running.reads.index(self, deadline).await?;
        if self.wait_applied(index, deadline).await {
            return Ok(());
        }
        Err(ReadError::Deadline { why: format!("entry {index} is not applied here yet") })
    }

    /// One question to the leader, for all readers of a round.
    pub(crate) async fn ask_leader_for_read_index(&self) -> Result<u64, String> {
        use pb::read_index_response::Result as Answer;
        let running = self.running().ok_or("the group is not formed")?;
        let (node, member) = running.other_leader().ok_or("no leader is known")?;
        let cluster = self.cluster().ok_or("the group is not formed")?;
        let mut client = self.peers.at(&member.address).map_err(|status| status.to_string())?;
        // One round; who has time left asks again.
        let patience = self.config.timings.heartbeat * 2;
        let timeout_ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        let request = pb::ReadIndexRequest { route: Some(wire::route(cluster, node)), timeout_ms };
        let answer = match tokio::time::timeout(patience * 2, client.read_index(request)).await {
            Ok(Ok(answer)) => answer.into_inner(),
            Ok(Err(status)) => return Err(CallError::of(&status).into_text()),
            Err(_) => return Err("the leader did not answer".to_owned()),
        };
        match answer.result {
            Some(Answer::Index(index)) => Ok(index),
            Some(Answer::Refused(refused)) => Err(refused.message),
            None => Err("an empty answer".to_owned()),
        }
    }
}

pub(crate) fn millis_until(deadline: Instant) -> u64 {
    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
}
