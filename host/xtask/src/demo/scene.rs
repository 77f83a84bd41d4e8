//! The scenes of the demo. Each can be shown alone, and only what it needs is built and started.

use std::process::{Command, Stdio};

use anyhow::Result;

use super::{
    Built, EXAMPLES, Live, NAMESPACE, PATIENCE, browsers, cleaner, diff, infrastructure, portal,
    reload, webhook,
};
use crate::run;

/// One scene.
pub(crate) struct Scene {
    /// For `--only`.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    what: &'static str,
    /// Installs what it needs besides the builds, before anything else: what cannot be installed here is known at once.
    pub(crate) prepare: fn() -> Result<()>,
    pub(crate) play: Play,
}

/// What a scene needs, and what it shows.
#[derive(Clone, Copy)]
pub(crate) enum Play {
    /// Needs only the builds.
    Offline(fn(&Built) -> Result<()>),
    /// Needs the sessions of the examples too, on a cluster.
    Live(fn(&Built, &mut Live) -> Result<()>),
}

impl Play {
    pub(crate) fn is_live(self) -> bool {
        matches!(self, Self::Live(_))
    }
}

/// In the order in which they are shown; the last one deletes the sessions.
const SCENES: [Scene; 10] = [
    Scene {
        name: "explain",
        title: "What each plugin did to each pod",
        what: "what each plugin does to each pod of the examples, offline: no cluster",
        prepare: nothing,
        play: Play::Offline(explain),
    },
    Scene {
        name: "sessions",
        title: "Sessions as kubectl shows them",
        what: "sessions start, and kubectl shows them",
        prepare: nothing,
        play: Play::Live(|_, live| {
            let list = ["get", "browsers", "--namespace", NAMESPACE];
            run::succeed(live.cluster.kubectl().args(list))
        }),
    },
    Scene {
        name: "reload",
        title: "A plugin changes while they run",
        what: "a plugin changes and then breaks while sessions run",
        prepare: nothing,
        play: Play::Live(|_, live| {
            live.reloaded = Some(reload::show(&live.cluster, &live.operator, &live.volume)?);
            Ok(())
        }),
    },
    Scene {
        name: "mistake",
        title: "What a mistake looks like",
        what: "a session that no BrowserConfig serves, and what its user sees",
        prepare: nothing,
        play: Play::Live(|_, live| browsers::fail_one(&live.cluster)),
    },
    Scene {
        name: "webhook",
        title: "Pods of anybody, through the admission webhook",
        what: "pods of kubectl pass the chain through the admission webhook",
        prepare: nothing,
        play: Play::Live(webhook::show),
    },
    Scene {
        name: "portal",
        title: "A Service, exposed through relays",
        what: "a tunnel exposes a Service, rolls for a new plugin, and loses a relay",
        prepare: nothing,
        play: Play::Live(portal::show),
    },
    Scene {
        name: "infrastructure",
        title: "A cluster from an Infrastructure Manager",
        what: "a Cluster is created, grows, is broken and repaired, and deleted",
        prepare: || Ok(podloom_im::python().map(drop)?),
        play: Play::Live(infrastructure::show),
    },
    Scene {
        name: "cleaner",
        title: "A preview that goes when nobody needs it any more",
        what: "a Cleaner waits for conditions, deletes a preview, and sends a CloudEvent",
        prepare: nothing,
        play: Play::Live(cleaner::show),
    },
    Scene {
        name: "diff",
        title: "A chain is changed, and nobody has to guess",
        what: "what a changed chain does before it serves, who wrote a line, and what was missed",
        prepare: nothing,
        play: Play::Live(diff::show),
    },
    Scene {
        name: "end",
        title: "Sessions end",
        what: "sessions are deleted, and their pods with them",
        prepare: nothing,
        play: Play::Live(|built, live| {
            browsers::delete_all(&live.cluster, &built.examples, PATIENCE)
        }),
    },
];

/// Their names.
pub(crate) const NAMES: [&str; SCENES.len()] = {
    let mut names = [""; SCENES.len()];
    let mut number = 0;
    while number < names.len() {
        names[number] = SCENES[number].name;
        number += 1;
    }
    names
};

/// For `--help`.
pub(crate) fn table() -> String {
    let rows = SCENES.map(|scene| format!("  {:14} {}", scene.name, scene.what));
    format!("Scenes:\n{}", rows.join("\n"))
}

/// The scenes of these names, in their own order; all scenes if there are no names.
pub(crate) fn chosen(names: &[String]) -> Vec<Scene> {
    let is_chosen = |scene: &Scene| names.is_empty() || names.iter().any(|name| name == scene.name);
    SCENES.into_iter().filter(is_chosen).collect()
}

fn nothing() -> Result<()> {
    Ok(())
}

/// The same chain offline: it writes the same as in the operator's pods.
fn explain(built: &Built) -> Result<()> {
    let mut render = Command::new(&built.binary);
    render.args(["render", "--explain", "--plugins"]);
    render.arg(&built.bundle);
    for file in EXAMPLES {
        render.arg("-f").arg(built.examples.join(file));
    }
    run::succeed(render.stdout(Stdio::null()))
}
