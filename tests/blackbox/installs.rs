//! The manifests in `deploy/` on a real API server, and how an installation gets its chain of plugins.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use http::Request;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::flowcontrol::v1::FlowSchema;
use kube::Api;
use kube::client::Body;
use podloom_control_plane::Release;
use podloom_tests::{Cluster, Scene, blackbox_on, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The components with a volume for the chain, and the type of that volume.
const CARRIERS: [(&str, &str); 4] = [
    ("claim", "persistentVolumeClaim"),
    ("config-map", "configMap"),
    ("config-maps", "projected"),
    ("image", "image"),
];

/// Those that the API server accepts: before 1.35 it drops image volumes, and the pod template is then invalid.
fn carriers() -> impl Iterator<Item = (&'static str, &'static str)> {
    let has_images = Release::chosen().unwrap().is_at_least(35);
    let known = move |(carrier, _): &(&str, &str)| has_images || *carrier != "image";
    CARRIERS.into_iter().filter(known)
}

const PLUGINS: &str = "/usr/share/podloom/plugins";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// An overlay as a user writes it, beside copies of `deploy` and `crds`.
fn overlay(base: &str, component: Option<&str>) -> TempDir {
    let directory = TempDir::new().unwrap();
    for name in ["deploy", "crds"] {
        copy(&root().join(name), &directory.path().join(name));
    }
    let component = component.map(|name| format!("../deploy/{name}"));
    let text = format!(
        "resources: [../{base}]\ncomponents: [{}]\n",
        component.unwrap_or_default()
    );
    let overlay = directory.path().join("overlay");
    fs::create_dir(&overlay).unwrap();
    fs::write(overlay.join("kustomization.yaml"), text).unwrap();
    directory
}

/// Applies an overlay as a server-side dry run, and returns the objects; fails on errors and warnings.
fn dry_run(scene: &Scene, overlay: &TempDir) -> Vec<Value> {
    let directory = overlay.path().join("overlay");
    let mut kubectl = scene.cluster.plane.kubectl();
    let output = kubectl
        .args([
            "apply",
            "--server-side",
            "--dry-run=server",
            "--output=json",
            "--kustomize",
        ])
        .arg(directory)
        .output()
        .unwrap();
    // Warnings come from Pod Security admission, and for fields that the API server does not know.
    let list: Value = serde_json::from_str(&without_warnings(output)).unwrap();
    list["items"].as_array().cloned().unwrap()
}

/// The output of a program; fails on errors and warnings.
#[track_caller]
fn without_warnings(output: Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn of_kind<'o>(objects: &'o [Value], kind: &str) -> Vec<&'o Value> {
    let objects = objects.iter();
    objects.filter(|object| object["kind"] == kind).collect()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// The volume with the operator's plugins.
fn volume(objects: &[Value]) -> Option<Value> {
    volume_of(of_kind(objects, "Deployment")[0])
}

fn volume_of(deployment: &Value) -> Option<Value> {
    let deployment: Deployment = serde_json::from_value(deployment.clone()).unwrap();
    let pod = deployment.spec.unwrap().template.spec.unwrap();
    let mounts = pod.containers.into_iter().next().unwrap().volume_mounts;
    let mounts = mounts.unwrap_or_default();
    let mount = mounts.iter().find(|mount| mount.mount_path == PLUGINS)?;
    assert_eq!(mount.read_only, Some(true));
    assert_eq!(mount.sub_path, None);
    let volumes = pod.volumes.unwrap_or_default();
    let volume = volumes.iter().find(|volume| volume.name == mount.name);
    Some(serde_json::to_value(volume.unwrap()).unwrap())
}

#[test]
fn everything_in_deploy_is_accepted() {
    blackbox_on(
        Cluster::without_operator,
        "installs-deploy",
        async |scene| {
            // The namespace that deploy/namespaced is for.
            let _browsers = scene.beside("browsers", json!({})).await;
            for (base, definitions) in [
                ("deploy", 2),
                ("deploy/seed", 2),
                ("deploy/split", 2),
                ("deploy/operator", 0),
                ("deploy/operator/split", 0),
                ("deploy/namespaced", 0),
            ] {
                let objects = dry_run(&scene, &overlay(base, None));
                assert_eq!(volume(&objects), None, "{base}");
                let crds = of_kind(&objects, "CustomResourceDefinition");
                assert_eq!(crds.len(), definitions, "{base}");
                for object in &objects {
                    let label = &object["metadata"]["labels"]["app.kubernetes.io/name"];
                    assert_eq!(label, "podloom", "{base}: {}", name(object));
                }
            }
            let namespaced = dry_run(&scene, &overlay("deploy/namespaced", None));
            for object in &namespaced {
                let is_namespaced = object["metadata"]["namespace"].is_string();
                let (kind, name) = (&object["kind"], name(object));
                assert!(is_namespaced || kind == "Namespace", "{kind} {name}");
            }
            the_guide_removes_all_cluster_wide_rights(&dry_run(&scene, &overlay("deploy", None)));
            let found = fs::read_dir(root().join("deploy/plugins")).unwrap();
            let found = found.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut found: Vec<String> = found.collect();
            found.sort();
            assert_eq!(found, CARRIERS.map(|(carrier, _)| carrier));
            for (carrier, kind) in carriers() {
                let component = format!("plugins/{carrier}");
                let volume = volume(&dry_run(&scene, &overlay("deploy", Some(&component))));
                let volume = volume.unwrap();
                assert!(volume[kind].is_object(), "{carrier}: {volume}");
            }
            for option in fs::read_dir(root().join("deploy/options")).unwrap() {
                let option = option.unwrap().file_name().into_string().unwrap();
                // It is for another controller, and this API server has no kinds of cert-manager.
                if option == "cert-manager" {
                    continue;
                }
                dry_run(
                    &scene,
                    &overlay("deploy", Some(&format!("options/{option}"))),
                );
            }
        },
    );
}

/// For users who move from `deploy` to `deploy/namespaced`, the guide has commands that delete every cluster-wide right.
fn the_guide_removes_all_cluster_wide_rights(objects: &[Value]) {
    let guide = fs::read_to_string(root().join("deploy/README.md")).unwrap();
    let deleted = |kind: &str| {
        let mut lines = guide.lines();
        let line = lines.find_map(|line| line.strip_prefix(&format!("kubectl delete {kind} ")));
        let mut names: Vec<String> = line.unwrap().split(' ').map(str::to_owned).collect();
        names.sort();
        names
    };
    let bindings = of_kind(objects, "ClusterRoleBinding").into_iter();
    let mut bindings: Vec<(String, String)> = bindings
        .map(|binding| {
            let role = binding["roleRef"]["name"].as_str().unwrap();
            (name(binding).to_owned(), role.to_owned())
        })
        .collect();
    bindings.sort();
    let (bindings, roles): (Vec<_>, Vec<_>) = bindings.into_iter().unzip();
    assert_eq!(deleted("clusterrolebinding"), bindings);
    assert_eq!(deleted("clusterrole"), roles);
}

/// The Deployment of another controller, as a component would bring it.
const ANOTHER: &str = "
apiVersion: apps/v1
kind: Deployment
metadata:
  name: podloom-another
  namespace: podloom-system
  labels: { app.kubernetes.io/name: podloom-another, app.kubernetes.io/part-of: podloom }
spec:
  selector: { matchLabels: { app.kubernetes.io/name: podloom-another } }
  template:
    metadata:
      labels: { app.kubernetes.io/name: podloom-another, app.kubernetes.io/part-of: podloom }
    spec:
      securityContext: { runAsNonRoot: true, seccompProfile: { type: RuntimeDefault } }
      containers:
      - name: podloom
        image: ghcr.io/podloom/podloom:0.1.0
        securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: [ALL] } }
