//! What Kubernetes objects ask of the ledger. Pure: no clock, no ledger, no API.
//!
//! Kind by kind ([`plan`]): pools, Nodes, Pods, reservations, Egresses; settings, which are no objects, go
//! before, and deletions ([`deletions`]) last. Within a kind by `creationTimestamp` (then name), and objects
//! without one after those in reading order: who comes first gets the lower addresses.
//!
//! What the fields and annotations mean is told where they are read:
//! [`annotations`], `pool`, `node`, `pod`, `stateful_set`, `egress`.

pub mod annotations;
pub mod duration;
mod egress;
mod node;
mod pod;
mod pool;
mod said;
mod stateful_set;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use holdfast_statemachine::command::{
    DeleteEgress, DeleteNode, DeletePool, ObjectId, OwnerRef, ReleaseGrant, ReleaseReservation, StatefulSetId,
};
use holdfast_statemachine::row::Holder;
use holdfast_statemachine::{Action, Command, Name, PoolId, PoolKind, Source, Tables};

pub use pod::{is_gone as pod_is_gone, member};

use crate::objects::{Kind, Namespace, Object, ObjectMeta, ObjectRef};
use crate::problem::FieldProblem;
use said::Said;

/// Something worth telling about an object that is no problem.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// The object.
    pub object: ObjectRef,
    /// One line.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, self.text)
    }
}

/// What one object asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translated {
    /// The one action, if it asks for any.
    pub action: Option<Action>,
    /// What is worth telling.
    pub notes: Vec<Note>,
}

/// What a set of objects asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// In the order in which they are to be proposed.
    pub commands: Vec<Command>,
    /// Every object that the ledger may hold a declaration of, with its UID. Pods that are gone are not among them.
    pub declared: BTreeMap<ObjectId, Name>,
    /// What is worth telling.
    pub notes: Vec<Note>,
}

/// What an object asks for, in its Namespace (`None`: one without annotations). A Namespace itself asks for nothing.
pub fn translate(object: &Object, namespace: Option<&Namespace>) -> Result<Translated, Vec<FieldProblem>> {
    let mut said = Said::about(object.reference());
    said.check_names(object);
    let action = match object {
        Object::Namespace(namespace) => {
            said.check_namespace(namespace);
            None
        }
        Object::IpPool(pool) => Some(Action::PutPool(pool::ip_pool(pool, &mut said))),
        Object::ExternalIpPool(pool) => Some(Action::PutPool(pool::external_ip_pool(pool, &mut said))),
        Object::Node(node) => Some(Action::PutNode(node::node(node, &mut said))),
        Object::Pod(pod) => pod::pod(pod, namespace, &mut said),
        Object::StatefulSet(set) => Some(Action::Reserve(stateful_set::reserve(set, namespace, &mut said))),
        Object::Egress(egress) => Some(Action::PutEgress(egress::egress(egress, &mut said))),
    };
    said.finish(action)
}

/// What is wrong with an object by itself, whatever its Namespace says.
pub fn check(object: &Object) -> Vec<FieldProblem> {
    translate(object, None).err().unwrap_or_default()
}

/// The commands that declare all these objects, in order. With one problem there is no plan.
pub fn plan<'a>(
    objects: impl IntoIterator<Item = &'a Object>,
    source: &Source,
    only_in_term: Option<u64>,
) -> Result<Plan, Vec<FieldProblem>> {
    let mut objects: Vec<&Object> = objects.into_iter().collect();
    objects.sort_by_key(|object| {
        let metadata = object.metadata();
        let created = metadata.creation_timestamp;
        // The name decides only between timestamps: the sort is stable, and keeps the reading order of the rest.
        (object.kind(), created.is_none(), created, created.map(|_| metadata.name.clone()))
    });
    let namespaces: BTreeMap<&Name, &Namespace> = objects
        .iter()
        .filter_map(|object| match object {
            Object::Namespace(namespace) => Some((&namespace.metadata.name, namespace)),
            _ => None,
        })
        .collect();
    let mut plan = Plan::default();
    let mut problems = BTreeSet::new();
    for object in objects {
        let namespace = namespaces.get(&object.metadata().namespace()).copied();
        match translate(object, namespace) {
            Ok(Translated { action, notes }) => {
                let command = |action| Command { source: source.clone(), only_in_term, action };
                plan.commands.extend(action.map(command));
                plan.notes.extend(notes);
                plan.declared.extend(declared(object));
            }
            Err(found) => problems.extend(found),
        }
    }
    if problems.is_empty() { Ok(plan) } else { Err(problems.into_iter().collect()) }
}

