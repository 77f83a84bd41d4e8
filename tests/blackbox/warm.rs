//! Warm pods: how a BrowserConfig keeps them, and how Browsers take them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use podloom_api::{Browser, BrowserConfig, WarmStatus};
use podloom_tests::faults::{Fault, Proxy, RequestFilter, Rule};
use podloom_tests::lives::{Blow, Life, Place, strike};
use podloom_tests::{
    Bundle, Change, Cluster, Operator, Scene, Watched, blackbox, blackbox_on, eventually,
};
use serde_json::{Value, json};

const WARM: &str = "selenosis.io/warm";

/// Changes the BrowserConfig with the behaviours of pods.
pub(crate) async fn change(scene: &Scene, spec: Value) -> BrowserConfig {
    let patch = Patch::Merge(json!({ "spec": spec }));
    let configs = scene.configs();
    let parameters = PatchParams::default();
    let changed = configs.patch("behaviours", &parameters, &patch).await;
    changed.unwrap()
}

/// Has so many pods of a version wait.
pub(crate) async fn keep(scene: &Scene, version: &str, min: u32, max: u32) {
    let warm = json!({ "chrome": { version: pool(min, max) } });
    change(scene, json!({ "warm": warm })).await;
}

fn pool(min: u32, max: u32) -> Value {
    json!({ "min": min, "max": max, "maxAge": "1h", "maxStarting": 100 })
}

/// Does the same, with a tenth of the resources that sessions have.
pub(crate) async fn keep_small(scene: &Scene, min: u32, max: u32) {
    let mut small = pool(min, max);
    small["resources"] = resources("50m");
    let warm = json!({ "chrome": { "running": small } });
    let template = json!({ "resources": resources("500m") });
    change(scene, json!({ "template": template, "warm": warm })).await;
}

fn resources(cpu: &str) -> Value {
    json!({ "requests": { "cpu": cpu }, "limits": { "cpu": "1", "memory": "1Gi" } })
}

fn are_small(pods: &BTreeMap<String, Pod>) -> bool {
    pods.values().all(|pod| cpu(pod) == "50m")
}

/// What the browser of a pod requests.
fn cpu(pod: &Pod) -> Value {
    json!(pod)["spec"]["containers"][0]["resources"]["requests"]["cpu"].take()
}

async fn status(scene: &Scene) -> Option<WarmStatus> {
    let config = scene.configs().get("behaviours").await.unwrap();
    config.status?.warm
}

/// Waits until so many pods are ready, and as many are wanted.
pub(crate) async fn are_ready(scene: &Scene, count: i32) {
    eventually(&format!("{count} warm pods are ready"), async || {
        let status = status(scene).await;
        let is_so = status
            .as_ref()
            .is_some_and(|it| it.ready == count && it.wanted == count);
        is_so.then_some(()).ok_or_else(|| format!("{status:?}"))
    })
    .await;
}

/// The pods that wait, by name.
async fn waiting(scene: &Scene) -> BTreeMap<String, Pod> {
    let labelled = ListParams::default().labels(WARM);
    let pods = scene.pods().list(&labelled).await.unwrap();
    let living = pods.items.into_iter();
    let living = living.filter(|pod| pod.metadata.deletion_timestamp.is_none());
    living.map(|pod| (pod.name_any(), pod)).collect()
}

fn pod_name(browser: &Browser) -> Option<String> {
    browser.status.as_ref()?.pod_name.clone()
}

/// Why a Browser has the pod that it has.
fn made(browser: &Browser) -> String {
    let browser = json!(browser);
    let conditions = browser["status"]["conditions"].as_array().unwrap().iter();
    let mut made = conditions.filter(|it| it["type"] == "PodCreated");
    made.next().unwrap()["message"].as_str().unwrap().to_owned()
}

