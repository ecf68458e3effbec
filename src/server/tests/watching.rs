use holdfast_api::{ClientError, v1};

use super::single::Served;
use super::{grant, ip_pool};

async fn collect(watch: &mut holdfast_api::client::Watch, until: u64) -> Vec<u64> {
    let mut revisions = Vec::new();
    loop {
        let part = watch.next().await.expect("it goes on");
        revisions.extend(part.changes.iter().map(|change| change.revision));
        if part.revision >= until {
            return revisions;
        }
    }
}

#[tokio::test]
async fn a_watch_gives_every_change_once_over_a_restart() {
    let served = Served::start().await;
    served.apply(&[ip_pool("p", "10.0.0.10", "10.0.0.99")]).await;
    let request = v1::WatchRequest { after_revision: Some(0), filters: Vec::new() };
    let mut watch = served.client().watch(request);
    let before = served.revision();
    let mut seen = collect(&mut watch, before).await;
    served.apply(&[grant("a", "p"), grant("b", "p")]).await;
    let address = served.address.to_string();
    let replica = served.stop().await;
    let served = Served::start_with(replica, &address).await;
    served.apply(&[grant("c", "p")]).await;
    seen.extend(collect(&mut watch, served.revision()).await);
    assert_eq!(seen, (1..=served.revision()).collect::<Vec<u64>>());
}

#[tokio::test]
async fn a_filter_passes_over_the_rest_and_still_moves_on() {
    let served = Served::start().await;
    served.apply(&[ip_pool("p", "10.0.0.10", "10.0.0.99"), grant("a", "p"), grant("b", "p")]).await;
    let filter = v1::WatchFilter { concerns: Some(v1::watch_filter::Concerns::Named("b".into())) };
    let request = v1::WatchRequest { after_revision: Some(0), filters: vec![filter] };
    let mut watch = served.client().watch(request);
    let part = watch.next().await.expect("the first part");
    assert_eq!(part.changes.len(), 1);
    assert_eq!(part.revision, served.revision());
    served.apply(&[grant("c", "p")]).await;
    let part = watch.next().await.expect("it moves on");
    assert_eq!((part.changes.len(), part.revision), (0, served.revision()));
}

#[tokio::test]
async fn a_watch_without_a_revision_starts_at_the_latest() {
    let served = Served::start().await;
    served.apply(&[ip_pool("p", "10.0.0.10", "10.0.0.99")]).await;
    let mut watch = served.client().watch(v1::WatchRequest::default());
    let part = watch.next().await.expect("the first part");
    assert_eq!((part.changes.len(), part.revision), (0, served.revision()));
}

#[tokio::test]
async fn a_gap_that_is_too_old_is_told_with_what_is_left() {
    let served = Served::start().await;
    let settings = holdfast_statemachine::command::PutSettings { history_rows: Some(1_000), ..Default::default() };
    served.apply(&[holdfast_statemachine::Action::PutSettings(settings)]).await;
    served.apply(&[ip_pool("p", "10.0.1.0", "10.0.8.255")]).await;
    for batch in 0..3 {
        let grants: Vec<_> = (0..500).map(|n| grant(&format!("vm-{batch}-{n}"), "p")).collect();
        served.apply(&grants).await;
    }
    let request = v1::WatchRequest { after_revision: Some(0), filters: Vec::new() };
    let refused = served.client().watch(request).next().await;
    let Err(ClientError::TooOld { asked: 0, oldest }) = refused else { panic!("{refused:?}") };
    let request = v1::WatchRequest { after_revision: Some(oldest), filters: Vec::new() };
    let part = served.client().watch(request).next().await.expect("what is left");
    assert_eq!(part.changes[0].revision, oldest + 1);
}

#[tokio::test]
async fn a_revision_that_is_not_yet_is_refused() {
    let served = Served::start().await;
    let request = v1::WatchRequest { after_revision: Some(1), filters: Vec::new() };
    let refused = served.client().watch(request).next().await;
    let expected = ClientError::Invalid {
        field: "after_revision".into(),
        value: "1".into(),
        allowed: "at most 0, the group's revision".into(),
    };
    assert_eq!(refused, Err(expected));
}
