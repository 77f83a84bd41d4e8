//! Images and artifacts that we write, as crane reads them: it pushes them into a registry, checks every digest, and pulls them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use podloom_tests::registry::Registry;
use podloom_tests::{Bundle, binary, standard};
use serde_json::Value;
use tempfile::TempDir;

/// The registry, and a folder; nothing, and a line that says so, where black-box tests do not run.
fn stand() -> Option<(Registry, TempDir)> {
    if binary().is_none() {
        eprintln!("skipped: PODLOOM_BLACKBOX_BINARY is not set");
        return None;
    }
    Some((Registry::start(), TempDir::new().unwrap()))
}

#[track_caller]
fn podloom(arguments: &[&str]) -> String {
    let output = Command::new(binary().unwrap())
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    text
}

fn unpack(archive: &Path, to: PathBuf) -> PathBuf {
    fs::create_dir(&to).unwrap();
    let mut tar = tar::Archive::new(fs::File::open(archive).unwrap());
    tar.unpack(&to).unwrap();
    to
}

#[test]
fn a_bundle_is_an_image_with_the_files_in_its_root() {
    let Some((registry, home)) = stand() else {
        return;
    };
    let archive = home.path().join("plugins.tar");
    let name = registry.name("podloom-plugins:42");
    let bundle = standard();
    let said = podloom(&[
        "bundle",
        bundle.to_str().unwrap(),
        "--oci",
        "registry.example.com/podloom-plugins:42",
        "-o",
        archive.to_str().unwrap(),
    ]);
    registry.crane(&["push", archive.to_str().unwrap(), &name]);
    registry.crane(&["validate", "--remote", &name]);
    let layout = unpack(&archive, home.path().join("layout"));
    registry.crane(&["push", layout.to_str().unwrap(), &registry.name("again:1")]);
    registry.crane(&["validate", "--remote", &registry.name("again:1")]);
    let digest = registry.crane(&["digest", &registry.name("again:1")]);
    assert!(said.contains(digest.trim()), "{said} {digest}");

    let files = home.path().join("files.tar");
    registry.crane(&["export", &name, files.to_str().unwrap()]);
    let files = unpack(&files, home.path().join("files"));
    let names: BTreeSet<String> = fs::read_dir(&files)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let expected = [
        "chain.yaml",
        "hardening.wasm.gz",
        "labels.wasm.gz",
        "sidecar.wasm.gz",
    ];
    assert_eq!(names, expected.map(str::to_owned).into());
    for name in expected {
        let [got, expected] = [&files, &bundle].map(|folder| fs::read(folder.join(name)).unwrap());
        assert!(got == expected, "{name}");
    }
    podloom(&["chain", "check", files.to_str().unwrap()]);
}

#[test]
fn a_plugin_is_an_artifact_with_its_wasm_as_it_is() {
    let Some((registry, home)) = stand() else {
        return;
    };
    let archive = home.path().join("labels.tar");
    let plugin = standard().join("labels.wasm.gz");
    podloom(&[
        "plugin",
        "pack",
        plugin.to_str().unwrap(),
        "--oci",
        "registry.example.com/plugins/labels:0.1.0",
        "-o",
        archive.to_str().unwrap(),
    ]);
    let layout = unpack(&archive, home.path().join("layout"));
    let name = registry.name("plugins/labels:0.1.0");
    registry.crane(&["push", layout.to_str().unwrap(), &name]);
    let manifest: Value = serde_json::from_str(&registry.crane(&["manifest", &name])).unwrap();
    assert_eq!(
        manifest["config"]["mediaType"],
        "application/vnd.wasm.config.v0+json"
    );
    let layers = manifest["layers"].as_array().unwrap();
    assert_eq!(layers.len(), 1);
    assert_eq!(layers[0]["mediaType"], "application/wasm");
    assert_eq!(
        layers[0]["annotations"]["org.opencontainers.image.title"],
        "labels.wasm"
    );
    assert_eq!(
        manifest["annotations"]["org.opencontainers.image.version"],
        env!("CARGO_PKG_VERSION")
    );
    let config: Value = serde_json::from_str(&registry.crane(&["config", &name])).unwrap();
    assert_eq!(config["architecture"], "wasm");
    let layer = layers[0]["digest"].as_str().unwrap();
    assert_eq!(config["layerDigests"], serde_json::json!([layer]));

    let blob = format!("{}@{layer}", registry.name("plugins/labels"));
    let wasm = registry.crane_bytes(&["blob", &blob]);
    assert_eq!(wasm.get(..4), Some(&b"\0asm"[..]));
    let file = home.path().join("labels.wasm");
    fs::write(&file, wasm).unwrap();
    podloom(&["plugin", "inspect", file.to_str().unwrap()]);
}

/// The commands of the step of the workflow that pushes the image.
fn commands_of_push() -> String {
    let workflow = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.github/workflows/release.yml");
    let workflow = fs::read_to_string(workflow).unwrap();
    let workflow: Value = serde_saphyr::from_str(&workflow).unwrap();
    let mut steps = workflow["jobs"]["publish"]["steps"]
        .as_array()
        .unwrap()
        .iter();
    let push = steps.find(|step| step["id"] == "push").unwrap();
    push["run"].as_str().unwrap().to_owned()
}

/// What is signed is what was pushed: the digest of the index, which has both images.
#[test]
fn a_release_pushes_one_image_for_both_architectures_and_says_its_digest() {
    let Some((registry, home)) = stand() else {
        return;
    };
    let (standard, other) = (standard(), Bundle::empty());
    let bundles = [("amd64", standard.as_path()), ("arm64", other.path())];
    for (architecture, bundle) in bundles {
        let folder = home.path().join(format!("image-{architecture}"));
        fs::create_dir(&folder).unwrap();
        podloom(&[
            "bundle",
            bundle.to_str().unwrap(),
            "--oci",
            "registry.example.com/podloom:1.2.3",
            "-o",
            folder.join("podloom.tar").to_str().unwrap(),
        ]);
    }
    let output = home.path().join("output");
    let path = std::env::var("PATH").unwrap();
    let crane = registry.crane_path().parent().unwrap().display();
    // As GitHub runs it.
    let ran = Command::new("bash")
        .args(["-e", "-c", &commands_of_push()])
        .env("PATH", format!("{crane}:{path}"))
        .env("IMAGE", registry.name("podloom"))
        .env("GITHUB_REF_NAME", "v1.2.3")
        .env("GITHUB_OUTPUT", &output)
        .current_dir(home.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    let digest = fs::read_to_string(&output).unwrap();
    let digest = digest.trim().strip_prefix("digest=").unwrap();
    let tagged = registry.crane(&["digest", &registry.name("podloom:1.2.3")]);
    assert_eq!(digest, tagged.trim());
    let index = registry.crane(&["manifest", &registry.name(&format!("podloom@{digest}"))]);
    let index: Value = serde_json::from_str(&index).unwrap();
    let images = index["manifests"].as_array().unwrap().iter();
    let images: BTreeSet<&str> = images.map(|it| it["digest"].as_str().unwrap()).collect();
    assert_eq!(images.len(), 2, "{index}");
    for architecture in ["amd64", "arm64"] {
        let image = registry.name(&format!("podloom:v1.2.3-{architecture}"));
        assert!(images.contains(registry.crane(&["digest", &image]).trim()));
    }
}
