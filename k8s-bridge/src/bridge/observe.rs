//! Mode `antrea`: the list in an IPPool's status, which antrea-controller, agents and this group all write.
//!
//! [`read`] reads it, and a [`List`] remembers of one pool what is this group's own in it: what the ledger holds for
//! an ordinal, and what it held there, until the list is seen without it. All else is others'. Pure.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use holdfast_statemachine::Name;
use holdfast_statemachine::command::{Observe, Observed, StatefulSetId};
use serde::Deserialize;
use serde_json::Value;

use super::adopt::Entry;
use super::mirror::newer;

/// An ordinal of a StatefulSet.
pub type OrdinalId = (StatefulSetId, u32);

/// An entry that is added: its address, whose it is, and it.
pub type Added = (IpAddr, OrdinalId, Value);

/// One entry that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its place in the list.
    pub at: usize,
    /// Its address.
    pub address: IpAddr,
    /// The ordinal that it is reserved for.
    pub ordinal: Option<OrdinalId>,
    /// The namespace and name of the Pod that has it.
    pub pod: Option<(Name, Name)>,
    /// Its owner, for people.
    pub owner: Name,
}

/// Whose an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The ledger holds the address for the ordinal that the entry names.
    Ours,
    /// The ledger held it, and no Pod has it: the entry is to go.
    Released,
    /// Anybody else's.
    Others,
}

/// What the ledger holds for an ordinal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The ordinal.
    pub of: OrdinalId,
    /// The namespace, name and UID of its Pod.
    pub pod: Option<(Name, Name, Name)>,
    /// Whether it is kept only while the Pod may use it.
    pub former: bool,
    /// Whether the Pod uses it, as far as the ledger knows.
    pub used: bool,
    /// Since which revision.
    pub since: u64,
}

/// Of one pool, in this term.
#[derive(Debug, Default)]
pub struct List {
    mine: BTreeMap<(IpAddr, OrdinalId), Mine>,
    /// Whether it was looked at before.
    looked: bool,
    /// What was told of it that people should put right.
    pub told: BTreeSet<String>,
    /// StatefulSets whose entries do not fit, and what was told of each.
    pub waiting: BTreeMap<StatefulSetId, String>,
}

/// An entry of this group's.
#[derive(Debug)]
struct Mine {
    /// As it was seen last, or is to be written.
    last: Value,
    /// The version that it was seen in, or that it is written over.
    version: Name,
    /// Whether the newest version has it, as far as is known.
    there: bool,
}

/// The entries of a list, and what is wrong with those that are passed over.
pub fn read(status: &Value) -> (Vec<Item>, Vec<String>) {
    let mut items: Vec<Item> = Vec::new();
    let mut addresses = BTreeSet::new();
    let mut bad = Vec::new();
    for (at, value) in entries(status).iter().enumerate() {
        match read_item(at, value) {
            Ok(item) if addresses.insert(item.address) => items.push(item),
            Ok(item) => bad.push(format!("{} is there twice: {value}", item.address)),
            Err(why) => bad.push(format!("{why}: {value}")),
        }
    }
    (items, bad)
}

