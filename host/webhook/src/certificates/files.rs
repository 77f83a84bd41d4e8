//! Serves a certificate from files that somebody else rotates, such as a mounted Secret of cert-manager.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use podloom_control_loop::{
    BoxError, ControlLoop, Ctx, Handler, Next, Recorder, Storage, source_fn,
};
use podloom_controllers::outbound::{Pem, PemError};
use rustls::crypto::ring;
use rustls::sign::CertifiedKey;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::certificate::Certificate;
use super::options;
use super::problems::Problems;
use super::slot::{CertificateSlot, Served, written};

/// The loop's name in metrics and logs.
const NAME: &str = "webhook-files";
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
    let id: Arc<str> = directory.display().to_string().into();
    let source = source_fn(move |_| {
        let id = Arc::clone(&id);
        async move { Ok(vec![id]) }
    });
    let snapshots = Snapshots {
        directory: directory.into(),
        turn: Arc::new(Semaphore::new(1)),
    };
    let reloader = Reloader {
        problems: Problems::new(NAME, slot.metrics.clone(), (SOON, LOOK)),
        slot,
    };
    let control = ControlLoop {
        options: options(LOOK),
        recorder,
        ..ControlLoop::new(NAME, source, snapshots, reloader)
    };
    control.run(stop).await;
}

/// The two files at one moment.
#[derive(PartialEq, Eq)]
struct Snapshot {
    certificate: Pem,
    key: Pem,
}

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
enum FilesError {
    #[error("{}", with_source(.0))]
    Pem(#[from] PemError),
    #[error("the files in {0} keep changing")]
    Unstable(String),
    #[error("the disk of {0} does not answer")]
    Silent(String),
    #[error("{0} is not an X.509 certificate")]
    Invalid(String),
    #[error("{certificate} and {key} cannot be used together: {reason}")]
    Unfit {
        certificate: String,
        key: String,
        reason: String,
    },
    #[error("{certificate} is valid from {from} to {to} only")]
    Dated {
        certificate: String,
        from: String,
        to: String,
    },
}

fn with_source(error: &PemError) -> String {
    match error {
        PemError::Read { source, .. } => format!("{error}: {source}"),
        _ => error.to_string(),
    }
}

/// The storage of the loop.
struct Snapshots {
    directory: Arc<Path>,
    /// On a network file system whose server is gone an access never returns; there is at most one such access.
    turn: Arc<Semaphore>,
}

impl Storage<Arc<str>> for Snapshots {
    type Object = Result<Snapshot, FilesError>;

    /// Never fails: the handler reports errors once, while the loop would log each of them.
    async fn get(&self, _: &Ctx, id: &Arc<str>) -> Result<Option<Self::Object>, BoxError> {
        let read = timeout(PATIENCE, self.read()).await;
        Ok(Some(match read {
            Ok(read) => read?,
            Err(_) => Err(FilesError::Silent(id.to_string())),
        }))
    }
}

impl Snapshots {
    /// Reads the files of a swapped volume at once, and others once they are unchanged for a moment.
    async fn read(&self) -> Result<Result<Snapshot, FilesError>, BoxError> {
        for _ in 0..ATTEMPTS {
            let (before, found) = self.look().await?;
            if before.is_some() {
                if self.look().await?.0 == before {
                    return Ok(found.map_err(FilesError::from));
                }
                continue;
            }
            sleep(QUIET).await;
            let (link, again) = self.look().await?;
            match (found, again) {
                (Ok(found), Ok(again)) if link.is_none() && found == again => return Ok(Ok(again)),
                (Err(_), Err(error)) => return Ok(Err(error.into())),
                _ => {}
            }
        }
        let directory = self.directory.display().to_string();
        Ok(Err(FilesError::Unstable(directory)))
    }

    /// Where the link of a swapped volume leads, if there is one, and what is there.
    async fn look(&self) -> Result<(Option<PathBuf>, Result<Snapshot, PemError>), BoxError> {
        let turn = Arc::clone(&self.turn).acquire_owned().await?;
        let directory = Arc::clone(&self.directory);
        let looked = spawn_blocking(move || {
            let link = std::fs::read_link(directory.join(SWAPPED)).ok();
            let place = match &link {
                Some(link) => directory.join(link),
                None => directory.to_path_buf(),
            };
            let found = snapshot(&place);
            drop(turn);
            (link, found)
        });
        Ok(looked.await?)
    }
}

fn snapshot(directory: &Path) -> Result<Snapshot, PemError> {
    Ok(Snapshot {
        certificate: Pem::read(&directory.join(CERTIFICATE))?,
        key: Pem::read(&directory.join(KEY))?,
    })
}

/// The handler of the loop.
struct Reloader {
    slot: Arc<CertificateSlot>,
    problems: Problems,
}

impl Handler<Arc<str>, Result<Snapshot, FilesError>> for Reloader {
    async fn handle(
        &self,
        _: &Ctx,
        id: &Arc<str>,
        object: Option<Result<Snapshot, FilesError>>,
    ) -> Result<Next, BoxError> {
        // The storage always returns something.
        let Some(found) = object else {
            return Ok(Next::Settled);
        };
        let checked = found.and_then(|found| check(&found, id, SystemTime::now()));
        match checked {
            Ok(next) => {
                self.serve(next, id);
                self.problems.resolve();
                Ok(Next::After(LOOK))
            }
            Err(error) => {
                let problem = error.to_string();
                self.slot.refuse(&problem);
                Ok(Next::After(self.problems.report(&problem)))
            }
        }
    }
}

impl Reloader {
    fn serve(&self, next: Served, directory: &str) {
        let is_same = self.slot.served().is_some_and(|served| {
            served.key.cert == next.key.cert && served.certificate == next.certificate
        });
        if is_same {
            self.slot.confirm();
            return;
        }
        let until = written(next.certificate.not_after);
        self.slot.swap(next);
        tracing::info!(directory, until, "serves another certificate");
    }
}

/// The pair, if it can serve now.
fn check(found: &Snapshot, directory: &str, now: SystemTime) -> Result<Served, FilesError> {
    let name = found.certificate.name();
    let chain = found.certificate.certificates()?;
    let leaf = chain.first().cloned().map(Certificate::parse);
    let Some(Ok(certificate)) = leaf else {
        return Err(FilesError::Invalid(name.to_owned()));
    };
    let key = CertifiedKey::from_der(chain, found.key.key()?, &ring::default_provider());
    let key = key.map_err(|error| FilesError::Unfit {
        certificate: name.to_owned(),
        key: found.key.name().to_owned(),
        reason: error.to_string(),
    })?;
    if !certificate.is_valid_at(now) {
        return Err(FilesError::Dated {
            certificate: name.to_owned(),
            from: written(certificate.not_before),
            to: written(certificate.not_after),
        });
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
