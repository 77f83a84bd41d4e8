//! What a question to the API server comes to.

use std::time::Duration;

use tokio::time::timeout;

/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a look came to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum LookError {
    #[error("could not ask the API server")]
    Ask(#[from] kube::Error),
    #[error("no answer from the API server after {} s", PATIENCE.as_secs())]
    Unanswered,
}

impl LookError {
    /// What to tell if the API server has answered, and let us know nothing; none for its silence.
    pub(super) fn refusal(&self) -> Option<String> {
        let Self::Ask(kube::Error::Api(status)) = self else {
            return None;
        };
        match status.code {
            401 => Some("the API server does not accept our credentials".to_owned()),
            403 => Some(format!(
                "the API server does not let us ask what it serves and what we may do, which the ClusterRoles system:discovery and \
                 system:basic-user allow to all accounts: {}",
                status.message
            )),
            _ => None,
        }
    }
}

/// Asks, and waits no longer than we have patience.
pub(super) async fn in_time<T>(
    work: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, LookError> {
    match timeout(PATIENCE, work).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(LookError::Unanswered),
    }
}
