//! Reads and writes the Secret with the kubeconfig. Its value never leaves this file, but for a probe.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Resource;
use kube::core::ObjectMeta;
use podloom_api::InfrastructureKind;
use podloom_api::names::infrastructure::{annotation, key, label};
use podloom_engine::answer::{Patched, Stored};
use podloom_engine::error::{Attempt, Error};
use podloom_engine::kind::{Context, Kind};
use podloom_engine::write::Target;
use serde_json::{Value, json};

use super::super::action::Outcome;
use super::super::kind::ClusterKind;
use super::super::world::{SeenSecret, World};
use crate::kubeconfig::Kubeconfig;

const READ: Attempt = Attempt::at_secret("ReadKubeconfig", "read Secret");
const CREATE: Attempt = Attempt::at_secret("CreateKubeconfig", "create Secret");
const UPDATE: Attempt = Attempt::at_secret("UpdateKubeconfig", "update Secret");

impl ClusterKind {
    pub(super) async fn read_secret(
        &self,
        ctx: &Context,
        world: &World,
    ) -> Result<SeenSecret, Error> {
        let found = self.found_secret(ctx, world, &world.secret_name()).await?;
        let seen = found.map(|found| SeenSecret::of(&found.metadata, world.uid()));
        Ok(seen.unwrap_or(SeenSecret::Absent))
    }

    /// Writes the kubeconfig, never over somebody else's Secret.
    pub(super) async fn store(&self, ctx: &Context, world: &World) -> Result<Outcome, Error> {
        let (Some(kubeconfig), Some(mark)) = (&world.learned.kubeconfig, world.durable.mark())
        else {
            return Ok(Outcome::Secret(world.secret.clone()));
        };
        let name = world.secret_name();
        let found = match world.secret {
            // It was looked for in this pass. If there is one by now, it is looked at again.
            SeenSecret::Absent => None,
            _ => self.found_secret(ctx, world, &name).await?,
        };
        let Some(found) = found else {
            let wanted = secret(world, kubeconfig, &mark);
            return self.create(ctx, world, &wanted).await;
        };
        match SeenSecret::of(&found.metadata, world.uid()) {
            SeenSecret::Ours(ours) if is_right(&found, kubeconfig, &mark, world.name()) => {
                Ok(Outcome::Stored {
                    secret: ours,
                    is_written: false,
                })
            }
            SeenSecret::Ours(_) => {
                let patch = difference(world, &found, kubeconfig, &mark);
                self.update(ctx, world, patch).await
            }
            other => Ok(Outcome::Secret(other)),
        }
    }

    async fn create(
        &self,
        ctx: &Context,
        world: &World,
        wanted: &Secret,
    ) -> Result<Outcome, Error> {
        let name = world.secret_name();
        let target = self.target_secret(ctx, world, &name);
        Ok(match target.create::<Secret>(wanted, CREATE).await? {
            Stored::Object(created) => stored(world, &created),
            // The next step looks at it.
            Stored::Exists => Outcome::Secret(SeenSecret::Unseen),
            Stored::Invalid(sentence)
            | Stored::Unanswered(sentence)
            | Stored::Rejected { sentence, .. } => refused(ctx, &name, &sentence),
        })
    }

    async fn update(&self, ctx: &Context, world: &World, patch: Value) -> Result<Outcome, Error> {
        let name = world.secret_name();
        let target = self.target_secret(ctx, world, &name);
        Ok(match target.patch::<Secret>(patch, UPDATE).await? {
            Patched::Object(updated) => stored(world, &updated),
            Patched::Gone => Outcome::Secret(SeenSecret::Absent),
            Patched::Rejected(sentence) => refused(ctx, &name, &sentence),
        })
    }

    /// The value of a Secret's key, for a probe.
    pub(super) async fn kubeconfig_in(
        &self,
        ctx: &Context,
        world: &World,
        (name, key): (&str, &str),
    ) -> Result<Option<Vec<u8>>, Error> {
        let found = self.found_secret(ctx, world, name).await?;
        let data = found.and_then(|found| found.data);
        Ok(data
            .and_then(|mut data| data.remove(key))
            .map(|value| value.0))
    }

    async fn found_secret(
        &self,
        ctx: &Context,
        world: &World,
        name: &str,
    ) -> Result<Option<Secret>, Error> {
        let target = self.target_secret(ctx, world, name);
        target.read::<Secret>(READ).await
    }

    fn target_secret<'a>(
        &'a self,
        ctx: &'a Context,
        world: &'a World,
        name: &'a str,
    ) -> Target<'a> {
        Target {
            client: &ctx.client,
            resource: &self.secret,
            namespace: world.cluster.metadata.namespace.as_deref(),
            name,
            field_manager: Self::TRAITS.field_manager,
        }
    }
}

fn refused(ctx: &Context, name: &str, sentence: &str) -> Outcome {
    let message = format!("Secret {name} cannot be written: {sentence}");
    Outcome::StoreRefused(message, ctx.clock.now())
}

fn stored(world: &World, secret: &Secret) -> Outcome {
    match SeenSecret::of(&secret.metadata, world.uid()) {
        SeenSecret::Ours(secret) => Outcome::Stored {
            secret,
            is_written: true,
        },
        other => Outcome::Secret(other),
    }
}

/// The Secret as it is created.
fn secret(world: &World, kubeconfig: &Kubeconfig, mark: &str) -> Secret {
    let resource = InfrastructureKind::Cluster.resource();
    let value = ByteString(kubeconfig.reveal().as_bytes().to_vec());
    Secret {
        metadata: ObjectMeta {
            name: Some(world.secret_name()),
            namespace: world.cluster.metadata.namespace.clone(),
            labels: Some(labels(world.name())),
            annotations: Some(annotations(mark)),
            owner_references: world
                .cluster
                .controller_owner_ref(&resource)
                .map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(key::KUBECONFIG.to_owned(), value)])),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }
}

fn labels(name: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(label::CLUSTER.to_owned(), name.to_owned())])
}

fn annotations(mark: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(annotation::OPERATION.to_owned(), mark.to_owned())])
}

/// Whether the Secret has the kubeconfig and says where it is from.
fn is_right(found: &Secret, kubeconfig: &Kubeconfig, mark: &str, name: &str) -> bool {
    let data = found.data.as_ref();
    let value = data.and_then(|data| data.get(key::KUBECONFIG));
    let says = |all: &Option<BTreeMap<String, String>>, key: &str, value: &str| {
        let found = all.as_ref().and_then(|all| all.get(key));
        found.map(String::as_str) == Some(value)
    };
    value.is_some_and(|value| value.0 == kubeconfig.reveal().as_bytes())
        && says(&found.metadata.annotations, annotation::OPERATION, mark)
        && says(&found.metadata.labels, label::CLUSTER, name)
}

/// The patch that puts a Secret right. It changes exactly this version of it.
fn difference(world: &World, found: &Secret, kubeconfig: &Kubeconfig, mark: &str) -> Value {
    let value = ByteString(kubeconfig.reveal().as_bytes().to_vec());
    json!({
        "metadata": {
            "uid": found.metadata.uid,
            "resourceVersion": found.metadata.resource_version,
            "labels": labels(world.name()),
            "annotations": annotations(mark),
        },
        "data": { key::KUBECONFIG: value },
    })
}
