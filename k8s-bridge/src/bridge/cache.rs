//! What the informers have seen.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use holdfast_statemachine::Name;

use super::key::Key;
use super::watched::Live;
use crate::objects::{Kind, Namespace, Object};

/// The newest version seen of every object, of all kinds watched.
#[derive(Debug, Default)]
pub struct Cache {
    objects: RwLock<Objects>,
}

#[derive(Debug, Default)]
struct Objects {
    live: BTreeMap<Key, Arc<Live>>,
    /// Objects whose deletion was seen, by the UID that was deleted: proof, until the key is looked at.
    deleted: BTreeMap<Key, Name>,
}

impl Cache {
    /// The newest version seen.
    pub fn get(&self, key: &Key) -> Option<Arc<Live>> {
        self.read(|objects| objects.live.get(key).cloned())
    }

    /// The Namespace of this name, as far as it can be read.
    pub fn namespace(&self, name: &Name) -> Option<Namespace> {
        let live = self.get(&Key::cluster(Kind::Namespace, name.clone()))?;
        match &live.object {
            Ok(Object::Namespace(namespace)) => Some(namespace.clone()),
            _ => None,
        }
    }

    /// All keys of a kind.
    pub fn keys(&self, kind: Kind) -> Vec<Key> {
        self.read(|objects| Self::range(objects, kind, "").map(|(key, _)| key.clone()).collect())
    }

    /// The keys of a kind in one namespace.
    pub fn keys_in(&self, kind: Kind, namespace: &Name) -> Vec<Key> {
        self.read(|objects| {
            let from = Self::range(objects, kind, namespace);
            from.take_while(|(key, _)| key.namespace == *namespace).map(|(key, _)| key.clone()).collect()
        })
    }

    /// Everything, of one kind, in order of keys.
    pub fn all(&self, kind: Kind) -> Vec<(Key, Arc<Live>)> {
        self.read(|objects| Self::range(objects, kind, "").map(|(key, live)| (key.clone(), live.clone())).collect())
    }

    fn range<'a>(
        objects: &'a Objects,
        kind: Kind,
        namespace: &str,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Live>)> + use<'a> {
        let first = Key { kind, namespace: namespace.into(), name: "".into() };
        objects.live.range(first..).take_while(move |(key, _)| key.kind == kind)
    }

    /// The UID of a deletion that was seen of an object that is not there now. Telling it once is enough.
    pub fn take_deleted(&self, key: &Key) -> Option<Name> {
        self.write(|objects| objects.deleted.remove(key))
    }

    /// A version of an object was seen. What was there before is returned.
    pub(super) fn apply(&self, key: Key, live: Arc<Live>) -> Option<Arc<Live>> {
        self.write(|objects| {
            objects.deleted.remove(&key);
            objects.live.insert(key, live)
        })
    }

    /// The deletion of an object was seen.
    pub(super) fn delete(&self, key: Key, uid: Name) {
        self.write(|objects| {
            objects.live.remove(&key);
            // Nothing is held for a Namespace: nobody asks.
            if key.kind != Kind::Namespace {
                objects.deleted.insert(key, uid);
            }
        });
    }

    /// A new list of a kind does not show these: they are held no longer, which proves nothing.
    pub(super) fn forget(&self, keys: &[Key]) {
        self.write(|objects| {
            for key in keys {
                objects.live.remove(key);
            }
        });
    }

    fn read<T>(&self, read: impl FnOnce(&Objects) -> T) -> T {
        read(&self.objects.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, write: impl FnOnce(&mut Objects) -> T) -> T {
        write(&mut self.objects.write().unwrap_or_else(PoisonError::into_inner))
    }
}
