//! The invariants: of the whole ledger for `holdfast check` and the tests, of touched rows after every entry in debug builds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use super::Ledger;
use super::plan::wanted;
use crate::Name;
use crate::command::{Retention, StatefulSetId};
use crate::row::{AdoptionRow, EgressItemRow, Holder, PoolId};
#[cfg(debug_assertions)]
use crate::{Family, Key};

/// Something that must never be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which invariant, by its name in ARCHITECTURE.md.
    pub invariant: &'static str,
    /// What breaks it.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

impl Ledger {
    /// Every violated invariant; none in a sound ledger. Reads all rows; costs as much as rebuilding from them.
    pub fn check(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        for key in self.tables.grants().keys() {
            found.extend(self.check_grant(*key));
        }
        for address in self.tables.placements().keys() {
            found.extend(self.check_placement(*address));
        }
        for (id, ordinal) in self.tables.ordinals().keys() {
            found.extend(self.check_ordinal(id, *ordinal));
        }
        self.check_counts(&mut found);
        self.check_capacity(&mut found);
        self.check_egresses(&mut found);
        self.check_overlap(&mut found);
        found.extend(self.check_conflicts());
        let waiting = self.unmet().into_iter();
        found.extend(waiting.map(|what| Violation { invariant: "nothing waits that could be met", what }));
        let scheduler = self.scheduler.check().into_iter();
        found.extend(scheduler.map(|what| Violation { invariant: "the scheduler agrees with itself", what }));
        self.check_derived(&mut found);
        found
    }

    fn check_conflicts(&self) -> Option<Violation> {
        let row = self.tables.adoption()?;
        let (whole, others) = (row.conflicts.len() as u64, row.others.len() as u64);
        let counted = if row.complete { others == 0 } else { row.conflicts_total == whole + others };
        let what = format!("{} conflicts, {whole} kept whole and {others} not", row.conflicts_total);
        let right = counted && whole == row.conflicts_total.min(AdoptionRow::CONFLICTS_MAX as u64);
        (!right).then_some(Violation { invariant: "every conflict is counted once", what })
    }

    fn check_grant(&self, address: IpAddr) -> Option<Violation> {
        let grant = self.tables.grants().get(&address)?;
        let retired = self.retired_held.get(&grant.pool).is_some_and(|held| held.contains(&address));
        let live = self.is_live(&grant.pool, address);
        let holders = self.spaces.values().filter(|space| space.is_held(address)).count();
        if (live || retired) && holders == usize::from(live) {
            return None;
        }
        let what = format!("{address} of {}, held by {}", grant.pool, grant.holder);
        Some(Violation { invariant: "every held address lies in its pool", what })
    }

    fn check_placement(&self, address: IpAddr) -> Option<Violation> {
        let row = self.tables.placements().get(&address)?;
        let agrees = self.scheduler.placement(address) == Some((row.node.clone(), row.pinned));
        let held = self.tables.grants().get(&address).map(|grant| &grant.holder)
            == Some(&Holder::Egress { name: row.egress.clone() });
        let what = format!("{address} of Egress {} on Node {}", row.egress, row.node);
        (!agrees || !held).then_some(Violation { invariant: "an Egress address is on at most one Node", what })
    }

    /// What a former StatefulSet left is not wanted, and without a Pod it is kept for a time only.
    fn check_ordinal(&self, id: &StatefulSetId, ordinal: u32) -> Option<Violation> {
        let row = self.tables.ordinals().get(&(id.clone(), ordinal))?;
        let left = row.left?;
        let spec = self.tables.reservations().get(id).and_then(|row| row.spec.as_ref());
        let wanted = spec.is_some_and(|spec| wanted(spec).contains(&ordinal));
        let ends = left != Retention::Retain && (row.pod.is_some() || row.retained_until.is_some());
        let what = format!("ordinal {ordinal} of {id}: {row:?}");
        (wanted || !ends).then_some(Violation { invariant: "what a former StatefulSet left comes to an end", what })
    }

    /// used + free = total, counted from rows.
    fn check_counts(&self, found: &mut Vec<Violation>) {
        for (pool, row) in self.tables.pools() {
            let total = row.ranges.iter().fold(0u128, |sum, range| sum.saturating_add(range.len()));
            let held = row.ranges.iter().flat_map(|range| self.tables.grants().range(range.first()..=range.last()));
            let used = held.count() as u128;
            let usage = self.usage(pool).unwrap_or_default();
            if usage.total != total || usage.used != used || usage.free != total - used {
                let what = format!("{pool}: {usage:?}, but {used} of {total} are held");
                found.push(Violation { invariant: "used + free = total", what });
            }
        }
    }

