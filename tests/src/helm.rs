//! The real helm, with the rights of an administrator, and a chart for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::scene::Scene;

/// The release that tests install.
pub const RELEASE: &str = "shop";

/// The real helm in the namespace of a test.
pub struct Helm {
    program: PathBuf,
    kubeconfig: PathBuf,
    namespace: String,
    /// Where helm keeps its own files, and where charts are.
    home: TempDir,
}

impl Helm {
    /// Returns that of a test. It is built first if no test has needed it before.
    #[must_use]
    pub fn new(scene: &Scene) -> Self {
        Self {
            program: podloom_control_plane::helm().unwrap(),
            kubeconfig: scene.cluster.plane.kubeconfig(),
            namespace: scene.namespace.clone(),
            home: TempDir::new().unwrap(),
        }
    }

    /// Writes a chart with these templates, each with the name of its file, and returns its folder.
    #[must_use]
    pub fn chart(&self, templates: &[(&str, &str)]) -> PathBuf {
        let chart = self.home.path().join("chart");
        let folder = chart.join("templates");
        fs::create_dir_all(&folder).unwrap();
        let head = "apiVersion: v2\nname: shop\nversion: 1.0.0\n";
        fs::write(chart.join("Chart.yaml"), head).unwrap();
        fs::write(chart.join("values.yaml"), "color: red\n").unwrap();
        for (name, text) in templates {
            fs::write(folder.join(name), text).unwrap();
        }
        chart
    }

    /// Installs a chart in three revisions.
    pub fn install_three(&self, chart: &Path) {
        let chart = chart.to_str().unwrap();
        self.run(&["install", RELEASE, chart]);
        for color in ["color=green", "color=blue"] {
            self.run(&["upgrade", RELEASE, chart, "--set", color]);
        }
    }

    /// The names of the releases in the namespace, whatever their status.
    #[must_use]
    pub fn releases(&self) -> Vec<String> {
        let printed = self.run(&["list", "--all", "--output", "json"]);
        let releases: Vec<Value> = serde_json::from_str(&printed).unwrap();
        let name = |release: &Value| release["name"].as_str().unwrap().to_owned();
        releases.iter().map(name).collect()
    }

    /// Runs helm, and returns what it prints.
    pub fn run(&self, arguments: &[&str]) -> String {
        let folder = |name: &str| self.home.path().join(name);
        let output = Command::new(&self.program)
            .args(arguments)
            .args(["--namespace", &self.namespace, "--kubeconfig"])
            .arg(&self.kubeconfig)
            .env("HELM_CACHE_HOME", folder("cache"))
            .env("HELM_CONFIG_HOME", folder("config"))
            .env("HELM_DATA_HOME", folder("data"))
            .env_remove("HELM_DRIVER")
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "helm {arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }
}
