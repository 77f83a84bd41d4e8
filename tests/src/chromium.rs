//! A real web browser without a window, for tests of pages.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::Process;

/// Its programs, where Debian and others put them.
const PROGRAMS: [&str; 3] = [
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
];

/// Starts it with its pipes at the places where it looks for them.
const START: &str = r#"exec "$@" 3<"$COMMANDS" 4>"$ANSWERS""#;

/// A browser with one page, driven by the DevTools protocol; dropping it ends it.
pub struct Chromium {
    _process: Process,
    _folder: TempDir,
    commands: File,
    answers: BufReader<File>,
    session: Value,
    sent: u64,
    /// What the page has complained about: errors, and what its policy forbade.
    complaints: Vec<String>,
}

impl Chromium {
    /// Starts it; none if this machine has none. `PODLOOM_CHROMIUM` names another program.
    #[must_use]
    pub fn start() -> Option<Self> {
        let named = std::env::var_os("PODLOOM_CHROMIUM").map(PathBuf::from);
        let mut usual = PROGRAMS.iter().map(PathBuf::from);
        let program = named.or_else(|| usual.find(|program| program.exists()))?;
        let folder = TempDir::new().unwrap();
        let [commands, answers] = ["commands", "answers"].map(|name| pipe(folder.path(), name));
        let profile = format!(
            "--user-data-dir={}",
            folder.path().join("profile").display()
        );
        let mut start = Command::new("sh");
        start.args(["-c", START, "sh"]).arg(program);
        start.args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ]);
        start.args(["--remote-debugging-pipe", &profile]);
        start.env("COMMANDS", &commands).env("ANSWERS", &answers);
        start
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = Process::spawn(&mut start).unwrap();
        // In the order in which the shell opens them: each waits for the other side.
        let commands = File::options().write(true).open(commands).unwrap();
        let answers = BufReader::new(File::open(answers).unwrap());
        let mut chromium = Self {
            _process: process,
            _folder: folder,
            commands,
            answers,
            session: Value::Null,
            sent: 0,
            complaints: Vec::new(),
        };
        let page = chromium.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": page["targetId"], "flatten": true });
        chromium.session = chromium.call("Target.attachToTarget", attach)["sessionId"].clone();
        for domain in ["Page", "Runtime", "Log", "Accessibility"] {
            chromium.call(&format!("{domain}.enable"), json!({}));
        }
        Some(chromium)
    }

    /// Loads a page.
    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
    }

    /// The value of an expression of JavaScript in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let evaluate = json!({ "expression": expression, "returnByValue": true });
        self.call("Runtime.evaluate", evaluate)["result"]["value"].clone()
    }

    /// What a screen reader gets: `role: name` of each part of the page, in order.
    pub fn accessible(&mut self) -> Vec<String> {
        let tree = self.call("Accessibility.getFullAXTree", json!({}));
        let nodes = tree["nodes"].as_array().unwrap().iter();
        let seen = nodes.filter(|node| node["ignored"] != true);
        seen.map(|node| {
            let text = |field: &str| node[field]["value"].as_str().unwrap_or_default();
            format!("{}: {}", text("role"), text("name"))
        })
        .collect()
    }

    /// Presses Enter.
    pub fn press_enter(&mut self) {
        for (kind, text) in [("keyDown", "\r"), ("keyUp", "")] {
            let event = json!({
                "type": kind, "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": text,
            });
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// A window of this width, in the colours of this scheme: `light` or `dark`.
    fn look(&mut self, width: u32, scheme: &str) {
        self.resize(width, 800);
        let scheme = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", scheme);
    }

    fn resize(&mut self, width: u32, height: u64) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// The whole page as a picture of this width, in the colours of this scheme: PNG in base64.
    pub fn picture(&mut self, width: u32, scheme: &str) -> String {
        self.look(width, scheme);
        let height = self.value("document.documentElement.scrollHeight");
        self.resize(width, height.as_u64().unwrap());
        let picture = self.call("Page.captureScreenshot", json!({}));
        self.resize(width, 800);
        picture["data"].as_str().unwrap().to_owned()
    }

    /// What the page has complained about so far.
    #[must_use]
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// Calls a method and returns its result.
    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.sent += 1;
        let mut message = json!({ "id": self.sent, "method": method });
        message["params"] = parameters;
        if self.session.is_string() {
            message["sessionId"] = self.session.clone();
        }
        self.commands
            .write_all(format!("{message}\0").as_bytes())
            .unwrap();
        loop {
            let mut answer = self.read();
            if answer["id"] == self.sent {
                assert!(answer["error"].is_null(), "{method}: {answer:#}");
                return answer["result"].take();
            }
            let event = answer["method"].as_str().unwrap_or_default();
            if event == "Runtime.exceptionThrown" || event == "Log.entryAdded" {
                self.complaints.push(answer["params"].to_string());
            }
        }
    }

    fn read(&mut self) -> Value {
        let mut message = Vec::new();
        self.answers.read_until(0, &mut message).unwrap();
        let text = message.strip_suffix(b"\0").unwrap_or(&message);
        assert!(!text.is_empty(), "the browser has ended");
        serde_json::from_slice(text).unwrap()
    }
}

fn pipe(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    let made = Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success(), "mkfifo fails");
    path
}
