//! More addresses held than one object can show.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::scene::{Kind, Scene, pool, range, set};
use super::{Addresses, Kubelet};

/// Held by one StatefulSet.
const REPLICAS: u32 = 20_000;
/// The largest status that is written, in bytes of JSON.
const LARGEST: usize = 1 << 20;

/// The list is cut to what fits, running Pods' addresses first, and says so; the ledger has all, in one block.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_of_20_000_held_addresses() {
    let Some(scene) = Scene::start().await else { return };
    let _kubelet = Kubelet::of_scenes(scene.api.client.clone(), Addresses::Others);
    let space = scene.namespace("large").await;
    scene.api.create(Kind::IpPool, &pool("large", &[range("10.64.0.10", "10.64.127.250")], "10.64.0.1", 17)).await;
    let mut large = set(&space, "large", REPLICAS, "large");
    // One Pod after another, and the first never gets Ready: the Pods are not what is tested.
    large["spec"]["podManagementPolicy"] = "OrderedReady".into();
    large["spec"]["template"]["spec"]["readinessGates"] = json!([{"conditionType": "never"}]);
    large["metadata"]["annotations"] = json!({"holdfast.dev/when-scaled": "release"});
    scene.api.create(Kind::StatefulSet, &large).await;
    let entries = |pool: &Value| pool["status"]["ipAddresses"].as_array().cloned().unwrap_or_default();
    let all_used = |pool: Option<&Value>| {
        pool.is_some_and(|pool| {
            pool["status"]["usage"]["used"] == REPLICAS && entries(pool).iter().any(|it| it["phase"] == "Allocated")
        })
    };
    let shown = scene.api.until(Kind::IpPool, "", "large", "all addresses held", all_used).await.expect("is there");
    assert!(shown["status"].to_string().len() <= LARGEST, "{} bytes", shown["status"].to_string().len());
    let listed = entries(&shown);
    assert!(listed.len() < REPLICAS as usize && listed.len() > 4_000, "{} are listed", listed.len());
    assert!(listed.iter().any(|it| it["phase"] == "Allocated" && it["owner"]["pod"]["name"] == "large-0"));
    let addresses: Vec<IpAddr> =
        listed.iter().map(|it| it["ipAddress"].as_str().expect("text").parse().expect("an address")).collect();
    assert!(addresses.is_sorted());
    let ready = scene.condition(Kind::IpPool, "large", "Ready", "True", "InForce").await;
    let message = ready["message"].as_str().expect("text");
    assert!(
        message.contains(&format!("{} of the 20000 addresses held are left out", 20_000 - listed.len())),
        "{message}"
    );
    let held = scene.rows().await.addresses(&space, "large");
    assert_eq!(held.len(), REPLICAS as usize);
    let first = u32::from("10.64.0.10".parse::<std::net::Ipv4Addr>().expect("an address"));
    for (ordinal, addresses) in &held {
        assert_eq!(addresses, &[IpAddr::from(std::net::Ipv4Addr::from(first + ordinal))]);
    }
    // Few enough again, the list is whole again, and says nothing of itself.
    scene.scale(&space, "large", 10).await;
    let whole = |pool: Option<&Value>| pool.is_some_and(|pool| entries(pool).len() == 10);
    let shown = scene.api.until(Kind::IpPool, "", "large", "ten addresses held", whole).await.expect("is there");
    assert_eq!(shown["status"]["usage"]["used"], 10);
    let ready = scene.condition(Kind::IpPool, "large", "Ready", "True", "InForce").await;
    assert!(!ready["message"].as_str().expect("text").contains("left out"), "{ready}");
    scene.end().await;
}
