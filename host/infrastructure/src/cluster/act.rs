//! Carries out one action of a plan, and returns its outcome. Nothing else writes, or asks IM.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Resource;
use kube::core::ObjectMeta;
use podloom_api::names::infrastructure::{FINALIZER, annotation, key, label};
use podloom_api::{ClusterObject, ClusterStatus, InfrastructureKind};
use podloom_engine::answer::{Patched, Stored};
use podloom_engine::error::{Attempt, Error};
use podloom_engine::kind::{Context, Kind};
use podloom_engine::read::read_object;
use podloom_engine::write::{self, MetadataPatch};
use serde_json::{Value, json};

use super::action::{Action, Ask, Asked, Found, Outcome, Reply};
use super::durable::Change;
use super::kind::ClusterKind;
use super::silent::unasked;
use super::world::{Edit, Prepared, SeenSecret, World, edit};
use crate::im::{Answer, Call, Failure, FailureKind, InfrastructureId, Owner, Target};
use crate::in_use;
use crate::kubeconfig::{Kubeconfig, Probed};
use crate::secrets::TargetError;
use crate::template::{is_named, to_send};

impl ClusterKind {
    /// Carries out one action.
    pub(super) async fn carry_out(
        &self,
        ctx: &Context,
        world: &World,
        action: &Action,
    ) -> Result<Outcome, Error> {
        match action {
            Action::SetMetadata(patch) => self.set_metadata(ctx, world, patch).await,
            Action::Guard => self.guard(ctx, world).await,
            Action::Prepare => self.prepare(ctx, world).await,
            Action::Record { change, status } => self.record(ctx, world, (*change, status)).await,
            Action::Ask(ask) => self.ask(ctx, world, ask).await.map(Outcome::Asked),
            Action::ReadSecret => self.read_secret(ctx, world).await.map(Outcome::Secret),
            Action::Store => self.store(ctx, world).await,
            Action::Probe => {
                let probed = self.probe(ctx, world).await?;
                Ok(Outcome::Probed(probed, ctx.clock.now()))
            }
            Action::WriteStatus(status) => {
                let written = self.write_status(ctx, world, status).await?;
                Ok(written.map_or(Outcome::Gone, Outcome::StatusWritten))
            }
        }
    }

    async fn set_metadata(
        &self,
        ctx: &Context,
        world: &World,
        patch: &MetadataPatch,
    ) -> Result<Outcome, Error> {
        let target = self.cluster(ctx, world);
        let patched = target.set_finalizer(world.metadata(), patch, FINALIZER);
        Ok(match patched.await? {
            Patched::Object(cluster) => Outcome::Marked(cluster),
            Patched::Rejected(sentence) => Outcome::MetadataRejected(sentence),
            Patched::Gone => Outcome::Gone,
        })
    }

    async fn guard(&self, ctx: &Context, world: &World) -> Result<Outcome, Error> {
        let Some(backend) = world.resolved() else {
            return Ok(Outcome::Guard(in_use::Guard::Deleted));
        };
        let guard = in_use::confirm(&ctx.client, &self.resources, backend).await?;
        Ok(Outcome::Guard(guard))
    }

    /// Reads the Secrets that a request needs.
    async fn prepare(&self, ctx: &Context, world: &World) -> Result<Outcome, Error> {
        let Some(backend) = world.resolved() else {
            return Ok(Outcome::Prepared(Prepared(None)));
        };
        match self.secrets.target(backend).await {
            Ok(target) => Ok(Outcome::Prepared(Prepared(Some(target)))),
            Err(TargetError::Missing(missing)) => Ok(Outcome::Missing(missing, ctx.clock.now())),
            Err(TargetError::Request(error)) => Err(error),
        }
    }

    /// Writes what is about to be sent, into exactly the version of the Cluster that the plan saw. If there is a newer one, the pass
    /// ends, and nothing is sent.
    async fn record(
        &self,
        ctx: &Context,
        world: &World,
        (change, status): (Change, &ClusterStatus),
    ) -> Result<Outcome, Error> {
        let written = self.write_status(ctx, world, status).await?;
        Ok(match written {
            Some(cluster) => Outcome::Recorded(change, cluster),
            None => Outcome::Gone,
        })
    }

    async fn write_status(
        &self,
        ctx: &Context,
        world: &World,
        status: &ClusterStatus,
    ) -> Result<Option<Box<ClusterObject>>, Error> {
        let target = self.cluster(ctx, world);
        target
            .write_status(world.metadata(), world.status(), status)
            .await
    }

    /// The Cluster.
    fn cluster<'a>(&'a self, ctx: &'a Context, world: &'a World) -> write::Target<'a> {
        write::Target::of(
            &ctx.client,
            &self.resources.clusters,
            world.metadata(),
            Self::TRAITS.field_manager,
        )
    }
}

