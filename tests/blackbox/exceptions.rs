//! ChainExceptions: where the author of the chain lets them, namespaces except pods from a plugin.

use std::process::Command;

use jiff::{SignedDuration, Timestamp};
use podloom_tests::webhook::{Route, Webhook};
use podloom_tests::{
    Cluster, MountedBundle, Operator, Said, Scene, binary, blackbox_on, eventually,
};
use serde_json::{Value, json};

/// A plugin that lets itself be excepted for a day, one that does not, and one that labels.
const CHAIN: &str = "
- { name: images, file: script.wasm.gz, longestException: 24h, config: { program: 'for c in pod.containers([\"/image\"]) { if c.image.ends_with(\":bad\") { deny(`${c.name}: this image is forbidden`) } }' } }
- { name: names, file: script.wasm.gz, config: { program: 'for c in pod.containers([\"/image\"]) { if c.name == \"root\" { deny(`${c.name}: this name is forbidden`) } }' } }
- { name: labels, file: labels.wasm.gz, longestException: 24h, allow: [/metadata/labels], config: { labels: [{ key: team, value: core }] } }";

fn except(scene: &Scene, name: &str, plugin: &str, (effect, lasts): (&str, SignedDuration)) {
    scene
        .cluster
        .apply_text(&exception(&scene.namespace, name, plugin, (effect, lasts)).to_string());
}

fn exception(
    namespace: &str,
    name: &str,
    plugin: &str,
    (effect, lasts): (&str, SignedDuration),
) -> Value {
    let until = Timestamp::from_second((Timestamp::now() + lasts).as_second()).unwrap();
    json!({
        "apiVersion": "chain.podloom.dev/v1alpha1", "kind": "ChainException",
        "metadata": { "name": name, "namespace": namespace },
        "spec": {
            "pods": { "selector": { "matchLabels": { "run": name } } },
            "plugins": [plugin], "effect": effect, "reason": "a test", "until": until,
            // The webhooks of a test have the name of its namespace.
            "webhook": namespace,
        },
    })
}

/// Runs a pod that has the label run of its name.
fn run(scene: &Scene, name: &str, image: &str) -> Said {
    let image = format!("--image=example.com/a:{image}");
    let run = ["run", name, "-n", &scene.namespace, &image];
    scene.cluster.ask_kubectl(&run)
}

async fn until_status(scene: &Scene, name: &str, expected: &str) -> String {
    let get = [
        "get",
        "chainexception",
        name,
        "-n",
        &scene.namespace,
        "-o",
        "json",
    ];
    eventually(&format!("{name} is {expected}"), async || {
        let object: Value = serde_json::from_str(&scene.cluster.kubectl(&get)).unwrap();
        let conditions = object["status"]["conditions"].as_array().cloned();
        let conditions = conditions.unwrap_or_default();
        let ready = conditions.iter().find(|it| it["type"] == "Ready");
        let ready = ready.filter(|it| it["reason"] == expected);
        let message = ready.and_then(|it| it["message"].as_str());
        message.map(str::to_owned).ok_or_else(|| object.to_string())
    })
    .await
}

/// Until an exception reaches the operator, the pod is denied.
async fn until_run(scene: &Scene, name: &str, image: &str) -> Said {
    eventually(&format!("{name} runs"), async || {
        let said = run(scene, name, image);
        said.is_done
            .then_some(())
            .ok_or_else(|| said.error.clone())?;
        Ok(said)
    })
    .await
}

fn pod(scene: &Scene, name: &str) -> Value {
    let get = ["get", "pod", name, "-n", &scene.namespace, "-o", "json"];
    serde_json::from_str(&scene.cluster.kubectl(&get)).unwrap()
}

const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// An operator with the chain.
async fn operator(scene: &Scene, webhook: &Webhook, chain: &MountedBundle) -> Operator {
    let crd = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../crds/webhook/chainexceptions.yaml"
    );
    scene.cluster.apply(std::path::Path::new(crd));
    let crd = "crd/chainexceptions.chain.podloom.dev";
    let wait = ["wait", "--for=condition=Established", crd, "--timeout=60s"];
    scene.cluster.kubectl(&wait);
    let more = ["--lease-duration", "3s", "--namespace", &scene.namespace];
    webhook.operator(chain.path(), &more).await
}

#[test]
fn a_denial_becomes_a_warning_and_a_plugin_does_not_run() {
    blackbox_on(Cluster::without_operator, "exceptions", async |scene| {
        let (webhook, chain) = (Webhook::new(&scene, Route::Url), MountedBundle::of(CHAIN));
        let _operator = operator(&scene, &webhook, &chain).await;
        assert!(!run(&scene, "warned", "bad").is_done);
        except(&scene, "warned", "images", ("Warn", HOUR));
        let said = until_run(&scene, "warned", "bad").await;
        for part in [
            "Warning: plugin images will deny this pod when ChainException warned ends, ",
            ": warned: this image is forbidden",
        ] {
            assert!(said.error.contains(part), "{}", said.error);
        }
        let stamped = pod(&scene, "warned");
        let stamp = stamped["metadata"]["annotations"]["podloom.dev/mutations"].as_str();
        let stamp: Value = serde_json::from_str(stamp.unwrap()).unwrap();
        assert_eq!(
            (&stamp[0]["name"], &stamp[0]["exception"]),
            (&json!("images"), &json!("warned"))
        );
        assert_eq!(stamped["metadata"]["labels"]["team"], "core");
        // It is about these pods alone.
        assert!(!run(&scene, "other", "bad").is_done);

        except(&scene, "skipped", "labels", ("Skip", HOUR));
        until_status(&scene, "skipped", "Holds").await;
        assert!(run(&scene, "skipped", "good").is_done);
        assert_eq!(
            pod(&scene, "skipped")["metadata"]["labels"]["team"],
            Value::Null
        );
        tools(&scene, &webhook, &chain);
    });
}

