//! The ledger judged against `docs/rules.md`: beside a naive model, and by scenarios that both must meet.

mod conformance;
mod invariants;
mod machine;
mod model;
mod properties;
mod rules;
mod scene;
mod strategy;
