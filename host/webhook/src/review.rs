//! AdmissionReview of `admission.k8s.io/v1`, as far as we read and write it.
//!
//! A type of our own: kube's cannot hold an object as it came, and the object must keep the fields that our types do not know.

use std::borrow::Cow;
use std::net::IpAddr;
use std::str::Utf8Error;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memchr::memmem;
use podloom_syntax::text::is_hidden;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The one version that the API server sends and expects.
const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// How many warnings one answer has at most. The API server shows at most 4096 characters of all webhooks' warnings.
const WARNINGS: usize = 16;
/// How many bytes one warning has at most. The API server cuts longer ones at 256 characters if there are many.
const WARNING_BYTES: usize = 256;
/// The longest names of Kubernetes. Strangers may send longer ones.
pub(crate) const NAME_BYTES: usize = 253;
/// How long the ID of a review may be. Those of the API server have 36 bytes.
const UID_BYTES: usize = 128;
/// How the object of a review begins.
const OBJECT: &str = "\"object\":";
/// How long the part before the object may be. It names the sender, with all of its groups.
const HEAD_BYTES: usize = 1 << 20;
/// How the patch of an answer begins.
const PATCH: &str = ",\"patch\":\"";
/// How an answer ends.
const END: &str = "}}";
/// How many bytes a denial's message has at most. It ends in Events, which take 1 kB with the API server's own words.
const MESSAGE_BYTES: usize = 4096;

/// What the API server asks.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReviewRequest {
    /// The ID of the review; the answer repeats it.
    pub(crate) uid: String,
    /// The kind of the object.
    pub(crate) kind: ObjectKind,
    /// The object's namespace; empty for cluster-scoped objects.
    #[serde(default)]
    pub(crate) namespace: String,
    /// The operation.
    pub(crate) operation: Operation,
    /// Who sent the request.
    #[serde(default)]
    pub(crate) user_info: UserInfo,
    /// The new object; null for DELETE.
    #[serde(default)]
    pub(crate) object: Value,
    /// The object as it is stored; null for CREATE.
    #[serde(default)]
    pub(crate) old_object: Value,
    /// The subresource; empty for the object itself.
    #[serde(default)]
    pub(crate) sub_resource: String,
    /// Whether the object will not be stored.
    #[serde(default)]
    pub(crate) dry_run: Option<bool>,
    /// Who asks: an API server, or anybody who says to be one. Whatever else is said of the object may be invented.
    #[serde(skip)]
    pub(crate) peer: Option<IpAddr>,
}

/// Who shares turns with others: the peer, and the namespace that it speaks for.
pub(crate) type Tenant = (Option<IpAddr>, String);

impl ReviewRequest {
    /// Whose turns it takes.
    pub(crate) fn tenant(&self) -> Tenant {
        let namespace = shorten(&self.namespace, NAME_BYTES);
        (self.peer, namespace.into_owned())
    }
}

/// A group, version and kind.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub(crate) struct ObjectKind {
    #[serde(default)]
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

/// What happens to the object.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

/// Who sent the request.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct UserInfo {
    #[serde(default)]
    pub(crate) username: String,
    #[serde(default)]
    pub(crate) groups: Vec<String>,
}

/// What is read of a review that is too large: hardly any memory is free for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Outline {
    uid: String,
    pub(crate) kind: ObjectKind,
    pub(crate) operation: Operation,
    #[serde(default)]
    pub(crate) sub_resource: String,
}

/// The envelope of a request. The object inside is read only once.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Incoming<R> {
    api_version: String,
    kind: String,
    request: Option<R>,
}

/// Why a body is no review.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReviewError {
    /// It is not UTF-8, as JSON is.
    #[error("the body is not an AdmissionReview: {0}")]
    NotText(#[from] Utf8Error),
    /// It is not JSON, or fields are missing or have the wrong type.
    #[error("the body is not an AdmissionReview: {0}")]
    Malformed(#[from] serde_json::Error),
    /// It is another kind or version.
    #[error(
        "the body is {kind:?} of {api_version:?}; this webhook answers {KIND} of {API_VERSION}: set admissionReviewVersions: [v1]"
    )]
    Unknown { api_version: String, kind: String },
    /// It has no request.
    #[error("the AdmissionReview has no request")]
    NoRequest,
    /// Its ID is empty or too long.
    #[error("the uid of the AdmissionReview must have 1 to {UID_BYTES} bytes")]
    Uid,
    /// Its namespace is longer than any name.
    #[error("the namespace of the AdmissionReview must have at most {NAME_BYTES} bytes")]
    Namespace,
}

