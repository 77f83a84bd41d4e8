//! Serves a certificate from files that somebody else rotates, such as a mounted Secret of cert-manager.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::FutureExt as _;
use podloom_control_loop::Recorder;
use podloom_engine::outbound::{Pem, TlsError};
use rustls::crypto::ring;
use rustls::sign::CertifiedKey;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::x509::Certificate;
use super::{CertificateSlot, Looks, Problem, Served, written};

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
    let looks = Looks {
        name: "webhook-files",
        pauses: (SOON, LOOK),
        metrics: slot.metrics.clone(),
        slot: Some(Arc::clone(&slot)),
        state: Files {
            directory: directory.into(),
            turn: Arc::new(Semaphore::new(1)),
            slot,
        },
        look: |files| files.reload().boxed(),
    };
    looks.run(id, recorder, stop).await;
}

/// The certificate and its key, at one moment.
type Pair = [Pem; 2];

struct Files {
    directory: Arc<Path>,
    /// On a network file system whose server is gone an access never returns; there is at most one such access.
    turn: Arc<Semaphore>,
    slot: Arc<CertificateSlot>,
}

impl Files {
    async fn reload(&mut self) -> Result<Duration, Problem> {
        let read = timeout(PATIENCE, self.read()).await;
        let found = read.unwrap_or_else(|_| Err(self.is_silent()))?;
        let next = check(&found, SystemTime::now())?;
        let is_same = self.slot.served().is_some_and(|served| {
            served.key.cert == next.key.cert && served.certificate == next.certificate
        });
        if is_same {
            self.slot.confirm();
        } else {
            let directory = self.directory.display().to_string();
            let until = written(next.certificate.not_after);
            self.slot.swap(next, format!("in {directory}"));
            tracing::info!(directory, until, "serves another certificate");
        }
        Ok(LOOK)
    }

    /// Reads the files of a swapped volume at once, and others once they are unchanged for a moment.
    async fn read(&self) -> Result<Pair, Problem> {
        for _ in 0..ATTEMPTS {
            let (before, found) = self.look().await?;
            if before.is_some() {
                if self.look().await?.0 == before {
                    return found.map_err(|error| error.to_string().into());
                }
                continue;
            }
            sleep(QUIET).await;
            let (link, again) = self.look().await?;
            match (found, again) {
                (Ok(found), Ok(again)) if link.is_none() && found == again => return Ok(again),
                (Err(_), Err(error)) => return Err(error.to_string().into()),
                _ => {}
            }
        }
        Err(format!("the files in {} keep changing", self.directory.display()).into())
    }

    /// Where the link of a swapped volume leads, if there is one, and what is there.
    async fn look(&self) -> Result<(Option<PathBuf>, Result<Pair, TlsError>), Problem> {
        // Neither is closed or panics.
        let turn = Arc::clone(&self.turn).acquire_owned().await;
        let turn = turn.map_err(|_| self.is_silent())?;
        let directory = Arc::clone(&self.directory);
        let looked = spawn_blocking(move || {
            let link = std::fs::read_link(directory.join(SWAPPED)).ok();
            let place = link.as_ref().map(|link| directory.join(link));
            let place = place.as_deref().unwrap_or(&directory);
            let found = [CERTIFICATE, KEY].map(|name| Pem::read(&place.join(name)));
            drop(turn);
            let [certificate, key] = found;
            (link, certificate.and_then(|it| Ok([it, key?])))
        });
        looked.await.map_err(|_| self.is_silent())
    }

    fn is_silent(&self) -> Problem {
        format!("the disk of {} does not answer", self.directory.display()).into()
    }
}

/// The pair, if it can serve now.
fn check([certificate, key]: &Pair, now: SystemTime) -> Result<Served, String> {
    let (name, key_name) = (certificate.name(), key.name());
    let chain = certificate.certificates();
    let chain = chain.map_err(|error| error.to_string())?;
    let leaf = chain.first().cloned().and_then(Certificate::parse);
    let certificate = leaf.ok_or_else(|| format!("{name} is not an X.509 certificate"))?;
    let key = key.key().map_err(|error| error.to_string())?;
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
    })
}

#[cfg(test)]
mod tests;
