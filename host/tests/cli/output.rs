//! Output that other programs read.

use std::process::{Command, Stdio};

use super::{podloom, root};

#[test]
fn crds_equal_the_committed_files() {
    for (api, directory) in [("seed", "crds"), ("split", "crds/split")] {
        let ran = podloom(&["crds", "--selenosis-api", api]);
        assert_eq!(ran.code, 0, "{}", ran.text());
        let printed: Vec<serde_json::Value> = serde_saphyr::from_multiple(&ran.stdout).unwrap();
        assert_eq!(printed.len(), 2);
        for definition in printed {
            let plural = definition["spec"]["names"]["plural"].as_str().unwrap();
            let file = root().join(directory).join(format!("{plural}.yaml"));
            let text = std::fs::read_to_string(file).unwrap();
            let committed: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
            assert_eq!(definition, committed);
        }
    }
}

#[test]
fn a_reader_that_closes_the_pipe_early_is_not_an_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_podloom"))
        .arg("crds")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success());
}
