//! Plugin directories as ConfigMaps.
#![expect(
    clippy::unwrap_used,
    reason = "shared helpers may panic, like the tests themselves"
)]

use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use k8s_openapi::api::core::v1::ConfigMap;
use tempfile::TempDir;

use super::{Ran, bundle, podloom};

fn run(arguments: &[&str]) -> (Ran, Vec<ConfigMap>) {
    let ran = podloom(&[&["bundle"], arguments].concat());
    let maps = serde_saphyr::from_multiple(&ran.stdout).expect("ConfigMaps");
    (ran, maps)
}

fn name(map: &ConfigMap) -> &str {
    map.metadata.name.as_deref().expect("a name")
}

/// Writes the files of ConfigMaps into one directory, as a projected volume does.
fn mount(maps: &[ConfigMap]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for map in maps {
        for (name, text) in map.data.iter().flatten() {
            fs::write(directory.path().join(name), text).unwrap();
        }
        for (name, bytes) in map.binary_data.iter().flatten() {
            fs::write(directory.path().join(name), &bytes.0).unwrap();
        }
    }
    directory
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// A plugin of the standard bundle, inflated.
fn wasm(bundle: &Path, name: &str) -> Vec<u8> {
    let shipped = fs::read(bundle.join(format!("{name}.wasm.gz"))).unwrap();
    let mut wasm = Vec::new();
    GzDecoder::new(&*shipped).read_to_end(&mut wasm).unwrap();
    wasm
}

/// The same plugin with an unused section of random bytes, gzipped.
fn heavy(mut wasm: Vec<u8>, weight: u32) -> Vec<u8> {
    let mut length = weight + 1;
    wasm.push(0);
    while length > 0x7f {
        wasm.push(0x80 | u8::try_from(length & 0x7f).unwrap());
        length >>= 7;
    }
    // The section's length, and its empty name.
    wasm.extend([u8::try_from(length).unwrap(), 0]);
    let mut state = 1_u32;
    wasm.extend((0..weight).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    }));
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&wasm).unwrap();
    encoder.finish().unwrap()
}

/// A directory of large plugins with the code of hardening.
fn heavy_bundle(bundle: &Path, weights: &[u32]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let wasm = wasm(bundle, "hardening");
    let mut manifest =
        String::from("apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins:\n");
    for (number, weight) in weights.iter().enumerate() {
        let file = format!("p{number}.wasm.gz");
        let entry = format!(
            "- {{name: p{number}, file: {file}, allow: [/spec/securityContext, /spec/containers/*/securityContext, \
             /spec/initContainers/*/securityContext, /spec/automountServiceAccountToken, /spec/enableServiceLinks]}}\n"
        );
        manifest.push_str(&entry);
        fs::write(directory.path().join(file), heavy(wasm.clone(), *weight)).unwrap();
    }
    fs::write(directory.path().join("chain.yaml"), manifest).unwrap();
    directory
}

fn text(directory: &TempDir) -> &str {
    directory.path().to_str().unwrap()
}

