//! Against a stand-in for the API server, for what a real one cannot hold on a small machine.

mod memory;
mod server;
