//! What goes wrong, done to real processes on real files.
//!
//! `HOLDFAST_FAULTS_LONG=1` runs the same tests at the sizes of a night.

mod address_model;
mod ask;
mod group;
mod linearizability;
mod load;
