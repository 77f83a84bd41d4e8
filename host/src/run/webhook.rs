//! The admission webhooks in the process: their listener, their certificates, and what they know of the cluster.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::FutureExt;
use futures::future::{self, BoxFuture, OptionFuture};
use podloom_cleaner::CleanerValidator;
use podloom_control_loop::LoopMetrics;
use podloom_controllers::AdmissionCaches;
use podloom_controllers::duties::Object;
use podloom_mutation::PodMutator;
use podloom_turns::{Limits, Lines};
use podloom_webhook::{
    CertificateMetrics, CertificateSlot, Clients, ClusterNamespaces, FindTemplates, Namespaces,
    ObjectWebhook, OwnSetup, Owners, PeerTurns, PodWebhook, Template, Webhook, WebhookMetrics,
    WorkloadWebhook, issue as issue_certificates, parse_hosts, router, serve_files, serve_own,
    server_config,
};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::connections::{self, ConnectionLimits, Server, WhenFull};
use super::drift::DriftTask;
use super::duty::Work;
use super::exceptions::ExceptionTask;
use super::gate::GateTask;
use super::heal::HealTask;
use super::parts::{Parts, own_namespace};
use super::reports::ReportsTask;
use super::state::OperatorState;
use crate::manifest::{self, NamedTemplate};
use crate::render;

/// For the API server, whose calls come from few addresses. It closes connections that it has not used for 90 seconds, and must be the
/// one that does: a review that it sends while we close is lost.
const LIMITS: ConnectionLimits = ConnectionLimits {
    connections: 512,
    of_one_peer: 256,
    when_full: WhenFull::CloseOldestIdle,
    is_reused: true,
    header: Duration::from_secs(150),
    write: Duration::from_secs(5),
    read: Duration::from_secs(5),
    life: Duration::MAX,
    last: LAST,
};

/// How long the last reviews may take at the end.
pub(super) const LAST: Duration = Duration::from_secs(10);

/// The turns of objects: to be checked on threads for large ones, and to have their pods tried on the chain.
const CHECKS: Limits = Limits {
    turns: 5,
    kept: 1,
    waiting: 1024,
};
const TRIES: Limits = Limits { turns: 5, ..CHECKS };
/// The turns of questions to the API server, about namespaces and owners: four of one tenant at once.
const QUESTIONS: Limits = Limits { turns: 9, ..CHECKS };

/// Where the certificate comes from.
#[derive(Clone)]
pub(super) struct Certificates {
    slot: Arc<CertificateSlot>,
    source: CertificateSource,
    recorder: Arc<LoopMetrics>,
}

#[derive(Clone)]
enum CertificateSource {
    Files(PathBuf),
    Own(Box<OwnSetup>),
}

impl Certificates {
    /// None if the webhooks are off, or served without TLS.
    pub(super) fn of(parts: &Parts<'_>, registry: &mut Registry) -> Result<Option<Self>> {
        let arguments = &parts.arguments.webhook;
        if arguments.address.is_none() || arguments.without_tls {
            return Ok(None);
        }
        let metrics = CertificateMetrics::register(registry);
        let source = match &arguments.tls_dir {
            Some(directory) => CertificateSource::Files(directory.clone()),
            None => CertificateSource::Own(Box::new(own(parts, metrics.clone())?)),
        };
        Ok(Some(Self {
            slot: Arc::new(CertificateSlot::new(metrics)),
            source,
            recorder: parts.loops.clone(),
        }))
    }

    /// Holds the certificate that serves.
    pub(super) fn slot(&self) -> Arc<CertificateSlot> {
        Arc::clone(&self.slot)
    }

    /// Keeps the slot filled.
    async fn serve(self, stop: CancellationToken) {
        match self.source {
            CertificateSource::Files(directory) => {
                serve_files(directory, self.slot, self.recorder, stop).await;
            }
            CertificateSource::Own(setup) => {
                serve_own(*setup, self.slot, self.recorder, stop).await
            }
        }
    }
}

