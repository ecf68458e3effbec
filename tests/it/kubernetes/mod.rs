//! Against a real Kubernetes API server.

mod antrea;
mod base;
mod control_plane;
mod definitions;
mod egresses;
mod failover;
mod first_start;
mod histories;
mod kubelet;
mod large;
mod modes;
mod outage;
mod pods;
mod programs;
mod reservations;
mod rights;
pub mod scene;
mod server;
mod unseen;
mod writers;

pub use control_plane::{ControlPlane, Exclusive, control_plane, whole_control_plane};
pub use kubelet::{Addresses, Kubelet};
