//! What the changes of one entry mean to people, object by object. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use holdfast_statemachine::change::MoveReason;
use holdfast_statemachine::command::{ObjectId, StatefulSetId};
use holdfast_statemachine::row::Holder;
use holdfast_statemachine::{Change, Event, Name, PoolId, Waiting, address};

use crate::bridge::key::Key;
use crate::objects::Kind;

/// Blocks named in one line.
const NAMED: usize = 8;

/// Something that happened to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// The object.
    pub about: Key,
    /// Whether somebody should do something.
    pub warning: bool,
    /// One word.
    pub reason: &'static str,
    /// One line.
    pub note: String,
}

/// One address of an ordinal.
type Held = (PoolId, IpAddr, u32);

#[derive(Default)]
struct OfSet {
    granted: Vec<Held>,
    /// Former addresses that are the current ones again.
    regained: Vec<Held>,
    superseded: Vec<Held>,
    released: Vec<Held>,
    waits: Vec<Waiting>,
}

#[derive(Default)]
struct OfEgress {
    granted: BTreeMap<IpAddr, PoolId>,
    released: BTreeSet<IpAddr>,
    /// Where an address was, where it is, and why.
    moved: BTreeMap<IpAddr, (Option<Name>, Option<Name>, MoveReason)>,
    waits: Vec<Waiting>,
    gone: bool,
}

#[derive(Default)]
struct Told {
    sets: BTreeMap<StatefulSetId, OfSet>,
    egresses: BTreeMap<Name, OfEgress>,
    pools: Vec<News>,
}

/// The news of one entry.
pub fn news(changes: &[Change]) -> Vec<News> {
    let mut told = Told::default();
    for change in changes {
        told.add(&change.event);
    }
    let mut news = told.pools;
    for (id, set) in told.sets {
        of_set(&Key::stateful_set(&id), set, &mut news);
    }
    for (name, egress) in told.egresses {
        if !egress.gone {
            of_egress(&Key::cluster(Kind::Egress, name), egress, &mut news);
        }
    }
    news
}

impl Told {
    fn set(&mut self, id: &StatefulSetId) -> &mut OfSet {
        self.sets.entry(id.clone()).or_default()
    }

    fn egress(&mut self, name: &Name) -> &mut OfEgress {
        self.egresses.entry(name.clone()).or_default()
    }

    fn add(&mut self, event: &Event) {
        match event {
            Event::Granted { address, pool, holder } => match holder {
                Holder::Ordinal { id, ordinal, .. } => {
                    self.set(id).granted.push((pool.clone(), *address, *ordinal));
                }
                Holder::Egress { name } => drop(self.egress(name).granted.insert(*address, pool.clone())),
                _ => {}
            },
            Event::Released { address, pool, holder, .. } => match holder {
                Holder::Ordinal { id, ordinal, .. } => {
                    self.set(id).released.push((pool.clone(), *address, *ordinal));
                }
                Holder::Egress { name } => drop(self.egress(name).released.insert(*address)),
                _ => {}
            },
            Event::Transferred { address, pool, to: Holder::Ordinal { id, ordinal, former }, .. } => {
                let set = self.set(id);
                let passed = if *former { &mut set.superseded } else { &mut set.regained };
                passed.push((pool.clone(), *address, *ordinal));
            }
            Event::Placed { address, egress, from, to, why } => {
                self.egress(egress).moved.insert(*address, (from.clone(), Some(to.clone()), *why));
            }
            Event::Unplaced { address, egress, from, why } if *why != MoveReason::AddressGone => {
                self.egress(egress).moved.insert(*address, (Some(from.clone()), None, *why));
            }
            Event::Waits { object, waiting, .. } => self.waits(object, waiting),
            Event::Met { object: ObjectId::Pool(pool), .. } => {
                self.pool(pool, false, "InForce", "its ranges are in force".to_owned());
            }
            Event::Deleted(ObjectId::Egress(name)) => self.egress(name).gone = true,
            Event::Put(ObjectId::Egress(name)) => {
                if let Some(egress) = self.egresses.get_mut(name) {
                    egress.gone = false;
                }
            }
            _ => {}
        }
    }

    fn waits(&mut self, object: &ObjectId, waiting: &[Waiting]) {
        match object {
            ObjectId::Reservation(id) => self.set(id).waits = waiting.to_vec(),
            ObjectId::Egress(name) => self.egress(name).waits.extend_from_slice(waiting),
            ObjectId::Pool(pool) => {
                self.pool(pool, true, "NotInForce", format!("its ranges are not in force: {}", lines(waiting)));
            }
            _ => {}
        }
    }