    fn check_capacity(&self, found: &mut Vec<Violation>) {
        let mut loads: BTreeMap<&Name, u32> = BTreeMap::new();
        for row in self.tables.placements().values() {
            *loads.entry(&row.node).or_default() += 1;
        }
        for (node, load) in loads {
            let default = self.tables.settings().default_capacity;
            let capacity = self.tables.nodes().get(node).map(|row| row.capacity.unwrap_or(default));
            if capacity.is_none_or(|capacity| load > capacity) {
                let what = format!("Node {node} carries {load} of {capacity:?}");
                found.push(Violation { invariant: "a Node never carries more than its capacity", what });
            }
        }
    }

    fn check_egresses(&self, found: &mut Vec<Violation>) {
        for (name, row) in self.tables.egresses() {
            for address in row.items.iter().filter_map(EgressItemRow::granted) {
                let holder = self.tables.grants().get(&address).map(|grant| &grant.holder);
                if holder != Some(&Holder::Egress { name: name.clone() }) {
                    let what = format!("Egress {name} says {address}, which is held by {holder:?}");
                    found.push(Violation { invariant: "an address has at most one holder", what });
                }
            }
        }
    }

    fn check_overlap(&self, found: &mut Vec<Violation>) {
        let pools = self.tables.pools().iter().map(|(id, row)| (id, &row.ranges));
        let retired = self.tables.retired().iter().map(|(id, row)| (id, &row.ranges));
        let mut all: Vec<_> =
            pools.chain(retired).flat_map(|(id, ranges)| ranges.iter().map(move |range| (*range, id))).collect();
        all.sort();
        for pair in all.windows(2) {
            if let [(a, of), (b, with)] = pair
                && a.intersection(*b).is_some()
            {
                let what = format!("{a} of {of} and {b} of {with}");
                found.push(Violation { invariant: "no two pools overlap", what });
            }
        }
    }

    /// What is kept beside the rows is what they give.
    fn check_derived(&self, found: &mut Vec<Violation>) {
        let mut differs = |what: String| {
            found.push(Violation { invariant: "what is derived agrees with the rows", what });
        };
        let again = match Ledger::from_rows(self.tables.rows()) {
            Ok(again) => again,
            Err(bad) => return differs(bad.to_string()),
        };
        let pools: BTreeSet<&PoolId> = self.spaces.keys().chain(again.spaces.keys()).collect();
        for pool in pools {
            if self.usage(pool) != again.usage(pool) {
                differs(format!("{pool}: {:?}, from rows {:?}", self.usage(pool), again.usage(pool)));
            }
        }
        for id in self.tables.reservations().keys() {
            if self.holdings(id) != again.holdings(id) || self.headroom(id) != again.headroom(id) {
                differs(format!("what reservation {id} holds"));
            }
        }
        if self.deadlines != again.deadlines {
            differs(format!("deadlines: {:?}, from rows {:?}", self.deadlines, again.deadlines));
        }
        if self.bound_by_uid != again.bound_by_uid || self.bound_by_name != again.bound_by_name {
            differs("where Pods are bound".to_owned());
        }
        if self.owned != again.owned || self.cooling_of != again.cooling_of {
            differs("what owners hold, or what cools for them".to_owned());
        }
        if !self.waiters.order().eq(again.waiters.order()) {
            differs("who waits, and since when".to_owned());
        }
        if self.scheduler.homeless() != again.scheduler.homeless() {
            differs("which Egress addresses are homeless".to_owned());
        }
        if self.reservations_naming != again.reservations_naming || self.egresses_naming != again.egresses_naming {
            differs("who names which pool".to_owned());
        }
    }

    /// The invariants of the rows that an entry touched, cheaply.
    #[cfg(debug_assertions)]
    pub(super) fn assert_touched(&self, touched: &BTreeSet<Key>) {
        for key in touched {
            let violation = match key {
                Key::Grant(address) => self.check_grant(*address),
                Key::Placement(address) => self.check_placement(*address),
                Key::Ordinal(id, ordinal) => {
                    let held = self.holdings(id);
                    let twice = Family::ALL.iter().any(|family| {
                        let current = |holding: &&super::Holding| {
                            holding.ordinal == *ordinal && !holding.former && Family::of(holding.address) == *family
                        };
                        held.iter().filter(current).count() > 1
                    });
                    let what = format!("ordinal {ordinal} of {id}");
                    let twice = twice.then_some(Violation { invariant: "an ordinal has one current address", what });
                    twice.or_else(|| self.check_ordinal(id, *ordinal))
                }
                _ => None,
            };
            debug_assert!(violation.is_none(), "{}", violation.map(|v| v.to_string()).unwrap_or_default());
        }
    }
}