/// How old a record may be when its request is sent. An older one may be another process's business by now: it waits for the settle
/// time before it repeats a request, and this and the timeout of the request are shorter than that.
const FRESH: Duration = Duration::from_secs(10);

/// Whether a record is too old for its request.
fn is_too_late(world: &World, now: Timestamp) -> bool {
    let Some(recorded) = world.durable.last_call_at() else {
        return true;
    };
    let age = Duration::try_from(now.duration_since(recorded)).unwrap_or_default();
    age > FRESH
}

// Asks IM.

impl ClusterKind {
    /// Asks IM one question.
    async fn ask(&self, ctx: &Context, world: &World, ask: &Ask) -> Result<Asked, Error> {
        let reply = match self.reply(ctx, world, ask).await {
            Ok(reply) => reply,
            Err(TargetError::Missing(missing)) => Reply::Missing(missing),
            Err(TargetError::Request(error)) => return Err(error),
        };
        Ok(Asked {
            ask: ask.clone(),
            reply,
            at: ctx.clock.now(),
        })
    }

    async fn target(&self, world: &World) -> Result<Target, TargetError> {
        if let Some(Prepared(Some(target))) = &world.learned.prepared {
            return Ok(target.clone());
        }
        match world.resolved() {
            Some(backend) => self.secrets.target(backend).await,
            // No plan asks without one.
            None => Err(TargetError::Request(Error::Endless)),
        }
    }

    async fn reply(&self, ctx: &Context, world: &World, ask: &Ask) -> Result<Reply, TargetError> {
        let target = &self.target(world).await?;
        if matches!(ask, Ask::Change(_)) && is_too_late(world, ctx.clock.now()) {
            return Ok(Reply::TooLate);
        }
        let Some(turn) = self.silent.turn(target) else {
            return Ok(unasked());
        };
        let reply = self.answer(world, ask, target).await?;
        turn.end(&reply);
        Ok(reply)
    }

    async fn answer(
        &self,
        world: &World,
        ask: &Ask,
        target: &Target,
    ) -> Result<Reply, TargetError> {
        match ask {
            Ask::Search { skip } => self.search(world, target, skip).await,
            Ask::Left(id) => self.left(world, target, id).await,
            Ask::AddOwner(_) => self.add_owner(world, ask, target).await,
            _ => match call(world, ask) {
                Some(call) => Ok(self.send(target, &call).await),
                None => Ok(Reply::TooLate),
            },
        }
    }

    async fn send(&self, target: &Target, call: &Call) -> Reply {
        match self.im.call(target, call).await {
            Ok(answer) => Reply::Answer(answer),
            Err(failure) => Reply::Failure(failure),
        }
    }

    /// Lets the account of now own the infrastructure. Only who owns it may say so: the account with the previous password.
    async fn add_owner(
        &self,
        world: &World,
        ask: &Ask,
        target: &Target,
    ) -> Result<Reply, TargetError> {
        let (Ask::AddOwner(id), Owner::Basic { username, password }) = (ask, &target.owner) else {
            return Ok(Reply::TooLate);
        };
        let previous = self.previous(world, target).await?;
        let Some(previous) = previous.first() else {
            return Ok(Reply::TooLate);
        };
        let call = Call::AddOwner {
            id: id.clone(),
            username: username.clone(),
            password: password.clone(),
        };
        Ok(self.send(previous, &call).await)
    }
}

/// The call for a question; none if the world has no such infrastructure or template.
fn call(world: &World, ask: &Ask) -> Option<Call> {
    let id = || world.durable.id.clone();
    Some(match ask {
        Ask::Change(Change::Create) => Call::Create {
            template: whole(world)?,
        },
        Ask::Change(Change::Update) => {
            let Edit::Send { sent, .. } = edit(world) else {
                return None;
            };
            Call::Update {
                id: id()?,
                template: to_send(&sent, &world.infrastructure_name()),
            }
        }
        Ask::Change(Change::Resend) => Call::Update {
            id: id()?,
            template: whole(world)?,
        },
        Ask::Change(Change::Reconfigure) => Call::Reconfigure { id: id()? },
        Ask::Change(Change::Start) => Call::Start { id: id()? },
        Ask::Change(Change::Delete { force }) => Call::Delete {
            id: id()?,
            force: *force,
        },
        Ask::Name(id) => Call::Template { id: id.clone() },
        Ask::State(id) | Ask::Adopt(id) => Call::State { id: id.clone() },
        Ask::Outputs(id) => Call::Outputs { id: id.clone() },
        Ask::Log(id) => Call::Log { id: id.clone() },
        Ask::Search { .. } | Ask::Left(_) | Ask::AddOwner(_) => return None,
    })
}

