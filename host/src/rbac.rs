//! `podloom rbac`: the rights in the table of duties, as manifests.

mod clients;
mod operator;
mod text;
mod users;

use crate::cli::{RbacArguments, Whose};
use crate::output;
use crate::refusal::Failure;

/// Prints whose rights were asked for.
pub(crate) fn run(arguments: &RbacArguments) -> Result<(), Failure> {
    let rows = arguments.controllers.duties().iter().map(|duty| duty.row());
    let (api, namespaces) = (arguments.api(), arguments.namespaces());
    let texts: Vec<String> = match arguments.whose {
        Whose::Operator => rows
            .map(|row| {
                let scope = operator::Scope {
                    api,
                    watched: &namespaces,
                    own: &arguments.operator_namespace,
                    lease_namespace: arguments.lease_namespace(),
                    lease_name: &arguments.lease_name,
                };
                operator::manifests(row, &scope)
            })
            .collect(),
        Whose::Users if !namespaces.is_empty() => {
            return Err(Failure::Usage(
                "the roles of users are ClusterRoles, which are in no namespace: leave out --namespace"
                    .to_owned(),
            ));
        }
        Whose::Users => rows.map(|row| users::manifests(row, api)).collect(),
        Whose::Clients => rows
            .map(|row| clients::manifests(row, api, &namespaces))
            .collect(),
    };
    output::print(&texts.join("---\n"))
}