/// The declaration that the ledger may hold of an object, with its UID; `None` for a Namespace and a Pod that is gone.
pub fn declared(object: &Object) -> Option<(ObjectId, Name)> {
    let metadata = object.metadata();
    let name = metadata.name.clone();
    let id = match object {
        Object::Namespace(_) => return None,
        Object::Pod(pod) if pod::is_gone(pod) => return None,
        Object::IpPool(_) => ObjectId::Pool(PoolId { kind: PoolKind::IpPool, name }),
        Object::ExternalIpPool(_) => ObjectId::Pool(PoolId { kind: PoolKind::ExternalIpPool, name }),
        Object::Node(_) => ObjectId::Node(name),
        Object::Pod(_) => ObjectId::Pod(metadata.namespace(), name),
        Object::StatefulSet(_) => ObjectId::Reservation(StatefulSetId { namespace: metadata.namespace(), name }),
        Object::Egress(_) => ObjectId::Egress(name),
    };
    Some((id, uid(object.kind(), metadata)))
}

/// An object's UID; for one that the Kubernetes API never saw, `<namespace>/<name>` or `<name>` stands in.
pub(crate) fn uid(kind: Kind, metadata: &ObjectMeta) -> Name {
    match &metadata.uid {
        Some(uid) if !uid.is_empty() => uid.clone(),
        _ if kind.namespaced() => format!("{}/{}", metadata.namespace(), metadata.name).into(),
        _ => metadata.name.clone(),
    }
}

/// The objects of this source in the ledger that are no longer declared, with the UID recorded: what a directory
/// that is watched, or `--prune`, is to delete. One that is declared with another UID is replaced by its own Put.
pub fn gone(tables: &Tables, source: &Source, declared: &BTreeMap<ObjectId, Name>) -> Vec<(ObjectId, Name)> {
    let pools = tables.pools().iter().map(|(id, row)| (&row.source, ObjectId::Pool(id.clone()), &row.wanted.uid));
    let reservations = tables
        .reservations()
        .iter()
        .filter(|(id, row)| row.spec.is_some() || tables.is_adopted(id))
        .map(|(id, row)| (&row.source, ObjectId::Reservation(id.clone()), &row.uid));
    let egresses = tables.egresses().iter().map(|(name, row)| (&row.source, ObjectId::Egress(name.clone()), &row.uid));
    let nodes = tables.nodes().iter().map(|(name, row)| (&row.source, ObjectId::Node(name.clone()), &row.uid));
    let pods = tables.ordinals().values().filter_map(|row| row.pod.as_ref()).map(|bound| {
        let pod = &bound.pod;
        (&bound.source, ObjectId::Pod(pod.namespace.clone(), pod.name.clone()), &pod.uid)
    });
    let outside = tables.grants().values().filter_map(|grant| match &grant.holder {
        Holder::Pod { pod, source } => Some((source, ObjectId::Pod(pod.namespace.clone(), pod.name.clone()), &pod.uid)),
        _ => None,
    });
    let all = pools.chain(reservations).chain(egresses).chain(nodes).chain(pods).chain(outside);
    // Once each, though a Pod can be bound and hold several addresses.
    let gone: BTreeSet<(ObjectId, Name)> = all
        .filter(|(of, id, _)| *of == source && !declared.contains_key(id))
        .map(|(_, id, uid)| (id, uid.clone()))
        .collect();
    gone.into_iter().collect()
}

/// The commands that delete these objects, each only with the UID given. Egresses first, so that none is moved on
/// its way out, pools last, so that none is retired for the sake of what goes with it.
pub fn deletions(gone: &[(ObjectId, Name)], source: &Source, only_in_term: Option<u64>) -> Vec<Command> {
    let order = |id: &ObjectId| match id {
        ObjectId::Egress(_) => 0,
        ObjectId::Pod(..) => 1,
        ObjectId::Reservation(_) => 2,
        ObjectId::Node(_) => 3,
        ObjectId::Pool(_) => 4,
    };
    let mut gone: Vec<&(ObjectId, Name)> = gone.iter().collect();
    gone.sort_by_key(|(id, _)| (order(id), id));
    let action = |(id, uid): &(ObjectId, Name)| match (id.clone(), uid.clone()) {
        (ObjectId::Egress(name), uid) => Action::DeleteEgress(DeleteEgress { name, uid }),
        (ObjectId::Pod(namespace, name), uid) => {
            Action::ReleaseGrant(ReleaseGrant { owner: OwnerRef::Pod(namespace, name), uid, revision: None })
        }
        (ObjectId::Reservation(id), uid) => Action::ReleaseReservation(ReleaseReservation { id, uid }),
        (ObjectId::Node(name), uid) => Action::DeleteNode(DeleteNode { name, uid }),
        (ObjectId::Pool(pool), uid) => Action::DeletePool(DeletePool { pool, uid }),
    };
    gone.into_iter().map(|item| Command { source: source.clone(), only_in_term, action: action(item) }).collect()
}

#[cfg(test)]
mod tests;
