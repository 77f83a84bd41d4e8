//! The tutorial for authors of plugins: every command of it, from nothing to a plugin that changes under a running operator.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use podloom_tests::{Cluster, Scene, Script, binary, blackbox_within, eventually_within};
use tempfile::TempDir;

/// Cargo builds the plugin's crate three times, the first time with all that it depends on.
const PATIENCE: Duration = Duration::from_secs(900);

/// How much of the output a failed test shows.
const TOLD_LINES: usize = 80;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The commands of a page, in order, each block with its line.
#[expect(clippy::panic, reason = "a page that cannot be read fails the test")]
fn blocks(page: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut lines = (1..).zip(page.lines());
    while let Some((number, line)) = lines.next() {
        let Some(tag) = line.trim_start().strip_prefix("```") else {
            continue;
        };
        let block = lines.by_ref().map(|(_, line)| line);
        let block: Vec<&str> = block
            .take_while(|line| line.trim_start() != "```")
            .collect();
        match tag {
            "sh" => blocks.push((number, block.join("\n"))),
            // What a command prints, for people.
            "text" => {}
            _ => panic!("line {number}: nobody knows what to do with a block of `{tag}`"),
        }
    }
    blocks
}

/// One script of all blocks, so that a later one has what an earlier one has set or started.
fn script(page: &str) -> String {
    let mut script = "set -eu\n".to_owned();
    for (line, block) in blocks(page) {
        let _infallible = writeln!(script, "echo '==> the block in line {line}'\n{block}");
    }
    script
}

/// A cluster that has never heard of Podloom, as a reader's.
fn untouched() -> Arc<Cluster> {
    Arc::new(Cluster::bare())
}

/// What a reader has: the programs on the path, a cluster, and a checkout. The address is one that nobody else listens on.
fn command(scene: &Scene, home: &Path, script: &Path) -> Command {
    let programs = home.join("bin");
    fs::create_dir(&programs).unwrap();
    let kubectl = scene.cluster.plane.kubectl();
    symlink(binary().unwrap(), programs.join("podloom")).unwrap();
    symlink(kubectl.get_program(), programs.join("kubectl")).unwrap();
    let others = std::env::var_os("PATH").unwrap();
    let path = [programs].into_iter().chain(std::env::split_paths(&others));
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();

    let mut command = Command::new("sh");
    for (name, _) in std::env::vars_os() {
        let is_ours = name.to_string_lossy().starts_with("PODLOOM_");
        if is_ours || name == "CI" || name == "CARGO_ENCODED_RUSTFLAGS" {
            command.env_remove(name);
        }
    }
    let kubernetes = kubectl.get_envs();
    command
        .arg(script)
        .envs(kubernetes.filter_map(|(name, value)| Some((name, value?))))
        .env("PATH", std::env::join_paths(path).unwrap())
        .env("PODLOOM_SDK", root().join("plugin-sdk"))
        .env("PODLOOM_HTTP", free.unwrap().to_string())
        // As some readers have them: they must not take the small stack from the plugin.
        .env("RUSTFLAGS", "-Cforce-frame-pointers=yes")
        // Kept from run to run, so that only the first one builds what plugins depend on.
        .env(
            "CARGO_TARGET_DIR",
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tutorial"),
        );
    command
}

#[test]
fn every_command_of_the_tutorial_works() {
    blackbox_within(PATIENCE, untouched, "tutorial-test", async |scene| {
        let page = fs::read_to_string(root().join("plugin-sdk/TUTORIAL.md")).unwrap();
        let home = TempDir::new().unwrap();
        let work = home.path().join("work");
        let (text, output) = (home.path().join("tutorial.sh"), home.path().join("output"));
        fs::create_dir(&work).unwrap();
        // The new crate is no part of a workspace that happens to lie around it.
        fs::write(home.path().join("Cargo.toml"), "[workspace]\n").unwrap();
        fs::write(&text, script(&page)).unwrap();
        let log = File::create(&output).unwrap();
        let mut command = command(&scene, home.path(), &text);
        command
            .current_dir(&work)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let mut script = Script::start(&mut command);
        let ended = eventually_within("the tutorial ends", PATIENCE, async || {
            script.ended().ok_or_else(|| told(&output))
        });
        assert!(ended.await.success(), "{}", told(&output));
        let output = fs::read_to_string(&output).unwrap();
        // What the reader is told to see.
        for expected in [
            "ok   several",
            "+ /spec/containers/[name=proxy]/env/[name=TZ]",
            "browser: [{\"name\":\"TZ\",\"value\":\"UTC\"}]",
            "golden file written",
            "ignoring the environment variable RUSTFLAGS",
            // The stack of Rust's default would be a MiB alone.
            "memory         64 KiB at the end of a call",
            "add /spec/containers/*/env/[name=TZ] and /spec/containers/*/env/[name=SHOP]",
            "[+]chain ok: ",
            "configmap/podloom-plugins serverside-applied (server dry run)",
        ] {
            assert!(output.contains(expected), "{expected}: {output}");
        }
        let row = |name: &str| {
            let mut rows = output.lines().filter(|line| line.starts_with(name));
            rows.find_map(|row| row.split_whitespace().nth(2))
                .map(str::to_owned)
        };
        assert_eq!(row("first ").as_deref(), Some("<none>"), "{output}");
        assert_eq!(
            row("second ").as_deref(),
            Some("https://tutorial.example.com"),
            "{output}"
        );
    });
}

fn told(output: &Path) -> String {
    let text = fs::read(output).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(TOLD_LINES);
    lines.get(from..).unwrap_or_default().join("\n")
}
