//! Replicas in one process, over real connections and real files.

mod cluster;
mod faults;
mod group;
mod log;
mod members;
mod reads;
mod suite;
mod wire;
