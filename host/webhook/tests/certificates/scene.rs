//! What a test stands on: a namespace with an account, configurations, replicas and leaders.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::client::Body;
use kube::{Api, Client};
use podloom_control_loop::NoRecorder;
use podloom_engine::clock::Clock;
use podloom_webhook::{
    CertificateMetrics, CertificateSlot, OwnSetup, issue, parse_hosts, serve_own,
};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::service_fn;

use crate::client::{authorities, connect};
use crate::cluster::{Cluster, SECRET};

/// How long a single thing may take. Most take a few seconds; this is for machines that are busy with something else.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a test may take before it counts as stuck.
const DEADLINE: Duration = Duration::from_secs(240);
/// How long a slow leader waits before it writes a configuration.
const SLOW: Duration = Duration::from_millis(400);

pub(crate) const HOSTS: [&str; 3] = [
    "podloom-webhook.podloom-system.svc",
    "localhost",
    "127.0.0.1",
];

pub(crate) struct Scene {
    pub(crate) cluster: &'static Cluster,
    pub(crate) admin: Client,
    pub(crate) namespace: String,
    pub(crate) setup: OwnSetup,
}

/// A replica that serves.
pub(crate) struct Replica {
    pub(crate) slot: Arc<CertificateSlot>,
    task: JoinHandle<()>,
}

/// A leader; dropping it drops its work wherever it is.
pub(crate) struct Leader(JoinHandle<()>);

impl Drop for Leader {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Runs a test in a namespace of its own, if a control plane may be started.
pub(crate) fn certificates(name: &str, lifetime: Duration, test: impl AsyncFnOnce(&Scene)) {
    if std::env::var_os("PODLOOM_CONTROL_PLANE").is_none() {
        eprintln!(
            "{name} is skipped: PODLOOM_CONTROL_PLANE is not set, as `cargo xtask test` does"
        );
        return;
    }
    let cluster = Cluster::shared();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let scene = Scene::new(cluster, name, lifetime).await;
        let done = timeout(DEADLINE, test(&scene)).await;
        assert!(done.is_ok(), "{name} takes longer than {DEADLINE:?}");
        scene.expect_no_key_in_the_log().await;
    });
}

impl Scene {
    async fn new(cluster: &'static Cluster, name: &str, lifetime: Duration) -> Self {
        let client = cluster.operator(name).await;
        Self {
            cluster,
            admin: cluster.admin().await,
            namespace: name.to_owned(),
            setup: OwnSetup {
                client,
                namespace: name.to_owned(),
                secret: SECRET.to_owned(),
                configurations: name.to_owned(),
                service: "podloom-webhook".to_owned(),
                clock: Clock::new(),
                hosts: parse_hosts(&HOSTS).unwrap(),
                lifetime,
                metrics: CertificateMetrics::register(&mut Registry::default()),
            },
        }
    }

    pub(crate) fn replica(&self) -> Replica {
        let slot = Arc::new(CertificateSlot::new(CertificateMetrics::register(
            &mut Registry::default(),
        )));
        let serving = serve_own(
            self.setup.clone(),
            Arc::clone(&slot),
            Arc::new(NoRecorder),
            CancellationToken::new(),
        );
        let task = tokio::spawn(serving);
        Replica { slot, task }
    }

    pub(crate) fn leader(&self) -> Leader {
        lead(self.setup.clone())
    }

    /// A leader that takes its time to write each configuration.
    pub(crate) fn slow_leader(&self) -> Leader {
        let client = self.setup.client.clone();
        let slow = service_fn(move |request: Request<Body>| {
            let client = client.clone();
            async move {
                if request.method() == Method::PATCH {
                    sleep(SLOW).await;
                }
                client.send(request).await
            }
        });
        lead(OwnSetup {
            client: Client::new(slow, self.namespace.clone()),
            ..self.setup.clone()
        })
    }

