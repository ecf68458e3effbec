//! All that the ledger holds, as it is told over gRPC.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use holdfast_api::v1::holder::Holder;
use holdfast_api::v1::row::Row;
use holdfast_api::v1::{self, PoolKind, RowsRequest};
use holdfast_api::{Client, ClientError};

/// Who holds an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    /// An ordinal of a StatefulSet.
    Ordinal {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Which.
        ordinal: u32,
        /// Whether it is kept only while a Pod may use it.
        former: bool,
    },
    /// An Egress.
    Egress(String),
    /// Anybody else, as text.
    Other(String),
}

/// A grant.
#[derive(Clone, Debug)]
pub struct GrantRow {
    /// Of an IPPool, or of an ExternalIPPool.
    pub kind: PoolKind,
    /// The pool's name.
    pub pool: String,
    /// The holder.
    pub held: Held,
}

/// Rows of one revision.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// The group's id.
    pub cluster: String,
    /// The position in the log that this was read at.
    pub index: u64,
    /// The ledger's revision.
    pub revision: u64,
    /// Who holds which address.
    pub grants: BTreeMap<IpAddr, GrantRow>,
    /// Declared pools.
    pub pools: BTreeMap<(bool, String), v1::PoolRow>,
    /// Retired pools' names.
    pub retired: BTreeSet<(bool, String)>,
    /// Reservations by namespace and name.
    pub reservations: BTreeMap<(String, String), v1::ReservationRow>,
    /// Ordinals that have, or had, a Pod.
    pub ordinals: BTreeMap<(String, String, u32), v1::OrdinalRow>,
    /// Egresses.
    pub egresses: BTreeMap<String, v1::EgressRow>,
    /// On which Node an Egress address is.
    pub placements: BTreeMap<IpAddr, v1::PlacementRow>,
    /// Nodes.
    pub nodes: BTreeMap<String, v1::NodeRow>,
    /// What was taken over on the first start.
    pub adoption: Option<v1::AdoptionRow>,
    /// Egress addresses that a Node may carry if it does not say.
    pub default_capacity: u32,
}

/// Whether a pool is an ExternalIPPool, and its name.
fn pool_key(pool: Option<v1::PoolId>) -> (bool, String) {
    let pool = pool.expect("a pool");
    (pool.kind() == PoolKind::ExternalIpPool, pool.name)
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

impl Rows {
    /// Reads them.
    pub async fn read(client: &Client) -> Rows {
        Rows::try_read(client).await.expect("the ledger answers")
    }

    /// Reads them, where the group may have no leader.
    pub async fn try_read(client: &Client) -> Result<Rows, ClientError> {
        let (header, all) = client.rows(RowsRequest::default()).await?;
        let mut rows =
            Rows { cluster: header.cluster_id, index: header.index, revision: header.revision, ..Rows::default() };
        for row in all {
            rows.take(row.row.expect("a row"));
        }
        Ok(rows)
    }

    fn take(&mut self, row: Row) {
        match row {
            Row::Pool(row) => {
                let id = row.wanted.as_ref().and_then(|wanted| wanted.pool.clone());
                self.pools.insert(pool_key(id), row);
            }
            Row::Retired(row) => {
                self.retired.insert(pool_key(row.pool));
            }
            Row::Grant(row) => {
                let (external, pool) = pool_key(row.pool);
                let kind = if external { PoolKind::ExternalIpPool } else { PoolKind::IpPool };
                let held = held(row.holder.expect("a holder"));
                self.grants.insert(address(&row.address), GrantRow { kind, pool, held });
            }
            Row::Reservation(row) => {
                let id = row.id.clone().expect("an id");
                self.reservations.insert((id.namespace, id.name), row);
            }
            Row::Ordinal(row) => {
                let id = row.id.clone().expect("an id");
                self.ordinals.insert((id.namespace, id.name, row.ordinal), row);
            }
            Row::Egress(row) => {
                self.egresses.insert(row.name.clone(), row);
            }
            Row::Placement(row) => {
                self.placements.insert(address(&row.address), row);
            }
            Row::Node(row) => {
                self.nodes.insert(row.name.clone(), row);
            }
            Row::Settings(settings) => self.default_capacity = settings.default_capacity,
            Row::Adoption(row) => self.adoption = Some(row),
            Row::Clock(_) | Row::Cooling(_) => {}
        }
    }

    /// The addresses that an IPPool's grants name, with their holders.
    pub fn grants_of(&self, kind: PoolKind, pool: &str) -> BTreeMap<IpAddr, &Held> {
        let of = self.grants.iter().filter(|(_, grant)| grant.kind == kind && grant.pool == pool);
        of.map(|(address, grant)| (*address, &grant.held)).collect()
    }

    /// The addresses of a StatefulSet by ordinal, ascending, former ones left out.
    pub fn addresses(&self, namespace: &str, name: &str) -> BTreeMap<u32, Vec<IpAddr>> {
        let mut addresses = BTreeMap::<u32, Vec<IpAddr>>::new();
        for (address, grant) in &self.grants {
            match &grant.held {
                Held::Ordinal { namespace: of, name: set, ordinal, former: false }
                    if of == namespace && set == name =>
                {
                    addresses.entry(*ordinal).or_default().push(*address);
                }
                _ => {}
            }
        }
        addresses
    }
}

fn held(holder: v1::Holder) -> Held {
    match holder.holder.expect("a holder") {
        Holder::Ordinal(it) => {
            let id = it.id.expect("an id");
            Held::Ordinal { namespace: id.namespace, name: id.name, ordinal: it.ordinal, former: it.former }
        }
        Holder::Egress(it) => Held::Egress(it.name),
        Holder::Named(it) => Held::Other(it.name),
        Holder::Observed(it) => Held::Other(it.owner),
        Holder::Pod(it) => {
            let pod = it.pod.expect("a Pod");
            Held::Other(format!("{}/{}", pod.namespace, pod.name))
        }
    }
}
