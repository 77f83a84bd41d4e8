//! A registry for images, and crane, which reads and writes them. Both are one program that is not ours.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::http::free_address;
use crate::process::Process;

/// More than the registry needs to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// A registry that keeps images in memory.
pub struct Registry {
    crane: PathBuf,
    address: SocketAddr,
    _process: Process,
}

impl Registry {
    /// Starts one. crane is built first if no test has needed it before.
    #[must_use]
    pub fn start() -> Self {
        let crane = podloom_control_plane::crane().unwrap();
        let address = free_address();
        let process = Process::spawn(
            Command::new(&crane)
                .args(["registry", "serve", "--address", &address.to_string()])
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        )
        .unwrap();
        let begun = Instant::now();
        while std::net::TcpStream::connect(address).is_err() {
            assert!(begun.elapsed() < PATIENCE, "the registry does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self {
            crane,
            address,
            _process: process,
        }
    }

    /// The name of an image in it.
    #[must_use]
    pub fn name(&self, image: &str) -> String {
        format!("{}/{image}", self.address)
    }

    /// Where crane is.
    #[must_use]
    pub fn crane_path(&self) -> &Path {
        &self.crane
    }

    /// Runs crane, which must succeed, and returns what it prints.
    #[track_caller]
    pub fn crane(&self, arguments: &[&str]) -> String {
        String::from_utf8(self.crane_bytes(arguments)).unwrap()
    }

    /// The same, where it prints bytes.
    #[track_caller]
    pub fn crane_bytes(&self, arguments: &[&str]) -> Vec<u8> {
        let output = Command::new(&self.crane).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "crane {arguments:?}: {said}");
        output.stdout
    }
}
