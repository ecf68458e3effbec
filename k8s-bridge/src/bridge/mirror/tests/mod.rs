//! The mirror between a ledger and an API server, both in memory.

mod api;
mod scene;

use http::Method;
use serde_json::{Value, json};

use super::requests::MANAGER;
use crate::bridge::key::Key;
use crate::bridge::office::Refusal;
use crate::objects::Kind;
use api::sign;
use scene::{Scene, node, told, writes};

fn pool() -> Value {
    json!({
        "metadata": {"name": "p", "uid": "pool-1", "generation": 1},
        "spec": {"ipRanges": [{"start": "1.1.1.2", "end": "1.1.1.9"}], "nodeSelector": {}},
    })
}

fn egress(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "uid": format!("egress-{name}"), "generation": 1},
        "spec": {"appliedTo": {}, "externalIPPool": "p"},
    })
}

/// A pool, a Node and an Egress, written whole.
async fn settled() -> Scene {
    let mut scene = Scene::new();
    scene.create("externalippools/p", &pool());
    scene.ledger.apply(vec![node("n")]);
    scene.create("egresses/web", &egress("web"));
    scene.start();
    scene.requests(|made| writes(made).len() == 3).await;
    scene.rest().await;
    scene
}

#[tokio::test]
async fn the_spec_is_written_before_the_status_that_shows_it_and_then_nothing() {
    let mut scene = settled().await;
    let made = writes(&scene.requests(|_| true).await);
    let at = |what: &str| made.iter().position(|it| it == what).expect(what);
    assert!(at("PATCH egresses/web 200") < at("PUT egresses/web/status 200"), "{made:?}");
    let web = scene.api.get("egresses/web");
    assert_eq!(web["spec"]["egressIP"], "1.1.1.2");
    assert_eq!((&web["status"]["egressIP"], &web["status"]["egressNode"]), (&json!("1.1.1.2"), &json!("n")));
    assert_eq!(web["status"]["conditions"][0]["observedGeneration"], 1);
    assert_eq!(web["status"]["holdfast"]["cluster"], scene::CLUSTER);
    // The informer shows what was written, a list shows it again: nothing is written.
    for _ in 0..2 {
        for path in ["egresses/web", "externalippools/p"] {
            scene.show(path);
        }
        scene.rest().await;
    }
    assert_eq!(writes(&scene.requests(|_| true).await).len(), 3);
    scene.requests(|made| told(made, "Allocated")).await;
}

#[tokio::test]
async fn a_conflict_is_answered_by_a_question_and_an_older_version_in_the_cache_is_passed_over() {
    let mut scene = settled().await;
    // The object changes, and the informer does not show it yet.
    scene.api.put("externalippools/p", |there| there["metadata"]["labels"] = json!({"a": "b"}));
    scene.create("egresses/two", &egress("two"));
    let made = writes(&scene.requests(|made| writes(made).len() >= 8).await);
    let of_pool: Vec<&String> = made[3..].iter().filter(|it| it.contains("externalippools")).collect();
    let expected =
        ["PUT externalippools/p/status 409", "GET externalippools/p 200", "PUT externalippools/p/status 200"];
    assert_eq!(of_pool, expected);
    assert_eq!(scene.api.get("externalippools/p")["status"]["usage"]["used"], 2);
}

#[tokio::test]
async fn a_status_of_a_newer_state_is_left_alone_and_one_of_another_group_is_not() {
    let mut scene = settled().await;
    let newer = |cluster: &'static str| {
        move |there: &mut Value| {
            there["status"]["holdfast"] = json!({"cluster": cluster, "index": 1_000_000});
            there["status"]["usage"]["used"] = 7.into();
            sign(there, MANAGER, "status");
        }
    };
    scene.edit("externalippools/p", newer(scene::CLUSTER));
    scene.rest().await;
    assert_eq!(writes(&scene.requests(|_| true).await).len(), 3);
    scene.edit("externalippools/p", newer("another"));
    scene.requests(|made| writes(made).len() == 4).await;
    assert_eq!(scene.api.get("externalippools/p")["status"]["usage"]["used"], 1);
}

