//! `holdfast settings`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use holdfast::wire;
use holdfast_api::v1;
use holdfast_statemachine::command::PutSettings;
use holdfast_statemachine::row::{self, Settings};
use holdfast_statemachine::{Action, Millis};
use serde::{Deserialize, Serialize};

use super::asking::{Asking, Reading};
use super::failure::Failure;
use super::output::{self, Header, Item};
use super::proposal::operate;
use super::table::Table;
use super::words;

/// How Egress addresses are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// A placement stays while it is possible
    Sticky,
    /// As sticky, but a homeless address goes to the Node with the fewest
    Spread,
    /// Everything recomputed at each change, as Antrea does
    ConsistentHash,
}

impl From<Policy> for row::Policy {
    fn from(policy: Policy) -> row::Policy {
        match policy {
            Policy::Sticky => row::Policy::Sticky,
            Policy::Spread => row::Policy::Spread,
            Policy::ConsistentHash => row::Policy::ConsistentHash,
        }
    }
}

impl From<row::Policy> for Policy {
    fn from(policy: row::Policy) -> Policy {
        match policy {
            row::Policy::Sticky => Policy::Sticky,
            row::Policy::Spread => Policy::Spread,
            row::Policy::ConsistentHash => Policy::ConsistentHash,
        }
    }
}

/// See `holdfast settings --help`.
#[derive(Clone, Debug, Subcommand)]
pub enum SettingsVerb {
    /// Show the settings in force
    Get {
        #[command(flatten)]
        reading: Reading,
    },
    /// Change settings; those not named stay
    Set(SetArgs),
}

/// See `holdfast settings set --help`.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = true)]
pub struct SetArgs {
    /// How Egress addresses are placed
    #[arg(long, value_enum)]
    policy: Option<Policy>,
    /// Egress addresses that a Node may carry if it does not say, 0 to 255
    #[arg(long)]
    default_capacity: Option<u32>,
    /// Rows of history kept, 1000 to 100000000
    #[arg(long)]
    history_rows: Option<u64>,
    /// How long history is kept: an integer and s, m, h or d; at least 60s
    #[arg(long, value_parser = words::duration)]
    history_age: Option<Duration>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SettingsView {
    policy: Policy,
    default_capacity: u32,
    history_rows: u64,
    history_age_ms: Millis,
}

/// Runs the verb.
pub async fn run(asking: &Asking, verb: SettingsVerb) -> Result<(), Failure> {
    match verb {
        SettingsVerb::Get { reading } => {
            let request = v1::GetSettingsRequest { consistency: reading.consistency() };
            let answer = asking.client()?.get_settings(request).await?;
            let header = Header::read(answer.header);
            reading.remark(&header);
            let settings: Settings = wire::field("settings", answer.settings)?;
            let view = SettingsView {
                policy: settings.policy.into(),
                default_capacity: settings.default_capacity,
                history_rows: settings.history_rows,
                history_age_ms: settings.history_age,
            };
            if !asking.for_people() {
                return output::value(asking.output, &Item::new(&header, &view));
            }
            let policy = view.policy.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
            let mut table = Table::new(&["SETTING", "VALUE"]);
            table.push(vec!["policy".into(), policy]);
            table.push(vec!["default-capacity".into(), view.default_capacity.to_string()]);
            table.push(vec!["history-rows".into(), view.history_rows.to_string()]);
            let age = holdfast_bridge::translate::duration::format(view.history_age_ms);
            table.push(vec!["history-age".into(), age]);
            output::say(table)
        }
        SettingsVerb::Set(args) => {
            let put = PutSettings {
                policy: args.policy.map(Into::into),
                default_capacity: args.default_capacity,
                history_rows: args.history_rows,
                history_age: args.history_age.map(|age| Millis::try_from(age.as_millis()).unwrap_or(Millis::MAX)),
            };
            operate(asking, Action::PutSettings(put)).await
        }
    }
}