";

/// An overlay with these two components. One of them brings two more Deployments, and one of the Deployments needs the chain.
fn with_others(order: [&str; 2]) -> TempDir {
    let directory = overlay("deploy", None);
    let chain = "{ podloom.dev/chain: needed, app.kubernetes.io/name";
    let needs_it = ANOTHER
        .replace("podloom-another", "podloom-chained")
        .replacen("{ app.kubernetes.io/name", chain, 1);
    let others = directory.path().join("deploy").join(OTHERS);
    fs::create_dir(&others).unwrap();
    let text = format!("{ANOTHER}---{needs_it}");
    fs::write(others.join("others.yaml"), text).unwrap();
    let component =
        "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [others.yaml]\n";
    fs::write(others.join("kustomization.yaml"), component).unwrap();
    let [first, second] = order.map(|name| format!("../deploy/{name}"));
    let text = format!("resources: [../deploy]\ncomponents: [{first}, {second}]\n");
    fs::write(directory.path().join("overlay/kustomization.yaml"), text).unwrap();
    directory
}

/// The component of other controllers.
const OTHERS: &str = "controllers/others";

#[test]
fn every_deployment_that_needs_the_chain_gets_the_same() {
    blackbox_on(
        Cluster::without_operator,
        "installs-chains",
        async |scene| {
            let volumes = |order: [&str; 2]| {
                let objects = dry_run(&scene, &with_others(order));
                let deployments = of_kind(&objects, "Deployment").into_iter();
                let volumes =
                    deployments.map(|object| (name(object).to_owned(), volume_of(object)));
                volumes.collect::<BTreeMap<String, Option<Value>>>()
            };
            for (carrier, _) in carriers() {
                let carrier = format!("plugins/{carrier}");
                let last = volumes([OTHERS, &carrier]);
                assert!(last["podloom"].is_some(), "{carrier}");
                assert_eq!(last["podloom-chained"], last["podloom"], "{carrier}");
                assert_eq!(last["podloom-another"], None, "{carrier}");
                // This is why the guide says that controllers come first.
                let first = volumes([&carrier, OTHERS]);
                assert_eq!(first["podloom"], last["podloom"], "{carrier}");
                assert_eq!(first["podloom-chained"], None, "{carrier}");
            }
            let objects = dry_run(&scene, &with_others([OTHERS, "options/priority-class"]));
            for deployment in of_kind(&objects, "Deployment") {
                let class = &deployment["spec"]["template"]["spec"]["priorityClassName"];
                assert_eq!(class, "podloom", "{}", name(deployment));
            }
        },
    );
}

