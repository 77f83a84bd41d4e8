//! What the tenants bring: a BrowserConfig, and plugins, some of them hostile.

use fastrand::Rng;

/// The label `kubelet.test/behaviour` names a file in the control plane's stages; on the other labels a plugin misbehaves.
pub(crate) const CONFIG: &str = "
template: { sidecars: [{ name: seleniferous, image: 'example.com/seleniferous:1' }] }
warm: { chrome: { warm: { min: 3, max: 20, maxAge: 1m } } }
browsers:
  chrome:
    warm: { image: 'example.com/chrome:1' }
    running: { image: 'example.com/chrome:1' }
    browser-completes: { image: 'example.com/chrome:1', labels: { kubelet.test/behaviour: browser-completes } }
    browser-exits: { image: 'example.com/chrome:1', labels: { kubelet.test/behaviour: browser-exits } }
    crash-loop: { image: 'example.com/chrome:1', labels: { kubelet.test/behaviour: crash-loop } }
    breaks: { image: 'example.com/chrome:1', labels: { break: '1' } }
    loops: { image: 'example.com/chrome:1', labels: { loop: '1' } }
    eats: { image: 'example.com/chrome:1', labels: { eat: '1' } }
";

/// Each version, its share in percent, and the reason with which its sessions end by themselves.
const VERSIONS: [(&str, u32, Option<&str>); 8] = [
    ("warm", 40, None),
    ("running", 45, None),
    ("browser-completes", 3, Some("Completed")),
    ("browser-exits", 3, Some("Error")),
    ("crash-loop", 3, Some("CrashLoopBackOff")),
    ("breaks", 2, None),
    ("loops", 2, None),
    ("eats", 2, None),
];

/// A random version.
pub(crate) fn version(chance: &mut Rng) -> &'static str {
    let all = VERSIONS.iter().map(|(_, weight, _)| weight).sum();
    let mut left = chance.u32(0..all);
    for (version, weight, _) in VERSIONS {
        match left.checked_sub(weight) {
            Some(rest) => left = rest,
            None => return version,
        }
    }
    "running"
}

/// Whether Browsers of a version may end with this reason.
pub(crate) fn may_end(version: &str, reason: &str) -> bool {
    VERSIONS
        .iter()
        .any(|(name, _, end)| *name == version && *end == Some(reason))
}

/// A chain whose first plugin writes the team into a label. Failures of the plugins that misbehave are ignored.
pub(crate) fn good_chain(team: &str) -> String {
    chain(team, "Ignore")
}

/// The same, but pods on which a plugin misbehaves must wait.
pub(crate) fn strict_chain() -> String {
    chain("strict", "Fail")
}

fn chain(team: &str, policy: &str) -> String {
    let hostile = ["breaks", "loops", "eats"].map(|name| {
        format!(
            "\n- {{ name: {name}, file: {name}.wasm, allow: [/metadata/labels], failurePolicy: {policy}, \
             limits: {{ timeout: 100ms }} }}"
        )
    });
    format!(
        "\n- {{ name: labels, file: labels.wasm.gz, allow: [/metadata/labels], \
         config: {{ labels: [{{ key: team, value: {team} }}] }} }}{}",
        hostile.concat()
    )
}

/// Chains that the operator rejects: a missing file, a plugin that never returns, invalid YAML.
pub(crate) const REFUSED: [&str; 3] = [
    "\n- { name: missing, file: missing.wasm }",
    "\n- { name: hangs, file: hangs.wasm, allow: [/metadata/labels], limits: { timeout: 100ms } }",
    "[{",
];
