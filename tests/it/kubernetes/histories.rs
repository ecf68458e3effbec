//! Whatever happens to objects, in any order: at rest everything is as a naive reading of them requires.

use std::time::Instant;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::scene::{
    Kind, PATIENCE, Scene, egress, external_pool, name_of, namespace_of, node, pool, range, ready, set,
};
use super::{Addresses, Kubelet};

/// Steps of a history; `HOLDFAST_STEPS` sets another number.
const STEPS: u32 = 300;
/// Between two looks at everything.
const ROUND: u32 = 50;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

/// One history in the making.
struct History {
    scene: Scene,
    random: StdRng,
    namespaces: Vec<String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_random_history_comes_to_rest_as_it_must() {
    let seed = number("HOLDFAST_SEED").unwrap_or_else(rand::random);
    let steps = number("HOLDFAST_STEPS").map_or(STEPS, |steps| u32::try_from(steps).expect("a number"));
    println!("HOLDFAST_SEED={seed} repeats this history");
    let Some(scene) = Scene::start().await else { return };
    let _kubelet = Kubelet::of_scenes(scene.api.client.clone(), Addresses::Reserved);
    let namespaces = vec![scene.namespace("plain").await, scene.namespace("pooled").await];
    let pools = json!({"metadata": {"annotations": {"ipam.antrea.io/ippools": "p0"}}});
    scene.api.patch(Kind::Namespace, "", &namespaces[1], &pools).await;
    let mut history = History { scene, random: StdRng::seed_from_u64(seed), namespaces };
    for at in 0..3 {
        history.put_pool(at).await;
        history.scene.api.create(Kind::Node, &node(&format!("node{at}"))).await;
    }
    for step in 1..=steps {
        let done = history.step().await;
        println!("{step}: {done}");
        if step % ROUND == 0 {
            history.rest(seed, step).await;
        }
        if step % (2 * ROUND) == 0 {
            let leader = history.scene.leader().await;
            history.scene.group.kill(leader);
            history.scene.group.start_replica(leader);
        }
    }
    history.scene.settled().await;
    history.scene.end().await;
}

impl History {
    async fn rest(&self, seed: u64, step: u32) {
        let began = Instant::now();
        let rest = tokio::time::timeout(PATIENCE * 2, self.scene.settled()).await;
        assert!(rest.is_ok(), "HOLDFAST_SEED={seed}: no rest after step {step}");
        self.scene.check().await;
        println!("at rest {:?} after step {step}", began.elapsed());
    }

    fn up_to(&mut self, count: usize) -> usize {
        self.random.random_range(0..count)
    }

    async fn any(&mut self, kind: Kind) -> Option<Value> {
        let all = self.scene.api.list(kind).await;
        let mut all: Vec<_> = match kind {
            Kind::StatefulSet | Kind::Pod => {
                all.into_iter().filter(|object| namespace_of(object).starts_with("scene-")).collect()
            }
            _ => all,
        };
        if all.is_empty() {
            return None;
        }
        let at = self.up_to(all.len());
        Some(all.swap_remove(at))
    }

    async fn step(&mut self) -> String {
        match self.up_to(20) {
            0..=3 => self.create_set().await,
            4..=5 => self.change_set().await,
            6 => self.delete_set().await.unwrap_or_else(|| "nothing".to_owned()),
            7..=8 => self.end_pod().await,
            9 => {
                let at = self.up_to(4);
                self.put_pool(at).await
            }
            10 => self.delete(Kind::IpPool).await,
            11..=13 => self.put_egress().await,
            14 => self.delete(Kind::Egress).await,
            15 => self.put_external().await,
            16 => self.delete(Kind::ExternalIpPool).await,
            17 => self.delete(Kind::Node).await,
            _ => self.put_node().await,
        }
    }

    async fn delete(&mut self, kind: Kind) -> String {
        // Seldom, so that something is left to happen to.
        if self.up_to(2) == 0 {
            return "nothing".to_owned();
        }
        let Some(object) = self.any(kind).await else { return "nothing".to_owned() };
        self.scene.api.delete(kind, "", name_of(&object)).await;
        format!("delete {kind:?} {}", name_of(&object))
    }

    fn pools(&mut self) -> &'static str {
        ["p0", "p1", "p2", "p1,p0", "p0,p2", "p3,p1", ""][self.up_to(7)]
    }

    async fn create_set(&mut self) -> String {
        let at = self.up_to(2);
        let namespace = self.namespaces[at].clone();
        let name = format!("s{}", self.up_to(8));
        let object = self.another_set(&namespace, &name);
        self.create(&object).await
    }

    fn another_set(&mut self, namespace: &str, name: &str) -> Value {
        let mut object = set(namespace, name, u32::try_from(self.up_to(6)).expect("small"), self.pools());
        match self.up_to(4) {
            0 => object["metadata"]["annotations"] = json!({"holdfast.dev/when-scaled": "release"}),
            1 => object["metadata"]["annotations"] = json!({"holdfast.dev/headroom": "2"}),
            _ => {}
        }
        if self.up_to(4) == 0 {
            object["spec"]["ordinals"] = json!({"start": 3});
        }
        object
    }

