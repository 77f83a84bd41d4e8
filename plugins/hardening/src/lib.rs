//! The standard plugin `hardening`: brings pods up to a Pod Security Standard, or rejects them with every reason at once.
//!
//! The pod is read once, everything that is to be changed or rejected is found out, then done.
//! It runs last in a chain, so that containers injected before it are covered.

mod beyond;
mod config;
mod context;
mod policy;
mod unfixable;
mod view;

use podloom_plugin_sdk::evictable;
use podloom_plugin_sdk::json::{Object, Value};
use podloom_plugin_sdk::prelude::*;

pub use crate::config::Config;
use crate::config::{EphemeralContainers, Mode, Profile};
use crate::policy::Policy;
use crate::view::{Container, Context, View};

/// On the API server's image of a pod that a node runs by itself. The kubelet deletes one that differs from its file.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The plugin.
pub struct Hardening;

podloom_plugin_sdk::mutator!(Hardening, schema = "config.schema.json");

impl Mutator for Hardening {
    type Config = Config;
    const NAME: &str = "hardening";
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &str =
        "Brings pods up to a Pod Security Standard, or rejects them with the reasons";

    fn needs(config: &Config) -> Needs {
        let mut needs = Needs::default();
        if config.mode == Mode::Off {
            return needs;
        }
        needs = needs.read("/spec").read("/metadata/annotations");
        if config.asks_for_labels() {
            needs = needs.read("/metadata/labels");
        }
        if config.mode == Mode::Warn {
            return needs;
        }
        let inherited = config.profile == Profile::Restricted
            || config.force
            || config.run_as_user.is_some()
            || config.run_as_group.is_some()
            || config.seccomp_profile.is_some();
        let read_only = config.read_only_root_filesystem.is_some();
        if inherited || config.fs_group.is_some() {
            needs = needs.write("/spec/securityContext");
        }
        for list in ["/spec/containers", "/spec/initContainers"] {
            if inherited || read_only {
                needs = needs.write(format!("{list}/*/securityContext"));
            }
            if read_only {
                needs = needs.write(format!("{list}/*/volumeMounts"));
            }
        }
        if inherited && config.ephemeral_containers == EphemeralContainers::Harden {
            needs = needs.write("/spec/ephemeralContainers/*/securityContext");
        }
        if let Some(read_only) = &config.read_only_root_filesystem {
            needs = needs.write("/spec/volumes");
            if read_only.safe_to_evict == Some(true) {
                needs = needs.write(evictable::PATH);
            }
        }
        if config.automount_service_account_token.is_some() {
            needs = needs.write("/spec/automountServiceAccountToken");
        }
        if config.enable_service_links.is_some() {
            needs = needs.write("/spec/enableServiceLinks");
        }
        needs
    }

    fn validate(config: &Config) -> Vec<String> {
        config::errors(config)
    }

    fn prepare(config: &mut Config) {
        config.fields = view::fields(config);
    }

    fn mutate(config: &Config, request: &Request, pod: &Pod) -> Result<(), Rejection> {
        if config.mode == Mode::Off {
            return Ok(());
        }
        match request.operation() {
            Operation::Create => {}
            Operation::EphemeralContainers => return check_ephemeral(config, request, pod),
            // They change nothing that the profiles are about.
            Operation::Update | Operation::Resize => return Ok(()),
        }
        let mut view = View::read(config, pod)?;
        if policy::apply(&config.exemptions, request, &mut view) {
            return Ok(());
        }
        let mirror = view.metadata.annotations.contains_key(MIRROR);
        if mirror {
            note("the pod is a mirror of one that its node runs: checked, never changed");
        }
        let policy = Policy::new(config, &view, !mirror);

        let mut plan = Plan::default();
        check_pod(&policy, &view, &mut plan);
        context::check_all_inherited(&policy, &view, &mut plan);
        for container in view.containers.iter().filter(|container| !container.exempt) {
            check_container(&policy, container, &mut plan);
        }
        unfixable::check_annotations(&policy, &view, pod, &mut plan)?;
        if policy.writable {
            beyond::fill(&policy, &view, &mut plan);
        }
        let done = plan.carry_out(config, pod);
        beyond::report(&policy, &view);
        done
    }
}

/// Checks the ephemeral containers that are added to a pod. The rest of it can no longer be changed, and was judged when it was new.
fn check_ephemeral(config: &Config, request: &Request, pod: &Pod) -> Result<(), Rejection> {
    let mut view = View::read(config, pod)?;
    if policy::apply(&config.exemptions, request, &mut view) {
        return Ok(());
    }
    let changes = request.changes();
    let is_hardened = config.ephemeral_containers == EphemeralContainers::Harden;
    for container in &mut view.containers {
        container.exempt |= !changes.contains(&container.path);
        container.context.writable = is_hardened && !container.exempt;
    }
    let mut policy = Policy::new(config, &view, true);
    (policy.pod_level, policy.is_later) = (false, true);
    let mut plan = Plan::default();
    context::check_all_inherited(&policy, &view, &mut plan);
    for container in view.containers.iter().filter(|container| !container.exempt) {
        check_container(&policy, container, &mut plan);
    }
    plan.carry_out(config, pod)
}

