//! The service `Ledger`.

use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use holdfast_api::v1;
use holdfast_api::v1::ledger_server::Ledger as Service;
use holdfast_statemachine::command::StatefulSetId;
use holdfast_statemachine::row::Settings;
use holdfast_statemachine::{Action, Command, Key, Ledger, PoolId, Row, Source, Store, StoreError};
use tokio::sync::{Semaphore, watch};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use super::deadline::deadline;
use super::explain::{Subject, explain};
use super::filter::Filter;
use super::lists::{Egresses, Grants, Pools, Reservations, nodes};
use super::page::{Part, chunks};
use super::replica::Replica;
use super::watch::Feed;
use super::{history, status, views};
use crate::wire::{self, Invalid, Wire, Within, messages};

/// Commands in one request. An entry of the log holds a little more.
pub const COMMANDS_MAX: usize = 1_000;
/// Rows in one message of `Rows`.
const ROWS_PER_MESSAGE: usize = 1_000;
/// Calls of `Rows` at a time: each holds a copy of every row.
const ROWS_CALLS_MAX: usize = 2;
/// Watches at a time on one replica.
const WATCHES_MAX: usize = 1_000;

type Streamed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Answers for one replica.
pub struct LedgerService<R> {
    replica: R,
    name: String,
    /// A bridge is beside the replica: no address is chosen before it has begun to adopt.
    bridged: bool,
    rows_calls: Arc<Semaphore>,
    watches: Arc<Semaphore>,
    stopping: watch::Receiver<bool>,
}

impl<R: Replica> LedgerService<R> {
    /// The service of the replica of this name. Watches end when `stopping` turns true. `bridged`: a bridge to the
    /// Kubernetes API is beside it.
    pub fn new(replica: R, name: String, bridged: bool, stopping: watch::Receiver<bool>) -> LedgerService<R> {
        LedgerService {
            bridged,
            replica,
            name,
            rows_calls: Arc::new(Semaphore::new(ROWS_CALLS_MAX)),
            watches: Arc::new(Semaphore::new(WATCHES_MAX)),
            stopping,
        }
    }

    /// Waits until a read may be answered, and says all of the header but what is read with it.
    async fn header(&self, metadata: &MetadataMap, consistency: i32) -> Result<v1::Header, Status> {
        let stale = match v1::Consistency::try_from(consistency) {
            Ok(v1::Consistency::Linearizable) => false,
            Ok(v1::Consistency::Stale) => true,
            Err(_) => {
                let allowed = "CONSISTENCY_LINEARIZABLE, CONSISTENCY_STALE";
                return Err(status::invalid(Invalid::new("consistency", consistency, allowed)));
            }
        };
        if !stale {
            self.replica.read_index(deadline(metadata)).await.map_err(|error| status::read(&error))?;
        }
        let staleness = self.replica.staleness().filter(|_| stale);
        Ok(v1::Header {
            index: self.replica.applied_index().unwrap_or(0),
            stale_by_ms: staleness.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
            cluster_id: self.replica.cluster().map(|id| id.to_string()).unwrap_or_default(),
            served_by: self.name.clone(),
            ..v1::Header::default()
        })
    }

    /// Reads the ledger as a request asks to.
    async fn read<T>(
        &self,
        metadata: &MetadataMap,
        consistency: i32,
        read: impl FnOnce(&Ledger) -> T,
    ) -> Result<(Option<v1::Header>, T), Status> {
        let header = self.header(metadata, consistency).await?;
        let (header, read) = self.replica.store().read(|ledger| (at(header, ledger), read(ledger)));
        Ok((Some(header), read))
    }

    /// Reads what lies in sled, off the threads that answer others.
    async fn stored<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Status> {
        let store = self.replica.store();
        let read = tokio::task::spawn_blocking(move || read(&store));
        let read = read.await.map_err(|error| Status::internal(format!("a read failed: {error}")))?;
        read.map_err(|error| status::store(&error))
    }
}

/// The header of what is read from this ledger.
fn at(header: v1::Header, ledger: &Ledger) -> v1::Header {
    let clock = ledger.tables().clock();
    v1::Header { revision: clock.revision, time_ms: clock.time, ..header }
}