    async fn create(&self, set: &Value) -> String {
        let of = format!("{}/{}", namespace_of(set), name_of(set));
        match self.scene.api.try_create(Kind::StatefulSet, set).await {
            Ok(_) => format!("create {of}"),
            Err(kube::Error::Api(status)) if status.code == 409 => "nothing".to_owned(),
            Err(error) => panic!("{error}"),
        }
    }

    async fn change_set(&mut self) -> String {
        let Some(set) = self.any(Kind::StatefulSet).await else { return "nothing".to_owned() };
        let change = match self.up_to(4) {
            0 => {
                let pools = self.pools();
                let pools = if pools.is_empty() { Value::Null } else { pools.into() };
                json!({"spec": {"template": {"metadata": {"annotations": {"ipam.antrea.io/ippools": pools}}}}})
            }
            _ => json!({"spec": {"replicas": self.up_to(7)}}),
        };
        self.scene.api.patch_if_there(Kind::StatefulSet, namespace_of(&set), name_of(&set), &change).await;
        format!("{}/{}: {change}", namespace_of(&set), name_of(&set))
    }

    /// Deletes one, or puts another in its place.
    async fn delete_set(&mut self) -> Option<String> {
        let set = self.any(Kind::StatefulSet).await?;
        let (namespace, name) = (namespace_of(&set), name_of(&set));
        let orphan = self.up_to(3) == 0;
        if orphan {
            self.scene.api.orphan(Kind::StatefulSet, namespace, name).await;
        } else {
            self.scene.api.delete(Kind::StatefulSet, namespace, name).await;
        }
        let mut done = format!("delete {namespace}/{name}, orphaning {orphan}");
        if self.up_to(2) == 0 {
            let another = self.another_set(namespace, name);
            done += "; ";
            done += &self.create(&another).await;
        }
        Some(done)
    }

    async fn end_pod(&mut self) -> String {
        let Some(pod) = self.any(Kind::Pod).await else { return "nothing".to_owned() };
        self.scene.api.delete(Kind::Pod, namespace_of(&pod), name_of(&pod)).await;
        format!("delete Pod {}/{}", namespace_of(&pod), name_of(&pod))
    }

    /// Makes a pool, or gives one another size.
    async fn put_pool(&mut self, at: usize) -> String {
        let name = format!("p{at}");
        let last = 3 + self.up_to(20);
        let (start, end, gateway, prefix_length) = match at {
            2 => ("2001:db8::10".to_owned(), format!("2001:db8::{:x}", 16 + last), "2001:db8::1".to_owned(), 64),
            at => (format!("10.3.{at}.10"), format!("10.3.{at}.{}", 10 + last), format!("10.3.{at}.1"), 24),
        };
        self.put(Kind::IpPool, pool(&name, &[range(&start, &end)], &gateway, prefix_length)).await
    }

    async fn put_external(&mut self) -> String {
        let at = self.up_to(2);
        let end = format!("192.0.{at}.{}", 1 + self.up_to(6));
        let mut external = external_pool(&format!("x{at}"), &[range(&format!("192.0.{at}.1"), &end)]);
        if self.up_to(2) == 0 {
            external["spec"]["nodeSelector"] = json!({"matchLabels": {"egress": "yes"}});
        }
        self.put(Kind::ExternalIpPool, external).await
    }

    async fn put_egress(&mut self) -> String {
        let at = self.up_to(2);
        let mut fields = json!({"externalIPPool": format!("x{at}")});
        if self.up_to(3) == 0 {
            fields["egressIP"] = format!("192.0.{at}.{}", 1 + self.up_to(7)).into();
        }
        let name = format!("e{}", self.up_to(10));
        self.put(Kind::Egress, egress(&name, &fields)).await
    }

    async fn put_node(&mut self) -> String {
        let name = format!("node{}", self.up_to(5));
        let mut object = node(&name);
        object["metadata"]["labels"]["egress"] = ["yes", "no"][self.up_to(2)].into();
        if self.up_to(2) == 0 {
            let capacity = self.up_to(4).to_string();
            object["metadata"]["annotations"] = json!({"node.antrea.io/max-egress-ips": capacity});
        }
        let status = ["True", "True", "False", "Unknown"][self.up_to(4)];
        let done = self.put(Kind::Node, object).await;
        let status = json!({"status": {"conditions": [ready(status)]}});
        self.scene.api.patch_status(Kind::Node, "", &name, "kubelet", &status).await;
        format!("{done} {status}")
    }

    /// Makes an object, or changes it to be so.
    async fn put(&mut self, kind: Kind, object: Value) -> String {
        match self.scene.api.try_create(kind, &object).await {
            Ok(_) => format!("create {kind:?} {object}"),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                self.scene.api.patch_if_there(kind, "", name_of(&object), &object).await;
                format!("change {kind:?} {object}")
            }
            Err(error) => panic!("{error}"),
        }
    }
}
