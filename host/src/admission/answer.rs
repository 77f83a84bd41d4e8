//! What an API server answers to a pod, without what it makes anew each time; and how two answers differ. Pure.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::submit::Submission;
use crate::compare::{
    Difference, OwnContainers, Rejection, Verdict, remove_stamp, unclaimed_changes,
};
use crate::feed::cleaned;
use crate::output::short;

/// How the volume with the account's token is called, before random letters.
const TOKEN: &str = "kube-api-access-";
/// How many letters an API server appends to a generated name, and how much of the name it takes.
const SUFFIX: usize = 5;
const START: usize = 63 - SUFFIX;
/// How much of a reason names what rejects a pod.
const CAUSE: usize = 100;

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum Answer {
    /// The pod as it would be created, and what the API server warns of.
    Accepted {
        pod: Value,
        warnings: Vec<String>,
    },
    Denied(Why),
    /// The pod is rejected, since something at admission failed.
    Failed(Why),
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Why {
    /// What rejects it: a webhook, a policy, or how the reason begins.
    cause: String,
    reason: String,
}

/// An answer that says nothing about the pod.
#[derive(Debug, PartialEq)]
pub(super) enum NoAnswer {
    NoNamespace,
    /// The user may not create pods, or not send them as somebody else.
    Forbidden,
    /// This webhook does.
    RefusesDryRun(String),
    Other,
}

impl Answer {
    pub(super) fn accepted(pod: Value, warnings: Vec<String>, to: &Submission) -> Self {
        let mut pod = cleaned("v1", "Pod", pod).unwrap_or_default();
        if generated(to).is_some()
            && let Some(Value::Object(metadata)) = pod.get_mut("metadata")
        {
            metadata.remove("name");
        }
        remove_stamp(&mut pod);
        rename_token(&mut pod);
        Self::Accepted { pod, warnings }
    }

    /// There was no answer, for this reason.
    pub(super) fn unanswered(why: &str) -> Self {
        Self::Failed(Why {
            cause: "the API server".to_owned(),
            reason: why.to_owned(),
        })
    }

    /// What an error says about the pod, by its code and message.
    pub(super) fn rejected(code: u16, message: &str, to: &Submission) -> Result<Self, NoAnswer> {
        let reason = match generated(to) {
            Some(start) => without_suffix(message, start),
            None => message.to_owned(),
        };
        if let Some((webhook, said)) = of_webhook(&reason, "admission webhook \"") {
            if let Some(said) = said.strip_prefix("denied the request") {
                let said = said.trim_start_matches(':').trim();
                return Ok(Self::Denied(Why::of_webhook(webhook, said)));
            }
            if said.starts_with("does not support dry run") {
                return Err(NoAnswer::RefusesDryRun(webhook.to_owned()));
            }
        }
        let is_right = message.contains("is forbidden: User \"")
            && (message.starts_with("pods is forbidden") || message.contains("cannot impersonate"));
        match code {
            403 if is_right => Err(NoAnswer::Forbidden),
            404 if message.starts_with("namespaces ") => Err(NoAnswer::NoNamespace),
            400 | 403 | 413 | 422 => Ok(Self::Denied(Why::of(&reason))),
            // A policy chooses the code.
            401 if reason.contains(" denied request: ") => Ok(Self::Denied(Why::of(&reason))),
            500 => Ok(Self::Failed(
                match of_webhook(&reason, "failed calling webhook \"") {
                    Some((webhook, said)) => {
                        Why::of_webhook(webhook, said.trim_start_matches(": "))
                    }
                    None => Why::of(&reason),
                },
            )),
            _ => Err(NoAnswer::Other),
        }
    }

    const fn rejection(&self) -> Option<(bool, &Why)> {
        match self {
            Self::Accepted { .. } => None,
            Self::Denied(why) => Some((true, why)),
            Self::Failed(why) => Some((false, why)),
        }
    }

    /// How many pods were accepted, denied, and failed, of this one.
    pub(super) const fn counts(&self) -> [usize; 3] {
        match self {
            Self::Accepted { .. } => [1, 0, 0],
            Self::Denied(_) => [0, 1, 0],
            Self::Failed(_) => [0, 0, 1],
        }
    }
}

impl Why {
    fn of_webhook(name: &str, said: &str) -> Self {
        Self {
            cause: format!("webhook {name}"),
            reason: said.to_owned(),
        }
    }

    /// From what the API server itself says.
    fn of(message: &str) -> Self {
        let (said, is_invalid) = match message.split_once(" is forbidden: ") {
            Some((start, said)) if start.starts_with("pods ") => (said, false),
            _ => match message.split_once(" is invalid: ") {
                Some((start, said)) if start.starts_with("Pod ") => (said, true),
                _ => (message, false),
            },
        };
        let quoted = said.split('\'').nth(1).unwrap_or_default();
        let cause = match said.split_once(' ') {
            Some((kind @ "ValidatingAdmissionPolicy", _)) => format!("{kind} {quoted}"),
            Some(("policy", _)) => format!("MutatingAdmissionPolicy {quoted}"),
            _ if is_invalid => "the pod is invalid".to_owned(),
            _ => said.split(": ").next().unwrap_or(said).to_owned(),
        };
        Self {
            cause: short(&cause, CAUSE, "…").into_owned(),
            reason: said.to_owned(),
        }
    }
}

/// What is different between two answers to one pod; none if nothing is. What is at these paths, or below them, does not count.
pub(super) fn difference(
    own: &OwnContainers,
    old: &Answer,
    new: &Answer,
    ignored: &[String],
) -> Option<Difference> {
    if let (
        Answer::Accepted { pod, warnings },
        Answer::Accepted {
            pod: new_pod,
            warnings: new_warnings,
        },
    ) = (old, new)
    {
        let mut changes = unclaimed_changes(own, pod, new_pod);
        let is_below = |path: &str, of: &String| {
            path.strip_prefix(of.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        changes.retain(|it| {
            let is_ignored = |of| is_below(&it.path, of) || is_below(&it.general, of);
            !ignored.iter().any(is_ignored)
        });
        if changes.is_empty() {
            return warned_otherwise(warnings, new_warnings);
        }
        let difference = Difference::of(Verdict::Changed, Vec::new(), None);
        return Some(Difference {
            changes,
            ..difference
        });
    }
    let rejection = |answer: &Answer| {
        let (is_denial, why) = answer.rejection()?;
        let cause = Some(why.cause.clone());
        Some(Rejection::new(is_denial, cause, why.reason.clone()))
    };
    Difference::of_rejections(rejection(old), rejection(new))
}

fn warned_otherwise(old: &[String], new: &[String]) -> Option<Difference> {
    let only = |these: &[String], those: &[String]| {
        let only = these.iter().filter(|it| !those.contains(it));
        only.cloned().collect::<Vec<_>>().join("; ")
    };
    let said = [
        ("warned now", only(new, old)),
        ("no longer", only(old, new)),
    ];
    let said = said.into_iter().filter(|(_, texts)| !texts.is_empty());
    let said: Vec<String> = said
        .map(|(when, texts)| format!("{when}: {texts}"))
        .collect();
    if said.is_empty() {
        return None;
    }
    let verdict = Verdict::WarnedOtherwise;
    Some(Difference::of(verdict, Vec::new(), Some(said.join("; "))))
}

/// The text of a `Warning` header, such as `299 - "use something else"`.
pub(super) fn warning(header: &str) -> Option<String> {
    let (_, text) = header.split_once('"')?;
    let (text, _) = text.rsplit_once('"')?;
    Some(text.replace("\\\"", "\"").replace("\\\\", "\\"))
}

/// How the pod's name begins, if an API server completes it.
fn generated(to: &Submission) -> Option<&str> {
    let metadata = to.pod.get("metadata")?;
    let start = metadata.get("generateName")?.as_str()?;
    let start = start.get(..start.floor_char_boundary(START))?;
    (metadata.get("name").is_none() && !start.is_empty()).then_some(start)
}

/// A text without the letters that end a generated name.
fn without_suffix(text: &str, start: &str) -> String {
    let mut parts = text.split(start);
    let mut known = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        known.push_str(start);
        let is_letter = |it: &u8| it.is_ascii_lowercase() || it.is_ascii_digit();
        let letters = part.bytes().take_while(is_letter).count();
        match part.get(SUFFIX..) {
            Some(rest) if letters == SUFFIX => {
                known.push('*');
                known.push_str(rest);
            }
            _ => known.push_str(part),
        }
    }
    known
}

/// The name of a webhook in a message, after these words, and what is said about it.
fn of_webhook<'m>(message: &'m str, words: &str) -> Option<(&'m str, &'m str)> {
    let (_, rest) = message.split_once(words)?;
    let (name, said) = rest.split_once('"')?;
    Some((name, said.trim_start()))
}

/// The volume with the account's token has another name each time.
fn rename_token(value: &mut Value) {
    match value {
        Value::String(text) if text.starts_with(TOKEN) => {
            TOKEN.trim_end_matches('-').clone_into(text)
        }
        Value::Array(items) => items.iter_mut().for_each(rename_token),
        Value::Object(fields) => fields.values_mut().for_each(rename_token),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
