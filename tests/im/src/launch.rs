//! How the server is started.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::LAUNCHER;

/// The files in the server's folder that have what it logs, and what it prints.
pub const LOGS: [&str; 2] = ["im.log", "output.log"];

/// Which requests the server serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BootMode {
    /// All.
    #[default]
    Normal,
    /// Only those that change nothing.
    ReadOnly,
    /// Those that change nothing, and deletions.
    DeleteOnly,
}

/// A start of the server.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The interpreter that has it; see [`python`](crate::python).
    pub python: &'a Path,
    /// The absolute path of the folder for its database and its logs. The folder must exist.
    pub folder: &'a Path,
    /// Its port on 127.0.0.1.
    pub port: u16,
    /// Which requests it serves.
    pub boot_mode: BootMode,
    /// The file with the pairs of username and password that it accepts. Without one it accepts every pair.
    pub users: Option<&'a Path>,
}

impl Launch<'_> {
    /// Returns the command that starts the server. What it prints is appended to the last of [`LOGS`].
    ///
    /// # Errors
    ///
    /// Fails if that file cannot be opened.
    pub fn command(&self) -> io::Result<Command> {
        let [_, output] = LOGS;
        let output = self.folder.join(output);
        let output = File::options().create(true).append(true).open(output)?;
        let boot_mode = match self.boot_mode {
            BootMode::Normal => "0",
            BootMode::ReadOnly => "1",
            BootMode::DeleteOnly => "2",
        };
        let mut command = Command::new(self.python);
        command
            .args(["-I", LAUNCHER])
            .arg(self.folder)
            .args([&self.port.to_string(), boot_mode])
            .args(self.users)
            .current_dir(self.folder)
            .env_remove("IM_DATA_DB")
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        Ok(command)
    }
}
