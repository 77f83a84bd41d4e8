//! Values made of the pod, its namespace and the request: `team-$(namespace/labels/team)`.

use podloom_plugin_sdk::json::Value;
use podloom_plugin_sdk::{Pod, Rejection, Request};

use crate::keys::Map;

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    Source(Source),
    /// What stands between `$(` and `)` is no source, or the `)` is missing.
    Unknown(String),
}

/// Where a part of a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A path of the pod.
    Pod(String),
    NamespaceName,
    /// A key of the namespace.
    Namespace(Map, String),
    RequestKind,
    RequestName,
    /// A key of the submitted object.
    Request(Map, String),
}

/// Splits a template into its parts.
pub(crate) fn pieces(template: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        let (piece, after) = first_piece(rest);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// Returns the first part of a template that is not empty, and what follows it.
fn first_piece(template: &str) -> (Piece, &str) {
    if let Some(source) = template.strip_prefix("$(") {
        let Some((source, after)) = source.split_once(')') else {
            return (Piece::Unknown(source.to_owned()), "");
        };
        let unknown = || Piece::Unknown(source.to_owned());
        return (
            parse_source(source).map_or_else(unknown, Piece::Source),
            after,
        );
    }
    if let Some(after) = template.strip_prefix("$$(") {
        return (Piece::Text("$(".to_owned()), after);
    }
    // At least one character: a `$` that begins neither stands for itself.
    let mut later = template.char_indices().skip(1);
    let end = later
        .find(|(_, character)| *character == '$')
        .map_or(template.len(), |(at, _)| at);
    let (text, after) = template.split_at(end);
    (Piece::Text(text.to_owned()), after)
}

fn parse_source(text: &str) -> Option<Source> {
    match text {
        "namespace/name" => return Some(Source::NamespaceName),
        "request/kind" => return Some(Source::RequestKind),
        "request/name" => return Some(Source::RequestName),
        _ => {}
    }
    if let Some(path) = text.strip_prefix("pod") {
        return path.starts_with('/').then(|| Source::Pod(path.to_owned()));
    }
    let (object, rest) = text.split_once('/')?;
    let (map, key) = rest.split_once('/')?;
    let map = match map {
        "labels" => Map::Labels,
        "annotations" => Map::Annotations,
        _ => return None,
    };
    match object {
        "namespace" => Some(Source::Namespace(map, key.to_owned())),
        "request" => Some(Source::Request(map, key.to_owned())),
        _ => None,
    }
}

/// Returns the grants that a template needs.
pub(crate) fn grants(template: &str) -> impl Iterator<Item = String> {
    let pieces = pieces(template).into_iter();
    pieces.filter_map(|piece| match piece {
        Piece::Source(Source::Pod(path)) => Some(grant(&path)),
        _ => None,
    })
}

/// Returns the grant for reading a path: a grant names no list element by index.
fn grant(path: &str) -> String {
    let mut grant = String::new();
    for segment in path.split('/').skip(1) {
        grant.push('/');
        let is_index =
            path.starts_with("/spec/") && segment.bytes().all(|byte| byte.is_ascii_digit());
        grant.push_str(if is_index { "*" } else { segment });
    }
    grant
}

/// A value, or why there is none.
pub(crate) type Rendered = Result<String, String>;

/// Makes the value of a template. The inner error says which source is missing. If it is assumed, what the API server would set counts
/// where a pod that was only rendered has nothing.
pub(crate) fn render(
    template: &[Piece],
    request: &Request,
    pod: &Pod,
    assume: bool,
) -> Result<Rendered, Rejection> {
    let mut value = String::new();
    for piece in template {
        match piece {
            Piece::Text(text) => value.push_str(text),
            Piece::Source(source) => match read(source, request, pod)? {
                Some(text) => value.push_str(&text),
                None => match assumed(source, request).filter(|_| assume) {
                    Some(text) => value.push_str(&text),
                    None => return Ok(Err(missing(source))),
                },
            },
            Piece::Unknown(text) => return Err(Rejection::Failed(unknown(text))),
        }
    }
    Ok(Ok(value))
}

fn read(source: &Source, request: &Request, pod: &Pod) -> Result<Option<String>, Rejection> {
    Ok(match source {
        Source::Pod(path) => pod.get(path)?.and_then(scalar),
        Source::NamespaceName => Some(request.namespace()).filter(|text| !text.is_empty()),
        Source::Namespace(map, key) => map.of_namespace(request, key),
        Source::RequestKind => Some(request.kind()),
        Source::RequestName => Some(request.name()).filter(|text| !text.is_empty()),
        Source::Request(map, key) => map.of_object(request, key),
    })
}

/// What the API server sets where a pod says nothing, before a webhook sees it.
fn assumed(source: &Source, request: &Request) -> Option<String> {
    let Source::Pod(path) = source else {
        return None;
    };
    let value = match path.as_str() {
        "/metadata/namespace" => request.namespace(),
        "/spec/dnsPolicy" => "ClusterFirst".to_owned(),
        "/spec/enableServiceLinks" => "true".to_owned(),
        "/spec/restartPolicy" => "Always".to_owned(),
        "/spec/schedulerName" => "default-scheduler".to_owned(),
        "/spec/serviceAccount" | "/spec/serviceAccountName" => "default".to_owned(),
        "/spec/terminationGracePeriodSeconds" => "30".to_owned(),
        _ => return None,
    };
    Some(value).filter(|value| !value.is_empty())
}

/// Returns the source that is missing for this reason and its value, if the API server sets it before a webhook sees a pod.
pub(crate) fn set_in_a_cluster(
    template: &[Piece],
    request: &Request,
    reason: &str,
) -> Option<String> {
    template.iter().find_map(|piece| match piece {
        Piece::Source(source @ Source::Pod(path)) if missing(source) == reason => {
            let value = assumed(source, request)?;
            Some(format!("{path} to {value}"))
        }
        _ => None,
    })
}

/// Returns the text of a string, number or boolean, `None` of anything else.
fn scalar(value: Value) -> Option<String> {
    match value {
        Value::String(text) | Value::Number(text) => Some(text),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::List(_) | Value::Object(_) => None,
    }
}

fn missing(source: &Source) -> String {
    match source {
        Source::Pod(path) => format!("the pod has no text, number or boolean at {path}"),
        Source::NamespaceName => "the namespace is not known".to_owned(),
        Source::Namespace(map, key) => format!("the namespace has no {map} {key}"),
        Source::RequestKind => "the submitted object has no kind".to_owned(),
        Source::RequestName => "the submitted object has no name yet".to_owned(),
        Source::Request(map, key) => format!("the submitted object has no {map} {key}"),
    }
}

/// Says that something is no source, and what is.
pub(crate) fn unknown(text: &str) -> String {
    format!(
        "$({text}) is no source: write pod/PATH, namespace/name, namespace/labels/KEY, namespace/annotations/KEY, request/kind, \
         request/name, request/labels/KEY or request/annotations/KEY between `$(` and `)`, or `$$(` for a plain `$(`"
    )
}
