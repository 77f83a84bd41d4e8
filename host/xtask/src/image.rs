//! `cargo xtask image`: the operator's image as an archive, made from the files of `cargo xtask dist`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;
use podloom_image::{Config, Image, Layer};

use crate::{dist, release, run};

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

/// What was built.
pub(crate) struct Built {
    /// The file system of the image.
    pub(crate) root: PathBuf,
    pub(crate) archive: PathBuf,
}

/// Builds the image that the manifests name, as it is shipped.
pub(crate) fn shipped() -> Result<Built> {
    let archive = archive("podloom.tar")?;
    build(
        &dist::standard()?,
        &[NAME.to_owned()],
        &archive,
        release::shipped,
    )
}

/// Builds the same image around the binary of the tests, in a place of its own: nobody shall ship it.
pub(crate) fn tested() -> Result<Built> {
    let archive = archive("tested.tar")?;
    let out = archive.with_file_name("tested");
    build(&out, &[NAME.to_owned()], &archive, release::tested)
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
        None => archive("podloom.tar")?,
    };
    build(
        &dist::standard()?,
        &arguments.name,
        &archive,
        release::shipped,
    )?;
    if arguments.load {
        load(&archive)?;
    }
    Ok(())
}

/// A file of cargo's target directory.
fn archive(name: &str) -> Result<PathBuf> {
    let target = run::workspace()?.target_directory;
    Ok(target.join(name).into_std_path_buf())
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
    let root = dist::make(out, binary)?;
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

#[cfg(test)]
mod tests;
