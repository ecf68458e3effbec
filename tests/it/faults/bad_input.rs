//! What no honest client sends. It is answered with an error, changes nothing, and hurts nobody.

use holdfast_api::v1::command::Action;
use holdfast_api::v1::{self, GetPoolRequest, ProposeRequest};
use holdfast_api::{Client, ClientError, FILE_DESCRIPTOR_SET};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use prost::Message as _;
use prost::bytes::{Buf, BufMut};
use prost_types::{FileDescriptorSet, MethodDescriptorProto};
use tokio::io::AsyncWriteExt as _;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use super::ask::{grant, only, pool_id, propose, put_pool, release};
use super::group::Group;
use super::{long, seed, serial};

/// Messages as the bytes that they are.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
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
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining()).to_vec()))
    }
}

/// Values of strategies, made again from a seed.
struct Values(TestRunner);

impl Values {
    fn new(seed: u64) -> Values {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let config = Config { failure_persistence: None, ..Config::default() };
        Values(TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)))
    }

    fn next<S: Strategy>(&mut self, strategy: &S) -> S::Value {
        strategy.new_tree(&mut self.0).expect("no strategy here gives up").current()
    }
}

/// A group with something in it that must not change.
async fn formed() -> Group {
    let group = Group::formed(3, &[]).await;
    let setup = propose([put_pool("pods", "10.0.0.0/24"), grant("owner", "pods", None)]);
    group.client().propose_repeatedly(setup).await.expect("a group that is formed");
    group
}

/// Everything in the ledger but the time, which every entry moves.
async fn rows(group: &Group) -> Vec<v1::Row> {
    let (_, mut rows) = group.client().rows(v1::RowsRequest::default()).await.expect("all run");
    for row in &mut rows {
        if let Some(v1::row::Row::Clock(clock)) = &mut row.row {
            clock.time_ms = 0;
        }
    }
    rows
}

/// That all replicas run, none has panicked, and the ledger is as it was.
async fn assert_unhurt(group: &mut Group, before: &[v1::Row]) {
    for number in 0..3 {
        assert!(group.runs(number), "{}", group.log(number));
        assert!(!group.log(number).contains("panicked"), "{}", group.log(number));
    }
    assert_eq!(group.assert_equal_digests().await.len(), 3);
    assert_eq!(rows(group).await, before);
    let works = group.client().propose(propose([grant("owner", "pods", None)])).await;
    assert!(!only(works.expect("all run")).expect("it is held").changed);
}

/// Every method of every service of ours: its path.
fn methods() -> Vec<String> {
    let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("our own descriptors");
    let mut methods = Vec::new();
    for file in &set.file {
        for service in &file.service {
            let names = service.method.iter().map(MethodDescriptorProto::name);
            methods.extend(names.map(|name| format!("/{}.{}/{name}", file.package(), service.name())));
        }
    }
    // Nothing in it is meaningful there: it may well do what it says.
    methods.retain(|method| !method.ends_with("/LeaderTransfer"));
    methods
}

/// One call with this message; the first answer, if there is one.
async fn call(channel: &Channel, path: &str, message: Vec<u8>) -> Result<(), Status> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let path = path.parse().expect("a path");
    client.server_streaming(Request::new(message), path, Raw).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_bytes_are_errors() {
    let _alone = serial().await;
    let mut values = Values::new(seed());
    let mut group = formed().await;
    let before = rows(&group).await;
    let methods = methods();
    assert!(methods.len() > 30, "{methods:?}");
    let address = group.replicas[group.leader().await].address.clone();
    let channel = Endpoint::from_shared(format!("http://{address}")).expect("a URL").connect_lazy();
    let honest = propose([grant("owner", "pods", None)]).encode_to_vec();
    // A field that is always there and never what is wanted, in front of what may be anything.
    let bytes = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..200),
        proptest::collection::vec(any::<u8>(), 0..20)
            .prop_map(|tail| [vec![0x0a, 0xff, 0xff, 0xff, 0x7f], tail].concat()),
        (0..honest.len(), 1..=255_u8).prop_map(move |(at, flip)| {
            let mut bytes = honest.clone();
            bytes[at] ^= flip;
            bytes.truncate(bytes.len() - at % 2);
            bytes
        }),
    ];
    let times = if long() { 2_000 } else { 40 };
    let (mut calls, mut refused) = (0, 0);
    for method in &methods {
        for _ in 0..times {
            let message = values.next(&bytes);
            // An honest grant with a byte changed may be another honest grant.
            if method.ends_with(".Ledger/Propose") && ProposeRequest::decode(&*message).is_ok() {
                continue;
            }
            calls += 1;
            if let Err(status) = call(&channel, method, message.clone()).await {
                refused += 1;
                assert!(
                    !matches!(status.code(), Code::Unavailable | Code::Cancelled),
                    "{method} {message:?}: {status:?}"
                );
            }
        }
    }
    assert!(refused > calls / 4, "{refused} of {calls}");
    assert_unhurt(&mut group, &before).await;
    println!("{calls} calls of {} methods with random bytes, {refused} refused, nothing changed", methods.len());
}

