//! RBAC objects as YAML, with a comment for each rule. Names from the user are quoted if YAML would read them as another type.

use std::borrow::Cow;
use std::fmt::Write;

/// The metadata of an object.
#[derive(Clone, Debug, Default)]
pub(super) struct Metadata<'a> {
    pub(super) name: String,
    /// None for a cluster-scoped object, or for one that `kubectl apply -n` puts into a namespace.
    pub(super) namespace: Option<&'a str>,
    /// The value of `app.kubernetes.io/name`.
    pub(super) app: String,
    /// The built-in role that this one is aggregated to.
    pub(super) aggregate_to: Option<&'static str>,
}

/// A Role or ClusterRole.
pub(super) struct Role<'a> {
    pub(super) kind: RoleKind,
    pub(super) metadata: Metadata<'a>,
    pub(super) rules: Vec<Rule>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoleKind {
    Cluster,
    Namespaced,
}

/// A rule of a role.
pub(super) struct Rule {
    /// The lines of the comment.
    pub(super) comment: Vec<String>,
    pub(super) group: &'static str,
    pub(super) resources: Vec<String>,
    /// The one object that the rule is limited to, if any.
    pub(super) name: Option<String>,
    pub(super) verbs: Vec<&'static str>,
}

impl RoleKind {
    fn name(self) -> &'static str {
        match self {
            Self::Cluster => "ClusterRole",
            Self::Namespaced => "Role",
        }
    }
}

/// A file: comment lines, then the documents.
pub(super) fn file(header: &[String], documents: &[String]) -> String {
    let mut text = String::new();
    for line in header {
        let _infallible = writeln!(text, "# {line}");
    }
    text + &documents.join("---\n")
}

pub(super) fn service_account(name: &str, namespace: &str) -> String {
    let metadata = Metadata {
        name: name.to_owned(),
        namespace: Some(namespace),
        app: name.to_owned(),
        ..Metadata::default()
    };
    let mut text = begun("v1", "ServiceAccount", &metadata);
    text.push_str(
        "# The Deployment mounts the token itself, so a pod that is started by hand with this account gets none.\n\
         automountServiceAccountToken: false\n",
    );
    text
}

pub(super) fn role(role: &Role<'_>) -> String {
    let mut text = begun(RBAC, role.kind.name(), &role.metadata);
    text.push_str("rules:\n");
    for rule in &role.rules {
        for line in &rule.comment {
            let _infallible = writeln!(text, "# {line}");
        }
        let group = if rule.group.is_empty() {
            "\"\""
        } else {
            rule.group
        };
        let _infallible = writeln!(text, "- apiGroups: [{group}]");
        let _infallible = writeln!(text, "  resources: [{}]", rule.resources.join(", "));
        if let Some(name) = &rule.name {
            let _infallible = writeln!(text, "  resourceNames: [{}]", scalar(name));
        }
        let _infallible = writeln!(text, "  verbs: [{}]", rule.verbs.join(", "));
    }
    text
}

/// A ClusterRole without rules, which Kubernetes fills with those of all ClusterRoles that have this label.
///
/// It says nothing of its rules: whoever applies it again would remove them until Kubernetes fills them in again.
pub(super) fn aggregated_role(metadata: &Metadata<'_>, comment: &[String], label: &str) -> String {
    let mut text = begun(RBAC, RoleKind::Cluster.name(), metadata);
    for line in comment {
        let _infallible = writeln!(text, "# {line}");
    }
    let _infallible = write!(
        text,
        "aggregationRule:\n  clusterRoleSelectors:\n  - matchLabels:\n      {label}: \"true\"\n"
    );
    text
}

/// The binding of a role to accounts, with the role's name; and with its namespace, unless it binds a ClusterRole in one namespace.
pub(super) fn binding(
    role: RoleKind,
    metadata: &Metadata<'_>,
    accounts: &[&str],
    account_namespace: &str,
) -> String {
    let kind = role.name();
    let bound = match metadata.namespace {
        Some(_) => RoleKind::Namespaced,
        None => RoleKind::Cluster,
    };
    let mut text = begun(RBAC, &format!("{}Binding", bound.name()), metadata);
    let _infallible = write!(
        text,
        "roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: {kind}\n  name: {}\nsubjects:\n",
        scalar(&metadata.name),
    );
    for account in accounts {
        let _infallible = write!(
            text,
            "- kind: ServiceAccount\n  name: {}\n  namespace: {}\n",
            scalar(account),
            scalar(account_namespace)
        );
    }
    text
}

const RBAC: &str = "rbac.authorization.k8s.io/v1";

fn begun(api_version: &str, kind: &str, metadata: &Metadata<'_>) -> String {
    let mut text = format!(
        "apiVersion: {api_version}\nkind: {kind}\nmetadata:\n  name: {}\n",
        scalar(&metadata.name)
    );
    if let Some(namespace) = metadata.namespace {
        let _infallible = writeln!(text, "  namespace: {}", scalar(namespace));
    }
    let _infallible = writeln!(
        text,
        "  labels:\n    app.kubernetes.io/name: {}",
        scalar(&metadata.app)
    );
    if let Some(role) = metadata.aggregate_to {
        let _infallible = writeln!(
            text,
            "    rbac.authorization.k8s.io/aggregate-to-{role}: \"true\""
        );
    }
    text
}

/// A string as YAML: quoted if YAML 1.1 or 1.2 could read it as a number, a boolean or null.
fn scalar(text: &str) -> Cow<'_, str> {
    const WORDS: [&str; 9] = ["false", "n", "no", "null", "off", "on", "true", "y", "yes"];
    let is_word =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    let begins_as_text = text.starts_with(|first: char| first.is_ascii_lowercase());
    if begins_as_text && text.bytes().all(is_word) && !WORDS.contains(&text) {
        return Cow::Borrowed(text);
    }
    // A JSON string is a valid YAML string.
    Cow::Owned(serde_json::Value::from(text).to_string())
}
