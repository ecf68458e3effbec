//! The services, over gRPC on loopback.

mod errors;
mod group;
mod reads;
mod single;
mod watching;

use holdfast_statemachine::command::{
    Contiguity, EgressItem, Grant, Owner, PutEgress, PutNode, PutPool, RangeSpec, Reserve, ReserveSpec, Retention,
    StatefulSetId, Subnet,
};
use holdfast_statemachine::{Action, PoolId, PoolKind};

fn ip_pool(name: &str, start: &str, end: &str) -> Action {
    Action::PutPool(PutPool {
        pool: PoolId { kind: PoolKind::IpPool, name: name.into() },
        uid: format!("uid-{name}").into(),
        ranges: vec![RangeSpec::StartEnd(start.into(), end.into())],
        subnet: Some(Subnet { gateway: "10.0.0.1".into(), prefix_length: 16, vlan: None }),
        node_selector: holdfast_statemachine::command::Selector::default(),
        cool_down: 0,
    })
}

fn external_pool(name: &str, cidr: &str) -> Action {
    Action::PutPool(PutPool {
        pool: PoolId { kind: PoolKind::ExternalIpPool, name: name.into() },
        uid: format!("uid-{name}").into(),
        ranges: vec![RangeSpec::Cidr(cidr.into())],
        subnet: None,
        node_selector: holdfast_statemachine::command::Selector::default(),
        cool_down: 0,
    })
}

fn grant(owner: &str, pool: &str) -> Action {
    Action::Grant(Grant {
        owner: Owner::Named { name: owner.into(), uid: "".into() },
        kind: PoolKind::IpPool,
        pools: vec![pool.into()],
        addresses: Vec::new(),
    })
}

fn reserve(name: &str, replicas: u32, pool: &str) -> Action {
    Action::Reserve(Reserve {
        id: StatefulSetId { namespace: "default".into(), name: name.into() },
        uid: format!("uid-{name}").into(),
        spec: ReserveSpec {
            start: 0,
            replicas,
            pools: vec![pool.into()],
            fixed: Vec::new(),
            headroom: 0,
            contiguity: Contiguity::Preferred,
            when_scaled: Retention::Retain,
            when_deleted: Retention::Release,
            settled: true,
        },
    })
}

fn node(name: &str, ready: bool) -> Action {
    Action::PutNode(PutNode {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        labels: std::collections::BTreeMap::new(),
        ready,
        capacity: Some(1),
    })
}

fn egress(name: &str, pool: &str) -> Action {
    Action::PutEgress(PutEgress {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        created: None,
        plural: false,
        items: vec![EgressItem { pool: Some(pool.into()), address: None }],
        rest: "".into(),
    })
}
