//! What is wrong with a PortalExpose by itself.
//!
//! The API server checks most of it when an object is written. An object that was stored under an older schema may still have it.

use std::collections::BTreeMap;
use std::fmt;

use podloom_api::names::portal::reason;
use podloom_api::{PortalApp, PortalExposeSpec, RelayTarget};
use podloom_engine::finding::FieldPath;
use podloom_syntax::names;

/// The longest hostname that DNS has, and the longest label in it.
const HOSTNAME_MAX: usize = 253;
const LABEL_MAX: usize = 63;
/// How many relays a PortalExpose may have.
pub(super) const TARGETS_MAX: usize = 16;

/// A relay that a PortalExpose asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Its name. Only the status has it.
    pub name: String,
    /// The relay.
    pub authority: Authority,
}

/// What is wrong with the spec of a PortalExpose, and where. The display is a sentence that names the field and what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpecProblem {
    /// The field.
    pub path: FieldPath,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is no DNS label.
    NotALabel,
    /// It is no port.
    NotAPort,
    /// This many relays are none or too many.
    Count(usize),
    /// It is the same name as this other field.
    DuplicateName(FieldPath),
    /// It is not the URL of a relay.
    InvalidUrl,
    /// It leads to the same relay as this other field.
    DuplicateRelay(Authority, FieldPath),
    /// The public hostname has a label that is too long, of that many characters.
    LabelTooLong(usize),
    /// The public hostname is too long, with that many characters.
    HostnameTooLong(usize),
}

impl SpecProblem {
    /// Returns the reason of the condition SpecValid.
    pub(crate) fn reason(&self) -> &'static str {
        match self.fault {
            Fault::NotALabel | Fault::NotAPort | Fault::Count(_) => reason::INVALID_SPEC,
            Fault::InvalidUrl => reason::INVALID_RELAY_URL,
            Fault::DuplicateName(_) | Fault::DuplicateRelay(..) => reason::DUPLICATE_RELAY,
            Fault::LabelTooLong(_) | Fault::HostnameTooLong(_) => reason::HOSTNAME_TOO_LONG,
        }
    }
}

/// Returns the relays of a PortalExpose in the order of its spec, or the first problem.
pub(crate) fn check(spec: &PortalExposeSpec) -> Result<Vec<Target>, SpecProblem> {
    let (targets, problems) = examine(spec);
    problems.into_iter().next().map_or(Ok(targets), Err)
}

/// Returns the usable relays of a PortalExpose, and all problems.
pub(super) fn examine(spec: &PortalExposeSpec) -> (Vec<Target>, Vec<SpecProblem>) {
    let mut problems = of_app(&spec.app);
    let listed = &spec.relay.targets;
    if listed.is_empty() || listed.len() > TARGETS_MAX {
        let fault = Fault::Count(listed.len());
        problems.push(problem(list(), fault));
    }
    let mut named = BTreeMap::new();
    let mut relays = BTreeMap::new();
    let mut targets = Vec::new();
    for (index, target) in listed.iter().enumerate().take(TARGETS_MAX) {
        let RelayTarget { name, url } = target;
        let field = |field: &str| list().index(index).key(field);
        if let Some(first) = named.insert(name, field("name")) {
            problems.push(problem(field("name"), Fault::DuplicateName(first)));
        }
        let Some(authority) = Authority::parse(url) else {
            problems.push(problem(field("url"), Fault::InvalidUrl));
            continue;
        };
        if let Some(fault) = too_long(&authority.hostname(&spec.app.name)) {
            problems.push(problem(field("url"), fault));
        }
        if let Some(first) = relays.insert(authority.clone(), field("url")) {
            let fault = Fault::DuplicateRelay(authority.clone(), first);
            problems.push(problem(field("url"), fault));
        }
        let name = name.clone();
        targets.push(Target { name, authority });
    }
    (targets, problems)
}

fn of_app(app: &PortalApp) -> Vec<SpecProblem> {
    let labels = [
        ("spec.app.name", &app.name),
        ("spec.app.service.name", &app.service.name),
    ];
    let bad = labels
        .into_iter()
        .filter(|(_, name)| names::dns_label(name).is_err());
    let bad = bad.map(|(field, _)| problem(FieldPath::dotted(field), Fault::NotALabel));
    let mut problems: Vec<_> = bad.collect();
    if !(1..=65_535).contains(&app.service.port) {
        let path = FieldPath::dotted("spec.app.service.port");
        problems.push(problem(path, Fault::NotAPort));
    }
    problems
}

fn list() -> FieldPath {
    FieldPath::dotted("spec.relay.targets")
}

fn problem(path: FieldPath, fault: Fault) -> SpecProblem {
    SpecProblem { path, fault }
}

fn too_long(hostname: &str) -> Option<Fault> {
    let longest = hostname.split('.').map(str::len).max().unwrap_or_default();
    match hostname.len() {
        length @ HOSTNAME_OVER.. => Some(Fault::HostnameTooLong(length)),
        _ if longest > LABEL_MAX => Some(Fault::LabelTooLong(longest)),
        _ => None,
    }
}

const HOSTNAME_OVER: usize = HOSTNAME_MAX + 1;

impl fmt::Display for SpecProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, fault } = self;
        write!(f, "{path} {fault}")
    }
}

impl fmt::Display for Fault {
    /// Writes the sentence without its subject, the field.
    ///
    /// It never quotes a URL: an old one may have a password in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotALabel => f.write_str(
                "is no DNS label; write 1 to 63 lower-case letters, digits and dashes, with no dash at either end",
            ),
            Self::NotAPort => f.write_str("is no port; write a number from 1 to 65535"),
            Self::Count(count) => write!(f, "has {count} relays; list 1 to {TARGETS_MAX}"),
            Self::DuplicateName(other) => {
                write!(f, "is the same as {other}; give each target a name of its own")
            }
            Self::InvalidUrl => f.write_str(
                "is no relay URL; write wss:// or https://, a hostname that is no IP address, and if needed a port and a path of \
                 letters, digits and the characters . _ ~ - /",
            ),
            Self::DuplicateRelay(authority, other) => write!(
                f,
                "is the relay {authority}, as {other} is; remove one of the two: scheme and path make no other relay"
            ),
            Self::LabelTooLong(length) => write!(
                f,
                "makes a hostname with a part of {length} characters; DNS allows {LABEL_MAX} between two dots"
            ),
            Self::HostnameTooLong(length) => write!(
                f,
                "makes a hostname of {length} characters; DNS allows {HOSTNAME_MAX}, so use a shorter spec.app.name or relay"
            ),
        }
    }
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
