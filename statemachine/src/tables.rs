//! The ledger's rows in memory, and the record of which of them an entry touched.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::Name;
use crate::adopt::Conflict;
use crate::command::StatefulSetId;
use crate::row::{
    AdoptionRow, Clock, CoolingRow, EgressRow, GrantRow, Key, NodeRow, OrdinalRow, PlacementRow, PoolId, PoolRow,
    ReservationRow, RetiredRow, Row, Settings, Stamp,
};

/// All rows. Read freely; changed only through its methods, which note what was touched.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    clock: Clock,
    settings: Settings,
    pools: BTreeMap<PoolId, PoolRow>,
    retired: BTreeMap<PoolId, RetiredRow>,
    grants: BTreeMap<IpAddr, GrantRow>,
    cooling: BTreeMap<IpAddr, CoolingRow>,
    reservations: BTreeMap<StatefulSetId, ReservationRow>,
    ordinals: BTreeMap<(StatefulSetId, u32), OrdinalRow>,
    egresses: BTreeMap<Name, EgressRow>,
    placements: BTreeMap<IpAddr, PlacementRow>,
    nodes: BTreeMap<Name, NodeRow>,
    adoption: Option<AdoptionRow>,
    touched: BTreeSet<Key>,
}

macro_rules! table {
    ($all:ident, $put:ident, $remove:ident, $key:ty, $row:ty, $name:literal, |$k:ident| $make:expr) => {
        #[doc = concat!("All ", $name, ", by key.")]
        pub fn $all(&self) -> &BTreeMap<$key, $row> {
            &self.$all
        }

        pub(crate) fn $put(&mut self, key: $key, row: $row) {
            let $k = key.clone();
            self.touched.insert($make);
            self.$all.insert(key, row);
        }

        #[allow(dead_code)]
        pub(crate) fn $remove(&mut self, key: &$key) -> Option<$row> {
            let old = self.$all.remove(key);
            if old.is_some() {
                let $k = key.clone();
                self.touched.insert($make);
            }
            old
        }
    };
}

impl Tables {
    table!(pools, put_pool, remove_pool, PoolId, PoolRow, "pools", |k| Key::Pool(k));
    table!(retired, put_retired, remove_retired, PoolId, RetiredRow, "retired pools", |k| Key::Retired(k));
    table!(grants, put_grant, remove_grant, IpAddr, GrantRow, "grants", |k| Key::Grant(k));
    table!(cooling, put_cooling, remove_cooling, IpAddr, CoolingRow, "cooling addresses", |k| Key::Cooling(k));
    table!(reservations, put_reservation, remove_reservation, StatefulSetId, ReservationRow, "reservations", |k| {
        Key::Reservation(k)
    });
    table!(ordinals, put_ordinal, remove_ordinal, (StatefulSetId, u32), OrdinalRow, "ordinals", |k| {
        Key::Ordinal(k.0, k.1)
    });
    table!(egresses, put_egress, remove_egress, Name, EgressRow, "Egresses", |k| Key::Egress(k));
    table!(placements, put_placement, remove_placement, IpAddr, PlacementRow, "placements", |k| Key::Placement(k));
    table!(nodes, put_node, remove_node, Name, NodeRow, "Nodes", |k| Key::Node(k));

