//! What an operator does to Nodes and placements: drain, pin, rebalance.

use std::net::IpAddr;

use clap::Args;
use holdfast_statemachine::Action;
use holdfast_statemachine::command::{Drain, Pin, Rebalance, Undrain, Unpin};

use super::asking::Asking;
use super::failure::Failure;
use super::proposal::operate;

/// See `holdfast drain --help`.
#[derive(Args, Clone, Debug)]
pub struct DrainArgs {
    /// The Node
    node: String,
    /// Drain it even if some addresses are left without a Node
    #[arg(long)]
    force: bool,
}

/// See `holdfast undrain --help`.
#[derive(Args, Clone, Debug)]
pub struct UndrainArgs {
    /// The Node
    node: String,
}

/// See `holdfast pin --help`.
#[derive(Args, Clone, Debug)]
pub struct PinArgs {
    /// The Egress
    egress: String,
    /// The Node
    node: String,
    /// Which of its addresses, if it has several
    #[arg(long)]
    address: Option<IpAddr>,
}

/// See `holdfast unpin --help`.
#[derive(Args, Clone, Debug)]
pub struct UnpinArgs {
    /// The Egress
    egress: String,
    /// Which of its addresses, if it has several
    #[arg(long)]
    address: Option<IpAddr>,
}

/// See `holdfast rebalance --help`.
#[derive(Args, Clone, Debug)]
pub struct RebalanceArgs {
    /// Move at most this many addresses
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    max_moves: u32,
    /// Refuse if a placement changed after this revision
    #[arg(long, value_name = "REVISION")]
    at: Option<u64>,
}

/// Runs `drain`.
pub async fn drain(asking: &Asking, args: DrainArgs) -> Result<(), Failure> {
    operate(asking, Action::Drain(Drain { node: args.node.into(), force: args.force })).await
}

/// Runs `undrain`.
pub async fn undrain(asking: &Asking, args: UndrainArgs) -> Result<(), Failure> {
    operate(asking, Action::Undrain(Undrain { node: args.node.into() })).await
}

/// Runs `pin`.
pub async fn pin(asking: &Asking, args: PinArgs) -> Result<(), Failure> {
    let pin = Pin { egress: args.egress.into(), address: args.address, node: args.node.into() };
    operate(asking, Action::Pin(pin)).await
}

/// Runs `unpin`.
pub async fn unpin(asking: &Asking, args: UnpinArgs) -> Result<(), Failure> {
    operate(asking, Action::Unpin(Unpin { egress: args.egress.into(), address: args.address })).await
}

/// Runs `rebalance`.
pub async fn rebalance(asking: &Asking, args: RebalanceArgs) -> Result<(), Failure> {
    operate(asking, Action::Rebalance(Rebalance { max_moves: args.max_moves, at: args.at })).await
}
