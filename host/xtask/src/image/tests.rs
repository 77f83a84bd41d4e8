//! The image and deploy/Dockerfile agree, and the archive has the name of the manifests.

use std::io::Read;

use serde_json::{Value, json};

use super::*;

fn dockerfile() -> String {
    fs::read_to_string(run::root().join("deploy/Dockerfile")).unwrap()
}

/// The words after an instruction, without what continues lines.
fn instruction(name: &str) -> String {
    let text = dockerfile()
        .replace("\\\n", " ")
        .replace("${VERSION}", env!("CARGO_PKG_VERSION"));
    let (_, last_stage) = text.rsplit_once("\nFROM scratch\n").unwrap();
    let start = format!("{name} ");
    let line = last_stage
        .lines()
        .find_map(|line| line.strip_prefix(&start));
    line.unwrap_or_default().trim().to_owned()
}

#[test]
fn the_image_is_that_of_the_dockerfile() {
    let root = tempfile::tempdir().unwrap();
    let Image { config, .. } = operator(root.path(), Vec::new(), "amd64").unwrap();
    assert_eq!(instruction("USER"), config.user);
    assert_eq!(
        instruction("ENTRYPOINT"),
        json!(config.entrypoint).to_string()
    );
    let command = instruction("CMD").replace(", ", ",");
    assert_eq!(command, json!(config.command).to_string());
    let ports = config.ports.iter().map(u16::to_string);
    assert_eq!(instruction("EXPOSE"), ports.collect::<Vec<_>>().join(" "));
    let labels = instruction("LABEL");
    for (name, value) in &config.labels {
        let label = format!("{name}=\"{value}\"");
        assert!(labels.contains(&label), "{labels} lacks {label}");
    }
    assert_eq!(labels.matches('=').count(), config.labels.len());
}

#[test]
fn the_default_name_is_that_of_the_manifests() {
    let deployment = "deploy/controllers/browser/workload/deployment.yaml";
    let deployment = fs::read_to_string(run::root().join(deployment)).unwrap();
    assert!(deployment.contains(&format!("image: {NAME}\n")));
}

#[test]
fn the_archive_has_the_name_of_the_manifests() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("usr/bin")).unwrap();
    fs::write(root.path().join("usr/bin/podloom"), "the operator").unwrap();
    let image = operator(root.path(), vec![NAME.to_owned()], "amd64").unwrap();
    let path = root.path().join("podloom.tar");
    let written = podloom_image::write(&image, &path).unwrap();
    let mut archive = tar::Archive::new(fs::File::open(&path).unwrap());
    let mut index = Value::Null;
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        if entry.path().unwrap().to_str() == Some("index.json") {
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            index = serde_json::from_str(&text).unwrap();
        }
    }
    let manifest = &index["manifests"][0];
    assert_eq!(manifest["digest"], written.digest);
    assert_eq!(manifest["annotations"]["io.containerd.image.name"], NAME);
}

#[test]
fn only_known_architectures_have_images() {
    assert_eq!(architecture("x86_64-unknown-linux-gnu").unwrap(), "amd64");
    assert_eq!(architecture("aarch64-unknown-linux-gnu").unwrap(), "arm64");
    let other = architecture("riscv64gc-unknown-linux-gnu").unwrap_err();
    assert!(other.to_string().contains("riscv64gc"));
}