/// Whose objects are in the body of a request, which are not read yet: they would take memory that nobody has asked for.
pub(crate) fn namespace(body: &str) -> Result<String, ReviewError> {
    #[derive(Deserialize)]
    struct Outline {
        request: Option<Request>,
    }
    #[derive(Deserialize)]
    struct Request {
        namespace: Option<String>,
    }
    let of = |body: &str| serde_json::from_str::<Outline>(body);
    let named = |outline: Outline| outline.request?.namespace;
    // To read the objects twice takes longer than a fast plugin.
    let before_the_object = head(body.as_bytes()).and_then(|head| named(of(&head).ok()?));
    let namespace = match before_the_object {
        Some(namespace) => namespace,
        None => named(of(body)?).unwrap_or_default(),
    };
    Ok(shorten(&namespace, NAME_BYTES).into_owned())
}

/// What stands before the object, closed as if nothing followed. In the API server's reviews, it has all that says whose the object is.
fn head(body: &[u8]) -> Option<String> {
    let head = body.get(..HEAD_BYTES).unwrap_or(body);
    let end = memmem::find(head, OBJECT.as_bytes())?;
    let head = head.get(..end)?.trim_ascii_end().strip_suffix(b",")?;
    Some(String::from_utf8_lossy(head).into_owned() + "}}")
}

/// Reads the body of a request.
pub(crate) fn parse(body: &str) -> Result<ReviewRequest, ReviewError> {
    let request: ReviewRequest = read(body)?;
    check_uid(&request.uid)?;
    // Nothing keeps such a text, and nobody is kept waiting by it.
    if request.namespace.len() > NAME_BYTES {
        return Err(ReviewError::Namespace);
    }
    Ok(request)
}

/// Reads what says whether a body that is too large, or cut off, is that of a new pod. It relies on the order of fields of the API
/// server: all that is needed stands before the object.
pub(crate) fn outline(body: &[u8]) -> Option<Outline> {
    let cut = || read(&head(body)?).ok();
    cut().or_else(|| read(str::from_utf8(body).ok()?).ok())
}

impl Outline {
    /// The ID of the review; none if it cannot be one.
    pub(crate) fn uid(&self) -> Option<&str> {
        check_uid(&self.uid).ok().map(|()| self.uid.as_str())
    }
}

fn check_uid(uid: &str) -> Result<(), ReviewError> {
    match uid.is_empty() || uid.len() > UID_BYTES {
        true => Err(ReviewError::Uid),
        false => Ok(()),
    }
}

fn read<'b, R: Deserialize<'b>>(body: &'b str) -> Result<R, ReviewError> {
    let Incoming {
        api_version,
        kind,
        request,
    } = serde_json::from_str(body)?;
    if api_version != API_VERSION || kind != KIND {
        return Err(ReviewError::Unknown {
            api_version: shorten(&api_version, 64).into_owned(),
            kind: shorten(&kind, 64).into_owned(),
        });
    }
    request.ok_or(ReviewError::NoRequest)
}

/// The decision about an object, and what its author should know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// None if it is admitted.
    pub(crate) denial: Option<Denial>,
    /// The JSON Patch, as text; none if nothing changes.
    pub(crate) patch: Option<String>,
    /// What the client shows beside its result.
    pub(crate) warnings: Vec<String>,
}

/// Why an object is not admitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Denial {
    /// The HTTP status code that the client gets.
    pub(crate) code: u16,
    /// The reason in one word, as Kubernetes has it.
    pub(crate) reason: &'static str,
    /// A sentence that says what to change.
    pub(crate) message: String,
}

impl Answer {
    /// The object is admitted as it is.
    pub(crate) fn admitted() -> Self {
        Self::default()
    }

