//! Requests, in short.

use holdfast_api::v1::command::Action;
use holdfast_api::v1::command_result::Result as Said;
use holdfast_api::v1::range_spec::Form;
use holdfast_api::v1::{
    self, Command, CommandResult, Consistency, Grant, Outcome, Owner, OwnerRef, PoolId, PoolKind, ProposeRequest,
    PutPool, RangeSpec, Rejection, ReleaseGrant, Subnet,
};

/// The commands of one call.
pub(crate) fn propose(actions: impl IntoIterator<Item = Action>) -> ProposeRequest {
    let commands = actions.into_iter().map(|action| Command { action: Some(action) }).collect();
    ProposeRequest { source: String::new(), commands }
}

/// The name of an IPPool.
pub(crate) fn pool_id(name: &str) -> PoolId {
    PoolId { kind: PoolKind::IpPool.into(), name: name.to_owned() }
}

/// An IPPool of one CIDR; its gateway is the address behind the network's.
pub(crate) fn put_pool(name: &str, cidr: &str) -> Action {
    let (network, length) = cidr.split_once('/').expect("a CIDR");
    let network: std::net::Ipv4Addr = network.parse().expect("an IPv4 network");
    let gateway = std::net::Ipv4Addr::from(u32::from(network) + 1).to_string();
    let prefix_length = length.parse().expect("a prefix length");
    Action::PutPool(PutPool {
        pool: Some(pool_id(name)),
        uid: format!("uid-of-{name}"),
        ranges: vec![RangeSpec { form: Some(Form::Cidr(cidr.to_owned())) }],
        subnet: Some(Subnet { gateway, prefix_length, vlan: None }),
        node_selector: Some(v1::Selector::default()),
        cool_down_ms: 0,
    })
}

/// One address of an IPPool for a named owner: this one, or any.
pub(crate) fn grant(owner: &str, pool: &str, address: Option<&str>) -> Action {
    let named = v1::owner::Named { name: owner.to_owned(), uid: String::new() };
    Action::Grant(Grant {
        owner: Some(Owner { owner: Some(v1::owner::Owner::Named(named)) }),
        kind: PoolKind::IpPool.into(),
        pools: vec![pool.to_owned()],
        addresses: address.into_iter().map(str::to_owned).collect(),
    })
}

/// The end of a named owner's grants.
pub(crate) fn release(owner: &str) -> Action {
    let owner = OwnerRef { owner: Some(v1::owner_ref::Owner::Named(owner.to_owned())) };
    Action::ReleaseGrant(ReleaseGrant { owner: Some(owner), uid: String::new(), revision: None })
}

/// Who holds an address?
pub(crate) fn holder(address: &str, consistency: Consistency) -> v1::GetGrantRequest {
    v1::GetGrantRequest { consistency: consistency.into(), address: address.to_owned() }
}

/// The named owner of a grant.
pub(crate) fn named(grant: &v1::GrantRow) -> Option<&str> {
    match grant.holder.as_ref()?.holder.as_ref()? {
        v1::holder::Holder::Named(named) => Some(&named.name),
        _ => None,
    }
}

/// The answer to the one command of a call.
pub(crate) fn only(response: v1::ProposeResponse) -> Result<Outcome, Rejection> {
    let [CommandResult { result: Some(said) }] = <[_; 1]>::try_from(response.results).expect("one result") else {
        panic!("a result that says nothing");
    };
    match said {
        Said::Outcome(outcome) => Ok(outcome),
        Said::Rejection(rejection) => Err(rejection),
    }
}
