//! The operator as a process beside the demo, and the directory of its plugins.

use std::cell::RefCell;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{Built, Cluster, screen};

/// How long it may take to be ready; it compiles the plugins first.
const START: Duration = Duration::from_mins(1);
/// How long one thing may take while it runs. A dead relay is asked three times, with pauses, before it counts as lost.
const PATIENCE: Duration = Duration::from_mins(1);
/// How long a server may take to answer.
const ANSWER: Duration = Duration::from_secs(10);
/// How often the cluster is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How many of the last lines of its log an error repeats.
const LOG_LINES: usize = 15;

/// A running operator; dropping this stops it.
pub(crate) struct Operator {
    pub(crate) address: SocketAddr,
    pub(crate) log: PathBuf,
    child: RefCell<Child>,
}

impl Operator {
    /// Starts it with the plugins of a directory, a log of this name beside them, and more arguments; waits until it is ready.
    pub(crate) fn start(
        built: &Built,
        plugins: &Path,
        cluster: &Cluster,
        (log, more): (&str, &[&str]),
    ) -> Result<Self> {
        let (binary, log) = (&built.binary, plugins.with_file_name(log));
        let output = File::create(&log).with_context(|| log.display().to_string())?;
        let address = free_address()?;
        let mut command = Command::new(binary);
        command
            .arg("run")
            .arg("--plugins")
            .arg(plugins)
            .args(["--http", &address.to_string()])
            .args(more);
        let child = command
            .env("KUBECONFIG", &cluster.kubeconfig)
            .stderr(output)
            .spawn()
            .with_context(|| binary.display().to_string())?;
        let operator = Self {
            address,
            log,
            child: RefCell::new(child),
        };
        operator.until_ready()?;
        Ok(operator)
    }

    fn until_ready(&self) -> Result<()> {
        let start = Instant::now();
        let mut last_answer = String::new();
        while start.elapsed() < START {
            self.check_alive()?;
            match self.ask("/readyz") {
                Ok((200, _)) => return Ok(()),
                Ok((_, body)) => last_answer = body,
                // It does not listen yet.
                Err(_) => {}
            }
            thread::sleep(Duration::from_millis(50));
        }
        self.print_log();
        bail!(
            "the operator is not ready after {} s: {last_answer}",
            START.as_secs()
        )
    }

    fn ask(&self, path: &str) -> Result<(u16, String)> {
        send(self.address, &format!("GET {path}"), "", "")
    }

    /// What it reports about the plugins that serve.
    pub(crate) fn plugins(&self) -> Result<Value> {
        let (_, body) = self.ask("/plugins")?;
        serde_json::from_str(&body).with_context(|| body.clone())
    }

    /// Waits until something is so.
    pub(crate) fn until(&self, is_so: impl Fn() -> Result<bool>) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            self.check_alive()?;
            if is_so()? {
                return Ok(());
            }
            thread::sleep(LOOK);
        }
        self.print_log();
        bail!("it took longer than {} s", PATIENCE.as_secs())
    }

    /// Fails if it has ended.
    pub(crate) fn check_alive(&self) -> Result<()> {
        if let Some(status) = self.child.borrow_mut().try_wait()? {
            self.print_log();
            bail!("the operator ended ({status})");
        }
        Ok(())
    }

    /// Prints the end of its log.
    pub(crate) fn print_log(&self) {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        screen::line(&format!("the end of {}:", self.log.display()));
        for line in lines.iter().skip(lines.len().saturating_sub(LOG_LINES)) {
            screen::line(line);
        }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let child = self.child.get_mut();
        let _already_ended = child.kill();
        let _already_ended = child.wait();
    }
}

/// A running program of `podloom-doubles`, for something outside the cluster; dropping this kills it.
pub(crate) struct Double {
    pub(crate) address: SocketAddr,
    pub(crate) control: SocketAddr,
    child: Child,
}

impl Double {
    /// Starts one with these arguments, and waits until it is ready.
    pub(crate) fn start(doubles: &Path, arguments: &[&str]) -> Result<Self> {
        let mut child = Command::new(doubles)
            .args(arguments)
            .arg("--owned")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| doubles.display().to_string())?;
        let output = child.stdout.take().context("its output is piped")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let ready: Value = serde_json::from_str(&line).context("it did not start")?;
        let address = |name: &str| -> Result<SocketAddr> {
            let text = ready.get(name).and_then(Value::as_str);
            Ok(text.with_context(|| format!("it has no {name}"))?.parse()?)
        };
        Ok(Self {
            address: address("address")?,
            control: address("control")?,
            child,
        })
    }
}

impl Drop for Double {
    fn drop(&mut self) {
        let _already_ended = self.child.kill();
        let _already_ended = self.child.wait();
    }
}

