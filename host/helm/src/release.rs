//! A release, with its records and hooks.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::manifest::{self, ChartObject, ChartObjects, Document, ManifestError};

/// One revision of a release.
///
/// `Debug` shows neither the manifest nor the values: both may hold secrets.
#[derive(Clone)]
pub struct Release {
    /// Its name.
    pub name: String,
    /// Its namespace, which is also that of all objects that name none.
    pub namespace: String,
    /// The revision: 1 is the first.
    pub revision: i64,
    /// The status of this revision.
    pub status: Status,
    /// The manifests of its objects, as YAML.
    pub manifest: String,
    hooks: Vec<Hook>,
    /// The payload with all that we do not know, for it is written back.
    payload: Value,
}

/// The status of a revision.
#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Its objects are gone; only its records are left.
    Uninstalled,
    /// It is being uninstalled.
    Uninstalling,
    /// Anything else.
    #[serde(other)]
    Other,
}

impl Release {
    /// Reads the payload of a record: the value of `release` in its Secret, without the base64 of the API.
    ///
    /// It is Helm's base64 of JSON, compressed with gzip or not. A payload of another release, namespace or revision than its
    /// record's is an error: what belongs to a release is decided by these names.
    pub fn decode(data: &[u8], record: Record<'_>) -> Result<Self, PayloadError> {
        let mut payload = unpack(data)?;
        let name = text(&payload, "name")?;
        let namespace = text(&payload, "namespace")?;
        let revision = payload["version"].as_i64();
        let revision = revision.ok_or(PayloadError::Field("version"))?;
        for (field, is_same) in [
            ("name", name == record.release),
            ("namespace", namespace == record.namespace),
            ("version", revision == record.revision),
        ] {
            if !is_same {
                return Err(PayloadError::Mismatch(field));
            }
        }
        let status = Status::deserialize(&payload["info"]["status"]);
        let hooks = Option::<Vec<Hook>>::deserialize(&payload["hooks"]);
        Ok(Self {
            status: status.map_err(|_| PayloadError::Field("info.status"))?,
            hooks: hooks
                .map_err(|_| PayloadError::Field("hooks"))?
                .unwrap_or_default(),
            manifest: match payload["manifest"].take() {
                Value::String(manifest) => manifest,
                Value::Null => String::new(),
                _ => return Err(PayloadError::Field("manifest")),
            },
            name,
            namespace,
            revision,
            payload,
        })
    }

    /// Returns the hooks that run at an event, in their order: by weight, those of equal weight by name.
    pub fn hooks(&self, event: HookEvent) -> Vec<&Hook> {
        let hooks = self.hooks.iter();
        let mut hooks: Vec<&Hook> = hooks.filter(|hook| hook.runs_at(event)).collect();
        hooks.sort_by(|a, b| (a.weight, &a.name).cmp(&(b.weight, &b.name)));
        hooks
    }

    /// Returns which objects are deleted with the release, in this order, and which stay.
    ///
    /// A manifest that cannot be read to its end is an error. A part of it could be the wrong part: an object that is named
    /// before the mistake may have to be deleted after one that is named behind it.
    pub fn objects(&self) -> Result<ChartObjects, ManifestError> {
        manifest::read(&self.manifest, &self.namespace)
    }

    /// Returns the payload of this revision while it is being uninstalled, since a time in RFC 3339.
    ///
    /// Its Secret gets the label of the status too: `uninstalling`.
    pub fn uninstalling(&self, now: &str) -> std::io::Result<Vec<u8>> {
        let mut payload = self.payload.clone();
        payload["manifest"] = self.manifest.as_str().into();
        let info = &mut payload["info"];
        info["status"] = json!("uninstalling");
        info["deleted"] = now.into();
        // Helm's own words.
        info["description"] = json!("Deletion in progress (or silently failed)");
        pack(&payload)
    }
}

impl fmt::Debug for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Release")
            .field("name", &self.name)
            .field("namespace", &self.namespace)
            .field("revision", &self.revision)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

fn text(payload: &Value, field: &'static str) -> Result<String, PayloadError> {
    let text = payload.get(field).and_then(Value::as_str);
    let text = text.filter(|text| !text.is_empty());
    text.map(str::to_owned).ok_or(PayloadError::Field(field))
}

/// The type of the Secrets.
pub const SECRET_TYPE: &str = "helm.sh/release.v1";

/// The key of the payload in such a Secret.
pub const SECRET_KEY: &str = "release";

/// Labels of the Secrets.
pub mod label {
    /// Who owns it, and the value of this label.
    pub const OWNER: (&str, &str) = ("owner", "helm");
    /// The name of the release.
    pub const NAME: &str = "name";
    /// The status of the release.
    pub const STATUS: &str = "status";
}

/// Annotations on the objects of a release.
pub mod annotation {
    /// The name of the release.
    pub const RELEASE_NAME: &str = "meta.helm.sh/release-name";
    /// The namespace of the release.
    pub const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";
}

