//! A candidate comes to serve by itself, or is taken back by itself.
//!
//! What the maintainers of open-policy-agent/gatekeeper asked of such a thing (issue 2287), and what answers it:
//!
//! - Are Deployments half changed, also at 100 percent? `a_good_candidate_comes_to_serve_and_no_deployment_is_half_changed`
//! - Does it spoil the update of a Deployment? `a_bad_candidate_holds_the_update_of_a_deployment_until_it_is_taken_back`
//! - Which pods are changed? `people_hold_it_end_it_and_begin_it_again`: the stamp says it, and `podloom rollout pods` lists them.
//! - Has a pod that is made again another fate? `owners_stay_where_they_are_while_replicas_and_the_leader_restart`

mod deployment;
mod faults;
mod limits;
mod people;
mod storm;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{ListParams, PostParams};
use podloom_tests::webhook::{Policy, Route, STAMP, Webhook, address};
use podloom_tests::{
    Cluster, MountedBundle, Operator, PATIENCE, Scene, blackbox_on, eventually, eventually_within,
    rbac,
};
use serde_json::{Value, json};

/// Numbers for names of pods that are tried again and again.
static AFTER: AtomicU32 = AtomicU32::new(0);

/// The name of the ChainRollout.
const NAME: &str = "main";

/// What a rollout needs: replicas that follow it, and a judge.
struct Setting<'s> {
    scene: &'s Scene,
    webhook: Webhook,
    serving: MountedBundle,
    candidate: MountedBundle,
}

/// A chain that writes this value into the label `team`.
fn team(name: &str) -> String {
    label("team", name)
}

fn label(key: &str, value: &str) -> String {
    format!(
        "\n- {{ name: labels, file: labels.wasm.gz, allow: [/metadata/labels], config: {{ labels: [{{ key: {key:?}, value: {value} }}] }} }}"
    )
}

fn path(bundle: &MountedBundle) -> &str {
    bundle.path().to_str().unwrap()
}

/// Three steps, of which so many end with the next pod, and the others with none.
fn taken(number: usize) -> Value {
    let steps = [0, 40, 60].into_iter().enumerate();
    let pods = |at| if at < number { 1 } else { 1_000_000 };
    let steps = steps.map(|(at, percent)| step(percent, pods(at)));
    json!({ "steps": steps.collect::<Value>() })
}

/// A step without a least time.
fn step(percent: u32, pods: u32) -> Value {
    json!({ "percent": percent, "pods": pods, "duration": "1s" })
}

impl<'s> Setting<'s> {
    /// The rights of all that takes part. Both chains are there.
    fn new(scene: &'s Scene, candidate: &str) -> Self {
        let webhook = Webhook::new(scene, Route::Url);
        let home = ["--operator-namespace", webhook.home.as_str()];
        let follow = ["--for", "rollout", "--webhook-name", &webhook.name];
        let judge = ["--controllers", "rollout", "--namespace", &scene.namespace];
        for rights in [follow, judge] {
            scene
                .cluster
                .apply_text(&rbac(&[&rights[..], &home].concat()));
        }
        Self {
            scene,
            webhook,
            serving: MountedBundle::of(&team("old")),
            candidate: MountedBundle::of(candidate),
        }
    }

    /// A replica that answers reviews, by its name. It waits until it is ready.
    async fn replica(&self, name: &str) -> Operator {
        let operator = self.spawn(name);
        operator.ready().await;
        operator
    }

    fn spawn(&self, name: &str) -> Operator {
        let arguments = ["--candidate", path(&self.candidate), "--rollout"];
        let more = [&arguments[..], &["--pod-name", name]].concat();
        self.webhook.spawn(self.serving.path(), &more)
    }

    /// One that answers, and gets all reviews.
    async fn answering(&self, name: &str) -> Operator {
        let operator = self.replica(name).await;
        self.webhook
            .configure(address(&operator).await, Policy::Fail);
        self.webhook.serves().await;
        operator
    }

