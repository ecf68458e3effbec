//! openraft's own tests of both stores.

use std::future::Future;

use holdfast_raft::log_store::LogStore;
use holdfast_raft::state_machine::StateMachine;
use holdfast_raft::types::TypeConfig;
use openraft::StorageError;
use openraft::testing::{StoreBuilder, Suite};
use tempfile::TempDir;

struct Builder;

impl StoreBuilder<TypeConfig, LogStore, StateMachine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, LogStore, StateMachine), StorageError<u64>> {
        let dir = tempfile::tempdir().expect("a directory");
        let log = LogStore::open(&dir.path().join("log"), &dir.path().join("log-used"), "a").expect("a new log opens");
        let machine = StateMachine::open(&dir.path().join("ledger"), &dir.path().join("snapshots")).expect("it opens");
        Ok((dir, log, machine))
    }
}

async fn run<F: Future<Output = Result<(), StorageError<u64>>>>(name: &str, test: fn(LogStore, StateMachine) -> F) {
    let (_dir, log, machine) = Builder.build().await.expect("both are built");
    test(log, machine).await.unwrap_or_else(|error| panic!("{name}: {error}"));
}

type All = Suite<TypeConfig, LogStore, StateMachine, Builder, TempDir>;

macro_rules! run_all {
    ($($test:ident),* $(,)?) => { $(run(stringify!($test), All::$test).await;)* };
}

// All but `get_initial_state_membership_from_log_and_sm`, which appends an entry that it has just purged: Raft
// never does, and raft-log refuses it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_stores_keep_openrafts_contract() {
    run_all!(
        last_membership_in_log_initial,
        last_membership_in_log,
        last_membership_in_log_multi_step,
        get_membership_initial,
        get_membership_from_log_and_empty_sm,
        get_membership_from_empty_log_and_sm,
        get_membership_from_log_le_sm_last_applied,
        get_membership_from_log_gt_sm_last_applied_1,
        get_membership_from_log_gt_sm_last_applied_2,
        get_initial_state_without_init,
        get_initial_state_with_state,
        get_initial_state_last_log_gt_sm,
        get_initial_state_last_log_lt_sm,
        get_initial_state_log_ids,
        get_initial_state_re_apply_committed,
        save_vote,
        get_log_entries,
        limited_get_log_entries,
        try_get_log_entry,
        initial_logs,
        get_log_state,
        get_log_id,
        last_id_in_log,
        last_applied_state,
        purge_logs_upto_0,
        purge_logs_upto_5,
        purge_logs_upto_20,
        delete_logs_since_11,
        delete_logs_since_0,
        append_to_log,
        snapshot_meta,
        apply_single,
        apply_multiple,
    );
}
