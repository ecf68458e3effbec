//! Against a real Kubernetes API server.

mod base;
mod control_plane;
mod definitions;
mod kubelet;
mod programs;
mod rights;
mod server;

pub use control_plane::{ControlPlane, control_plane};
pub use kubelet::Kubelet;
