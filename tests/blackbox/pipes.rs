//! The chain as a step of other tools: the real Helm 3 and 4, and the real kustomize. None of them needs a cluster for that.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use podloom_control_plane::{helm, helm4, kustomize};
use podloom_tests::{binary, standard};
use tempfile::TempDir;

const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: \"example.com/web:1\"}]}
";
/// Helm has its own way with those.
const HOOK: &str = "\
apiVersion: batch/v1
kind: Job
metadata: {name: migrate, annotations: {helm.sh/hook: pre-install}}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: migrate, image: \"example.com/web:1\"}]}
";
/// What the plugin hardening writes into a container.
const HARDENED: &str = "allowPrivilegeEscalation: false";

/// A folder with a chart and a kustomization, and with a program `podloom` and its other name.
struct Setting {
    folder: TempDir,
}

impl Setting {
    fn new(podloom: &Path) -> Self {
        let setting = Self {
            folder: TempDir::new().unwrap(),
        };
        for (name, text) in [
            (
                "chart/Chart.yaml",
                "apiVersion: v2\nname: shop\nversion: 1.0.0\n",
            ),
            ("chart/templates/web.yaml", DEPLOYMENT),
            ("chart/templates/hook.yaml", HOOK),
            ("kustomization/web.yaml", DEPLOYMENT),
        ] {
            let path = setting.at(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::create_dir(setting.at("bin")).unwrap();
        for name in ["podloom", "podloom-post-renderer"] {
            symlink(podloom, setting.at("bin").join(name)).unwrap();
        }
        setting
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a program that finds ours on its PATH. Returns what it printed, and what it said if it failed.
    fn run(&self, program: &Path, arguments: &[&str]) -> Result<String, String> {
        let path = env::var("PATH").unwrap_or_default();
        let output = Command::new(program)
            .args(arguments)
            .current_dir(self.folder.path())
            .env("PATH", format!("{}:{path}", self.at("bin").display()))
            .env("PODLOOM_PLUGINS", standard())
            .env("HELM_NAMESPACE", "shop")
            .env("HOME", self.folder.path())
            .env_remove("HELM_PLUGINS")
            .env_remove("XDG_CACHE_HOME")
            .env_remove("XDG_DATA_HOME")
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&output.stderr)),
        }
    }
}

/// A Deployment with a field of the wrong type, which the tools pass on.
fn broken() -> String {
    DEPLOYMENT.replace("\"example.com/web:1\"", "[a, b]")
}

/// None where no operator is tested.
fn setting() -> Option<Setting> {
    let Some(podloom) = binary() else {
        eprintln!("skipped: PODLOOM_BLACKBOX_BINARY names no operator");
        return None;
    };
    Some(Setting::new(&podloom))
}

/// The Deployment, and if there is one the hook.
#[track_caller]
fn assert_hardened(printed: &str, objects: usize) {
    assert_eq!(printed.matches(HARDENED).count(), objects, "{printed}");
}

#[test]
fn helm_3_calls_it_with_arguments_or_by_its_other_name() {
    let Some(setting) = setting() else { return };
    let helm = helm().unwrap();
    let template = ["template", "shop", "chart", "--post-renderer"];
    let words = ["podloom", "--post-renderer-args", "post-render"];
    let printed = setting.run(&helm, &[&template[..], &words].concat());
    assert_hardened(&printed.unwrap(), 1);
    let words = ["podloom-post-renderer"];
    let printed = setting.run(&helm, &[&template[..], &words].concat());
    assert_hardened(&printed.unwrap(), 1);
    // What is wrong ends it, and is said.
    fs::write(setting.at("chart/templates/web.yaml"), broken()).unwrap();
    let failed = setting.run(&helm, &[&template[..], &words].concat());
    let failed = failed.unwrap_err();
    assert!(failed.contains("containers[0].image"), "{failed}");
}

#[test]
fn helm_4_calls_it_as_a_plugin_also_for_hooks() {
    let Some(setting) = setting() else { return };
    let helm = helm4().unwrap();
    let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/helm-plugin");
    let install = ["plugin", "install", plugin.to_str().unwrap()];
    setting.run(&helm, &install).unwrap();
    let template = ["template", "shop", "chart", "--post-renderer", "podloom"];
    let printed = setting.run(&helm, &template).unwrap();
    assert_hardened(&printed, 2);
    assert!(printed.contains("kind: Job"), "{printed}");
}

#[test]
fn kustomize_calls_it_as_a_function() {
    let Some(setting) = setting() else { return };
    let kustomize = kustomize().unwrap();
    let podloom = setting.at("bin/podloom");
    let function = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: podloom\n  annotations:\n    config.kubernetes.io/function: |\n      exec: {{path: {}, args: [fn]}}\ndata:\n  plugins: {}\n",
        podloom.display(),
        standard().display()
    );
    fs::write(setting.at("kustomization/podloom.yaml"), function).unwrap();
    let kustomization = "resources: [web.yaml]\ntransformers: [podloom.yaml]\n";
    fs::write(
        setting.at("kustomization/kustomization.yaml"),
        kustomization,
    )
    .unwrap();
    let build = [
        "build",
        "--enable-alpha-plugins",
        "--enable-exec",
        "kustomization",
    ];
    let printed = setting.run(&kustomize, &build).unwrap();
    assert_hardened(&printed, 1);
    // What is wrong ends it, and is said.
    fs::write(setting.at("kustomization/web.yaml"), broken()).unwrap();
    let failed = setting.run(&kustomize, &build).unwrap_err();
    assert!(failed.contains("containers[0].image"), "{failed}");
}
