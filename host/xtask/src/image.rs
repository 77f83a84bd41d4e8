//! `cargo xtask image`: the operator's image as an archive, made from the files of `cargo xtask dist`: what an image holds and what
//! installs it. Neither needs a container engine.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;
use podloom_image::{Config, Image, Layer};
use sha2::{Digest, Sha256};

use crate::{plugins, release, run};

/// The options of `cargo xtask image`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The name under which the image is loaded, with registry and tag; repeat the option for several names.
    #[arg(long, value_name = "NAME", default_value = NAME)]
    name: Vec<String>,
    /// Where to write the archive; by default target/podloom.tar.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Load the archive into this machine's containerd, with `ctr`, where the kubelet finds it.
    #[arg(long)]
    load: bool,
}

/// The image that the manifests in deploy/ name.
const NAME: &str = concat!("ghcr.io/podloom/podloom:", env!("CARGO_PKG_VERSION"));

/// containerd's namespace for the images of Kubernetes.
const NAMESPACE: &str = "k8s.io";

/// Where the distribution is made, in the target directory, if no other place is named.
const DIST: &str = "dist";

/// The directory of the chain of plugins in the image; the manifests in deploy/ name it too.
const BUNDLE: &str = "usr/share/podloom/plugins";

/// A directory with this file is an earlier distribution, and may be replaced.
const BINARY: &str = "root/usr/bin/podloom";

/// The operator's user in the image, without a shell, a home or a password.
const PASSWD: &str = "podloom:x:65532:65532:Podloom:/:/sbin/nologin\n";
const GROUP: &str = "podloom:x:65532:\n";

/// The chain as a ConfigMap, in the copy of deploy/.
const CONFIG_MAP: &str = "podloom-plugins.yaml";

/// `kubectl apply` keeps the whole object as JSON in an annotation, which can hold no more. Our YAML is longer than that JSON.
const MAX_APPLIED: u64 = 262_144;

/// What the copy of deploy/ installs: the chain comes with it.
const KUSTOMIZATION: &str = "\
# Podloom with its chain of plugins in a ConfigMap: kubectl apply -k on this directory.
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- seed # or split
- podloom-plugins.yaml # made by podloom bundle
components:
- plugins/config-map # without it the chain is the one inside the image
# - options/arm64 # for an image that is built on arm64
# images:
# - name: ghcr.io/podloom/podloom
#   newName: registry.example.com/podloom
";

/// What was built.
pub(crate) struct Built {
    /// The file system of the image.
    pub(crate) root: PathBuf,
    pub(crate) archive: PathBuf,
}

/// Builds the image that the manifests name, as it is shipped.
pub(crate) fn shipped() -> Result<Built> {
    let archive = run::target("podloom.tar")?;
    build(
        &run::target(DIST)?,
        &[NAME.to_owned()],
        &archive,
        release::shipped,
    )
}

/// Builds the same image around the binary of the tests, in a place of its own: nobody shall ship it.
pub(crate) fn tested() -> Result<Built> {
    let archive = run::target("tested.tar")?;
    let out = archive.with_file_name("tested");
    let binary = || release::local("podloom");
    build(&out, &[NAME.to_owned()], &archive, binary)
}

/// Builds the image, writes the archive, and loads it if that is asked for.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // First what takes no time, since the builds take minutes.
    podloom_image::check_names(&arguments.name)?;
    if arguments.load {
        check_ctr()?;
    }
    let archive = match &arguments.out {
        Some(out) => out.clone(),
        None => run::target("podloom.tar")?,
    };
    build(
        &run::target(DIST)?,
        &arguments.name,
        &archive,
        release::shipped,
    )?;
    if arguments.load {
        load(&archive)?;
    }
    Ok(())
}

