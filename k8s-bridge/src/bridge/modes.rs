//! Whose the objects are: this group's alone, or Antrea's with this group beside it.

use std::sync::Arc;

use holdfast_statemachine::adopt::Mode;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta};
use kube::{Api, Client, ResourceExt};

use super::backoff::pause;
use super::office::Office;
use super::requests::answered;
use crate::crds;
use crate::ledger::Ledger;

/// Why the bridge cannot work with this Kubernetes API.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// A definition is missing.
    #[error("mode {mode}: the Kubernetes API has no CustomResourceDefinition {name}: {todo}")]
    Missing {
        /// The mode asked for.
        mode: Mode,
        /// The definition.
        name: String,
        /// What to do.
        todo: &'static str,
    },
    /// A definition is not ours.
    #[error(
        "mode standalone: CustomResourceDefinition {name} does not carry the label {label}: it is not Holdfast's; \
         apply deploy/crds, or run with --kubernetes=antrea beside Antrea"
    )]
    NotOurs {
        /// The definition.
        name: String,
        /// The label, with its value.
        label: String,
    },
    /// A definition is ours.
    #[error(
        "mode antrea: CustomResourceDefinition {name} carries the label {label}: it is Holdfast's own; \
         run with --kubernetes=standalone, or install Antrea's definitions"
    )]
    Ours {
        /// The definition.
        name: String,
        /// The label, with its value.
        label: String,
    },
    /// The group lives by another mode.
    #[error(
        "mode {asked}: this group adopted the Kubernetes API in mode {recorded}, and keeps it; a group with new data \
         directories adopts anew"
    )]
    OtherMode {
        /// The mode that it began with.
        recorded: Mode,
        /// The mode asked for.
        asked: Mode,
    },
    /// The group cannot begin in this mode.
    #[error("the group cannot adopt what the Kubernetes API says: {why}")]
    Refused {
        /// What the ledger says.
        why: String,
    },
    /// Antrea's controller is at work.
    #[error(
        "mode standalone: antrea-controller is at work here (its last heartbeat was at {heartbeat}): \
         two controllers would write the same objects; stop it, or run with --kubernetes=antrea"
    )]
    AntreaRuns {
        /// Its newest heartbeat.
        heartbeat: Timestamp,
    },
}

/// A heartbeat younger than this says that Antrea's controller is at work.
const HEARTBEAT: SignedDuration = SignedDuration::from_mins(5);
/// Asks until the API answers, and says whether the mode fits what is there.
pub async fn check_until_answered<L: Ledger>(office: &Arc<Office<L>>) -> Result<(), Unfit> {
    let mut failures = 0;
    loop {
        match answered(check(&office.client, office.options.mode)).await {
            Ok(fits) => return fits,
            Err(error) => {
                tracing::warn!(error, "the Kubernetes API does not say whose the definitions are");
                office.report.failed(&error);
            }
        }
        tokio::time::sleep(pause(failures)).await;
        failures += 1;
    }
}

/// Whether the mode fits what is there.
pub async fn check(client: &Client, mode: Mode) -> Result<Result<(), Unfit>, kube::Error> {
    let definitions = Api::<PartialObjectMeta<CustomResourceDefinition>>::all(client.clone());
    let label = || format!("{}: {}", crds::LABEL, crds::STANDALONE);
    for name in crds::NAMES {
        let Some(definition) = definitions.get_metadata_opt(name).await? else {
            let todo = match mode {
                Mode::Standalone => "apply deploy/crds",
                Mode::Antrea => "install Antrea, with its feature gate AntreaIPAM",
            };
            return Ok(Err(Unfit::Missing { mode, name: name.to_owned(), todo }));
        };
        let ours = definition.labels().get(crds::LABEL).is_some_and(|value| value == crds::STANDALONE);
        match mode {
            Mode::Standalone if !ours => return Ok(Err(Unfit::NotOurs { name: name.to_owned(), label: label() })),
            Mode::Antrea if ours => return Ok(Err(Unfit::Ours { name: name.to_owned(), label: label() })),
            _ => {}
        }
    }
    if mode == Mode::Standalone
        && let Some(heartbeat) = newest_heartbeat(client).await?
        && Timestamp::now().duration_since(heartbeat) < HEARTBEAT
    {
        return Ok(Err(Unfit::AntreaRuns { heartbeat }));
    }
    Ok(Ok(()))
}

/// When Antrea's controller last said that it runs.
async fn newest_heartbeat(client: &Client) -> Result<Option<Timestamp>, kube::Error> {
    let kind = GroupVersionKind::gvk("crd.antrea.io", "v1beta1", "AntreaControllerInfo");
    let resource = ApiResource::from_gvk_with_plural(&kind, "antreacontrollerinfos");
    let infos = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let info = match infos.get("antrea-controller").await {
        Ok(info) => Some(info),
        // Where the kind is not defined at all, the answer says so in words alone.
        Err(kube::Error::Api(status)) if status.code == 404 => None,
        Err(error) => return Err(error),
    };
    let conditions = info.as_ref().and_then(|info| info.data.get("controllerConditions")?.as_array());
    let times = conditions.into_iter().flatten().filter_map(|it| it.get("lastHeartbeatTime")?.as_str()?.parse().ok());
    Ok(times.max())
}
