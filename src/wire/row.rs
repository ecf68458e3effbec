//! Rows, each with its key.

use std::net::IpAddr;

use holdfast_api::v1;
use holdfast_statemachine::command::{PutPool, ReserveSpec, Retention, StatefulSetId};
use holdfast_statemachine::row::{
    BoundPod, Clock, CoolingRow, CreationKey, EgressItemRow, EgressRow, GrantRow, NodeRow, OrdinalRow, PlacementRow,
    Policy, PoolRow, ReservationRow, RetiredRow, Settings,
};
use holdfast_statemachine::{Key, Name, PoolId, Row, Source};

use super::{Invalid, Wire, Within, address, field, label_messages, labels, list, messages, name, name_or_empty};
use super::{names, optional, optional_address, optional_name, optional_string, required, string, strings};

/// A key and its row do not belong together: no message says that.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the row of {0:?} is of another kind")]
pub struct Mismatch(pub Key);

/// The message of one row.
pub fn row_message(key: &Key, row: &Row) -> Result<v1::Row, Mismatch> {
    use v1::row::Row as Kind;
    let kind = match (key, row) {
        (Key::Clock, Row::Clock(row)) => Kind::Clock(row.to_message()),
        (Key::Settings, Row::Settings(row)) => Kind::Settings(row.to_message()),
        (Key::Pool(_), Row::Pool(row)) => Kind::Pool(row.to_message()),
        (Key::Retired(id), Row::Retired(row)) => Kind::Retired(retired_message(id, row)),
        (Key::Grant(address), Row::Grant(row)) => Kind::Grant(grant_message(*address, row)),
        (Key::Cooling(address), Row::Cooling(row)) => Kind::Cooling(cooling_message(*address, row)),
        (Key::Reservation(id), Row::Reservation(row)) => Kind::Reservation(reservation_message(id, row)),
        (Key::Ordinal(id, ordinal), Row::Ordinal(row)) => Kind::Ordinal(ordinal_message(id, *ordinal, row)),
        (Key::Egress(name), Row::Egress(row)) => Kind::Egress(egress_message(name, row)),
        (Key::Placement(address), Row::Placement(row)) => Kind::Placement(placement_message(*address, row)),
        (Key::Node(name), Row::Node(row)) => Kind::Node(node_message(name, row)),
        (Key::Adoption, Row::Adoption(row)) => Kind::Adoption(super::adopt::adoption_message(row)),
        _ => return Err(Mismatch(key.clone())),
    };
    Ok(v1::Row { row: Some(kind) })
}

/// What the message of a row says.
pub fn read_row(message: v1::Row) -> Result<(Key, Row), Invalid> {
    use v1::row::Row as Kind;
    match required("row", message.row)? {
        Kind::Clock(it) => Ok((Key::Clock, Row::Clock(Clock::from_message(it).within("clock")?))),
        Kind::Settings(it) => Ok((Key::Settings, Row::Settings(Settings::from_message(it).within("settings")?))),
        Kind::Pool(it) => {
            let row = PoolRow::from_message(it).within("pool")?;
            Ok((Key::Pool(row.wanted.pool.clone()), Row::Pool(row)))
        }
        Kind::Retired(it) => read_retired(it).within("retired"),
        Kind::Grant(it) => read_grant(it).within("grant"),
        Kind::Cooling(it) => read_cooling(it).within("cooling"),
        Kind::Reservation(it) => read_reservation(it).within("reservation"),
        Kind::Ordinal(it) => read_ordinal(it).within("ordinal"),
        Kind::Egress(it) => read_egress(it).within("egress"),
        Kind::Placement(it) => read_placement(it).within("placement"),
        Kind::Node(it) => read_node(it).within("node"),
        Kind::Adoption(it) => super::adopt::read_adoption(it).within("adoption"),
    }
}

impl Wire for Clock {
    type Message = v1::Clock;

    fn to_message(&self) -> v1::Clock {
        v1::Clock { revision: self.revision, time_ms: self.time, placements_revision: self.placements }
    }

    fn from_message(message: v1::Clock) -> Result<Clock, Invalid> {
        Ok(Clock { revision: message.revision, time: message.time_ms, placements: message.placements_revision })
    }
}

impl Wire for Settings {
    type Message = v1::Settings;

    fn to_message(&self) -> v1::Settings {
        v1::Settings {
            policy: self.policy.to_message(),
            default_capacity: self.default_capacity,
            history_rows: self.history_rows,
            history_age_ms: self.history_age,
        }
    }

