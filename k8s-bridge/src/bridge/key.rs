//! What names an object in the caches and queues.

use std::fmt;

use holdfast_statemachine::Name;
use holdfast_statemachine::command::{ObjectId, StatefulSetId};
use holdfast_statemachine::row::{PoolId, PoolKind};

use crate::objects::Kind;

/// One object. Keys sort in the order in which objects are proposed to the ledger, and by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace; empty where its kind lives in none.
    pub namespace: Name,
    /// Its name.
    pub name: Name,
}

impl Key {
    /// The key of an object whose kind lives in no namespace.
    pub fn cluster(kind: Kind, name: Name) -> Key {
        Key { kind, namespace: "".into(), name }
    }

    /// The key of a pool.
    pub fn pool(pool: &PoolId) -> Key {
        let kind = match pool.kind {
            PoolKind::IpPool => Kind::IpPool,
            PoolKind::ExternalIpPool => Kind::ExternalIpPool,
        };
        Key::cluster(kind, pool.name.clone())
    }

    /// The key of a StatefulSet.
    pub fn stateful_set(id: &StatefulSetId) -> Key {
        Key { kind: Kind::StatefulSet, namespace: id.namespace.clone(), name: id.name.clone() }
    }

    /// The key of what the ledger holds a declaration of.
    pub fn of(object: &ObjectId) -> Key {
        match object {
            ObjectId::Pool(pool) => Key::pool(pool),
            ObjectId::Reservation(id) => Key::stateful_set(id),
            ObjectId::Egress(name) => Key::cluster(Kind::Egress, name.clone()),
            ObjectId::Node(name) => Key::cluster(Kind::Node, name.clone()),
            ObjectId::Pod(namespace, name) => Key { kind: Kind::Pod, namespace: namespace.clone(), name: name.clone() },
        }
    }

    /// What the ledger may hold of it; nothing of a Namespace.
    pub fn object(&self) -> Option<ObjectId> {
        let (namespace, name) = (self.namespace.clone(), self.name.clone());
        Some(match self.kind {
            Kind::Namespace => return None,
            Kind::IpPool => ObjectId::Pool(PoolId { kind: PoolKind::IpPool, name }),
            Kind::ExternalIpPool => ObjectId::Pool(PoolId { kind: PoolKind::ExternalIpPool, name }),
            Kind::Node => ObjectId::Node(name),
            Kind::Pod => ObjectId::Pod(namespace, name),
            Kind::StatefulSet => ObjectId::Reservation(StatefulSetId { namespace, name }),
            Kind::Egress => ObjectId::Egress(name),
        })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        if self.namespace.is_empty() {
            write!(f, " {}", self.name)
        } else {
            write!(f, " {}/{}", self.namespace, self.name)
        }
    }
}
