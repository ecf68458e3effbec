//! A thin client: a list of endpoints, and the rules for what may be tried again.

mod error;
mod watch;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};

pub use error::ClientError;
pub use watch::Watch;

use crate::v1::cluster_client::ClusterClient;
use crate::v1::failure::Reason;
use crate::v1::ledger_client::LedgerClient;
use crate::v1::{self, RowsRequest};

/// How long opening a connection may take.
const CONNECT: Duration = Duration::from_secs(1);
/// Between rounds over all endpoints.
const BACKOFF: Duration = Duration::from_millis(100);
/// A silent connection is asked for a sign of life this often, and given up after as long again.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// The largest answer taken, bytes. Pages are far smaller; an explanation names every Node.
const ANSWER_MAX: usize = 64 << 20;

/// A client of a group of replicas. Every replica takes every request, so a dead endpoint costs nothing but
/// the attempt. Clones share the endpoints' connections, not which of them is tried first.
#[derive(Debug)]
pub struct Client {
    endpoints: Vec<(String, Channel)>,
    /// Which endpoint answered last.
    preferred: AtomicUsize,
    timeout: Duration,
}

impl Clone for Client {
    fn clone(&self) -> Client {
        let preferred = AtomicUsize::new(self.preferred.load(Ordering::Relaxed));
        Client { endpoints: self.endpoints.clone(), preferred, timeout: self.timeout }
    }
}

/// What may be done about a call of which it is not known whether it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeat {
    /// It changes nothing: any endpoint may be asked again; once over all of them.
    Read,
    /// It may have been done, and the caller must hear so.
    Write,
    /// It may have been done, but doing it again changes nothing: repeated until the deadline.
    Idempotent,
}

/// What came of one attempt.
enum Attempt {
    /// It is certain that nothing was done.
    NotSent(String),
    /// It may have been done.
    Unknown(String),
    /// An answer that another endpoint would give too.
    Final(ClientError),
}

impl Client {
    /// A client of the replicas at these endpoints, each `host:port` or a URL. Connects when first used.
    pub fn new<E: AsRef<str>>(endpoints: impl IntoIterator<Item = E>) -> Result<Client, ClientError> {
        let endpoints =
            endpoints.into_iter().map(|endpoint| connection(endpoint.as_ref())).collect::<Result<Vec<_>, _>>()?;
        if endpoints.is_empty() {
            return Err(ClientError::Endpoint { endpoint: String::new() });
        }
        Ok(Client { endpoints, preferred: AtomicUsize::new(0), timeout: Duration::from_secs(10) })
    }

    /// The same with another deadline for each call than 10 s.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Client {
        self.timeout = timeout;
        self
    }

    /// The endpoints, as given.
    pub fn endpoints(&self) -> impl Iterator<Item = &str> {
        self.endpoints.iter().map(|(name, _)| name.as_str())
    }

    /// Proposes commands. What may have been sent is never sent again: it is [`ClientError::FateUnknown`].
    pub async fn propose(&self, request: v1::ProposeRequest) -> Result<v1::ProposeResponse, ClientError> {
        self.propose_as(Repeat::Write, request).await
    }

    /// Proposes commands, again and again until they are answered or the deadline passes. Commands are
    /// idempotent: this is safe for every one of them, though an outcome may then say that nothing changed.
    pub async fn propose_repeatedly(&self, request: v1::ProposeRequest) -> Result<v1::ProposeResponse, ClientError> {
        self.propose_as(Repeat::Idempotent, request).await
    }

    async fn propose_as(
        &self,
        repeat: Repeat,
        request: v1::ProposeRequest,
    ) -> Result<v1::ProposeResponse, ClientError> {
        self.call(repeat, request, |channel, request| async move { ledger(channel).propose(request).await }).await
    }

    /// Every row at one revision.
    pub async fn rows(&self, request: RowsRequest) -> Result<(v1::Header, Vec<v1::Row>), ClientError> {
        self.call(Repeat::Read, request, |channel, request| async move {
            let mut stream = ledger(channel).rows(request).await?.into_inner();
            let mut header = None;
            let mut rows = Vec::new();
            while let Some(part) = stream.message().await? {
                header = header.or(part.header);
                rows.extend(part.rows);
            }
            let header = header.ok_or_else(|| Status::unavailable("the rows ended before they began"))?;
            Ok(Response::new((header, rows)))
        })
        .await
    }

    /// Changes from a revision on. It is resumed after a lost connection, without a gap.
    pub fn watch(&self, request: v1::WatchRequest) -> Watch {
        Watch::new(self.clone(), request)
    }

    /// Calls one endpoint after the other, as far as `repeat` allows.
    async fn call<Q, R, F>(
        &self,
        repeat: Repeat,
        request: Q,
        call: impl Fn(Channel, Request<Q>) -> F,
    ) -> Result<R, ClientError>
    where
        Q: Clone,
        F: Future<Output = Result<Response<R>, Status>>,
    {
        let deadline = Instant::now() + self.timeout;
        let mut maybe_done = None;
        loop {
            let mut tried = Vec::new();
            let first = self.preferred.load(Ordering::Relaxed);
            for step in 0..self.endpoints.len() {
                let at = (first + step) % self.endpoints.len();
                let (name, channel) = &self.endpoints[at];
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                // What may be repeated must not wait for one endpoint alone.
                let others = u32::try_from(self.endpoints.len() - step).unwrap_or(1);
                let mut message = Request::new(request.clone());
                message.set_timeout(if repeat == Repeat::Write { left } else { left / others });
                match call(channel.clone(), message).await {
                    Ok(response) => {
                        self.preferred.store(at, Ordering::Relaxed);
                        return Ok(response.into_inner());
                    }
                    Err(status) => match attempt(&status) {
                        Attempt::Final(ClientError::FateUnknown { why }) | Attempt::Unknown(why) => {
                            match repeat {
                                Repeat::Write => return Err(ClientError::FateUnknown { why }),
                                Repeat::Idempotent => maybe_done = Some(why.clone()),
                                Repeat::Read => {}
                            }
                            tried.push((name.clone(), why));
                        }
                        Attempt::Final(error) => return Err(error),
                        Attempt::NotSent(why) => tried.push((name.clone(), why)),
                    },
                }
            }
            let over = Instant::now() + BACKOFF >= deadline;
            if over || repeat != Repeat::Idempotent {
                return Err(match maybe_done {
                    Some(why) => ClientError::FateUnknown { why },
                    None => ClientError::Unreachable { tried },
                });
            }
            tokio::time::sleep(BACKOFF).await;
        }
    }
}

