//! Scenarios of `docs/rules.md`, each on the ledger and on the model.

mod adoption;
mod antrea;
mod grants;
mod operators;
mod placement;
mod pools;
mod reservations;
mod retention;
mod takeover;
mod templates;
