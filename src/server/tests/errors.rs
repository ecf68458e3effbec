use std::time::Duration;

use holdfast_api::{Client, ClientError, v1};
use holdfast_statemachine::{Action, Adopt};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use prost::bytes::{Buf, BufMut};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Request, Status};

use super::single::{Fate, Served};
use super::{grant, ip_pool};
use crate::wire::messages;

fn propose(actions: &[Action]) -> v1::ProposeRequest {
    v1::ProposeRequest { source: String::new(), commands: messages(actions) }
}

fn pool() -> Action {
    ip_pool("p", "10.0.0.10", "10.0.0.99")
}

#[tokio::test]
async fn a_write_of_unknown_fate_is_told_and_not_repeated() {
    let served = Served::start().await;
    served.replica.fate(&[Fate::AnswerLost]);
    let told = served.client().propose(propose(&[pool()])).await;
    assert_eq!(told, Err(ClientError::FateUnknown { why: "leadership lost".into() }));
    assert_eq!(served.replica.applied(), 1);
    assert_eq!(told.map_err(|error| error.exit_code()), Err(4));
}

#[tokio::test]
async fn repeating_a_write_of_unknown_fate_changes_nothing_more() {
    let served = Served::start().await;
    served.apply(&[pool()]).await;
    served.replica.fate(&[Fate::AnswerLost]);
    let response =
        served.client().propose_repeatedly(propose(&[grant("vm", "p")])).await.expect("the second is answered");
    assert_eq!(served.replica.applied(), 3);
    let Some(v1::command_result::Result::Outcome(outcome)) = &response.results[0].result else {
        panic!("{response:?}")
    };
    assert!(!outcome.changed);
    assert_eq!(outcome.granted[0].first, "10.0.0.10");
}

#[tokio::test]
async fn the_answer_at_the_deadline_says_that_the_fate_is_unknown() {
    let served = Served::start().await;
    served.replica.fate(&[Fate::Stuck]);
    let client = served.client().with_timeout(Duration::from_millis(500));
    let told = client.propose(propose(&[pool()])).await;
    assert_eq!(told, Err(ClientError::FateUnknown { why: "no answer by the deadline".into() }));
}

#[tokio::test]
async fn overload_is_told_and_nothing_done() {
    let served = Served::start().await;
    served.replica.fate(&[Fate::Overloaded]);
    let told = served.client().propose(propose(&[pool()])).await;
    assert_eq!(told, Err(ClientError::Overloaded { what: "commands that wait".into(), limit: 7 }));
    assert_eq!(served.replica.applied(), 0);
}

#[tokio::test]
async fn dead_endpoints_are_not_noticed() {
    let served = Served::start().await;
    // A port that was free a moment ago: nothing listens there.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
    let dead = listener.local_addr().expect("it is bound").to_string();
    drop(listener);
    let client = Client::new([dead.clone(), served.address.to_string(), dead.clone()]).expect("endpoints");
    client.propose(propose(&[pool()])).await.expect("the second endpoint answers");
    client.list_pools(v1::ListPoolsRequest::default()).await.expect("it answers");
    let alone = Client::new([dead]).expect("an endpoint");
    let told = alone.propose(propose(&[pool()])).await;
    assert!(matches!(told, Err(ClientError::Unreachable { .. })), "{told:?}");
    assert_eq!(told.map_err(|error| error.exit_code()), Err(3));
}

#[tokio::test]
async fn what_makes_no_sense_is_named_by_its_path() {
    let served = Served::start().await;
    let client = served.client();
    let mut request = propose(&[pool(), grant("vm", "p")]);
    let Some(v1::command::Action::Grant(wrong)) = &mut request.commands[1].action else { panic!("a grant") };
    wrong.addresses = vec!["10.0.0.300".into()];
    let told = client.propose(request).await;
    let invalid = |field: &str, value: &str, allowed: &str| {
        Err(ClientError::Invalid { field: field.into(), value: value.into(), allowed: allowed.into() })
    };
    assert_eq!(told, invalid("commands[1].grant.addresses[0]", "10.0.0.300", "an IPv4 or IPv6 address"));

    let told = client.propose(v1::ProposeRequest { source: "kubernetes".into(), ..propose(&[pool()]) }).await;
    assert_eq!(told, invalid("source", "kubernetes", "api, or manifests: and a name"));
    let told = client.propose(propose(&[pool(), Action::Adopt(Adopt::End)])).await;
    assert_eq!(told, invalid("commands[1].adopt", "adopt", "any other command"));
    let told = client.propose(propose(&vec![pool(); 1_001])).await;
    assert_eq!(told, invalid("commands", "1001 items", "1 to 1000 items"));
    let told = client.propose(propose(&[])).await;
    assert_eq!(told, invalid("commands", "0 items", "1 to 1000 items"));

    let told = client.list_pools(v1::ListPoolsRequest { consistency: 9, ..Default::default() }).await;
    assert!(matches!(&told, Err(ClientError::Invalid { field, .. }) if field == "consistency"), "{told:?}");
    let page = Some(v1::Page { size: 1, token: "noise".into() });
    let told = client.list_pools(v1::ListPoolsRequest { page, ..Default::default() }).await;
    assert!(matches!(&told, Err(ClientError::Invalid { field, .. }) if field == "page.token"), "{told:?}");
    let told = client.get_node(v1::GetNodeRequest { name: "gone".into(), ..Default::default() }).await;
    assert_eq!(told, Err(ClientError::NotFound { kind: "Node".into(), name: "gone".into() }));
    assert_eq!(served.replica.applied(), 0);
}

#[tokio::test]
async fn a_request_beyond_the_bound_is_refused() {
    let served = Served::start().await;
    let mut request = propose(&[pool()]);
    request.source = "x".repeat(5 << 20);
    let told = served.client().propose(request).await;
    assert!(told.is_err());
    assert_eq!(served.replica.applied(), 0);
    served.client().list_pools(v1::ListPoolsRequest::default()).await.expect("the server goes on");
}

/// Sends bytes as they are.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = ();
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        from.advance(from.remaining());
        Ok(Some(()))
    }
}

#[tokio::test]
async fn noise_is_answered_with_an_error_and_changes_nothing() {
    let served = Served::start().await;
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{}", served.address)).expect("a URL");
    let mut client = tonic::client::Grpc::new(endpoint.connect().await.expect("it listens"));
    let mut runner = TestRunner::deterministic();
    let noise = proptest::collection::vec(any::<u8>(), 1..80);
    for method in ["Propose", "ListGrants", "GetReservation", "Explain", "History"] {
        let path: tonic::codegen::http::uri::PathAndQuery =
            format!("/holdfast.v1.Ledger/{method}").parse().expect("a path");
        for _ in 0..100 {
            let bytes = noise.new_tree(&mut runner).expect("bytes").current();
            client.ready().await.expect("the connection lives");
            if let Err(status) = client.unary(Request::new(bytes), path.clone(), Raw).await {
                // tonic says INTERNAL of what does not decode at all.
                let codes = [Code::InvalidArgument, Code::NotFound, Code::Internal];
                assert!(codes.contains(&status.code()), "{method}: {status:?}");
            }
        }
    }
    assert_eq!(served.replica.applied(), 0);
}
