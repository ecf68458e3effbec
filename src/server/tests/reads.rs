use holdfast_api::{ClientError, v1};
use holdfast_statemachine::command::{Grant, Owner, PodOwner, Reserve, ReserveSpec, Retention, StatefulSetId};
use holdfast_statemachine::{Action, Ledger, PoolKind};
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

use super::single::Served;
use super::{egress, external_pool, grant, ip_pool, node, reserve};
use crate::wire::{Wire, row::read_row};

fn id(name: &str) -> v1::StatefulSetId {
    StatefulSetId { namespace: "default".into(), name: name.into() }.to_message()
}

async fn connect(served: &Served) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{}", served.address)).expect("a URL");
    endpoint.connect().await.expect("it listens")
}

#[tokio::test]
async fn health_says_serving_once_the_replica_is_ready() {
    let served = Served::start().await;
    let mut health = HealthClient::new(connect(&served).await);
    for service in ["", "holdfast.v1.Ledger", "holdfast.v1.Cluster"] {
        let request = HealthCheckRequest { service: service.to_owned() };
        let mut states = health.watch(request).await.expect("the service is known").into_inner();
        while let Some(state) = states.message().await.expect("it goes on") {
            if state.status() == ServingStatus::Serving {
                break;
            }
        }
    }
}

#[tokio::test]
async fn reflection_lists_the_services_and_knows_the_failures() {
    let served = Served::start().await;
    let mut reflection = ServerReflectionClient::new(connect(&served).await);
    let ask = |message_request| ServerReflectionRequest { host: String::new(), message_request: Some(message_request) };
    let requests = futures::stream::iter([
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol("holdfast.v1.Failure".to_owned())),
    ]);
    let mut answers = reflection.server_reflection_info(requests).await.expect("v1 is served").into_inner();
    let mut next = async || -> ServerReflectionResponse { answers.message().await.expect("it answers").expect("both") };
    let Some(MessageResponse::ListServicesResponse(list)) = next().await.message_response else { panic!("no list") };
    let names: Vec<String> = list.service.into_iter().map(|service| service.name).collect();
    for name in ["holdfast.v1.Ledger", "holdfast.v1.Cluster", "grpc.health.v1.Health"] {
        assert!(names.iter().any(|listed| listed == name), "{names:?}");
    }
    let file = next().await.message_response;
    assert!(matches!(file, Some(MessageResponse::FileDescriptorResponse(_))), "{file:?}");
}

