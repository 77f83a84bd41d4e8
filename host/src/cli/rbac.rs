//! The arguments of `podloom rbac`.

use std::collections::BTreeSet;

use clap::{Args, ValueEnum};
use podloom_api::SelenosisApi;

use super::{Controllers, controllers, namespace};

/// Print the ServiceAccounts, roles and bindings of the operator, for kubectl apply.
///
/// They hold what the controllers ask of the API server, and nothing else; the install manifests have the same.
/// Each rule says what it is for, and what is missing without it if the operator can do without.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  # An operator for two namespaces: podloom run --namespace team-a --namespace team-b
  podloom rbac --namespace team-a --namespace team-b | kubectl apply -f -

  # What people may do with Browsers and BrowserConfigs, as part of the roles view, edit and admin
  podloom rbac --for users | kubectl apply -f -

  # What a program needs that asks for Browsers in a namespace
  podloom rbac --for clients --namespace team-a | kubectl apply -f -")]
pub(crate) struct RbacArguments {
    /// The controllers that are meant, separated by commas, as in podloom run.
    #[arg(long, value_name = "LIST", default_value = "browser", env = "PODLOOM_CONTROLLERS", value_parser = controllers::parse)]
    pub(crate) controllers: Controllers,

    /// Whose rights.
    #[arg(long = "for", value_name = "WHOM", default_value = "operator")]
    pub(crate) whose: Whose,

    /// Roles in this namespace alone, instead of ClusterRoles; give it several times for several.
    #[arg(short, long = "namespace", value_name = "NS", value_delimiter = ',', value_parser = namespace)]
    namespaces: Vec<String>,

    /// The namespace that the operator runs in, with its ServiceAccount.
    #[arg(long, value_name = "NS", default_value = "podloom-system", value_parser = namespace)]
    pub(crate) operator_namespace: String,

    /// The namespace of the Lease, as in podloom run; by default the one that the operator runs in.
    #[arg(long, value_name = "NS", env = "PODLOOM_LEASE_NAMESPACE", value_parser = namespace)]
    lease_namespace: Option<String>,

    /// The name of the browser controller's Lease, as in podloom run.
    #[arg(
        long,
        value_name = "NAME",
        env = "PODLOOM_LEASE_NAME",
        default_value = "podloom"
    )]
    pub(crate) lease_name: String,

    /// The API groups: seed is selenosis.io for both kinds, split is one group for each.
    #[arg(long, value_name = "GROUPS", default_value = "seed", env = "PODLOOM_SELENOSIS_API", value_parser = ["seed", "split"])]
    selenosis_api: String,
}

/// Whose rights are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Whose {
    /// The operator's own: a ServiceAccount for each controller, its roles and their bindings.
    Operator,
    /// People's: ClusterRoles that Kubernetes adds to its own roles view, edit and admin.
    Users,
    /// Those of programs that ask for Browsers: a Role, which you bind to their ServiceAccount.
    Clients,
}

impl RbacArguments {
    /// The set of API groups that was asked for.
    pub(crate) fn api(&self) -> SelenosisApi {
        // The parser has let only known names pass.
        self.selenosis_api.parse().unwrap_or_default()
    }

    /// The namespace of the Lease.
    pub(crate) fn lease_namespace(&self) -> &str {
        let own = &self.operator_namespace;
        self.lease_namespace.as_ref().unwrap_or(own)
    }

    /// The namespaces, each once; none means all.
    pub(crate) fn namespaces(&self) -> Vec<&str> {
        let all: BTreeSet<&str> = self.namespaces.iter().map(String::as_str).collect();
        all.into_iter().collect()
    }
}
