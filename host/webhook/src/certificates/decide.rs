//! Decides when a replica serves another certificate of the Secret.

use std::time::{Duration, SystemTime};

use super::certificate::Certificate;
use super::keyring::Serving;

/// What to do with the server certificate in the Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It is served already.
    Keep,
    /// Serve it.
    Switch,
    /// Go on with the served one, until the API server trusts the authority of the other.
    Wait,
}

/// Which of the two authorities the webhooks' configurations publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trust {
    /// For how long this replica has seen that all webhooks trust the authority of the Secret's server certificate; none if they do
    /// not.
    pub(super) found: Option<Duration>,
    /// Whether all webhooks trust the authority of the served certificate.
    pub(super) served: bool,
}

/// Whether the decision depends on what the configurations publish.
pub(super) fn depends_on_trust(
    found: &Serving,
    served: Option<(&Certificate, &Certificate)>,
    now: SystemTime,
) -> bool {
    decide(found, served, None, (Duration::MAX, now)) == Decision::Wait
}

/// Decides; `served` is the served certificate and its authority. The configurations may be unknown. `settle` is how long API servers
/// may take to see that an authority was published.
pub(super) fn decide(
    found: &Serving,
    served: Option<(&Certificate, &Certificate)>,
    trust: Option<Trust>,
    (settle, now): (Duration, SystemTime),
) -> Decision {
    let Some((served, authority)) = served else {
        return Decision::Switch;
    };
    if *served == found.pair.certificate {
        return Decision::Keep;
    }
    // Nobody accepts what has expired.
    if !served.is_valid_at(now) || *authority == found.authority {
        return Decision::Switch;
    }
    match trust {
        Some(Trust {
            found: Some(long), ..
        }) if long >= settle => Decision::Switch,
        // To wait would help only the API servers that are behind.
        Some(Trust {
            found: Some(_),
            served: false,
        }) => Decision::Switch,
        _ => Decision::Wait,
    }
}

#[cfg(test)]
mod tests;
