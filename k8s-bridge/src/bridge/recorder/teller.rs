//! Writes Events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::{sleep, sleep_until, timeout};
use tracing::debug;

use super::Telling;
use super::series::{Same, Series, Written};
use crate::bridge::mirror::{Budget, MANAGER};
use crate::bridge::office::Office;
use crate::ledger::Ledger;

/// How the bridge calls itself in Events.
const CONTROLLER: &str = "holdfast.dev/bridge";
/// The longest note, in bytes.
const NOTE_MAX: usize = 1_024;
/// The longest name of an object.
const NAME_MAX: usize = 253;
/// A request without an answer after this long has failed.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often an Event is tried, slower each time.
const ATTEMPTS: u32 = 5;

/// Writes what is to be told, until it is dropped.
pub async fn run<L: Ledger>(office: Arc<Office<L>>) {
    let Some(mut receiver) = office.recorder.receiver() else { return };
    let instance = hostname::get().ok().and_then(|name| name.into_string().ok()).filter(|name| !name.is_empty());
    let mut teller = Teller {
        office: office.clone(),
        series: Series::default(),
        budget: Budget::new(20, 200),
        instance: cut(&instance.unwrap_or_else(|| "holdfast".to_owned()), 128).to_owned(),
    };
    loop {
        let next = teller.series.next().map(|at| at.duration_since(Timestamp::now()).max(SignedDuration::ZERO));
        let count = async {
            match next {
                Some(wait) => sleep(wait.unsigned_abs()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            told = receiver.recv() => match told {
                Some((at, telling)) => teller.tell(at, telling).await,
                None => return,
            },
            () = count => {}
        }
        while let Some(written) = teller.series.due(Timestamp::now()) {
            teller.count(written).await;
        }
        let dropped = office.recorder.take_dropped();
        if dropped > 0 {
            office.report.change(|state| state.events_dropped += dropped);
        }
    }
}

struct Teller<L> {
    office: Arc<Office<L>>,
    series: Series,
    budget: Budget,
    instance: String,
}

impl<L: Ledger> Teller<L> {
    async fn tell(&mut self, at: Timestamp, telling: Telling) {
        let same = Same::of(&telling);
        if self.series.counts(&same, at) {
            return;
        }
        if !self.may_be_written(&telling) || !self.write(at, telling, same).await {
            self.office.report.change(|state| state.events_dropped += 1);
        }
    }

    /// Nothing can be made in a Namespace that is gone, or going.
    fn may_be_written(&self, telling: &Telling) -> bool {
        let namespace = &telling.about.namespace;
        let going = || self.office.cache.namespace(namespace).is_none_or(|it| it.metadata.deletion_timestamp.is_some());
        namespace.is_empty() || !going()
    }

    async fn write(&mut self, at: Timestamp, telling: Telling, same: Same) -> bool {
        let event = event(at, telling, &self.instance);
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let api = Api::<Event>::namespaced(self.office.client.clone(), &namespace);
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        for attempt in 0..ATTEMPTS {
            sleep_until(self.budget.take(Instant::now()).into()).await;
            match timeout(PATIENCE, api.create(&params, &event)).await {
                Ok(Ok(_)) => {
                    self.office.report.change(|state| state.events += 1);
                    self.series.add(same, namespace, event.metadata.name.unwrap_or_default(), at);
                    return true;
                }
                // It was made, and the answer was lost.
                Ok(Err(kube::Error::Api(status))) if status.code == 409 && attempt > 0 => return true,
                Ok(Err(kube::Error::Api(status))) if status.code < 500 && status.code != 429 => {
                    debug!(code = status.code, why = status.message, "an Event is not taken");
                    return false;
                }
                Ok(Err(error)) => debug!(%error, "an Event is tried again"),
                Err(_) => debug!("an Event is tried again: no answer"),
            }
            sleep(Duration::from_millis(500) * 2_u32.pow(attempt)).await;
        }
        false
    }

    async fn count(&mut self, written: Written) {
        sleep_until(self.budget.take(Instant::now()).into()).await;
        let api = Api::<Event>::namespaced(self.office.client.clone(), &written.namespace);
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let series = json!({"series": {"count": written.count, "lastObservedTime": time(written.last)}});
        match timeout(PATIENCE, api.patch(&written.name, &params, &Patch::Merge(&series))).await {
            Ok(Ok(_)) => {}
            // The next count has all.
            Ok(Err(error)) => debug!(%error, "an Event is not counted"),
            Err(_) => debug!("an Event is not counted: no answer"),
        }
    }
}

fn event(at: Timestamp, telling: Telling, instance: &str) -> Event {
    let Telling { about, uid, warning, reason, note } = telling;
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let namespace = text(&about.namespace);
    let suffix = format!(".{:x}", at.as_nanosecond());
    let base = cut(&about.name, NAME_MAX - suffix.len()).trim_end_matches(['.', '-']);
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{base}{suffix}")),
            namespace: Some(namespace.clone().unwrap_or_else(|| "default".to_owned())),
            ..ObjectMeta::default()
        },
        regarding: Some(ObjectReference {
            api_version: Some(about.kind.api_version().to_owned()),
            kind: Some(about.kind.name().to_owned()),
            name: Some(about.name.to_string()),
            namespace,
            uid: text(&uid),
            ..ObjectReference::default()
        }),
        event_time: Some(time(at)),
        type_: Some(if warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(reason.to_owned()),
        action: Some(reason.to_owned()),
        note: Some(cut(&note, NOTE_MAX).to_owned()),
        reporting_controller: Some(CONTROLLER.to_owned()),
        reporting_instance: Some(instance.to_owned()),
        ..Event::default()
    }
}

/// As the API's types have it: they are of another version of the same crate.
fn time(at: Timestamp) -> MicroTime {
    let theirs = k8s_openapi::jiff::Timestamp::from_nanosecond(at.as_nanosecond());
    MicroTime(theirs.unwrap_or(k8s_openapi::jiff::Timestamp::UNIX_EPOCH))
}

/// At most so many bytes of a text.
fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridge::key::Key;
    use crate::objects::Kind;

    #[test]
    fn an_event_names_its_object_and_keeps_the_bounds_of_the_api() {
        let about =
            Key { kind: Kind::StatefulSet, namespace: "db".into(), name: format!("{}.x", "a".repeat(235)).into() };
        let note = "ü".repeat(600);
        let telling = Telling { about, uid: "u-1".into(), warning: true, reason: "Waiting", note };
        let at = Timestamp::from_second(1_796_025_600).expect("is a time");
        let made = serde_json::to_value(event(at, telling, "pod-0")).expect("is JSON");
        let text = |path: &str| made.pointer(path).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
        assert_eq!(text("/metadata/namespace"), "db");
        assert_eq!(text("/metadata/name"), format!("{}.18ecc3c477820000", "a".repeat(235)));
        assert_eq!((text("/regarding/kind"), text("/regarding/apiVersion")), ("StatefulSet".into(), "apps/v1".into()));
        assert_eq!((text("/regarding/namespace"), text("/regarding/uid")), ("db".into(), "u-1".into()));
        assert_eq!((text("/type"), text("/reason"), text("/note").len()), ("Warning".into(), "Waiting".into(), 1_024));
        assert_eq!(text("/eventTime"), "2026-11-30T08:00:00.000000Z");
        assert_eq!(text("/reportingController"), "holdfast.dev/bridge");
        assert_eq!((text("/reportingInstance"), text("/action")), ("pod-0".into(), "Waiting".into()));
    }

    #[test]
    fn an_event_about_an_object_without_a_namespace_is_in_the_default_one() {
        let about = Key::cluster(Kind::IpPool, "web".into());
        let telling = Telling { about, uid: "".into(), warning: false, reason: "InForce", note: "x".into() };
        let made = event(Timestamp::UNIX_EPOCH, telling, "pod-0");
        let regarding = made.regarding.expect("is there");
        assert_eq!(
            (made.metadata.namespace.as_deref(), regarding.namespace, regarding.uid),
            (Some("default"), None, None)
        );
    }
}