/// Makes the distribution around a binary, and the archive of its image.
fn build(
    out: &Path,
    names: &[String],
    archive: &Path,
    binary: fn() -> Result<PathBuf>,
) -> Result<Built> {
    let architecture = architecture(&release::host_triple()?)?;
    if let Some(directory) = archive.parent() {
        fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    }
    let root = make(out, binary)?;
    let image = operator(&root, names.to_owned(), architecture)?;
    let written = podloom_image::write(&image, archive)?;
    eprintln!(
        "{}: {:.1} MB, for {architecture}\n  {}\n  {}",
        archive.display(),
        megabytes(written.size),
        written.digest,
        names.join("\n  ")
    );
    Ok(Built {
        root,
        archive: archive.to_owned(),
    })
}

/// The image of the operator, as deploy/Dockerfile makes it too.
pub(crate) fn operator(root: &Path, names: Vec<String>, architecture: &str) -> Result<Image> {
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    let label = |(name, value): (&str, &str)| {
        (format!("org.opencontainers.image.{name}"), value.to_owned())
    };
    let labels = [
        ("title", "Podloom"),
        (
            "description",
            "A Kubernetes operator whose pods pass through a chain of sandboxed WebAssembly plugins",
        ),
        ("version", env!("CARGO_PKG_VERSION")),
        ("licenses", "Apache-2.0"),
    ];
    let mut layer = Layer::default();
    layer.add(root, "")?;
    Ok(Image {
        names,
        architecture: architecture.to_owned(),
        config: Config {
            user: "65532:65532".to_owned(),
            entrypoint: words(&["/usr/bin/podloom"]),
            command: words(&["run", "--plugins", "/usr/share/podloom/plugins"]),
            ports: vec![8080, 8081, 8443],
            labels: labels.into_iter().map(label).collect::<BTreeMap<_, _>>(),
        },
        layer,
    })
}

/// What images call the architecture of a Rust target.
pub(crate) fn architecture(triple: &str) -> Result<&'static str> {
    match triple.split_once('-') {
        Some(("x86_64", _)) => Ok("amd64"),
        Some(("aarch64", _)) => Ok("arm64"),
        _ => bail!(
            "images are made on x86_64 and aarch64, and this machine is {triple}; deploy/Dockerfile may work there"
        ),
    }
}

/// Fails if `ctr` cannot load images: better now than after the builds.
fn check_ctr() -> Result<()> {
    // `version` asks containerd itself, so missing rights show now too.
    run::succeed(Command::new("ctr").arg("version").stdout(Stdio::null())).context(
        "--load needs containerd's program ctr on PATH, and the rights to use containerd, which usually only root has; CONTAINERD_ADDRESS names another socket. For kind, k3d and minikube, leave out --load and see deploy/README.md",
    )
}

fn load(archive: &Path) -> Result<()> {
    let mut ctr = Command::new("ctr");
    ctr.args(["--namespace", NAMESPACE, "images", "import"]);
    run::succeed(ctr.arg(archive)).context(
        "ctr needs the rights to use containerd, which usually only root has; CONTAINERD_ADDRESS names another socket",
    )
}

/// For a message, so one decimal is enough.
#[expect(
    clippy::cast_precision_loss,
    reason = "a size below 2^52 bytes is exact, and this is for reading"
)]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1_000_000.0
}

/// Makes the distribution, and shows what is in it and how to install it.
pub(crate) fn dist(out: Option<&Path>) -> Result<()> {
    let out = match out {
        Some(out) => out.to_owned(),
        None => run::target(DIST)?,
    };
    let root = make(&out, release::shipped)?;
    report(&root)?;
    let deploy = root.with_file_name("deploy");
    eprintln!("kubectl apply -k {}", deploy.display());
    Ok(())
}

/// Makes the distribution around the binary that a function builds, and returns its root folder.
///
/// `root` is the file system of the image. `deploy` is ready to be applied, with `crds` beside it.
/// Everything is made again each time.
fn make(out: &Path, binary: fn() -> Result<PathBuf>) -> Result<PathBuf> {
    if !release::is_linux(&release::host_triple()?) {
        bail!(
            "an image needs a Linux binary, and this machine runs something else; deploy/Dockerfile builds one"
        );
    }
    check_replaceable(out)?;
    let bundle = plugins::run()?;
    let binary = binary()?;
    let next = out.with_extension("next");
    remove(&next)?;
    make_root(&next.join("root"), &binary, &bundle)?;
    make_manifests(&next, &binary, &bundle)?;
    remove(out)?;
    fs::rename(&next, out).with_context(|| out.display().to_string())?;
    Ok(out.join("root"))
}

