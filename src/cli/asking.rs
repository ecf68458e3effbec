//! Whom a client verb asks, and how it is answered.

use std::time::Duration;

use clap::Args;
use holdfast_api::{Client, v1};

use super::failure::Failure;
use super::output::{Format, Header};
use super::words;

/// Where a group listens unless it says otherwise; also what `holdfast dev` uses if it is free.
pub const DEFAULT_ENDPOINTS: [&str; 3] = ["127.0.0.1:7601", "127.0.0.1:7602", "127.0.0.1:7603"];

/// Whom a client verb asks, and how it is answered.
#[derive(Args, Clone, Debug)]
pub struct Asking {
    /// Replicas to ask, host:port, comma-separated; any one that lives will do
    #[arg(long, env = "HOLDFAST_ENDPOINTS", value_delimiter = ',', global = true, default_values = DEFAULT_ENDPOINTS)]
    #[arg(help_heading = "Client", value_name = "HOST:PORT,...")]
    pub endpoints: Vec<String>,
    /// How long a call may take: an integer and ms, s or m
    #[arg(long, env = "HOLDFAST_TIMEOUT", default_value = "10s", value_parser = words::duration, global = true)]
    #[arg(help_heading = "Client", value_name = "DURATION")]
    pub timeout: Duration,
    /// The form of the answer: a table for people, json or yaml for programs
    #[arg(
        short,
        long,
        value_enum,
        default_value_t,
        global = true,
        help_heading = "Client",
        hide_possible_values = true
    )]
    #[arg(value_name = "table|json|yaml")]
    pub output: Format,
}

impl Asking {
    /// A client of all endpoints.
    pub fn client(&self) -> Result<Client, Failure> {
        Ok(Client::new(&self.endpoints)?.with_timeout(self.timeout))
    }

    /// Whether the answer is for people.
    pub fn for_people(&self) -> bool {
        self.output == Format::Table
    }
}

/// How a read is answered.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Reading {
    /// Answer from the asked replica's own state, however old, and say how old it may be
    #[arg(long)]
    pub stale: bool,
}

impl Reading {
    /// As the contract says it.
    pub fn consistency(self) -> i32 {
        let consistency = if self.stale { v1::Consistency::Stale } else { v1::Consistency::Linearizable };
        consistency.into()
    }

    /// Tells people how old a stale answer may be.
    pub fn remark(self, header: &Header) {
        if self.stale {
            let age = header.stale_by_ms.map_or("an unknown time".to_owned(), |age| format!("at most {age} ms"));
            super::output::remark(format_args!("answered by {}, stale by {age}", header.served_by));
        }
    }
}

/// Reads a list page by page.
pub async fn pages<T>(
    mut page: impl AsyncFnMut(v1::Page) -> Result<(Option<v1::Header>, Vec<T>, String), Failure>,
) -> Result<(Header, Vec<T>), Failure> {
    let mut first = None;
    let mut items = Vec::new();
    let mut token = String::new();
    loop {
        let (header, some, next) = page(v1::Page { size: 0, token }).await?;
        // The first page's revision: a watch from there on misses nothing.
        let header = first.get_or_insert_with(|| Header::read(header)).clone();
        items.extend(some);
        if next.is_empty() {
            return Ok((header, items));
        }
        token = next;
    }
}
