//! Serves a certificate from files that somebody else rotates, such as a mounted Secret of cert-manager.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use podloom_control_loop::Recorder;
use podloom_engine::outbound::{Pem, PemError};
use podloom_engine::plain::plain;
use rustls::crypto::ring;
use rustls::sign::CertifiedKey;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::x509::Certificate;
use super::{CertificateSlot, Look, Looks, Problem, Served, written};

/// The pause between two looks at the directory.
const LOOK: Duration = Duration::from_secs(10);
/// The same while there is no certificate.
const SOON: Duration = Duration::from_secs(1);

/// The link that the kubelet swaps to change all files at once.
const SWAPPED: &str = "..data";
/// How long plain files must be unchanged.
const QUIET: Duration = Duration::from_millis(250);
/// How often files that keep changing are read before that is a problem.
const ATTEMPTS: usize = 20;
/// A disk that takes longer counts as hanging.
const PATIENCE: Duration = Duration::from_secs(20);

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// Serves `tls.crt` with `tls.key` of a directory, and serves them again when they change, until `stop` is cancelled. A pair that is
/// unusable does not replace the one that serves.
pub async fn serve_files(
    directory: PathBuf,
    slot: Arc<CertificateSlot>,
    recorder: Arc<dyn Recorder>,
    stop: CancellationToken,
) {
    let id = directory.display().to_string();
    let reloader = Reloader {
        directory: id.clone(),
        slot: Arc::clone(&slot),
    };
    let (metrics, slot) = (slot.metrics.clone(), Some(slot));
    let looks = Looks::new("webhook-files", (SOON, LOOK), metrics, slot, reloader);
    let snapshots = Snapshots {
        directory: directory.into(),
        turn: Arc::new(Semaphore::new(1)),
    };
    let see = move || {
        let snapshots = snapshots.clone();
        async move {
            let read = timeout(PATIENCE, snapshots.read()).await;
            read.unwrap_or_else(|_| Err(snapshots.problem("the disk of", "does not answer")))
        }
    };
    looks.run(id, see, recorder, stop).await;
}

/// The two files at one moment.
#[derive(PartialEq, Eq)]
struct Snapshot {
    certificate: Pem,
    key: Pem,
}

/// Reads the directory.
#[derive(Clone)]
struct Snapshots {
    directory: Arc<Path>,
    /// On a network file system whose server is gone an access never returns; there is at most one such access.
    turn: Arc<Semaphore>,
}

impl Snapshots {
    /// Reads the files of a swapped volume at once, and others once they are unchanged for a moment.
    async fn read(&self) -> Result<Snapshot, Problem> {
        for _ in 0..ATTEMPTS {
            let (before, found) = self.look().await?;
            if before.is_some() {
                if self.look().await?.0 == before {
                    return found.map_err(Problem::from);
                }
                continue;
            }
            sleep(QUIET).await;
            let (link, again) = self.look().await?;
            match (found, again) {
                (Ok(found), Ok(again)) if link.is_none() && found == again => return Ok(again),
                (Err(_), Err(error)) => return Err(error.into()),
                _ => {}
            }
        }
        Err(self.problem("the files in", "keep changing"))
    }

    /// Where the link of a swapped volume leads, if there is one, and what is there.
    async fn look(&self) -> Result<(Option<PathBuf>, Result<Snapshot, String>), Problem> {
        // Neither is closed or panics.
        let silent = || self.problem("the disk of", "does not answer");
        let turn = Arc::clone(&self.turn).acquire_owned().await;
        let (turn, directory) = (turn.map_err(|_| silent())?, Arc::clone(&self.directory));
        let looked = spawn_blocking(move || {
            let link = std::fs::read_link(directory.join(SWAPPED)).ok();
            let place = link.as_ref().map(|link| directory.join(link));
            let found = snapshot(place.as_deref().unwrap_or(&directory));
            drop(turn);
            (link, found.map_err(|error| plain(&error)))
        });
        looked.await.map_err(|_| silent())
    }

    fn problem(&self, before: &str, after: &str) -> Problem {
        format!("{before} {} {after}", self.directory.display()).into()
    }
}

fn snapshot(directory: &Path) -> Result<Snapshot, PemError> {
    Ok(Snapshot {
        certificate: Pem::read(&directory.join(CERTIFICATE))?,
        key: Pem::read(&directory.join(KEY))?,
    })
}

struct Reloader {
    directory: String,
    slot: Arc<CertificateSlot>,
}

impl Look<Snapshot> for Reloader {
    async fn look(&mut self, found: Snapshot) -> Result<Duration, Problem> {
        let next = check(&found, &self.directory, SystemTime::now())?;
        let is_same = self.slot.served().is_some_and(|served| {
            served.key.cert == next.key.cert && served.certificate == next.certificate
        });
        if is_same {
            self.slot.confirm();
        } else {
            let (directory, until) = (&self.directory, written(next.certificate.not_after));
            self.slot.swap(next);
            tracing::info!(directory, until, "serves another certificate");
        }
        Ok(LOOK)
    }
}

/// The pair, if it can serve now.
fn check(found: &Snapshot, directory: &str, now: SystemTime) -> Result<Served, String> {
    let (name, key_name) = (found.certificate.name(), found.key.name());
    let chain = found.certificate.certificates();
    let chain = chain.map_err(|error| plain(&error))?;
    let leaf = chain.first().cloned().and_then(Certificate::parse);
    let certificate = leaf.ok_or_else(|| format!("{name} is not an X.509 certificate"))?;
    let key = found.key.key().map_err(|error| plain(&error))?;
    let key = CertifiedKey::from_der(chain, key, &ring::default_provider());
    let key =
        key.map_err(|reason| format!("{name} and {key_name} cannot be used together: {reason}"))?;
    if !certificate.is_valid_at(now) {
        let (from, to) = (certificate.not_before, certificate.not_after);
        let (from, to) = (written(from), written(to));
        return Err(format!("{name} is valid from {from} to {to} only"));
    }
    Ok(Served {
        key: Arc::new(key),
        certificate,
        authority: None,
        origin: format!("in {directory}"),
    })
}

#[cfg(test)]
mod tests;