#[tokio::test]
async fn what_fails_is_tried_again_and_what_is_gone_is_dropped() {
    let mut scene = settled().await;
    scene.api.fail_next("egresses/two", 429, json!({"retryAfterSeconds": 1}));
    scene.api.fail_next("egresses/two", 500, Value::Null);
    scene.create("egresses/two", &egress("two"));
    scene.requests(|made| writes(made).iter().any(|it| it == "PUT egresses/two/status 200")).await;
    let state = scene.rest().await;
    assert!(state.last_error.is_some_and(|(_, why)| why.contains("told to")));
    assert_eq!(scene.api.get("egresses/two")["spec"]["egressIP"], "1.1.1.3");
    scene.create("egresses/three", &egress("three"));
    scene.api.remove("egresses/three");
    let made = scene.requests(|made| writes(made).iter().any(|it| it.ends_with("404"))).await;
    scene.rest().await;
    assert!(!writes(&made).iter().any(|it| it.contains("three") && it.ends_with("200")));
}

#[tokio::test]
async fn a_hand_edit_is_put_right_and_the_fifth_in_a_minute_raises_an_alarm() {
    let mut scene = settled().await;
    for times in 1..=5 {
        scene.edit("externalippools/p", |there| {
            there["status"]["usage"]["used"] = 7.into();
            // Higher than any index of ours: it is not ours.
            there["status"]["holdfast"]["index"] = 1_000_000.into();
            sign(there, "kubectl-edit", "status");
        });
        scene.report(|state| state.repairs == times).await;
        assert_eq!(scene.api.get("externalippools/p")["status"]["usage"]["used"], 1);
        scene.show("externalippools/p");
        scene.rest().await;
    }
    let state = scene.office.report.state();
    let key = Key::cluster(Kind::ExternalIpPool, "p".into());
    assert_eq!(state.contested.get(&key).map(String::as_str), Some("kubectl-edit"));
    scene.requests(|made| told(made, "StatusRestored") && told(made, "Contested")).await;
    // From now on it waits for a minute.
    let before = writes(&scene.requests(|_| true).await).len();
    scene.edit("externalippools/p", |there| {
        there["status"]["usage"]["used"] = 8.into();
        sign(there, "kubectl-edit", "status");
    });
    scene.report(|state| state.unwritten == 1 && scene.office.mirror.due() == 0).await;
    assert_eq!(writes(&scene.requests(|_| true).await).len(), before);
}

#[tokio::test]
async fn a_chosen_address_that_somebody_took_away_is_written_back() {
    let mut scene = settled().await;
    scene.show("egresses/web");
    scene.edit("egresses/web", |there| {
        there["spec"].as_object_mut().expect("is one").remove("egressIP");
        there["metadata"]["managedFields"] = json!([]);
    });
    let state = scene.report(|state| state.repairs == 1).await;
    assert_eq!(state.spec_writes, 2);
    assert_eq!(scene.api.get("egresses/web")["spec"]["egressIP"], "1.1.1.2");
    scene.requests(|made| told(made, "SpecRestored")).await;
}

#[tokio::test]
async fn a_refusal_is_shown_and_goes_again() {
    let mut scene = settled().await;
    let key = Key::cluster(Kind::ExternalIpPool, "p".into());
    let refusal = Refusal { code: "Malformed", message: "no".into(), generation: Some(2) };
    scene.office.refusals.set(&key, Some(refusal));
    scene.office.mirror.add(key.clone());
    scene.requests(|made| writes(made).len() == 4).await;
    let ready = |scene: &Scene| scene.api.get("externalippools/p")["status"]["conditions"][1].clone();
    let shown = ready(&scene);
    assert_eq!(
        (&shown["type"], &shown["status"], &shown["reason"]),
        (&json!("Ready"), &json!("False"), &json!("Malformed"))
    );
    assert_eq!(
        (&shown["message"], &shown["observedGeneration"]),
        (&json!("no; what was last accepted stays in force"), &json!(2))
    );
    scene.office.refusals.set(&key, None);
    scene.office.mirror.add(key);
    let made = scene.requests(|made| writes(made).len() == 5).await;
    assert_eq!(ready(&scene)["status"], "True");
    assert!(made.iter().all(|made| made.method != Method::GET));
}
