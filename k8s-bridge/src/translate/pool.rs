//! IPPool and ExternalIPPool. Whether ranges parse and fit is the ledger's to say; here only whether they
//! have the shape of a range.

use holdfast_statemachine::command::{PutPool, RangeSpec, Selector, Subnet};
use holdfast_statemachine::{Millis, PoolId, PoolKind};

use super::said::Said;
use super::{annotations, uid};
use crate::objects::{ExternalIpPool, IpPool, IpRange, Kind, ObjectMeta, SubnetInfo};

pub(super) fn ip_pool(pool: &IpPool, said: &mut Said) -> PutPool {
    if pool.spec.subnet_info.is_none() {
        said.missing("spec.subnetInfo", "an IPPool has a gateway and a prefixLength");
    }
    PutPool {
        pool: PoolId { kind: PoolKind::IpPool, name: pool.metadata.name.clone() },
        uid: uid(Kind::IpPool, &pool.metadata),
        ranges: ranges(&pool.spec.ip_ranges, said),
        subnet: pool.spec.subnet_info.as_ref().map(subnet),
        node_selector: Selector::default(),
        cool_down: cool_down(&pool.metadata, said),
    }
}

pub(super) fn external_ip_pool(pool: &ExternalIpPool, said: &mut Said) -> PutPool {
    PutPool {
        pool: PoolId { kind: PoolKind::ExternalIpPool, name: pool.metadata.name.clone() },
        uid: uid(Kind::ExternalIpPool, &pool.metadata),
        ranges: ranges(&pool.spec.ip_ranges, said),
        subnet: pool.spec.subnet_info.as_ref().map(subnet),
        node_selector: said.selector("spec.nodeSelector", &pool.spec.node_selector),
        cool_down: cool_down(&pool.metadata, said),
    }
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