    /// The judge.
    fn judge(&self, more: &[&str]) -> Operator {
        let home = self.webhook.home.as_str();
        let plane = &self.scene.cluster.plane;
        let kubeconfig = plane.kubeconfig_for_service_account(home, "podloom-rollout");
        let arguments = [
            "--controllers",
            "rollout",
            "--namespace",
            &self.scene.namespace,
        ];
        let arguments = [&arguments[..], &["--pod-namespace", home], more].concat();
        Operator::spawn(&self.scene.cluster, &kubeconfig.unwrap(), &arguments)
    }

    /// Creates the ChainRollout, or changes it.
    fn wants(&self, spec: &Value) {
        let rollout = json!({
            "apiVersion": "chain.podloom.dev/v1alpha1", "kind": "ChainRollout",
            "metadata": { "name": NAME, "namespace": self.webhook.home }, "spec": spec,
        });
        self.scene.cluster.apply_text(&rollout.to_string());
    }

    fn status(&self) -> Value {
        let home = self.webhook.home.as_str();
        let get = ["get", "chainrollout", NAME, "-n", home, "-o", "json"];
        let rollout: Value = serde_json::from_str(&self.scene.cluster.kubectl(&get)).unwrap();
        rollout["status"].clone()
    }

    /// Waits until the status is so.
    async fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        eventually_within(what, 2 * PATIENCE, async || {
            let status = self.status();
            let is_so = is_so(&status);
            is_so
                .then(|| status.clone())
                .ok_or_else(|| format!("{status:#}"))
        })
        .await
    }

    async fn until_phase(&self, phase: &str) -> Value {
        self.until(phase, |it| it["phase"] == phase).await
    }

    /// Waits until all these replicas follow the present rollout.
    async fn followed(&self, replicas: usize) {
        self.until("all replicas follow", |status| {
            let entries = status["replicas"].as_object();
            let entries: Vec<_> = entries.into_iter().flatten().collect();
            let mut all = entries.iter();
            entries.len() == replicas && all.all(|(_, it)| it["rollout"] == status["rollout"])
        })
        .await;
    }

    /// Creates Deployments with two pods each, and waits for these. Their names are new.
    async fn deployments(&self, count: u32) -> Vec<Pod> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let batch = format!("batch-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let deployments = (0..count).map(|number| {
            let name = format!("{batch}-{number}");
            let labels = json!({ "app": name, "batch": batch });
            let container = json!({ "name": "a", "image": "registry.k8s.io/pause:3.10" });
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": { "name": name, "namespace": self.scene.namespace },
                "spec": {
                    "replicas": 2, "selector": { "matchLabels": { "app": name } },
                    "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
                },
            })
        });
        let list =
            json!({ "apiVersion": "v1", "kind": "List", "items": deployments.collect::<Value>() });
        self.scene.cluster.apply_text(&list.to_string());
        let selected = ListParams::default().labels(&format!("batch={batch}"));
        eventually_within("all pods are there", 2 * PATIENCE, async || {
            let pods = self.scene.pods().list(&selected).await.unwrap().items;
            let found = pods.len();
            (found == 2 * usize::try_from(count).unwrap())
                .then_some(pods)
                .ok_or_else(|| format!("{found}"))
        })
        .await
    }

    /// Waits for a step, and has pods pass each replica. Returns the stamps of each owner.
    async fn step_is_taken(
        &self,
        percent: u32,
        replicas: [&Operator; 2],
        new: &Value,
    ) -> BTreeMap<String, BTreeSet<String>> {
        self.until("the step begins", |it| it["percent"] == percent)
            .await;
        self.followed(2).await;
        let mut all = BTreeMap::new();
        for replica in replicas {
            self.webhook.configure(address(replica).await, Policy::Fail);
            self.webhook.serves().await;
            let pods = self.deployments(24).await;
            let candidates = owners_with(&pods, new);
            assert!(candidates > 0 && candidates < 24, "{percent}: {candidates}");
            all.extend(stamps(&pods));
        }
        all
    }

    /// Deletes the pods of an app, and waits until the next ones passed this chain.
    async fn replaced(&self, app: &str, digest: &Value) {
        let (namespace, selected) = (&self.scene.namespace, format!("app={app}"));
        let delete = ["delete", "pods", "-n", namespace, "-l", &selected];
        self.scene.cluster.kubectl(&delete);
        eventually("its pods are replaced", async || {
            let selected = ListParams::default().labels(&selected);
            let pods = self.scene.pods().list(&selected).await.unwrap().items;
            let is_new = pods.len() == 2 && pods.iter().all(|it| stamp(it) == digest);
            is_new
                .then_some(())
                .ok_or_else(|| format!("{:?}", stamps(&pods)))
        })
        .await;
    }

    /// A pod that nobody owns.
    async fn pod(&self, name: &str) -> Result<Pod, kube::Error> {
        let mut pod = podloom_tests::webhook::plain_pod(name);
        pod.labels_mut()
            .insert("loop".to_owned(), "please".to_owned());
        self.scene.pods().create(&PostParams::default(), &pod).await
    }
}

