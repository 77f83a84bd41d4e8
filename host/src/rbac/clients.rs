//! The rights of programs that create objects of a duty in a namespace.

use podloom_api::SelenosisApi;
use podloom_controllers::duties::{GivenNames, Row};

use super::text::{self, Metadata, Role, RoleKind, Rule};

/// A Role for each namespace; without namespaces one Role, which `kubectl apply -n` puts into a namespace.
pub(super) fn manifests(row: &Row, api: SelenosisApi, namespaces: &[&str]) -> String {
    let namespaces: Vec<Option<&str>> = match namespaces {
        [] => vec![None],
        some => some.iter().copied().map(Some).collect(),
    };
    let documents = namespaces.into_iter().map(|namespace| {
        let kinds = row.kinds.iter().filter(|kind| !kind.clients.is_empty());
        let rules = kinds.map(|kind| Rule {
            comment: Vec::new(),
            group: kind.group.name(api),
            resources: vec![kind.plural.to_owned()],
            name: None,
            verbs: kind.clients.to_vec(),
        });
        text::role(&Role {
            kind: RoleKind::Namespaced,
            metadata: Metadata {
                name: format!("podloom-{}-client", row.name),
                namespace,
                app: row.object_name(&GivenNames::default()),
                aggregate_to: None,
            },
            rules: rules.collect(),
        })
    });
    let header = [
        format!(
            "The rights of a program that creates objects of the duty {}, as printed by podloom rbac --for clients.",
            row.name
        ),
        "Bind it to the program's ServiceAccount, in the namespace of the objects.".to_owned(),
    ];
    text::file(&header, &documents.collect::<Vec<_>>())
}