    /// The object breaks a rule; the same object will be denied again.
    pub(crate) fn forbidden(message: String) -> Self {
        Self::denied(403, "Forbidden", message)
    }

    /// The object is invalid.
    pub(crate) fn invalid(message: String) -> Self {
        Self::denied(422, "Invalid", message)
    }

    /// There is no room for the object now; another attempt may succeed.
    pub(crate) fn crowded(message: String) -> Self {
        Self::denied(429, "TooManyRequests", message)
    }

    /// A plugin failed; another attempt may succeed.
    pub(crate) fn broken(message: String) -> Self {
        Self::denied(500, "InternalError", message)
    }

    fn denied(code: u16, reason: &'static str, message: String) -> Self {
        let denial = Denial {
            code,
            reason,
            message,
        };
        Self {
            denial: Some(denial),
            ..Self::default()
        }
    }

    /// Returns the body of the answer to the review with this ID.
    pub(crate) fn body(&self, uid: &str) -> Result<Vec<u8>, serde_json::Error> {
        let status = self.denial.as_ref().map(|denial| Denial {
            code: denial.code,
            reason: denial.reason,
            message: one_line(&shorten(&denial.message, MESSAGE_BYTES)),
        });
        let mut body = serde_json::to_string(&Outgoing {
            api_version: API_VERSION,
            kind: KIND,
            response: Response {
                uid,
                allowed: self.denial.is_none(),
                status,
                patch_type: self.patch.as_ref().map(|_| "JSONPatch"),
                warnings: shown(&self.warnings),
            },
        })?;
        if let Some(patch) = &self.patch {
            // Most of an answer is the patch, and its text needs no escapes.
            body.truncate(body.len() - END.len());
            // No more than what is counted in the budget.
            body.reserve_exact(PATCH.len() + patch.len().div_ceil(3) * 4 + 1 + END.len());
            body.push_str(PATCH);
            STANDARD.encode_string(patch, &mut body);
            body.push('"');
            body.push_str(END);
        }
        Ok(body.into_bytes())
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outgoing<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Denial>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// As many warnings as an answer has, from the first. Of more, the last one counts those that are left out.
fn shown(warnings: &[String]) -> Vec<String> {
    let most = match warnings.len() {
        0..=WARNINGS => WARNINGS,
        _ => WARNINGS - 1,
    };
    let first = warnings.iter().take(most);
    let first = first.map(|warning| one_line(&shorten(warning, WARNING_BYTES)));
    let left_out = match warnings.len().saturating_sub(most) {
        0 => None,
        count => Some(format!("{count} more warnings are not shown")),
    };
    first.chain(left_out).collect()
}

/// Cuts a text at a character, so that it has at most so many bytes with the dots that show the cut.
pub(crate) fn shorten(text: &str, bytes: usize) -> Cow<'_, str> {
    const DOTS: &str = "…";
    if text.len() <= bytes {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(bytes.saturating_sub(DOTS.len()));
    Cow::Owned(format!("{}{DOTS}", text.get(..end).unwrap_or_default()))
}

/// A warning travels in an HTTP header, which has one line, and both end on terminals: hidden characters become spaces.
fn one_line(text: &str) -> String {
    text.replace(is_hidden, " ")
}

/// Why a review gets no answer. The failurePolicy of the webhook configuration decides what becomes of the object.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unavailable {
    /// The requests that are being answered take all the memory that they may.
    #[error("too many requests at once; try again in a second")]
    Full,
    /// The deadline came while the pod waited for its turn, or before the chain had finished.
    #[error("the webhook is busy: the pod did not pass the chain in time; try again in a second")]
    Busy,
    /// No chain is loaded, or it did not end in time.
    #[error("{0}")]
    NoChain(String),
    /// A plugin needs to know the namespace of the pod, and the API server did not say what it is like. Holds its name, and which plugin.
    #[error("namespace {0}; try again in a second")]
    Namespace(String),
    /// What controls the pod is not known, so nor is which labels it needs.
    #[error("the controller of the pod could not be read, {0}")]
    Owner(String),
}

#[cfg(test)]
mod tests;