fn stamp(pod: &Pod) -> &str {
    pod.annotations().get(STAMP).map_or("", String::as_str)
}

/// The stamps of the pods of each app: one, unless a Deployment is half changed.
fn stamps(pods: &[Pod]) -> BTreeMap<String, BTreeSet<String>> {
    let mut stamps: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for pod in pods {
        let app = pod.labels()["app"].clone();
        stamps.entry(app).or_default().insert(stamp(pod).to_owned());
    }
    stamps
}

/// How many owners have this stamp. None is half changed.
fn owners_with(pods: &[Pod], digest: &Value) -> usize {
    let stamps = stamps(pods);
    for (owner, stamps) in &stamps {
        assert_eq!(stamps.len(), 1, "{owner} is half changed: {stamps:?}");
    }
    let digest = digest.as_str().unwrap();
    stamps.values().filter(|it| it.contains(digest)).count()
}

#[test]
fn a_good_candidate_comes_to_serve_and_no_deployment_is_half_changed() {
    blackbox_on(Cluster::without_operator, "rollout-good", async |scene| {
        let setting = Setting::new(&scene, &team("new"));
        // Two replicas, one after the other: both give the same answers.
        let one = setting.answering("one").await;
        let two = setting.replica("two").await;
        let judge = setting.judge(&[]);
        judge.ready().await;
        setting.wants(&taken(0));
        let status = setting.until_phase("Progressing").await;
        let (old, new) = (status["serving"].clone(), status["candidate"].clone());
        assert_ne!(old, new);

        // First it is only tried.
        setting.followed(2).await;
        let tried = setting.deployments(4).await;
        assert_eq!(owners_with(&tried, &old), 4);
        setting.wants(&taken(1));
        let mut early = BTreeMap::new();
        for (number, percent) in [(2, 40), (3, 60)] {
            early.extend(setting.step_is_taken(percent, [&one, &two], &new).await);
            setting.wants(&taken(number));
        }
        let status = setting.until_phase("Completed").await;
        assert_eq!(
            (&status["percent"], &status["reason"]),
            (&json!(100), &json!("AllSteps"))
        );
        let all = setting.deployments(3).await;
        assert_eq!(owners_with(&all, &new), 3);

        // Every further pod of whoever had the old chain passes the new one too.
        let mut kept = early
            .iter()
            .filter(|(_, it)| !it.contains(new.as_str().unwrap()));
        let (kept, _) = kept.next_back().unwrap();
        setting.replaced(kept, &new).await;

        // It becomes the chain proper, and nothing changes.
        setting.serving.update(&team("new"));
        let adopted = |it: &Value| {
            let replicas = it["replicas"].as_object().unwrap();
            replicas.values().all(|it| it["serving"] == new)
        };
        let status = setting.until("all replicas have it", adopted).await;
        assert_eq!(
            (&status["phase"], &status["rollout"]),
            (&json!("Completed"), &json!(1))
        );
        let pods = setting.deployments(2).await;
        assert_eq!(owners_with(&pods, &new), 2);
    });
}