/// Bytes that are no HTTP/2, or begin as if they were.
#[tokio::test]
async fn noise_on_the_wire_hurts_nobody() {
    let _alone = serial().await;
    let mut values = Values::new(seed());
    let mut group = formed().await;
    let before = rows(&group).await;
    let noise = (any::<bool>(), proptest::collection::vec(any::<u8>(), 0..4_000));
    for number in 0..if long() { 3_000 } else { 90 } {
        let (preface, noise) = values.next(&noise);
        let mut stream = tokio::net::TcpStream::connect(&group.replicas[number % 3].address).await.expect("it listens");
        if preface {
            stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("nothing is said yet");
        }
        // The replica may hang up in the middle of it.
        drop(stream.write_all(&noise).await);
    }
    assert_unhurt(&mut group, &before).await;
}

/// Names that are none.
fn bad_name() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-z]{254,300}", Just("x".repeat(1 << 20)), "[a-z]{1,5}[\u{0}-\u{1f}][a-z]{1,5}",]
}

/// Text that is no address.
fn bad_address() -> impl Strategy<Value = String> {
    "[0-9a-f.:/ ]{0,40}|\\PC{0,40}".prop_filter("no address", |text| text.parse::<std::net::IpAddr>().is_err())
}

/// Numbers that name nothing.
fn bad_enum() -> impl Strategy<Value = i32> {
    prop_oneof![Just(0), Just(-1), 100..i32::MAX, i32::MIN..-1]
}

fn with(mut action: Action, change: impl FnOnce(&mut Action)) -> Action {
    change(&mut action);
    action
}

/// A grant that is wrong in one place.
fn wrong_grant() -> impl Strategy<Value = Option<Action>> {
    (0..8, bad_name(), bad_address(), bad_enum()).prop_map(|(place, name, address, number)| {
        Some(with(grant("other", "pods", None), |action| {
            let Action::Grant(grant) = action else { unreachable!("it is a grant") };
            let named = v1::owner::Named { name: name.clone(), uid: String::new() };
            match place {
                0 => grant.owner = None,
                1 => grant.owner = Some(v1::Owner { owner: None }),
                2 => grant.owner = Some(v1::Owner { owner: Some(v1::owner::Owner::Named(named)) }),
                3 => grant.kind = number,
                4 => grant.pools = vec![name],
                5 => grant.pools = Vec::new(),
                6 => grant.addresses = vec![address],
                _ => {
                    let pod = v1::owner::Pod { pod: None, stateful_set: None, ordinal: 0 };
                    grant.owner = Some(v1::Owner { owner: Some(v1::owner::Owner::Pod(pod)) });
                }
            }
        }))
    })
}

/// A pool that is wrong in one place.
fn wrong_pool() -> impl Strategy<Value = Option<Action>> {
    (0..7, bad_name(), bad_address(), bad_enum()).prop_map(|(place, name, address, number)| {
        Some(with(put_pool("other", "10.7.0.0/24"), |action| {
            let Action::PutPool(pool) = action else { unreachable!("it is a pool") };
            let subnet = pool.subnet.as_mut().expect("it has one");
            match place {
                0 => pool.pool = None,
                1 => pool.pool = Some(v1::PoolId { kind: number, ..pool_id("other") }),
                2 => pool.pool = Some(pool_id(&name)),
                3 => pool.ranges = vec![v1::RangeSpec { form: None }],
                4 => pool.ranges = Vec::new(),
                5 => subnet.gateway = address,
                _ => subnet.prefix_length = 129 + number.unsigned_abs() % 1_000_000,
            }
        }))
    })
}

