//! Prints what is sent to Infrastructure Managers.

use podloom_controllers::infrastructure::offline::Request;
use serde_json::{Value, json};

use crate::cli::{Format, InfraCheckArguments};
use crate::error::{CommandError, escape_controls};
use crate::manifest::Document;
use crate::output;

/// A Cluster, and what is sent for it.
pub(super) struct Planned<'a> {
    pub(super) document: &'a Document,
    /// The id of the infrastructure that is taken over.
    pub(super) adopted: Option<&'a str>,
    pub(super) request: Request,
}

impl Planned<'_> {
    /// The template, and when it is sent.
    fn sent(&self) -> Option<(&Value, String)> {
        match &self.request {
            Request::First(template) => Some(match self.adopted {
                None => (template, "sent to create its machines".to_owned()),
                Some(id) => (
                    template,
                    format!("sent once the infrastructure {id} is taken over"),
                ),
            }),
            Request::Update { template, retired } if retired.is_empty() => {
                Some((template, "sent as an update".to_owned()))
            }
            Request::Update { template, retired } => Some((
                template,
                format!(
                    "sent as an update; these nodes get no machines, and their names cannot be used again: {}",
                    retired.join(", ")
                ),
            )),
            _ => None,
        }
    }

    /// Why nothing is sent.
    fn silence(&self) -> Option<&'static str> {
        match self.request {
            Request::Registered => Some("it is a registered cluster, so nothing is sent"),
            Request::Same => Some("its template is the same, so nothing is sent"),
            Request::Local => Some(
                "only outputs, inputs, metadata or descriptions are gone from its template, so nothing is sent",
            ),
            _ => None,
        }
    }

    fn json(&self, namespace: &str) -> Value {
        let (request, retired) = match &self.request {
            Request::First(_) if self.adopted.is_some() => ("Adopt", &[][..]),
            Request::First(_) => ("Create", &[][..]),
            Request::Update { retired, .. } => ("Update", retired.as_slice()),
            _ => ("None", &[][..]),
        };
        let at = self.document.position(&[]);
        json!({
            "file": &*at.file,
            "document": at.document,
            "line": at.line,
            "namespace": self.document.namespace(namespace),
            "name": self.document.name(),
            "request": request,
            "retiredNodes": retired,
            "template": self.sent().map(|(template, _)| template),
        })
    }
}

/// Prints the templates on standard output, and on standard error why others are not sent.
pub(super) fn print(
    planned: &[Planned<'_>],
    arguments: &InfraCheckArguments,
) -> Result<(), CommandError> {
    for (planned, why) in planned.iter().filter_map(|it| Some((it, it.silence()?))) {
        let title = escape_controls(&planned.document.title());
        output::print_note(&format!("{title}: {why}\n"));
    }
    if arguments.output == Format::Json {
        let clusters = planned.iter().map(|it| it.json(&arguments.namespace));
        let text = output::json_text(&json!({ "clusters": clusters.collect::<Value>() }))?;
        return output::print(&text);
    }
    let sent = planned.iter().filter_map(|it| Some((it, it.sent()?)));
    let texts = sent.map(|(planned, (template, when))| {
        let title = escape_controls(&format!("{}: {when}", planned.document.title()));
        Ok(format!("# {title}\n{}", output::yaml(template)?))
    });
    let texts = texts.collect::<anyhow::Result<Vec<String>>>()?;
    output::print(&texts.join("---\n"))
}
