//! Archives are read back as a container engine reads them: from the index to the files, each blob checked against its digest.

#![expect(
    clippy::unwrap_used,
    reason = "this is test code: what goes wrong fails the test"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use flate2::read::GzDecoder;
use podloom_image::{Config, Image, ImageError, Layer, Written, write};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

const NAME: &str = "registry.example.com:5000/team/app:1.2.3";

/// Each entry of a tar archive: path, mode, and content or nothing for a directory. Fails if an entry has a time or an owner.
fn entries(tar: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
    let mut archive = tar::Archive::new(tar);
    let entries = archive.entries().unwrap();
    entries
        .map(|entry| {
            let mut entry = entry.unwrap();
            let header = entry.header().clone();
            assert_eq!(header.mtime().unwrap(), 0);
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
            let path = entry.path().unwrap().to_str().unwrap().to_owned();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            (path, header.mode().unwrap(), bytes)
        })
        .collect()
}

struct Archive(BTreeMap<String, Vec<u8>>);

impl Archive {
    fn read(path: &Path) -> Self {
        let entries = entries(&fs::read(path).unwrap());
        Self(
            entries
                .into_iter()
                .map(|(path, _, bytes)| (path, bytes))
                .collect(),
        )
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_slice(&self.0[path]).unwrap()
    }

    /// What a descriptor names, checked against its digest and size.
    fn blob(&self, descriptor: &Value) -> &[u8] {
        let digest = descriptor["digest"].as_str().unwrap();
        let digest = digest.strip_prefix("sha256:").unwrap();
        let bytes = &self.0[&format!("blobs/sha256/{digest}")];
        assert_eq!(sha256(bytes), digest);
        assert_eq!(descriptor["size"], bytes.len());
        bytes
    }
}

fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn files() -> TempDir {
    let directory = TempDir::new().unwrap();
    let root = directory.path();
    fs::create_dir_all(root.join("etc/app")).unwrap();
    fs::write(root.join("program"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(root.join("program"), PermissionsExt::from_mode(0o700)).unwrap();
    fs::write(root.join("etc/app/b"), "second").unwrap();
    fs::write(root.join("etc/app/a"), "first").unwrap();
    fs::set_permissions(root.join("etc/app/a"), PermissionsExt::from_mode(0o600)).unwrap();
    symlink("a", root.join("etc/app/link")).unwrap();
    directory
}

fn image(root: &Path) -> Image {
    let mut layer = Layer::default();
    layer.add(&root.join("program"), "/usr/bin/app").unwrap();
    layer.add(&root.join("etc"), "etc").unwrap();
    Image {
        names: vec![NAME.to_owned(), "localhost/app:1".to_owned()],
        architecture: "arm64".to_owned(),
        config: Config {
            user: "65532:65532".to_owned(),
            entrypoint: vec!["/usr/bin/app".to_owned()],
            command: vec!["run".to_owned()],
            ports: vec![8080],
            labels: BTreeMap::from([("team".to_owned(), "shop".to_owned())]),
        },
        layer,
    }
}

fn written() -> (TempDir, Archive, Written) {
    let files = files();
    let path = files.path().join("app.tar");
    let written = write(&image(files.path()), &path).unwrap();
    assert_eq!(written.size, fs::metadata(&path).unwrap().len());
    let archive = Archive::read(&path);
    (files, archive, written)
}

#[test]
fn each_name_leads_to_the_same_manifest() {
    let (_files, archive, written) = written();
    assert_eq!(
        archive.json("oci-layout"),
        json!({ "imageLayoutVersion": "1.0.0" })
    );
    let index = archive.json("index.json");
    let names: Vec<&Value> = index["manifests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|manifest| {
            assert_eq!(manifest["digest"], written.digest);
            assert_eq!(manifest["platform"]["architecture"], "arm64");
            &manifest["annotations"]["io.containerd.image.name"]
        })
        .collect();
    assert_eq!(names, [NAME, "localhost/app:1"]);
}

#[test]
fn the_configuration_says_how_to_start_a_container() {
    let (_files, archive, _) = written();
    let manifest: Value =
        serde_json::from_slice(archive.blob(&archive.json("index.json")["manifests"][0])).unwrap();
    let config: Value = serde_json::from_slice(archive.blob(&manifest["config"])).unwrap();
    assert_eq!(
        (&config["os"], &config["architecture"]),
        (&json!("linux"), &json!("arm64"))
    );
    assert_eq!(
        config["config"],
        json!({
            "User": "65532:65532",
            "ExposedPorts": { "8080/tcp": {} },
            "Env": ["PATH=/usr/bin:/bin"],
            "Entrypoint": ["/usr/bin/app"],
            "Cmd": ["run"],
            "WorkingDir": "/",
            "Labels": { "team": "shop" },
        })
    );
    let mut tar = Vec::new();
    let mut layer = GzDecoder::new(archive.blob(&manifest["layers"][0]));
    layer.read_to_end(&mut tar).unwrap();
    assert_eq!(
        config["rootfs"]["diff_ids"],
        json!([format!("sha256:{}", sha256(&tar))])
    );
    let entry = |path: &str, mode, text: &str| (path.to_owned(), mode, text.as_bytes().to_vec());
    assert_eq!(
        entries(&tar),
        [
            entry("etc/", 0o755, ""),
            entry("etc/app/", 0o755, ""),
            entry("etc/app/a", 0o644, "first"),
            entry("etc/app/b", 0o644, "second"),
            entry("etc/app/link", 0o644, "first"),
            entry("usr/", 0o755, ""),
            entry("usr/bin/", 0o755, ""),
            entry("usr/bin/app", 0o755, "#!/bin/sh\n"),
        ]
    );
}

#[test]
fn docker_finds_the_same_blobs() {
    let (_files, archive, _) = written();
    let manifest: Value =
        serde_json::from_slice(archive.blob(&archive.json("index.json")["manifests"][0])).unwrap();
    let path = |descriptor: &Value| descriptor["digest"].as_str().unwrap().replace(':', "/");
    assert_eq!(
        archive.json("manifest.json"),
        json!([{
            "Config": format!("blobs/{}", path(&manifest["config"])),
            "RepoTags": [NAME, "localhost/app:1"],
            "Layers": [format!("blobs/{}", path(&manifest["layers"][0]))],
        }])
    );
}

#[test]
fn the_same_files_give_the_same_bytes() {
    let bytes = |files: TempDir| {
        let path = files.path().join("app.tar");
        write(&image(files.path()), &path).unwrap();
        fs::read(path).unwrap()
    };
    assert!(bytes(files()) == bytes(files()));
}

#[test]
fn builds_of_the_same_archive_do_not_meet() {
    let files = files();
    let (image, output) = (image(files.path()), TempDir::new().unwrap());
    let path = output.path().join("app.tar");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    write(&image, &path).unwrap();
                }
            });
        }
    });
    Archive::read(&path);
    // As every new file, it is readable for others if the umask says so.
    let other = output.path().join("other");
    fs::write(&other, "").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&path), mode(&other));
    // What failed leaves nothing either.
    fs::create_dir(output.path().join("directory")).unwrap();
    assert!(write(&image, &output.path().join("directory")).is_err());
    assert_eq!(fs::read_dir(output.path()).unwrap().count(), 3);
}

