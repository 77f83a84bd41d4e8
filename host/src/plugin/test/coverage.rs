//! Which grants cover a write.
//!
//! The record of a write names an element by its index if the list has no merge key, but a grant names it by a selector.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use podloom_mutation::Write;
use podloom_pod_path::{Access, Grants, Transaction};
use serde_json::Value;

/// For each write, the grants among these that cover it.
pub(super) fn covering(pod: &Value, writes: &[Write], grants: &[String]) -> Vec<Vec<String>> {
    let access = Arc::new(Access::unrestricted());
    let mut pod = Transaction::begin(pod.clone(), access, [].into());
    let mut covering = Vec::with_capacity(writes.len());
    for write in writes {
        let before = matching(&pod, &write.path, grants);
        repeat(&mut pod, write);
        let after = matching(&pod, &write.path, grants);
        let found = if is_new_element(write) {
            after
        } else if write.new.is_none() {
            before
        } else {
            // A write that changes the field of the selector is covered by neither name.
            before
                .into_iter()
                .filter(|grant| after.contains(grant))
                .collect()
        };
        covering.push(found);
    }
    covering
}

/// Whether a grant covers the path of a write, or another grant.
pub(super) fn covers(grant: &str, path: &str) -> bool {
    match (Grants::parse(&[grant]), granted(path)) {
        (Ok(grant), Some(path)) => grant.covers(&path).is_ok(),
        _ => false,
    }
}

fn matching(pod: &Transaction, path: &str, grants: &[String]) -> Vec<String> {
    let covering = grants
        .iter()
        .filter(|grant| covers(grant, path) || covers(grant, &with_selectors(pod, path, grant)));
    covering.cloned().collect()
}

/// The path with the selectors of a grant instead of indices, where both name the same element.
fn with_selectors(pod: &Transaction, path: &str, grant: &str) -> String {
    let mut named = String::with_capacity(path.len());
    let mut grant = grant.split('/').skip(1);
    for segment in path.split('/').skip(1) {
        let selector = grant.next().filter(|granted| granted.starts_with('['));
        let by_index = format!("{named}/{segment}");
        named = match selector {
            Some(selector) if is_index(segment) => {
                let by_selector = format!("{named}/{selector}");
                match (pod.get(&by_index), pod.get(&by_selector)) {
                    (Ok(Some(element)), Ok(Some(selected))) if element == selected => by_selector,
                    _ => by_index,
                }
            }
            _ => by_index,
        };
    }
    named
}

/// Repeats a write. It succeeded before, so what fails here changes only which later elements are found.
fn repeat(pod: &mut Transaction, write: &Write) {
    let path = &write.path;
    let _repeated = match &write.new {
        None => pod.remove(path).map(drop),
        Some(new) if is_new_element(write) => {
            let inserted = pod.insert(path, new.clone());
            // A missing list is made only by appending to it.
            inserted.or_else(|_| pod.set(&end_of_list(path), new.clone()))
        }
        Some(new) => pod.set(path, new.clone()),
    };
}

/// Whether a write inserted or appended an element that it names by its index.
fn is_new_element(write: &Write) -> bool {
    write.old.is_none() && write.new.is_some() && is_index(last(&write.path))
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

fn end_of_list(path: &str) -> String {
    let list = path.strip_suffix(last(path)).unwrap_or(path);
    format!("{list}-")
}

/// A path as a grant: list indices become `*`, since grants have none.
fn granted(path: &str) -> Option<Grants> {
    let any = path
        .split('/')
        .map(|segment| if is_index(segment) { "*" } else { segment });
    let any = any.collect::<Vec<_>>().join("/");
    let parsed = Grants::parse(&[path]).or_else(|_| Grants::parse(&[any]));
    parsed.ok()
}

fn is_index(segment: &str) -> bool {
    segment.parse::<usize>().is_ok()
}