/// Checks that no pod was ever two Browsers', and no Browser had two pods, or one that was still small.
fn are_theirs(pods: &Watched<Pod>) {
    pods.are_single();
    let mut owners: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for change in pods.changes() {
        let pod = change.object();
        let of = owners.entry(pod.uid().unwrap()).or_default();
        let browsers = pod.owner_references().iter();
        let browsers = browsers.filter(|owner| owner.kind == "Browser");
        let before = of.len();
        of.extend(browsers.map(|owner| owner.uid.clone()));
        assert!(
            of.len() == before || cpu(pod) != "50m",
            "{}",
            pod.name_any()
        );
    }
    owners.retain(|_, browsers| browsers.len() > 1);
    assert!(owners.is_empty(), "{owners:#?}");
}

/// Takes away all warm pods.
async fn end(scene: &Scene) {
    scene.delete_all_browsers().await;
    change(scene, json!({ "warm": null })).await;
    scene.nothing_is_left().await;
}

/// What a pod of a Browser has beside its name.
fn made_for(pod: &Pod, browser: &str) -> Value {
    let mut pod = json!(pod);
    let metadata = &mut pod["metadata"];
    let labels = metadata["labels"].as_object_mut().unwrap();
    assert_eq!(labels.remove("selenosis.io/browser"), Some(browser.into()));
    if let Some(annotations) = metadata["annotations"].as_object_mut() {
        annotations.remove("podloom.dev/recipe");
    }
    let owner = metadata["ownerReferences"][0].as_object_mut().unwrap();
    assert_eq!(owner.remove("name"), Some(browser.into()));
    owner.remove("uid");
    let fields = ["labels", "annotations", "ownerReferences"];
    fields.map(|field| metadata[field].clone()).into()
}

#[test]
fn a_browser_takes_a_pod_that_waits() {
    blackbox_on(Cluster::without_operator, "warm", async |scene| {
        let proxy = scene.proxy();
        let _operator = scene.operator_behind(&proxy, &[]).await;
        scene.behaviours().await;
        keep(&scene, "running", 2, 2).await;
        are_ready(&scene, 2).await;
        let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        let before = waiting(&scene).await;
        let options = json!({ "labels": { "team": "search" } }).to_string();
        let metadata = json!({
            "labels": { "selenosis.io/owner": "me" }, "annotations": { "selenosis.io/options": options, "example.com/note": "x" },
        });
        let asked = proxy.requests().len();
        scene.browser_with("b", "running", metadata.clone()).await;
        let browser = seen.until_runs("b").await;
        let requests = proxy.requests();
        let name = pod_name(&browser).expect("a warm pod");
        let of_session = requests.iter().skip(asked).filter(|it| {
            it.is_write() && (it.path.contains("/browsers/") || it.path.contains(&name))
        });
        // Finalizer and labels, the pod, and one status that says all.
        assert_eq!(of_session.count(), 3);
        assert_eq!(seen.story("b"), ["Running"]);
        let warm = &before[&name];
        let pod = scene.pods().get(&name).await.unwrap();
        assert_eq!(pod.uid(), warm.uid());
        assert_eq!(pod.spec, warm.spec);
        let status = json!(browser)["status"].clone();
        assert_eq!(status["podUID"], json!(pod.uid()));
        assert_eq!(status["podIP"], json!(pod)["status"]["podIP"]);
        assert_eq!(made(&browser), format!("warm pod {name}"));
        scene
            .has_event("b", &format!("Normal PodCreated: took warm pod {name}"))
            .await;
        // A pod that is made for a Browser with the same wishes differs in its names alone.
        change(&scene, json!({ "warm": null })).await;
        eventually("no pod waits", async || {
            let left = waiting(&scene).await;
            left.is_empty().then_some(()).ok_or_else(String::new)
        })
        .await;
        scene.browser_with("c", "running", metadata).await;
        seen.until_runs("c").await;
        let cold = scene.pods().get("c").await.unwrap();
        assert_eq!(made_for(&pod, "b"), made_for(&cold, "c"));
        scene.delete_browser("b").await;
        seen.until_gone("b").await;
        are_theirs(&pods);
        end(&scene).await;
    });
}