/// Fails if the directory holds anything but an earlier distribution: a typing error must not delete a user's files.
fn check_replaceable(out: &Path) -> Result<()> {
    let Ok(mut entries) = fs::read_dir(out) else {
        return Ok(());
    };
    if entries.next().is_some() && !out.join(BINARY).is_file() {
        bail!(
            "{} holds something else; name a directory that is empty or new",
            out.display()
        );
    }
    Ok(())
}

fn remove(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| directory.display().to_string())
        }
        _ => Ok(()),
    }
}

/// The file system of the image: what the operator needs to run alone.
fn make_root(root: &Path, binary: &Path, bundle: &Path) -> Result<()> {
    place(binary, &root.join("usr/bin/podloom"), 0o755)?;
    copy_tree(bundle, &root.join(BUNDLE))?;
    place(
        &run::root().join("LICENSE"),
        &root.join("usr/share/licenses/podloom/LICENSE"),
        0o644,
    )?;
    write(&root.join("etc/passwd"), PASSWD)?;
    write(&root.join("etc/group"), GROUP)?;
    // glibc's default, spelled out: it needs no library that would have to be loaded from a file.
    write(&root.join("etc/nsswitch.conf"), "hosts: files dns\n")
}

/// The manifests with the chain of plugins.
fn make_manifests(out: &Path, binary: &Path, bundle: &Path) -> Result<()> {
    let deploy = out.join("deploy");
    copy_tree(&run::root().join("deploy"), &deploy)?;
    copy_tree(&run::root().join("crds"), &out.join("crds"))?;
    fs::remove_file(deploy.join("Dockerfile"))?;
    write(&deploy.join("kustomization.yaml"), KUSTOMIZATION)?;
    let config_map = deploy.join(CONFIG_MAP);
    let mut podloom = Command::new(binary);
    podloom.arg("bundle").arg(bundle).arg("--output");
    run::succeed(podloom.arg(&config_map))?;
    if config_map.metadata()?.len() > MAX_APPLIED {
        bail!("the chain is too large for kubectl apply without --server-side");
    }
    set_mode(&config_map, 0o644)
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            place(&entry.path(), &target, 0o644)?;
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    make_parent(path)?;
    fs::write(path, text).with_context(|| path.display().to_string())?;
    set_mode(path, 0o644)
}

fn place(from: &Path, to: &Path, mode: u32) -> Result<()> {
    make_parent(to)?;
    fs::copy(from, to).with_context(|| from.display().to_string())?;
    set_mode(to, mode)
}

/// Sets the mode whatever the umask is, so that every user can read the image.
fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .with_context(|| path.display().to_string())
}

fn make_parent(path: &Path) -> Result<()> {
    let mut missing = Vec::new();
    let mut directory = path.parent();
    while let Some(parent) = directory.filter(|parent| !parent.exists()) {
        missing.push(parent);
        directory = parent.parent();
    }
    for parent in missing.into_iter().rev() {
        fs::create_dir(parent).with_context(|| parent.display().to_string())?;
        set_mode(parent, 0o755)?;
    }
    Ok(())
}

/// Lists the files of the image.
fn report(root: &Path) -> Result<()> {
    for file in files(root)? {
        let bytes = fs::read(&file).with_context(|| file.display().to_string())?;
        let name = file.strip_prefix(root).unwrap_or(&file);
        let digest: String = Sha256::digest(&bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        eprintln!("{:>10}  {digest}  /{}", bytes.len(), name.display());
    }
    Ok(())
}

/// All files of a directory, sorted.
fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(files(&entry.path())?);
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests;