#[test]
fn names_must_be_complete() {
    let files = files();
    let mut image = image(files.path());
    for (name, is_good) in [
        ("registry.example.com/podloom:0.1.0", true),
        ("localhost/podloom:1", true),
        ("registry.example.com/a/b_c:V1.0", true),
        // containerd and Docker would read these as names on docker.io, or with the tag `latest`.
        ("podloom", false),
        ("podloom:0.1.0", false),
        ("team/podloom:0.1.0", false),
        ("registry.example.com/podloom", false),
        ("registry.example.com:5000/podloom", false),
        ("registry.example.com/Podloom:1", false),
        ("registry.example.com//podloom:1", false),
        ("registry.example.com/podloom:", false),
        ("registry.example.com/podloom:-1", false),
        ("registry.example.com/podloom:1\n", false),
        ("registry.example.com/-podloom:1", false),
        ("registry.example.com/a..b:1", false),
        ("registry.example.com:port/podloom:1", false),
    ] {
        image.names = vec![name.to_owned()];
        let result = write(&image, &files.path().join("app.tar"));
        assert_eq!(result.is_ok(), is_good, "{name:?}: {result:?}");
    }
    image.names.clear();
    let result = write(&image, &files.path().join("app.tar"));
    assert!(matches!(result, Err(ImageError::Nameless)));
}

#[test]
fn what_is_no_file_is_refused() {
    let files = files();
    let mut layer = Layer::default();
    let special = layer.add(Path::new("/dev/null"), "null");
    assert!(
        matches!(special, Err(ImageError::Special(_))),
        "{special:?}"
    );
    let program = files.path().join("program");
    for path in ["../program", "", "/", "a/./b"] {
        let outside = layer.add(&program, path);
        assert!(matches!(outside, Err(ImageError::Path(_))), "{outside:?}");
    }
    let missing = layer.add(&files.path().join("missing"), "missing");
    assert!(missing.unwrap_err().to_string().ends_with("/missing"));
}