/// Other actions that are wrong in one place.
fn wrong_other() -> impl Strategy<Value = Option<Action>> {
    (0..10, bad_name(), bad_address(), bad_enum()).prop_map(|(place, name, address, number)| {
        let item = v1::EgressItem { pool: Some("pods".to_owned()), address: Some(address.clone()) };
        let egress = v1::PutEgress { name: "other".to_owned(), items: vec![item], ..v1::PutEgress::default() };
        let node = v1::PutNode { name: name.clone(), ..v1::PutNode::default() };
        Some(match place {
            0 => return None,
            1 => Action::ReleaseGrant(v1::ReleaseGrant::default()),
            2 => with(release("owner"), |action| {
                let Action::ReleaseGrant(release) = action else { unreachable!("it is a release") };
                release.owner = Some(v1::OwnerRef { owner: None });
            }),
            3 => Action::Reserve(v1::Reserve::default()),
            4 => Action::PutEgress(egress),
            5 => Action::PutNode(node),
            6 => Action::PutSettings(v1::PutSettings { policy: Some(number), ..v1::PutSettings::default() }),
            7 => Action::Sweep(v1::Sweep { gone: vec![v1::Gone::default()] }),
            8 => {
                let entries = vec![v1::Observed { address, owner: "other".to_owned(), ..v1::Observed::default() }];
                Action::Observe(v1::Observe { pool: "pods".to_owned(), entries })
            }
            _ => Action::DeletePool(v1::DeletePool::default()),
        })
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_messages_are_refused_and_change_nothing() {
    let _alone = serial().await;
    let mut values = Values::new(seed());
    let mut group = formed().await;
    let before = rows(&group).await;
    let wrong = prop_oneof![wrong_grant(), wrong_pool(), wrong_other()];
    let wrong = proptest::collection::vec(wrong, 1..4);
    let client = group.client();
    let (mut errors, mut rejections) = (0, 0);
    for _ in 0..if long() { 5_000 } else { 300 } {
        let actions = values.next(&wrong);
        let commands = actions.into_iter().map(|action| v1::Command { action }).collect();
        let request = ProposeRequest { source: String::new(), commands };
        let text = format!("{request:?}");
        match client.propose(request).await {
            Err(ClientError::Invalid { field, .. }) => {
                assert!(field.starts_with("commands["), "{field}");
                errors += 1;
            }
            Err(error) => panic!("{error:?}: {text:.400}"),
            Ok(answer) => {
                for result in answer.results {
                    let Some(v1::command_result::Result::Rejection(_)) = result.result else {
                        panic!("{result:?}: {text:.400}");
                    };
                }
                rejections += 1;
            }
        }
    }
    assert!(errors > 0 && rejections > 0, "{errors} and {rejections}");
    assert_unhurt(&mut group, &before).await;
    println!("{} wrong messages: {errors} refused by the service, {rejections} by the ledger", errors + rejections);
}

#[tokio::test]
async fn what_is_too_large_is_refused_whole() {
    let _alone = serial().await;
    let mut group = formed().await;
    let before = rows(&group).await;
    let client = group.client();
    let many = |count| propose((0..count).map(|_| grant("other", "pods", None)));
    let refused = |answer: Result<v1::ProposeResponse, ClientError>, what: &str| {
        let error = answer.expect_err(what);
        assert!(
            matches!(
                error,
                ClientError::Invalid { .. }
                    | ClientError::Other { code: Code::OutOfRange | Code::ResourceExhausted, .. }
            ),
            "{what}: {error:?}"
        );
    };
    refused(client.propose(many(0)).await, "no command");
    refused(client.propose(many(1_001)).await, "too many commands");
    let mut long_rest = v1::PutEgress { name: "other".to_owned(), rest: "x".repeat(3 << 20), ..Default::default() };
    long_rest.items = vec![v1::EgressItem { pool: None, address: Some("10.9.9.9".to_owned()) }];
    refused(client.propose(propose([Action::PutEgress(long_rest)])).await, "a field of 3 MiB");
    for source in ["kubernetes", "manifests", "manifests:", "nobody", &"x".repeat(2_000)] {
        let request = ProposeRequest { source: source.to_owned(), ..many(1) };
        refused(client.propose(request).await, source);
    }
    // The good half of a call with a bad half is not done either.
    let mut half = propose([put_pool("other", "10.7.0.0/24")]);
    half.commands.push(v1::Command { action: None });
    refused(client.propose(half).await, "a command without an action");
    let missing = client.get_pool(GetPoolRequest { pool: Some(pool_id("other")), consistency: 0 }).await;
    assert!(matches!(missing, Err(ClientError::NotFound { .. })), "{missing:?}");
    too_long_for_any_message(&group, &client).await;
    assert_unhurt(&mut group, &before).await;
}

/// More than a replica takes in one message: it says so, and the connection's other calls go on.
async fn too_long_for_any_message(group: &Group, client: &Client) {
    let url = format!("http://{}", group.replicas[0].address);
    let channel = Endpoint::from_shared(url).expect("a URL").connect_lazy();
    let status = call(&channel, "/holdfast.v1.Ledger/Propose", vec![0x0a; 6 << 20]).await.expect_err("6 MiB");
    assert!(matches!(status.code(), Code::OutOfRange | Code::ResourceExhausted), "{status:?}");
    client.get_settings(v1::GetSettingsRequest::default()).await.expect("the others go on");
}
