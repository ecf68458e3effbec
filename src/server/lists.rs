//! Lists, in parts. A token is the key of the last item shown, its pieces separated by a newline, which no name
//! has.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::Bound;

use holdfast_api::v1;
use holdfast_statemachine::command::StatefulSetId;
use holdfast_statemachine::row::{GrantRow, Holder};
use holdfast_statemachine::{Ledger, Name, PoolId, PoolKind};

use super::page::Part;
use super::views;
use crate::wire::row::grant_message;
use crate::wire::{self, Invalid, Wire, Within};

/// Items, and the token of the next part.
pub type Listed<T> = (Vec<T>, String);

fn behind<K>(after: Option<K>) -> (Bound<K>, Bound<K>) {
    (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded)
}

fn name_token(part: &Part) -> Option<Name> {
    (!part.after.is_empty()).then(|| Name::from(part.after.as_str()))
}

/// A token that is two pieces.
fn pair_token(part: &Part) -> Result<Option<(&str, &str)>, Invalid> {
    if part.after.is_empty() {
        return Ok(None);
    }
    part.after.split_once('\n').map(Some).ok_or_else(|| part.bad_token())
}

/// A kind of pool that may be left open.
fn optional_kind(field: &str, kind: i32) -> Result<Option<PoolKind>, Invalid> {
    if kind == i32::from(v1::PoolKind::Unspecified) {
        return Ok(None);
    }
    PoolKind::from_message(kind).map(Some).within(field)
}

/// Which pools.
#[derive(Debug)]
pub struct Pools {
    part: Part,
    after: Option<PoolId>,
    kind: Option<PoolKind>,
}

impl Pools {
    /// What a request asks for.
    pub fn of(page: Option<v1::Page>, kind: i32) -> Result<Pools, Invalid> {
        let part = Part::of(page)?;
        let after = match pair_token(&part)? {
            None => None,
            Some(("1", name)) => Some(PoolId { kind: PoolKind::IpPool, name: Name::from(name) }),
            Some(("2", name)) => Some(PoolId { kind: PoolKind::ExternalIpPool, name: Name::from(name) }),
            Some(_) => return Err(part.bad_token()),
        };
        let kind = optional_kind("kind", kind)?;
        Ok(Pools { part, after, kind })
    }

    /// Those, by kind and name.
    pub fn list(&self, ledger: &Ledger) -> Listed<v1::Pool> {
        let tables = ledger.tables();
        let ids: BTreeSet<&PoolId> = tables.pools().keys().chain(tables.retired().keys()).collect();
        let ids = ids.into_iter().filter(|id| self.after.as_ref().is_none_or(|after| *id > after));
        let ids = ids.filter(|id| self.kind.is_none_or(|kind| id.kind == kind));
        let token = |id: &PoolId| format!("{}\n{}", id.kind.to_message(), id.name);
        self.part.fill(ids.filter_map(|id| Some((token(id), views::pool(ledger, id)?))))
    }
}

/// Which reservations.
#[derive(Debug)]
pub struct Reservations {
    part: Part,
    after: Option<StatefulSetId>,
    namespace: String,
}

impl Reservations {
    /// What a request asks for.
    pub fn of(page: Option<v1::Page>, namespace: String) -> Result<Reservations, Invalid> {
        let part = Part::of(page)?;
        let after = pair_token(&part)?
            .map(|(namespace, name)| StatefulSetId { namespace: Name::from(namespace), name: Name::from(name) });
        Ok(Reservations { part, after, namespace })
    }

    /// Those, by namespace and name.
    pub fn list(&self, ledger: &Ledger) -> Listed<v1::Reservation> {
        let rows = ledger.tables().reservations().range(behind(self.after.clone()));
        let rows = rows.filter(|(id, _)| self.namespace.is_empty() || *id.namespace == *self.namespace);
        let token = |id: &StatefulSetId| format!("{}\n{}", id.namespace, id.name);
        self.part.fill(rows.map(|(id, row)| (token(id), views::reservation(ledger, id, row))))
    }
}

/// Which Egresses.
#[derive(Debug)]
pub struct Egresses {
    part: Part,
    node: String,
    pool: String,
}

impl Egresses {
    /// What a request asks for.
    pub fn of(page: Option<v1::Page>, node: String, pool: String) -> Result<Egresses, Invalid> {
        Ok(Egresses { part: Part::of(page)?, node, pool })
    }