#[test]
fn compressed_plugins_are_packed_unchanged() {
    let Some(bundle) = bundle() else { return };
    let directory = bundle.to_str().unwrap();
    let (ran, maps) = run(&[directory]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    let [map] = maps.as_slice() else {
        panic!("{} ConfigMaps", maps.len())
    };
    assert_eq!(name(map), "podloom-plugins");
    assert_eq!(map.metadata.namespace.as_deref(), Some("podloom-system"));
    let mounted = mount(&maps);
    // No entry of the chain names it.
    let mut packed = names(&bundle);
    packed.retain(|name| name != "script.wasm.gz");
    assert_eq!(names(mounted.path()), packed);
    for name in packed {
        let [mounted, original] = [mounted.path(), &bundle].map(|path| fs::read(path.join(&name)));
        assert_eq!(mounted.unwrap(), original.unwrap(), "{name}");
    }
    let checked = podloom(&["chain", "check", directory]).stdout;
    let digest = checked.lines().last().unwrap();
    assert!(ran.stderr.contains(digest), "{}", ran.stderr);
    assert!(!ran.stderr.contains("--server-side"), "{}", ran.stderr);
    assert_eq!(run(&[directory]).0.text(), ran.text());
}

#[test]
fn plugins_are_compressed_and_the_manifest_is_updated() {
    let Some(bundle) = bundle() else { return };
    let directory = tempfile::tempdir().unwrap();
    let (wasm, shipped) = (
        wasm(&bundle, "labels"),
        fs::read(bundle.join("labels.wasm.gz")).unwrap(),
    );
    let sha256 = |name: &str| {
        let ran = podloom(&["plugin", "inspect", name, "-o", "json"]);
        let about: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        about["sha256"].as_str().unwrap().to_owned()
    };
    fs::write(directory.path().join("plain.wasm"), &wasm).unwrap();
    fs::write(directory.path().join("packed.wasm.gz"), &shipped).unwrap();
    fs::write(directory.path().join("notes.txt"), "not named").unwrap();
    let [plain, packed] = ["plain.wasm", "packed.wasm.gz"]
        .map(|name| sha256(directory.path().join(name).to_str().unwrap()));
    let manifest = |file: &str, pin: &str| {
        format!(
            "# Größe: one of each\napiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins:\n\
             - name: a # first\n  file: {file}   # was built here\n  sha256: {pin}\n\
             - {{ name: b, file: packed.wasm.gz, sha256: 'sha256:{packed}' }}\n"
        )
    };
    let chain = directory.path().join("chain.yaml");
    fs::write(&chain, manifest("plain.wasm", &plain)).unwrap();
    let output = directory.path().join("config-map.yaml");
    let output_name = output.to_str().unwrap();
    let named = ["--name", "x.y-z", "--namespace", "team", "-o", output_name];
    let (ran, _) = run(&[&[text(&directory)], named.as_slice()].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.text());
    let expected = format!(
        "plain.wasm.gz  from plain.wasm, {} bytes; its sha256 in chain.yaml is updated to that of the compressed file\n",
        wasm.len()
    );
    assert!(ran.stderr.contains(&expected), "{}", ran.stderr);

    let map: ConfigMap = serde_saphyr::from_str(&fs::read_to_string(output).unwrap()).unwrap();
    assert_eq!(
        (name(&map), map.metadata.namespace.as_deref()),
        ("x.y-z", Some("team"))
    );
    let mounted = mount(&[map]);
    assert_eq!(
        names(mounted.path()),
        ["chain.yaml", "packed.wasm.gz", "plain.wasm.gz"]
    );
    // The standard plugins are compressed in the same way.
    let written = fs::read(mounted.path().join("plain.wasm.gz")).unwrap();
    assert_eq!(written, shipped);
    let followed = fs::read_to_string(mounted.path().join("chain.yaml")).unwrap();
    assert_eq!(followed, manifest("plain.wasm.gz", &packed));
    let checked = podloom(&["chain", "check", text(&mounted)]);
    assert_eq!(checked.code, 0, "{}", checked.text());
    let digest = checked.stdout.lines().last().unwrap();
    assert!(ran.stderr.contains(digest), "{}", ran.stderr);
}

#[test]
fn two_files_of_the_same_compressed_name_are_an_error() {
    let Some(bundle) = bundle() else { return };
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.wasm"), wasm(&bundle, "labels")).unwrap();
    fs::copy(
        bundle.join("labels.wasm.gz"),
        directory.path().join("a.wasm.gz"),
    )
    .unwrap();
    let manifest = "apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins: [{name: a, file: a.wasm}, {name: b, file: a.wasm.gz}]\n";
    fs::write(directory.path().join("chain.yaml"), manifest).unwrap();
    let (ran, _) = run(&[text(&directory)]);
    let expected = format!(
        "error: {}/chain.yaml: a.wasm would be compressed to a.wasm.gz, but another plugin has a file of that name; rename one of them\n",
        text(&directory)
    );
    assert_eq!((ran.code, ran.stderr), (1, expected));
}

#[test]
fn a_bundle_that_is_too_large_is_an_error_or_split() {
    let Some(bundle) = bundle() else { return };
    let directory = heavy_bundle(&bundle, &[500_000, 500_000, 100_000]);
    let (ran, _) = run(&[text(&directory)]);
    assert_eq!(ran.code, 1, "{}", ran.text());
    assert!(
        ran.stderr.contains("and a ConfigMap holds 1048576; split it into 2 ConfigMaps with --split, or put the directory into an image volume or a persistent volume\n"),
        "{}",
        ran.text()
    );
    let (ran, maps) = run(&[text(&directory), "--split"]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    let held: Vec<(&str, Vec<&String>)> = maps
        .iter()
        .map(|map| {
            (
                name(map),
                map.binary_data
                    .iter()
                    .flatten()
                    .map(|(name, _)| name)
                    .collect(),
            )
        })
        .collect();
    let expected = [
        ("podloom-plugins", vec!["p0.wasm.gz", "p2.wasm.gz"]),
        ("podloom-plugins-2", vec!["p1.wasm.gz"]),
    ];
    assert_eq!(format!("{held:?}"), format!("{expected:?}"));
    for expected in [
        "2 ConfigMaps for one projected volume: podloom-plugins with ",
        "only if each of these plugins has its sha256 in chain.yaml: p0.wasm.gz, p1.wasm.gz, p2.wasm.gz\n",
        "  kubectl apply --server-side -f -\n",
    ] {
        assert!(ran.stderr.contains(expected), "{}", ran.text());
    }
    let checked = podloom(&["chain", "check", text(&mount(&maps))]);
    assert_eq!(checked.code, 0, "{}", checked.text());
}

#[test]
fn a_plugin_that_is_too_large_for_a_config_map_is_an_error() {
    let Some(bundle) = bundle() else { return };
    let directory = heavy_bundle(&bundle, &[1_100_000]);
    for split in [&[][..], &["--split"]] {
        let (ran, _) = run(&[&[text(&directory)], split].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{}", ran.text());
        let expected = "and a ConfigMap holds 1048576; put the directory into an image volume or a persistent volume\n";
        assert!(ran.stderr.contains(expected), "{}", ran.text());
    }
}

#[test]
fn names_of_config_maps_are_checked() {
    let longest = "a".repeat(200) + "." + &"b".repeat(48);
    assert_eq!(longest.len(), 249);
    for good in ["a", "a.b-c", &longest] {
        let (ran, maps) = run(&["bundles/empty", "--name", good]);
        assert_eq!((ran.code, name(&maps[0])), (0, good), "{}", ran.text());
    }
    for bad in ["", "A", "a..b", "a-", "a_b", &format!("{longest}d")] {
        let ran = podloom(&["bundle", "bundles/empty", "--name", bad]);
        assert_eq!(ran.code, 2, "{}", ran.text());
        assert!(
            ran.stderr.contains("use at most 249 lower-case letters"),
            "{}",
            ran.text()
        );
    }
}

#[test]
fn an_empty_chain_is_a_config_map_too() {
    insta::assert_snapshot!(podloom(&["bundle", "bundles/empty"]).text());
}
