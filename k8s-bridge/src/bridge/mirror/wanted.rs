//! What the ledger wants an object's status to say.

use std::net::IpAddr;

use holdfast_statemachine::command::PutPool;
use holdfast_statemachine::row::{EgressRow, PoolRow};
use holdfast_statemachine::{Action, Name, PoolId, PoolKind};
use serde::Serialize;
use serde_json::Value;

use super::addresses::{self, Spec};
use super::cut;
use super::status::{self, Observed};
use crate::bridge::key::Key;
use crate::bridge::office::Office;
use crate::bridge::watched::Live;
use crate::export::{self, IpAddressState, IpPoolStatus};
use crate::ledger::Ledger;
use crate::objects::{Kind, Object};
use crate::translate;

/// Entries read at once: entries of the log wait meanwhile.
const CHUNK: usize = 1_000;
/// How often a pool that changes while it is read is begun anew, before it is read at once.
const ATTEMPTS: usize = 2;

/// A status.
#[derive(Debug)]
pub struct Wanted {
    /// It, but for what is completed from the object.
    pub status: Value,
    /// The last change of the rows that it shows; `None` if there are none.
    pub index: Option<u64>,
    /// Which generation it tells of.
    pub observed: Observed,
}

/// What is wanted; `None` if the ledger knows nothing of this object and has not refused it.
pub fn wanted<L: Ledger>(office: &Office<L>, key: &Key, live: &Live, now: &str) -> Option<Wanted> {
    let rows = match key.kind {
        Kind::IpPool => ip_pool(office, key, live),
        Kind::ExternalIpPool => external_ip_pool(office, key, live),
        Kind::Egress => egress(office, key, live),
        _ => None,
    };
    let Some(mut refusal) = office.refusals.get(key) else { return rows };
    let mut wanted =
        rows.unwrap_or_else(|| Wanted { status: live.status.clone(), index: None, observed: Observed::AsBefore });
    if wanted.index.is_some() {
        refusal.message.push_str("; what was last accepted stays in force");
    }
    status::refuse(&mut wanted.status, key.kind, &refusal, now);
    Some(wanted)
}

fn observed(live: &Live, in_step: bool) -> Observed {
    live.generation.filter(|_| in_step).map_or(Observed::AsBefore, Observed::Generation)
}

fn value(status: &impl Serialize) -> Value {
    serde_json::to_value(status).expect("numbers, texts and lists of them are JSON")
}

/// What the object asks for.
fn asked(live: &Live) -> Option<Action> {
    translate::translate(live.object.as_ref().ok()?, None).ok()?.action
}

pub fn asked_pool(live: &Live) -> Option<PutPool> {
    match asked(live)? {
        Action::PutPool(put) => Some(put),
        _ => None,
    }
}

/// The last change of what the status of a pool shows.
fn index(row: &PoolRow) -> u64 {
    row.stamp.index.max(row.used.index)
}

fn external_ip_pool<L: Ledger>(office: &Office<L>, key: &Key, live: &Live) -> Option<Wanted> {
    let id = PoolId { kind: PoolKind::ExternalIpPool, name: key.name.clone() };
    let asked = asked_pool(live);
    let (status, index, in_step) = office.ledger.read(|ledger| {
        let row = ledger.tables().pools().get(&id).filter(|row| row.wanted.uid == live.uid)?;
        let status = export::external_ip_pool_status(ledger, &id, row, &office.cluster);
        Some((status, index(row), asked.as_ref() == Some(&row.wanted)))
    })?;
    Some(Wanted { status: value(&status), index: Some(index), observed: observed(live, in_step) })
}

fn ip_pool<L: Ledger>(office: &Office<L>, key: &Key, live: &Live) -> Option<Wanted> {
    let id = PoolId { kind: PoolKind::IpPool, name: key.name.clone() };
    let asked = asked_pool(live);
    for attempt in 0..=ATTEMPTS {
        let chunk = if attempt < ATTEMPTS { CHUNK } else { usize::MAX };
        match read_ip_pool(office, &id, &live.uid, asked.as_ref(), chunk) {
            Read::Whole(read) => {
                let Whole { mut status, index, in_step } = *read;
                cut::cut(&mut status, cut::LARGEST).expect("numbers, texts and lists of them are JSON");
                return Some(Wanted { status: value(&status), index: Some(index), observed: observed(live, in_step) });
            }
            Read::Unknown => return None,
            Read::Changed => {}
        }
    }
    None
}

enum Read {
    Whole(Box<Whole>),
    /// There is no such pool.
    Unknown,
    /// It changed meanwhile.
    Changed,
}

struct Whole {
    status: IpPoolStatus,
    index: u64,
    in_step: bool,
}

/// Reads a pool in pieces, between which entries may be applied; all pieces are of one state.
fn read_ip_pool<L: Ledger>(office: &Office<L>, id: &PoolId, uid: &Name, asked: Option<&PutPool>, chunk: usize) -> Read {
    let mut all: Vec<IpAddressState> = Vec::new();
    let mut first_index = None;
    loop {
        let after: Option<IpAddr> = all.last().map(|entry| entry.ip_address);
        let read = office.ledger.read(|ledger| {
            let row = ledger.tables().pools().get(id).filter(|row| row.wanted.uid == *uid)?;
            let part = export::pool_entries(ledger, row, after, chunk);
            let whole = (part.len() < chunk).then(|| Whole {
                status: export::ip_pool_status(ledger, id, row, &office.cluster, Vec::new()),
                index: index(row),
                in_step: asked == Some(&row.wanted),
            });
            Some((index(row), part, whole))
        });
        let Some((index, mut part, whole)) = read else { return Read::Unknown };
        if *first_index.get_or_insert(index) != index {
            return Read::Changed;
        }
        all.append(&mut part);
        if let Some(mut whole) = whole {
            whole.status.ip_addresses = all;
            return Read::Whole(Box::new(whole));
        }
    }
}

/// The row of an Egress, if it is that of this very object.
pub fn egress_row<L: Ledger>(office: &Office<L>, key: &Key, live: &Live) -> Option<EgressRow> {
    office.ledger.read(|ledger| ledger.tables().egresses().get(&key.name).filter(|row| row.uid == live.uid).cloned())
}

fn egress<L: Ledger>(office: &Office<L>, key: &Key, live: &Live) -> Option<Wanted> {
    let (row, status) = office.ledger.read(|ledger| {
        let row = ledger.tables().egresses().get(&key.name).filter(|row| row.uid == live.uid)?;
        Some((row.clone(), export::egress_status(ledger, row, &office.cluster)))
    })?;
    let in_step = match (&live.object, asked(live)) {
        (Ok(Object::Egress(egress)), Some(Action::PutEgress(put))) => {
            let ours = addresses::chosen_by_us(&egress.spec, &live.managers);
            put.rest == row.rest && addresses::compare(&egress.spec, ours, &row) == Spec::Right
        }
        _ => false,
    };
    Some(Wanted { status: value(&status), index: Some(row.stamp.index), observed: observed(live, in_step) })
}
