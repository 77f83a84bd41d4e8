//! `podloom rbac`: prints the rights in the table of duties as manifests.

mod background;
mod clients;
mod operator;
mod text;
mod users;

use self::background::Background;
use crate::cli::{RbacArguments, Whose};
use crate::error::CommandError;
use crate::output;

/// Prints the rights of the operator, of users or of clients.
pub(crate) fn run(arguments: &RbacArguments) -> Result<(), CommandError> {
    let rows = arguments.controllers.iter().map(|duty| duty.row());
    let (api, namespaces) = (arguments.selenosis_api, arguments.namespaces());
    let texts: Vec<String> = match arguments.whose {
        Whose::Operator => rows
            .map(|row| operator::manifests(row, arguments))
            .collect(),
        Whose::Drift => vec![of_leader(&background::DRIFT, arguments)?],
        Whose::Gate => vec![of_leader(&background::GATE, arguments)?],
        Whose::Heal => vec![of_leader(&background::HEAL, arguments)?],
        Whose::Reports => vec![of_leader(&background::REPORTS, arguments)?],
        Whose::Rollout => {
            let (webhook, namespace) = (&arguments.webhook_name, &arguments.operator_namespace);
            vec![background::manifests(
                &background::ROLLOUT,
                webhook,
                namespace,
            )]
        }
        Whose::Users if !namespaces.is_empty() => {
            return Err(CommandError::Usage(
                "--namespace does not go with --for users: their roles are ClusterRoles, which have no namespace"
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

/// The rights of what the leader of the webhooks does in the background.
fn of_leader(of: &Background, arguments: &RbacArguments) -> Result<String, CommandError> {
    if !arguments.namespaces().is_empty() {
        let whose = of.name;
        return Err(CommandError::Usage(format!(
            "--namespace does not go with --for {whose}: it prints a ClusterRole, which has no namespace; bind it in single namespaces with RoleBindings of your own"
        )));
    }
    let (webhook, namespace) = (&arguments.webhook_name, &arguments.operator_namespace);
    Ok(background::manifests(of, webhook, namespace))
}