fn check_pod(policy: &Policy, view: &View, plan: &mut Plan) {
    let selected = view.spec.node_selector.get("kubernetes.io/os");
    if selected.is_some_and(|os| os == "windows") && !policy.windows {
        warn(
            "/spec/nodeSelector asks for Windows, but /spec/os/name does not say windows: treated as a Linux pod, set it",
        );
    }
    unfixable::check_pod(policy, view, plan);
    context::check_any(policy, &view.context, plan);
}

fn check_container(policy: &Policy, container: &Container, plan: &mut Plan) {
    context::check_any(policy, &container.context, plan);
    context::check_container(policy, &container.context, plan);
    unfixable::check_container(policy, container, plan);
}

/// The changes to make, and what stands in the way of the profile: found out first, done at the end, so that a rejected pod is never
/// touched.
#[derive(Default)]
pub(crate) struct Plan {
    /// The path of each field to write, and its value; none to remove it.
    edits: Vec<(String, Option<Value>)>,
    /// What the pod asks for and must not have: the worst.
    violations: Findings,
    /// What it would have to give up or to say, which is no danger by itself.
    shortcomings: Findings,
    /// The volumes that are added.
    pub(crate) empty_dirs: Vec<String>,
}

impl Plan {
    pub(crate) fn set(&mut self, path: impl Into<String>, value: impl Into<Value>) {
        self.edits.push((path.into(), Some(value.into())));
    }

    pub(crate) fn remove(&mut self, path: String) {
        self.edits.push((path, None));
    }

    /// Fills in an absent field of a security context. Fields of one that is absent itself are written together.
    pub(crate) fn fill(&mut self, context: &Context, field: &str, value: impl Into<Value>) {
        if context.exists {
            return self.set(context.field(field), value);
        }
        let created = context.created.get().and_then(|at| self.edits.get_mut(at));
        if let Some((_, Some(Value::Object(fields)))) = created {
            return fields.set(field, value);
        }
        context.created.set(Some(self.edits.len()));
        let mut fields = Object::default();
        fields.set(field, value);
        self.set(context.path.clone(), fields);
    }

    /// Records what the pod asks for and must not have: where, and what to do about it.
    pub(crate) fn violation(&mut self, path: &str, remedy: &str) {
        self.violations.add(path, remedy);
    }

    /// Records what else violates the profile, which comes after that.
    pub(crate) fn shortcoming(&mut self, path: &str, remedy: &str) {
        self.shortcomings.add(path, remedy);
    }

    /// Does what the mode asks for.
    pub(crate) fn carry_out(self, config: &Config, pod: &Pod) -> Result<(), Rejection> {
        let found = [&self.violations, &self.shortcomings];
        if config.mode == Mode::Enforce {
            deny_if_any(config, &found.map(Findings::reasons).concat())?;
        }
        for violation in found.map(Findings::notes).concat() {
            warn(&violation);
        }
        if config.mode == Mode::Warn {
            self.note_edits();
            return Ok(());
        }
        for (path, value) in self.edits {
            match value {
                Some(value) => pod.set_json(&path, &value.to_json())?,
                None => drop(pod.remove(&path)?),
            }
        }
        mark_evictable(config, pod, &self.empty_dirs)
    }

    fn note_edits(&self) {
        let mut edits = Findings::default();
        for (path, _) in &self.edits {
            edits.add(path, "would be written");
        }
        for text in edits.notes() {
            note(&text);
        }
    }
}

/// Names the added volumes for the cluster autoscaler. Chains that do not grant that go on as before, unless it is configured.
fn mark_evictable(config: &Config, pod: &Pod, volumes: &[String]) -> Result<(), Rejection> {
    let read_only = config.read_only_root_filesystem.as_ref();
    let is_off = read_only.is_some_and(|read_only| read_only.safe_to_evict == Some(false));
    if volumes.is_empty() || is_off {
        return Ok(());
    }
    match evictable::mark(pod, volumes, &[]) {
        Err(Error::Forbidden(_)) => {
            note(&format!(
                "the emptyDirs of readOnlyRootFilesystem may keep the cluster autoscaler from removing the node: grant {}, or set safeToEvict: false",
                evictable::PATH
            ));
            Ok(())
        }
        done => Ok(done?),
    }
}

/// Denies the pod for all violations at once.
fn deny_if_any(config: &Config, violations: &[String]) -> Result<(), Rejection> {
    let profile = match config.profile {
        Profile::Baseline => "baseline",
        Profile::Restricted => "restricted",
    };
    Rejection::deny_if_any(violations).map_err(|denial| {
        Rejection::Denied(format!(
            "the pod does not meet the Pod Security Standard {profile}: {denial}"
        ))
    })
}

#[cfg(test)]
mod tests;
