//! Commands. Their source travels once a request, beside them.

use holdfast_api::v1;
use holdfast_statemachine::adopt::Adopt;
use holdfast_statemachine::command::{
    Contiguity, DeleteEgress, DeleteNode, DeletePool, Drain, EgressItem, Gone, Grant, Observe, Observed, Operator,
    Owner, OwnerRef, Pin, PodOwner, PutEgress, PutNode, PutPool, PutSettings, RangeSpec, Rebalance, ReleaseGrant,
    ReleaseReservation, Requirement, Reserve, ReserveSpec, Retention, Selector, StatefulSetId, Subnet, Sweep, Undrain,
    Unpin,
};
use holdfast_statemachine::row::{PodRef, Policy, PoolKind};
use holdfast_statemachine::{Action, Name};

use super::{Invalid, Wire, Within, address, addresses, field, list, messages, name, name_or_empty, names, required};
use super::{label_messages, labels, optional, optional_address, optional_name, optional_string, string, strings};
use super::{text, wire_enum};

wire_enum!(Contiguity, v1::Contiguity, { Required = Required, Preferred = Preferred });
wire_enum!(Operator, v1::selector::Operator, {
    In = In,
    NotIn = NotIn,
    Exists = Exists,
    DoesNotExist = DoesNotExist,
});

impl Wire for Action {
    type Message = v1::Command;

    fn to_message(&self) -> v1::Command {
        use v1::command::Action as Kind;
        let action = match self {
            Action::PutPool(it) => Kind::PutPool(it.to_message()),
            Action::DeletePool(it) => {
                Kind::DeletePool(v1::DeletePool { pool: Some(it.pool.to_message()), uid: string(&it.uid) })
            }
            Action::Reserve(it) => Kind::Reserve(it.to_message()),
            Action::ReleaseReservation(it) => {
                Kind::ReleaseReservation(v1::ReleaseReservation { id: Some(it.id.to_message()), uid: string(&it.uid) })
            }
            Action::Grant(it) => Kind::Grant(it.to_message()),
            Action::ReleaseGrant(it) => Kind::ReleaseGrant(it.to_message()),
            Action::PutEgress(it) => Kind::PutEgress(it.to_message()),
            Action::DeleteEgress(it) => {
                Kind::DeleteEgress(v1::DeleteEgress { name: string(&it.name), uid: string(&it.uid) })
            }
            Action::PutNode(it) => Kind::PutNode(it.to_message()),
            Action::DeleteNode(it) => Kind::DeleteNode(v1::DeleteNode { name: string(&it.name), uid: string(&it.uid) }),
            Action::Drain(it) => Kind::Drain(v1::Drain { node: string(&it.node), force: it.force }),
            Action::Undrain(it) => Kind::Undrain(v1::Undrain { node: string(&it.node) }),
            Action::Pin(it) => Kind::Pin(v1::Pin {
                egress: string(&it.egress),
                address: it.address.map(|address| address.to_string()),
                node: string(&it.node),
            }),
            Action::Unpin(it) => Kind::Unpin(v1::Unpin {
                egress: string(&it.egress),
                address: it.address.map(|address| address.to_string()),
            }),
            Action::Rebalance(it) => Kind::Rebalance(v1::Rebalance { max_moves: it.max_moves, at_revision: it.at }),
            Action::PutSettings(it) => Kind::PutSettings(it.to_message()),
            Action::Sweep(it) => Kind::Sweep(v1::Sweep { gone: messages(&it.gone) }),
            Action::Observe(it) => {
                Kind::Observe(v1::Observe { pool: string(&it.pool), entries: messages(&it.entries) })
            }
            Action::Adopt(it) => Kind::Adopt(it.to_message()),
        };
        v1::Command { action: Some(action) }
    }

