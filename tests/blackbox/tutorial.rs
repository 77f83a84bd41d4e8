//! The tutorial for plugin authors: runs its commands, from an empty directory to a plugin that is replaced in a running operator.

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

/// How many lines of the output a failed test shows.
const OUTPUT_LINES: usize = 80;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The `sh` blocks of a page, in order, each with its line number.
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
            // The output of a command, for readers.
            "text" => {}
            _ => panic!("line {number}: unknown kind of block `{tag}`; use sh or text"),
        }
    }
    blocks
}

/// All blocks as one script, so that later blocks see what earlier ones have set or started.
fn script(page: &str) -> String {
    let mut script = "set -eu\n".to_owned();
    for (line, block) in blocks(page) {
        let _infallible = writeln!(script, "echo '==> the block in line {line}'\n{block}");
    }
    script
}

/// A cluster on which Podloom was never installed, like a reader's.
fn untouched() -> Arc<Cluster> {
    Arc::new(Cluster::bare())
}

/// Runs the script with what a reader has: the programs on `PATH`, a cluster, and a checkout. The operator's port is a free one.
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
        // Some readers set this; it must not disable the small stack of plugins.
        .env("RUSTFLAGS", "-Cforce-frame-pointers=yes")
        // Kept from run to run, so that only the first run builds the dependencies.
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
        // So that a workspace around the temporary directory does not claim the new crate.
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
            script.ended().ok_or_else(|| last_lines(&output))
        });
        assert!(ended.await.success(), "{}", last_lines(&output));
        let output = fs::read_to_string(&output).unwrap();
        // The tutorial promises this output.
        for expected in [
            "ok   several",
            "+ /spec/containers/[name=proxy]/env/[name=TZ]",
            "browser: [{\"name\":\"TZ\",\"value\":\"UTC\"}]",
            "golden file written",
            "ignoring the environment variable RUSTFLAGS",
            // With Rust's default, the stack alone would be 1 MiB.
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

/// The last lines of the script's output.
fn last_lines(output: &Path) -> String {
    let text = fs::read(output).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(OUTPUT_LINES);
    lines.get(from..).unwrap_or_default().join("\n")
}
