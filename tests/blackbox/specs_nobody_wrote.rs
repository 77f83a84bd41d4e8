//! Specs that nobody wrote: after each random edit the operator settles, and the first spec brings back the first state.
//!
//! The documented examples are the first specs. A story edits one object a few times, and then returns.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use futures::future::join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::ListParams;
use podloom_tests::cleaner::Cleaners;
use podloom_tests::edits::Edit;
use podloom_tests::im::{ImServer, templates};
use podloom_tests::infrastructure::{Infrastructure, kubeconfig};
use podloom_tests::objects::{Objects, key_of, kind_of, normal};
use podloom_tests::portal::Portal;
use podloom_tests::{Cluster, Operator, PATIENCE, Scene, Seed, blackbox_within, eventually, rbac};
use serde_json::{Value, json};

/// How many edits a story has at most.
const EDITS: usize = 4;
/// After so many looks that show the same, with hardly a write of the operator in between, it has settled.
const LOOKS: usize = 5;
/// How much of a refusal is shown.
const SHOWN: usize = 300;
/// How many times in a row the first state must settle.
const PATIENT: usize = 4;

/// A duty, and the objects that its stories are about.
struct Duty {
    name: &'static str,
    /// Their manifests, below the root of the repository.
    files: &'static [&'static str],
    /// The kinds of what the operator makes of them.
    makes: &'static [(&'static str, &'static str)],
    /// A kind whose objects are made anew if they cannot be edited.
    anew: &'static str,
    /// Whether they are, too, if another object was edited.
    follows: bool,
    /// The condition that each object of a kind has in the first state.
    first: (&'static str, &'static str),
}

static DUTIES: [Duty; 5] = [
    Duty {
        name: "browser",
        files: &[
            "deploy/examples/secrets.yaml",
            "deploy/examples/browserconfig-chrome.yaml",
            "deploy/examples/browserconfig-firefox.yaml",
            "deploy/examples/browsers.yaml",
        ],
        makes: &[("v1", "Pod")],
        anew: "Browser",
        follows: true,
        first: ("Browser", "Ready"),
    },
    Duty {
        name: "portal",
        files: &[
            "deploy/examples/portal/classes.yaml",
            "deploy/examples/portal/exposes.yaml",
        ],
        makes: &[("apps/v1", "Deployment"), ("v1", "Secret")],
        anew: "PortalExpose",
        follows: false,
        first: ("PortalExpose", "Available"),
    },
    Duty {
        name: "cleaner",
        files: &[
            "deploy/examples/cleaner/objects.yaml",
            "deploy/examples/cleaner/cleaners.yaml",
        ],
        makes: &[],
        anew: "Cleaner",
        follows: false,
        first: ("Pod", "Ready"),
    },
    Duty {
        name: "infrastructure",
        files: &["tests/blackbox/fixtures/specs/infrastructure.yaml"],
        makes: &[("v1", "Secret")],
        anew: "Cluster",
        follows: false,
        first: ("Cluster", "KubeconfigReady"),
    },
    Duty {
        name: "rollout",
        files: &["tests/blackbox/fixtures/specs/rollout.yaml"],
        makes: &[],
        anew: "ChainRollout",
        follows: false,
        // No replica reports here.
        first: ("ChainRollout", "Reconciling"),
    },
];

/// Starts the operator of a duty.
async fn start(scene: &Scene, duty: &str) -> Operator {
    match duty {
        "browser" => {
            let flags = ["--failed-retention", "1h", "--config-grace", "1s"];
            scene.operator(&flags).await
        }
        "portal" => Portal::bare(scene).operator(&[]).await,
        "cleaner" => Cleaners::new(scene).operator(&[]).await,
        "rollout" => judge(scene).await,
        _ => {
            let im = ImServer::shared().await;
            Infrastructure::bare(scene, im).operator(&[]).await
        }
    }
}