    fn pool(&mut self, pool: &PoolId, warning: bool, reason: &'static str, note: String) {
        self.pools.push(News { about: Key::pool(pool), warning, reason, note });
    }
}

fn lines(waiting: &[Waiting]) -> String {
    waiting.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn of_set(about: &Key, set: OfSet, news: &mut Vec<News>) {
    let OfSet { granted, regained, superseded, released, waits } = set;
    let mut tell = |warning, reason, note| news.push(News { about: about.clone(), warning, reason, note });
    let moved = !superseded.is_empty() || !regained.is_empty();
    let now = [granted, regained].concat();
    if moved && !now.is_empty() {
        let former = if superseded.is_empty() {
            String::new()
        } else {
            format!("; {} stays while Pods use it", blocks(superseded))
        };
        tell(false, "Moved", format!("moves to {}{former}", blocks(now)));
    } else if !now.is_empty() {
        tell(false, "Reserved", format!("holds {}", blocks(now)));
    }
    if !released.is_empty() {
        tell(false, "Released", format!("no longer holds {}", blocks(released)));
    }
    if !waits.is_empty() {
        tell(true, "Waiting", format!("waits: {}", lines(&waits)));
    }
}

/// `10.0.0.2-10.0.0.6 of IPPool web for ordinals 0-4; ...`
fn blocks(mut held: Vec<Held>) -> String {
    held.sort_unstable();
    let mut blocks: Vec<(Held, Held)> = Vec::new();
    for one in held {
        match blocks.last_mut() {
            Some((_, last)) if follows(last, &one) => *last = one,
            _ => blocks.push((one.clone(), one)),
        }
    }
    let more = blocks.len().saturating_sub(NAMED);
    let mut text: Vec<String> = blocks.into_iter().take(NAMED).map(|(first, last)| block(&first, &last)).collect();
    if more > 0 {
        text.push(format!("and {more} more"));
    }
    text.join("; ")
}

fn follows(last: &Held, next: &Held) -> bool {
    last.0 == next.0 && address::offset(last.1, 1) == Some(next.1) && last.2.checked_add(1) == Some(next.2)
}

fn block((pool, first, from): &Held, (_, last, to): &Held) -> String {
    if first == last {
        return format!("{first} of {pool} for ordinal {from}");
    }
    format!("{first}-{last} of {pool} for ordinals {from}-{to}")
}

fn of_egress(about: &Key, egress: OfEgress, news: &mut Vec<News>) {
    let OfEgress { granted, mut moved, released, waits, .. } = egress;
    let mut tell = |warning, reason, note| news.push(News { about: about.clone(), warning, reason, note });
    for address in released {
        tell(false, "AddressReleased", format!("no longer holds {address}"));
    }
    for (address, pool) in granted {
        match moved.remove(&address) {
            Some((_, Some(to), _)) => tell(false, "Allocated", format!("holds {address} of {pool}, on Node {to}")),
            _ => tell(false, "Allocated", format!("holds {address} of {pool}")),
        }
    }
    for (address, (from, to, why)) in moved {
        match (from, to) {
            (Some(from), Some(to)) => {
                tell(false, "Moved", format!("{address} moved from Node {from} to Node {to}: {}", text(why)));
            }
            (None, Some(to)) => tell(false, "Placed", format!("{address} is on Node {to}")),
            (Some(from), None) => {
                tell(true, "Unplaced", format!("{address} left Node {from} and is on none: {}", text(why)));
            }
            (None, None) => {}
        }
    }
    if !waits.is_empty() {
        tell(true, "Waiting", format!("waits: {}", lines(&waits)));
    }
}

fn text(why: MoveReason) -> &'static str {
    match why {
        MoveReason::Homeless => "it had no Node",
        MoveReason::NodeNotReady => "the Node is not ready",
        MoveReason::NodeGone => "the Node is gone",
        MoveReason::NodeMismatch => "the Node no longer matches the pool's selector, or is not Linux",
        MoveReason::OverCapacity => "the Node may carry fewer addresses than it did",
        MoveReason::NodeDrained => "the Node is drained",
        MoveReason::Pin => "it was pinned",
        MoveReason::Rebalance => "a rebalance",
        MoveReason::Recomputed => "the policy consistent-hash computed another Node",
        MoveReason::AddressGone => "the address is no longer the Egress's",
    }
}