/// The commands of a request.
fn commands(request: v1::ProposeRequest) -> Result<Vec<Command>, Invalid> {
    let number = request.commands.len();
    if number == 0 || number > COMMANDS_MAX {
        return Err(Invalid::new("commands", format!("{number} items"), format!("1 to {COMMANDS_MAX} items")));
    }
    let source = match request.source.as_str() {
        "" => Source::Api,
        _ => Source::from_message(request.source).within("source")?,
    };
    if source == Source::Kubernetes {
        // The bridge proposes inside the process. From outside, this would let anyone pose as it.
        return Err(Invalid::new("source", source, "api, or manifests: and a name"));
    }
    let actions: Vec<Action> = wire::list("commands", request.commands)?;
    if let Some(at) = actions.iter().position(|action| matches!(action, Action::Adopt(_))) {
        // What the Kubernetes API says is the bridge's to tell.
        return Err(Invalid::new(&format!("commands[{at}].adopt"), "adopt", "any other command"));
    }
    let command = |action| Command { source: source.clone(), only_in_term: None, action };
    Ok(actions.into_iter().map(command).collect())
}

/// Whether an action may have an address chosen.
fn chooses(action: &Action) -> bool {
    matches!(action, Action::Reserve(_) | Action::Grant(_) | Action::PutEgress(_))
}

/// The subject of a question.
fn subject(subject: Option<v1::explain_request::Subject>) -> Result<Subject, Invalid> {
    use v1::explain_request::Subject as Kind;
    Ok(match wire::required("subject", subject)? {
        Kind::Pool(id) => Subject::Pool(PoolId::from_message(id).within("pool")?),
        Kind::Reservation(id) => Subject::Reservation(StatefulSetId::from_message(id).within("reservation")?),
        Kind::Egress(name) => Subject::Egress(wire::name("egress", name)?),
        Kind::Address(address) => Subject::Address(wire::address("address", &address)?),
    })
}

/// Rows that declare something, and the settings.
fn is_declaration(key: &Key) -> bool {
    !matches!(key, Key::Grant(_) | Key::Cooling(_) | Key::Placement(_) | Key::Retired(_) | Key::Clock)
}

