//! The state of a chain, as JSON.

use std::time::SystemTime;

use jiff::Timestamp;
use podloom_mutators::Serving;
use serde_json::{Value, json};

/// The chain, its plugins, and why the last attempt to load one failed.
pub(super) fn of(serving: &Serving) -> Value {
    let plugins = serving.chain.iter().flat_map(|chain| chain.plugins());
    let plugins = plugins.map(|plugin| {
        json!({
            "name": plugin.name,
            "version": plugin.description.version,
            "sha256": plugin.sha256,
            "file": plugin.file,
        })
    });
    let error = serving.failed.as_ref().map(|failed| {
        json!({
            "at": timestamp(failed.at),
            "reason": failed.error.reason(),
            "message": failed.error.to_string(),
        })
    });
    json!({
        "chain": serving.chain.as_ref().map(|chain| chain.digest()),
        "plugins": plugins.collect::<Value>(),
        "lastReload": serving.since.map(timestamp),
        "lastError": error,
    })
}

/// A time in RFC 3339.
pub(super) fn timestamp(time: SystemTime) -> Option<String> {
    Some(Timestamp::try_from(time).ok()?.to_string())
}
