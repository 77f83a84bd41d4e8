//! Where a request goes, and as whom.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use podloom_engine::outbound::{Tls, Url};
use serde::{Serialize, Serializer};

/// A text that is never shown: `Debug` hides it, and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Hidden(String);

impl Hidden {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text. Use it for nothing but requests.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// Whose infrastructures they are: with the secret itself, or with where it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner<S = Hidden> {
    /// An account with a password. IM knows the owner by both.
    Basic { username: String, password: S },
    /// An account with a token.
    Token(S),
}

impl<S> Owner<S> {
    /// Returns the password or the token.
    pub(crate) fn secret(&self) -> &S {
        let (Self::Basic { password, .. } | Self::Token(password)) = self;
        password
    }
}

/// How IM logs in to the cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CloudLogin {
    /// The name of the Cloud; IM gets it as `cloud-<name>`.
    pub(crate) name: String,
    /// IM's word for this type of cloud.
    pub(crate) kind: String,
    pub(crate) host: Option<String>,
    /// Everything else that is not secret.
    pub(crate) parameters: BTreeMap<String, String>,
    /// Everything else that is.
    pub(crate) secrets: BTreeMap<String, Hidden>,
}

impl CloudLogin {
    /// Returns the id by which IM knows the cloud.
    pub(crate) fn id(&self) -> String {
        format!("cloud-{}", self.name)
    }
}

/// Where a request goes, and as whom. `Debug` shows where.
#[derive(Clone)]
pub(crate) struct Target {
    /// The URL of IM's REST API, as the provider has it.
    pub(crate) url: String,
    pub(crate) tls: Tls,
    /// The namespace of the provider; empty for one of the whole cluster, which an administrator wrote.
    pub(crate) tenant: String,
    pub(crate) owner: Owner,
    /// None for requests that are about no cloud.
    pub(crate) cloud: Option<CloudLogin>,
}

impl Target {
    /// Returns all secret values.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &str> {
        let owner = self.owner.secret();
        let cloud = self.cloud.iter().flat_map(|cloud| cloud.secrets.values());
        std::iter::once(owner).chain(cloud).map(Hidden::reveal)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.parse::<Url>().ok();
        f.debug_struct("Target")
            .field("origin", &url.as_ref().map(Url::origin))
            .field("tenant", &self.tenant)
            .finish_non_exhaustive()
    }
}

// The header `Authorization`: a JSON array with a login to IM and one to the cloud.

/// Returns the header for a target.
pub(super) fn authorization(target: &Target) -> String {
    let mut im = vec![("id", "im"), ("type", "InfrastructureManager")];
    match &target.owner {
        Owner::Basic { username, password } => {
            im.extend([
                ("username", username.as_str()),
                ("password", password.reveal()),
            ]);
        }
        Owner::Token(token) => im.push(("token", token.reveal())),
    }
    let mut header = format!("[{}", object(&im));
    if let Some(cloud) = &target.cloud {
        header.push(',');
        header += &login(cloud);
    }
    header.push(']');
    header
}

fn login(cloud: &CloudLogin) -> String {
    let id = cloud.id();
    let mut fields = vec![("id", id.as_str()), ("type", cloud.kind.as_str())];
    fields.extend(cloud.host.iter().map(|host| ("host", host.as_str())));
    let parameters = cloud.parameters.iter();
    fields.extend(parameters.map(|(name, value)| (name.as_str(), value.as_str())));
    let secrets = cloud.secrets.iter();
    fields.extend(secrets.map(|(name, value)| (name.as_str(), value.reveal())));
    object(&fields)
}

fn object(fields: &[(&str, &str)]) -> String {
    let fields: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{}:{}", quoted(name), quoted(value)))
        .collect();
    format!("{{{}}}", fields.join(","))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

/// Escapes all but the plainest characters, as JSON allows it.
///
/// IM takes the two characters `\n` in the header for the end of a line, and reads bytes that are not ASCII as Latin-1.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_ascii_alphanumeric() || " -_.:/@,".contains(char) {
            escaped.push(char);
            continue;
        }
        for unit in char.encode_utf16(&mut [0; 2]) {
            // Writing into a String does not fail.
            let _written = write!(escaped, "\\u{unit:04x}");
        }
    }
    escaped
}

// The ids of infrastructures.

/// The id that IM gave an infrastructure: a UUID in lower case. So it can stand in a path as it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct InfrastructureId(String);

impl InfrastructureId {
    /// Returns the id, or none if the text is no UUID in lower case.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let groups: Vec<&str> = text.split('-').collect();
        let is_hex = |group: &&str| {
            let mut bytes = group.bytes();
            bytes.all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
        (lengths == [8, 4, 4, 4, 12] && groups.iter().all(is_hex)).then(|| Self(text.to_owned()))
    }

    /// Returns the id as it is written.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InfrastructureId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for InfrastructureId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}