#[tonic::async_trait]
impl<R: Replica> Service for LedgerService<R> {
    async fn propose(&self, request: Request<v1::ProposeRequest>) -> Result<Response<v1::ProposeResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let commands = commands(request).map_err(status::invalid)?;
        if self.bridged
            && commands.iter().any(|command| chooses(&command.action))
            && self.replica.store().read(|ledger| ledger.tables().adoption().is_none())
        {
            // From its beginning on, the ledger itself refuses it.
            return Err(status::refused("what the Kubernetes API already says is not adopted yet: try again later"));
        }
        let proposed = self.replica.propose(commands, deadline(&metadata)).await;
        let proposed = proposed.map_err(|error| status::propose(&error))?;
        let revisions = proposed.outcomes.iter().filter_map(|outcome| Some(outcome.as_ref().ok()?.revision));
        Ok(Response::new(v1::ProposeResponse {
            index: proposed.index,
            revision: revisions.max().unwrap_or(0),
            results: messages(&proposed.outcomes),
        }))
    }

    async fn list_pools(
        &self,
        request: Request<v1::ListPoolsRequest>,
    ) -> Result<Response<v1::ListPoolsResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let which = Pools::of(request.page, request.kind).map_err(status::invalid)?;
        let read = self.read(&metadata, request.consistency, |ledger| which.list(ledger)).await?;
        let (header, (pools, next_page_token)) = read;
        Ok(Response::new(v1::ListPoolsResponse { header, pools, next_page_token }))
    }

    async fn get_pool(&self, request: Request<v1::GetPoolRequest>) -> Result<Response<v1::GetPoolResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let id: PoolId = wire::field("pool", request.pool).map_err(status::invalid)?;
        let (header, pool) = self.read(&metadata, request.consistency, |ledger| views::pool(ledger, &id)).await?;
        let pool = Some(pool.ok_or_else(|| status::not_found("pool", &id))?);
        Ok(Response::new(v1::GetPoolResponse { header, pool }))
    }

    async fn list_grants(
        &self,
        request: Request<v1::ListGrantsRequest>,
    ) -> Result<Response<v1::ListGrantsResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let which = Grants::of(request.page, request.pool, request.holder).map_err(status::invalid)?;
        let read = self.read(&metadata, request.consistency, |ledger| which.list(ledger)).await?;
        let (header, (grants, next_page_token)) = read;
        Ok(Response::new(v1::ListGrantsResponse { header, grants, next_page_token }))
    }

    async fn get_grant(&self, request: Request<v1::GetGrantRequest>) -> Result<Response<v1::GetGrantResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let address = wire::address("address", &request.address).map_err(status::invalid)?;
        let read = self.read(&metadata, request.consistency, |ledger| views::grant(ledger, address)).await?;
        let (header, grant) = read;
        Ok(Response::new(v1::GetGrantResponse { header, ..grant }))
    }

    async fn list_reservations(
        &self,
        request: Request<v1::ListReservationsRequest>,
    ) -> Result<Response<v1::ListReservationsResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let which = Reservations::of(request.page, request.namespace).map_err(status::invalid)?;
        let read = self.read(&metadata, request.consistency, |ledger| which.list(ledger)).await?;
        let (header, (reservations, next_page_token)) = read;
        Ok(Response::new(v1::ListReservationsResponse { header, reservations, next_page_token }))
    }

    async fn get_reservation(
        &self,
        request: Request<v1::GetReservationRequest>,
    ) -> Result<Response<v1::GetReservationResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let id: StatefulSetId = wire::field("id", request.id).map_err(status::invalid)?;
        let part = Part::of(request.page).map_err(status::invalid)?;
        let after = match part.after.as_str() {
            "" => None,
            token => Some(token.parse().map_err(|_| status::invalid(part.bad_token()))?),
        };
        let read = |ledger: &Ledger| {
            let row = ledger.tables().reservations().get(&id)?;
            let ordinals = views::ordinals(ledger, (&id, row), after, part.size + 1);
            let ordinals = part.fill(ordinals.into_iter().map(|it| (it.ordinal.to_string(), it)));
            Some((views::reservation(ledger, &id, row), ordinals))
        };
        let (header, found) = self.read(&metadata, request.consistency, read).await?;
        let (reservation, (ordinals, next_page_token)) = found.ok_or_else(|| status::not_found("reservation", &id))?;
        let reservation = Some(reservation);
        Ok(Response::new(v1::GetReservationResponse { header, reservation, ordinals, next_page_token }))
    }

    async fn list_egresses(
        &self,
        request: Request<v1::ListEgressesRequest>,
    ) -> Result<Response<v1::ListEgressesResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let which = Egresses::of(request.page, request.node, request.pool).map_err(status::invalid)?;
        let read = self.read(&metadata, request.consistency, |ledger| which.list(ledger)).await?;
        let (header, (egresses, next_page_token)) = read;
        Ok(Response::new(v1::ListEgressesResponse { header, egresses, next_page_token }))
    }

    async fn get_egress(
        &self,
        request: Request<v1::GetEgressRequest>,
    ) -> Result<Response<v1::GetEgressResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let name = wire::name("name", request.name).map_err(status::invalid)?;
        let read = |ledger: &Ledger| Some(views::egress(ledger, &name, ledger.tables().egresses().get(&name)?));
        let (header, egress) = self.read(&metadata, request.consistency, read).await?;
        let egress = Some(egress.ok_or_else(|| status::not_found("Egress", &name))?);
        Ok(Response::new(v1::GetEgressResponse { header, egress }))
    }

    async fn list_nodes(
        &self,
        request: Request<v1::ListNodesRequest>,
    ) -> Result<Response<v1::ListNodesResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let part = Part::of(request.page).map_err(status::invalid)?;
        let read = self.read(&metadata, request.consistency, |ledger| nodes(ledger, &part)).await?;
        let (header, (nodes, next_page_token)) = read;
        Ok(Response::new(v1::ListNodesResponse { header, nodes, next_page_token }))
    }

    async fn get_node(&self, request: Request<v1::GetNodeRequest>) -> Result<Response<v1::GetNodeResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let name = wire::name("name", request.name).map_err(status::invalid)?;
        let read = |ledger: &Ledger| {
            let row = ledger.tables().nodes().get(&name)?;
            Some((views::node(ledger, &name, row), views::carried(ledger, &name)))
        };
        let (header, found) = self.read(&metadata, request.consistency, read).await?;
        let (node, placements) = found.ok_or_else(|| status::not_found("Node", &name))?;
        Ok(Response::new(v1::GetNodeResponse { header, node: Some(node), placements }))
    }

    async fn get_settings(
        &self,
        request: Request<v1::GetSettingsRequest>,
    ) -> Result<Response<v1::GetSettingsResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let read = |ledger: &Ledger| Settings::to_message(ledger.tables().settings());
        let (header, settings) = self.read(&metadata, request.consistency, read).await?;
        Ok(Response::new(v1::GetSettingsResponse { header, settings: Some(settings) }))
    }

    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Result<Response<v1::ExplainResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let subject = subject(request.subject).map_err(status::invalid)?;
        let (header, found) = self.read(&metadata, request.consistency, |ledger| explain(ledger, &subject)).await?;
        Ok(Response::new(v1::ExplainResponse { header, explanations: found? }))
    }

    async fn history(&self, request: Request<v1::HistoryRequest>) -> Result<Response<v1::HistoryResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let part = Part::of(request.page).map_err(status::invalid)?;
        let whose = history::Whose::of(request.of).map_err(status::invalid)?;
        let before = history::before(&part).map_err(status::invalid)?;
        let (header, ()) = self.read(&metadata, request.consistency, |_| ()).await?;
        let limit = part.size + 1;
        let (found, extent) =
            self.stored(move |store| Ok((whose.intervals(store, before, limit)?, store.history_extent()))).await?;
        let (intervals, next_page_token) = part.fill(found.iter().map(history::item));
        let oldest_revision = if extent.count() == 0 { 0 } else { extent.first };
        Ok(Response::new(v1::HistoryResponse { header, intervals, next_page_token, oldest_revision }))
    }

    type RowsStream = Streamed<v1::RowsResponse>;

    async fn rows(&self, request: Request<v1::RowsRequest>) -> Result<Response<Self::RowsStream>, Status> {
        let (metadata, _, request) = request.into_parts();
        let permit = Arc::clone(&self.rows_calls).try_acquire_owned();
        let permit = permit.map_err(|_| status::overloaded("calls of Rows at a time", ROWS_CALLS_MAX))?;
        let header = self.header(&metadata, request.consistency).await?;
        let all = !request.declarations_only;
        let (header, rows) = self
            .stored(move |store| {
                Ok(store.read(|ledger| {
                    let rows = ledger.tables().rows().filter(|(key, _)| all || is_declaration(key));
                    (at(header, ledger), rows.collect::<Vec<(Key, Row)>>())
                }))
            })
            .await?;
        let rows = rows
            .into_iter()
            .map(|(key, row)| wire::row::row_message(&key, &row).expect("a ledger's keys belong to their rows"));
        let mut parts = chunks(rows, ROWS_PER_MESSAGE);
        // An empty ledger has its clock and settings still, so that there is always a first part.
        let stream = futures::stream::iter(std::iter::from_fn(move || {
            let _held = &permit;
            Some(Ok(v1::RowsResponse { header: Some(header.clone()), rows: parts.next()? }))
        }));
        Ok(Response::new(Box::pin(stream)))
    }

    type WatchStream = Streamed<v1::WatchResponse>;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let (metadata, _, request) = request.into_parts();
        let filters: Vec<Filter> = request
            .filters
            .into_iter()
            .enumerate()
            .map(|(at, filter)| Filter::of(filter).within(&format!("filters[{at}]")))
            .collect::<Result<_, _>>()
            .map_err(status::invalid)?;
        let permit = Arc::clone(&self.watches).try_acquire_owned();
        let permit = permit.map_err(|_| status::overloaded("watches at a time", WATCHES_MAX))?;
        let linearizable = v1::Consistency::Linearizable.into();
        let (_, newest) = self.read(&metadata, linearizable, |ledger| ledger.tables().clock().revision).await?;
        let after = request.after_revision.unwrap_or(newest);
        if after > newest {
            let allowed = format!("at most {newest}, the group's revision");
            return Err(status::invalid(Invalid::new("after_revision", after, allowed)));
        }
        let feed = Feed::new(self.replica.store(), self.replica.subscribe(), self.stopping.clone(), filters);
        Ok(Response::new(Box::pin(feed.start(after, permit).await?)))
    }
}