/// The controller of the ChainRollouts of this namespace.
async fn judge(scene: &Scene) -> Operator {
    let own = scene.namespace.as_str();
    let duty = ["--controllers", "rollout", "--namespace", own];
    let rights = [&duty[..], &["--operator-namespace", own]].concat();
    scene.cluster.apply_text(&rbac(&rights));
    let plane = &scene.cluster.plane;
    let kubeconfig = plane.kubeconfig_for_service_account(own, "podloom-rollout");
    let arguments = [&duty[..], &["--pod-namespace", own]].concat();
    let operator = Operator::spawn(&scene.cluster, &kubeconfig.unwrap(), &arguments);
    operator.ready().await;
    operator
}

/// The CRDs of our kinds, as the API server has them.
type Crds = BTreeMap<String, Value>;

/// A duty at work.
struct Stage<'s> {
    duty: &'s Duty,
    crds: &'s Crds,
    objects: Objects,
    operator: Operator,
    manifests: Vec<Value>,
}

#[test]
fn after_any_spec_the_operator_settles_and_the_first_spec_brings_back_the_first_state() {
    let more = env::var("PODLOOM_SPECS").ok();
    let more: Option<u32> = more.map(|it| it.parse().unwrap());
    let deadline = PATIENCE * (4 + 10 * more.unwrap_or(0));
    let own = || Arc::new(Cluster::installed());
    blackbox_within(deadline, own, "specs", async |scene| {
        // One of the documented TunnelClasses wants such nodes.
        let label = ["label", "nodes", "--all", "example.com/pool=edge"];
        scene.cluster.kubectl(&label);
        let crds = crds(&scene).await;
        let plays = DUTIES.iter().map(|duty| play(&scene, duty, &crds, more));
        let kinds: BTreeSet<String> = join_all(plays).await.into_iter().flatten().collect();
        assert!(crds.keys().eq(&kinds), "there are no stories of some kinds");
    });
}

/// The split groups have the same kinds, from the same types.
async fn crds(scene: &Scene) -> Crds {
    let api: Api<CustomResourceDefinition> = Api::all(scene.client.clone());
    let mut all = api.list(&ListParams::default()).await.unwrap().items;
    all.retain(|it| !it.spec.group.starts_with("browser"));
    let named = |it: CustomResourceDefinition| {
        let name = it.spec.names.kind.clone();
        (name, serde_json::to_value(it).unwrap())
    };
    all.into_iter().map(named).collect()
}

/// Plays so many stories of each kind of a duty, or one that is always the same. Returns the kinds.
async fn play(scene: &Scene, duty: &Duty, crds: &Crds, more: Option<u32>) -> BTreeSet<String> {
    let stage = Stage::begin(scene, duty, crds).await;
    let first = stage.first().await;
    let kinds: BTreeSet<String> = stage.ours().map(|it| kind_of(it).1).collect();
    for number in 0..more.unwrap_or(1) {
        for kind in &kinds {
            let what = format!("specs {kind} {number}");
            let mut seed = match more {
                Some(_) => Seed::new(&what),
                None => Seed::or(&what, 1),
            };
            stage.story(&mut seed, kind).await;
            stage.returns(&first).await;
            stage.is_sound();
        }
    }
    kinds
}

impl<'s> Stage<'s> {
    /// Starts the operator, and creates all objects.
    async fn begin(scene: &Scene, duty: &'s Duty, crds: &'s Crds) -> Self {
        let namespace = format!("specs-{}", duty.name);
        let scene = scene.beside(&namespace, json!({})).await;
        let operator = start(&scene, duty.name).await;
        let manifests = manifests(duty).await;
        let made = duty.makes.iter();
        let made = made.map(|(version, kind)| ((*version).to_owned(), (*kind).to_owned()));
        let global = crds
            .iter()
            .filter(|(_, crd)| crd["spec"]["scope"] == "Cluster");
        let objects = Objects {
            kinds: manifests.iter().map(kind_of).chain(made).collect(),
            global: global.map(|(kind, _)| kind.clone()).collect(),
            scene,
        };
        for manifest in &manifests {
            objects.create(manifest).await;
        }
        Self {
            duty,
            crds,
            objects,
            operator,
            manifests,
        }
    }

    /// The manifests of our kinds.
    fn ours(&self) -> impl Iterator<Item = &Value> {
        let all = self.manifests.iter();
        all.filter(|it| self.crds.contains_key(&kind_of(it).1))
    }