#[cfg(test)]
mod tests {
    use holdfast_statemachine::change::Cause;
    use holdfast_statemachine::outcome::PoolRoom;
    use holdfast_statemachine::{Family, PoolKind};

    use super::*;

    fn changes(events: Vec<Event>) -> Vec<Change> {
        let change = |event| Change { revision: 1, index: 1, at: 0, cause: Cause::Deadline, event };
        events.into_iter().map(change).collect()
    }

    fn told(events: Vec<Event>) -> Vec<String> {
        let line = |news: News| format!("{} {}: {}", news.about, news.reason, news.note);
        news(&changes(events)).into_iter().map(line).collect()
    }

    fn pool(name: &str) -> PoolId {
        PoolId { kind: PoolKind::IpPool, name: name.into() }
    }

    fn ip(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn of(ordinal: u32, former: bool) -> Holder {
        Holder::Ordinal { id: StatefulSetId { namespace: "db".into(), name: "pg".into() }, ordinal, former }
    }

    #[test]
    fn a_reservation_is_told_once_with_its_blocks() {
        let granted =
            |(ordinal, last)| Event::Granted { address: ip(last), pool: pool("a"), holder: of(ordinal, false) };
        let events = [(0, 2), (1, 3), (2, 4), (3, 9)].map(granted).to_vec();
        assert_eq!(
            told(events),
            [
                "StatefulSet db/pg Reserved: holds 10.0.0.2-10.0.0.4 of IPPool a for ordinals 0-2; 10.0.0.9 of IPPool a for ordinal 3"
            ]
        );
    }

    #[test]
    fn a_move_is_not_a_reservation() {
        let events = vec![
            Event::Transferred { address: ip(2), pool: pool("a"), from: of(0, false), to: of(0, true) },
            Event::Granted { address: ip(20), pool: pool("b"), holder: of(0, false) },
        ];
        assert_eq!(
            told(events),
            [
                "StatefulSet db/pg Moved: moves to 10.0.0.20 of IPPool b for ordinal 0; 10.0.0.2 of IPPool a for ordinal 0 stays while Pods use it"
            ]
        );
        let events =
            vec![Event::Released { address: ip(2), pool: pool("a"), holder: of(0, true), cooling_until: None }];
        assert_eq!(told(events), ["StatefulSet db/pg Released: no longer holds 10.0.0.2 of IPPool a for ordinal 0"]);
    }

    #[test]
    fn a_wait_has_numbers() {
        let id = StatefulSetId { namespace: "db".into(), name: "pg".into() };
        let room = PoolRoom { pool: pool("a"), needed: 5, free: 3, largest_free_run: 2 };
        let waiting = vec![Waiting::Exhausted { family: Family::V4, tried: vec![room] }];
        let events = vec![Event::Waits { object: ObjectId::Reservation(id), item: None, waiting }];
        assert_eq!(
            told(events),
            [
                "StatefulSet db/pg Waiting: waits: no pool has enough IPv4 addresses; IPPool a: 5 needed, 3 free, largest free run 2"
            ]
        );
    }

    #[test]
    fn an_egress_tells_of_its_address_and_its_node() {
        let external = PoolId { kind: PoolKind::ExternalIpPool, name: "e".into() };
        let holder = Holder::Egress { name: "web".into() };
        let placed = |from: Option<&str>, why| Event::Placed {
            address: ip(2),
            egress: "web".into(),
            from: from.map(Into::into),
            to: "b".into(),
            why,
        };
        let granted = Event::Granted { address: ip(2), pool: external, holder };
        let egress = |line: &str| vec![format!("Egress web {line}")];
        assert_eq!(
            told(vec![granted, placed(None, MoveReason::Homeless)]),
            egress("Allocated: holds 10.0.0.2 of ExternalIPPool e, on Node b")
        );
        assert_eq!(
            told(vec![placed(Some("a"), MoveReason::NodeNotReady)]),
            egress("Moved: 10.0.0.2 moved from Node a to Node b: the Node is not ready")
        );
        let unplaced = |why| Event::Unplaced { address: ip(2), egress: "web".into(), from: "a".into(), why };
        assert_eq!(
            told(vec![unplaced(MoveReason::NodeGone)]),
            egress("Unplaced: 10.0.0.2 left Node a and is on none: the Node is gone")
        );
        // Nothing is told of one that is deleted.
        let gone = Event::Deleted(ObjectId::Egress("web".into()));
        assert_eq!(told(vec![gone, unplaced(MoveReason::AddressGone)]), [""; 0]);
    }
}
