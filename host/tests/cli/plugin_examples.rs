//! The examples of the SDK, built: each chain loads and is proven, each case gives its golden file, and they are small.
#![expect(
    clippy::unwrap_used,
    reason = "shared helpers may panic, like the tests themselves"
)]

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

use super::{bundle, podloom_in, root};

/// The largest example as shipped, in bytes: half of what a plugin may take.
const MAX_BYTES: usize = 32_768;

/// What is in a plugin that reads quantities, and in one that reads images.
const READS_QUANTITIES: &str = "is no quantity";
const READS_IMAGES: &str = "is no image";

/// The directory with a bundle for each example, which `cargo xtask test` names; none otherwise.
fn bundles() -> Option<PathBuf> {
    let bundles = std::env::var_os("PODLOOM_PLUGIN_EXAMPLES").map(PathBuf::from);
    if bundles.is_none() {
        eprintln!(
            "skipped: PODLOOM_PLUGIN_EXAMPLES is not set; `cargo xtask plugins --examples` builds them"
        );
    }
    bundles
}

/// The names of the examples: their directories.
fn names() -> Vec<String> {
    let entries = fs::read_dir(root().join("plugin-sdk/examples")).unwrap();
    let directories = entries.filter_map(|entry| {
        let path = entry.unwrap().path();
        path.is_dir()
            .then(|| path.file_name().unwrap().to_str().unwrap().to_owned())
    });
    let mut names: Vec<String> = directories.collect();
    names.sort();
    assert_eq!(
        names,
        ["registry-mirror", "resource-floor", "topology-spread"]
    );
    names
}

#[test]
fn every_example_loads_and_gives_its_golden_files() {
    let Some(bundles) = bundles() else { return };
    for name in names() {
        let ran = podloom_in(&bundles, &["chain", "check", &name], "");
        assert_eq!(ran.code, 0, "{}", ran.text());
        let file = bundles.join(format!("{name}/{name}.wasm.gz"));
        let arguments = [
            "plugin",
            "test",
            file.to_str().unwrap(),
            "--chain",
            "bundle",
            "--cases",
            "cases",
        ];
        let ran = podloom_in(
            &root().join("plugin-sdk/examples").join(&name),
            &arguments,
            "",
        );
        assert_eq!(ran.code, 0, "{}", ran.text());
        assert!(
            ran.stdout.contains("matches the golden file"),
            "{}",
            ran.text()
        );
    }
}

#[test]
fn every_example_is_small() {
    let Some(bundles) = bundles() else { return };
    for name in names() {
        let file = bundles.join(format!("{name}/{name}.wasm.gz"));
        let size = fs::read(file).unwrap().len();
        assert!(size <= MAX_BYTES, "{name} has {size} bytes");
    }
}

#[test]
fn what_a_plugin_does_not_use_of_the_sdk_is_not_in_it() {
    let (Some(standard), Some(bundles)) = (bundle(), bundles()) else {
        return;
    };
    for name in ["labels", "sidecar", "hardening"] {
        let file = standard.join(format!("{name}.wasm.gz"));
        assert_eq!(uses(&file), [false, false], "{name}");
    }
    for (name, expected) in [
        ("topology-spread", [false, false]),
        ("resource-floor", [true, false]),
        ("registry-mirror", [false, true]),
    ] {
        let file = bundles.join(format!("{name}/{name}.wasm.gz"));
        assert_eq!(uses(&file), expected, "{name}");
    }
}

/// Whether a plugin has the code that reads quantities, and the code that reads images, by their messages.
fn uses(file: &Path) -> [bool; 2] {
    let mut module = Vec::new();
    let packed = fs::read(file).unwrap();
    GzDecoder::new(&*packed).read_to_end(&mut module).unwrap();
    [READS_QUANTITIES, READS_IMAGES].map(|text| {
        let mut windows = module.windows(text.len());
        windows.any(|window| window == text.as_bytes())
    })
}
