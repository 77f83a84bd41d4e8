//! Values made of the pod, its namespace and the request: `team-$(namespace/labels/team)`.

use podloom_plugin_sdk::json;
use podloom_plugin_sdk::{Pod, Rejection, Request};

/// A part of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'t> {
    Text(&'t str),
    Source(Source<'t>),
    /// What stands between `$(` and `)` is no source, or the `)` is missing.
    Unknown(&'t str),
}

/// Where a part of a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source<'t> {
    Pod(&'t str),
    NamespaceName,
    NamespaceLabel(&'t str),
    NamespaceAnnotation(&'t str),
    RequestKind,
    RequestName,
    RequestLabel(&'t str),
    RequestAnnotation(&'t str),
}

/// Splits a template into its parts.
pub(crate) fn pieces(template: &str) -> Pieces<'_> {
    Pieces { rest: template }
}

#[derive(Debug)]
pub(crate) struct Pieces<'t> {
    rest: &'t str,
}

impl<'t> Iterator for Pieces<'t> {
    type Item = Piece<'t>;

    fn next(&mut self) -> Option<Piece<'t>> {
        if self.rest.is_empty() {
            return None;
        }
        let (piece, rest) = if let Some(source) = self.rest.strip_prefix("$(") {
            match source.split_once(')') {
                Some((source, rest)) => (parse_source(source), rest),
                None => (Piece::Unknown(source), ""),
            }
        } else if let Some(rest) = self.rest.strip_prefix("$$(") {
            (Piece::Text("$("), rest)
        } else {
            // At least one character: a `$` that begins neither stands for itself.
            let mut later = self.rest.char_indices().skip(1);
            let end = later
                .find(|(_, character)| *character == '$')
                .map_or(self.rest.len(), |(at, _)| at);
            let (text, rest) = self.rest.split_at(end);
            (Piece::Text(text), rest)
        };
        self.rest = rest;
        Some(piece)
    }
}

fn parse_source(text: &str) -> Piece<'_> {
    let source = match text {
        "namespace/name" => Source::NamespaceName,
        "request/kind" => Source::RequestKind,
        "request/name" => Source::RequestName,
        _ => {
            if let Some(path) = text
                .strip_prefix("pod")
                .filter(|path| path.starts_with('/'))
            {
                Source::Pod(path)
            } else if let Some(key) = text.strip_prefix("namespace/labels/") {
                Source::NamespaceLabel(key)
            } else if let Some(key) = text.strip_prefix("namespace/annotations/") {
                Source::NamespaceAnnotation(key)
            } else if let Some(key) = text.strip_prefix("request/labels/") {
                Source::RequestLabel(key)
            } else if let Some(key) = text.strip_prefix("request/annotations/") {
                Source::RequestAnnotation(key)
            } else {
                return Piece::Unknown(text);
            }
        }
    };
    Piece::Source(source)
}

/// Returns the paths in the pod that a template reads.
pub(crate) fn pod_paths(template: &str) -> impl Iterator<Item = &str> {
    pieces(template).filter_map(|piece| match piece {
        Piece::Source(Source::Pod(path)) => Some(path),
        _ => None,
    })
}

/// Returns the grant for reading a path: a grant names no list element by index.
pub(crate) fn grant(path: &str) -> String {
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

/// Makes the value of a template. The inner error says which source is missing.
pub(crate) fn render(template: &str, request: &Request, pod: &Pod) -> Result<Rendered, Rejection> {
    let mut value = String::new();
    for piece in pieces(template) {
        match piece {
            Piece::Text(text) => value.push_str(text),
            Piece::Source(source) => match read(source, request, pod)? {
                Some(text) => value.push_str(&text),
                None => return Ok(Err(missing(source))),
            },
            Piece::Unknown(text) => return Err(Rejection::Failed(unknown(text))),
        }
    }
    Ok(Ok(value))
}

fn read(source: Source<'_>, request: &Request, pod: &Pod) -> Result<Option<String>, Rejection> {
    Ok(match source {
        Source::Pod(path) => pod.get_json(path)?.and_then(scalar),
        Source::NamespaceName => Some(request.namespace()).filter(|text| !text.is_empty()),
        Source::NamespaceLabel(key) => request.namespace_label(key),
        Source::NamespaceAnnotation(key) => request.namespace_annotation(key),
        Source::RequestKind => Some(request.kind()),
        Source::RequestName => Some(request.name()).filter(|text| !text.is_empty()),
        Source::RequestLabel(key) => request.label(key),
        Source::RequestAnnotation(key) => request.annotation(key),
    })
}

/// Returns the text of a string, number or boolean, `None` of anything else.
fn scalar(text: String) -> Option<String> {
    match text.as_bytes().first()? {
        b'"' => json::from_str(&text).ok(),
        b'{' | b'[' | b'n' => None,
        _ => Some(text),
    }
}

fn missing(source: Source<'_>) -> String {
    let (start, name) = match source {
        Source::Pod(path) => ("the pod has no text, number or boolean at ", path),
        Source::NamespaceName => ("the namespace is not known", ""),
        Source::NamespaceLabel(key) => ("the namespace has no label ", key),
        Source::NamespaceAnnotation(key) => ("the namespace has no annotation ", key),
        Source::RequestKind => ("the submitted object has no kind", ""),
        Source::RequestName => ("the submitted object has no name yet", ""),
        Source::RequestLabel(key) => ("the submitted object has no label ", key),
        Source::RequestAnnotation(key) => ("the submitted object has no annotation ", key),
    };
    [start, name].concat()
}

/// Says that something is no source, and what is.
pub(crate) fn unknown(text: &str) -> String {
    [
        "$(",
        text,
        ") is no source: write pod/PATH, namespace/name, namespace/labels/KEY, namespace/annotations/KEY, request/kind, \
         request/name, request/labels/KEY or request/annotations/KEY between `$(` and `)`, or `$$(` for a plain `$(`",
    ]
    .concat()
}