    /// Those, by name.
    pub fn list(&self, ledger: &Ledger) -> Listed<v1::Egress> {
        let rows = ledger.tables().egresses().range(behind(name_token(&self.part)));
        let named = |pool: &Option<Name>| pool.as_deref() == Some(self.pool.as_str());
        let rows = rows.filter(|(_, row)| self.pool.is_empty() || row.items.iter().any(|item| named(&item.pool)));
        let shown = rows.map(|(name, row)| (name.to_string(), views::egress(ledger, name, row)));
        let here = |egress: &v1::Egress| {
            egress.addresses.iter().any(|address| address.node.as_deref() == Some(self.node.as_str()))
        };
        self.part.fill(shown.filter(|(_, egress)| self.node.is_empty() || here(egress)))
    }
}

/// Nodes, by name.
pub fn nodes(ledger: &Ledger, part: &Part) -> Listed<v1::Node> {
    let rows = ledger.tables().nodes().range(behind(name_token(part)));
    part.fill(rows.map(|(name, row)| (name.to_string(), views::node(ledger, name, row))))
}

/// Whose addresses.
#[derive(Debug)]
enum Whose {
    Named(Name),
    Pod(Name, Name),
    Reservation(StatefulSetId),
    Egress(Name),
    Observed(Name),
}

impl Whose {
    fn of(message: v1::HolderRef) -> Result<Whose, Invalid> {
        use v1::holder_ref::Holder as Kind;
        Ok(match wire::required("holder", message.holder)? {
            Kind::Named(name) => Whose::Named(wire::name("named", name)?),
            Kind::Pod(pod) => {
                Whose::Pod(wire::name("pod.namespace", pod.namespace)?, wire::name("pod.name", pod.name)?)
            }
            Kind::Reservation(id) => Whose::Reservation(StatefulSetId::from_message(id).within("reservation")?),
            Kind::Egress(name) => Whose::Egress(wire::name("egress", name)?),
            Kind::Observed(owner) => Whose::Observed(wire::text("observed", owner)?),
        })
    }

    fn holds(&self, ledger: &Ledger, row: &GrantRow) -> bool {
        match (self, &row.holder) {
            (Whose::Named(name), Holder::Named { name: held, .. })
            | (Whose::Egress(name), Holder::Egress { name: held })
            | (Whose::Observed(name), Holder::Observed { owner: held }) => name == held,
            (Whose::Reservation(id), Holder::Ordinal { id: of, .. }) => id == of,
            (Whose::Pod(namespace, name), Holder::Pod { pod, .. }) => *namespace == pod.namespace && *name == pod.name,
            (Whose::Pod(namespace, name), Holder::Ordinal { id, ordinal, .. }) => {
                let row = ledger.tables().ordinals().get(&(id.clone(), *ordinal));
                let pod = row.and_then(|row| row.pod.as_ref()).map(|bound| &bound.pod);
                pod.is_some_and(|pod| pod.namespace == *namespace && pod.name == *name)
            }
            _ => false,
        }
    }
}

/// Which addresses held.
#[derive(Debug)]
pub struct Grants {
    part: Part,
    after: Option<IpAddr>,
    pool: Option<PoolId>,
    whose: Option<Whose>,
}

impl Grants {
    /// What a request asks for.
    pub fn of(
        page: Option<v1::Page>,
        pool: Option<v1::PoolId>,
        holder: Option<v1::HolderRef>,
    ) -> Result<Grants, Invalid> {
        let part = Part::of(page)?;
        let after = (!part.after.is_empty()).then(|| part.after.parse()).transpose().map_err(|_| part.bad_token())?;
        let whose = holder.map(Whose::of).transpose().within("holder")?;
        Ok(Grants { part, after, pool: wire::optional("pool", pool)?, whose })
    }

    /// Those, ascending.
    pub fn list(&self, ledger: &Ledger) -> Listed<v1::GrantRow> {
        let rows = ledger.tables().grants().range(behind(self.after));
        let rows = rows.filter(|(_, row)| self.pool.as_ref().is_none_or(|pool| row.pool == *pool));
        let rows = rows.filter(|(_, row)| self.whose.as_ref().is_none_or(|whose| whose.holds(ledger, row)));
        self.part.fill(rows.map(|(address, row)| (address.to_string(), grant_message(*address, row))))
    }
}