#[test]
fn what_needs_another_pod_gets_one_and_says_why() {
    blackbox("warm-cold", async |scene| {
        scene.behaviours().await;
        keep(&scene, "running", 1, 1).await;
        are_ready(&scene, 1).await;
        let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        let env = json!({ "containers": { "browser": { "env": { "LANG": "de" } } } }).to_string();
        let options = json!({ "annotations": { "selenosis.io/options": env } });
        scene.browser_with("other", "running", options).await;
        let other = seen.until_runs("other").await;
        assert_eq!(pod_name(&other), None);
        assert_eq!(
            made(&other),
            "pod other, made cold: spec.containers[0].env is not that of the warm pods"
        );
        // Both at once: one gets the pod, and the other does not wait for the next.
        scene.browser("one", "running").await;
        scene.browser("two", "running").await;
        let both = [seen.until_runs("one").await, seen.until_runs("two").await];
        for browser in &both {
            let says_why = made(browser).ends_with("made cold: no warm pod is ready");
            assert!(pod_name(browser).is_some() || says_why, "{browser:?}");
        }
        assert!(both.iter().any(|browser| pod_name(browser).is_some()));
        // What is outdated is replaced.
        are_ready(&scene, 1).await;
        let before = waiting(&scene).await;
        let image =
            json!({ "browsers": { "chrome": { "running": { "image": "example.com/chrome:2" } } } });
        change(&scene, image).await;
        eventually("the outdated pod is replaced", async || {
            let now = waiting(&scene).await;
            let is_new = !now.is_empty() && now.keys().all(|name| !before.contains_key(name));
            is_new
                .then_some(())
                .ok_or_else(|| format!("{:?}", now.keys()))
        })
        .await;
        scene.browser("new", "running").await;
        let new = seen.until_runs("new").await;
        let name = pod_name(&new).unwrap_or_else(|| "new".to_owned());
        let pod = scene.pods().get(&name).await.unwrap();
        let image = pod.spec.unwrap().containers[0].image.clone();
        assert_eq!(image.as_deref(), Some("example.com/chrome:2"));
        are_theirs(&pods);
        end(&scene).await;
    });
}

#[test]
fn a_pod_that_waits_with_less_is_resized_first() {
    blackbox_on(Cluster::without_operator, "warm-small", async |scene| {
        let proxy = scene.proxy();
        let _operator = scene.operator_behind(&proxy, &[]).await;
        scene.behaviours().await;
        keep_small(&scene, 1, 1).await;
        are_ready(&scene, 1).await;
        assert!(are_small(&waiting(&scene).await));
        let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        let resized = proxy.count("patch pods/resize");
        scene.browser("b", "running").await;
        let browser = seen.until_runs("b").await;
        let name = pod_name(&browser).unwrap_or_else(|| panic!("{}", made(&browser)));
        let pod = scene.pods().get(&name).await.unwrap();
        assert_eq!(cpu(&pod), "500m");
        assert_eq!(seen.story("b"), ["Running"]);
        assert_eq!(proxy.count("patch pods/resize"), resized + 1);
        // Its node writes its status meanwhile.
        are_ready(&scene, 1).await;
        let changed = Fault::api_error(409, "Conflict", "the object has been modified");
        proxy.set_rules(&[Rule::once("patch pods", 0, changed)]);
        scene.browser("c", "running").await;
        let taken = seen.until_runs("c").await;
        assert_eq!(proxy.hits(), [1]);
        assert!(pod_name(&taken).is_some(), "{}", made(&taken));
        are_theirs(&pods);
        change(
            &scene,
            json!({ "template": { "resources": { "limits": null } } }),
        )
        .await;
        eventually("the BrowserConfig is not accepted", async || {
            let config = json!(scene.configs().get("behaviours").await.unwrap());
            let accepted = config["status"]["conditions"][0]["message"].to_string();
            let why = "resources of warm: a resize cannot remove limits.cpu of container browser";
            accepted.contains(why).then_some(()).ok_or(accepted)
        })
        .await;
        end(&scene).await;
    });
}

