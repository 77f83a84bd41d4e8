//! The control plane that most tests share, and how tests use it.

use std::process::Command;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use podloom_control_plane::{ControlPlane, Options};
use serde_json::Value;

/// The shared control plane. A static is never dropped, so the control plane ends with the process.
pub(crate) fn shared() -> &'static ControlPlane {
    static SHARED: OnceLock<ControlPlane> = OnceLock::new();
    SHARED.get_or_init(start)
}

/// A new control plane for one test.
pub(crate) fn start() -> ControlPlane {
    let options = Options {
        audit: true,
        ..Options::default()
    };
    ControlPlane::start(&options).unwrap()
}

/// What kubectl prints, or its error.
pub(crate) fn try_kubectl(kubectl: &mut Command, arguments: &[&str]) -> Result<String, String> {
    let output = kubectl.args(arguments).output().unwrap();
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap())
    } else {
        Err(String::from_utf8(output.stderr).unwrap())
    }
}

#[track_caller]
pub(crate) fn kubectl(plane: &ControlPlane, arguments: &[&str]) -> String {
    match try_kubectl(&mut plane.kubectl(), arguments) {
        Ok(output) => output,
        Err(error) => panic!("kubectl {}: {error}", arguments.join(" ")),
    }
}

/// Gets an object, or a list of objects.
#[track_caller]
pub(crate) fn get(plane: &ControlPlane, arguments: &[&str]) -> Value {
    let arguments = [&["get", "--output=json"], arguments].concat();
    serde_json::from_str(&kubectl(plane, &arguments)).unwrap()
}

#[track_caller]
pub(crate) fn apply(plane: &ControlPlane, manifest: &Value) {
    let file = tempfile::NamedTempFile::new().unwrap();
    serde_json::to_writer(&file, manifest).unwrap();
    kubectl(
        plane,
        &["create", "--filename", file.path().to_str().unwrap()],
    );
}

/// Waits until the answer is the expected one; fails with the last answer after a minute.
#[track_caller]
pub(crate) fn eventually(expected: &str, mut ask: impl FnMut() -> String) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let answer = ask();
        if answer == expected {
            return;
        }
        if Instant::now() > deadline {
            assert_eq!(answer, expected, "after a minute");
        }
        thread::sleep(Duration::from_millis(100));
    }
}