/// Which revision of which release a Secret holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record<'a> {
    /// The name of the release.
    pub release: &'a str,
    /// Its namespace, which is that of the Secret.
    pub namespace: &'a str,
    /// The revision: 1 is the first.
    pub revision: i64,
}

impl Record<'_> {
    /// Returns the name of the Secret.
    pub fn secret_name(&self) -> String {
        format!("sh.helm.release.v1.{}.v{}", self.release, self.revision)
    }

    /// Returns whether these annotations of an object say that it belongs to the release.
    ///
    /// Ask this of objects outside the namespace of the release, as they are in the cluster: whoever writes records could name
    /// any object in a manifest.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    ///
    /// use podloom_helm::Record;
    ///
    /// let record = Record { release: "shop", namespace: "demo", revision: 3 };
    /// let annotations = [("meta.helm.sh/release-name", "shop"), ("meta.helm.sh/release-namespace", "demo")];
    /// let mut annotations = BTreeMap::from(annotations.map(|(key, value)| (key.to_owned(), value.to_owned())));
    /// assert!(record.owns(&annotations));
    /// annotations.remove("meta.helm.sh/release-namespace");
    /// assert!(!record.owns(&annotations));
    /// ```
    pub fn owns(&self, annotations: &BTreeMap<String, String>) -> bool {
        let is = |key: &str, value: &str| annotations.get(key).is_some_and(|own| own == value);
        is(annotation::RELEASE_NAME, self.release)
            && is(annotation::RELEASE_NAMESPACE, self.namespace)
    }

    /// Returns whether these annotations of an object say that it belongs to another release, which has taken it over. Objects that were
    /// installed by an old Helm say nothing.
    pub fn is_of_another(&self, annotations: &BTreeMap<String, String>) -> bool {
        let is_other =
            |key: &str, value: &str| annotations.get(key).is_some_and(|own| own != value);
        is_other(annotation::RELEASE_NAME, self.release)
            || is_other(annotation::RELEASE_NAMESPACE, self.namespace)
    }
}

// How a payload is packed: base64 of gzip of JSON.

/// How many bytes the JSON of a payload may have. A Secret holds 1 MiB, which can decompress to a thousand times as much.
pub const SIZE_MAX: usize = 32 * 1024 * 1024;

/// How many values the JSON of a payload may have: each takes far more memory than the two bytes that it takes in the text.
/// Templates and manifests are one value each, so a large chart has a few thousand.
const VALUES_MAX: usize = 100_000;

/// What gzip begins with.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Why the payload of a record cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// It is not base64.
    #[error("the payload of the release is not base64")]
    Base64,
    /// It cannot be decompressed.
    #[error("the payload of the release cannot be decompressed")]
    Gzip {
        /// Why not.
        source: std::io::Error,
    },
    /// It is too large once it is decompressed.
    #[error("the payload of the release has more than {} MiB", SIZE_MAX / 1024 / 1024)]
    TooLarge,
    /// It has too many values.
    #[error("the payload of the release has more than {VALUES_MAX} values")]
    TooManyValues,
    /// It is no JSON, or is nested too deeply.
    #[error("the payload of the release is not JSON: line {line}, column {column}")]
    Json {
        /// The line of the mistake, from 1.
        line: usize,
        /// The column of the mistake, from 1.
        column: usize,
    },
    /// It is JSON, but no release: a field is missing or has another type.
    #[error("the payload of the release has no usable field {0}")]
    Field(&'static str),
    /// It is another release than that of its Secret, or another revision.
    #[error("the payload is not that of its Secret: {0} is another")]
    Mismatch(&'static str),
}

/// Returns how many bytes the JSON of a payload has, and keeps none of them: whoever reads many payloads at once can make room before.
///
/// # Errors
///
/// If it cannot be decompressed, or is too large.
pub fn unpacked_size(data: &[u8]) -> Result<usize, PayloadError> {
    let packed = decoded(data)?;
    let size = match packed.starts_with(&GZIP) {
        true => {
            let counted = std::io::copy(&mut bounded(&packed), &mut std::io::sink());
            let counted = counted.map_err(|source| PayloadError::Gzip { source })?;
            usize::try_from(counted).unwrap_or(usize::MAX)
        }
        false => packed.len(),
    };
    match size > SIZE_MAX {
        true => Err(PayloadError::TooLarge),
        false => Ok(size),
    }
}

fn decoded(data: &[u8]) -> Result<Vec<u8>, PayloadError> {
    // Go's decoder skips line breaks.
    let text: Vec<u8> = data
        .iter()
        .copied()
        .filter(|byte| !matches!(byte, b'\r' | b'\n'))
        .collect();
    STANDARD.decode(text).map_err(|_| PayloadError::Base64)
}

/// Decompresses up to one byte more than is allowed.
fn bounded(packed: &[u8]) -> impl Read {
    let most = u64::try_from(SIZE_MAX + 1).unwrap_or(u64::MAX);
    MultiGzDecoder::new(packed).take(most)
}

/// Unpacks a payload.
pub(crate) fn unpack(data: &[u8]) -> Result<Value, PayloadError> {
    let packed = decoded(data)?;
    let json = match packed.starts_with(&GZIP) {
        true => inflate(&packed)?,
        false => packed,
    };
    if json.len() > SIZE_MAX {
        return Err(PayloadError::TooLarge);
    }
    if values(&json) > VALUES_MAX {
        return Err(PayloadError::TooManyValues);
    }
    serde_json::from_slice(&json).map_err(|error| PayloadError::Json {
        line: error.line(),
        column: error.column(),
    })
}

fn inflate(packed: &[u8]) -> Result<Vec<u8>, PayloadError> {
    let mut json = Vec::new();
    bounded(packed)
        .read_to_end(&mut json)
        .map_err(|source| PayloadError::Gzip { source })?;
    Ok(json)
}

/// Returns how many values a JSON text has at most: they are separated by commas, except for the first in each list or object.
fn values(json: &[u8]) -> usize {
    let mut count = 1;
    let mut in_string = false;
    let mut escaped = false;
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}

/// Packs a payload as Helm does.
pub(crate) fn pack(payload: &Value) -> std::io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    serde_json::to_writer(&mut packed, payload)?;
    packed.flush()?;
    Ok(STANDARD.encode(packed.finish()?).into_bytes())
}

