//! One request of a preflight check.

use std::time::Duration;

use tokio::time::timeout;

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Why a check has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum CheckError {
    #[error("the request to the API server failed")]
    Request(#[from] kube::Error),
    #[error("no answer from the API server after {} s", TIMEOUT.as_secs())]
    Unanswered,
}

impl CheckError {
    /// What to report if the API server answered but denied the request; none if it did not answer.
    pub(super) fn denial(&self) -> Option<String> {
        let Self::Request(kube::Error::Api(status)) = self else {
            return None;
        };
        match status.code {
            401 => Some("the API server does not accept our credentials".to_owned()),
            403 => Some(format!(
                "the API server does not let this account list served kinds or check its own rights; bind the ClusterRoles \
                 system:discovery and system:basic-user to it, which all accounts have by default: {}",
                status.message
            )),
            _ => None,
        }
    }
}

/// Limits the time of a request.
pub(super) async fn in_time<T>(
    work: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, CheckError> {
    match timeout(TIMEOUT, work).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(CheckError::Unanswered),
    }
}