    fn from_message(message: v1::Settings) -> Result<Settings, Invalid> {
        Ok(Settings {
            policy: Policy::from_message(message.policy).within("policy")?,
            default_capacity: message.default_capacity,
            history_rows: message.history_rows,
            history_age: message.history_age_ms,
        })
    }
}

impl Wire for PoolRow {
    type Message = v1::PoolRow;

    fn to_message(&self) -> v1::PoolRow {
        v1::PoolRow {
            source: self.source.to_message(),
            wanted: Some(self.wanted.to_message()),
            ranges: messages(&self.ranges),
            waiting: self.waiting.as_ref().map(Wire::to_message),
            stamp: Some(self.stamp.to_message()),
            used: Some(self.used.to_message()),
        }
    }

    fn from_message(message: v1::PoolRow) -> Result<PoolRow, Invalid> {
        Ok(PoolRow {
            source: Source::from_message(message.source).within("source")?,
            wanted: field::<PutPool>("wanted", message.wanted)?,
            ranges: list("ranges", message.ranges)?,
            waiting: optional("waiting", message.waiting)?,
            stamp: field("stamp", message.stamp)?,
            used: field("used", message.used)?,
        })
    }
}

/// The message of a retired pool.
pub fn retired_message(id: &PoolId, row: &RetiredRow) -> v1::RetiredRow {
    v1::RetiredRow {
        pool: Some(id.to_message()),
        ranges: messages(&row.ranges),
        cool_down_ms: row.cool_down,
        stamp: Some(row.stamp.to_message()),
    }
}

fn read_retired(message: v1::RetiredRow) -> Result<(Key, Row), Invalid> {
    let row = RetiredRow {
        ranges: list("ranges", message.ranges)?,
        cool_down: message.cool_down_ms,
        stamp: field("stamp", message.stamp)?,
    };
    Ok((Key::Retired(field("pool", message.pool)?), Row::Retired(row)))
}

/// The message of an address held.
pub fn grant_message(address: IpAddr, row: &GrantRow) -> v1::GrantRow {
    v1::GrantRow {
        address: address.to_string(),
        pool: Some(row.pool.to_message()),
        holder: Some(row.holder.to_message()),
        stamp: Some(row.stamp.to_message()),
    }
}

fn read_grant(message: v1::GrantRow) -> Result<(Key, Row), Invalid> {
    let row = GrantRow {
        pool: field("pool", message.pool)?,
        holder: field("holder", message.holder)?,
        stamp: field("stamp", message.stamp)?,
    };
    Ok((Key::Grant(address("address", &message.address)?), Row::Grant(row)))
}

/// The message of a cooling address.
pub fn cooling_message(address: IpAddr, row: &CoolingRow) -> v1::CoolingRow {
    let former = Some(row.former.to_message());
    v1::CoolingRow { address: address.to_string(), until_ms: row.until, former }
}

fn read_cooling(message: v1::CoolingRow) -> Result<(Key, Row), Invalid> {
    let row = CoolingRow { until: message.until_ms, former: field("former", message.former)? };
    Ok((Key::Cooling(address("address", &message.address)?), Row::Cooling(row)))
}

/// The message of a reservation.
pub fn reservation_message(id: &StatefulSetId, row: &ReservationRow) -> v1::ReservationRow {
    v1::ReservationRow {
        id: Some(id.to_message()),
        source: row.source.to_message(),
        uid: string(&row.uid),
        spec: row.spec.as_ref().map(Wire::to_message),
        when_deleted: Some(row.when_deleted.to_message()),
        waiting: row.waiting.as_ref().map(Wire::to_message),
        stamp: Some(row.stamp.to_message()),
    }
}

fn read_reservation(message: v1::ReservationRow) -> Result<(Key, Row), Invalid> {
    let row = ReservationRow {
        source: Source::from_message(message.source).within("source")?,
        uid: name_or_empty("uid", message.uid)?,
        spec: optional::<ReserveSpec>("spec", message.spec)?,
        when_deleted: field::<Retention>("when_deleted", message.when_deleted)?,
        waiting: optional("waiting", message.waiting)?,
        stamp: field("stamp", message.stamp)?,
    };
    Ok((Key::Reservation(field("id", message.id)?), Row::Reservation(row)))
}

impl Wire for BoundPod {
    type Message = v1::BoundPod;

    fn to_message(&self) -> v1::BoundPod {
        v1::BoundPod { pod: Some(self.pod.to_message()), pools: strings(&self.pools), source: self.source.to_message() }
    }