#[tokio::test]
async fn a_reservation_is_shown_whole_and_in_parts() {
    let served = Served::start().await;
    served.apply(&[ip_pool("p", "10.0.0.10", "10.0.0.19"), reserve("web", 5, "p"), reserve("large", 9, "p")]).await;
    let client = served.client();
    let request = v1::GetReservationRequest { id: Some(id("web")), ..Default::default() };
    let whole = client.get_reservation(request.clone()).await.expect("it is there");
    let reservation = whole.reservation.expect("it is set");
    assert_eq!(reservation.phase(), v1::reservation::Phase::Granted);
    assert_eq!((reservation.addresses, reservation.block_count), (5, 1));
    let block = &reservation.blocks[0];
    let range = block.range.as_ref().expect("a block has a range");
    assert_eq!((range.first.as_str(), range.last.as_str(), block.count), ("10.0.0.10", "10.0.0.14", 5));

    let mut collected = Vec::new();
    let mut token = String::new();
    loop {
        let page = Some(v1::Page { size: 2, token });
        let part = client.get_reservation(v1::GetReservationRequest { page, ..request.clone() }).await.expect("a part");
        assert!(part.ordinals.len() <= 2);
        collected.extend(part.ordinals);
        token = part.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(collected, whole.ordinals);
    let addresses: Vec<&str> = collected.iter().map(|ordinal| ordinal.addresses[0].address.as_str()).collect();
    assert_eq!(addresses, ["10.0.0.10", "10.0.0.11", "10.0.0.12", "10.0.0.13", "10.0.0.14"]);

    let subject = Some(v1::explain_request::Subject::Reservation(id("large")));
    let explained = client.explain(v1::ExplainRequest { consistency: 0, subject }).await.expect("it waits");
    let wait = explained.explanations[0].waiting.as_ref().expect("too large");
    let Some(v1::waiting::Reason::Exhausted(room)) = &wait.waiting[0].reason else { panic!("{wait:?}") };
    let tried = &room.tried[0];
    assert_eq!((tried.needed.as_str(), tried.free.as_str(), tried.largest_free_run.as_str()), ("9", "5", "5"));
}

#[tokio::test]
async fn what_a_former_stateful_set_left_is_shown_with_its_rule() {
    let served = Served::start().await;
    let set = StatefulSetId { namespace: "default".into(), name: "web".into() };
    let pod = PodOwner {
        namespace: "default".into(),
        name: "web-1".into(),
        uid: "uid-web-1".into(),
        container_id: None,
        interface: None,
        ordinal: Some((set, 1)),
    };
    let pools = vec!["p".into()];
    let bind = Action::Grant(Grant {
        owner: Owner::Pod(pod),
        kind: PoolKind::IpPool,
        pools: pools.clone(),
        addresses: vec![],
    });
    let of_uid = |uid: &str, replicas: u32| {
        let Action::Reserve(reserve) = reserve("web", replicas, "p") else { panic!("it reserves") };
        let spec = ReserveSpec { when_deleted: Retention::After(60_000), ..reserve.spec };
        Action::Reserve(Reserve { uid: uid.into(), spec, ..reserve })
    };
    served.apply(&[ip_pool("p", "10.0.0.10", "10.0.0.19"), of_uid("former", 2), bind, of_uid("new", 1)]).await;
    let request = v1::GetReservationRequest { id: Some(id("web")), ..Default::default() };
    let shown = served.client().get_reservation(request).await.expect("it is there").ordinals;
    let left = Some(Retention::After(60_000).to_message());
    assert_eq!(
        shown.iter().map(|it| (it.ordinal, it.wanted, it.left)).collect::<Vec<_>>(),
        [(0, true, None), (1, false, left)]
    );
}

#[tokio::test]
async fn pages_of_grants_are_the_whole_list() {
    let served = Served::start().await;
    served.apply(&[ip_pool("p", "10.0.1.0", "10.0.1.255"), ip_pool("q", "10.0.2.0", "10.0.2.9")]).await;
    let owners: Vec<_> = (0..25).map(|n| grant(&format!("vm-{n:02}"), "p")).collect();
    served.apply(&owners).await;
    served.apply(&[grant("other", "q")]).await;
    let client = served.client();
    let mut request = v1::ListGrantsRequest {
        page: Some(v1::Page { size: 10, token: String::new() }),
        pool: Some(v1::PoolId { kind: v1::PoolKind::IpPool.into(), name: "p".into() }),
        ..Default::default()
    };
    let mut sizes = Vec::new();
    let mut addresses = Vec::new();
    loop {
        let part = client.list_grants(request.clone()).await.expect("a part");
        sizes.push(part.grants.len());
        addresses.extend(part.grants.into_iter().map(|grant| grant.address));
        if part.next_page_token.is_empty() {
            break;
        }
        request.page = Some(v1::Page { size: 10, token: part.next_page_token });
    }
    assert_eq!(sizes, [10, 10, 5]);
    let expected: Vec<String> = (0..25).map(|n| format!("10.0.1.{n}")).collect();
    assert_eq!(addresses, expected);

    let holder = Some(v1::HolderRef { holder: Some(v1::holder_ref::Holder::Named("other".into())) });
    let own = client.list_grants(v1::ListGrantsRequest { holder, ..Default::default() }).await.expect("one");
    assert_eq!(own.grants.len(), 1);
    assert_eq!(own.grants[0].address, "10.0.2.0");
}

#[tokio::test]
async fn an_egress_without_a_node_is_explained_by_each() {
    let served = Served::start().await;
    let actions =
        [node("a", true), node("b", false), external_pool("x", "192.0.2.0/29"), egress("e1", "x"), egress("e2", "x")];
    served.apply(&actions).await;
    let client = served.client();
    let placed = client.get_egress(v1::GetEgressRequest { name: "e1".into(), ..Default::default() }).await;
    let placed = placed.expect("it is there").egress.expect("it is set");
    assert_eq!(placed.addresses[0].node.as_deref(), Some("a"));
    assert!(placed.addresses[0].epoch > 0);

    let subject = Some(v1::explain_request::Subject::Egress("e2".into()));
    let explained = client.explain(v1::ExplainRequest { consistency: 0, subject }).await.expect("it is there");
    let explanation = &explained.explanations[0];
    assert!(explanation.placement.is_none());
    let reasons: Vec<(&str, v1::ineligible::Reason)> = explanation
        .nodes
        .iter()
        .map(|node| (node.node.as_str(), node.why.as_ref().expect("neither is eligible").reason()))
        .collect();
    assert_eq!(reasons, [("a", v1::ineligible::Reason::AtCapacity), ("b", v1::ineligible::Reason::NotReady)]);
    let full = explanation.nodes[0].why.as_ref().expect("it is full");
    assert_eq!((full.carried, full.capacity), (1, 1));
    assert_eq!(explanation.counts.len(), 2);
}

#[tokio::test]
async fn history_tells_who_held_an_address() {
    let served = Served::start().await;
    served.apply(&[ip_pool("p", "10.0.0.10", "10.0.0.10"), grant("old", "p")]).await;
    let release = holdfast_statemachine::command::ReleaseGrant {
        owner: holdfast_statemachine::command::OwnerRef::Named("old".into()),
        uid: "".into(),
        revision: None,
    };
    served.apply(&[holdfast_statemachine::Action::ReleaseGrant(release), grant("new", "p")]).await;
    let of = Some(v1::history_request::Of::Address("10.0.0.10".into()));
    let request = v1::HistoryRequest { of, ..Default::default() };
    let history = served.client().history(request).await.expect("it is known").intervals;
    let names: Vec<String> = history
        .iter()
        .map(|interval| match &interval.what {
            Some(v1::interval::What::Held(held)) => match &held.holder.as_ref().expect("held by someone").holder {
                Some(v1::holder::Holder::Named(named)) => named.name.clone(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(names, ["new", "old"]);
    assert!(history[0].to.is_none() && history[1].to.is_some());
}

#[tokio::test]
async fn rows_are_the_ledger() {
    let served = Served::start().await;
    served.apply(&[ip_pool("p", "10.0.1.0", "10.0.9.255"), reserve("web", 1_500, "p"), node("a", true)]).await;
    let (header, rows) = served.client().rows(v1::RowsRequest::default()).await.expect("all rows");
    let rows: Vec<_> = rows.into_iter().map(|row| read_row(row).expect("a row")).collect();
    assert!(rows.len() > 1_500);
    let copy = Ledger::from_rows(rows).expect("they make a ledger");
    assert_eq!(copy.tables().clock().revision, header.revision);
    assert_eq!(header.cluster_id, "00000000000000ab");
    assert_eq!(header.served_by, "single");
    let theirs = served.replica_rows();
    assert_eq!(copy.tables().rows().collect::<Vec<_>>(), theirs);

    let request = v1::RowsRequest { declarations_only: true, ..Default::default() };
    let (_, declared) = served.client().rows(request).await.expect("the declarations");
    assert_eq!(declared.len(), 4, "settings, pool, reservation, Node");
}

#[tokio::test]
async fn stale_reads_say_their_age_and_need_no_quorum() {
    let served = Served::start().await;
    *served.replica.confirms.lock().expect("no test panics with it") = false;
    let client = served.client();
    let stale = v1::ListPoolsRequest { consistency: v1::Consistency::Stale.into(), ..Default::default() };
    let header = client.list_pools(stale).await.expect("it is answered").header.expect("it is set");
    assert_eq!(header.stale_by_ms, Some(5));
    let refused = client.list_pools(v1::ListPoolsRequest::default()).await;
    assert!(matches!(refused, Err(ClientError::Unreachable { .. })), "{refused:?}");
}

#[tokio::test]
async fn status_and_check_speak_of_the_replica() {
    let served = Served::start().await;
    served.apply(&[ip_pool("p", "10.0.0.10", "10.0.0.19"), grant("vm", "p")]).await;
    let client = served.client();
    let status = client.status(v1::StatusRequest {}).await.expect("it answers");
    assert_eq!((status.name.as_str(), status.role()), ("single", v1::Role::Leader));
    assert_eq!(status.warnings, ["no leader is known", "this replica's clock is 61 s behind the ledger's"]);
    assert_eq!(status.history.expect("it is set").rows, status.revision);
    let check = client.check(v1::CheckRequest {}).await.expect("it answers");
    assert_eq!(check.findings, Vec::<String>::new());
    assert_eq!((&check.digest, &check.recomputed_digest), (&status.digest, &status.digest));
}