    fn from_message(message: v1::Command) -> Result<Action, Invalid> {
        use v1::command::Action as Kind;
        Ok(match required("action", message.action)? {
            Kind::PutPool(it) => Action::PutPool(PutPool::from_message(it).within("put_pool")?),
            Kind::DeletePool(it) => Action::DeletePool(DeletePool {
                pool: field("pool", it.pool).within("delete_pool")?,
                uid: name_or_empty("delete_pool.uid", it.uid)?,
            }),
            Kind::Reserve(it) => Action::Reserve(Reserve::from_message(it).within("reserve")?),
            Kind::ReleaseReservation(it) => Action::ReleaseReservation(ReleaseReservation {
                id: field("id", it.id).within("release_reservation")?,
                uid: name_or_empty("release_reservation.uid", it.uid)?,
            }),
            Kind::Grant(it) => Action::Grant(Grant::from_message(it).within("grant")?),
            Kind::ReleaseGrant(it) => Action::ReleaseGrant(ReleaseGrant::from_message(it).within("release_grant")?),
            Kind::PutEgress(it) => Action::PutEgress(PutEgress::from_message(it).within("put_egress")?),
            Kind::DeleteEgress(it) => Action::DeleteEgress(DeleteEgress {
                name: name("delete_egress.name", it.name)?,
                uid: name_or_empty("delete_egress.uid", it.uid)?,
            }),
            Kind::PutNode(it) => Action::PutNode(PutNode::from_message(it).within("put_node")?),
            Kind::DeleteNode(it) => Action::DeleteNode(DeleteNode {
                name: name("delete_node.name", it.name)?,
                uid: name_or_empty("delete_node.uid", it.uid)?,
            }),
            Kind::Drain(it) => Action::Drain(Drain { node: name("drain.node", it.node)?, force: it.force }),
            Kind::Undrain(it) => Action::Undrain(Undrain { node: name("undrain.node", it.node)? }),
            Kind::Pin(it) => Action::Pin(Pin {
                egress: name("pin.egress", it.egress)?,
                address: optional_address("pin.address", it.address.as_ref())?,
                node: name("pin.node", it.node)?,
            }),
            Kind::Unpin(it) => Action::Unpin(Unpin {
                egress: name("unpin.egress", it.egress)?,
                address: optional_address("unpin.address", it.address.as_ref())?,
            }),
            Kind::Rebalance(it) => Action::Rebalance(Rebalance { max_moves: it.max_moves, at: it.at_revision }),
            Kind::PutSettings(it) => Action::PutSettings(PutSettings::from_message(it).within("put_settings")?),
            Kind::Sweep(it) => Action::Sweep(Sweep { gone: list("gone", it.gone).within("sweep")? }),
            Kind::Adopt(it) => Action::Adopt(Adopt::from_message(it).within("adopt")?),
            Kind::Observe(it) => Action::Observe(Observe {
                pool: name("observe.pool", it.pool)?,
                entries: list("entries", it.entries).within("observe")?,
            }),
        })
    }
}

impl Wire for RangeSpec {
    type Message = v1::RangeSpec;

    fn to_message(&self) -> v1::RangeSpec {
        use v1::range_spec::{Form, StartEnd};
        let form = match self {
            RangeSpec::Cidr(cidr) => Form::Cidr(string(cidr)),
            RangeSpec::StartEnd(start, end) => Form::StartEnd(StartEnd { start: string(start), end: string(end) }),
        };
        v1::RangeSpec { form: Some(form) }
    }

    fn from_message(message: v1::RangeSpec) -> Result<RangeSpec, Invalid> {
        use v1::range_spec::Form;
        Ok(match required("form", message.form)? {
            Form::Cidr(cidr) => RangeSpec::Cidr(text("cidr", cidr)?),
            Form::StartEnd(it) => {
                RangeSpec::StartEnd(text("start_end.start", it.start)?, text("start_end.end", it.end)?)
            }
        })
    }
}

impl Wire for Subnet {
    type Message = v1::Subnet;

    fn to_message(&self) -> v1::Subnet {
        v1::Subnet { gateway: string(&self.gateway), prefix_length: self.prefix_length, vlan: self.vlan }
    }

    fn from_message(message: v1::Subnet) -> Result<Subnet, Invalid> {
        let gateway = text("gateway", message.gateway)?;
        Ok(Subnet { gateway, prefix_length: message.prefix_length, vlan: message.vlan })
    }
}

impl Wire for Selector {
    type Message = v1::Selector;