/// The kind whose objects are never deleted: all objects of the kinds that they define would go with them.
const DEFINITION: &str = "CustomResourceDefinition";

/// A hook: an object that is created at an event, and awaited.
///
/// `Debug` does not show its manifest, which may hold secrets.
#[derive(Deserialize, Clone, PartialEq, Eq)]
pub struct Hook {
    /// Its name: that of its object.
    pub name: String,
    /// The kind of its object.
    pub kind: String,
    /// The manifest of its object, as YAML.
    pub manifest: String,
    /// Hooks with less weight run first.
    #[serde(default, deserialize_with = "or_default")]
    pub weight: i64,
    #[serde(default, deserialize_with = "or_default")]
    events: Vec<HookEvent>,
    #[serde(default, deserialize_with = "or_default")]
    delete_policies: Vec<HookDeletePolicy>,
}

/// When a hook runs.
#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum HookEvent {
    /// Before the objects of the release are deleted.
    PreDelete,
    /// After that.
    PostDelete,
    /// At another event, which is no part of uninstalling.
    #[serde(other)]
    Other,
}

/// When the object of a hook is deleted.
#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum HookDeletePolicy {
    /// Before it is created, if an earlier run has left one. This is so if the hook names no policy.
    BeforeHookCreation,
    /// After all hooks of the event have succeeded.
    HookSucceeded,
    /// After it has failed.
    HookFailed,
    /// A policy that we do not know.
    #[serde(other)]
    Other,
}

/// Go writes empty lists as null.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl Hook {
    /// Returns whether it runs at this event.
    pub fn runs_at(&self, event: HookEvent) -> bool {
        self.events.contains(&event)
    }

    /// Returns whether its object is deleted at this time. A CustomResourceDefinition never is.
    pub fn is_deleted(&self, policy: HookDeletePolicy) -> bool {
        if self.kind == DEFINITION {
            return false;
        }
        match self.delete_policies.as_slice() {
            [] => policy == HookDeletePolicy::BeforeHookCreation,
            policies => policies.contains(&policy),
        }
    }

    /// Returns the object that is created, in the namespace of the release unless it names its own.
    ///
    /// A hook that has several objects, or none, or another one than it says, is an error. So is an object without a name, which
    /// could not be found again.
    pub fn document(&self, namespace: &str) -> Result<Value, ManifestError> {
        self.identity(namespace)?;
        only(manifest::hook_documents(&self.manifest)?)
    }

    /// Returns which object that is. It takes little memory, whatever the object has.
    ///
    /// # Errors
    ///
    /// As [`document`](Self::document).
    pub fn identity(&self, namespace: &str) -> Result<ChartObject, ManifestError> {
        let head: Document = only(manifest::hook_documents(&self.manifest)?)?;
        let object = manifest::object(head, namespace).ok_or(ManifestError::NoKind(1))?;
        match object.name.is_empty() || object.name != self.name || object.kind != self.kind {
            true => Err(ManifestError::OtherHookObject),
            false => Ok(object),
        }
    }
}

/// The one document of a hook.
fn only<T>(documents: Vec<T>) -> Result<T, ManifestError> {
    let one = <[T; 1]>::try_from(documents);
    one.map(|[one]| one)
        .map_err(|_| ManifestError::NoHookObject)
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook")
            .field("kind", &self.kind)
            .field("name", &self.name)
            .field("weight", &self.weight)
            .field("events", &self.events)
            .field("delete_policies", &self.delete_policies)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
