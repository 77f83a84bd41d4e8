//! An operator with all duties, and work for all of them.

use kube::api::PostParams;
use podloom_tests::cleaner::{Cleaners, map_target};
use podloom_tests::doubles::{Double, RelayApi, Sink};
use podloom_tests::faults::{Fault, Proxy, Rule};
use podloom_tests::im::templates;
use podloom_tests::infrastructure::Infrastructure;
use podloom_tests::portal::{ASK_HERE, Portal, Relays};
use podloom_tests::webhook::{Policy, Route, Webhook, address, plain_pod};
use podloom_tests::{MountedBundle, Operator, Scene, eventually};
use serde_json::{Value, json};

/// How the operator runs, besides the flags that name something of the test.
const FLAGS: [&str; 24] = [
    "--controllers",
    "browser,portal,infrastructure,cleaner",
    "--webhook",
    "127.0.0.1:0",
    "--webhook-host",
    "127.0.0.1",
    "--webhook-drift-interval",
    "1s",
    "--webhook-gate",
    "--webhook-heal",
    "--webhook-reports=openreports.io",
    "--plugins-scan",
    "1s",
    "--portal-relay-observation",
    "poll",
    "--im-allow-cidr",
    "127.0.0.0/8",
    "--im-settle",
    "2s",
    "--drift-interval",
    "2s",
    "--probe-clusters",
    "true",
    "--cleaner-allow-loopback-sinks",
];

/// Plugins that another one takes the place of at each reload, so that each is compiled.
const TURNS: [&str; 4] = ["copies", "breaks", "eats", "forges"];

/// How many watches are refused in each round.
const REFUSED: u64 = 4;

/// Labels of pods that pass the chain, on which a plugin fails, and on which one runs out of time.
const LABELS: [&str; 3] = ["web", "break", "loop"];

/// Everything that the operator works on.
pub(super) struct Workload<'s> {
    scene: &'s Scene,
    pub(super) operator: Operator,
    /// Between the operator and its API server.
    api_server: Proxy,
    chain: MountedBundle,
    candidate: MountedBundle,
    _webhook: Webhook,
    infrastructure: Infrastructure<'s>,
    _clusters: Proxy,
    kubeconfig: String,
    _relays: Relays,
    sink: Sink,
    _traces: Sink,
}

/// A chain that writes a label, with plugins that fail on some pods, and with one that is another one in each turn.
fn chain(turn: usize) -> String {
    let turns = TURNS[turn % TURNS.len()];
    format!(
        "
- {{ name: labels, file: labels.wasm.gz, allow: [/metadata/labels], config: {{ labels: [{{ key: team, value: one }}] }} }}
- {{ name: turns, file: {turns}.wasm, allow: [/metadata/labels, /spec/copied], read: [/spec], match: {{ namespaces: [nowhere] }} }}
- {{ name: breaks, file: breaks.wasm, allow: [/metadata/labels] }}
- {{ name: loops, file: loops.wasm, allow: [/metadata/labels], limits: {{ timeout: 300ms }} }}
- {{ name: blind, file: eats.wasm, read: [/spec] }}
- {{ name: relabels, file: relabels.wasm, allow: [/metadata/labels], failurePolicy: Ignore }}"
    )
}