/// The list as it stands.
pub fn entries(status: &Value) -> &[Value] {
    status.get("ipAddresses").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn read_item(at: usize, value: &Value) -> Result<Item, String> {
    let entry = Entry::deserialize(value).map_err(|error| error.to_string())?;
    let address = entry.ip_address.parse().map_err(|_| format!("{:?} is no address", entry.ip_address))?;
    let ordinal = entry.owner.stateful_set.map(|set| {
        let id = StatefulSetId { namespace: set.namespace, name: set.name };
        (id, set.index)
    });
    let pod = entry.owner.pod.map(|pod| (pod.namespace, pod.name));
    let owner = match (&pod, &ordinal, entry.owner.name) {
        (Some((namespace, name)), ..) => format!("Pod {namespace}/{name}").into(),
        (None, Some((id, _)), _) => format!("StatefulSet {id}").into(),
        (None, None, Some(name)) => name,
        (None, None, None) => "nobody that is named".into(),
    };
    Ok(Item { at, address, ordinal, pod, owner })
}

impl List {
    /// Whose each entry of this version is. `held`: what the ledger holds for ordinals in this pool; `was`: whether
    /// it held an address for an ordinal before, by its history.
    pub fn look(
        &mut self,
        status: &Value,
        version: &Name,
        items: &[Item],
        held: &BTreeMap<IpAddr, Held>,
        was: impl Fn(IpAddr, &OrdinalId) -> bool,
    ) -> Vec<Whose> {
        let values = entries(status);
        let agrees = |address, of: &OrdinalId| held.get(&address).is_some_and(|held: &Held| held.of == *of);
        let mut whose = Vec::with_capacity(items.len());
        for item in items {
            whose.push(match &item.ordinal {
                None => Whose::Others,
                Some(of) => {
                    let ours = agrees(item.address, of);
                    let key = (item.address, of.clone());
                    let known = self.mine.get(&key).is_some_and(|mine| mine.there);
                    if ours || known || (!self.looked && was(item.address, of)) {
                        let last = values[item.at].clone();
                        self.mine.insert(key, Mine { last, version: version.clone(), there: true });
                        match (ours, &item.pod) {
                            (true, _) => Whose::Ours,
                            (false, None) => Whose::Released,
                            // A Pod has it, whatever the ledger says.
                            (false, Some(_)) => Whose::Others,
                        }
                    } else {
                        Whose::Others
                    }
                }
            });
        }
        self.looked = true;
        let shown: BTreeSet<(IpAddr, &OrdinalId)> =
            items.iter().filter_map(|item| Some((item.address, item.ordinal.as_ref()?))).collect();
        self.mine.retain(|(address, of), mine| {
            if shown.contains(&(*address, of)) {
                return mine.there || agrees(*address, of);
            }
            // In the version that it is written over it cannot be.
            if newer(version, &mine.version) == Some(Ordering::Greater) {
                mine.there = false;
            }
            mine.there || agrees(*address, of)
        });
        whose
    }

    /// Whether the list ever showed this address as this ordinal's, as far as is known.
    pub fn has_shown(&self, address: IpAddr, of: &OrdinalId) -> bool {
        self.mine.contains_key(&(address, of.clone()))
    }

    /// The entry for an address that the list does not have: as it was, if it was there and the same Pod has it still.
    pub fn entry(&self, address: IpAddr, held: &Held) -> Value {
        let last = self.mine.get(&(address, held.of.clone())).map(|mine| &mine.last);
        let pod = |entry: &Value| {
            let pod = entry.pointer("/owner/pod")?;
            Some((Name::from(pod.get("namespace")?.as_str()?), Name::from(pod.get("name")?.as_str()?)))
        };
        let same = |entry: &&Value| {
            let bound = held.pod.as_ref().map(|(namespace, name, _)| (namespace.clone(), name.clone()));
            bound.is_some() && pod(entry) == bound
        };
        last.filter(same).cloned().unwrap_or_else(|| reserved(address, &held.of))
    }

    /// These entries are about to be written over this version.
    pub fn intend(&mut self, version: &Name, entries: &[Added]) {
        for (address, of, entry) in entries {
            let mine = Mine { last: entry.clone(), version: version.clone(), there: true };
            self.mine.insert((*address, of.clone()), mine);
        }
    }

    /// They were not: somebody else was faster. Those of `before` were there once.
    pub fn withdraw(&mut self, entries: &[Added], before: &BTreeSet<IpAddr>) {
        for (address, of, _) in entries {
            let key = (*address, of.clone());
            if !before.contains(address) {
                self.mine.remove(&key);
            } else if let Some(mine) = self.mine.get_mut(&key) {
                mine.there = false;
            }
        }
    }

    /// Of these addresses, those that the list ever showed as the ordinal's.
    pub fn shown(&self, entries: &[Added]) -> BTreeSet<IpAddr> {
        entries.iter().filter(|(address, of, _)| self.has_shown(*address, of)).map(|(address, ..)| *address).collect()
    }
}

/// An entry as agents look for it: by the canonical text and the Pod's ordinal.
fn reserved(address: IpAddr, (id, ordinal): &OrdinalId) -> Value {
    serde_json::json!({
        "ipAddress": address.to_string(),
        "phase": "Reserved",
        "owner": {"statefulSet": {"name": &*id.name, "namespace": &*id.namespace, "index": ordinal}},
    })
}

/// What is observed of a list: all but what is to go from it.
pub fn observation(pool: &Name, items: &[Item], whose: &[Whose]) -> Observe {
    let observed =
        |item: &Item| Observed { address: item.address, owner: item.owner.clone(), ordinal: item.ordinal.clone() };
    let told = items.iter().zip(whose).filter(|(_, whose)| **whose != Whose::Released);
    Observe { pool: pool.clone(), entries: told.map(|(item, _)| observed(item)).collect() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(set: &str, index: u32) -> OrdinalId {
        (StatefulSetId { namespace: "db".into(), name: set.into() }, index)
    }

    fn held(list: &[(u8, &str, u32)]) -> BTreeMap<IpAddr, Held> {
        let pod = |set: &str, index| ("db".into(), format!("{set}-{index}").into(), "uid".into());
        let one = |(last, set, index): &(u8, &str, u32)| {
            (ip(*last), Held { of: of(set, *index), pod: Some(pod(set, *index)), former: false, used: true, since: 1 })
        };
        list.iter().map(one).collect()
    }

    fn ip(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn mine(last: u8, set: &str, index: u32) -> Value {
        reserved(ip(last), &of(set, index))
    }

    /// As an agent changes it when a Pod is set up.
    fn allocated(last: u8, set: &str, index: u32) -> Value {
        let mut entry = mine(last, set, index);
        entry["phase"] = "Allocated".into();
        let pod = json!({"name": format!("{set}-{index}"), "namespace": "db", "containerID": "c", "ifName": "eth0"});
        entry["owner"]["pod"] = pod;
        entry
    }

    struct Pool {
        list: List,
        version: u64,
    }

    impl Pool {
        fn new() -> Pool {
            Pool { list: List::default(), version: 10 }
        }

        /// The next version of the object, looked at.
        fn look(&mut self, entries: &[Value], held: &BTreeMap<IpAddr, Held>) -> Vec<Whose> {
            self.version += 1;
            self.look_at(self.version, entries, held, false)
        }

        fn look_at(&mut self, version: u64, entries: &[Value], held: &BTreeMap<IpAddr, Held>, was: bool) -> Vec<Whose> {
            let status = json!({"ipAddresses": entries});
            let (items, bad) = read(&status);
            assert_eq!(bad, [""; 0]);
            self.list.look(&status, &version.to_string().into(), &items, held, |_, _| was)
        }

        fn version(&self) -> Name {
            self.version.to_string().into()
        }
    }

    #[test]
    fn what_can_be_read_is_read_and_the_rest_is_told() {
        let status = json!({"ipAddresses": [
            {"ipAddress": "10.0.0.2", "owner": {"pod": {"name": "p", "namespace": "db", "containerID": "c"}}},
            {"ipAddress": "ten", "owner": {}},
            {"ipAddress": "fd00::0001", "owner": {"statefulSet": {"name": "s", "namespace": "db", "index": 3}}},
            {"ipAddress": "10.0.0.2", "owner": {}},
            {"owner": {}},
            {"ipAddress": "10.0.0.3", "owner": {"statefulSet": {"name": "s", "namespace": "db", "index": -1}}},
            {"ipAddress": "10.0.0.4"},
        ]});
        let (items, bad) = read(&status);
        let told: Vec<_> = items.iter().map(|it| (it.at, it.address.to_string(), it.owner.to_string())).collect();
        let expected =
            [(0, "10.0.0.2", "Pod db/p"), (2, "fd00::1", "StatefulSet db/s"), (6, "10.0.0.4", "nobody that is named")];
        assert!(told.iter().map(|(at, ip, owner)| (*at, ip.as_str(), owner.as_str())).eq(expected), "{told:?}");
        assert_eq!(items[1].ordinal, Some(of("s", 3)));
        assert_eq!(bad.len(), 4, "{bad:#?}");
    }

    #[test]
    fn an_entry_is_ours_if_the_ledger_agrees_whoever_wrote_it() {
        let mut pool = Pool::new();
        let entries = [mine(2, "s", 0), mine(3, "s", 1), allocated(4, "s", 2), mine(5, "s", 7), mine(6, "t", 0)];
        let held = held(&[(2, "s", 0), (3, "s", 2), (4, "s", 2), (9, "s", 7)]);
        let whose = pool.look(&entries, &held);
        assert_eq!(whose, [Whose::Ours, Whose::Others, Whose::Ours, Whose::Others, Whose::Others]);
    }

    #[test]
    fn a_released_entry_is_to_go_and_is_observed_only_while_a_pod_has_it() {
        let mut pool = Pool::new();
        let (both, none) = (held(&[(2, "s", 0), (3, "s", 1)]), held(&[]));
        let entries = [mine(2, "s", 0), allocated(3, "s", 1)];
        assert_eq!(pool.look(&entries, &both), [Whose::Ours; 2]);
        assert_eq!(pool.look(&entries, &none), [Whose::Released, Whose::Others]);
        // Its Pod is gone, and the agent says so.
        assert_eq!(pool.look(&[mine(2, "s", 0), mine(3, "s", 1)], &none), [Whose::Released; 2]);
        // It was given to another meanwhile.
        assert_eq!(pool.look(&[mine(2, "s", 0)], &held(&[(2, "t", 0)])), [Whose::Released]);
        // Once it was seen to be gone, another like it is somebody else's.
        pool.look(&[], &none);
        assert_eq!(pool.look(&[mine(2, "s", 0)], &none), [Whose::Others]);
    }

    #[test]
    fn what_is_being_written_is_ours_though_no_version_shows_it_yet() {
        let mut pool = Pool::new();
        let ours = held(&[(2, "s", 0)]);
        pool.look(&[], &ours);
        let entries = [(ip(2), of("s", 0), mine(2, "s", 0))];
        pool.list.intend(&pool.version(), &entries);
        // The version that it is written over is looked at again; the ledger released it; then the write shows.
        pool.look_at(pool.version, &[], &held(&[]), false);
        assert_eq!(pool.look(&[mine(2, "s", 0)], &held(&[])), [Whose::Released]);
        // A write that lost leaves nothing behind.
        let mut pool = Pool::new();
        pool.look(&[], &ours);
        let shown = pool.list.shown(&entries);
        pool.list.intend(&pool.version(), &entries);
        pool.list.withdraw(&entries, &shown);
        assert!(!pool.list.has_shown(ip(2), &of("s", 0)));
        assert_eq!(pool.look(&[mine(2, "s", 0)], &held(&[])), [Whose::Others]);
    }

    #[test]
    fn a_write_that_lost_does_not_hide_the_released_entry_whose_place_it_was_to_take() {
        let mut pool = Pool::new();
        let ours = held(&[(2, "s", 0)]);
        pool.look(&[mine(2, "t", 0)], &held(&[(2, "t", 0)]));
        let entries = [(ip(2), of("s", 0), mine(2, "s", 0))];
        pool.list.intend(&pool.version(), &entries);
        pool.list.withdraw(&entries, &BTreeSet::new());
        assert_eq!(pool.look(&[mine(2, "t", 0)], &ours), [Whose::Released]);
        // Nor does one of which nobody knows whether it was done.
        pool.list.intend(&pool.version(), &entries);
        assert_eq!(pool.look(&[mine(2, "t", 0)], &ours), [Whose::Released]);
        assert_eq!(pool.look(&[mine(2, "s", 0)], &held(&[])), [Whose::Others]);
    }

    #[test]
    fn what_a_former_leader_left_is_told_from_others_by_the_history_and_at_first_only() {
        let none = held(&[]);
        let mut pool = Pool::new();
        assert_eq!(pool.look_at(11, &[mine(2, "s", 0)], &none, true), [Whose::Released]);
        let mut pool = Pool::new();
        assert_eq!(pool.look_at(11, &[mine(2, "s", 0)], &none, false), [Whose::Others]);
        assert_eq!(pool.look_at(12, &[mine(2, "s", 0), mine(3, "s", 1)], &none, true), [Whose::Others; 2]);
    }

    #[test]
    fn a_dropped_entry_is_put_back_as_it_was_for_the_pod_that_has_it() {
        let mut pool = Pool::new();
        let ours = held(&[(2, "s", 0), (3, "s", 1)]);
        pool.look(&[allocated(2, "s", 0), mine(3, "s", 1)], &ours);
        pool.look(&[], &ours);
        assert_eq!(pool.list.entry(ip(2), &ours[&ip(2)]), allocated(2, "s", 0));
        assert_eq!(pool.list.entry(ip(3), &ours[&ip(3)]), mine(3, "s", 1));
        // Nobody has it any more, or another one has it.
        let nobody = Held { pod: None, ..ours[&ip(2)].clone() };
        assert_eq!(pool.list.entry(ip(2), &nobody), mine(2, "s", 0));
        let other = Held { of: of("t", 0), ..ours[&ip(2)].clone() };
        assert_eq!(pool.list.entry(ip(2), &other), mine(2, "t", 0));
    }

    #[test]
    fn all_but_what_is_to_go_is_observed() {
        let status = json!({"ipAddresses": [mine(2, "s", 0), mine(3, "s", 1), allocated(4, "t", 0)]});
        let (items, _) = read(&status);
        let observe = observation(&"p".into(), &items, &[Whose::Ours, Whose::Released, Whose::Others]);
        let told: Vec<_> = observe.entries.iter().map(|it| (it.address, &*it.owner, it.ordinal.clone())).collect();
        let expected = [(ip(2), "StatefulSet db/s", Some(of("s", 0))), (ip(4), "Pod db/t-0", Some(of("t", 0)))];
        assert_eq!(told, expected);
    }
}
