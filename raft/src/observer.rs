//! What a replica looks at from time to time: who leads, whether it can go on, snapshots due, free space.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures::future::join_all;
use holdfast_api::raft::v1 as pb;
use openraft::ServerState;

use crate::NodeId;
use crate::peer::wire;
use crate::replica::Replica;
use crate::types::{Member, Raft};

/// Keeps [`Replica::leadership`] up to date, and notes when openraft has stopped for good. Wakes only when
/// the leader changes, not at every entry.
pub(crate) async fn watch_leadership(weak: Weak<Replica>, raft: Raft) {
    let mut server = raft.server_metrics();
    let Some(mut applied) = weak.upgrade().map(|replica| replica.applied.clone()) else { return };
    loop {
        let office = {
            let server = server.borrow_and_update();
            (server.state == ServerState::Leader).then_some((server.vote.leader_id.term, server.id))
        };
        let own = applied.borrow_and_update().log_id.map(|id| (id.leader_id.term, id.leader_id.node_id));
        let leads = office.filter(|office| own == Some(*office)).map(|(term, _)| term);
        let Some(replica) = weak.upgrade() else { return };
        let changed = replica.leadership.send_if_modified(|leadership| std::mem::replace(leadership, leads) != leads);
        match leads {
            Some(term) if changed => tracing::info!(term, "this replica leads"),
            None if changed => tracing::info!("this replica leads no longer"),
            _ => {}
        }
        drop(replica);
        let waits_for_own = office.is_some() && leads.is_none();
        let changed = tokio::select! {
            changed = server.changed() => changed,
            Ok(()) = applied.changed(), if waits_for_own => Ok(()),
        };
        if changed.is_err() {
            break;
        }
    }
    let state = raft.metrics().borrow().running_state.clone();
    fail(&weak, &state.err().map_or_else(|| "raft ended".to_owned(), |fatal| fatal.to_string()));
}

fn fail(replica: &Weak<Replica>, why: &str) {
    if let Some(replica) = replica.upgrade()
        && !replica.is_stopping()
    {
        replica.fail(&why);
    }
}

/// Takes snapshots when they are due, and as leader asks the voters for their free space.
pub(crate) async fn keep_house(replica: Weak<Replica>, raft: Raft) {
    let mut due = None;
    loop {
        let Some(now) = replica.upgrade() else { return };
        let due = due.get_or_insert_with(|| SnapshotDue::new(&now));
        due.look(&now, &raft).await;
        let leads = now.leadership.borrow().is_some();
        now.space.learned(if leads { ask_free_space(&now, &raft).await } else { BTreeMap::new() });
        if let Some(running) = now.running().filter(|running| running.leads().is_some()) {
            running.finish_change(Instant::now() + now.config.timings.election_max).await;
        }
        let pause = now.config.timings.housekeeping;
        drop(now);
        tokio::time::sleep(pause).await;
    }
}

/// When the next snapshot is due.
struct SnapshotDue {
    /// Where the last one was asked for: index and bytes of log.
    asked: (Option<u64>, u64),
}

impl SnapshotDue {
    fn new(replica: &Replica) -> SnapshotDue {
        let newest = replica.snapshots.newest().and_then(|(meta, _)| meta.last_log_id);
        // What was on disk at the start is counted as new: it is at most a few files.
        SnapshotDue { asked: (newest.map(|id| id.index), 0) }
    }

    async fn look(&mut self, replica: &Replica, raft: &Raft) {
        let policy = &replica.config.snapshots;
        let Some(applied) = replica.applied.borrow().index() else { return };
        let bytes = replica.log.appended_bytes();
        let entries = applied - self.asked.0.map_or(0, |index| index.min(applied));
        let due = entries >= policy.entries || (entries > 0 && bytes - self.asked.1 >= policy.log_bytes);
        if due {
            self.asked = (Some(applied), bytes);
            // It fails only once openraft has stopped, which is noticed elsewhere.
            drop(raft.trigger().snapshot().await);
        }
    }
}

async fn ask_free_space(replica: &Arc<Replica>, raft: &Raft) -> BTreeMap<NodeId, (String, Option<u64>)> {
    let voters = voters(raft);
    let asked = voters.into_iter().map(|(node, member)| async move {
        let free = if node == replica.node() {
            replica.config.free_space.bytes(&replica.config.data_dir).ok()
        } else {
            ask_one(replica, node, &member).await
        };
        (node, (member.name, free))
    });
    join_all(asked).await.into_iter().collect()
}

async fn ask_one(replica: &Replica, node: NodeId, member: &Member) -> Option<u64> {
    let route = Some(wire::route(replica.cluster()?, node));
    let mut client = replica.peers.at(&member.address).ok()?;
    let answer = tokio::time::timeout(Duration::from_secs(1), client.space(pb::SpaceRequest { route }));
    answer.await.ok()?.ok()?.into_inner().space?.free_bytes
}

/// The voters, by id.
fn voters(raft: &Raft) -> Vec<(NodeId, Member)> {
    let metrics = raft.metrics();
    let metrics = metrics.borrow();
    let membership = metrics.membership_config.membership();
    let voters = membership.voter_ids();
    voters.filter_map(|node| Some((node, membership.get_node(&node)?.clone()))).collect()
}