#[test]
fn a_refused_resize_leaves_no_session_with_a_small_pod() {
    blackbox_on(Cluster::without_operator, "warm-refused", async |scene| {
        let proxy = scene.proxy();
        let _operator = scene.operator_behind(&proxy, &[]).await;
        scene.behaviours().await;
        keep_small(&scene, 1, 1).await;
        let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        for (name, code, reason, why) in [
            ("full", 403, "Forbidden", "no room on this node"),
            (
                "old",
                404,
                "NotFound",
                "this API server does not resize pods",
            ),
        ] {
            are_ready(&scene, 1).await;
            let refused = Fault::api_error(code, reason, "no room on this node");
            proxy.set_rules(&[Rule::on("patch pods/resize", refused)]);
            scene.browser(name, "running").await;
            let cold = made(&seen.until_runs(name).await);
            assert!(cold.contains("made cold: ") && cold.contains(why), "{cold}");
            assert!(are_small(&waiting(&scene).await));
        }
        // One that was resized and is not taken after all does not wait for the next session.
        are_ready(&scene, 1).await;
        let before = waiting(&scene).await;
        let denied = Fault::api_error(403, "Forbidden", "not today");
        proxy.set_rules(&[Rule::on("patch pods", denied)]);
        scene.browser("denied", "running").await;
        let cold = made(&seen.until_runs("denied").await);
        assert!(cold.contains("not today"), "{cold}");
        proxy.set_rules(&[]);
        eventually("the resized pod is replaced", async || {
            let now = waiting(&scene).await;
            let is_new = now.len() == 1 && now.keys().all(|name| !before.contains_key(name));
            is_new
                .then_some(())
                .ok_or_else(|| format!("{:?}", now.keys()))
        })
        .await;
        assert!(are_small(&waiting(&scene).await));
        are_theirs(&pods);
        end(&scene).await;
    });
}

#[test]
fn many_at_once_get_a_pod_each_and_the_pool_grows() {
    blackbox("warm-many", async |scene| {
        scene.behaviours().await;
        keep(&scene, "running", 5, 20).await;
        are_ready(&scene, 5).await;
        let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        let names: Vec<String> = (0..30).map(|number| format!("b{number}")).collect();
        for name in &names {
            scene.browser(name, "running").await;
        }
        let mut warm = BTreeSet::new();
        for name in &names {
            let taken = pod_name(&seen.until_runs(name).await);
            if let Some(pod) = taken {
                assert!(warm.insert(pod), "two Browsers have one pod");
            }
        }
        assert!(warm.len() >= 5, "{warm:?}");
        // As many as began within ten seconds, and no more than the most.
        are_ready(&scene, 20).await;
        are_theirs(&pods);
        end(&scene).await;
    });
}