    fn of_kind(&self, kind: &str) -> Vec<&Value> {
        let all = self.manifests.iter();
        all.filter(|it| it["kind"] == kind).collect()
    }

    /// The first state, in which all is as it should be.
    async fn first(&self) -> Value {
        let (kind, condition) = self.duty.first;
        let is_true = |it: &Value| it["type"] == condition && it["status"] == "True";
        eventually(&format!("each {kind} is {condition}"), async || {
            for manifest in self.of_kind(kind) {
                let status = self.objects.get(manifest).await.unwrap()["status"].take();
                let conditions = status["conditions"].as_array();
                if !conditions.is_some_and(|all| all.iter().any(is_true)) {
                    return Err(status.to_string());
                }
            }
            Ok(())
        })
        .await;
        // On a busy machine some things come late.
        for _ in 0..PATIENT {
            self.settles().await;
        }
        self.objects.state().await
    }

    /// Edits an object of a kind a few times, and lets the operator settle each time.
    async fn story(&self, seed: &mut Seed, kind: &str) {
        let all = self.of_kind(kind);
        let subject = all[seed.below(all.len())];
        let key = key_of(subject);
        let mut left = 1 + seed.below(EDITS);
        while left > 0 {
            let Some(object) = self.objects.get(subject).await else {
                eprintln!("{key} has deleted itself");
                return;
            };
            let edit = Edit::random(seed, self.schema(kind, "spec"), &object["spec"]);
            eprintln!("{key}: {edit}");
            if self.accepts(subject, &object, &edit).await {
                if self.duty.follows && kind != self.duty.anew {
                    self.make_anew().await;
                }
                self.settles().await;
                left -= 1;
            }
        }
    }

