//! How requests are named.

use http::{Method, Uri};
use podloom_tests::faults::CHANGE;

/// How requests are named.
#[derive(Clone, Copy)]
pub(super) enum Naming {
    /// By Kubernetes' verb and resource.
    Kubernetes,
    /// By method and path.
    Http,
}

/// A request, or a change that a watch shows, and its name.
pub(super) struct NamedRequest {
    /// Kubernetes' verb, or the method.
    pub(super) verb: String,
    /// The plural, with the subresource after a slash: `pods`, `pods/status`; the path if the request is not for a resource.
    pub(super) resource: String,
    pub(super) method: String,
    /// Path and query, without ids.
    pub(super) path: String,
    /// Whether the answer is a stream of changes.
    is_watch: bool,
}

impl NamedRequest {
    pub(super) fn new(naming: Naming, method: &Method, uri: &Uri) -> Self {
        let (verb, resource) = match naming {
            Naming::Kubernetes => kubernetes(method, uri),
            Naming::Http => (method.as_str(), without_ids(uri.path())),
        };
        let query = uri.query().map(|query| format!("?{query}"));
        Self {
            verb: verb.to_owned(),
            resource,
            method: method.as_str().to_owned(),
            path: without_ids(uri.path()) + &query.unwrap_or_default(),
            is_watch: matches!(naming, Naming::Kubernetes) && asks(uri, "watch=true"),
        }
    }

    /// Whether it is a watch that begins with a list.
    pub(super) fn lists_first(&self) -> bool {
        self.is_watch && self.verb == "list"
    }

    /// The name of each change that it shows, if it is a watch.
    pub(super) fn change(self) -> Option<Self> {
        let verb = CHANGE.to_owned();
        self.is_watch.then_some(Self { verb, ..self })
    }
}

fn asks(uri: &Uri, parameter: &str) -> bool {
    uri.query().unwrap_or_default().contains(parameter)
}

/// Kubernetes' name of a request, except that a watch which begins with a list is a list.
fn kubernetes(method: &Method, uri: &Uri) -> (&'static str, String) {
    let words: Vec<&str> = uri.path().split('/').skip(1).collect();
    // After group and version: possibly a namespace, then the plural, the name and the subresource.
    let rest = match words.as_slice() {
        ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
        _ => &[],
    };
    let rest = match rest {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
        rest => rest,
    };
    let resource = match rest {
        [] => uri.path().to_owned(),
        [plural] | [plural, _] => (*plural).to_owned(),
        [plural, _, subresource, ..] => format!("{plural}/{subresource}"),
    };
    let is_named = rest.len() != 1;
    let is_watch = asks(uri, "watch=true") && !asks(uri, "sendInitialEvents=true");
    let verb = match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if is_named => "delete",
        Method::DELETE => "deletecollection",
        _ if is_watch => "watch",
        _ if is_named => "get",
        _ => "list",
    };
    (verb, resource)
}

/// The path with `{id}` for each part of it that is a UUID.
fn without_ids(path: &str) -> String {
    let parts = path.split('/');
    let parts: Vec<&str> = parts
        .map(|part| if is_uuid(part) { "{id}" } else { part })
        .collect();
    parts.join("/")
}

fn is_uuid(part: &str) -> bool {
    let groups = part.split('-').map(str::len);
    groups.eq([8, 4, 4, 4, 12])
        && part
            .bytes()
            .all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}