#[test]
fn a_full_quota_is_said_once_and_tried_later_and_later() {
    blackbox_on(Cluster::without_operator, "warm-quota", async |scene| {
        let proxy = scene.proxy();
        let _operator = scene.operator_behind(&proxy, &[]).await;
        scene.behaviours().await;
        let quota = json!({ "metadata": { "name": "one" }, "spec": { "hard": { "pods": "1" } } });
        let quotas: Api<ResourceQuota> =
            Api::namespaced(scene.pods().into_client(), &scene.namespace);
        scene.create(quotas.clone(), quota).await;
        // The quota controller does not run here.
        let counted = json!({ "status": { "hard": { "pods": "1" }, "used": { "pods": "0" } } });
        let parameters = PatchParams::default();
        quotas
            .patch_status("one", &parameters, &Patch::Merge(counted))
            .await
            .unwrap();
        keep(&scene, "running", 2, 2).await;
        scene
            .has_event("behaviours", "Warning WarmPodsFailed: ")
            .await;
        let one = status(&scene).await.unwrap();
        assert!(one.message.unwrap().contains("exceeded quota"));
        eventually("the one that is allowed is ready", async || {
            let status = status(&scene).await.unwrap();
            (status.ready == 1)
                .then_some(())
                .ok_or_else(|| format!("{status:?}"))
        })
        .await;
        // It is tried again, later and later, and said once.
        let written = proxy.count("patch browserconfigs/status");
        let tried = proxy.count("create pods");
        eventually("it is tried twice more", async || {
            let now = proxy.count("create pods");
            let is_tried = now >= tried + 2;
            is_tried.then_some(()).ok_or_else(|| now.to_string())
        })
        .await;
        assert_eq!(proxy.count("patch browserconfigs/status"), written);
        let tries = proxy.requests().into_iter();
        let tries = tries.filter(|it| it.method == "POST" && it.path.contains("/pods"));
        let times: Vec<f64> = tries.map(|it| it.seconds).collect();
        let [.., first, _, last] = times[..] else {
            panic!("{times:?}")
        };
        // Without a pause in between, two tries take some hundredths of a second.
        assert!(last - first > 0.3, "{times:?}");
        quotas
            .delete("one", &DeleteParams::default())
            .await
            .unwrap();
        are_ready(&scene, 2).await;
        assert_eq!(status(&scene).await.unwrap().message, None);
        end(&scene).await;
    });
}

#[test]
fn what_is_in_the_way_is_said() {
    blackbox("warm-obstacles", async |scene| {
        scene.behaviours().await;
        // A pod that fails is shown for a minute, and not made again and again.
        keep(&scene, "failed", 1, 1).await;
        eventually("the status says why", async || {
            let message = status(&scene).await.and_then(|it| it.message);
            let is_said = message
                .as_ref()
                .is_some_and(|it| it.contains("container browser terminated"));
            is_said.then_some(()).ok_or_else(|| format!("{message:?}"))
        })
        .await;
        let all = waiting(&scene).await;
        let failed = all
            .values()
            .filter(|pod| pod.labels()["selenosis.io/browser.version"] == "failed");
        assert_eq!(failed.count(), 1);
        // A variable that is read at the start cannot be of a session that comes later.
        let label = json!({ "name": "WHO", "valueFrom": { "fieldRef": { "fieldPath": "metadata.labels['team']" } } });
        change(&scene, json!({ "template": { "env": [label] } })).await;
        eventually("the BrowserConfig is not accepted", async || {
            let config = json!(scene.configs().get("behaviours").await.unwrap());
            let accepted = config["status"]["conditions"][0]["message"].clone();
            let is_said = accepted
                .as_str()
                .unwrap()
                .contains("a warm pod has no session yet");
            is_said.then_some(()).ok_or_else(|| accepted.to_string())
        })
        .await;
        end(&scene).await;
    });
}

/// Gives the pod of each session what its Browser is called for, and denies one.
const CLAIMS: &str = r#"
pod.set("/metadata/labels/for", request.annotation("example.com/for") ?? "nobody");
if request.name == "denied" {
    deny("never this one")
}
"#;

