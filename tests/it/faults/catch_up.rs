//! Replicas that were away, and groups of five.

use futures::future::join_all;

use super::ask::{grant, propose, put_pool, release};
use super::group::Group;
use super::load::Load;
use super::{long, seed, serial};

/// Clients that fill the log.
const CLIENTS: usize = 16;

/// A replica that was away for longer than the log reaches back gets a snapshot and what came after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_was_away_for_long_catches_up_by_snapshot() {
    let _alone = serial().await;
    let entries = if long() { 50_000 } else { 2_500 };
    // One command an entry, so that entries are many; snapshots soon, and little log behind them.
    let options = ["--entry-commands", "1", "--snapshot-entries", "500", "--snapshot-keep-entries", "50"];
    let mut group = Group::formed(3, &options).await;
    let client = group.client();
    client.propose_repeatedly(propose([put_pool("pods", "10.0.0.0/12")])).await.expect("a group that is formed");
    let leader = group.leader().await;
    let away = (leader + 1) % 3;
    let gone_at = group.status(away).await.expect("it runs").last_log_index;
    group.kill(away);
    join_all((0..CLIENTS).map(|number| {
        let client = group.client();
        async move {
            for call in 0..entries / CLIENTS {
                let owner = format!("{number}-{call}");
                client.propose_repeatedly(propose([grant(&owner, "pods", None)])).await.expect("two of three run");
                // Some go again, so that a snapshot is more than a list that grows.
                if call % 3 == 0 {
                    client.propose_repeatedly(propose([release(&owner)])).await.expect("two of three run");
                }
            }
        }
    }))
    .await;
    let status = group.status(group.leader().await).await.expect("it leads");
    assert!(status.last_log_index - gone_at >= (entries / CLIENTS * CLIENTS) as u64, "{status:?}");
    assert!(status.purged_index > Some(gone_at), "what it missed is purged: {status:?}");
    group.start(away);
    let statuses = group.assert_equal_digests().await;
    assert_eq!(statuses.len(), 3);
    assert!(group.log(away).contains("was replaced by a snapshot"), "{}", group.log(away));
    println!(
        "away for {} entries, of which the log kept {}: caught up by snapshot",
        statuses[0].last_log_index - gone_at,
        status.last_log_index - status.purged_index.unwrap_or_default(),
    );
}

/// Two of five may be away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_of_five_goes_on_without_two() {
    let _alone = serial().await;
    let mut group = Group::formed(5, &[]).await;
    let mut load = Load::start(&group, 4, seed()).await;
    load.progress().await;
    let leader = group.leader().await;
    group.kill(leader);
    group.kill((leader + 1) % 5);
    group.leader().await;
    load.progress().await;
    group.start(leader);
    group.start((leader + 1) % 5);
    load.progress().await;
    load.stop().await;
    assert_eq!(group.assert_equal_digests().await.len(), 5);
    let counts = load.check(&group).await;
    println!("two of five were killed: {counts:?}");
}
