//! The digest of a chain: chains with equal digests turn equal pods into equal pods.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::file::hex;
use crate::plugin::Plugin;

/// Hashes JSON with sorted keys, so layout and comments of the manifest do not matter.
pub(super) fn of(plugins: &[Plugin]) -> String {
    let plugins: Vec<Value> = plugins.iter().map(plugin).collect();
    hex(&Sha256::digest(Value::Array(plugins).to_string()))
}

/// Includes names, since they are in the stamp. Leaves out file names, since only the content matters.
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