/// The calls that are one message each way.
macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident($request:ident) -> $response:ident, $client:ident, $repeat:ident;)*) => {
        impl Client {
            $(
                $(#[$doc])*
                pub async fn $name(&self, request: v1::$request) -> Result<v1::$response, ClientError> {
                    self.call(Repeat::$repeat, request, |channel, request| async move {
                        $client(channel).$name(request).await
                    })
                    .await
                }
            )*
        }
    };
}

calls! {
    /// Pools.
    list_pools(ListPoolsRequest) -> ListPoolsResponse, ledger, Read;
    /// One pool.
    get_pool(GetPoolRequest) -> GetPoolResponse, ledger, Read;
    /// Addresses held.
    list_grants(ListGrantsRequest) -> ListGrantsResponse, ledger, Read;
    /// One address.
    get_grant(GetGrantRequest) -> GetGrantResponse, ledger, Read;
    /// Reservations.
    list_reservations(ListReservationsRequest) -> ListReservationsResponse, ledger, Read;
    /// One reservation.
    get_reservation(GetReservationRequest) -> GetReservationResponse, ledger, Read;
    /// Egresses.
    list_egresses(ListEgressesRequest) -> ListEgressesResponse, ledger, Read;
    /// One Egress.
    get_egress(GetEgressRequest) -> GetEgressResponse, ledger, Read;
    /// Nodes.
    list_nodes(ListNodesRequest) -> ListNodesResponse, ledger, Read;
    /// One Node.
    get_node(GetNodeRequest) -> GetNodeResponse, ledger, Read;
    /// The settings in force.
    get_settings(GetSettingsRequest) -> GetSettingsResponse, ledger, Read;
    /// Why something is not as wanted.
    explain(ExplainRequest) -> ExplainResponse, ledger, Read;
    /// Who held an address, and where an Egress address was.
    history(HistoryRequest) -> HistoryResponse, ledger, Read;
    /// How the first replica that answers is. For a certain one, make a client of its endpoint alone.
    status(StatusRequest) -> StatusResponse, cluster, Read;
    /// The members.
    member_list(MemberListRequest) -> MemberListResponse, cluster, Read;
    /// Replaces a member whose data is lost.
    member_replace(MemberReplaceRequest) -> MemberReplaceResponse, cluster, Write;
    /// Hands leadership over.
    leader_transfer(LeaderTransferRequest) -> LeaderTransferResponse, cluster, Write;
    /// Takes a snapshot of the first replica that answers.
    snapshot(SnapshotRequest) -> SnapshotResponse, cluster, Read;
    /// Checks the first replica that answers.
    check(CheckRequest) -> CheckResponse, cluster, Read;
}

fn ledger(channel: Channel) -> LedgerClient<Channel> {
    LedgerClient::new(channel).max_decoding_message_size(ANSWER_MAX)
}

fn cluster(channel: Channel) -> ClusterClient<Channel> {
    ClusterClient::new(channel).max_decoding_message_size(ANSWER_MAX)
}

fn connection(endpoint: &str) -> Result<(String, Channel), ClientError> {
    let bad = || ClientError::Endpoint { endpoint: endpoint.to_owned() };
    let url = if endpoint.contains("://") { endpoint.to_owned() } else { format!("http://{endpoint}") };
    let built = Endpoint::from_shared(url).map_err(|_| bad())?;
    if built.uri().port().is_none() {
        return Err(bad());
    }
    let channel = built
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .keep_alive_while_idle(true)
        .connect_lazy();
    Ok((endpoint.to_owned(), channel))
}

fn attempt(status: &Status) -> Attempt {
    if let Some(error) = ClientError::of(status) {
        return Attempt::Final(error);
    }
    let why = status.message().to_owned();
    match (crate::failure(status), status.code()) {
        (Some(Reason::NoLeader(_) | Reason::Expired(_)), _) => Attempt::NotSent(why),
        _ if never_connected(status) => Attempt::NotSent(why),
        // A replica, or the transport on its behalf, says these without having looked at the call.
        (None, code @ (Code::Unimplemented | Code::PermissionDenied | Code::Unauthenticated)) => {
            Attempt::Final(ClientError::Other { code, message: why })
        }
        _ => Attempt::Unknown(why),
    }
}

/// Whether the connection was never there, so that nothing can have been sent.
fn never_connected(status: &Status) -> bool {
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        if error.is::<tonic::ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}
