//! The arguments of `podloom rbac`.

use std::collections::BTreeSet;

use clap::{Args, ValueEnum};
use podloom_api::SelenosisApi;
use podloom_controllers::duties::{Duty, GivenNames, WEBHOOK_NAME};

use super::{controllers, namespace, object_name, selenosis_api};

/// Print the ServiceAccounts, roles and bindings of the operator, of users or of clients, for kubectl apply.
///
/// The operator's roles grant exactly the rights that its controllers need; the install manifests contain the same roles.
/// Each rule has a comment with its purpose. If the rule is optional, the comment says what does not work without it.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  # An operator for two namespaces: podloom run --namespace team-a --namespace team-b
  podloom rbac --namespace team-a --namespace team-b | kubectl apply -f -

  # Let users work with Browsers and BrowserConfigs, as part of the built-in roles view, edit and admin
  podloom rbac --for users | kubectl apply -f -

  # A Role for programs that create Browsers in a namespace
  podloom rbac --for clients --namespace team-a | kubectl apply -f -")]
pub(crate) struct RbacArguments {
    /// Print the rights of these controllers, separated by commas. Use the same list as for podloom run, with webhook for an
    /// operator that runs with --webhook.
    #[arg(long, value_name = "LIST", default_value = "browser", env = "PODLOOM_CONTROLLERS", value_parser = controllers::parse_duties)]
    pub(crate) controllers: BTreeSet<Duty>,

    /// Whose rights to print.
    #[arg(long = "for", value_name = "WHOM", default_value = "operator")]
    pub(crate) whose: Whose,

    /// Print Roles in this namespace instead of ClusterRoles; repeat it for several namespaces.
    #[arg(short, long = "namespace", value_name = "NS", value_delimiter = ',', value_parser = namespace)]
    namespaces: Vec<String>,

    /// The namespace that the operator and its ServiceAccount are in.
    #[arg(long, value_name = "NS", default_value = "podloom-system", value_parser = namespace)]
    pub(crate) operator_namespace: String,

    /// The namespace of the Secrets of GlobalInfrastructureProviders and GlobalClouds, the same as for podloom run; by default the
    /// operator's namespace.
    #[arg(long, value_name = "NS", env = "PODLOOM_GLOBAL_SECRET_NAMESPACE", value_parser = namespace)]
    global_secret_namespace: Option<String>,

    /// The namespace of the Leases, the same as for podloom run; by default the operator's namespace.
    #[arg(long, value_name = "NS", env = "PODLOOM_LEASE_NAMESPACE", value_parser = namespace)]
    lease_namespace: Option<String>,

    /// The name of the browser controller's Lease, the same as for podloom run; by default podloom.
    #[arg(long, value_name = "NAME", env = "PODLOOM_LEASE_NAME", value_parser = object_name)]
    pub(crate) lease_name: Option<String>,

    /// The name of the webhooks, the same as for podloom run. Their ServiceAccount, roles and bindings have this name too.
    #[arg(long, value_name = "NAME", env = "PODLOOM_WEBHOOK_NAME", default_value = WEBHOOK_NAME, value_parser = object_name)]
    pub(crate) webhook_name: String,

    /// The API groups of Browser and BrowserConfig: with seed, both are in selenosis.io; with split, they are in
    /// browser.selenosis.io and browserconfig.selenosis.io.
    #[arg(long, value_name = "GROUPS", default_value = "seed", env = "PODLOOM_SELENOSIS_API", value_parser = selenosis_api())]
    pub(crate) selenosis_api: SelenosisApi,
}

/// Whose rights are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Whose {
    /// The rights of the operator: a ServiceAccount for each controller, its roles and their bindings.
    Operator,
    /// The rights of people: ClusterRoles that Kubernetes adds to its built-in roles view, edit and admin.
    Users,
    /// The rights of programs that create Browsers: a Role, which you bind to their ServiceAccount.
    Clients,
    /// The rights to look for drift: a ClusterRole, bound to the ServiceAccount of the webhooks for podloom run
    /// --webhook-drift-interval. People who run podloom drift need the same rights.
    Drift,
    /// The rights to have pods replaced that wait at the gate: a ClusterRole, bound to the ServiceAccount of the webhooks for podloom
    /// run --webhook-gate.
    Gate,
    /// The rights to have pods replaced that missed the chain: a ClusterRole, bound to the ServiceAccount of the webhooks for podloom run
    /// --webhook-heal. People who run podloom drift --repair need the same rights, besides those to look for drift.
    Heal,
    /// The rights to write reports: a ClusterRole, bound to the ServiceAccount of the webhooks for podloom run --webhook-reports.
    Reports,
    /// The rights to follow a ChainRollout: a Role in the operator's namespace, bound to the ServiceAccounts of all that passes pods
    /// through the chain, for podloom run --rollout.
    Rollout,
}

impl RbacArguments {
    /// The namespace of the Leases.
    pub(crate) fn lease_namespace(&self) -> &str {
        let own = &self.operator_namespace;
        self.lease_namespace.as_ref().unwrap_or(own)
    }

    /// The namespace of the Secrets of cluster-scoped objects.
    pub(crate) fn secret_namespace(&self) -> &str {
        let own = &self.operator_namespace;
        self.global_secret_namespace.as_ref().unwrap_or(own)
    }

    /// The names that the installation gives.
    pub(crate) fn names(&self) -> GivenNames<'_> {
        GivenNames {
            lease: self.lease_name.as_deref(),
            webhook: &self.webhook_name,
        }
    }

    /// The namespaces, each once; none means all.
    pub(crate) fn namespaces(&self) -> Vec<&str> {
        let all: BTreeSet<&str> = self.namespaces.iter().map(String::as_str).collect();
        all.into_iter().collect()
    }
}