#[test]
fn plugins_run_when_a_session_gets_its_pod() {
    blackbox_on(Cluster::without_operator, "warm-claims", async |scene| {
        let chain = json!([{
            "name": "for", "file": "script.wasm.gz", "match": { "operations": ["CLAIM"] },
            "allow": ["/metadata/labels"], "config": { "program": CLAIMS },
        }]);
        let bundle = Bundle::of(&chain.to_string());
        let plugins = bundle.path().to_str().unwrap();
        let _operator = scene.operator(&["--plugins", plugins]).await;
        scene.behaviours().await;
        keep(&scene, "running", 1, 1).await;
        are_ready(&scene, 1).await;
        let waits = waiting(&scene).await;
        assert!(waits.values().all(|pod| !pod.labels().contains_key("for")));
        let seen = scene.watch_browsers().await;
        let env = json!({ "containers": { "browser": { "env": { "LANG": "de" } } } }).to_string();
        let wanted = |options: &str| json!({ "annotations": { "example.com/for": "search", "selenosis.io/options": options } });
        for (name, options) in [("warm", "{}"), ("cold", env.as_str())] {
            scene.browser_with(name, "running", wanted(options)).await;
            let browser = seen.until_runs(name).await;
            let taken = pod_name(&browser);
            assert_eq!(taken.is_some(), name == "warm");
            let pod = taken.unwrap_or_else(|| name.to_owned());
            let pod = scene.pods().get(&pod).await.unwrap();
            assert_eq!(pod.labels()["for"], "search");
        }
        are_ready(&scene, 1).await;
        let before = waiting(&scene).await;
        scene.browser("denied", "running").await;
        scene.has_event("denied", "Warning MutationDenied: ").await;
        let after = waiting(&scene).await;
        assert_eq!(
            before.keys().collect::<Vec<_>>(),
            after.keys().collect::<Vec<_>>()
        );
        end(&scene).await;
    });
}

/// Whether a NetworkPolicy selects a pod.
fn selects(policy: &NetworkPolicy, pod: &Pod) -> bool {
    let selector = policy.spec.as_ref().unwrap().pod_selector.as_ref().unwrap();
    let mut labels = selector.match_labels.iter().flatten();
    labels.all(|(key, value)| pod.labels().get(key) == Some(value))
}

#[test]
fn no_pod_is_without_its_network_policy_for_a_moment() {
    blackbox("warm-policies", async |scene| {
        let policies: Api<NetworkPolicy> = Api::namespaced(scene.client.clone(), &scene.namespace);
        let policies = Watched::new(policies).await;
        scene.behaviours().await;
        // What waits when the policy comes is replaced.
        keep(&scene, "running", 2, 4).await;
        are_ready(&scene, 2).await;
        let unguarded: BTreeSet<String> = waiting(&scene).await.into_keys().collect();
        let hub = json!({ "podSelector": { "matchLabels": { "app": "hub" } } });
        let policy = json!({ "ingress": [{ "from": [hub] }] });
        change(&scene, json!({ "networkPolicy": policy })).await;
        eventually("what waits is replaced", async || {
            let now: Vec<String> = waiting(&scene).await.into_keys().collect();
            let is_new = now.len() == 2 && now.iter().all(|name| !unguarded.contains(name));
            is_new.then_some(()).ok_or_else(|| format!("{now:?}"))
        })
        .await;
        let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        let names: Vec<String> = (0..10).map(|number| format!("b{number}")).collect();
        for name in &names {
            scene.browser(name, "running").await;
        }
        for name in &names {
            seen.until_runs(name).await;
        }
        // In the order in which the API server made them: each pod, as it is then, is behind one of the policies that are there.
        let version = |version: Option<String>| version.unwrap().parse::<u64>().unwrap();
        let policies = policies.changes();
        let mut taken = 0;
        for change in pods.changes() {
            let Change::Is(pod) = change else { continue };
            let at = version(pod.resource_version());
            let mut there: BTreeMap<String, NetworkPolicy> = BTreeMap::new();
            for policy in &policies {
                let name = policy.object().name_any();
                match policy {
                    _ if version(policy.object().resource_version()) > at => break,
                    Change::Is(policy) => drop(there.insert(name, policy.clone())),
                    Change::Gone(_) => drop(there.remove(&name)),
                }
            }
            there.retain(|_, policy| selects(policy, &pod));
            let there: Vec<String> = there.into_keys().collect();
            assert_eq!(there.len(), 1, "{} at {at}: {there:?}", pod.name_any());
            let of_session = pod.labels().contains_key("selenosis.io/browser");
            let expected = if of_session { "browser-" } else { "warm-" };
            assert!(there[0].starts_with(expected), "{there:?}");
            taken += usize::from(of_session && pod.name_any().starts_with("warm-"));
        }
        assert!(taken > 0);
        end(&scene).await;
    });
}

