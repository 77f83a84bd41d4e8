//! Which requests go wrong, and how.

use http::{Method, Uri};
use serde::Deserialize;

/// The verbs that change something.
const WRITES: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];

/// What goes wrong with a request.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Fault {
    /// The connection is closed before the request reaches the API server.
    Drop,
    /// The request reaches the API server, and the connection is closed in place of the answer.
    Cut,
    /// Nothing happens any more.
    Stall,
    /// The request is passed on later.
    Delay {
        /// How much later.
        seconds: f64,
    },
    /// The proxy answers, and the API server never sees the request.
    Answer {
        /// The answer's status.
        status: u16,
        /// The answer's body, in JSON or plain text.
        body: String,
    },
}

impl Fault {
    /// A refusal as the API server words them.
    #[must_use]
    pub fn refusal(status: u16, reason: &str, message: &str) -> Self {
        let body = serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure",
            "reason": reason, "message": message, "code": status,
        });
        Self::Answer {
            status,
            body: body.to_string(),
        }
    }
}

/// Some of the requests; by default all.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Requests {
    /// Of one of these verbs; `write` stands for all that change something.
    pub verbs: Vec<String>,
    /// Of one of these resources: `pods`, `browsers/status`.
    pub resources: Vec<String>,
    /// With this text in path and query.
    pub path: String,
}

impl Requests {
    /// Those of one verb and resource: `create pods`, `write browsers/status`.
    #[must_use]
    pub fn of(request: &str) -> Self {
        let (verb, resource) = request.split_once(' ').unwrap();
        Self {
            verbs: vec![verb.to_owned()],
            resources: vec![resource.to_owned()],
            path: String::new(),
        }
    }

    fn hold(&self, request: &Request, uri: &Uri) -> bool {
        let is_verb = |verb: &String| match verb.as_str() {
            "write" => WRITES.contains(&request.verb),
            verb => verb == request.verb,
        };
        (self.verbs.is_empty() || self.verbs.iter().any(is_verb))
            && (self.resources.is_empty() || self.resources.contains(&request.resource))
            && uri.to_string().contains(&self.path)
    }
}

/// What goes wrong with which requests.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// With which ones.
    #[serde(default)]
    pub on: Requests,
    /// How many of them pass first.
    #[serde(default)]
    pub after: u64,
    /// How many it goes wrong with; without it, with all.
    #[serde(default)]
    pub times: Option<u64>,
    /// What goes wrong.
    pub fault: Fault,
}

/// Rules, and how often each was met.
#[derive(Default)]
pub(super) struct Rules(Vec<Counted>);

struct Counted {
    rule: Rule,
    met: u64,
    hits: u64,
}

impl Rules {
    pub(super) fn new(rules: Vec<Rule>) -> Self {
        let counted = |rule| Counted {
            rule,
            met: 0,
            hits: 0,
        };
        Self(rules.into_iter().map(counted).collect())
    }

    pub(super) fn hits(&self) -> Vec<u64> {
        self.0.iter().map(|counted| counted.hits).collect()
    }

    /// The fault of the first rule that applies; those behind it do not count the request.
    pub(super) fn meet(&mut self, request: &Request, uri: &Uri) -> Option<Fault> {
        self.0.iter_mut().find_map(|counted| {
            let rule = &counted.rule;
            let is_spent = rule.times.is_some_and(|times| counted.hits >= times);
            if is_spent || !rule.on.hold(request, uri) {
                return None;
            }
            counted.met += 1;
            if counted.met <= rule.after {
                return None;
            }
            counted.hits += 1;
            Some(rule.fault.clone())
        })
    }
}

/// A request as Kubernetes names it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) verb: &'static str,
    /// The plural, with the subresource behind a slash; the path where it is no resource's.
    pub(super) resource: String,
}

impl Request {
    pub(super) fn new(method: &Method, uri: &Uri) -> Self {
        let words: Vec<&str> = uri.path().split('/').skip(1).collect();
        // Behind group and version: maybe a namespace, then the plural, the name and the subresource.
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
