//! Checks that the install manifests agree with the rest of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// The Deployment of the first controller.
const DEPLOYMENT: &str = "deploy/controllers/browser/workload/deployment.yaml";
/// All Deployments, and their readiness.
const DEPLOYMENTS: [(&str, &str); 6] = [
    (DEPLOYMENT, "/readyz"),
    (
        "deploy/controllers/cleaner/workload/deployment.yaml",
        "/readyz/cleaner",
    ),
    (
        "deploy/controllers/infrastructure/workload/deployment.yaml",
        "/readyz/infrastructure",
    ),
    (
        "deploy/controllers/portal/workload/deployment.yaml",
        "/readyz/portal",
    ),
    (
        "deploy/controllers/rollout/workload/deployment.yaml",
        "/readyz/rollout",
    ),
    (
        "deploy/controllers/webhook/workload/deployment.yaml",
        "/readyz/webhook",
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    let text = fs::read_to_string(root().join(path)).unwrap_or_default();
    assert!(!text.is_empty(), "{path} is missing or empty");
    text
}

/// The ways of bringing plugins into the operator: the directories of deploy/plugins.
fn carriers() -> Vec<String> {
    let names = directories("deploy/plugins");
    assert!(names.len() > 1, "{names:?}");
    names
}

fn directories(path: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(path)).expect("the directory exists");
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

#[test]
fn every_option_is_a_component_that_the_guide_names() {
    let guide = read("deploy/README.md");
    for name in directories("deploy/options") {
        let path = format!("deploy/options/{name}/kustomization.yaml");
        assert!(read(&path).contains("kind: Component\n"), "{path}");
        let row = format!("| `options/{name}` |");
        assert!(guide.contains(&row), "deploy/README.md lacks {row}");
    }
}

#[test]
fn every_controller_is_a_component_that_the_guide_names() {
    let guide = read("deploy/README.md");
    for name in directories("deploy/controllers") {
        let path = format!("deploy/controllers/{name}/kustomization.yaml");
        assert!(read(&path).contains("kind: Component\n"), "{path}");
        let row = format!("| `{name}` | `controllers/{name}`");
        assert!(guide.contains(&row), "deploy/README.md lacks {row}");
    }
}

#[test]
fn probes_go_to_their_own_listener() {
    for (file, readiness) in DEPLOYMENTS {
        let deployment = read(file);
        assert!(deployment.contains("- name: PODLOOM_PROBES\n          value: 0.0.0.0:8081\n"));
        assert!(deployment.contains("- name: probes\n          containerPort: 8081\n"));
        for path in ["/healthz", readiness] {
            let probe = format!("httpGet:\n            path: {path}\n            port: probes\n");
            assert!(deployment.contains(&probe), "{file}: {probe}");
        }
    }
    assert!(read("deploy/Dockerfile").contains("EXPOSE 8080 8081 8443\n"));
}

#[test]
fn every_carrier_says_what_reloads_and_mounts_read_only() {
    let guide = read("deploy/README.md");
    for name in carriers() {
        let path = format!("deploy/plugins/{name}/kustomization.yaml");
        let text = read(&path);
        for wanted in [
            "# What reloads: ",
            "Name this component after all that\n# bring Deployments",
            "kind: Component\n",
            "mountPath: /usr/share/podloom/plugins\n              readOnly: true\n",
        ] {
            assert!(text.contains(wanted), "{path} lacks {wanted}");
        }
        assert!(
            !text.contains("subPath:"),
            "{path}: a mount with subPath never gets updates"
        );
        let row = format!("| `plugins/{name}` |");
        assert!(guide.contains(&row), "deploy/README.md lacks {row}");
    }
}

#[test]
fn the_mounted_config_maps_are_those_of_podloom_bundle() {
    let arguments = read("host/src/cli/chain.rs");
    for default in ["podloom-plugins", "podloom-system"] {
        let wanted = format!("default_value = \"{default}\"");
        assert!(arguments.contains(&wanted), "bundle lacks {wanted}");
    }
    let mounted = "            configMap:\n              name: podloom-plugins\n";
    assert!(read("deploy/plugins/config-map/kustomization.yaml").contains(mounted));
    let projected = read("deploy/plugins/config-maps/kustomization.yaml");
    for name in ["podloom-plugins", "podloom-plugins-2"] {
        let wanted = format!("              - configMap:\n                  name: {name}\n");
        assert!(projected.contains(&wanted), "{wanted}");
    }
}

#[test]
fn the_image_has_the_version_that_is_built() {
    let version = env!("CARGO_PKG_VERSION");
    let tag = format!("ghcr.io/podloom/podloom:{version}\n");
    for (file, _) in DEPLOYMENTS {
        assert!(read(file).contains(&tag), "{file}: {tag}");
    }
    assert!(read("deploy/Dockerfile").contains(&format!("ARG VERSION={version}\n")));
}

#[test]
fn the_directory_of_plugins_is_the_same_everywhere() {
    let directory = "/usr/share/podloom/plugins";
    let image = read("host/xtask/src/image.rs");
    assert!(image.contains(directory.trim_start_matches('/')));
    for (file, wanted) in [
        (DEPLOYMENT, format!("args: [run, --plugins, {directory}]\n")),
        (
            "deploy/plugins/config-map/kustomization.yaml",
            format!("mountPath: {directory}\n"),
        ),
        (
            "deploy/Dockerfile",
            format!("CMD [\"run\", \"--plugins\", \"{directory}\"]\n"),
        ),
    ] {
        assert!(read(file).contains(&wanted), "{file} lacks {wanted}");
    }
}

#[test]
fn the_operator_knows_every_variable_that_it_is_given() {
    let known = read("host/src/cli/run.rs") + &read("host/src/cli/webhook.rs");
    for file in [
        DEPLOYMENT,
        DEPLOYMENTS[1].0,
        DEPLOYMENTS[2].0,
        DEPLOYMENTS[3].0,
        "deploy/controllers/webhook/split/kustomization.yaml",
        "deploy/options/candidate/kustomization.yaml",
        "deploy/options/cert-manager/kustomization.yaml",
        "deploy/options/drift/kustomization.yaml",
        "deploy/options/gate/kustomization.yaml",
        "deploy/controllers/browser/split/kustomization.yaml",
        "deploy/namespaced/kustomization.yaml",
        "deploy/helm/templates/deployment.yaml",
    ] {
        let given = read(file);
        let given = given
            .lines()
            .filter_map(|line| line.trim().strip_prefix("- name: "));
        let given: Vec<&str> = given.filter(|name| name.starts_with("PODLOOM_")).collect();
        assert!(!given.is_empty(), "{file}");
        for name in given {
            assert!(
                known.contains(&format!("env = \"{name}\"")),
                "{file}: {name}"
            );
        }
    }
}

#[test]
fn the_deployment_has_no_limit_on_cpu() {
    for (file, _) in DEPLOYMENTS {
        let deployment = read(file);
        let (_, limits) = deployment
            .split_once("limits:\n")
            .expect("memory has a limit");
        let limits: Vec<&str> = limits.lines().take(2).map(str::trim).collect();
        // Without a chain of plugins, less memory is enough. Those who may create Cleaners decide how much is looked at.
        let memory = match file.contains("/cleaner/") {
            true => "memory: 1Gi",
            false if deployment.contains("podloom.dev/chain: needed") => "memory: 384Mi",
            false => "memory: 256Mi",
        };
        assert_eq!(limits, [memory, "securityContext:"]);
    }
}

#[test]
fn the_image_or_the_cluster_chooses_the_user() {
    for (file, _) in DEPLOYMENTS {
        let deployment = read(file);
        assert!(deployment.contains("        runAsNonRoot: true\n"));
        for fixed in ["runAsUser:", "runAsGroup:", "fsGroup:"] {
            assert!(!deployment.contains(fixed), "OpenShift refuses {fixed}");
        }
    }
    // Kubelets check runAsNonRoot by user id; they refuse an image whose user is a name.
    assert!(read("deploy/Dockerfile").contains("\nUSER 65532:65532\n"));
}

#[test]
fn pods_go_where_the_image_runs() {
    for (file, _) in DEPLOYMENTS {
        let deployment = read(file);
        for selector in ["kubernetes.io/os: linux\n", "kubernetes.io/arch: amd64\n"] {
            assert!(deployment.contains(selector), "{selector}");
        }
    }
}

/// Argo CD shows no health of kinds that it is not told about.
#[test]
fn argo_cd_knows_the_health_of_every_kind() {
    let known = read("deploy/gitops/argocd-cm.yaml");
    let crds = root().join("crds");
    let folders = [
        "",
        "split",
        "portal",
        "infrastructure",
        "cleaner",
        "rollout",
    ];
    let mut kinds = 0;
    for entry in folders
        .iter()
        .flat_map(|it| fs::read_dir(crds.join(it)).unwrap())
    {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap_or_default();
        let field = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
        let (Some(group), Some(kind)) = (field("  group: "), field("    kind: ")) else {
            continue;
        };
        let key = format!("  resource.customizations.health.{group}_{kind}:");
        assert!(known.contains(&key), "{key}");
        kinds += 1;
    }
    assert!(kinds >= 12, "{kinds}");
}