fn own(parts: &Parts<'_>, metrics: CertificateMetrics) -> Result<OwnSetup> {
    let arguments = &parts.arguments.webhook;
    let namespace = own_namespace(&parts.arguments.own_pod);
    let hosts = match arguments.hosts.as_slice() {
        [] => parse_hosts(&[format!("{}.{namespace}.svc", arguments.name)]),
        some => parse_hosts(some),
    };
    Ok(OwnSetup {
        client: parts.client.clone(),
        secret: Object::WebhookSecret.name(&arguments.name),
        configurations: Object::WebhookConfiguration.name(&arguments.name),
        service: arguments.name.clone(),
        clock: parts.clock.clone(),
        namespace,
        hosts: hosts
            .map_err(anyhow::Error::msg)
            .context("--webhook-host")?,
        lifetime: arguments.certificate_lifetime,
        metrics,
    })
}

/// What the leader does besides answering reviews; each part may be off.
#[derive(Clone)]
pub(super) struct Leading {
    /// The certificates that the operator makes itself, which the leader renews. With files there is nothing to renew.
    certificates: Option<Certificates>,
    drift: Option<DriftTask>,
    gate: Option<GateTask>,
    heal: Option<HealTask>,
    reports: Option<ReportsTask>,
    /// None without webhooks.
    exceptions: Option<ExceptionTask>,
}

impl Leading {
    pub(super) fn of(
        parts: &Parts<'_>,
        state: &OperatorState,
        certificates: Option<&Certificates>,
        reports: Option<ReportsTask>,
        registry: &mut Registry,
    ) -> Self {
        Self {
            certificates: certificates.cloned(),
            drift: DriftTask::of(parts, state, registry),
            gate: GateTask::of(parts, state, registry),
            heal: HealTask::of(parts, state, registry),
            reports,
            exceptions: ExceptionTask::of(parts, state, registry),
        }
    }
}

/// The work of the leader.
pub(super) fn lead(leading: Leading) -> Work {
    Box::new(move |duty| {
        let Leading {
            certificates,
            drift,
            gate,
            heal,
            reports,
            exceptions,
        } = leading.clone();
        let stop = duty.stop.clone();
        let never = || future::pending().boxed();
        let looking = drift.map_or_else(never, |drift| drift.run().boxed());
        let opening = gate.map_or_else(never, |gate| gate.run().boxed());
        let healing = heal.map_or_else(never, |heal| heal.run().boxed());
        let reporting = reports.map_or_else(never, |reports| reports.lead().boxed());
        let excepting = exceptions.map_or_else(never, |it| it.run().boxed());
        let issuing = async move {
            match certificates {
                Some(Certificates {
                    source: CertificateSource::Own(setup),
                    recorder,
                    ..
                }) => issue_certificates(*setup, recorder, stop).await,
                _ => stop.cancelled().await,
            }
        };
        async move {
            tokio::select! {
                () = issuing => Ok(()),
                () = looking => Ok(()),
                () = opening => Ok(()),
                () = healing => Ok(()),
                () = reporting => Ok(()),
                () = excepting => Ok(()),
            }
        }
        .boxed()
    })
}

/// Opens the listener, and returns what answers reviews, and does `beside` with it, until some time after the operator is stopped; none if the webhooks are off.
pub(super) fn task(
    parts: &Parts<'_>,
    certificates: Option<Certificates>,
    mutator: Arc<dyn PodMutator>,
    beside: BoxFuture<'static, ()>,
    (registry, stop): (&mut Registry, &CancellationToken),
) -> Result<Option<BoxFuture<'static, ()>>> {
    let arguments = &parts.arguments.webhook;
    let Some(address) = arguments.address else {
        return Ok(None);
    };
    let listener = connections::listen(address)?;
    tracing::info!(
        webhook = listener.local_addr().ok().map(tracing::field::display),
        "serving admission webhooks"
    );
    let slot = certificates.as_ref().map(Certificates::slot);
    let (end, drain) = (CancellationToken::new(), stop.clone());
    let (caches, watching) = AdmissionCaches::watch(
        &parts.client,
        parts.arguments.selenosis_api,
        &parts.arguments.namespaces(),
        parts.arguments.unread_namespaces(),
        &parts.metrics,
    );
    let webhook = answering(parts, caches, mutator, registry);
    let clients = clients(&arguments.client_ca, &arguments.client_names)?;
    let following = OptionFuture::from(clients.clone().map(Clients::follow));
    let server = Server {
        router: router(webhook),
        limits: LIMITS,
        tls: slot.map(|slot| server_config(slot, clients)),
        drain,
        end,
    };
    let keeping = certificates.map(|it| it.serve(CancellationToken::new()));
    let background = future::join4(OptionFuture::from(keeping), watching, following, beside);
    Ok(Some(
        serve(server, listener, arguments.drain, background).boxed(),
    ))
}

