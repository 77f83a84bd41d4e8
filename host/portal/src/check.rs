//! What is wrong with a PortalExpose by itself, and how problems are written.
//!
//! The API server checks most of it when an object is written. An object that was stored under an older schema may still have it.

use std::collections::BTreeMap;
use std::fmt;

use podloom_api::names::portal::{condition, reason};
use podloom_api::{PortalApp, PortalExposeSpec, RelayTarget};
use podloom_engine::conditions::{ConditionStatus, NewCondition};
use podloom_engine::finding::FieldPath;
use podloom_syntax::names;

/// The longest hostname that DNS has, and the longest label in it.
const HOSTNAME_MAX: usize = 253;
const LABEL_MAX: usize = 63;
/// How many relays a PortalExpose may have.
pub(super) const TARGETS_MAX: usize = 16;

/// Something that forbids writes, or a write that failed: a condition that is False.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocker {
    /// The type of the condition.
    pub(crate) condition: &'static str,
    pub(crate) reason: &'static str,
    /// What is wrong, and what to do.
    pub(crate) message: String,
}

impl Blocker {
    pub(crate) fn new(
        condition: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            condition,
            reason,
            message: message.into(),
        }
    }

    /// What is wrong with the Deployment or the Secret.
    pub(crate) fn of_children(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(condition::TUNNEL_DEPLOYMENT_READY, reason, message)
    }

    /// What is wrong with the plugin chain, or what it made.
    pub(crate) fn of_mutators(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(condition::MUTATORS_APPLIED, reason, message)
    }
}

/// Returns a condition that is True.
pub(crate) fn yes(type_: &'static str, reason: &str, message: impl Into<String>) -> NewCondition {
    NewCondition::new(type_, ConditionStatus::True, reason, message)
}

/// Returns a condition that is False.
pub(crate) fn no(type_: &'static str, reason: &str, message: impl Into<String>) -> NewCondition {
    NewCondition::new(type_, ConditionStatus::False, reason, message)
}

/// What is wrong with a field of a PortalExpose or a TunnelClass. The display is a sentence that names the field and what to write.
///
/// It never quotes a URL: an old one may have a password in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The field; empty for the object itself.
    pub(crate) path: FieldPath,
    /// The reason of the condition that it makes False.
    pub(crate) reason: &'static str,
    /// The sentence without its subject.
    pub(crate) predicate: String,
}

