//! The chart in `deploy/helm`, as the real helm renders it.

mod accepted;
mod equal;
mod names;
mod refused;
mod schema;
mod values;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use podloom_tests::binary;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The names that `kubectl apply -k deploy` gives.
const RELEASE: (&str, &str) = ("podloom", "podloom-system");

/// This helm has not been built for any version of Kubernetes, and the one that it assumes is too old for the chart.
const VERSION: [&str; 2] = ["--kube-version", "1.36.0"];

/// The real helm, and our chart.
struct Chart {
    helm: PathBuf,
    /// Where helm keeps its own files, and where values are.
    home: TempDir,
}

impl Chart {
    /// Nothing, and a line that says so, where black-box tests do not run.
    fn new() -> Option<Self> {
        if binary().is_none() {
            eprintln!("skipped: PODLOOM_BLACKBOX_BINARY is not set");
            return None;
        }
        Some(Self {
            helm: podloom_control_plane::helm().unwrap(),
            home: TempDir::new().unwrap(),
        })
    }

    fn directory() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/helm")
    }

    /// Runs helm with these values.
    fn run(&self, arguments: &[&str], values: &Value) -> Output {
        let folder = |name: &str| self.home.path().join(name);
        fs::write(folder("values.yaml"), values.to_string()).unwrap();
        Command::new(&self.helm)
            .args(arguments)
            .arg("--values")
            .arg(folder("values.yaml"))
            .env("HELM_CACHE_HOME", folder("cache"))
            .env("HELM_CONFIG_HOME", folder("config"))
            .env("HELM_DATA_HOME", folder("data"))
            .output()
            .unwrap()
    }

    /// What a release with these values would install, or why there is none.
    fn template(&self, release: (&str, &str), values: &Value) -> Result<Vec<Value>, String> {
        let (name, namespace) = release;
        let chart = Self::directory();
        let chart = chart.to_str().unwrap();
        let arguments = ["template", name, chart, "--namespace", namespace];
        let output = self.run(&[&arguments[..], &VERSION].concat(), values);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        match output.status.success() {
            true => Ok(objects(&text(output.stdout))),
            false => Err(text(output.stderr)),
        }
    }
}

/// The objects of a YAML file, as kubectl and helm read them.
#[track_caller]
fn objects(text: &str) -> Vec<Value> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let objects: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options).unwrap();
    objects
        .into_iter()
        .filter(|object| !object.is_null())
        .collect()
}

/// The rows of a table.
#[track_caller]
fn rows(text: &str) -> Vec<Value> {
    let rows: Vec<Value> = serde_saphyr::from_str(text).unwrap();
    assert!(rows.len() > 10, "only {} rows", rows.len());
    rows
}

/// The kind, namespace and name of an object.
fn key(object: &Value) -> String {
    let metadata = &object["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    let [kind, name] = [&object["kind"], &metadata["name"]].map(|text| text.as_str().unwrap());
    format!("{kind} {namespace}/{name}")
}

/// Values with which the chart installs all that it can.
fn everything() -> Value {
    let duty = json!({ "enabled": true });
    json!({
        "browser": duty,
        "portal": duty,
        "infrastructure": duty,
        "cleaner": duty,
        "webhook": { "enabled": true, "driftInterval": "5m" },
        "priorityClass": { "create": true },
        "networkPolicy": { "enabled": true },
        "podMonitor": { "enabled": true, "labels": { "release": "prometheus" }, "interval": "30s" },
    })
}

#[test]
fn helm_finds_nothing_to_complain_about() {
    let Some(chart) = Chart::new() else { return };
    let directory = Chart::directory();
    let lint = ["lint", "--strict", directory.to_str().unwrap()];
    for values in [json!({}), everything()] {
        let output = chart.run(&[&lint[..], &VERSION].concat(), &values);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        // An icon would be an address from which clients load something.
        let complaints = text.lines().filter(|line| line.starts_with('['));
        let complaints: Vec<&str> = complaints.filter(|line| !line.contains("icon")).collect();
        assert_eq!(complaints, [""; 0], "{text}");
    }
}
