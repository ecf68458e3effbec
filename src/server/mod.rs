//! The gRPC services of a replica.
//!
//! They turn requests into commands and reads of the ledger, and what comes of them into messages; they
//! decide nothing. Each call ends by its deadline, and everything that a client can make large is bounded.

mod cluster;
mod deadline;
mod explain;
mod filter;
mod history;
mod kubernetes;
mod ledger;
mod lists;
mod node;
mod page;
mod replica;
mod status;
mod views;
mod watch;

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use holdfast_api::FILE_DESCRIPTOR_SET;
use holdfast_api::v1::cluster_server::ClusterServer;
use holdfast_api::v1::ledger_server::LedgerServer;
use holdfast_raft::Node;
use tokio::net::TcpListener;
use tokio::sync::watch::{Receiver, channel};
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic_health::server::HealthReporter;

use cluster::ClusterService;
pub use kubernetes::Kubernetes;
use ledger::LedgerService;
pub use replica::Replica;

/// Calls in progress on one connection.
const CALLS_PER_CONNECTION: u32 = 1_024;
/// A silent connection is asked for a sign of life this often, and closed after as long again.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// How long calls in progress may go on once the server is to stop.
const GRACE: Duration = Duration::from_secs(10);
/// How often we look whether the replica has become ready.
const READY_CHECK: Duration = Duration::from_secs(1);

/// Why a server ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The listener could not go on.
    #[error("serving gRPC: {0}")]
    Transport(#[from] tonic::transport::Error),
    /// The reflection service does not take the descriptors.
    #[error("the descriptors of the contract: {0}")]
    Descriptors(#[from] tonic_reflection::server::Error),
}

/// Serves a replica on a listener, to clients and to the other replicas, until `shutdown` resolves; then
/// lets calls in progress come to an end.
///
/// `kubernetes`: the bridge beside the replica, if there is one.
pub async fn serve(
    node: Node,
    kubernetes: Option<Kubernetes>,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let peers = node.peer_service();
    serve_replica(node, kubernetes, |routes| routes.add_service(peers), listener, shutdown).await
}

/// The same for any replica, with more services than those of the contract.
async fn serve_replica<R: Replica>(
    replica: R,
    kubernetes: Option<Kubernetes>,
    more: impl FnOnce(Routes) -> Routes,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let (stop, stopping) = channel(false);
    let (health, health_service) = tonic_health::server::health_reporter();
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()?;
    let name = replica.status().await.name;
    let routes = Routes::new(LedgerServer::new(LedgerService::new(
        replica.clone(),
        name,
        kubernetes.is_some(),
        stopping.clone(),
    )))
    .add_service(ClusterServer::new(ClusterService::new(replica.clone(), kubernetes)))
    .add_service(health_service)
    .add_service(reflection);
    let answering = Server::builder()
        .max_concurrent_streams(CALLS_PER_CONNECTION)
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .http2_keepalive_timeout(Some(KEEP_ALIVE))
        .add_routes(more(routes))
        .serve_with_incoming_shutdown(TcpIncoming::from(listener).with_nodelay(Some(true)), stopped(stopping.clone()));
    let reporting = tokio::spawn(report_health(replica, health, stopping.clone()));
    let ended = tokio::select! {
        ended = async {
            let (ended, ()) = tokio::join!(answering, async {
                shutdown.await;
                stop.send_replace(true);
            });
            ended
        } => ended,
        // Clients that keep their calls open beyond the grace are cut off.
        () = async {
            stopped(stopping).await;
            tokio::time::sleep(GRACE).await;
        } => Ok(()),
    };
    reporting.abort();
    Ok(ended?)
}

async fn stopped(mut stopping: Receiver<bool>) {
    // An error means that the sender is gone, and with it the server.
    drop(stopping.wait_for(|stopping| *stopping).await);
}

/// Says that the services serve as soon as the replica is ready, and that they do not once it stops.
async fn report_health<R: Replica>(replica: R, health: HealthReporter, stopping: Receiver<bool>) {
    set_serving(&health, false).await;
    let ready = async {
        while replica.ready(Instant::now() + READY_CHECK).await.is_err() {
            // It may have been refused at once.
            tokio::time::sleep(READY_CHECK / 10).await;
        }
    };
    tokio::select! {
        () = ready => set_serving(&health, true).await,
        () = stopped(stopping.clone()) => {}
    }
    stopped(stopping).await;
    set_serving(&health, false).await;
}

async fn set_serving(health: &HealthReporter, serving: bool) {
    use tonic_health::ServingStatus::{NotServing, Serving};
    let status = if serving { Serving } else { NotServing };
    for service in ["", "holdfast.v1.Ledger", "holdfast.v1.Cluster"] {
        health.set_service_status(service, status).await;
    }
}
