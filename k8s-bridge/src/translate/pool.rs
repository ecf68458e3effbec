//! IPPool and ExternalIPPool. Whether their ranges make sense is asked of the ledger's own code, so that a file with
//! one that does not is refused before anything is applied.

use holdfast_statemachine::command::{PutPool, RangeSpec, Selector, Subnet};
use holdfast_statemachine::{Millis, PoolId, PoolKind, Rejection, pool_spec};

use super::said::Said;
use super::{annotations, uid};
use crate::objects::{ExternalIpPool, IpPool, IpRange, Kind, ObjectMeta, SubnetInfo};

pub(super) fn ip_pool(pool: &IpPool, said: &mut Said) -> PutPool {
    if pool.spec.subnet_info.is_none() {
        said.missing("spec.subnetInfo", "an IPPool has a gateway and a prefixLength");
    }
    put(Kind::IpPool, &pool.metadata, &pool.spec.ip_ranges, pool.spec.subnet_info.as_ref(), said)
}

pub(super) fn external_ip_pool(pool: &ExternalIpPool, said: &mut Said) -> PutPool {
    let node_selector = said.selector("spec.nodeSelector", &pool.spec.node_selector);
    let subnet = pool.spec.subnet_info.as_ref();
    PutPool { node_selector, ..put(Kind::ExternalIpPool, &pool.metadata, &pool.spec.ip_ranges, subnet, said) }
}

fn put(
    kind: Kind,
    metadata: &ObjectMeta,
    written: &[IpRange],
    subnet_info: Option<&SubnetInfo>,
    said: &mut Said,
) -> PutPool {
    let pool_kind = if kind == Kind::IpPool { PoolKind::IpPool } else { PoolKind::ExternalIpPool };
    let put = PutPool {
        pool: PoolId { kind: pool_kind, name: metadata.name.clone() },
        uid: uid(kind, metadata),
        ranges: ranges(written, said),
        subnet: subnet_info.map(subnet),
        node_selector: Selector::default(),
        cool_down: cool_down(metadata, said),
    };
    // What lacks a part is told of already, and ranges that were left out would be counted wrongly.
    let complete = !written.is_empty() && put.ranges.len() == written.len();
    if complete
        && (put.subnet.is_some() || pool_kind == PoolKind::ExternalIpPool)
        && let Err(Rejection::Malformed { field, value, allowed }) = pool_spec::usable(&put)
    {
        said.refuse(&*field, &value, &*allowed);
    }
    put
}

fn cool_down(metadata: &ObjectMeta, said: &mut Said) -> Millis {
    let key = annotations::COOL_DOWN;
    said.annotation("metadata", &metadata.annotations, key, annotations::cool_down).unwrap_or(0)
}

fn subnet(info: &SubnetInfo) -> Subnet {
    Subnet { gateway: info.gateway.clone(), prefix_length: info.prefix_length, vlan: info.vlan }
}

fn ranges(written: &[IpRange], said: &mut Said) -> Vec<RangeSpec> {
    const EITHER: &str = "either cidr, or start and end";
    if written.is_empty() {
        said.missing("spec.ipRanges", "at least one range");
    }
    let mut ranges = Vec::new();
    for (i, range) in written.iter().enumerate() {
        let at = format!("spec.ipRanges[{i}]");
        match (&range.cidr, &range.start, &range.end) {
            (Some(cidr), None, None) => ranges.push(RangeSpec::Cidr(cidr.clone())),
            (None, Some(start), Some(end)) => ranges.push(RangeSpec::StartEnd(start.clone(), end.clone())),
            (Some(cidr), ..) => said.refuse(format!("{at}.cidr"), cidr, format!("{EITHER}, not both")),
            (None, Some(_), None) => said.missing(format!("{at}.end"), EITHER),
            (None, None, Some(_)) => said.missing(format!("{at}.start"), EITHER),
            (None, None, None) => said.missing(at, EITHER),
        }
    }
    ranges
}