impl Fault {
    pub(crate) fn new(path: FieldPath, reason: &'static str, predicate: impl Into<String>) -> Self {
        Self {
            path,
            reason,
            predicate: predicate.into(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.0.as_slice() {
            [] => f.write_str("it")?,
            _ => write!(f, "{}", self.path)?,
        }
        write!(f, " {}", self.predicate)
    }
}

/// Returns the relays of a PortalExpose in the order of its spec, or the first problem.
pub(crate) fn check(spec: &PortalExposeSpec) -> Result<Vec<Authority>, Fault> {
    let (targets, faults) = examine(spec);
    faults.into_iter().next().map_or(Ok(targets), Err)
}

/// Returns the usable relays of a PortalExpose, and all problems.
pub(super) fn examine(spec: &PortalExposeSpec) -> (Vec<Authority>, Vec<Fault>) {
    let list = FieldPath::dotted("spec.relay.targets");
    let mut faults = of_app(&spec.app);
    let listed = &spec.relay.targets;
    if listed.is_empty() || listed.len() > TARGETS_MAX {
        let count = listed.len();
        let text = format!("has {count} relays; list 1 to {TARGETS_MAX}");
        faults.push(Fault::new(list.clone(), reason::INVALID_SPEC, text));
    }
    let (mut named, mut relays) = (BTreeMap::new(), BTreeMap::new());
    let mut targets = Vec::new();
    for (index, target) in listed.iter().enumerate().take(TARGETS_MAX) {
        let RelayTarget { name, url } = target;
        let [name_field, url_field] =
            ["name", "url"].map(|field| list.clone().index(index).key(field));
        if let Some(first) = named.insert(name, name_field.clone()) {
            let text = format!("is the same as {first}; give each target a name of its own");
            faults.push(Fault::new(name_field, reason::DUPLICATE_RELAY, text));
        }
        let Some(authority) = Authority::parse(url) else {
            faults.push(Fault::new(url_field, reason::INVALID_RELAY_URL, NO_RELAY));
            continue;
        };
        if let Some(text) = too_long(&authority.hostname(&spec.app.name)) {
            faults.push(Fault::new(
                url_field.clone(),
                reason::HOSTNAME_TOO_LONG,
                text,
            ));
        }
        if let Some(first) = relays.insert(authority.clone(), url_field.clone()) {
            let text = format!(
                "is the relay {authority}, as {first} is; remove one of the two: scheme and path make no other relay"
            );
            faults.push(Fault::new(url_field, reason::DUPLICATE_RELAY, text));
        }
        targets.push(authority);
    }
    (targets, faults)
}

const NO_RELAY: &str = "is no relay URL; write wss:// or https://, a hostname that is no IP address, and if needed a port and a path of \
                        letters, digits and the characters . _ ~ - /";

fn of_app(app: &PortalApp) -> Vec<Fault> {
    let fault = |field, text| Fault::new(FieldPath::dotted(field), reason::INVALID_SPEC, text);
    let labels = [
        ("spec.app.name", &app.name),
        ("spec.app.service.name", &app.service.name),
    ];
    let bad = labels
        .into_iter()
        .filter(|(_, name)| names::dns_label(name).is_err());
    let text = "is no DNS label; write 1 to 63 lower-case letters, digits and dashes, with no dash at either end";
    let bad = bad.map(|(field, _)| fault(field, text));
    let port = (!(1..=65_535).contains(&app.service.port)).then(|| {
        let text = "is no port; write a number from 1 to 65535";
        fault("spec.app.service.port", text)
    });
    bad.chain(port).collect()
}

fn too_long(hostname: &str) -> Option<String> {
    let (length, longest) = (hostname.len(), hostname.split('.').map(str::len).max()?);
    if length > HOSTNAME_MAX {
        return Some(format!(
            "makes a hostname of {length} characters; DNS allows {HOSTNAME_MAX}, so use a shorter spec.app.name or relay"
        ));
    }
    (longest > LABEL_MAX).then(|| {
        format!(
            "makes a hostname with a part of {longest} characters; DNS allows {LABEL_MAX} between two dots"
        )
    })
}

// The authority of a relay: what of its URL matters.

/// The port that an https URL need not name.
const DEFAULT_PORT: u16 = 443;

/// The host and port of a relay. Two URLs with the same authority are the same relay, whatever their scheme and path.
///
/// The host is in lower case. Display writes the port only if it is not 443: `relay.example.com`, `relay.example.com:8443`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Authority {
    host: String,
    port: u16,
}

impl Authority {
    /// Reads the authority of a relay's URL; none if the URL does not match the pattern in the CRD of PortalExposes.
    pub(crate) fn parse(url: &str) -> Option<Self> {
        let rest = url
            .strip_prefix("wss://")
            .or_else(|| url.strip_prefix("https://"))?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match authority.split_once(':') {
            Some((host, port)) => (host, read_port(port)?),
            None => (authority, DEFAULT_PORT),
        };
        let is_relay = is_hostname(host) && path.bytes().all(is_in_path);
        is_relay.then(|| Self {
            host: host.to_ascii_lowercase(),
            port,
        })
    }

    /// Returns the hostname that the relay serves an application under.
    pub(crate) fn hostname(&self, app: &str) -> String {
        format!("{app}.{}", self.host)
    }

    /// Returns the URL that the public uses for an application at this relay.
    pub(crate) fn public_url(&self, app: &str) -> String {
        format!("https://{app}.{self}")
    }

    /// Returns whether the host is a name that the cluster's own name servers give to a Service, whatever the cluster's domain is:
    /// `web`, `web.team.svc`, `web.team.svc.example.com`, and all names under `cluster.local`.
    ///
    /// A name on the Internet with a label `svc` in its middle is taken for one too.
    pub(crate) fn is_of_cluster(&self) -> bool {
        let mut labels = self.host.split('.');
        labels.next();
        let mut others = labels.peekable();
        others.peek().is_none()
            || others.any(|label| label == "svc")
            || self.host.ends_with(".cluster.local")
            || self.host == "cluster.local"
    }

    /// Returns the relay's own URL. The tunnel client knows no other scheme than https.
    pub(crate) fn url(&self) -> String {
        format!("https://{self}")
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host)?;
        match self.port {
            DEFAULT_PORT => Ok(()),
            port => write!(f, ":{port}"),
        }
    }
}

/// A port from 1 to 65535, without sign and leading zeros.
fn read_port(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| is_plain)
}

/// Whether the last label begins with a letter too: a host that ends in a digit's label may be an IP address.
fn is_hostname(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or_default();
    host.split('.').all(is_label) && last.starts_with(|c: char| c.is_ascii_alphabetic())
}

fn is_label(label: &str) -> bool {
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = label.as_bytes();
    let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    is_end(bytes.first()) && is_end(bytes.last()) && bytes.iter().all(is_inner)
}

fn is_in_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._~/-".contains(&byte)
}

#[cfg(test)]
mod tests;