#[test]
fn an_exception_holds_only_as_far_as_the_chain_allows() {
    blackbox_on(
        Cluster::without_operator,
        "exceptions-limits",
        async |scene| {
            let (webhook, chain) = (Webhook::new(&scene, Route::Url), MountedBundle::of(CHAIN));
            let operator = operator(&scene, &webhook, &chain).await;
            except(&scene, "root", "names", ("Skip", HOUR));
            except(&scene, "long", "images", ("Skip", HOUR * 30));
            except(&scene, "typo", "image", ("Skip", HOUR));
            let why = until_status(&scene, "root", "NotAllowed").await;
            assert_eq!(why, "the chain allows none for plugin names");
            let why = until_status(&scene, "long", "NotAllowed").await;
            let limit =
                "it lasts 30 h from its creation on, and the chain allows 24 h for plugin images";
            assert_eq!(why, limit);
            until_status(&scene, "typo", "NoPlugin").await;
            // It ends by itself, and says so.
            except(
                &scene,
                "short",
                "images",
                ("Skip", SignedDuration::from_secs(20)),
            );
            until_run(&scene, "short", "bad").await;
            let denied = run(&scene, "long", "bad");
            let reason = format!("(ChainException long does not hold: {limit})");
            assert!(
                !denied.is_done && denied.error.contains(&reason),
                "{}",
                denied.error
            );
            let mut both = exception(&scene.namespace, "both", "images", ("Warn", HOUR));
            both["spec"]["plugins"] = json!(["images", "names"]);
            scene.cluster.apply_text(&both.to_string());
            // It holds for one of them, which must not look as if it held for none.
            let holds = until_status(&scene, "both", "Holds").await;
            let end = " for images; the chain allows none for plugin names";
            assert!(
                holds.starts_with("until ") && holds.ends_with(end),
                "{holds}"
            );

            until_status(&scene, "short", "Ended").await;
            let delete = ["delete", "pod", "short", "-n", &scene.namespace, "--force"];
            scene.cluster.kubectl(&delete);
            assert!(!run(&scene, "short", "bad").is_done);
            eventually("its Events", async || {
                let events = scene.events("short").await;
                let has = |start: &str| events.iter().any(|it| it.starts_with(start));
                let has_both =
                    has("Normal ExceptionHolds: until ") && has("Normal ExceptionEnded: it ended ");
                has_both.then_some(()).ok_or_else(|| format!("{events:?}"))
            })
            .await;
            let state = |state: &str| {
                operator.metric(&format!("podloom_chain_exceptions{{state=\"{state}\"}}"))
            };
            assert_eq!(["holds", "ended", "refused"].map(state), [1.0, 1.0, 3.0]);
            assert!(operator.metric("podloom_chain_exception_next_end_timestamp_seconds") > 1.0e9);
        },
    );
}

/// The offline tools know them.
fn tools(scene: &Scene, webhook: &Webhook, chain: &MountedBundle) {
    let plugins = chain.path().to_str().unwrap();
    let podloom = |arguments: &[&str]| {
        let mut command = Command::new(binary().unwrap());
        command.env("KUBECONFIG", scene.cluster.plane.kubeconfig());
        let output = command.args(arguments).output().unwrap();
        let texts = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
        (output.status.success(), texts.concat())
    };
    let (_, blame) = podloom(&["blame", "pod/warned", "-n", &scene.namespace]);
    let line = "images let it pass because of the ChainException warned.";
    assert!(blame.contains(line), "{blame}");
    let drift = [
        "drift",
        "-n",
        &scene.namespace,
        "--webhook-configuration",
        &webhook.name,
    ];
    let (_, drift) = podloom(&[&drift[..], &["--plugins", plugins, "-o", "json"]].concat());
    let found: Value = serde_json::from_str(&drift).unwrap();
    assert_eq!(
        (&found["excepted"], &found["drifted"]),
        (&json!(2), &json!(false)),
        "{drift}"
    );

    let directory = tempfile::tempdir().unwrap();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": "shop", "labels": { "run": "ours" } },
        "spec": { "containers": [{ "name": "a", "image": "example.com/a:bad" }] },
    });
    let file = directory.path().join("pod.yaml");
    std::fs::write(&file, pod.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let render = ["render", "-f", file, "--plugins", plugins];
    assert!(!podloom(&render).0);
    let allowed = directory.path().join("exception.yaml");
    let text = exception("shop", "ours", "images", ("Warn", HOUR)).to_string();
    std::fs::write(&allowed, text).unwrap();
    let with = [&render[..], &["-f", allowed.to_str().unwrap()]].concat();
    let (is_done, printed) = podloom(&with);
    assert!(
        is_done && printed.contains("will deny this pod when ChainException ours ends"),
        "{printed}"
    );
}