    fn to_message(&self) -> v1::Selector {
        v1::Selector {
            match_labels: label_messages(&self.match_labels),
            match_expressions: messages(&self.match_expressions),
        }
    }

    fn from_message(message: v1::Selector) -> Result<Selector, Invalid> {
        Ok(Selector {
            match_labels: labels("match_labels", message.match_labels)?,
            match_expressions: list("match_expressions", message.match_expressions)?,
        })
    }
}

impl Wire for Requirement {
    type Message = v1::selector::Requirement;

    fn to_message(&self) -> v1::selector::Requirement {
        v1::selector::Requirement {
            key: string(&self.key),
            operator: self.operator.to_message(),
            values: strings(&self.values),
        }
    }

    fn from_message(message: v1::selector::Requirement) -> Result<Requirement, Invalid> {
        Ok(Requirement {
            key: text("key", message.key)?,
            operator: Operator::from_message(message.operator).within("operator")?,
            values: super::each("values", message.values, |value| text("", value))?,
        })
    }
}

impl Wire for PutPool {
    type Message = v1::PutPool;

    fn to_message(&self) -> v1::PutPool {
        v1::PutPool {
            pool: Some(self.pool.to_message()),
            uid: string(&self.uid),
            ranges: messages(&self.ranges),
            subnet: self.subnet.as_ref().map(Wire::to_message),
            node_selector: Some(self.node_selector.to_message()),
            cool_down_ms: self.cool_down,
        }
    }

    fn from_message(message: v1::PutPool) -> Result<PutPool, Invalid> {
        Ok(PutPool {
            pool: field("pool", message.pool)?,
            uid: name_or_empty("uid", message.uid)?,
            ranges: list("ranges", message.ranges)?,
            subnet: optional("subnet", message.subnet)?,
            node_selector: optional("node_selector", message.node_selector)?.unwrap_or_default(),
            cool_down: message.cool_down_ms,
        })
    }
}

impl Wire for Retention {
    type Message = v1::Retention;

    fn to_message(&self) -> v1::Retention {
        use v1::retention::Rule;
        let rule = match self {
            Retention::Retain => Rule::Retain(()),
            Retention::Release => Rule::Release(()),
            Retention::After(after) => Rule::AfterMs(*after),
        };
        v1::Retention { rule: Some(rule) }
    }

    fn from_message(message: v1::Retention) -> Result<Retention, Invalid> {
        use v1::retention::Rule;
        Ok(match required("rule", message.rule)? {
            Rule::Retain(()) => Retention::Retain,
            Rule::Release(()) => Retention::Release,
            Rule::AfterMs(after) => Retention::After(after),
        })
    }
}

impl Wire for Reserve {
    type Message = v1::Reserve;

    fn to_message(&self) -> v1::Reserve {
        v1::Reserve { id: Some(self.id.to_message()), uid: string(&self.uid), spec: Some(self.spec.to_message()) }
    }

    fn from_message(message: v1::Reserve) -> Result<Reserve, Invalid> {
        Ok(Reserve {
            id: field("id", message.id)?,
            uid: name_or_empty("uid", message.uid)?,
            spec: field("spec", message.spec)?,
        })
    }
}

impl Wire for ReserveSpec {
    type Message = v1::ReserveSpec;

    fn to_message(&self) -> v1::ReserveSpec {
        v1::ReserveSpec {
            start: self.start,
            replicas: self.replicas,
            pools: strings(&self.pools),
            fixed: self.fixed.iter().map(ToString::to_string).collect(),
            headroom: self.headroom,
            contiguity: self.contiguity.to_message(),
            when_scaled: Some(self.when_scaled.to_message()),
            when_deleted: Some(self.when_deleted.to_message()),
            settled: self.settled,
        }
    }

    fn from_message(message: v1::ReserveSpec) -> Result<ReserveSpec, Invalid> {
        Ok(ReserveSpec {
            start: message.start,
            replicas: message.replicas,
            pools: names("pools", message.pools)?,
            fixed: addresses("fixed", message.fixed)?,
            headroom: message.headroom,
            contiguity: Contiguity::from_message(message.contiguity).within("contiguity")?,
            when_scaled: field("when_scaled", message.when_scaled)?,
            when_deleted: field("when_deleted", message.when_deleted)?,
            settled: message.settled,
        })
    }
}