    /// Creates both configurations without a caBundle, or takes it out of them. They have one and two webhooks.
    pub(crate) fn configure(&self) {
        let name = &self.namespace;
        for (kind, webhooks) in [
            ("MutatingWebhookConfiguration", 1),
            ("ValidatingWebhookConfiguration", 2),
        ] {
            let webhooks: Vec<Value> = (0..webhooks).map(|place| webhook(name, place)).collect();
            self.cluster.apply(&json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
                "metadata": { "name": name }, "webhooks": webhooks,
            }));
        }
    }

    pub(crate) async fn remove_configurations(&self) {
        let (name, params) = (&self.namespace, Default::default());
        let mutating: Api<MutatingWebhookConfiguration> = Api::all(self.admin.clone());
        mutating.delete(name, &params).await.unwrap();
        let validating: Api<ValidatingWebhookConfiguration> = Api::all(self.admin.clone());
        validating.delete(name, &params).await.unwrap();
    }

    /// The caBundles of all webhooks.
    pub(crate) async fn bundles(&self) -> Vec<Vec<u8>> {
        let mutating: Api<MutatingWebhookConfiguration> = Api::all(self.admin.clone());
        let validating: Api<ValidatingWebhookConfiguration> = Api::all(self.admin.clone());
        let mutating = mutating.get(&self.namespace).await.unwrap();
        let validating = validating.get(&self.namespace).await.unwrap();
        let mutating = mutating.webhooks.into_iter().flatten();
        let validating = validating.webhooks.into_iter().flatten();
        mutating
            .map(|webhook| webhook.client_config)
            .chain(validating.map(|webhook| webhook.client_config))
            .map(|config| config.ca_bundle.unwrap_or_default().0)
            .collect()
    }

    pub(crate) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.admin.clone(), &self.namespace)
    }

    pub(crate) async fn secret(&self) -> Secret {
        self.secrets().get(SECRET).await.unwrap()
    }

    /// Changes the Secret as somebody else would.
    pub(crate) async fn merge(&self, patch: Value) {
        let patched = self
            .secrets()
            .patch(SECRET, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        patched.unwrap();
    }

    /// Waits until all replicas serve the certificate in the Secret, all webhooks trust exactly the authorities in it, and clients
    /// accept that for every host. Returns the number of authorities.
    pub(crate) async fn until_settled(&self, replicas: &[&Replica]) -> usize {
        eventually("replicas, Secret and configurations agree", async || {
            self.settled(replicas).await
        })
        .await
    }

    async fn settled(&self, replicas: &[&Replica]) -> Result<usize, String> {
        let secret = self.secrets().get_opt(SECRET).await.unwrap();
        let data = secret.and_then(|secret| secret.data);
        let data = data.ok_or("there is no Secret with data")?;
        let field = |name: &str| data.get(name).map(|value| value.0.clone());
        let (bundle, leaf) = (field("ca.crt"), field("tls.crt"));
        let bundle = bundle.ok_or("there is no ca.crt")?;
        if self.bundles().await.iter().any(|found| *found != bundle) {
            return Err("a webhook has another caBundle".to_owned());
        }
        let leaf = authorities(&leaf.ok_or("there is no tls.crt")?);
        for replica in replicas {
            for host in HOSTS {
                let served = connect(&replica.slot, &bundle, host).await?;
                if leaf.first() != Some(&served) {
                    return Err("a replica serves another certificate".to_owned());
                }
            }
            replica.slot.status()?;
        }
        Ok(authorities(&bundle).len())
    }

    /// The log, at every level, has neither a key of the Secret nor a line of it.
    async fn expect_no_key_in_the_log(&self) {
        let log = self.cluster.log();
        assert!(log.contains(SECRET), "nothing was logged");
        let secret = self.secrets().get_opt(SECRET).await.unwrap();
        let data = secret.and_then(|secret| secret.data).unwrap_or_default();
        let encoded = serde_json::to_value(&data).unwrap();
        for name in ["ca.key", "tls.key"] {
            let key = String::from_utf8_lossy(&data[name].0).into_owned();
            let lines = key.lines().filter(|line| !line.starts_with('-'));
            for text in lines.chain(encoded[name].as_str()) {
                assert!(text.len() > 10 && !log.contains(text), "{name} was logged");
            }
        }
    }
}

fn lead(setup: OwnSetup) -> Leader {
    let recorder = Arc::new(NoRecorder);
    Leader(tokio::spawn(issue(
        setup,
        recorder,
        CancellationToken::new(),
    )))
}

/// A webhook that is never called: nothing has its kind.
fn webhook(name: &str, place: usize) -> Value {
    json!({
        "name": format!("w{place}.{name}.podloom.dev"),
        "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
        "clientConfig": { "service": { "namespace": name, "name": "podloom-webhook" } },
        "rules": [{
            "apiGroups": [format!("{name}.podloom.dev")], "apiVersions": ["v1"],
            "operations": ["CREATE"], "resources": ["nothings"],
        }],
    })
}

/// Asks until the answer is good.
pub(crate) async fn eventually<T, E: Debug>(
    what: &str,
    mut ask: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    let mut last = None;
    let asked = timeout(PATIENCE, async {
        let mut tick = interval(Duration::from_millis(100));
        loop {
            tick.tick().await;
            match ask().await {
                Ok(answer) => return answer,
                Err(found) => last = Some(found),
            }
        }
    });
    match asked.await {
        Ok(answer) => answer,
        Err(_) => panic!("not within {PATIENCE:?}: {what}; last: {last:?}"),
    }
}

/// Lets time pass in which nothing may happen.
pub(crate) async fn quiet(time: Duration) {
    sleep(time).await;
}
