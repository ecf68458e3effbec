//! Tests that cross crates, against the built `holdfast` binary.

mod faults;