/// Scaling, scraping or evicting one controller must not affect another.
#[test]
fn nothing_selects_the_pods_of_another_controller() {
    blackbox_on(
        Cluster::without_operator,
        "installs-selectors",
        async |scene| {
            let objects = dry_run(&scene, &overlay("deploy", None));
            let selectors = [
                ("Deployment", "/spec/selector/matchLabels"),
                ("PodDisruptionBudget", "/spec/selector/matchLabels"),
                ("Service", "/spec/selector"),
            ];
            for (kind, selector) in selectors {
                let objects = of_kind(&objects, kind);
                assert!(!objects.is_empty(), "{kind}");
                for object in objects {
                    let selected = object.pointer(selector).unwrap();
                    let own = json!({ "app.kubernetes.io/name": name(object) });
                    assert_eq!(*selected, own, "{kind}");
                }
            }
            for deployment in of_kind(&objects, "Deployment") {
                let labels = &deployment["spec"]["template"]["metadata"]["labels"];
                assert_eq!(labels["app.kubernetes.io/name"], name(deployment));
                assert_eq!(labels["app.kubernetes.io/part-of"], "podloom");
            }
        },
    );
}

#[test]
fn the_lease_has_a_priority_level_of_its_own() {
    blackbox_on(
        Cluster::without_operator,
        "installs-flow-schema",
        async |scene| {
            let schemas: Api<FlowSchema> = Api::all(scene.client.clone());
            let schema = schemas.get("podloom-leader-election").await.unwrap();
            let operator = scene.cluster.operator_client().await;
            let path = "/apis/coordination.k8s.io/v1/namespaces/podloom-system/leases/podloom";
            // The API server takes a moment to use a new FlowSchema. A response header names the one that was used.
            eventually("requests for the Lease use its FlowSchema", async || {
                let request = Request::get(path).body(Body::empty()).unwrap();
                let response = operator.send(request).await.unwrap();
                let by = response.headers().get("x-kubernetes-pf-flowschema-uid");
                let by = by.map(|uid| uid.to_str().unwrap().to_owned());
                if by == schema.metadata.uid {
                    return Ok(());
                }
                Err(format!("it used {by:?}"))
            })
            .await;
        },
    );
}

#[test]
fn a_bundle_goes_through_a_config_map_unchanged() {
    blackbox_on(
        Cluster::without_operator,
        "installs-bundle",
        async |scene| {
            let bundle = PathBuf::from(std::env::var_os("PODLOOM_BUNDLE").unwrap());
            let made = TempDir::new().unwrap();
            let file = made.path().join("made.yaml");
            let mut podloom = Command::new(std::env::var_os("PODLOOM_BLACKBOX_BINARY").unwrap());
            let output = podloom
                .arg("bundle")
                .arg(&bundle)
                .args(["--namespace", &scene.namespace, "--output"])
                .arg(&file)
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
            // Client-side apply keeps a copy in an annotation, so the size limit matters.
            let file = file.to_str().unwrap();
            scene.cluster.kubectl(&["apply", "--filename", file]);
            let maps: Api<ConfigMap> = Api::namespaced(scene.client.clone(), &scene.namespace);
            let map = maps.get("podloom-plugins").await.unwrap();
            let mut held: BTreeMap<String, Vec<u8>> = BTreeMap::new();
            held.extend(
                map.data
                    .into_iter()
                    .flatten()
                    .map(|(name, text)| (name, text.into())),
            );
            held.extend(
                map.binary_data
                    .into_iter()
                    .flatten()
                    .map(|(name, bytes)| (name, bytes.0)),
            );
            let files = fs::read_dir(&bundle).unwrap().map(|entry| entry.unwrap());
            let files: BTreeMap<String, Vec<u8>> = files
                .map(|file| {
                    let name = file.file_name().into_string().unwrap();
                    (name, fs::read(file.path()).unwrap())
                })
                // No entry of the chain names it.
                .filter(|(name, _)| name != "script.wasm.gz")
                .collect();
            assert_eq!(
                held.keys().collect::<Vec<_>>(),
                files.keys().collect::<Vec<_>>()
            );
            assert!(held == files, "contents differ");
            // Applying it again changes nothing.
            let again = scene.cluster.kubectl(&["apply", "--filename", file]);
            assert_eq!(again, "configmap/podloom-plugins unchanged\n");
        },
    );
}