impl Wire for Owner {
    type Message = v1::Owner;

    fn to_message(&self) -> v1::Owner {
        use v1::owner::{self, Owner as Kind};
        let owner = match self {
            Owner::Named { name, uid } => Kind::Named(owner::Named { name: string(name), uid: string(uid) }),
            Owner::Pod(it) => Kind::Pod(pod_owner_message(it)),
        };
        v1::Owner { owner: Some(owner) }
    }

    fn from_message(message: v1::Owner) -> Result<Owner, Invalid> {
        use v1::owner::Owner as Kind;
        Ok(match required("owner", message.owner)? {
            Kind::Named(it) => {
                Owner::Named { name: name("named.name", it.name)?, uid: name_or_empty("named.uid", it.uid)? }
            }
            Kind::Pod(it) => Owner::Pod(read_pod_owner(it).within("pod")?),
        })
    }
}

/// The message of a Pod that holds, or is to hold, an address.
pub(super) fn pod_owner_message(it: &PodOwner) -> v1::owner::Pod {
    v1::owner::Pod {
        pod: Some(v1::PodRef {
            namespace: string(&it.namespace),
            name: string(&it.name),
            uid: string(&it.uid),
            container_id: optional_string(it.container_id.as_ref()),
            interface: optional_string(it.interface.as_ref()),
        }),
        stateful_set: it.ordinal.as_ref().map(|(id, _)| id.to_message()),
        ordinal: it.ordinal.as_ref().map_or(0, |(_, ordinal)| *ordinal),
    }
}

pub(super) fn read_pod_owner(message: v1::owner::Pod) -> Result<PodOwner, Invalid> {
    let PodRef { namespace, name, uid, container_id, interface } = field("pod", message.pod)?;
    let ordinal = read_ordinal(message.stateful_set, message.ordinal)?;
    Ok(PodOwner { namespace, name, uid, container_id, interface, ordinal })
}

/// Whose ordinal something is, if it is one's.
fn read_ordinal(set: Option<v1::StatefulSetId>, ordinal: u32) -> Result<Option<(StatefulSetId, u32)>, Invalid> {
    let id: Option<StatefulSetId> = optional("stateful_set", set)?;
    if id.is_none() && ordinal != 0 {
        return Err(Invalid::new("ordinal", ordinal, "0 without stateful_set"));
    }
    Ok(id.map(|id| (id, ordinal)))
}

impl Wire for Grant {
    type Message = v1::Grant;

    fn to_message(&self) -> v1::Grant {
        v1::Grant {
            owner: Some(self.owner.to_message()),
            kind: self.kind.to_message(),
            pools: strings(&self.pools),
            addresses: self.addresses.iter().map(ToString::to_string).collect(),
        }
    }

    fn from_message(message: v1::Grant) -> Result<Grant, Invalid> {
        Ok(Grant {
            owner: field("owner", message.owner)?,
            kind: PoolKind::from_message(message.kind).within("kind")?,
            pools: names("pools", message.pools)?,
            addresses: addresses("addresses", message.addresses)?,
        })
    }
}

impl Wire for OwnerRef {
    type Message = v1::OwnerRef;

    fn to_message(&self) -> v1::OwnerRef {
        use v1::owner_ref::Owner as Kind;
        let owner = match self {
            OwnerRef::Named(name) => Kind::Named(string(name)),
            OwnerRef::Pod(namespace, name) => Kind::Pod(v1::PodId { namespace: string(namespace), name: string(name) }),
        };
        v1::OwnerRef { owner: Some(owner) }
    }

    fn from_message(message: v1::OwnerRef) -> Result<OwnerRef, Invalid> {
        use v1::owner_ref::Owner as Kind;
        Ok(match required("owner", message.owner)? {
            Kind::Named(named) => OwnerRef::Named(name("named", named)?),
            Kind::Pod(pod) => OwnerRef::Pod(name("pod.namespace", pod.namespace)?, name("pod.name", pod.name)?),
        })
    }
}

impl Wire for ReleaseGrant {
    type Message = v1::ReleaseGrant;