/// The template that IM has, or gets now.
fn whole(world: &World) -> Option<String> {
    let template = world.whole()?;
    Some(to_send(template, &world.infrastructure_name()))
}

// Asks the API server of a cluster whether it answers.

impl ClusterKind {
    /// Probes with the kubeconfig as the Secret has it now.
    async fn probe(&self, ctx: &Context, world: &World) -> Result<Probed, Error> {
        let reference = world.cluster.spec.kubeconfig_secret_ref.as_ref();
        let name = reference.map_or_else(|| world.secret_name(), |it| it.name.clone());
        let key = reference.map_or(key::KUBECONFIG, |it| it.key_or(key::KUBECONFIG));
        let found = self.found_secret(ctx, world, &name).await?;
        let value = found.and_then(|found| found.data?.remove(key));
        let Some(ByteString(value)) = value else {
            let message = format!("Secret {name} with the key {key} does not exist");
            return Ok(Probed::Fails(message));
        };
        let kubeconfig = Kubeconfig::parse(&String::from_utf8_lossy(&value));
        Ok(match kubeconfig {
            Ok(kubeconfig) => self.prober.probe(&kubeconfig, world.namespace()).await,
            Err(problem) => Probed::Fails(format!("Secret {name}, key {key}: {problem}")),
        })
    }
}

// Looks for the infrastructure of a Cluster's name.

/// How many templates one pass reads.
const READS: usize = 50;
/// How many at a time: the client sends four at a time to an Infrastructure Manager, for all Clusters.
const AT_ONCE: usize = 2;
/// How many infrastructures of an account a search looks at. One that lists other ids each time would be searched for ever.
const MOST: usize = 10_000;

impl ClusterKind {
    /// Reads the names of infrastructures that no other Cluster has. Any failure fails the search: what could not be read may be it.
    async fn search(
        &self,
        world: &World,
        target: &Target,
        skip: &[InfrastructureId],
    ) -> Result<Reply, TargetError> {
        let owners = self.owners(world, target).await?;
        Ok(match self.found(world, &owners, skip).await {
            Ok(found) => Reply::Found(found),
            Err(failure) => Reply::Failure(failure),
        })
    }

    /// Looks whether the account lists an infrastructure.
    async fn left(
        &self,
        world: &World,
        target: &Target,
        id: &InfrastructureId,
    ) -> Result<Reply, TargetError> {
        let owners = self.owners(world, target).await?;
        let mut found = Found {
            is_complete: true,
            ..Found::default()
        };
        for (number, owner) in owners.iter().enumerate() {
            match self.listed(number, owner).await {
                Ok(listed) if listed.contains(id) => found.matches = vec![id.clone()],
                Ok(_) => {}
                Err(failure) => return Ok(Reply::Failure(failure)),
            }
        }
        Ok(Reply::Found(found))
    }

    /// Whose infrastructures are looked at: a request may have been signed with the password from before its change.
    async fn owners(&self, world: &World, target: &Target) -> Result<Vec<Target>, TargetError> {
        let mut owners = vec![target.clone()];
        owners.extend(self.previous(world, target).await?);
        Ok(owners)
    }

    /// As whom requests were sent before the password was changed: as it was seen, and as the provider says.
    async fn previous(&self, world: &World, target: &Target) -> Result<Vec<Target>, TargetError> {
        let sent_as = world.known.sent_as.clone().map(|owner| Target {
            owner,
            ..target.clone()
        });
        let named = match world.resolved() {
            Some(backend) => self.secrets.previous(backend).await?,
            None => None,
        };
        let others = sent_as.into_iter().chain(named);
        let mut previous: Vec<Target> = others.filter(|it| it.owner != target.owner).collect();
        previous.dedup_by(|one, other| one.owner == other.owner);
        Ok(previous)
    }

    /// What the owner of this number has.
    async fn listed(
        &self,
        number: usize,
        owner: &Target,
    ) -> Result<Vec<InfrastructureId>, Failure> {
        match self.im.call(owner, &Call::List).await {
            Ok(Answer::List(listed)) => Ok(listed),
            Ok(_) => Err(Failure::unexpected()),
            // An account with a previous password that IM does not accept any more owns nothing.
            Err(failure) if number > 0 && is_unknown(&failure) => Ok(Vec::new()),
            Err(failure) => Err(failure),
        }
    }

