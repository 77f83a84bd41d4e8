//! The rights of a cluster's users on the kinds of a duty, aggregated to Kubernetes' built-in roles.

use podloom_api::SelenosisApi;
use podloom_controllers::duties::{GivenNames, OwnKind, Row, Writers};

use super::text::{self, Metadata, Role, RoleKind, Rule};

const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 5] = ["create", "delete", "deletecollection", "patch", "update"];

/// A ClusterRole each for `view`, `edit` and `admin`. Kubernetes adds `view` to `edit`, and `edit` to `admin`.
pub(super) fn manifests(row: &Row, api: SelenosisApi) -> String {
    let view = row.kinds.iter().map(|kind| Rule {
        comment: Vec::new(),
        group: kind.group.name(api),
        resources: vec![kind.plural.to_owned(), format!("{}/status", kind.plural)],
        name: None,
        verbs: READ.to_vec(),
    });
    let roles = [
        ("view", view.collect()),
        ("edit", writes(row, api, Writers::Edit)),
        ("admin", writes(row, api, Writers::Admin)),
    ];
    let roles = roles.into_iter().filter(|(_, rules)| !rules.is_empty());
    let documents = roles.map(|(role, rules)| {
        text::role(&Role {
            kind: RoleKind::Cluster,
            metadata: Metadata {
                name: format!("podloom-{}-{role}", row.name),
                namespace: None,
                app: row.object_name(&GivenNames::default()),
                aggregate_to: Some(role),
            },
            rules,
        })
    });
    let header = format!(
        "The rights of users on the kinds of the duty {}, as printed by podloom rbac --for users.",
        row.name
    );
    text::file(&[header], &documents.collect::<Vec<_>>())
}

fn writes(row: &Row, api: SelenosisApi, writers: Writers) -> Vec<Rule> {
    let kinds = row.kinds.iter().filter(|kind| kind.writers == writers);
    let rule = |kind: &OwnKind| Rule {
        comment: vec![
            match writers {
                Writers::Edit => {
                    "These objects can do no more than pods, which the role edit may create anyway."
                }
                Writers::Admin => {
                    "These objects decide what the operator does with its own rights."
                }
            }
            .to_owned(),
        ],
        group: kind.group.name(api),
        resources: vec![kind.plural.to_owned()],
        name: None,
        verbs: WRITE.to_vec(),
    };
    kinds.map(rule).collect()
}
