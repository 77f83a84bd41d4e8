//! `podloom render -k` with the real kubectl.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use podloom_control_plane::Programs;
use podloom_tests::binary;
use tempfile::TempDir;

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: shop}\nspec: {containers: [{name: a, image: b}]}\n";

/// Renders a kustomization with this field, in a PATH that has only kubectl.
fn render(kubectl: &Programs, field: &str) -> Output {
    let directory = TempDir::new().unwrap();
    let directory = directory.path();
    let (overlay, programs) = (directory.join("-overlay"), directory.join("programs"));
    for made in [&overlay, &programs] {
        fs::create_dir(made).unwrap();
    }
    symlink(&kubectl.kubectl, programs.join("kubectl")).unwrap();
    fs::write(overlay.join("pod.yaml"), POD).unwrap();
    let kustomization = format!("resources: [pod.yaml]\n{field}\n");
    fs::write(overlay.join("kustomization.yaml"), kustomization).unwrap();
    Command::new(binary().unwrap())
        .args(["render", "-k=-overlay"])
        .current_dir(directory)
        .env("PATH", programs)
        .output()
        .unwrap()
}

#[test]
fn a_kustomization_is_built_by_the_real_kubectl() {
    if binary().is_none() {
        eprintln!("skipped: PODLOOM_BLACKBOX_BINARY is not set");
        return;
    }
    let programs = Programs::find().unwrap();
    let check = |field: &str, code: i32, printed: &str, told: &str| {
        let output = render(&programs, field);
        let [stdout, stderr] =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        assert_eq!(output.status.code(), Some(code), "{stdout}{stderr}");
        assert!(stdout.contains(printed), "{stdout}{stderr}");
        assert!(stderr.starts_with(told), "{stdout}{stderr}");
        assert_eq!(stderr.is_empty(), told.is_empty(), "{stderr}");
    };
    check("namePrefix: my-", 0, "name: my-shop\n", "");
    let warning =
        "warning: kubectl kustomize -overlay:\n    # Warning: 'commonLabels' is deprecated.";
    check("commonLabels: {team: web}", 0, "team: web\n", warning);
    let error = "error: kubectl kustomize -overlay: exit status: 1\n    error: ";
    check("components: [gone]", 1, "", error);
}
