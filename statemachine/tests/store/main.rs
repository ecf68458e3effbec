//! The store as its users see it: nothing is lost between two openings, a snapshot is of one moment, and whatever is
//! damaged is found.

mod crash;
mod damage;
mod fixture;
mod history;
mod reopening;
mod snapshots;
