//! What IM answers.

use std::collections::BTreeMap;
use std::fmt;

use http::HeaderMap;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::call::Call;
use super::failure::Failure;
use super::target::InfrastructureId;
use super::words;

/// The header with the id of a new infrastructure.
const ID_HEADER: &str = "InfID";
/// The longest version.
const VERSION_MAX: usize = 64;
/// The most machines that an infrastructure may have.
const MACHINES_MAX: usize = 10_000;

/// An answer with the status 200.
#[derive(Clone, PartialEq)]
pub(crate) enum Answer {
    Version(String),
    List(Vec<InfrastructureId>),
    Created(InfrastructureId),
    /// IM has accepted the request.
    Done,
    State(Reading),
    /// The outputs of the template; they may be secret.
    Outputs(Map<String, Value>),
    /// The template as IM has it; it may have secrets.
    Template(String),
    /// The end of the log, fit to be shown.
    Log(String),
    Quotas,
}

#[derive(Deserialize)]
struct States {
    state: String,
    #[serde(default)]
    vm_states: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Uri {
    uri: String,
}

impl Answer {
    /// Reads the answer to a call.
    ///
    /// # Errors
    ///
    /// Returns a failure if it has another form than IM gives it. Nothing of the answer is repeated.
    pub(super) fn read(call: &Call, headers: &HeaderMap, body: &[u8]) -> Result<Self, Failure> {
        match call {
            Call::Version => version(body),
            Call::List => {
                let uris: Vec<Uri> = field(body, "uri-list")?;
                // An owner may have other infrastructures, but each has an id.
                let ids = uris.iter().map(|uri| id_of(&uri.uri));
                ids.collect::<Option<_>>()
                    .map(Self::List)
                    .ok_or_else(|| Failure::unreadable("an infrastructure has no id"))
            }
            Call::Create { .. } => created(headers, body),
            Call::Update { .. }
            | Call::Reconfigure { .. }
            | Call::Start { .. }
            | Call::Delete { .. }
            | Call::AddOwner { .. } => match words::is_page(body) {
                true => Err(Failure::unreadable("it is a page for people")),
                false => Ok(Self::Done),
            },
            Call::State { .. } => state(body),
            Call::Outputs { .. } => Ok(Self::Outputs(field(body, "outputs")?)),
            Call::Template { .. } => Ok(Self::Template(field(body, "tosca")?)),
            Call::Log { .. } => Ok(Self::Log(field(body, "contmsg")?)),
            Call::Quotas { .. } => json::<Value>(body).map(|_| Self::Quotas),
        }
    }
}

fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body)
        .map_err(|_| Failure::unreadable("it is not the JSON that is expected"))
}

/// Reads a field of an answer, which may have others.
fn field<T: DeserializeOwned>(body: &[u8], name: &str) -> Result<T, Failure> {
    let mut fields: Map<String, Value> = json(body)?;
    let value = fields.remove(name).unwrap_or_default();
    serde_json::from_value(value)
        .map_err(|_| Failure::unreadable("it is not the JSON that is expected"))
}

fn version(body: &[u8]) -> Result<Answer, Failure> {
    let given = field(body, "version");
    let given: String = given.unwrap_or_else(|_| String::from_utf8_lossy(body).into_owned());
    let version = given.trim().trim_matches('"');
    let is_plain = |char: char| char.is_ascii_alphanumeric() || ".-+_".contains(char);
    if version.is_empty() || version.len() > VERSION_MAX || !version.chars().all(is_plain) {
        return Err(Failure::unreadable("it is no version"));
    }
    Ok(Answer::Version(version.to_owned()))
}

fn created(headers: &HeaderMap, body: &[u8]) -> Result<Answer, Failure> {
    let header = headers.get(ID_HEADER).and_then(|value| value.to_str().ok());
    let uri: Option<String> = field(body, "uri").ok();
    let id = uri.and_then(|uri| id_of(&uri));
    id.or_else(|| InfrastructureId::parse(header?))
        .map(Answer::Created)
        .ok_or_else(|| Failure::unreadable("the new infrastructure has no id"))
}

/// The last part of the URI of an infrastructure.
fn id_of(uri: &str) -> Option<InfrastructureId> {
    InfrastructureId::parse(uri.rsplit('/').next()?)
}

fn state(body: &[u8]) -> Result<Answer, Failure> {
    let state: States = field(body, "state")?;
    if state.vm_states.len() > MACHINES_MAX {
        return Err(Failure::unreadable("it has too many machines"));
    }
    let of = |word: &str| {
        ImState::of(word).ok_or_else(|| Failure::unreadable("a state has an unknown name"))
    };
    let vms = state.vm_states.iter();
    Ok(Answer::State(Reading {
        state: of(&state.state)?,
        vms: vms
            .map(|(id, word)| Ok((id.clone(), of(word)?)))
            .collect::<Result<_, Failure>>()?,
    }))
}

impl fmt::Debug for Answer {
    /// Without what may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => f.debug_tuple("Version").field(version).finish(),
            Self::List(ids) => f.debug_tuple("List").field(&ids.len()).finish(),
            Self::Created(id) => f.debug_tuple("Created").field(id).finish(),
            Self::Done => f.write_str("Done"),
            Self::State(reading) => f.debug_tuple("State").field(reading).finish(),
            Self::Outputs(_) => f.write_str("Outputs"),
            Self::Template(_) => f.write_str("Template"),
            Self::Log(_) => f.write_str("Log"),
            Self::Quotas => f.write_str("Quotas"),
        }
    }
}

// The state of an infrastructure, in IM's words.

/// What IM calls the state of an infrastructure or of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ImState {
    /// It is being created.
    Pending,
    /// The machines run, and are being configured.
    Running,
    /// All is configured.
    Configured,
    /// The configuration failed.
    Unconfigured,
    /// The machines are stopped.
    Stopped,
    /// The machines are off.
    Off,
    /// The creation failed.
    Failed,
    /// IM does not know.
    Unknown,
    /// It is being deleted.
    Deleting,
}

impl ImState {
    const ALL: [Self; 9] = [
        Self::Pending,
        Self::Running,
        Self::Configured,
        Self::Unconfigured,
        Self::Stopped,
        Self::Off,
        Self::Failed,
        Self::Unknown,
        Self::Deleting,
    ];

    /// Returns the state of that word; none if IM has no such state.
    pub(crate) fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Returns the state of a word that was stored; `Unknown` for a word that is none.
    pub(crate) fn parse(word: &str) -> Self {
        Self::of(word).unwrap_or(Self::Unknown)
    }

    /// Returns IM's word.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Configured => "configured",
            Self::Unconfigured => "unconfigured",
            Self::Stopped => "stopped",
            Self::Off => "off",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Deleting => "deleting",
        }
    }
}

impl fmt::Display for ImState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The state of an infrastructure and of each of its machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Reading {
    pub(crate) state: ImState,
    /// The state of each machine, by IM's id of it.
    pub(crate) vms: BTreeMap<String, ImState>,
}
