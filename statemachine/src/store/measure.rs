use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use super::*;
use crate::change::{Cause, Event};
use crate::row::*;
use crate::{Applied, Name};

#[test]
#[ignore]
fn measure() {
    let n: u32 = 300_000;
    let batch: u32 = std::env::var("BATCH").ok().and_then(|b| b.parse().ok()).unwrap_or(16);
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("s"), Options::default()).unwrap().store;
    let pool = PoolId { kind: PoolKind::IpPool, name: "pool".into() };
    let api: Name = "api".into();
    let gname: Name = "Grant".into();
    let holder = |i: u32| Holder::Pod {
        pod: PodRef {
            namespace: "default".into(),
            name: format!("pod-{}", i.wrapping_mul(2_654_435_761)).into(),
            uid: format!("a84a0466-4b58-4a77-8b3c-{i:012}").into(),
            container_id: None,
            interface: None,
        },
        source: crate::Source::Api,
    };
    let mut rows = vec![(Key::Clock, Row::Clock(Clock { revision: n.into(), time: 1, placements: 0 }))];
    let mut changes = Vec::new();
    for i in 1..=n {
        let address = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + i));
        let stamp = Stamp { revision: i.into(), index: 5, at: 1 };
        rows.push((Key::Grant(address), Row::Grant(GrantRow { pool: pool.clone(), holder: holder(i), stamp })));
        changes.push(Change {
            revision: i.into(),
            index: 5,
            at: 1,
            cause: Cause::Command { name: gname.clone(), object: format!("pod-{i}").into(), source: api.clone() },
            event: Event::Granted { address, pool: pool.clone(), holder: holder(i) },
        });
    }
    let ledger = Ledger::from_rows(rows).unwrap();
    *exclusive(&store.ledger) = ledger;
    let start = Instant::now();
    for chunk in changes.chunks(batch as usize) {
        let mut touched: BTreeSet<Key> = chunk
            .iter()
            .map(|c| match &c.event {
                Event::Granted { address, .. } => Key::Grant(*address),
                _ => unreachable!(),
            })
            .collect();
        touched.insert(Key::Clock);
        let chunk = chunk.to_vec();
        store.apply_with(&[7; 120], |_| Applied { outcomes: vec![], changes: chunk, touched }).unwrap();
        if chunk_end(&store) % 60000 < batch as u64 {
            eprintln!("{} at {:?}", chunk_end(&store), start.elapsed());
        }
    }
    let took = start.elapsed();
    eprintln!("batch {batch}: {:?} a grant; {:?}", took / n, store.meta());
    let t = Instant::now();
    store.flush().unwrap();
    eprintln!("flush {:?}", t.elapsed());
    let store = std::sync::Arc::new(store);
    let t = Instant::now();
    let snap = dir.path().join("snap");
    store.begin_snapshot().write_to(&snap).unwrap();
    eprintln!("snapshot {:?} {} bytes", t.elapsed(), snap.metadata().unwrap().len());
    let t = Instant::now();
    eprintln!("check {:?} {:?}", store.check(), t.elapsed());
    drop(store);
    eprintln!(
        "{}",
        String::from_utf8(
            std::process::Command::new("du").arg("-sh").arg(dir.path().join("s")).output().unwrap().stdout
        )
        .unwrap()
    );
    let t = Instant::now();
    let opened = Store::open(&dir.path().join("s"), Options::default()).unwrap();
    eprintln!("open {:?} {:?}", t.elapsed(), opened.set_aside);
    let t = Instant::now();
    opened.store.install(&snap).unwrap();
    eprintln!("install {:?}", t.elapsed());
}
fn chunk_end(s: &Store) -> u64 {
    s.history_extent().last()
}
