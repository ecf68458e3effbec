//! What a replica refuses: messages for others, broken snapshots, entries that it cannot read.

use holdfast_api::raft::v1 as pb;
use holdfast_api::raft::v1::peer_client::PeerClient;
use holdfast_raft::{ClusterId, Error, NodeConfig, NodeId};
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::cluster::{Cluster, put_node, soon};

/// A peer of the replica, with all that a message to it must name.
struct Peer {
    client: PeerClient<Channel>,
    cluster: ClusterId,
    node: NodeId,
    ballot: pb::Ballot,
}

impl Peer {
    async fn of(cluster: &Cluster, name: &str) -> Peer {
        let node = cluster.node(name);
        let status = node.status().await;
        let address = status.address.clone();
        let client = PeerClient::connect(format!("http://{address}")).await.expect("it answers");
        let leader = status.leader.expect("one leads").node;
        let ballot = pb::Ballot { term: status.term, node: leader, committed: true };
        Peer { client, cluster: node.cluster().expect("it is formed"), node: node.id(), ballot }
    }

    fn route(&self) -> pb::Route {
        pb::Route { cluster: self.cluster.0, target: self.node }
    }

    async fn append(&mut self, request: pb::AppendRequest) -> Result<pb::AppendResponse, Status> {
        self.client.append(request).await.map(tonic::Response::into_inner)
    }

    async fn send(&mut self, head: pb::SnapshotHead, bytes: Vec<u8>) -> Result<pb::SnapshotResponse, Status> {
        let part = |part| pb::SnapshotPart { part: Some(part) };
        let mut parts = vec![part(pb::snapshot_part::Part::Head(head))];
        parts.extend(bytes.chunks(64).map(|data| part(pb::snapshot_part::Part::Data(data.to_vec().into()))));
        self.client.snapshot(tokio_stream::iter(parts)).await.map(tonic::Response::into_inner)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_meant_for_others_is_refused() {
    let cluster = Cluster::formed(3).await;
    let follower = cluster.follower().await;
    let mut peer = Peer::of(&cluster, &follower).await;
    let routes = [
        pb::Route { cluster: peer.cluster.0 ^ 1, target: peer.node },
        pb::Route { cluster: peer.cluster.0, target: peer.node ^ 1 },
    ];
    for route in routes {
        let append = pb::AppendRequest { route: Some(route), ballot: Some(peer.ballot), ..Default::default() };
        assert_eq!(peer.append(append).await.expect_err("refused").code(), Code::FailedPrecondition);
        let ballot = pb::Ballot { term: 99, node: 1, committed: false };
        let vote = pb::VoteRequest { route: Some(route), ballot: Some(ballot), last_log: None };
        assert_eq!(peer.client.vote(vote).await.expect_err("refused").code(), Code::FailedPrecondition);
        let propose = pb::ProposeRequest { route: Some(route), ..Default::default() };
        assert_eq!(peer.client.propose(propose).await.expect_err("refused").code(), Code::FailedPrecondition);
    }
    let none = pb::AppendRequest { ballot: Some(peer.ballot), ..Default::default() };
    assert_eq!(peer.append(none).await.expect_err("refused").code(), Code::InvalidArgument);
    assert!(cluster.node(&follower).status().await.term < 99);
}

fn one_file(config: &mut NodeConfig) {
    config.snapshots.keep_files = 1;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_with_any_byte_flipped_is_refused() {
    let cluster = Cluster::formed_tuned(3, one_file).await;
    for i in 0..3 {
        cluster.node("a").propose(vec![put_node(&format!("n{i}"))], soon()).await.expect("it is done");
    }
    let (leader, follower) = (cluster.leader().await, cluster.follower().await);
    cluster.node(&leader).take_snapshot().await.expect("it is asked for");
    let bytes = loop {
        if cluster.node(&leader).status().await.snapshot.is_some() {
            let files = std::fs::read_dir(cluster.data_dir(&leader).join("snapshots")).expect("it is there");
            let file = files.map(|item| item.expect("it can be listed").path()).next().expect("there is one");
            break std::fs::read(file).expect("it is read");
        }
        tokio::task::yield_now().await;
    };
    let mut peer = Peer::of(&cluster, &follower).await;
    let head = pb::SnapshotHead {
        route: Some(peer.route()),
        ballot: Some(peer.ballot),
        size: bytes.len() as u64,
        ..Default::default()
    };
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 0x40;
        let refused = peer.send(head.clone(), bad).await.expect_err("a flipped byte");
        assert_eq!(refused.code(), Code::DataLoss, "byte {at}: {refused}");
    }
    let refused = peer.send(head.clone(), bytes[1..].to_vec()).await.expect_err("cut short");
    assert_eq!(refused.code(), Code::DataLoss);
    cluster.agree().await;
    let left = std::fs::read_dir(cluster.data_dir(&follower).join("snapshots")).expect("it is there").count();
    assert_eq!(left, 0, "what was refused is removed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_cannot_be_read_stops_the_replica() {
    let cluster = Cluster::formed(3).await;
    cluster.node("a").propose(vec![put_node("n")], soon()).await.expect("it is done");
    cluster.agree().await;
    let (leader, follower) = (cluster.leader().await, cluster.follower().await);
    let index = cluster.node(&follower).status().await.last_log.expect("it has entries");
    let mut peer = Peer::of(&cluster, &follower).await;
    let id = |index| pb::LogId { term: peer.ballot.term, node: peer.ballot.node, index };
    let entry = pb::LogEntry {
        id: Some(id(index + 1)),
        kind: pb::log_entry::Kind::Proposal.into(),
        payload: b"from a later release".to_vec().into(),
    };
    let append = pb::AppendRequest {
        route: Some(peer.route()),
        ballot: Some(peer.ballot),
        previous: Some(id(index)),
        entries: vec![entry],
        committed: Some(id(index + 1)),
    };
    let answer = peer.append(append).await.expect("it answers").result;
    assert!(matches!(answer, Some(pb::append_response::Result::Done(_))), "it is in the log: {answer:?}");
    let fatal = tokio::time::timeout_at(soon().into(), cluster.node(&follower).fatal()).await.expect("it stops");
    let Error::Raft(why) = fatal else { panic!("{fatal}") };
    assert!(why.contains(&format!("entry {} cannot be read", index + 1)), "{why}");
    assert_eq!(cluster.node(&follower).applied_index(), Some(index), "it is not skipped");
    cluster.node(&leader).propose(vec![put_node("m")], soon()).await.expect("the others go on");
}