/// All that answers reviews.
fn answering(
    parts: &Parts<'_>,
    caches: AdmissionCaches,
    mutator: Arc<dyn PodMutator>,
    registry: &mut Registry,
) -> Webhook {
    let arguments = &parts.arguments.webhook;
    let questions = PeerTurns::new(QUESTIONS);
    let namespaces = ClusterNamespaces::new(&parts.client, caches.clone(), questions.clone());
    let namespaces: Arc<dyn Namespaces> = Arc::new(namespaces);
    let tries = PeerTurns::new(TRIES);
    let workloads = WorkloadWebhook {
        mutator: Arc::clone(&mutator),
        namespaces: Arc::clone(&namespaces),
        templates: templates(arguments.pod_templates.clone()),
        mode: arguments.workloads,
        tries: tries.clone(),
        turns: parts.turns.clone(),
    };
    Webhook {
        pods: PodWebhook {
            mutator: Arc::clone(&mutator),
            namespaces: Arc::clone(&namespaces),
            owners: owners(parts, questions),
            trusted: arguments.trusted.clone(),
            turns: parts.turns.clone(),
            lines: Lines::default(),
        },
        objects: ObjectWebhook {
            mutator,
            namespaces,
            caches,
            blocking: parts.blocking.clone(),
            checks: PeerTurns::new(CHECKS),
            tries,
            turns: parts.turns.clone(),
            cleaners: CleanerValidator::new(
                parts.arguments.cleaner.settings(),
                parts.arguments.cleaner.evaluation_threads.into(),
            ),
        },
        workloads,
        metrics: WebhookMetrics::register(registry),
    }
}

/// The clients that are answered; none if everybody is.
fn clients(file: &Option<PathBuf>, names: &[String]) -> Result<Option<Arc<Clients>>> {
    let Some(file) = file else { return Ok(None) };
    let clients = Clients::read(file.clone(), names.to_vec());
    let clients = clients.map_err(anyhow::Error::msg);
    Ok(Some(clients.context("--webhook-client-ca")?))
}

/// Answers reviews until this long after the operator was asked to stop. What they need is kept until then.
async fn serve(server: Server, listener: TcpListener, drain: Duration, background: impl Future) {
    let (stop, end) = (server.drain.clone(), server.end.clone());
    let stopping = async {
        stop.cancelled().await;
        tokio::time::sleep(drain).await;
        end.cancel();
    };
    let background = async {
        tokio::select! {
            _ = background => {}
            () = end.cancelled() => {}
        }
    };
    tokio::join!(server.serve(listener), background, stopping);
}

/// Finds the pod templates of an object, also where the user says that there are some.
fn templates(named: Vec<NamedTemplate>) -> FindTemplates {
    Arc::new(move |(api_version, kind, namespace), object, most| {
        let found = manifest::templates(api_version, kind, object, &named);
        let found = found.into_iter().take(most).map(|template| {
            // The webhook knows the namespace.
            let namespaces = render::Namespaces::default();
            let of = render::pod::subject_of(object, Some(&template), &namespaces, namespace);
            Template {
                field: manifest::field_name(&template.path),
                pod: of.pod,
                request: of.request,
            }
        });
        found.collect()
    })
}

fn owners(parts: &Parts<'_>, questions: PeerTurns) -> Owners {
    let arguments = &parts.arguments.webhook;
    Owners::new(
        parts.client.clone(),
        arguments.pod_owners.clone(),
        arguments.controller_users.clone(),
        arguments.unknown_owners,
        questions,
    )
}
