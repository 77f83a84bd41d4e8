//! Bundles of plugins for operators.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use wit_component::StringEncoding;
use wit_parser::Resolve;

/// The plugins of the tests' own, most of which misbehave: names of `.wat` files in `blackbox/fixtures`.
const FIXTURES: [&str; 8] = [
    "breaks", "denies", "loops", "eats", "hangs", "forges", "relabels", "copies",
];

/// A directory for `--plugins`.
pub struct Bundle(TempDir);

/// A bundle that changes as a mounted volume does: the kubelet swaps all files at once.
pub struct MountedBundle(TempDir);

impl MountedBundle {
    /// A volume with the same bundle as [`Bundle::of`].
    #[must_use]
    pub fn of(entries: &str) -> Self {
        Self::filled(|directory| fill(directory, entries))
    }

    /// A volume with the files that `fill` writes.
    #[must_use]
    pub fn filled(fill: impl FnOnce(&Path)) -> Self {
        let mounted = Self(TempDir::new().unwrap());
        mounted.swap(fill);
        mounted
    }

    /// The directory where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Swaps in a bundle with other entries.
    pub fn update(&self, entries: &str) {
        self.swap(|directory| fill(directory, entries));
    }

    /// Swaps in the files that `fill` writes, in the same steps as the kubelet's atomic writer.
    pub fn swap(&self, fill: impl FnOnce(&Path)) {
        let at = |name: &str| self.path().join(name);
        let old = fs::read_link(at("..data")).ok();
        let new = TempDir::with_prefix_in("..", self.path()).unwrap().keep();
        fill(&new);
        symlink(new.file_name().unwrap(), at("..data_tmp")).unwrap();
        fs::rename(at("..data_tmp"), at("..data")).unwrap();
        for file in fs::read_dir(&new).unwrap() {
            let name = file.unwrap().file_name();
            // The link exists already, unless this is the first time.
            let _exists = symlink(Path::new("..data").join(&name), self.path().join(&name));
        }
        if let Some(old) = old {
            fs::remove_dir_all(self.path().join(old)).unwrap();
        }
    }
}

impl Bundle {
    /// A bundle with an empty chain, which changes nothing and is ready at once.
    #[must_use]
    pub fn empty() -> Self {
        Self::of("[]")
    }

    /// A bundle whose chain has these entries, as `plugins:` lists them. The directory has the standard plugins and those that
    /// misbehave: `breaks.wasm`, `loops.wasm`, `eats.wasm` and `forges.wasm` on pods with the label `break`, `loop`, `eat` and
    /// `forge`, `denies.wasm` and `hangs.wasm` on every pod, and `relabels.wasm` on pods with the label `app`; also `copies.wasm`,
    /// which copies the first container to `/spec/copied`.
    #[must_use]
    pub fn of(entries: &str) -> Self {
        let directory = TempDir::new().unwrap();
        fill(directory.path(), entries);
        Self(directory)
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

fn fill(directory: &Path, entries: &str) {
    for file in fs::read_dir(standard()).unwrap() {
        let file = file.unwrap().path();
        let name = file.file_name().unwrap();
        if name != "chain.yaml" {
            fs::copy(&file, directory.join(name)).unwrap();
        }
    }
    for name in FIXTURES {
        fs::write(directory.join(format!("{name}.wasm")), assemble(name)).unwrap();
    }
    let manifest =
        format!("apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins: {entries}\n");
    fs::write(directory.join("chain.yaml"), manifest).unwrap();
}

/// The bundle of the standard plugins, which `cargo xtask plugins` makes.
#[must_use]
pub fn standard() -> PathBuf {
    let bundle = std::env::var_os("PODLOOM_BUNDLE");
    let bundle = bundle.expect("set PODLOOM_BUNDLE to the bundle that `cargo xtask plugins` makes");
    PathBuf::from(bundle)
}

/// Assembles one of the plugins of the tests' own. It shares its common parts with the fixtures of the sandbox's own tests.
#[must_use]
pub fn assemble(name: &str) -> Vec<u8> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let parts = here.join("../host/mutators/tests/fixtures");
    let part = |name: &str| fs::read_to_string(parts.join(name)).unwrap();
    let text = format!(
        "(module\n{}\n{}\n{}\n{}\n{})",
        part("prelude.wat"),
        part("default-cabi_realloc.wat"),
        part("default-describe.wat"),
        part("default-validate_config.wat"),
        fs::read_to_string(here.join(format!("blackbox/fixtures/{name}.wat"))).unwrap(),
    );
    let mut module = wat::parse_str(text).unwrap();
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(here.join("../wit/0.1")).unwrap();
    let world = resolve.select_world(&[package], Some("mutator")).unwrap();
    wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
        .unwrap();
    module
}
