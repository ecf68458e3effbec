//! The `holdfast` command: replicas, `dev`, and the client verbs. Wiring only.

mod cli;
mod config;
mod dev;
mod kubernetes;
mod logging;
mod metrics;
mod serve;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Failure};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return ended(Err(Failure::from(error))),
    };
    let result = runtime.block_on(cli.run());
    // What still runs in the background must not keep the process.
    runtime.shutdown_background();
    ended(result)
}

fn ended(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) | Err(Failure::Closed) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("holdfast: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
