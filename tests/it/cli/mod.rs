//! The command line: what it prints, and its exit codes.

mod apply;
mod dev_once;
mod exit_codes;
mod follow;
mod help;
mod manifests;
mod serve;
mod verbs;
mod watch;
