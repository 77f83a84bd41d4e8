//! Nothing is left of a control plane when its owner has ended, for whatever reason.
//!
//! Each test starts its own binary again as the owner, and checks what that process leaves behind.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use crate::cluster::{eventually, start};

/// Set in the process that is the owner.
const OWNER: &str = "PODLOOM_TEST_OWNER";

/// Starts a control plane, prints its processes and its logs in one line, and then ends in the given way.
fn own(end: fn()) {
    let plane = start();
    let processes = plane.processes();
    let ids: Vec<String> = processes.iter().map(|(_, id)| id.to_string()).collect();
    eprintln!("owner: {} {}", ids.join(","), plane.logs_dir().display());
    end();
}

struct Owner {
    process: Child,
    ids: Vec<String>,
    logs: PathBuf,
}

impl Owner {
    /// Runs this test again, as the owner.
    fn start(test: &str) -> Self {
        let mut process = Command::new(env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(OWNER, "1")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut lines = lines.map(Result::unwrap);
        let line = lines.find_map(|line| line.strip_prefix("owner: ").map(str::to_owned));
        let line = line.expect("the owner starts");
        let (ids, logs) = line.split_once(' ').unwrap();
        // The rest of its output must be read, or it would block.
        thread::spawn(move || lines.for_each(drop));
        Self {
            process,
            ids: ids.split(',').map(str::to_owned).collect(),
            logs: logs.into(),
        }
    }

    /// The directory of the control plane.
    fn directory(&self) -> &Path {
        self.logs.parent().unwrap()
    }

    #[track_caller]
    fn assert_that_nothing_runs(&self) {
        assert_eq!(self.ids.len(), 5);
        eventually("", || {
            self.ids.iter().filter(|id| is_alive(id)).cloned().collect()
        });
    }
}

fn is_alive(id: &str) -> bool {
    let ps = Command::new("ps")
        .args(["-o", "stat=", "-p", id])
        .output()
        .unwrap();
    let state = String::from_utf8(ps.stdout).unwrap();
    // A zombie (Z) has ended, but nobody has waited for it yet.
    !state.trim().is_empty() && !state.starts_with('Z')
}

#[test]
fn a_killed_owner_leaves_nothing() {
    if env::var_os(OWNER).is_some() {
        return own(|| {
            loop {
                thread::park()
            }
        });
    }
    let mut owner = Owner::start("owner::a_killed_owner_leaves_nothing");
    assert!(owner.ids.iter().all(|id| is_alive(id)));
    // SIGKILL.
    owner.process.kill().unwrap();
    owner.process.wait().unwrap();
    owner.assert_that_nothing_runs();
    eventually("false", || owner.directory().exists().to_string());
}

#[test]
fn a_panic_leaves_only_the_logs() {
    if env::var_os(OWNER).is_some() {
        return own(|| panic!("as asked"));
    }
    let mut owner = Owner::start("owner::a_panic_leaves_only_the_logs");
    assert!(!owner.process.wait().unwrap().success());
    owner.assert_that_nothing_runs();
    eventually("false", || {
        owner.directory().join("data").exists().to_string()
    });
    assert!(owner.logs.join("kube-apiserver.log").is_file());
    std::fs::remove_dir_all(owner.directory()).unwrap();
}

#[test]
fn a_normal_end_leaves_nothing() {
    if env::var_os(OWNER).is_some() {
        return own(|| ());
    }
    let mut owner = Owner::start("owner::a_normal_end_leaves_nothing");
    assert!(owner.process.wait().unwrap().success());
    // Dropping waits for the end, so there is nothing to wait for.
    assert!(!owner.ids.iter().any(|id| is_alive(id)));
    assert!(!owner.directory().exists());
}
