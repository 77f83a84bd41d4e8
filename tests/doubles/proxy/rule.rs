//! Which requests a rule selects.

use http::Uri;
use podloom_tests::faults::{CHANGE, Fault, RequestFilter, Rule, is_write};

use super::name::NamedRequest;

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
        "write" => is_write(&request.method),
        verb => verb == request.verb,
    };
    let is_any = on.verbs.is_empty() && request.verb != CHANGE;
    (is_any || on.verbs.iter().any(is_verb))
        && (on.resources.is_empty() || on.resources.contains(&request.resource))
        && uri.to_string().contains(&on.path)
}
