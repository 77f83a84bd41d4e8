//! What a cluster has of a Cleaner itself.

use jiff::Timestamp;
use kube::Client;
use podloom_api::Cleaner;
use podloom_engine::kind::ResourceScope;
use podloom_syntax::names::{dns_label, dns_subdomain};

use crate::objects::{Objects, Place};
use crate::served::ServedKind;
use crate::sight::metadata;

/// What is known of a Cleaner itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Its UID.
    pub uid: Option<String>,
    /// Whether it is being deleted.
    pub is_deleted: bool,
}

/// Reads a Cleaner from a cluster; none if the cluster has none of this name.
///
/// # Errors
///
/// Why it cannot be read, for people.
pub async fn live(client: Client, namespace: &str, name: &str) -> Result<Option<Live>, String> {
    // Both come from a file, and become parts of a URL.
    if dns_label(namespace).is_err() || dns_subdomain(name).is_err() {
        return Err("it or its namespace has a name that no object has".to_owned());
    }
    let kind = ServedKind {
        resource: Cleaner::resource(),
        scope: ResourceScope::Namespaced,
    };
    let place = Place {
        kind: &kind,
        namespace: Some(namespace),
        name,
    };
    let found = Objects::new(client).get(place).await;
    let found = found.map_err(|error| error.to_string())?;
    Ok(found.map(|cleaner| Live {
        created: metadata(&cleaner, "creationTimestamp").parse().ok(),
        uid: Some(metadata(&cleaner, "uid").to_owned()),
        is_deleted: !metadata(&cleaner, "deletionTimestamp").is_empty(),
    }))
}

#[cfg(test)]
mod tests;
