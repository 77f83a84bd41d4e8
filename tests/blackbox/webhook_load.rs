//! Not one pod is refused while certificates are renewed, lost and damaged, while the chain changes, and while operators are replaced.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use podloom_tests::doubles::{BackendState, Balancer, Double};
use podloom_tests::webhook::{Policy, Route, STAMP, Webhook, dry_run, plain_pod};
use podloom_tests::{
    Cluster, MountedBundle, Operator, Scene, Signal, blackbox_on, eventually, eventually_within,
    free_address, lock,
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// How many pods are created at once.
const AT_ONCE: usize = 16;
/// How many pods are created at least, in each test.
const PODS: usize = 1000;
/// Long enough that a busy machine renews a certificate before it expires.
const LIFETIME: &str = "9s";
/// How long to wait for a certificate.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pods that are created without end, as dry runs.
struct Load {
    created: AtomicUsize,
    is_over: AtomicBool,
    failures: Mutex<Vec<String>>,
}

impl Load {
    /// Creates pods while `work` goes on, and until there are enough of them. Fails if one was refused, or did not pass the chain.
    async fn during(scene: &Scene, work: impl Future<Output = ()>) {
        let load = Arc::new(Self {
            created: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            failures: Mutex::default(),
        });
        let mut senders = JoinSet::new();
        for _ in 0..AT_ONCE {
            senders.spawn(Arc::clone(&load).send(scene.pods()));
        }
        work.await;
        load.is_over.store(true, Ordering::Relaxed);
        while senders.join_next().await.is_some() {}
        let failures = lock(&load.failures);
        let created = load.created.load(Ordering::Relaxed);
        assert!(
            failures.is_empty(),
            "{} of {created} failed: {failures:#?}",
            failures.len()
        );
        assert!(created >= PODS, "{created}");
    }

    async fn send(self: Arc<Self>, pods: Api<Pod>) {
        let pod = plain_pod("loaded");
        while !self.is_over.load(Ordering::Relaxed) || self.created.load(Ordering::Relaxed) < PODS {
            let failure = match pods.create(&dry_run(), &pod).await {
                Ok(created) if created.annotations().contains_key(STAMP) => None,
                Ok(_) => Some("it did not pass the chain".to_owned()),
                Err(error) => Some(error.to_string()),
            };
            self.created.fetch_add(1, Ordering::Relaxed);
            lock(&self.failures).extend(failure);
        }
    }
}

fn team(name: &str) -> String {
    format!(
        "\n- {{ name: labels, file: labels.wasm.gz, allow: [/metadata/labels], config: {{ labels: [{{ key: team, value: {name} }}] }} }}"
    )
}

/// Waits until an operator serves so many certificates more.
async fn serves_another(operator: &Operator, more: usize) {
    let count = || operator.logged(&["serves another certificate"]).len();
    let expected = count() + more;
    eventually_within("another certificate serves", PATIENCE, async || {
        (count() >= expected)
            .then_some(())
            .ok_or_else(|| operator.tail("certificate"))
    })
    .await;
}

#[test]
fn no_pod_is_refused_while_certificates_and_chains_change() {
    blackbox_on(Cluster::without_operator, "webhook-load", async |scene| {
        let bundle = MountedBundle::of(&team("one"));
        let webhook = Webhook::new(&scene, Route::Service);
        let operator = webhook
            .operator(bundle.path(), &["--certificate-lifetime", LIFETIME])
            .await;
        let secrets: Api<Secret> = Api::namespaced(scene.client.clone(), &scene.namespace);
        let name = format!("{}-tls", scene.namespace);
        let garbage = json!("Z2FyYmFnZQ==");
        let garbage = json!({ "data": { "ca.crt": garbage, "ca.key": garbage, "tls.crt": garbage, "tls.key": garbage } });
        Load::during(&scene, async {
            serves_another(&operator, 1).await;
            secrets
                .delete(&name, &DeleteParams::default())
                .await
                .unwrap();
            serves_another(&operator, 1).await;
            let patch = Patch::Merge(&garbage);
            secrets
                .patch(&name, &PatchParams::default(), &patch)
                .await
                .unwrap();
            serves_another(&operator, 1).await;
            let chain = || {
                let plugins: Value =
                    serde_json::from_str(&operator.get("/plugins").unwrap().1).unwrap();
                plugins["chain"].clone()
            };
            for next in ["two", "three"] {
                let before = chain();
                bundle.update(&team(next));
                eventually("the next chain serves", async || {
                    (chain() != before)
                        .then_some(())
                        .ok_or_else(|| before.to_string())
                })
                .await;
            }
        })
        .await;
    });
}

/// The operators behind a balancer. One of three is a spare.
struct Replicas {
    webhook: Webhook,
    balancer: Balancer,
    bundle: MountedBundle,
}

impl Replicas {
    fn start(&self, address: SocketAddr) -> Operator {
        let address = address.to_string();
        let arguments = ["--webhook", address.as_str(), "--webhook-drain", "2s"];
        self.webhook.spawn(self.bundle.path(), &arguments)
    }

    /// Stops an operator as Kubernetes does: it learns at once, and the balancer a moment later.
    async fn retire(&self, mut operator: Operator, address: SocketAddr) {
        operator.signal(Signal::Terminate);
        eventually("the operator is not ready", async || {
            match operator.get("/readyz") {
                Ok((200, body)) => Err(body),
                _ => Ok(()),
            }
        })
        .await;
        self.balancer.set(address, BackendState::Draining);
        let status = operator.ended().await;
        assert!(status.success(), "{status}");
    }
}

async fn operators_are_replaced(scene: &Scene, route: Route) {
    let addresses = [free_address(), free_address(), free_address()];
    let [first, second, spare] = addresses;
    let replicas = Replicas {
        webhook: Webhook::new(scene, route),
        balancer: Double::balancer(&addresses),
        bundle: MountedBundle::of(&team("one")),
    };
    replicas.balancer.set(spare, BackendState::Draining);
    let operators = [replicas.start(first), replicas.start(second)];
    replicas
        .webhook
        .configure(replicas.balancer.address(), Policy::Fail);
    for operator in &operators {
        operator.ready().await;
    }
    replicas.webhook.serves().await;
    let [one, two] = operators;
    let mut serving = Vec::new();
    Load::during(scene, async {
        // The second new one takes the address of the first old one.
        for (operator, address, free) in [(one, first, spare), (two, second, first)] {
            let new = replicas.start(free);
            new.ready().await;
            replicas.balancer.set(free, BackendState::Serving);
            replicas.retire(operator, address).await;
            serving.push(new);
        }
    })
    .await;
    let opened: Vec<u64> = replicas
        .balancer
        .backends()
        .iter()
        .map(|backend| backend.accepted)
        .collect();
    assert!(opened[2] > 0, "the spare was never called: {opened:?}");
}

#[test]
fn no_pod_is_refused_while_operators_behind_a_service_are_replaced() {
    blackbox_on(
        Cluster::without_operator,
        "webhook-roll-service",
        async |scene| {
            operators_are_replaced(&scene, Route::Service).await;
        },
    );
}

#[test]
fn no_pod_is_refused_while_operators_behind_a_url_are_replaced() {
    blackbox_on(
        Cluster::without_operator,
        "webhook-roll-url",
        async |scene| {
            operators_are_replaced(&scene, Route::Url).await;
        },
    );
}
