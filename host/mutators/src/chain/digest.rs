//! The digest of a chain: equal digests make equal pods of equal pods.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::file::hex;
use crate::plugin::Plugin;

/// Hashes JSON whose keys are sorted, so that neither the manifest's layout nor its comments matter.
pub(super) fn of(plugins: &[Plugin]) -> String {
    let plugins: Vec<Value> = plugins.iter().map(plugin).collect();
    hex(&Sha256::digest(Value::Array(plugins).to_string()))
}

/// Names are in it because they are in the stamp; file names are not, since a file is its content.
fn plugin(plugin: &Plugin) -> Value {
    json!({
        "name": plugin.name,
        "sha256": plugin.sha256,
        "allow": plugin.allow,
        "read": plugin.read,
        "config": plugin.config,
        "match": plugin.matches,
        "failurePolicy": plugin.failure_policy.as_str(),
        "memory": plugin.limits.memory,
        "timeoutMillis": u64::try_from(plugin.limits.timeout.as_millis()).unwrap_or(u64::MAX),
    })
}
