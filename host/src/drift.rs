//! `podloom drift`: which pods missed the chain, were changed after it, or have ephemeral containers that it would deny or change.
//!
//! `read` reads a cluster, `judge` says of one pod what is to be said, `ephemeral` asks the chain about ephemeral containers, and `tally`
//! counts by owner; the last three read nothing.

mod ephemeral;
mod judge;
mod read;
mod report;
mod tally;
mod webhook;

use kube::Client;
use podloom_mutators::Chain;

pub(crate) use self::judge::{Expected, Judge, Need, Owner, Pod, Unwanted};
pub(crate) use self::read::{each_pod, scan};
pub(crate) use self::report::reported;
pub(crate) use self::tally::Counts;
pub(crate) use self::webhook::hooks_for_new_pods;
use crate::cli::DriftArguments;
use crate::error::CommandError;
use crate::feed::block_on;
use crate::{lists, load};

/// Which pods are looked at.
pub(crate) struct Scope {
    /// None for all.
    pub(crate) namespace: Option<String>,
    /// Labels of pods.
    pub(crate) selector: Option<String>,
    /// The name of the webhook configuration.
    pub(crate) webhook: String,
    pub(crate) reader: Reader,
}

/// Who looks at a cluster.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Reader {
    /// A person, who waits for all that can be said.
    Person,
    /// The operator, which has reviews to answer meanwhile, and needs only the counts of namespaces.
    Operator,
    /// The operator, for reports: it needs what a person does.
    Reporter,
}

/// What is not known of a pod.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Unclear {
    /// Whether the webhook selects it: the configuration may not be read.
    Configuration,
    /// Whether the webhook selects it: the labels of its namespace may not be read.
    Namespace,
    /// Whether the webhook selects it: it has `matchConditions`.
    Conditions,
    /// Whether the stamp is on its Deployment, which may not be read.
    Deployment,
    /// Anything: it is too large to be read.
    Size,
    /// Whether the chain would deny or change its ephemeral containers.
    Ephemeral,
}

impl Scope {
    /// What a person asks about, in the cluster of this client.
    pub(crate) fn of(arguments: &DriftArguments, client: &Client) -> Self {
        let namespace = arguments.namespace.as_deref();
        let namespace = namespace.unwrap_or(client.default_namespace());
        Self {
            namespace: (!arguments.all_namespaces).then(|| namespace.to_owned()),
            selector: arguments.selector.clone(),
            webhook: arguments.webhook_configuration.clone(),
            reader: Reader::Person,
        }
    }
}

/// The chain that pods should have passed; none if the user does not name it.
pub(crate) fn chain(arguments: &DriftArguments) -> Result<Option<Chain>, CommandError> {
    arguments.plugins.as_deref().map(load::chain).transpose()
}

/// The error if it is not known which pods missed the chain.
pub(crate) fn unjudged(why: &str, scope: &Scope) -> CommandError {
    CommandError::Other(anyhow::anyhow!(
        "which pods missed the chain is not known: {why} MutatingWebhookConfiguration {}",
        scope.webhook
    ))
}

/// Looks at a cluster, and prints what drifted.
pub(crate) fn run(arguments: &DriftArguments) -> Result<(), CommandError> {
    let chain = chain(arguments)?;
    let (scope, findings) = block_on(async {
        let client = lists::connect().await?;
        let scope = Scope::of(arguments, &client);
        let findings = scan(&client, &scope, chain.as_ref()).await?;
        Ok::<_, CommandError>((scope, findings))
    })?;
    report::print(&findings, &scope, arguments.output)?;
    if !arguments.exit_code {
        return Ok(());
    }
    match findings.unjudged {
        _ if findings.has_drifted() => Err(CommandError::Different),
        None => Ok(()),
        // A report that names no missed pod must not look as if there were none.
        Some(why) => Err(unjudged(why, &scope)),
    }
}

#[cfg(test)]
mod tests;
