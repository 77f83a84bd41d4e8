//! kubeconfig files: a server, its certificate, and one user with a token.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::keys;

/// Why a kubeconfig could not be written.
#[derive(Debug, thiserror::Error)]
#[error("could not write {}", path.display())]
pub struct KubeconfigError {
    path: PathBuf,
    source: io::Error,
}

/// What a kubeconfig contains.
#[derive(Clone, Copy)]
pub struct Kubeconfig<'a> {
    /// The URL of the API server.
    pub server: &'a str,
    /// PEM.
    pub certificate_authority: &'a [u8],
    /// The user's name, which only kubectl shows.
    pub user: &'a str,
    /// The token by which the API server knows the user.
    pub token: &'a str,
}

impl Kubeconfig<'_> {
    /// Writes the file readable by its owner alone, since it holds a token.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), KubeconfigError> {
        write_secret(path, &self.text()).map_err(|source| KubeconfigError {
            path: path.to_owned(),
            source,
        })
    }

    fn text(&self) -> String {
        format!(
            "apiVersion: v1\n\
             kind: Config\n\
             clusters:\n\
             - name: podloom\n  \
               cluster:\n    \
                 server: {}\n    \
                 certificate-authority-data: {}\n\
             users:\n\
             - name: {user}\n  \
               user:\n    \
                 token: {}\n\
             contexts:\n\
             - name: podloom\n  \
               context:\n    \
                 cluster: podloom\n    \
                 user: {user}\n\
             current-context: podloom\n",
            self.server,
            keys::base64(self.certificate_authority),
            self.token,
            user = self.user,
        )
    }
}

/// Writes a file that only its owner may read.
///
/// # Errors
///
/// Fails if the file cannot be written.
pub fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?
        .write_all(text.as_bytes())
}