/// An address for a server. Another process could take the port in between; then the server fails and its log says why.
pub(crate) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Sends a request, which is a method and a path, with these header lines, each with its line end. Returns status and body.
pub(crate) fn send(
    server: SocketAddr,
    request: &str,
    headers: &str,
    body: &str,
) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(ANSWER))?;
    // HTTP/1.0, so the answer is not chunked, and the connection closes after it.
    write!(
        stream,
        "{request} HTTP/1.0\r\nHost: localhost\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    parts(&answer).with_context(|| format!("{request}: the answer is not HTTP: {answer}"))
}

fn parts(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// Adds a label: pairs of a line in the manifest and the text to insert after it. The labels plugin comes first there.
const MORE: [(&str, &str); 2] = [
    ("  allow:\n", "  - /metadata/labels/shown-by\n"),
    (
        "    labels:\n",
        "    - key: shown-by\n      value: hot-reload\n",
    ),
];

/// One more plugin at the end of the chain.
const FOR_BROWSERS: &str = "\
- name: browsers-only
  file: labels.wasm.gz
  allow: [/metadata/labels]
  match: { kinds: [Browser] }
  config: { labels: [{ key: only, value: browsers }] }
";

/// A mounted bundle of plugins.
pub(crate) struct Volume {
    mount: PathBuf,
    bundle: PathBuf,
}

impl Volume {
    /// Mounts a copy of the bundle, so that changing a plugin does not change the build.
    pub(crate) fn mount(bundle: &Path, mount: PathBuf) -> Result<Self> {
        if mount.exists() {
            fs::remove_dir_all(&mount).with_context(|| mount.display().to_string())?;
        }
        fs::create_dir_all(&mount).with_context(|| mount.display().to_string())?;
        let volume = Self {
            mount,
            bundle: bundle.to_owned(),
        };
        volume.swap("1", |_| Ok(()))?;
        Ok(volume)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.mount
    }

    /// Makes the labels plugin write one more label.
    pub(crate) fn add_label(&self) -> Result<()> {
        self.swap("2", |files| {
            let path = files.join("chain.yaml");
            let mut text = fs::read_to_string(&path)?;
            add_label(&path, &mut text)?;
            Ok(fs::write(path, text)?)
        })
    }

    /// Makes the labels plugin write this label, by its last word in a path and its key.
    pub(crate) fn add_label_of(
        &self,
        version: &str,
        (path_key, key): (&str, &str),
        value: &str,
    ) -> Result<()> {
        self.swap(version, |files| {
            let path = files.join("chain.yaml");
            let mut text = fs::read_to_string(&path)?;
            let allowed = format!("  - /metadata/labels/{path_key}\n");
            let label = format!("    - key: {key}\n      value: {value}\n");
            let [(allow, _), (labels, _)] = MORE;
            insert(&path, &mut text, [(allow, &allowed), (labels, &label)])?;
            Ok(fs::write(path, text)?)
        })
    }

    /// Adds the labels plugin once more, for Browsers alone.
    pub(crate) fn add_plugin_for_browsers(&self) -> Result<()> {
        self.swap("4", |files| {
            let path = files.join("chain.yaml");
            let mut text = fs::read_to_string(&path)?;
            add_label(&path, &mut text)?;
            text.push_str(FOR_BROWSERS);
            Ok(fs::write(path, text)?)
        })
    }

    /// Cuts a plugin's file in half.
    pub(crate) fn truncate_plugin(&self) -> Result<()> {
        self.swap("3", |files| {
            let path = files.join("hardening.wasm.gz");
            let bytes = fs::read(&path)?;
            let half = bytes.get(..bytes.len() / 2).unwrap_or_default();
            Ok(fs::write(path, half)?)
        })
    }

    /// Works like the kubelet: writes the new files beside the old ones, renames once, then deletes the old ones.
    fn swap(&self, version: &str, change: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let current = self.mount.join("..data");
        let old = fs::read_link(&current).ok();
        let name = format!("..{version}");
        let new = self.mount.join(&name);
        fs::create_dir(&new)?;
        let files: Vec<_> = fs::read_dir(&self.bundle)?.collect::<Result<_, _>>()?;
        for file in &files {
            fs::copy(file.path(), new.join(file.file_name()))?;
        }
        change(&new)?;
        let next = self.mount.join("..data_tmp");
        symlink(&name, &next)?;
        fs::rename(&next, &current)?;
        for file in &files {
            let link = self.mount.join(file.file_name());
            if !link.is_symlink() {
                symlink(Path::new("..data").join(file.file_name()), link)?;
            }
        }
        if let Some(old) = old {
            fs::remove_dir_all(self.mount.join(old))?;
        }
        Ok(())
    }
}

/// Makes the labels plugin write one more label.
fn add_label(path: &Path, manifest: &mut String) -> Result<()> {
    insert(path, manifest, MORE)
}

/// Inserts each text behind the first such line.
fn insert(path: &Path, manifest: &mut String, texts: [(&str, &str); 2]) -> Result<()> {
    for (list, more) in texts {
        let Some(start) = manifest.find(list) else {
            bail!("{} has no {}", path.display(), list.trim());
        };
        manifest.insert_str(start + list.len(), more);
    }
    Ok(())
}
