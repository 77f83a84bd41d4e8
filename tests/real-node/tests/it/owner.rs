//! Nothing is left of a node when its owner has ended, for whatever reason, and two nodes run beside each other.
//!
//! Each test starts its own binary again as the owner, and checks what that process leaves behind.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use podloom_real_node::Node;

use crate::cluster::{is_enabled, turn};

/// Set in the process that is the owner.
const OWNER: &str = "PODLOOM_TEST_OWNER";

fn is_owner() -> bool {
    env::var_os(OWNER).is_some()
}

/// Starts a node, prints where it is, and waits.
fn own() {
    let node = Node::start(&[]).unwrap();
    eprintln!("owner: {}", node.logs_dir().parent().unwrap().display());
    // Until the test that started it ends, for whatever reason: that closes the pipe.
    let _ended = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
}

struct Owner {
    process: Child,
    directory: PathBuf,
    cgroups: Vec<PathBuf>,
}

impl Owner {
    /// Runs this test again, as the owner.
    fn start(test: &str) -> Self {
        let mut process = Command::new(env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(OWNER, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut lines = lines.map(Result::unwrap);
        let line = lines.find_map(|line| line.strip_prefix("owner: ").map(str::to_owned));
        let directory = PathBuf::from(line.expect("the owner starts"));
        // The rest of its output must be read, or it would block.
        thread::spawn(move || lines.for_each(drop));
        let cgroups = fs::read_to_string(directory.join("cgroups")).unwrap();
        Self {
            process,
            directory,
            cgroups: cgroups.lines().map(PathBuf::from).collect(),
        }
    }

    /// SIGKILL.
    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// The processes in its cgroups.
    fn processes(&self) -> usize {
        self.cgroups.iter().map(|cgroup| processes(cgroup)).sum()
    }

    fn is_gone(&self) -> bool {
        !self.directory.exists() && !self.cgroups.iter().any(|cgroup| cgroup.exists())
    }
}

/// The number of processes in a cgroup and all below it.
fn processes(cgroup: &Path) -> usize {
    let own = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    let below = fs::read_dir(cgroup).into_iter().flatten().flatten();
    let below = below.filter(|entry| entry.path().is_dir());
    own.lines().count() + below.map(|entry| processes(&entry.path())).sum::<usize>()
}

#[track_caller]
fn eventually(what: &str, is_true: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_true() {
        assert!(Instant::now() < deadline, "not after 30 s: {what}");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn two_nodes_run_beside_each_other_and_killed_owners_leave_nothing() {
    if is_owner() {
        return own();
    }
    if !is_enabled() {
        return;
    }
    let _turn = turn();
    let test = "owner::two_nodes_run_beside_each_other_and_killed_owners_leave_nothing";
    let mut first = Owner::start(test);
    let mut second = Owner::start(test);
    assert!(first.processes() > 0 && second.processes() > 0);
    first.kill();
    eventually("the first is gone", || first.is_gone());
    // The second goes on, with all its files.
    assert!(second.processes() > 0 && second.directory.join("var/lib/kubelet").is_dir());

    // Its keeper is killed too: that leaves files and cgroups, but no process.
    let keeper = keeper(&second.directory);
    let killed = Command::new("kill").args(["-KILL", &keeper]).status();
    assert!(killed.unwrap().success());
    second.kill();
    eventually("its processes are gone", || second.processes() == 0);
    assert!(second.directory.exists());
    // The next node removes them.
    let third = Node::start(&[]).unwrap();
    let directory = third.logs_dir().parent().unwrap().to_owned();
    drop(third);
    assert!(!directory.exists());
    assert!(second.is_gone());
}

/// The process that keeps a node: its command line names the directory.
fn keeper(directory: &Path) -> String {
    let directory = directory.to_str().unwrap();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut keepers = processes.filter_map(|entry| {
        let line = fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let words: Vec<&str> = line.split('\0').collect();
        let is_keeper = words.contains(&"keeper") && words.contains(&directory);
        is_keeper.then(|| entry.file_name().into_string().unwrap())
    });
    keepers.next().unwrap()
}
