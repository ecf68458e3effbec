//! A real group of three, served as the binary serves it.

use std::time::{Duration, Instant};

use holdfast_api::{Client, ClientError, v1};
use holdfast_raft::{Node, NodeConfig};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::{grant, ip_pool};
use crate::server::serve;
use crate::wire::messages;

struct Member {
    node: Node,
    address: String,
    stop: oneshot::Sender<()>,
    done: tokio::task::JoinHandle<()>,
    _directory: tempfile::TempDir,
}

async fn group() -> Vec<Member> {
    let names = ["a", "b", "c"];
    let mut listeners = Vec::new();
    for _ in names {
        listeners.push(TcpListener::bind("127.0.0.1:0").await.expect("a port on loopback"));
    }
    let addresses: Vec<String> =
        listeners.iter().map(|listener| listener.local_addr().expect("it is bound").to_string()).collect();
    let initial: Vec<(String, String)> = names.iter().map(ToString::to_string).zip(addresses.clone()).collect();
    let mut members = Vec::new();
    for ((name, address), listener) in initial.clone().into_iter().zip(listeners) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut config = NodeConfig::new(name, directory.path(), address.clone());
        config.initial_members.clone_from(&initial);
        config.disk_watermark = 0;
        let node = Node::start(config).await.expect("an empty replica starts");
        let (stop, stopped) = oneshot::channel::<()>();
        let served = node.clone();
        let done = tokio::spawn(async move {
            serve(served, None, listener, async { drop(stopped.await) })
                .await
                .expect("it serves until it is told to stop");
        });
        members.push(Member { node, address, stop, done, _directory: directory });
    }
    let deadline = Instant::now() + Duration::from_secs(30);
    for member in &members {
        member.node.ready(deadline).await.expect("the group forms");
    }
    members
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_member_takes_any_request() {
    let members = group().await;
    for (number, member) in members.iter().enumerate() {
        let client = Client::new([&member.address]).expect("an endpoint");
        let actions = [ip_pool("p", "10.0.0.10", "10.0.0.99"), grant(&format!("vm-{number}"), "p")];
        let request = v1::ProposeRequest { source: String::new(), commands: messages(&actions) };
        client.propose(request).await.expect("it is forwarded if need be");
        let grants = client.list_grants(v1::ListGrantsRequest::default()).await.expect("it is answered");
        assert_eq!(grants.grants.len(), number + 1);
        let header = grants.header.expect("it is set");
        assert!(header.index > 0 && !header.cluster_id.is_empty());
    }
    let client = Client::new(members.iter().map(|member| &member.address)).expect("endpoints");
    let listed = client.member_list(v1::MemberListRequest {}).await.expect("it is answered");
    let names: Vec<&str> = listed.members.iter().map(|member| member.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let taken = client.snapshot(v1::SnapshotRequest {}).await.expect("it is taken");
    let status = client.status(v1::StatusRequest {}).await.expect("it is answered");
    assert_eq!(status.snapshot_index, Some(taken.index));
    client.leader_transfer(v1::LeaderTransferRequest { to: "b".into() }).await.expect("b takes over");
    let lost = client.member_replace(v1::MemberReplaceRequest { name: "z".into(), address: String::new() }).await;
    assert_eq!(lost, Err(ClientError::NotFound { kind: "member".into(), name: "z".into() }));

    let deadline = Instant::now() + Duration::from_secs(10);
    for member in members {
        member.node.shutdown(deadline).await;
        drop(member.stop);
        member.done.await.expect("the server ends well");
    }
}
