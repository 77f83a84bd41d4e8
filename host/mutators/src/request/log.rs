//! The fields by which a log line names the pod that it is about.
//!
//! Plugins run on blocking threads, and a filter may drop the spans around them, so each line carries these fields itself.

use std::net::IpAddr;

use podloom_mutation::PodRequest;
use podloom_turns::{Cause, Lines};

use super::RunMode;

/// The longest names of Kubernetes. Strangers may send longer ones.
const NAME_BYTES: usize = 253;

/// The pod that a log line is about. Fields that are none are left out of the line; while a plugin is loaded, all are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodFields<'r> {
    pub(crate) kind: Option<&'r str>,
    pub(crate) namespace: Option<&'r str>,
    /// None if the API server will generate it.
    pub(crate) name: Option<&'r str>,
    /// Set in place of the others while a chain is proved.
    pub(crate) sample_pod: Option<&'static str>,
    /// Who asks. No line shows it.
    pub(crate) peer: Option<IpAddr>,
}

impl<'r> PodFields<'r> {
    pub(crate) fn of(request: &'r PodRequest, mode: RunMode) -> Self {
        match mode {
            RunMode::Prove { sample, .. } => Self {
                sample_pod: Some(sample),
                ..Self::default()
            },
            RunMode::Serve => Self {
                kind: filled(request.kind),
                namespace: filled(&request.namespace),
                name: filled(&request.name),
                sample_pod: None,
                peer: request.peer,
            },
        }
    }

    /// Whether a line about the pod may be logged. Nobody else causes those about sample pods, and about the loading of a plugin.
    pub(crate) fn may_log(&self, lines: Option<&Lines>, plugin: &str, about: &'static str) -> bool {
        lines.filter(|_| self.kind.is_some()).is_none_or(|lines| {
            lines.may(Cause {
                about,
                plugin: Some(plugin.to_owned()),
                peer: self.peer,
                namespace: self.namespace.map(str::to_owned),
            })
        })
    }
}

fn filled(text: &str) -> Option<&str> {
    let text = text.get(..text.floor_char_boundary(NAME_BYTES))?;
    (!text.is_empty()).then_some(text)
}

/// Logs an event of this level with [`PodFields`] before its other fields, which are written as in `tracing::event!`.
macro_rules! pod_event {
    ($level:ident, target: $target:expr, $pod:expr, $($rest:tt)+) => {
        tracing::$level!(
            target: $target,
            kind = $pod.kind,
            namespace = $pod.namespace,
            name = $pod.name,
            sample_pod = $pod.sample_pod,
            $($rest)+
        )
    };
    ($level:ident, $pod:expr, $($rest:tt)+) => {
        pod_event!($level, target: module_path!(), $pod, $($rest)+)
    };
}

pub(crate) use pod_event;
