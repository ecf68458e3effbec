//! What all lists have in common: printing, and following changes with `--watch`.

use std::collections::BTreeMap;

use clap::Args;
use holdfast_api::{Client, v1};
use serde::Serialize;

use super::asking::{Asking, Reading};
use super::failure::Failure;
use super::output::{self, Format, Header, Item, Items};
use super::table::Table;

/// Something that is listed.
pub trait Listed: Serialize {
    /// The columns.
    const HEADERS: &'static [&'static str];

    /// What tells it from the others of its kind.
    fn id(&self) -> String;

    /// Its lines, each with a cell for every column.
    fn lines(&self) -> Vec<Vec<String>>;
}

/// Options of every list.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct ListOptions {
    #[command(flatten)]
    pub reading: Reading,
    /// Stay, and print what changes
    #[arg(short, long)]
    pub watch: bool,
}

/// A table of these.
pub fn table<T: Listed>(items: &[T]) -> Table {
    let mut table = Table::new(T::HEADERS);
    for item in items {
        for line in item.lines() {
            table.push(line);
        }
    }
    table
}

/// Prints a list, and with `--watch` whatever changes of it.
pub async fn list<T: Listed>(
    asking: &Asking,
    options: ListOptions,
    fetch: impl AsyncFn(&Client) -> Result<(Header, Vec<T>), Failure>,
) -> Result<(), Failure> {
    let client = asking.client()?;
    let (header, items) = fetch(&client).await?;
    options.reading.remark(&header);
    let table = table(&items);
    let mut widths = table.widths(&[]);
    match asking.output {
        Format::Table if items.is_empty() && !options.watch => output::remark("none found"),
        Format::Table => output::say(table.text(&widths, true))?,
        Format::Json if options.watch => {
            items.iter().try_for_each(|item| output::next_value(Format::Json, &Seen { change: "present", item }))?;
        }
        format => output::value(format, &Items::new(&header, &items))?,
    }
    if !options.watch {
        return Ok(());
    }
    let mut shown = by_id(&items);
    let mut watch =
        client.watch(v1::WatchRequest { after_revision: Some(header.revision), ..v1::WatchRequest::default() });
    loop {
        if watch.next().await?.changes.is_empty() {
            continue;
        }
        let (_, items) = fetch(&client).await?;
        widths = follow(asking.output, &shown, &items, &widths)?;
        shown = by_id(&items);
    }
}

fn by_id<T: Listed>(items: &[T]) -> BTreeMap<String, Vec<Vec<String>>> {
    items.iter().map(|item| (item.id(), item.lines())).collect()
}

/// Prints what differs from what was shown before. Gives back how wide the columns are now.
fn follow<T: Listed>(
    format: Format,
    shown: &BTreeMap<String, Vec<Vec<String>>>,
    items: &[T],
    widths: &[usize],
) -> Result<Vec<usize>, Failure> {
    let mut table = Table::new(T::HEADERS);
    for item in items {
        let lines = item.lines();
        if shown.get(&item.id()) == Some(&lines) {
            continue;
        }
        if format != Format::Table {
            output::next_value(format, &Seen { change: "changed", item })?;
        }
        for line in lines {
            table.push(line);
        }
    }
    let ids: Vec<String> = items.iter().map(Listed::id).collect();
    let widths = table.widths(widths);
    let text = table.text(&widths, false);
    if format == Format::Table && !text.is_empty() {
        output::say(text)?;
    }
    for id in shown.keys().filter(|id| !ids.contains(id)) {
        match format {
            Format::Table => output::say(format_args!("{id}   gone"))?,
            format => output::next_value(format, &Seen { change: "gone", item: id })?,
        }
    }
    Ok(widths)
}

/// One line of a list that is watched, for programs.
#[derive(Serialize)]
struct Seen<'a, T> {
    change: &'static str,
    item: &'a T,
}

/// Prints one object, and under it what belongs to it.
pub fn one<T: Listed>(asking: &Asking, header: &Header, item: &T, details: &[Table]) -> Result<(), Failure> {
    if !asking.for_people() {
        return output::value(asking.output, &Item::new(header, item));
    }
    output::say(table(std::slice::from_ref(item)))?;
    details.iter().try_for_each(|details| output::say(format_args!("\n{details}")))
}
