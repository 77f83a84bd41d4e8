//! A run of a chain on a pod: why, until when, and how log lines name the pod.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use podloom_mutation::PodRequest;
use podloom_turns::{Cause, Lines};

/// The longest names of Kubernetes. Strangers may send longer ones.
const NAME_BYTES: usize = 253;

/// Why a chain runs on a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunMode {
    /// Somebody waits for the pod. Plugins whose `match` excludes it are skipped.
    Serve,
    /// The chain is tried on a sample pod before it serves. Every plugin runs.
    Prove {
        /// The sample pod.
        sample: &'static str,
        /// When the time for building the chain is over.
        until: Until,
    },
}

/// When to give up, if ever. Each step has a limit of its own, but the steps of many slow plugins would add up to hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Until(Option<Instant>);

impl Until {
    /// No deadline: the caller waits, and can give up by itself.
    pub(crate) const DONE: Self = Self(None);

    /// The earlier of both.
    pub(crate) fn or(self, other: Self) -> Self {
        let both = [self.0, other.0].into_iter().flatten();
        Self(both.min())
    }

    pub(crate) fn at(instant: Option<Instant>) -> Self {
        Self(instant)
    }

    pub(crate) fn after(time: Duration) -> Self {
        Self(Instant::now().checked_add(time))
    }

    pub(crate) fn is_over(self) -> bool {
        self.0.is_some_and(|until| Instant::now() >= until)
    }

    /// The time that is left; none without a deadline.
    pub(crate) fn left(self) -> Option<Duration> {
        self.0
            .map(|until| until.saturating_duration_since(Instant::now()))
    }
}

/// The pod that a log line is about. Plugins run on blocking threads, and a filter may drop the spans around them, so each line
/// carries these fields itself. Those that are none are left out of the line; while a plugin is loaded, all are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodFields<'r> {
    pub(crate) kind: Option<&'r str>,
    pub(crate) namespace: Option<&'r str>,
    /// The name of what the pod is made for, if that is no pod.
    pub(crate) name: Option<&'r str>,
    /// None if the API server will generate the name.
    pub(crate) pod: Option<&'r str>,
    /// Set in place of the others while a chain is proved.
    pub(crate) sample_pod: Option<&'static str>,
    /// Who asks. No line shows it.
    pub(crate) peer: Option<IpAddr>,
}

impl<'r> PodFields<'r> {
    pub(crate) fn of(request: &'r PodRequest, mode: RunMode) -> Self {
        let name = filled(&request.name);
        let is_pod = request.kind == "Pod";
        match mode {
            RunMode::Prove { sample, .. } => Self {
                sample_pod: Some(sample),
                ..Self::default()
            },
            RunMode::Serve => Self {
                kind: filled(request.kind),
                namespace: filled(&request.namespace),
                name: name.filter(|_| !is_pod),
                pod: name.filter(|_| is_pod),
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
            pod = $pod.pod,
            sample_pod = $pod.sample_pod,
            $($rest)+
        )
    };
    ($level:ident, $pod:expr, $($rest:tt)+) => {
        pod_event!($level, target: module_path!(), $pod, $($rest)+)
    };
}

pub(crate) use pod_event;