    async fn found(
        &self,
        world: &World,
        owners: &[Target],
        skip: &[InfrastructureId],
    ) -> Result<Found, Failure> {
        let mut seen: BTreeSet<InfrastructureId> = skip.iter().cloned().collect();
        let mut found = Found {
            is_complete: true,
            ..Found::default()
        };
        for (number, owner) in owners.iter().enumerate() {
            let mut left = self.listed(number, owner).await?;
            left.retain(|id| {
                !self.claims.is_anothers(id, &world.cluster) && seen.insert(id.clone())
            });
            if skip.len().saturating_add(left.len()) > MOST {
                return Err(Failure {
                    message: format!(
                        "the account has more than {MOST} infrastructures that no Cluster has; delete some, or use an account for Clusters alone"
                    ),
                    ..Failure::unexpected()
                });
            }
            let room = READS.saturating_sub(found.read.len());
            found.is_complete &= left.len() <= room;
            left.truncate(room);
            self.read_names(world, owner, left, &mut found).await?;
        }
        Ok(found)
    }

    async fn read_names(
        &self,
        world: &World,
        owner: &Target,
        ids: Vec<InfrastructureId>,
        found: &mut Found,
    ) -> Result<(), Failure> {
        let name = world.infrastructure_name();
        let name = name.as_str();
        let mut reads = stream::iter(ids)
            .map(|id| async move { self.read_name(owner, id, name).await })
            .buffer_unordered(AT_ONCE);
        while let Some(read) = reads.next().await {
            match read {
                Ok((id, is_match)) => {
                    found.matches.extend(is_match.then(|| id.clone()));
                    found.read.push(id);
                }
                // What was read is kept. The next pass goes on with what was not.
                Err(_) if !found.read.is_empty() => {
                    found.is_complete = false;
                    return Ok(());
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// Returns whether an infrastructure has the name, and not another one or none, and is not gone.
    async fn read_name(
        &self,
        owner: &Target,
        id: InfrastructureId,
        name: &str,
    ) -> Result<(InfrastructureId, bool), Failure> {
        let call = Call::Template { id: id.clone() };
        let read = match self.im.call(owner, &call).await {
            Ok(Answer::Template(text)) => is_named(&text, name).ok_or_else(Failure::unexpected),
            Ok(_) => Err(Failure::unexpected()),
            Err(failure) if is_nameless(&failure) => Ok(false),
            Err(failure) => Err(failure),
        };
        match read {
            Ok(is_match) => Ok((id, is_match)),
            Err(failure) => Err(Failure {
                message: format!("infrastructure {id}: {}", failure.message),
                ..failure
            }),
        }
    }
}

/// Whether an infrastructure has no name that could be read, now or later.
fn is_nameless(failure: &Failure) -> bool {
    matches!(
        failure.kind,
        FailureKind::NotFound | FailureKind::NoTemplate
    )
}

fn is_unknown(failure: &Failure) -> bool {
    matches!(
        failure.kind,
        FailureKind::CredentialsRejected | FailureKind::NotGranted
    )
}

// Reads and writes the Secret with the kubeconfig. Its value never leaves this file, but for a probe.

const READ: Attempt = Attempt::at_secret("ReadKubeconfig", "read Secret");
const CREATE: Attempt = Attempt::at_secret("CreateKubeconfig", "create Secret");
const UPDATE: Attempt = Attempt::at_secret("UpdateKubeconfig", "update Secret");

impl ClusterKind {
    async fn read_secret(&self, ctx: &Context, world: &World) -> Result<SeenSecret, Error> {
        let found = self.found_secret(ctx, world, &world.secret_name()).await?;
        let seen = found.map(|found| SeenSecret::of(&found.metadata, world.uid()));
        Ok(seen.unwrap_or(SeenSecret::Absent))
    }

    /// Writes the kubeconfig, never over somebody else's Secret.
    async fn store(&self, ctx: &Context, world: &World) -> Result<Outcome, Error> {
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
        let target = self.target_secret(ctx, world, &name);
        let Some(found) = found else {
            // A cache may show a Cluster that is gone: its Secret would be made and collected again and again.
            let (resource, cluster) = (&*self.resources.clusters, world.metadata());
            let live: Option<ClusterObject> = read_object(&ctx.client, resource, cluster).await?;
            if live.is_none() {
                return Ok(Outcome::Gone);
            }
            let wanted = secret(world, kubeconfig, &mark);
            return Ok(match target.create::<Secret>(&wanted, CREATE).await? {
                Stored::Object(created) => stored(world, &created),
                // The next step looks at it.
                Stored::Exists => Outcome::Secret(SeenSecret::Unseen),
                Stored::Invalid(sentence)
                | Stored::Unanswered(sentence)
                | Stored::Rejected { sentence, .. } => refused(ctx, &name, &sentence),
            });
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
                Ok(match target.patch::<Secret>(patch, UPDATE).await? {
                    Patched::Object(updated) => stored(world, &updated),
                    Patched::Gone => Outcome::Secret(SeenSecret::Absent),
                    Patched::Rejected(sentence) => refused(ctx, &name, &sentence),
                })
            }
            other => Ok(Outcome::Secret(other)),
        }
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
    ) -> write::Target<'a> {
        write::Target {
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