    /// The ledger's position.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    pub(crate) fn put_clock(&mut self, clock: Clock) {
        if clock != self.clock {
            self.clock = clock;
            self.touched.insert(Key::Clock);
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn put_settings(&mut self, settings: Settings) {
        self.settings = settings;
        self.touched.insert(Key::Settings);
    }

    /// How the adoption of what an API already said went, if one was ever begun.
    pub fn adoption(&self) -> Option<&AdoptionRow> {
        self.adoption.as_ref()
    }

    pub(crate) fn put_adoption(&mut self, row: AdoptionRow) {
        self.adoption = Some(row);
        self.touched.insert(Key::Adoption);
    }

    /// Counts a conflict that is not recorded yet, and keeps it whole if it is among the first.
    pub(crate) fn record_conflict(&mut self, conflict: &Conflict, fingerprint: u64, stamp: Stamp) {
        let Some(row) = &mut self.adoption else { return };
        row.stamp = stamp;
        row.conflicts_total += 1;
        if row.conflicts.len() < AdoptionRow::CONFLICTS_MAX {
            row.conflicts.push(conflict.clone());
        } else {
            row.others.insert(fingerprint);
        }
        self.touched.insert(Key::Adoption);
    }

    /// Notes when an address of a pool was last granted, bound or freed.
    pub(crate) fn use_pool(&mut self, id: &PoolId, stamp: Stamp) {
        if let Some(row) = self.pools.get_mut(id) {
            row.used = stamp;
            self.touched.insert(Key::Pool(id.clone()));
        }
    }

    /// Notes when an Egress, or an address or placement of it, last changed.
    pub(crate) fn stamp_egress(&mut self, name: &Name, stamp: Stamp) {
        if let Some(row) = self.egresses.get_mut(name) {
            row.stamp = stamp;
            self.touched.insert(Key::Egress(name.clone()));
        }
    }

    /// Whether a reservation was adopted and never declared: an ordinal of it is kept though nothing wants it.
    pub fn is_adopted(&self, id: &StatefulSetId) -> bool {
        let told = self.reservations().get(id).is_some_and(|row| row.spec.is_none() && !row.uid.is_empty());
        let mut ordinals = self.ordinals().range((id.clone(), 0)..=(id.clone(), u32::MAX));
        told && ordinals.any(|(_, row)| row.pod.is_none() && row.retained_until.is_none())
    }

    /// One row, if it is there. The clock and the settings always are.
    pub fn row(&self, key: &Key) -> Option<Row> {
        match key {
            Key::Clock => Some(Row::Clock(self.clock)),
            Key::Settings => Some(Row::Settings(self.settings.clone())),
            Key::Pool(id) => self.pools.get(id).cloned().map(Row::Pool),
            Key::Retired(id) => self.retired.get(id).cloned().map(Row::Retired),
            Key::Grant(address) => self.grants.get(address).cloned().map(Row::Grant),
            Key::Cooling(address) => self.cooling.get(address).cloned().map(Row::Cooling),
            Key::Reservation(id) => self.reservations.get(id).cloned().map(Row::Reservation),
            Key::Ordinal(id, ordinal) => self.ordinals.get(&(id.clone(), *ordinal)).cloned().map(Row::Ordinal),
            Key::Egress(name) => self.egresses.get(name).cloned().map(Row::Egress),
            Key::Placement(address) => self.placements.get(address).cloned().map(Row::Placement),
            Key::Node(name) => self.nodes.get(name).cloned().map(Row::Node),
            Key::Adoption => self.adoption.clone().map(Row::Adoption),
        }
    }

    /// Every row, in the order of the keys' variants.
    pub fn rows(&self) -> impl Iterator<Item = (Key, Row)> + '_ {
        let position = [(Key::Clock, Row::Clock(self.clock)), (Key::Settings, Row::Settings(self.settings.clone()))];
        position
            .into_iter()
            .chain(self.pools.iter().map(|(k, r)| (Key::Pool(k.clone()), Row::Pool(r.clone()))))
            .chain(self.retired.iter().map(|(k, r)| (Key::Retired(k.clone()), Row::Retired(r.clone()))))
            .chain(self.grants.iter().map(|(k, r)| (Key::Grant(*k), Row::Grant(r.clone()))))
            .chain(self.cooling.iter().map(|(k, r)| (Key::Cooling(*k), Row::Cooling(r.clone()))))
            .chain(self.reservations.iter().map(|(k, r)| (Key::Reservation(k.clone()), Row::Reservation(r.clone()))))
            .chain(self.ordinals.iter().map(|(k, r)| (Key::Ordinal(k.0.clone(), k.1), Row::Ordinal(r.clone()))))
            .chain(self.egresses.iter().map(|(k, r)| (Key::Egress(k.clone()), Row::Egress(r.clone()))))
            .chain(self.placements.iter().map(|(k, r)| (Key::Placement(*k), Row::Placement(r.clone()))))
            .chain(self.nodes.iter().map(|(k, r)| (Key::Node(k.clone()), Row::Node(r.clone()))))
            .chain(self.adoption.iter().map(|r| (Key::Adoption, Row::Adoption(r.clone()))))
    }

    /// Puts a row back as it was stored. `false` if key and row do not belong together.
    #[must_use]
    pub(crate) fn restore(&mut self, key: Key, row: Row) -> bool {
        match (key, row) {
            (Key::Clock, Row::Clock(row)) => self.clock = row,
            (Key::Settings, Row::Settings(row)) => self.settings = row,
            (Key::Pool(key), Row::Pool(row)) => drop(self.pools.insert(key, row)),
            (Key::Retired(key), Row::Retired(row)) => drop(self.retired.insert(key, row)),
            (Key::Grant(key), Row::Grant(row)) => drop(self.grants.insert(key, row)),
            (Key::Cooling(key), Row::Cooling(row)) => drop(self.cooling.insert(key, row)),
            (Key::Reservation(key), Row::Reservation(row)) => {
                drop(self.reservations.insert(key, row));
            }
            (Key::Ordinal(id, ordinal), Row::Ordinal(row)) => {
                drop(self.ordinals.insert((id, ordinal), row));
            }
            (Key::Egress(key), Row::Egress(row)) => drop(self.egresses.insert(key, row)),
            (Key::Placement(key), Row::Placement(row)) => drop(self.placements.insert(key, row)),
            (Key::Node(key), Row::Node(row)) => drop(self.nodes.insert(key, row)),
            (Key::Adoption, Row::Adoption(row)) => self.adoption = Some(row),
            _ => return false,
        }
        true
    }

    /// The keys touched since the last call.
    pub(crate) fn take_touched(&mut self) -> BTreeSet<Key> {
        std::mem::take(&mut self.touched)
    }
}
