//! Which requests a rule selects, and how requests are named.

use http::{Method, Uri};
use podloom_tests::faults::{Fault, RequestFilter, Rule};

/// The verbs that change something.
const WRITES: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];

/// Rules with their counts.
#[derive(Default)]
pub(super) struct Rules(Vec<CountedRule>);

struct CountedRule {
    rule: Rule,
    /// The requests that it selected.
    selected: u64,
    /// The faults that it injected.
    hits: u64,
}

impl Rules {
    pub(super) fn new(rules: Vec<Rule>) -> Self {
        let counted = |rule| CountedRule {
            rule,
            selected: 0,
            hits: 0,
        };
        Self(rules.into_iter().map(counted).collect())
    }

    pub(super) fn hits(&self) -> Vec<u64> {
        self.0.iter().map(|counted| counted.hits).collect()
    }

    /// The fault of the first rule that applies; later rules do not count the request.
    pub(super) fn fault_for(&mut self, request: &NamedRequest, uri: &Uri) -> Option<Fault> {
        self.0.iter_mut().find_map(|counted| {
            let rule = &counted.rule;
            let is_spent = rule.times.is_some_and(|times| counted.hits >= times);
            if is_spent || !selects(&rule.on, request, uri) {
                return None;
            }
            counted.selected += 1;
            if counted.selected <= rule.after {
                return None;
            }
            counted.hits += 1;
            Some(rule.fault.clone())
        })
    }
}

fn selects(on: &RequestFilter, request: &NamedRequest, uri: &Uri) -> bool {
    let is_verb = |verb: &String| match verb.as_str() {
        "write" => WRITES.contains(&request.verb),
        verb => verb == request.verb,
    };
    (on.verbs.is_empty() || on.verbs.iter().any(is_verb))
        && (on.resources.is_empty() || on.resources.contains(&request.resource))
        && uri.to_string().contains(&on.path)
}

/// A request with the verb and resource by which Kubernetes names it.
pub(super) struct NamedRequest {
    pub(super) verb: &'static str,
    /// The plural, with the subresource after a slash: `pods`, `pods/status`; the path if the request is not for a resource.
    pub(super) resource: String,
}

impl NamedRequest {
    pub(super) fn new(method: &Method, uri: &Uri) -> Self {
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
        let is_watch = uri.query().unwrap_or_default().contains("watch=true");
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
        Self { verb, resource }
    }
}
