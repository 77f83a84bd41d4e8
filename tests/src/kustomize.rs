//! The manifests of `deploy/`, as the real kubectl builds them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use podloom_control_plane::Programs;
use tempfile::TempDir;

/// Builds an overlay as a user writes it: a directory of the repository, and components of `deploy/`. Fails on warnings too.
#[must_use]
#[track_caller]
pub fn build(base: &str, components: &[impl AsRef<str> + std::fmt::Debug]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let root = root.canonicalize().unwrap();
    let directory = TempDir::new().unwrap();
    for name in ["crds", "deploy"] {
        symlink(root.join(name), directory.path().join(name)).unwrap();
    }
    let overlay = directory.path().join("overlay");
    fs::create_dir(&overlay).unwrap();
    let mut text = format!("resources:\n- ../{base}\ncomponents:\n");
    for component in components {
        text += &format!("- ../deploy/{}\n", component.as_ref());
    }
    fs::write(overlay.join("kustomization.yaml"), text).unwrap();
    let kubectl = Programs::find().unwrap().kubectl;
    let mut kubectl = Command::new(kubectl);
    let output = kubectl.arg("kustomize").arg(&overlay).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && stderr.is_empty(),
        "{base} {components:?}: {stderr}"
    );
    String::from_utf8(output.stdout).unwrap()
}
