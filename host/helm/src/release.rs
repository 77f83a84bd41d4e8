//! A release.

use std::fmt;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::hook::{Hook, HookEvent};
use crate::manifest::{self, ChartObjects};
use crate::payload::{self, PayloadError};
use crate::record::Record;
use crate::yaml::ManifestError;

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
    /// It is installed.
    Deployed,
    /// Its objects are gone; only its records are left.
    Uninstalled,
    /// A later revision has replaced it.
    Superseded,
    /// It could not be installed.
    Failed,
    /// It is being uninstalled.
    Uninstalling,
    /// It is being installed.
    PendingInstall,
    /// It is being installed over an earlier one.
    PendingUpgrade,
    /// It is being installed over a later one.
    PendingRollback,
    /// Anything else.
    #[serde(other)]
    Unknown,
}

impl Release {
    /// Reads the payload of a record: the value of `release` in its Secret, without the base64 of the API.
    ///
    /// It is Helm's base64 of JSON, compressed with gzip or not. A payload of another release, namespace or revision than its
    /// record's is an error: what belongs to a release is decided by these names.
    pub fn decode(data: &[u8], record: Record<'_>) -> Result<Self, PayloadError> {
        let mut payload = payload::unpack(data)?;
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
        payload::pack(&payload)
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

#[cfg(test)]
mod tests;