/// The name of the Browser.
const NAME: &str = "b";

/// The namespaces of the lives in which a session took a warm pod.
static TAKEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// A session that takes a warm pod, is deleted, and comes again.
struct Session {
    scene: &'static Scene,
    browsers: Watched<Browser>,
    pods: Watched<Pod>,
    blow: Blow,
}

impl Session {
    async fn new(place: Place, blow: Blow) -> Self {
        Self {
            blow,
            scene: place.scene,
            browsers: place.scene.watch_browsers().await,
            pods: place.scene.watch_pods().await,
        }
    }
}

impl Life for Session {
    async fn operator(&self, flags: &[&str]) -> (Proxy, Operator) {
        let proxy = self.scene.proxy();
        let operator = self.scene.operator_behind(&proxy, flags).await;
        (proxy, operator)
    }

    async fn prepares(&self) {
        self.scene.behaviours().await;
        keep_small(self.scene, 2, 2).await;
        are_ready(self.scene, 2).await;
    }

    async fn begins(&self) {
        self.scene.browser(NAME, "running").await;
    }

    async fn goes_on(&self) -> Result<(), String> {
        let story = self.browsers.story(NAME);
        match story.last().map(String::as_str) {
            // It may be gone before anybody sees it.
            Some("Running") => self.scene.delete_all_browsers().await,
            Some("gone") => return Ok(()),
            _ => {}
        }
        Err(format!("{story:?}"))
    }

    /// It ran once, in one pod that nobody else had, and what waits is all that is left.
    async fn ends(&self) {
        let story = self.browsers.story(NAME);
        assert!(
            story.ends_with(&["Running".to_owned(), "gone".to_owned()]),
            "{story:?}"
        );
        let failed = story.iter().any(|line| line.starts_with("Failed"));
        assert!(!failed, "{story:?}");
        let changes = self.browsers.changes();
        if changes.iter().any(|it| pod_name(it.object()).is_some()) {
            let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
            taken.insert(self.scene.namespace.clone());
        }
        are_ready(self.scene, 2).await;
        if matches!(self.blow, Blow::Unanswered) {
            // Nor does one wait that was resized for a session which did not take it. Only a killed process leaves such a pod.
            assert!(are_small(&waiting(self.scene).await));
        }
        let is_of_browser = |change: &Change<Pod>| {
            let owners = change.object().owner_references();
            owners.iter().any(|owner| owner.kind == "Browser")
        };
        self.pods
            .until("the pods of the session are gone", |changes| {
                let mut last = BTreeMap::new();
                for change in changes.iter().filter(|it| is_of_browser(it)) {
                    let is_gone = matches!(change, Change::Gone(_));
                    last.insert(change.object().meta().uid.clone(), is_gone);
                }
                last.values().all(|is_gone| *is_gone).then_some(())
            })
            .await;
        are_theirs(&self.pods);
        end(self.scene).await;
    }
}

fn each_write(name: &str, blow: Blow) {
    // The finalizer, the resize, the pod, the status, the deletions of the pod, the finalizer again; and what the pool makes.
    let writes = RequestFilter::from("write browsers browsers/status pods pods/resize");
    strike(name, blow, &[(writes, 6..15)], async |place| {
        Session::new(place, blow).await
    });
    let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let is_skipped = std::env::var_os("PODLOOM_BLACKBOX_BINARY").is_none();
    assert!(is_skipped || taken.iter().any(|it| it.starts_with(name)));
}

#[test]
fn killed_in_any_write_a_session_keeps_its_warm_pod() {
    each_write("warm-killed-in", Blow::KilledIn);
}

#[test]
fn killed_after_any_write_a_session_keeps_its_warm_pod() {
    each_write("warm-killed-after", Blow::KilledAfter);
}

#[test]
fn whichever_answer_is_lost_a_session_has_one_pod() {
    each_write("warm-lost-answers", Blow::Unanswered);
}
