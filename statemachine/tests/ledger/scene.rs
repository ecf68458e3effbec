//! A small stage for scenarios: a machine, its log so far, and short names for what they do and see.

use std::collections::BTreeMap;
use std::net::IpAddr;

use holdfast_statemachine::command::{
    Contiguity, DeleteEgress, DeleteNode, DeletePool, EgressItem, Grant, Owner, OwnerRef, PodOwner, PutEgress, PutNode,
    PutPool, RangeSpec, ReleaseGrant, ReleaseReservation, Reserve, ReserveSpec, Retention, Selector, StatefulSetId,
    Subnet,
};
use holdfast_statemachine::row::{EgressRow, Holder};
use holdfast_statemachine::{
    Action, Change, Command, Entry, Event, Key, Millis, Name, Outcome, PoolId, PoolKind, Rejection, Row, Source,
    Waiting,
};

use crate::machine::Machine;

/// Runs each scenario on the ledger and on the model.
macro_rules! on_both {
    ($($scenario:ident),* $(,)?) => {
        mod on_the_ledger {
            $(#[test] fn $scenario() { super::$scenario::<holdfast_statemachine::Ledger>(); })*
        }
        mod on_the_model {
            $(#[test] fn $scenario() { super::$scenario::<crate::model::Model>(); })*
        }
    };
}
pub(crate) use on_both;

/// A machine and what the last entry changed.
pub struct Scene<M> {
    pub machine: M,
    pub changes: Vec<Change>,
    pub time: Millis,
    index: u64,
}

/// An address.
pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// A StatefulSet in namespace `n`.
pub fn set(name: &str) -> StatefulSetId {
    StatefulSetId { namespace: "n".into(), name: name.into() }
}

pub fn ip_pool(name: &str) -> PoolId {
    PoolId { kind: PoolKind::IpPool, name: name.into() }
}

pub fn external(name: &str) -> PoolId {
    PoolId { kind: PoolKind::ExternalIpPool, name: name.into() }
}

/// `10.0.0.0/24` or `10.0.0.1-10.0.0.9`.
pub fn ranges(texts: &[&str]) -> Vec<RangeSpec> {
    let one = |text: &&str| match text.split_once('-') {
        Some((start, end)) => RangeSpec::StartEnd(start.into(), end.into()),
        None => RangeSpec::Cidr((*text).into()),
    };
    texts.iter().map(one).collect()
}

/// A pool of UID `u`; `subnet` as `10.0.0.1/24`, or empty for none.
pub fn pool(id: PoolId, subnet: &str, texts: &[&str]) -> PutPool {
    let subnet = subnet.split_once('/').map(|(gateway, prefix)| Subnet {
        gateway: gateway.into(),
        prefix_length: prefix.parse().expect("a prefix length"),
        vlan: None,
    });
    PutPool {
        pool: id,
        uid: "u".into(),
        ranges: ranges(texts),
        subnet,
        node_selector: Selector::default(),
        cool_down: 0,
    }
}

/// A settled spec that keeps unwanted ordinals and frees all at deletion.
pub fn spec(replicas: u32, pools: &[&str]) -> ReserveSpec {
    ReserveSpec {
        start: 0,
        replicas,
        pools: pools.iter().map(|name| Name::from(*name)).collect(),
        fixed: Vec::new(),
        headroom: 0,
        contiguity: Contiguity::Preferred,
        when_scaled: Retention::Retain,
        when_deleted: Retention::Release,
        settled: true,
    }
}

/// Pod `NAME-ORDINAL` of a StatefulSet, by generation.
pub fn pod_of(name: &str, ordinal: u32, uid: &str) -> PodOwner {
    PodOwner {
        namespace: "n".into(),
        name: format!("{name}-{ordinal}").into(),
        uid: uid.into(),
        container_id: None,
        interface: None,
        ordinal: Some((set(name), ordinal)),
    }
}

pub fn chosen_from(pool: &str) -> EgressItem {
    EgressItem { pool: Some(pool.into()), address: None }
}

pub fn asked_of(pool: &str, address: &str) -> EgressItem {
    EgressItem { pool: Some(pool.into()), address: Some(ip(address)) }
}

pub fn put_egress(name: &str, created: i64, items: Vec<EgressItem>) -> PutEgress {
    PutEgress {
        name: name.into(),
        uid: "u".into(),
        created: Some(created),
        plural: items.len() > 1,
        items,
        rest: "".into(),
    }
}

pub fn put_node(name: &str) -> PutNode {
    PutNode { name: name.into(), uid: "u".into(), labels: BTreeMap::new(), ready: true, capacity: None }
}

impl<M: Machine> Scene<M> {
    pub fn new() -> Scene<M> {
        Scene { machine: M::empty(), changes: Vec::new(), time: 1_000_000, index: 0 }
    }

    /// Applies one entry of these commands, all from Kubernetes.
    pub fn entry(&mut self, actions: Vec<Action>) -> Vec<Result<Outcome, Rejection>> {
        let from = |action| Command { source: Source::Kubernetes, only_in_term: None, action };
        self.commands(actions.into_iter().map(from).collect())
    }

    pub fn commands(&mut self, commands: Vec<Command>) -> Vec<Result<Outcome, Rejection>> {
        self.index += 1;
        let entry = Entry { index: self.index, term: 1, proposed_at: self.time, commands };
        let (outcomes, changes) = self.machine.apply(&entry);
        self.changes = changes;
        outcomes
    }

    pub fn attempt(&mut self, action: Action) -> Result<Outcome, Rejection> {
        self.entry(vec![action]).remove(0)
    }

    pub fn attempt_from(&mut self, source: Source, action: Action) -> Result<Outcome, Rejection> {
        self.commands(vec![Command { source, only_in_term: None, action }]).remove(0)
    }

    pub fn act(&mut self, action: Action) -> Outcome {
        self.attempt(action).expect("not refused")
    }

    /// An entry without commands, this much later.
    pub fn after(&mut self, milliseconds: Millis) {
        self.time += milliseconds;
        self.entry(Vec::new());
    }

    pub fn pool(&mut self, put: PutPool) -> Outcome {
        self.act(Action::PutPool(put))
    }

    pub fn delete_pool(&mut self, id: PoolId) -> Outcome {
        self.act(Action::DeletePool(DeletePool { pool: id, uid: "u".into() }))
    }

    pub fn reserve(&mut self, name: &str, spec: ReserveSpec) -> Outcome {
        self.reserve_as(name, "u", spec)
    }

    pub fn reserve_as(&mut self, name: &str, uid: &str, spec: ReserveSpec) -> Outcome {
        self.act(Action::Reserve(Reserve { id: set(name), uid: uid.into(), spec }))
    }

    pub fn release_set(&mut self, name: &str) -> Outcome {
        self.release_set_as(name, "u")
    }

    pub fn release_set_as(&mut self, name: &str, uid: &str) -> Outcome {
        self.act(Action::ReleaseReservation(ReleaseReservation { id: set(name), uid: uid.into() }))
    }

    /// Binds Pod `NAME-ORDINAL`, whose own annotation names these pools.
    pub fn bind(&mut self, name: &str, ordinal: u32, uid: &str, pools: &[&str]) -> Outcome {
        let pools = pools.iter().map(|pool| Name::from(*pool)).collect();
        let owner = Owner::Pod(pod_of(name, ordinal, uid));
        self.act(Action::Grant(Grant { owner, kind: PoolKind::IpPool, pools, addresses: Vec::new() }))
    }

    pub fn unbind(&mut self, name: &str, ordinal: u32, uid: &str) -> Outcome {
        let owner = OwnerRef::Pod("n".into(), format!("{name}-{ordinal}").into());
        self.act(Action::ReleaseGrant(ReleaseGrant { owner, uid: uid.into(), revision: None }))
    }

    pub fn attempt_grant(&mut self, name: &str, pools: &[&str], addresses: &[&str]) -> Result<Outcome, Rejection> {
        let owner = Owner::Named { name: name.into(), uid: "".into() };
        let pools = pools.iter().map(|pool| Name::from(*pool)).collect();
        let addresses = addresses.iter().map(|address| ip(address)).collect();
        self.attempt(Action::Grant(Grant { owner, kind: PoolKind::IpPool, pools, addresses }))
    }

    /// Grants these addresses, each to an owner of its own text.
    pub fn hold(&mut self, pool: &str, addresses: &[&str]) {
        for address in addresses {
            self.attempt_grant(address, &[pool], &[address]).expect("free");
        }
    }

    pub fn release(&mut self, name: &str) -> Outcome {
        let owner = OwnerRef::Named(name.into());
        self.act(Action::ReleaseGrant(ReleaseGrant { owner, uid: "".into(), revision: None }))
    }

    pub fn egress(&mut self, put: PutEgress) -> Outcome {
        self.act(Action::PutEgress(put))
    }

    pub fn delete_egress(&mut self, name: &str) -> Outcome {
        self.act(Action::DeleteEgress(DeleteEgress { name: name.into(), uid: "u".into() }))
    }

    pub fn node(&mut self, put: PutNode) -> Outcome {
        self.act(Action::PutNode(put))
    }

    pub fn delete_node(&mut self, name: &str) -> Outcome {
        self.act(Action::DeleteNode(DeleteNode { name: name.into(), uid: "u".into() }))
    }

    pub fn row(&self, key: &Key) -> Option<Row> {
        self.machine.rows().remove(key)
    }

    pub fn holder(&self, address: &str) -> Option<Holder> {
        match self.row(&Key::Grant(ip(address)))? {
            Row::Grant(row) => Some(row.holder),
            _ => None,
        }
    }

    /// Every held address of a pool, ascending.
    pub fn held(&self, id: &PoolId) -> Vec<String> {
        let rows = self.machine.rows().into_iter();
        rows.filter_map(|(key, row)| match (key, row) {
            (Key::Grant(address), Row::Grant(row)) if row.pool == *id => Some(address.to_string()),
            _ => None,
        })
        .collect()
    }

    /// `ORDINAL ADDRESS` of all that a reservation holds, former ones with a `!`, by ordinal.
    pub fn addresses(&self, name: &str) -> Vec<String> {
        let mut all = Vec::new();
        for (key, row) in self.machine.rows() {
            if let (Key::Grant(address), Row::Grant(row)) = (key, row)
                && let Holder::Ordinal { id, ordinal, former } = row.holder
                && id == set(name)
            {
                all.push((ordinal, former, address));
            }
        }
        all.sort_unstable();
        let text = |(ordinal, former, address): (u32, bool, IpAddr)| {
            format!("{ordinal} {address}{}", if former { "!" } else { "" })
        };
        all.into_iter().map(text).collect()
    }

    pub fn waiting(&self, name: &str) -> Vec<Waiting> {
        match self.row(&Key::Reservation(set(name))) {
            Some(Row::Reservation(row)) => row.waiting.map(|(_, waiting)| waiting).unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    pub fn egress_row(&self, name: &str) -> EgressRow {
        match self.row(&Key::Egress(name.into())) {
            Some(Row::Egress(row)) => row,
            other => panic!("{other:?} is no Egress"),
        }
    }

    /// What an Egress holds for each of its items, or why not, by its code.
    pub fn egress_addresses(&self, name: &str) -> Vec<String> {
        let items = self.egress_row(name).items.into_iter();
        items
            .map(|item| match (item.granted(), item.waiting) {
                (Some(address), _) => address.to_string(),
                (None, Some((_, waiting))) => waiting.code().to_owned(),
                (None, None) => "static".to_owned(),
            })
            .collect()
    }

    /// The Node that carries an address, or `none`.
    pub fn node_of(&self, address: &str) -> String {
        match self.row(&Key::Placement(ip(address))) {
            Some(Row::Placement(row)) => row.node.to_string(),
            _ => "none".to_owned(),
        }
    }

    /// Egresses of which the last entry changed a placement, by name.
    pub fn moved(&self) -> Vec<String> {
        let mut moved: Vec<String> = Vec::new();
        for change in &self.changes {
            if let Event::Placed { egress, .. } | Event::Unplaced { egress, .. } = &change.event {
                moved.push(egress.to_string());
            }
        }
        moved.sort_unstable();
        moved.dedup();
        moved
    }
}