    fn to_message(&self) -> v1::ReleaseGrant {
        v1::ReleaseGrant { owner: Some(self.owner.to_message()), uid: string(&self.uid), revision: self.revision }
    }

    fn from_message(message: v1::ReleaseGrant) -> Result<ReleaseGrant, Invalid> {
        Ok(ReleaseGrant {
            owner: field("owner", message.owner)?,
            uid: name_or_empty("uid", message.uid)?,
            revision: message.revision,
        })
    }
}

impl Wire for EgressItem {
    type Message = v1::EgressItem;

    fn to_message(&self) -> v1::EgressItem {
        v1::EgressItem {
            pool: optional_string(self.pool.as_ref()),
            address: self.address.map(|address| address.to_string()),
        }
    }

    fn from_message(message: v1::EgressItem) -> Result<EgressItem, Invalid> {
        Ok(EgressItem {
            pool: optional_name("pool", message.pool)?,
            address: optional_address("address", message.address.as_ref())?,
        })
    }
}

impl Wire for PutEgress {
    type Message = v1::PutEgress;

    fn to_message(&self) -> v1::PutEgress {
        v1::PutEgress {
            name: string(&self.name),
            uid: string(&self.uid),
            created_seconds: self.created,
            plural: self.plural,
            items: messages(&self.items),
            rest: string(&self.rest),
        }
    }

    fn from_message(message: v1::PutEgress) -> Result<PutEgress, Invalid> {
        Ok(PutEgress {
            name: name("name", message.name)?,
            uid: name_or_empty("uid", message.uid)?,
            created: message.created_seconds,
            plural: message.plural,
            items: list("items", message.items)?,
            rest: Name::from(message.rest),
        })
    }
}

impl Wire for PutNode {
    type Message = v1::PutNode;

    fn to_message(&self) -> v1::PutNode {
        v1::PutNode {
            name: string(&self.name),
            uid: string(&self.uid),
            labels: label_messages(&self.labels),
            ready: self.ready,
            capacity: self.capacity,
        }
    }

    fn from_message(message: v1::PutNode) -> Result<PutNode, Invalid> {
        Ok(PutNode {
            name: name("name", message.name)?,
            uid: name_or_empty("uid", message.uid)?,
            labels: labels("labels", message.labels)?,
            ready: message.ready,
            capacity: message.capacity,
        })
    }
}

impl Wire for PutSettings {
    type Message = v1::PutSettings;

    fn to_message(&self) -> v1::PutSettings {
        v1::PutSettings {
            policy: self.policy.map(|policy| policy.to_message()),
            default_capacity: self.default_capacity,
            history_rows: self.history_rows,
            history_age_ms: self.history_age,
        }
    }

    fn from_message(message: v1::PutSettings) -> Result<PutSettings, Invalid> {
        Ok(PutSettings {
            policy: optional::<Policy>("policy", message.policy)?,
            default_capacity: message.default_capacity,
            history_rows: message.history_rows,
            history_age: message.history_age_ms,
        })
    }
}

impl Wire for Gone {
    type Message = v1::Gone;

    fn to_message(&self) -> v1::Gone {
        v1::Gone {
            object: Some(self.object.to_message()),
            uid: string(&self.uid),
            unchanged_since: self.unchanged_since,
        }
    }

    fn from_message(message: v1::Gone) -> Result<Gone, Invalid> {
        Ok(Gone {
            object: field("object", message.object)?,
            uid: name_or_empty("uid", message.uid)?,
            unchanged_since: message.unchanged_since,
        })
    }
}

impl Wire for Observed {
    type Message = v1::Observed;

    fn to_message(&self) -> v1::Observed {
        v1::Observed {
            address: self.address.to_string(),
            owner: string(&self.owner),
            stateful_set: self.ordinal.as_ref().map(|(id, _)| id.to_message()),
            ordinal: self.ordinal.as_ref().map_or(0, |(_, ordinal)| *ordinal),
        }
    }

    fn from_message(message: v1::Observed) -> Result<Observed, Invalid> {
        Ok(Observed {
            address: address("address", &message.address)?,
            owner: text("owner", message.owner)?,
            ordinal: read_ordinal(message.stateful_set, message.ordinal)?,
        })
    }
}
