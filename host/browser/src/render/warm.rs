//! What a BrowserConfig says about warm pods, and what of it cannot be.

use std::time::Duration;

use k8s_openapi::api::core::v1::ResourceRequirements;
use podloom_api::{BrowserConfigSpec, WarmPool, duration, names};

use super::check::containers;
use super::merge::EffectiveConfig;
use super::resize;
use super::resolve::Pair;
use super::similar::shown;

/// How long a warm pod waits at most, without `maxAge`: four fifths of the longest default of seleniferous.
const MAX_AGE: Duration = Duration::from_mins(4);
/// The least that `maxAge` can be.
const LEAST_AGE: Duration = Duration::from_secs(30);

/// How many pools one BrowserConfig may have. Each keeps the pod that its pods are created from.
pub(crate) const POOLS_MAX: usize = 64;

/// The versions that should have warm pods.
pub(crate) fn pools(spec: &BrowserConfigSpec) -> impl Iterator<Item = (Pair<'_>, &WarmPool)> {
    let pools = spec.warm.iter().flatten();
    pools.flat_map(|(browser, versions)| {
        let versions = versions.iter();
        versions.map(move |(version, pool)| (Pair { browser, version }, pool))
    })
}

/// Returns what is said about the warm pods of a version, if it should have any.
pub(super) fn pool<'a>(spec: &'a BrowserConfigSpec, pair: Pair<'_>) -> Option<&'a WarmPool> {
    spec.warm.as_ref()?.get(pair.browser)?.get(pair.version)
}

/// Returns what of a version a warm pod cannot have, with these resources of its browser while it waits.
pub(crate) fn warm_problem(
    effective: &EffectiveConfig,
    resources: Option<&ResourceRequirements>,
) -> Option<String> {
    early_variable(effective).or_else(|| {
        let why = resize::problem(effective, resources?)?;
        Some(format!("resources of warm: {why}"))
    })
}

/// Returns a variable that is read before anybody knows the session.
fn early_variable(effective: &EffectiveConfig) -> Option<String> {
    let settings = &effective.settings;
    let browser = (names::container::BROWSER, &settings.env);
    let others = containers(settings).map(|it| (&*it.name, &it.env));
    let mut variables = std::iter::once(browser)
        .chain(others)
        .flat_map(|(container, env)| env.iter().flatten().map(move |it| (container, it)));
    variables.find_map(|(container, variable)| {
        let field = variable.value_from.as_ref()?.field_ref.as_ref()?;
        let path = &field.field_path;
        is_of_session(path).then(|| {
            format!(
                "variable {} of container {} is {}, which is read when the container starts, and a warm pod has no session yet: mount it as a file, or remove the version from warm",
                shown(&variable.name),
                shown(container),
                shown(path)
            )
        })
    })
}

/// Whether a field of a pod is another one once a session has taken it.
pub(crate) fn is_of_session(path: &str) -> bool {
    let mut fields = ["metadata.labels", "metadata.annotations"].iter();
    fields.any(|field| path.starts_with(field))
}

/// Returns how long a warm pod waits at most.
pub(crate) fn max_age(pool: &WarmPool) -> Duration {
    let given = pool.max_age.as_deref().map(duration::parse);
    let given = given.and_then(Result::ok).unwrap_or(MAX_AGE);
    given.max(LEAST_AGE)
}

pub(super) fn wrong_age(pool: &WarmPool) -> Option<String> {
    let text = pool.max_age.as_deref()?;
    match duration::parse(text) {
        Ok(age) if age < LEAST_AGE => Some(format!(
            "maxAge of warm is {}, use at least {}",
            shown(text),
            duration::print(LEAST_AGE)
        )),
        Ok(_) => None,
        Err(error) => Some(format!("maxAge of warm is {}: {error}", shown(text))),
    }
}
