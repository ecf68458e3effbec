//! What clients see of three replicas: one ledger, whichever they ask.

use holdfast_api::Client;
use holdfast_api::v1::Consistency;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use super::ask::{grant, holder, named, only, propose, put_pool};
use super::group::{Group, eventually};
use super::serial;

/// What one replica acknowledged, every other shows at once; what may be old says how old.
#[tokio::test]
async fn a_read_from_any_replica_sees_every_acknowledged_write() {
    let _alone = serial().await;
    let group = Group::formed(3, &[]).await;
    let clients: Vec<_> = (0..3).map(|number| group.client_of(number)).collect();
    clients[0].propose_repeatedly(propose([put_pool("pods", "10.0.0.0/24")])).await.expect("a group that is formed");
    for round in 0..60 {
        let (writer, reader) = (&clients[round % 3], &clients[(round + 1 + round / 3 % 2) % 3]);
        let owner = format!("owner-{round}");
        let written = writer.propose(propose([grant(&owner, "pods", None)])).await.expect("all run");
        let (index, revision) = (written.index, written.revision);
        let address = only(written).expect("there is room").granted[0].first.clone();
        let read = reader.get_grant(holder(&address, Consistency::Linearizable)).await.expect("all run");
        let header = read.header.expect("each has one");
        assert_eq!(read.grant.as_ref().and_then(named), Some(&*owner), "{address}: {header:?}");
        assert!(header.index >= index && header.revision >= revision, "{header:?}");
        assert_eq!(header.stale_by_ms, None, "it is not stale");

        let stale = reader.get_grant(holder(&address, Consistency::Stale)).await.expect("all run");
        let header = stale.header.expect("each has one");
        assert!(header.stale_by_ms.is_some(), "{header:?}");
        assert_eq!(header.served_by, group.replicas[(round + 1 + round / 3 % 2) % 3].name);
    }
}

/// A client that names a dead endpoint first does not notice.
#[tokio::test]
async fn one_dead_endpoint_of_three_is_not_noticed() {
    let _alone = serial().await;
    let mut group = Group::formed(3, &[]).await;
    let follower = (group.leader().await + 1) % 3;
    group.kill(follower);
    let mut endpoints = group.endpoints();
    endpoints.swap(0, follower);
    let client = Client::new(&endpoints).expect("good endpoints");
    client.propose(propose([put_pool("pods", "10.0.0.0/24")])).await.expect("two of three run");
    for round in 0..10 {
        // A new client each time: it has not learned yet which endpoint answers.
        let client = Client::new(&endpoints).expect("good endpoints");
        let written = client.propose(propose([grant(&format!("owner-{round}"), "pods", None)])).await;
        let address = only(written.expect("two of three run")).expect("there is room").granted[0].first.clone();
        let client = Client::new(&endpoints).expect("good endpoints");
        let read = client.get_grant(holder(&address, Consistency::Linearizable)).await.expect("two of three run");
        assert!(read.grant.is_some());
    }
}

/// A replica that is cut off from the others answers what may be old, and only that.
#[tokio::test]
async fn without_a_quorum_only_stale_reads_are_answered() {
    let _alone = serial().await;
    let mut group = Group::formed(3, &[]).await;
    let setup = propose([put_pool("pods", "10.0.0.0/24"), grant("owner", "pods", Some("10.0.0.7"))]);
    group.client().propose_repeatedly(setup).await.expect("a group that is formed");
    group.settled().await;
    group.kill(0);
    group.kill(1);
    let client = group.client_of(2).with_timeout(std::time::Duration::from_secs(2));
    client.get_grant(holder("10.0.0.7", Consistency::Linearizable)).await.expect_err("there is no quorum");
    let stale = client.get_grant(holder("10.0.0.7", Consistency::Stale)).await.expect("it needs none");
    assert_eq!(stale.grant.as_ref().and_then(named), Some("owner"));
    assert!(stale.header.expect("each has one").stale_by_ms.is_some());
}

/// The standard services say whether a replica serves, and what.
#[tokio::test]
async fn health_and_reflection_are_served() {
    let _alone = serial().await;
    let mut group = Group::new(3, &[]);
    group.start(0);
    let url = format!("http://{}", group.replicas[0].address);
    let channel = tonic::transport::Endpoint::from_shared(url).expect("a URL").connect_lazy();
    let health = HealthClient::new(channel.clone());
    let serving = async |service: &str| {
        let request = HealthCheckRequest { service: service.to_owned() };
        let answer: HealthCheckResponse = health.clone().check(request).await.ok()?.into_inner();
        Some(answer.status())
    };
    let alone = eventually("it answers", async || serving("holdfast.v1.Ledger").await).await;
    assert_eq!(alone, ServingStatus::NotServing, "no group is formed yet");
    group.start(1);
    group.start(2);
    for service in ["", "holdfast.v1.Ledger", "holdfast.v1.Cluster"] {
        eventually("it serves", async || {
            serving(service).await.filter(|status| *status == ServingStatus::Serving).map(drop)
        })
        .await;
    }
    assert_eq!(serving("no.such.Service").await, None);

    let mut reflection = ServerReflectionClient::new(channel);
    let list = MessageRequest::ListServices(String::new());
    let symbol = MessageRequest::FileContainingSymbol("holdfast.v1.Ledger.Propose".to_owned());
    let requests = [list, symbol].map(|it| ServerReflectionRequest { host: String::new(), message_request: Some(it) });
    let answers = reflection.server_reflection_info(futures::stream::iter(requests)).await.expect("it is served");
    let mut answers = answers.into_inner();
    let listed = answers.message().await.expect("it goes on").and_then(|it| it.message_response);
    let Some(MessageResponse::ListServicesResponse(list)) = listed else { panic!("{listed:?}") };
    let services: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
    for service in ["holdfast.v1.Ledger", "holdfast.v1.Cluster", "grpc.health.v1.Health"] {
        assert!(services.contains(&service), "{services:?}");
    }
    let file = answers.message().await.expect("it goes on").and_then(|it| it.message_response);
    let Some(MessageResponse::FileDescriptorResponse(file)) = file else { panic!("{file:?}") };
    assert!(!file.file_descriptor_proto.is_empty());
}
