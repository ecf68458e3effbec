//! StatefulSets and IPPools, as Antrea's own tests use them, and beyond what Antrea does.

use serde_json::{Value, json};

use super::scene::{Kind, Scene, cidr, entries, pool, range, run_of, set};
use super::{Addresses, Kubelet};

/// A scene with kubelets that give Pods what is reserved for them.
async fn scene() -> Option<(Scene, Kubelet)> {
    let scene = Scene::start().await?;
    let kubelet = Kubelet::of_scenes(scene.api.client.clone(), Addresses::Reserved);
    Some((scene, kubelet))
}

/// A pool of 10.2.2.100 to this last byte.
fn pool_to(name: &str, last: u8) -> Value {
    pool(name, &[range("10.2.2.100", &format!("10.2.2.{last}"))], "10.2.2.1", 24)
}

fn ranges(ranges: &[Value]) -> Value {
    json!({"spec": {"ipRanges": ranges}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn antreas_own_flow_of_5_11_7_and_20() {
    let Some((scene, _kubelet)) = scene().await else { return };
    let api = &scene.api;
    let space = scene.namespace("flow").await;
    api.create(Kind::IpPool, &pool_to("flow", 110)).await;
    scene.used("flow", 0, 11).await;
    for replicas in [5, 11] {
        api.create(Kind::StatefulSet, &set(&space, "web", replicas, "flow")).await;
        scene.holds("flow", (&space, "web"), 0, &run_of("10.2.2.100", replicas)).await;
        let pods = scene.runs(&space, "web", 0..replicas).await;
        for (ordinal, pod) in pods {
            assert_eq!(pod["status"]["podIP"], run_of("10.2.2.100", replicas)[ordinal as usize]);
        }
        let world = scene.settled().await;
        assert!(entries(&world.pools["flow"], &space, "web").iter().all(|(_, _, phase)| phase == "Allocated"));
        let told = scene.event(Kind::StatefulSet, "web", "Reserved").await;
        assert!(told.contains("10.2.2.100"), "{told}");
        api.delete(Kind::StatefulSet, &space, "web").await;
        scene.used("flow", 0, 11).await;
    }
    api.patch(Kind::Namespace, "", &space, &json!({"metadata": {"annotations": {"ipam.antrea.io/ippools": "flow"}}}))
        .await;
    api.create(Kind::StatefulSet, &set(&space, "by-namespace", 7, "")).await;
    scene.holds("flow", (&space, "by-namespace"), 0, &run_of("10.2.2.100", 7)).await;
    scene.used("flow", 7, 11).await;
    let columns = scene.control_plane().kubectl(&["get", "ipp", "flow"]).expect(0).out;
    let columns: Vec<_> = columns.lines().nth(1).expect("a row").split_whitespace().take(3).collect();
    assert_eq!(columns, ["flow", "11", "7"]);
    api.delete(Kind::StatefulSet, &space, "by-namespace").await;
    scene.used("flow", 0, 11).await;
    api.create(Kind::StatefulSet, &set(&space, "large", 20, "flow")).await;
    let told = scene.event(Kind::StatefulSet, "large", "Waiting").await;
    assert!(told.contains("20") && told.contains("11"), "{told}");
    let world = scene.settled().await;
    assert_eq!(entries(&world.pools["flow"], &space, "large"), []);
    // What waited gets its addresses as soon as they are there.
    api.patch(Kind::IpPool, "", "flow", &ranges(&[range("10.2.2.100", "10.2.2.110"), cidr("10.2.2.128/26")])).await;
    scene.holds("flow", (&space, "large"), 0, &run_of("10.2.2.129", 20)).await;
    scene.settled().await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scaling() {
    let Some((scene, _kubelet)) = scene().await else { return };
    let space = scene.namespace("scale").await;
    scene.api.create(Kind::IpPool, &pool_to("scale", 120)).await;
    scene.api.create(Kind::StatefulSet, &set(&space, "web", 3, "scale")).await;
    let first = run_of("10.2.2.100", 3);
    scene.holds("scale", (&space, "web"), 0, &first).await;
    scene.scale(&space, "web", 5).await;
    scene.holds("scale", (&space, "web"), 0, &run_of("10.2.2.100", 5)).await;
    scene.runs(&space, "web", 0..5).await;
    scene.settled().await;

    // Retained while it is at nothing, so that another one does not get them.
    scene.scale(&space, "web", 0).await;
    for ordinal in 0..5 {
        scene.api.until(Kind::Pod, &space, &format!("web-{ordinal}"), "no Pod", |it| it.is_none()).await;
    }
    let world = scene.settled().await;
    let kept = entries(&world.pools["scale"], &space, "web");
    assert_eq!(kept.len(), 5);
    assert!(kept.iter().all(|(_, _, phase)| phase == "Reserved"), "{kept:?}");
    scene.api.create(Kind::StatefulSet, &set(&space, "other", 2, "scale")).await;
    scene.holds("scale", (&space, "other"), 0, &run_of("10.2.2.105", 2)).await;
    scene.scale(&space, "web", 5).await;
    let pods = scene.runs(&space, "web", 0..5).await;
    assert_eq!(pods[&4]["status"]["podIP"], "10.2.2.104");
    scene.settled().await;

    // A Pod that is killed comes back to its address.
    let uid = pods[&2]["metadata"]["uid"].clone();
    scene.api.delete(Kind::Pod, &space, "web-2").await;
    let another = |pod: Option<&Value>| {
        pod.is_some_and(|pod| pod["metadata"]["uid"] != uid && pod["status"]["podIP"] == "10.2.2.102")
    };
    scene.api.until(Kind::Pod, &space, "web-2", "another UID and the same address", another).await;
    scene.settled().await;
    released_when_the_pod_is_gone(&scene, &space).await;
    from_another_first_ordinal(&scene, &space).await;
    scene.end().await;
}

/// With `when-scaled: release`, an ordinal's address is free once its Pod is gone, and not before.
async fn released_when_the_pod_is_gone(scene: &Scene, space: &str) {
    let mut released = set(space, "released", 3, "scale");
    released["metadata"]["annotations"] = json!({"holdfast.dev/when-scaled": "release"});
    scene.api.create(Kind::StatefulSet, &released).await;
    let addresses = run_of("10.2.2.107", 3);
    scene.holds("scale", (space, "released"), 0, &addresses).await;
    scene.runs(space, "released", 0..3).await;
    // Its end takes as long as this stands.
    let held = json!({"metadata": {"finalizers": ["scene.test/held"]}});
    scene.api.patch(Kind::Pod, space, "released-2", &held).await;
    scene.scale(space, "released", 1).await;
    let ending = |pod: Option<&Value>| pod.is_some_and(|pod| pod["metadata"]["deletionTimestamp"].is_string());
    scene.api.until(Kind::Pod, space, "released-2", "an end", ending).await;
    scene.seen().await;
    let pool = scene.api.get(Kind::IpPool, "", "scale").await.expect("is there");
    let left = entries(&pool, space, "released");
    assert!(left.contains(&(2, "10.2.2.109".to_owned(), "Allocated".to_owned())), "{left:?}");
    scene.api.patch(Kind::Pod, space, "released-2", &json!({"metadata": {"finalizers": null}})).await;
    scene.holds("scale", (space, "released"), 0, &addresses[..1]).await;
    scene.settled().await;
}

/// The first ordinal has the lowest address, whatever its number; earlier ones come before it and later ones behind.
async fn from_another_first_ordinal(scene: &Scene, space: &str) {
    let mut numbered = set(space, "numbered", 2, "scale");
    numbered["spec"]["ordinals"] = json!({"start": 7});
    scene.api.create(Kind::StatefulSet, &numbered).await;
    scene.holds("scale", (space, "numbered"), 7, &run_of("10.2.2.108", 2)).await;
    scene.runs(space, "numbered", 7..9).await;
    scene.scale(space, "numbered", 4).await;
    scene.holds("scale", (space, "numbered"), 7, &run_of("10.2.2.108", 4)).await;
    scene.settled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stateful_set_that_goes_and_comes_again() {
    let Some((mut scene, _kubelet)) = scene().await else { return };
    let space = scene.namespace("again").await;
    scene.api.create(Kind::IpPool, &pool_to("again", 120)).await;
    scene.api.create(Kind::StatefulSet, &set(&space, "web", 4, "again")).await;
    let addresses = run_of("10.2.2.100", 4);
    scene.holds("again", (&space, "web"), 0, &addresses).await;
    let before = scene.runs(&space, "web", 0..4).await;

    // Its Pods run on without it, and keep what they have.
    scene.api.orphan(Kind::StatefulSet, &space, "web").await;
    scene.api.until(Kind::StatefulSet, &space, "web", "no StatefulSet", |it| it.is_none()).await;
    scene.seen().await;
    scene.settled().await;
    scene.holds("again", (&space, "web"), 0, &addresses).await;
    scene.api.create(Kind::StatefulSet, &set(&space, "taker", 2, "again")).await;
    scene.holds("again", (&space, "taker"), 0, &run_of("10.2.2.104", 2)).await;
    // A new one adopts the Pods, and goes on from there.
    scene.api.create(Kind::StatefulSet, &set(&space, "web", 5, "again")).await;
    scene.runs(&space, "web", 0..5).await;
    let world = scene.settled().await;
    let held: Vec<_> = entries(&world.pools["again"], &space, "web").into_iter().map(|it| it.1).collect();
    assert_eq!(held[..4], addresses);
    let after = &world.pods[&(space.clone(), "web-3".to_owned())];
    assert_eq!(after["metadata"]["uid"], before[&3]["metadata"]["uid"], "the Pod was adopted");

    // Deleted and made again at another size while nobody looks.
    for replica in 0..3 {
        scene.group.kill(replica);
    }
    scene.api.delete(Kind::StatefulSet, &space, "web").await;
    for ordinal in 0..5 {
        scene.api.until(Kind::Pod, &space, &format!("web-{ordinal}"), "no Pod", |it| it.is_none()).await;
    }
    scene.api.create(Kind::StatefulSet, &set(&space, "web", 2, "again")).await;
    scene.api.until(Kind::Pod, &space, "web-1", "a Pod", |it| it.is_some()).await;
    for replica in 0..3 {
        scene.group.start_replica(replica);
    }
    // The new one takes over what it wants of what the former one had; the rest goes, as by default when one is deleted.
    scene.holds("again", (&space, "web"), 0, &addresses[..2]).await;
    scene.runs(&space, "web", 0..2).await;
    scene.settled().await;

    scene.api.delete(Kind::Namespace, "", &space).await;
    scene.used("again", 0, 21).await;
    scene.settled().await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pools_changed_under_a_partition_and_rolled_back() {
    let Some((scene, _kubelet)) = scene().await else { return };
    let space = scene.namespace("rolling").await;
    scene.api.create(Kind::IpPool, &pool_to("old", 120)).await;
    scene.api.create(Kind::IpPool, &pool("new", &[range("10.2.3.100", "10.2.3.120")], "10.2.3.1", 24)).await;
    scene.api.create(Kind::StatefulSet, &set(&space, "web", 3, "old")).await;
    let (old, new) = (run_of("10.2.2.100", 3), run_of("10.2.3.100", 3));
    scene.holds("old", (&space, "web"), 0, &old).await;
    scene.runs(&space, "web", 0..3).await;
    let to = |pools: &str, partition: u32| {
        json!({"spec": {
            "template": {"metadata": {"annotations": {"ipam.antrea.io/ippools": pools}}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}},
        }})
    };
    let address = async |ordinal: usize, address: &str| {
        let has = |pod: Option<&Value>| pod.is_some_and(|pod| pod["status"]["podIP"] == address);
        scene.api.until(Kind::Pod, &space, &format!("web-{ordinal}"), address, has).await;
    };
    // One Pod is made anew. Both blocks are held whole.
    scene.api.patch(Kind::StatefulSet, &space, "web", &to("new", 2)).await;
    scene.holds("new", (&space, "web"), 0, &new).await;
    address(2, "10.2.3.102").await;
    scene.holds("old", (&space, "web"), 0, &old).await;
    scene.settled().await;
    // A Pod of the old revision is made again with what the old template says.
    scene.api.delete(Kind::Pod, &space, "web-0").await;
    let world = scene.settled().await;
    assert_eq!(entries(&world.pools["old"], &space, "web").len(), 3);
    address(0, "10.2.2.100").await;
    // Back again: the new block goes once no Pod uses it.
    scene.api.patch(Kind::StatefulSet, &space, "web", &to("old", 0)).await;
    address(2, "10.2.2.102").await;
    scene.holds_none("new", (&space, "web")).await;
    scene.holds("old", (&space, "web"), 0, &old).await;
    scene.settled().await;
    // And through.
    scene.api.patch(Kind::StatefulSet, &space, "web", &to("new", 0)).await;
    for (ordinal, to) in new.iter().enumerate() {
        address(ordinal, to).await;
    }
    scene.holds_none("old", (&space, "web")).await;
    scene.settled().await;
    let told = scene.event(Kind::StatefulSet, "web", "Moved").await;
    assert!(told.contains("new"), "{told}");
    the_old_block_waits_for_pods_to_come(&scene, &space).await;
    scene.end().await;
}

/// Pods that the old template will make are not there at the moment: nobody uses the old block, and it stays.
async fn the_old_block_waits_for_pods_to_come(scene: &Scene, space: &str) {
    let mut one = set(space, "one", 1, "old");
    one["spec"]["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}});
    scene.api.create(Kind::StatefulSet, &one).await;
    let old = run_of("10.2.2.100", 1);
    scene.holds("old", (space, "one"), 0, &old).await;
    scene.runs(space, "one", 0..1).await;
    let moved = json!({"spec": {"template": {"metadata": {"annotations": {"ipam.antrea.io/ippools": "new"}}}}});
    scene.api.patch(Kind::StatefulSet, space, "one", &moved).await;
    scene.holds("new", (space, "one"), 0, &run_of("10.2.3.103", 1)).await;
    // Between the one and the other nobody uses the old block.
    let uid = scene.api.get(Kind::Pod, space, "one-0").await.expect("is there")["metadata"]["uid"].clone();
    scene.api.delete(Kind::Pod, space, "one-0").await;
    let another = |pod: Option<&Value>| {
        pod.is_some_and(|pod| pod["metadata"]["uid"] != uid && pod["status"]["podIP"] == "10.2.2.100")
    };
    scene.api.until(Kind::Pod, space, "one-0", "another UID and the former address", another).await;
    scene.settled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fixed_addresses_and_two_families() {
    let Some((scene, _kubelet)) = scene().await else { return };
    let space = scene.namespace("families").await;
    scene.api.create(Kind::IpPool, &pool_to("four", 120)).await;
    scene.api.create(Kind::IpPool, &pool("six", &[range("2001:db8::10", "2001:db8::13")], "2001:db8::1", 64)).await;
    scene.api.create(Kind::StatefulSet, &set(&space, "both", 2, "four, six")).await;
    let six = run_of("2001:db8::10", 2);
    scene.holds("four", (&space, "both"), 0, &run_of("10.2.2.100", 2)).await;
    scene.holds("six", (&space, "both"), 0, &six).await;
    let pods = scene.runs(&space, "both", 0..2).await;
    assert_eq!(pods[&1]["status"]["podIPs"], json!([{"ip": "10.2.2.101"}, {"ip": "2001:db8::11"}]));
    scene.settled().await;
    // Together or not at all: there are but two of the second family.
    scene.api.create(Kind::StatefulSet, &set(&space, "too-many", 3, "six,four")).await;
    scene.event(Kind::StatefulSet, "too-many", "Waiting").await;
    let world = scene.settled().await;
    assert_eq!(entries(&world.pools["four"], &space, "too-many"), []);
    scene.api.delete(Kind::StatefulSet, &space, "too-many").await;

    let mut fixed = set(&space, "fixed", 2, "four,six");
    fixed["spec"]["template"]["metadata"]["annotations"]["ipam.antrea.io/pod-ips"] =
        "10.2.2.115, 2001:db8::13,, 10.2.2.110,2001:db8::12".into();
    scene.api.create(Kind::StatefulSet, &fixed).await;
    scene.holds("four", (&space, "fixed"), 0, &["10.2.2.115".to_owned(), "10.2.2.110".to_owned()]).await;
    scene.holds("six", (&space, "fixed"), 0, &["2001:db8::13".to_owned(), "2001:db8::12".to_owned()]).await;
    scene.runs(&space, "fixed", 0..2).await;
    scene.settled().await;
    // The list is too short for a third, which waits; the others keep theirs.
    scene.scale(&space, "fixed", 3).await;
    let told = scene.event(Kind::StatefulSet, "fixed", "Waiting").await;
    assert!(told.contains("fixed") || told.contains("pod-ips"), "{told}");
    scene.settled().await;
    // One that is another's already.
    let mut taken = set(&space, "taken", 1, "four");
    taken["spec"]["template"]["metadata"]["annotations"]["ipam.antrea.io/pod-ips"] = "10.2.2.100".into();
    scene.api.create(Kind::StatefulSet, &taken).await;
    let told = scene.event(Kind::StatefulSet, "taken", "Waiting").await;
    assert!(told.contains("10.2.2.100"), "{told}");
    scene.api.delete(Kind::StatefulSet, &space, "both").await;
    scene.holds("four", (&space, "taken"), 0, &["10.2.2.100".to_owned()]).await;
    scene.settled().await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pools_that_come_change_and_go() {
    let Some((scene, _kubelet)) = scene().await else { return };
    let space = scene.namespace("pools").await;
    let of = (space.as_str(), "web");
    scene.api.create(Kind::StatefulSet, &set(&space, "web", 3, "pools")).await;
    let told = scene.event(Kind::StatefulSet, "web", "Waiting").await;
    assert!(told.contains("pools"), "{told}");
    scene.api.create(Kind::IpPool, &pool_to("pools", 103)).await;
    scene.holds("pools", of, 0, &run_of("10.2.2.100", 3)).await;
    scene.runs(&space, "web", 0..3).await;
    // Extended at its end: growth goes on in the same block.
    scene.api.patch(Kind::IpPool, "", "pools", &ranges(&[range("10.2.2.100", "10.2.2.109")])).await;
    scene.scale(&space, "web", 6).await;
    scene.holds("pools", of, 0, &run_of("10.2.2.100", 6)).await;
    scene.runs(&space, "web", 0..6).await;
    scene.settled().await;
    // Shrunk to what is held, and no further: the ranges last accepted stay in force.
    scene.api.patch(Kind::IpPool, "", "pools", &ranges(&[range("10.2.2.100", "10.2.2.106")])).await;
    scene.used("pools", 6, 7).await;
    scene.api.patch(Kind::IpPool, "", "pools", &ranges(&[range("10.2.2.100", "10.2.2.104")])).await;
    let ready = scene.condition(Kind::IpPool, "pools", "Ready", "False", "RangeStillHeld").await;
    assert!(ready["message"].as_str().is_some_and(|it| it.contains("10.2.2.105")), "{ready}");
    scene.used("pools", 6, 7).await;
    scene.settled().await;
    // It shrinks once the address is free.
    scene
        .api
        .patch(
            Kind::StatefulSet,
            &space,
            "web",
            &json!({"metadata": {"annotations": {"holdfast.dev/when-scaled": "release"}}}),
        )
        .await;
    scene.scale(&space, "web", 4).await;
    scene.condition(Kind::IpPool, "pools", "Ready", "True", "InForce").await;
    scene.used("pools", 4, 5).await;
    scene.settled().await;

    // Deleted while it is held: the Pods keep their addresses, which nobody else gets.
    scene.api.delete(Kind::IpPool, "", "pools").await;
    scene.api.until(Kind::IpPool, "", "pools", "no pool", |it| it.is_none()).await;
    scene.seen().await;
    let rows = scene.rows().await;
    assert_eq!(rows.addresses(&space, "web").len(), 4);
    let other = pool("other", &[range("10.2.2.102", "10.2.2.112")], "10.2.2.1", 24);
    scene.api.create(Kind::IpPool, &other).await;
    scene.condition(Kind::IpPool, "other", "Ready", "False", "PoolOverlap").await;
    scene.api.delete(Kind::IpPool, "", "other").await;
    // Made again with other ranges: what lies inside them stays.
    scene.api.create(Kind::IpPool, &pool("pools", &[range("10.2.2.102", "10.2.2.112")], "10.2.2.1", 24)).await;
    let inside = |pool: Option<&Value>| {
        pool.is_some_and(|pool| {
            let held: Vec<_> = entries(pool, &space, "web").into_iter().map(|it| (it.0, it.1)).collect();
            held.contains(&(2, "10.2.2.102".to_owned())) && held.contains(&(3, "10.2.2.103".to_owned()))
        })
    };
    scene.api.until(Kind::IpPool, "", "pools", "what lies inside", inside).await;
    // The others find new ones there, for when their Pods are made anew.
    scene.api.delete(Kind::Pod, &space, "web-0").await;
    scene.runs(&space, "web", 0..4).await;
    scene.settled().await;
    scene.end().await;
}
