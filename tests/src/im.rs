//! The IM server as a process: the real grycap/im with its Dummy cloud, which creates no machines.
//!
//! ```ignore
//! let im = ImServer::start(&ImOptions::default()).await;
//! let owner = im.owner("tenant", "secret");
//! let id = owner.create(&templates::pool(3, &[]));
//! owner.reaches(&id, "configured").await;
//! ```
//!
//! To count what an operator asks of it, or to lose an answer, put [`Proxy::to`](crate::faults::Proxy::to) in front of it. A server
//! that is stopped refuses connections, but the proxy before it accepts and then closes them.
//!
//! The server shares the network of the test, since the test must reach it on loopback; its launcher refuses all other hosts.

mod owner;
pub mod templates;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use podloom_im::{LOGS, Launch};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::http;
use crate::process::{Process, Signal};
use crate::wait::eventually;
pub use owner::{ImOwner, ImReading};
pub use podloom_im::BootMode;

/// How many lines of each log a failed test shows.
const LOG_LINES: usize = 40;

/// How often a start is tried when another process takes the port between our choice and its use.
const ATTEMPTS: u32 = 5;

/// How to start the server.
#[derive(Clone, Debug, Default)]
pub struct ImOptions {
    /// Which requests it serves.
    pub boot_mode: BootMode,
    /// The pairs of username and password that it accepts. If there are none it accepts every pair, and each pair is an owner.
    pub users: Vec<(String, String)>,
}

/// What a restart does with the server's infrastructures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImData {
    /// They stay.
    Kept,
    /// They are forgotten.
    Lost,
}

/// A server; dropping it kills it, and removes its data.
pub struct ImServer {
    /// Its address, on loopback and without TLS. It stays the same over restarts.
    pub address: SocketAddr,
    python: PathBuf,
    options: ImOptions,
    process: Process,
    files: TempDir,
}

impl ImServer {
    /// Starts a server without infrastructures, and waits until it answers.
    ///
    /// The first start on a machine installs it, which takes less than a minute.
    pub async fn start(options: &ImOptions) -> Self {
        let python = podloom_im::python().unwrap_or_else(|error| panic!("{error}"));
        let mut attempt = 1;
        loop {
            let files = TempDir::new().unwrap();
            let address = http::free_address();
            let mut server = Self {
                process: spawn(&python, files.path(), address, options),
                python: python.clone(),
                options: options.clone(),
                address,
                files,
            };
            match server.answers().await {
                Err(_) if attempt < ATTEMPTS && server.lost_its_port() => attempt += 1,
                answers => {
                    answers.unwrap();
                    return server;
                }
            }
        }
    }

    /// The server that tests share, each with an account of its own. It accepts every pair of username and password.
    ///
    /// # Panics
    ///
    /// Panics if it does not start.
    pub async fn shared() -> &'static Self {
        // A static is never dropped, so the server ends with the process.
        static SHARED: OnceCell<ImServer> = OnceCell::const_new();
        SHARED
            .get_or_init(async || Self::start(&ImOptions::default()).await)
            .await
    }

    /// Its URL, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A client with this username and password, for the test's own requests, which uses the Dummy cloud.
    #[must_use]
    pub fn owner(&self, username: &str, password: &str) -> ImOwner {
        ImOwner::new(self.address, username, password)
    }

    /// Stops it gracefully, and waits until it has ended. Then connections are refused.
    pub async fn stop(&mut self) {
        if self.process.ended().is_some() {
            return;
        }
        self.process.signal(Signal::Terminate);
        // A frozen server would not notice.
        self.process.signal(Signal::Continue);
        let process = &mut self.process;
        eventually("the IM server ends", async || {
            process.ended().ok_or_else(|| "it still runs".to_owned())
        })
        .await;
    }

    /// Kills it with SIGKILL, as when its machine crashes.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Pauses it: connections are accepted, but nothing is answered.
    pub fn freeze(&self) {
        self.process.signal(Signal::Stop);
    }

    /// Lets it continue after [`ImServer::freeze`].
    pub fn thaw(&self) {
        self.process.signal(Signal::Continue);
    }

    /// Stops it if it runs, and starts it again with other options.
    pub async fn restart(&mut self, options: &ImOptions, data: ImData) {
        self.stop().await;
        if data == ImData::Lost {
            fs::remove_file(self.files.path().join("im.db")).unwrap();
        }
        self.options = options.clone();
        self.process = spawn(&self.python, self.files.path(), self.address, options);
        self.answers().await.unwrap();
    }

    /// As [`ImServer::restart`] with the same options and data.
    pub async fn restart_same(&mut self) {
        let options = self.options.clone();
        self.restart(&options, ImData::Kept).await;
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The last lines of what it logged and printed.
    #[must_use]
    pub fn tail(&self) -> String {
        let tail = |name| {
            let path = self.files.path().join(name);
            let text = fs::read(path).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let lines: Vec<&str> = text.lines().collect();
            let from = lines.len().saturating_sub(LOG_LINES);
            format!(
                "{name}:\n{}",
                lines.get(from..).unwrap_or_default().join("\n")
            )
        };
        LOGS.map(tail).join("\n")
    }

    /// Waits until it answers; fails if it has ended.
    async fn answers(&mut self) -> Result<(), String> {
        eventually("the IM server answers", async || {
            if let Some(status) = self.process.ended() {
                return Ok(Err(format!("it ended ({status}):\n{}", self.tail())));
            }
            match http::get(self.address, "/version") {
                Ok(answer) if answer.status == 200 => Ok(Ok(())),
                Ok(answer) => Err(format!("{}: {}", answer.status, answer.body)),
                Err(error) => Err(format!("{error}:\n{}", self.tail())),
            }
        })
        .await
    }

    fn lost_its_port(&self) -> bool {
        self.tail().contains("address already in use")
    }
}

impl Drop for ImServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the logs of the IM server: {}", self.tail());
        }
    }
}

fn spawn(python: &Path, folder: &Path, address: SocketAddr, options: &ImOptions) -> Process {
    let users = (!options.users.is_empty()).then(|| write_users(folder, &options.users));
    let launch = Launch {
        python,
        folder,
        port: address.port(),
        boot_mode: options.boot_mode,
        users: users.as_deref(),
    };
    Process::spawn(&mut launch.command().unwrap()).unwrap()
}

fn write_users(folder: &Path, users: &[(String, String)]) -> PathBuf {
    let file = folder.join("users.json");
    let user = |(username, password): &(String, String)| serde_json::json!({ "username": username, "password": password });
    let users: Vec<_> = users.iter().map(user).collect();
    let text = serde_json::json!({ "users": users }).to_string();
    fs::write(&file, text).unwrap();
    file
}