impl<'s> Workload<'s> {
    /// Starts the operator, and creates what stays.
    pub(super) async fn start(scene: &'s Scene) -> Self {
        let everything = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]);
        let account = scene.account("everything", &everything);
        let api_server = Proxy::start(&account);
        let (relays, sink) = (Relays::start(2, &["shop"]), Double::sink(&[]));
        relays.behave(0, RelayApi::State, &["shop"]);
        let (chain, candidate) = (MountedBundle::of(&chain(0)), MountedBundle::of("[]"));
        let webhook = Webhook::new(scene, Route::Url);
        let authorities = relays.authorities();
        let traces = Double::sink(&[]);
        let endpoint = format!("http://{}", traces.address());
        let named = [
            ("--namespace", scene.namespace.as_str()),
            ("--pod-namespace", &webhook.home),
            ("--webhook-name", &webhook.name),
            ("--plugins", chain.path().to_str().unwrap()),
            ("--candidate", candidate.path().to_str().unwrap()),
            ("--portal-relay-ca-file", authorities.to_str().unwrap()),
            ("--otlp-endpoint", &endpoint),
        ];
        let named = named.iter().flat_map(|(flag, value)| [*flag, *value]);
        let arguments: Vec<&str> = FLAGS.into_iter().chain(ASK_HERE).chain(named).collect();
        let proxied = api_server.kubeconfig(&account);
        let operator = Operator::spawn(&scene.cluster, &proxied, &arguments);
        webhook.configure(address(&operator).await, Policy::Fail);
        webhook.configure_validation(address(&operator).await);
        operator.ready().await;
        webhook.serves().await;

        let infrastructure = Infrastructure::new(scene).await;
        let clusters = Proxy::start(infrastructure.kubeconfig());
        let kubeconfig = infrastructure.kubeconfig_behind(&clusters);
        let portal = Portal::new(scene).await;
        let spec = relays.spec(&portal, "shop");
        portal.expose_with("shop", spec).await;
        configs_are_checked(scene).await;
        scene.behaviours().await;
        let waits =
            json!({ "retry": { "period": "1s" }, "targets": [map_target("web", "absent")] });
        Cleaners::new(scene).create("waits", waits).await;
        Self {
            scene,
            operator,
            api_server,
            chain,
            candidate,
            _webhook: webhook,
            infrastructure,
            _clusters: clusters,
            kubeconfig,
            _relays: relays,
            sink,
            _traces: traces,
        }
    }

    /// Gives every duty something to do, and lets some of it fail.
    pub(super) async fn round(&self, round: usize) {
        self.browsers(round).await;
        self.pods(round).await;
        self.clean(round).await;
        let template = templates::single_node(&self.kubeconfig);
        let spec = json!({ "tosca": template });
        let name = format!("cluster-{round}");
        self.infrastructure.cluster_with(&name, spec).await;
        self.chain.update("[{ name: missing, file: missing.wasm }]");
        eventually("the chain without its file is rejected", async || {
            let loaded = self.operator.metric("podloom_chain_loaded");
            (loaded == 0.0).then_some(()).ok_or(loaded.to_string())
        })
        .await;
        self.chain.update(&chain(round + 1));
        self.break_watches();
    }

    /// Ends all connections, and refuses the first watches that begin again. A watch that only ends is no error.
    fn break_watches(&self) {
        let refusal = Fault::api_error(500, "InternalError", "injected");
        let refused = Rule {
            times: Some(REFUSED),
            ..Rule::on("watch", refusal)
        };
        self.api_server.set_rules(&[refused]);
        self.api_server.drop_connections();
    }

    /// Takes the candidate's directory away, so that its loop has to begin to watch again.
    pub(super) fn lose_candidate(&self) {
        std::fs::remove_dir_all(self.candidate.path()).unwrap();
    }

    async fn browsers(&self, round: usize) {
        for version in ["running", "oom-killed"] {
            let name = format!("{version}-{round}");
            self.scene.browser(&name, version).await;
        }
        let breaks = json!({ "labels": { "break": "please" } });
        let name = format!("waits-{round}");
        self.scene.browser_with(&name, "running", breaks).await;
    }

    async fn pods(&self, round: usize) {
        let pods = self.scene.pods();
        for label in LABELS {
            let mut pod = plain_pod(&format!("{label}-{round}"));
            pod.metadata.labels = Some([(label.to_owned(), "please".to_owned())].into());
            let is_created = pods.create(&PostParams::default(), &pod).await.is_ok();
            assert_eq!(is_created, label == "web", "{label}");
        }
        // A plugin tries to change the label by which a ReplicaSet finds this one's pod, which no plugin may.
        let (name, image) = (
            format!("owned-{round}"),
            "--image=registry.k8s.io/pause:3.10",
        );
        let namespace = self.scene.namespace.as_str();
        let create = [
            "create",
            "deployment",
            &name,
            image,
            "--namespace",
            namespace,
        ];
        self.scene.cluster.kubectl(&create);
    }

    /// A Cleaner that deletes an object, and reports it.
    async fn clean(&self, round: usize) {
        let cleaners = Cleaners::new(self.scene);
        let name = format!("done-{round}");
        cleaners.map(&name, json!({}), "idle").await;
        let spec: Value = json!({
            "targets": [map_target("web", &name)],
            "conditions": ["web.data.state == 'idle'"],
            "cloudEventSink": format!("http://{}/", self.sink.address()),
        });
        cleaners.create(&name, spec).await;
    }
}

/// Waits until the API server trusts the webhook of BrowserConfigs: it learns the authority a moment after that of pods.
async fn configs_are_checked(scene: &Scene) {
    let probe = json!({
        "apiVersion": "selenosis.io/v1", "kind": "BrowserConfig", "metadata": { "name": "probe" },
        "spec": { "browsers": { "chrome": { "1": { "image": "example.com/chrome:1" } } } },
    });
    let probe = serde_json::from_value(probe).unwrap();
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    eventually("BrowserConfigs are checked", async || {
        let created = scene.configs().create(&dry_run, &probe).await;
        created.map(drop).map_err(|error| error.to_string())
    })
    .await;
}