    fn schema(&self, kind: &str, part: &str) -> &Value {
        let schema = &self.crds[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        &schema["properties"][part]
    }

    /// Whether the API server accepts an edit. If not, it names the field.
    async fn accepts(&self, subject: &Value, object: &Value, edit: &Edit) -> bool {
        let operations = json!([edit.operation]);
        let Some(refusal) = self.objects.patch(subject, &operations).await else {
            return true;
        };
        eprintln!("{} is refused: {refusal:.SHOWN$}", key_of(subject));
        assert!(edit.is_named_in(&refusal), "{edit} is not named: {refusal}");
        if !refusal.contains("cannot be changed") || subject["kind"] != self.duty.anew {
            return false;
        }
        let mut other = subject.clone();
        other["spec"] = object["spec"].clone();
        let patch: json_patch::Patch = serde_json::from_value(operations).unwrap();
        json_patch::patch(&mut other, &patch).unwrap();
        let is_valid = self.objects.is_valid(&other).await;
        if is_valid {
            eprintln!("{} is made anew", key_of(subject));
            self.objects.replace(&other).await;
        }
        is_valid
    }

    async fn make_anew(&self) {
        for manifest in self.of_kind(self.duty.anew) {
            self.objects.replace(manifest).await;
        }
    }

    /// Waits until each status is about its spec, and nothing changes any more.
    async fn settles(&self) {
        let (mut looks, mut state, mut writes, mut from) = (0, Vec::new(), 0.0, Instant::now());
        eventually(&format!("{} settles", self.duty.name), async || {
            let all = self.objects.all().await;
            for manifest in self.ours() {
                self.is_truthful(manifest, all.get(&key_of(manifest)))?;
            }
            let (now, written) = (all.values().map(normal).collect(), self.writes());
            if looks == 0 || now != state {
                (looks, state, writes, from) = (0, now, written, Instant::now());
            }
            looks += 1;
            let made = written - writes;
            if looks > LOOKS {
                looks = 0;
                // A Cleaner may be told to look, and to say when it looks again, each second.
                if made <= 1.0 + from.elapsed().as_secs_f64() {
                    return Ok(());
                }
            }
            Err(format!("it changes, with {made} writes"))
        })
        .await;
    }

    /// Whether the status of an object is about its spec, and gives reasons.
    fn is_truthful(&self, manifest: &Value, object: Option<&Value>) -> Result<(), String> {
        let (kind, key) = (kind_of(manifest).1, key_of(manifest));
        let Some(object) = object else {
            // A Cleaner deletes itself at the end.
            let is_over = kind == "Cleaner";
            return is_over.then_some(()).ok_or(format!("{key} is gone"));
        };
        let (status, known) = (&object["status"], self.schema(&kind, "status"));
        let has_generation = known["properties"].get("observedGeneration").is_some();
        let generation = &object["metadata"]["generation"];
        if has_generation && status["observedGeneration"] != *generation {
            return Err(format!("{key} is not of generation {generation}: {status}"));
        }
        let is_mute = |it: &Value| it["reason"] == "" || it["message"] == "";
        let conditions = status["conditions"].as_array();
        let has_reasons = conditions.is_some_and(|all| !all.is_empty() && !all.iter().any(is_mute));
        has_reasons
            .then_some(())
            .ok_or_else(|| format!("{key} has no reasons: {status}"))
    }

    /// Gives all objects their first spec, and waits until all is as it was.
    async fn returns(&self, first: &Value) {
        for manifest in &self.manifests {
            let Some(object) = self.objects.get(manifest).await else {
                self.objects.create(manifest).await;
                continue;
            };
            let replace = json!([{ "op": "replace", "path": "/spec", "value": manifest["spec"] }]);
            let is_ours = self.crds.contains_key(&kind_of(manifest).1);
            let is_refused = is_ours && self.objects.patch(manifest, &replace).await.is_some();
            // What a Cleaner deletes is decided once, and a Cluster never uses the name of a machine again.
            let is_over = |field: &&str| !object["status"][*field].is_null();
            if is_refused || ["deletion", "retiredNodes"].iter().any(is_over) {
                // An event that cannot be delivered would keep a Cleaner.
                let ignore = json!({ "policy": "Ignore", "deadline": "0" });
                let ignore = json!([{ "op": "add", "path": "/spec/delivery", "value": ignore }]);
                self.objects.patch(manifest, &ignore).await;
                self.objects.replace(manifest).await;
            }
        }
        if self.duty.follows {
            self.make_anew().await;
        }
        eventually(&format!("{} is as at first", self.duty.name), async || {
            let now = self.objects.state().await;
            let difference = || json_patch::diff(first, &now).to_string();
            (now == *first).then_some(()).ok_or_else(difference)
        })
        .await;
    }

    /// How many requests that change something the operator has made.
    fn writes(&self) -> f64 {
        let (_, metrics) = self.operator.get("/metrics").unwrap();
        let reads = ["get", "list", "watch"].map(|verb| format!("verb=\"{verb}\""));
        let is_write = |line: &&str| {
            let is_read = reads.iter().any(|read| line.contains(read));
            line.starts_with("podloom_api_requests_total") && !is_read
        };
        let counts = metrics.lines().filter(is_write);
        let counts = counts.filter_map(|it| it.rsplit(' ').next()?.parse::<f64>().ok());
        counts.sum()
    }

    /// Checks that the operator works, and has met no bug of its own.
    fn is_sound(&self) {
        let (status, body) = self.operator.get("/healthz").unwrap();
        assert_eq!(status, 200, "{body}");
        let (_, metrics) = self.operator.get("/metrics").unwrap();
        let all = metrics + &self.operator.printed();
        for bug in ["=\"Panicked\"", "=\"Endless\"", "hit a bug", "panicked at"] {
            let lines: Vec<&str> = all.lines().filter(|line| line.contains(bug)).collect();
            assert_eq!(lines, [""; 0]);
        }
    }
}

/// The manifests of a duty.
async fn manifests(duty: &Duty) -> Vec<Value> {
    let mut all = Vec::new();
    for file in duty.files {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
        let mut text = fs::read_to_string(path).unwrap();
        if text.contains("IM_URL") {
            let template = templates::single_node(&kubeconfig()).to_string();
            text = text.replace("IM_URL", &ImServer::shared().await.url());
            text = text.replace("TEMPLATE", &template);
        }
        all.extend(serde_saphyr::from_multiple::<Value>(&text).unwrap());
    }
    all
}