    fn from_message(message: v1::BoundPod) -> Result<BoundPod, Invalid> {
        Ok(BoundPod {
            pod: field("pod", message.pod)?,
            pools: names("pools", message.pools)?,
            source: Source::from_message(message.source).within("source")?,
        })
    }
}

fn ordinal_message(id: &StatefulSetId, ordinal: u32, row: &OrdinalRow) -> v1::OrdinalRow {
    v1::OrdinalRow {
        id: Some(id.to_message()),
        ordinal,
        pod: row.pod.as_ref().map(Wire::to_message),
        retained_until_ms: row.retained_until,
        stamp: Some(row.stamp.to_message()),
        left: row.left.as_ref().map(Wire::to_message),
    }
}

fn read_ordinal(message: v1::OrdinalRow) -> Result<(Key, Row), Invalid> {
    let row = OrdinalRow {
        pod: optional("pod", message.pod)?,
        retained_until: message.retained_until_ms,
        stamp: field("stamp", message.stamp)?,
        left: optional("left", message.left)?,
    };
    Ok((Key::Ordinal(field("id", message.id)?, message.ordinal), Row::Ordinal(row)))
}

/// The message of an Egress.
pub fn egress_message(name: &Name, row: &EgressRow) -> v1::EgressRow {
    v1::EgressRow {
        name: string(name),
        source: row.source.to_message(),
        uid: string(&row.uid),
        created: Some(v1::CreationKey { seconds: row.created.seconds, revision: row.created.revision }),
        plural: row.plural,
        items: messages(&row.items),
        stamp: Some(row.stamp.to_message()),
        rest: string(&row.rest),
    }
}

fn read_egress(message: v1::EgressRow) -> Result<(Key, Row), Invalid> {
    let name = name("name", message.name)?;
    let created = required("created", message.created)?;
    let row = EgressRow {
        source: Source::from_message(message.source).within("source")?,
        uid: name_or_empty("uid", message.uid)?,
        created: CreationKey { seconds: created.seconds, revision: created.revision, name: name.clone() },
        plural: message.plural,
        items: list("items", message.items)?,
        rest: Name::from(message.rest),
        stamp: field("stamp", message.stamp)?,
    };
    Ok((Key::Egress(name), Row::Egress(row)))
}

impl Wire for EgressItemRow {
    type Message = v1::EgressItemRow;

    fn to_message(&self) -> v1::EgressItemRow {
        v1::EgressItemRow {
            pool: optional_string(self.pool.as_ref()),
            asked: self.asked.map(|address| address.to_string()),
            chosen: self.chosen.map(|address| address.to_string()),
            waiting: self.waiting.as_ref().map(Wire::to_message),
        }
    }

    fn from_message(message: v1::EgressItemRow) -> Result<EgressItemRow, Invalid> {
        Ok(EgressItemRow {
            pool: optional_name("pool", message.pool)?,
            asked: optional_address("asked", message.asked.as_ref())?,
            chosen: optional_address("chosen", message.chosen.as_ref())?,
            waiting: optional("waiting", message.waiting)?,
        })
    }
}

/// The message of a placement.
pub fn placement_message(address: IpAddr, row: &PlacementRow) -> v1::PlacementRow {
    v1::PlacementRow {
        address: address.to_string(),
        egress: string(&row.egress),
        node: string(&row.node),
        pinned: row.pinned,
        stamp: Some(row.stamp.to_message()),
    }
}

fn read_placement(message: v1::PlacementRow) -> Result<(Key, Row), Invalid> {
    let row = PlacementRow {
        egress: name("egress", message.egress)?,
        node: name("node", message.node)?,
        pinned: message.pinned,
        stamp: field("stamp", message.stamp)?,
    };
    Ok((Key::Placement(address("address", &message.address)?), Row::Placement(row)))
}

/// The message of a Node.
pub fn node_message(name: &Name, row: &NodeRow) -> v1::NodeRow {
    v1::NodeRow {
        name: string(name),
        source: row.source.to_message(),
        uid: string(&row.uid),
        labels: label_messages(&row.labels),
        ready: row.ready,
        capacity: row.capacity,
        drained: row.drained,
        stamp: Some(row.stamp.to_message()),
    }
}

fn read_node(message: v1::NodeRow) -> Result<(Key, Row), Invalid> {
    let row = NodeRow {
        source: Source::from_message(message.source).within("source")?,
        uid: name_or_empty("uid", message.uid)?,
        labels: labels("labels", message.labels)?,
        ready: message.ready,
        capacity: message.capacity,
        drained: message.drained,
        stamp: field("stamp", message.stamp)?,
    };
    Ok((Key::Node(name("name", message.name)?), Row::Node(row)))
}
