//! Which configuration a Browser gets: a lookup derived from the BrowserConfigs as they are now.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use podloom_api::{
    BrowserConfigObject, BrowserConfigSpec, BrowserSpec, SessionNetworkPolicy, SessionOptions,
    VersionConfig,
};

use super::check::{Twins, problems};
use super::merge::{EffectiveConfig, merge};
use super::similar::{self, same_but_case};

/// A BrowserConfig as resolving sees it, whatever its API group.
#[derive(Clone, Copy, Debug)]
pub struct ConfigRef<'a> {
    /// Gives the name and the age.
    pub metadata: &'a ObjectMeta,
    /// Gives the browsers.
    pub spec: &'a BrowserConfigSpec,
}

/// A browser and a version, spelled as the BrowserConfig has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair<'a> {
    /// The browser's name.
    pub browser: &'a str,
    /// The version's name.
    pub version: &'a str,
}

/// What a Browser's pod is made from.
#[derive(Clone, Debug)]
pub struct Resolved<'a> {
    /// The name of the BrowserConfig that serves.
    pub config: &'a str,
    /// Where in it the version is.
    pub pair: Pair<'a>,
    /// The version merged over the template, and checked.
    pub effective: EffectiveConfig,
    /// What a session may ask for on top; none means everything.
    pub session_options: Option<&'a SessionOptions>,
    /// The NetworkPolicy that each session has.
    pub network_policy: Option<&'a SessionNetworkPolicy>,
}

/// Why no configuration can be used for a Browser. The messages begin with the words that clients look for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// No BrowserConfig defines what was asked for.
    #[error("Browser configuration not found: {0}")]
    NotFound(Missing),
    /// One does, but no pod can be made from it.
    #[error(
        "Browser configuration {config} is invalid: {}",
        similar::sentences(problems)
    )]
    Invalid {
        /// The name of the BrowserConfig.
        config: String,
        /// What to change, a sentence each.
        problems: Vec<String>,
    },
}

/// What was asked for and is not defined, and what is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// There is no BrowserConfig at all.
    Configs,
    /// There is no browser, or no version, of that name.
    Name {
        /// The field of the Browser's spec that has the name.
        field: &'static str,
        /// What is missing.
        what: String,
        /// A name that may have been meant.
        similar: Option<String>,
        /// All names that there are.
        known: BTreeSet<String>,
        /// The same in a list; browsers with their versions.
        listed: String,
    },
}

/// Finds what a Browser asks for among the BrowserConfigs of its namespace, given in any order.
///
/// Exact names win over those that differ in case, and the older BrowserConfig over the younger.
/// What is invalid elsewhere in the same BrowserConfig does no harm.
pub fn resolve<'a>(
    configs: &[ConfigRef<'a>],
    browser: &BrowserSpec,
) -> Result<Resolved<'a>, ResolveError> {
    let asked = Pair {
        browser: &browser.browser_name,
        version: &browser.browser_version,
    };
    let entries: Vec<Entry<'a>> = by_age(configs).into_iter().flat_map(entries).collect();
    let entry = entries
        .iter()
        .filter(|entry| same_but_case(entry.pair.browser, asked.browser))
        .filter(|entry| same_but_case(entry.pair.version, asked.version))
        .min_by_key(|entry| {
            let Pair { browser, version } = entry.pair;
            (browser != asked.browser, version != asked.version)
        })
        .ok_or_else(|| ResolveError::NotFound(missing(&entries, asked)))?;
    let (resolved, mut problems) = entry.resolved();
    let browsers = &entry.config.spec.browsers;
    problems.extend(Twins::new("browsers", browsers).of(entry.pair.browser));
    let versions = browsers.get(entry.pair.browser);
    problems.extend(versions.and_then(|it| Twins::new("versions", it).of(entry.pair.version)));
    if problems.is_empty() {
        return Ok(resolved);
    }
    Err(ResolveError::Invalid {
        config: resolved.config.to_owned(),
        problems,
    })
}

/// Merges and checks one version of a BrowserConfig, whatever others serve; none if no pod can be made from it.
pub(crate) fn resolve_pair<'a>(config: ConfigRef<'a>, pair: Pair<'a>) -> Option<Resolved<'a>> {
    let version = config.spec.browsers.get(pair.browser)?.get(pair.version)?;
    let entry = Entry {
        config,
        pair,
        version,
    };
    let (resolved, problems) = entry.resolved();
    problems.is_empty().then_some(resolved)
}

/// One version in one BrowserConfig.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) config: ConfigRef<'a>,
    pub(super) pair: Pair<'a>,
    pub(super) version: &'a VersionConfig,
}

impl<'a> Entry<'a> {
    /// Merges the version over its template, and lists what is wrong with the result.
    fn resolved(self) -> (Resolved<'a>, Vec<String>) {
        let spec = self.config.spec;
        let template = spec.template.as_ref();
        let effective = merge(template, self.version);
        let problems = problems(template, self.version, &effective);
        let resolved = Resolved {
            config: self.config.name(),
            pair: self.pair,
            effective,
            session_options: spec.session_options.as_ref(),
            network_policy: spec.network_policy.as_ref(),
        };
        (resolved, problems)
    }
}

/// Sorts BrowserConfigs, the oldest first.
pub(super) fn by_age<'a>(configs: &[ConfigRef<'a>]) -> Vec<ConfigRef<'a>> {
    let mut sorted = configs.to_vec();
    sorted.sort_by_key(ConfigRef::age);
    sorted
}

/// Lists the versions that a BrowserConfig defines.
pub(super) fn entries<'a>(config: ConfigRef<'a>) -> impl Iterator<Item = Entry<'a>> {
    config
        .spec
        .browsers
        .iter()
        .flat_map(move |(browser, versions)| {
            versions.iter().map(move |(name, version)| Entry {
                config,
                pair: Pair {
                    browser,
                    version: name,
                },
                version,
            })
        })
}

impl<'a> ConfigRef<'a> {
    /// Returns the BrowserConfig's name; one that has none, as only a file can, is the empty text.
    pub fn name(&self) -> &'a str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns whether it has an entry for this very browser and version.
    pub(super) fn defines(&self, pair: Pair<'_>) -> bool {
        let versions = self.spec.browsers.get(pair.browser);
        versions.is_some_and(|versions| versions.contains_key(pair.version))
    }

    /// Orders by creation, then name; what is not yet created is the youngest.
    pub(super) fn age(&self) -> (bool, Option<&'a Time>, &'a str) {
        let created = self.metadata.creation_timestamp.as_ref();
        (created.is_none(), created, self.name())
    }
}

impl<'a> From<&'a BrowserConfigObject> for ConfigRef<'a> {
    fn from(config: &'a BrowserConfigObject) -> Self {
        Self {
            metadata: &config.metadata,
            spec: &config.spec,
        }
    }
}

impl fmt::Display for Pair<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [browser, version] = [self.browser, self.version].map(similar::shown);
        write!(f, "{browser} {version}")
    }
}

fn missing(entries: &[Entry<'_>], asked: Pair<'_>) -> Missing {
    if entries.is_empty() {
        return Missing::Configs;
    }
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut versions = BTreeSet::new();
    for Pair { browser, version } in entries.iter().map(|entry| entry.pair) {
        known
            .entry(browser.to_owned())
            .or_default()
            .insert(version.to_owned());
        if same_but_case(browser, asked.browser) {
            versions.insert(version.to_owned());
        }
    }
    let [browser, version] = [asked.browser, asked.version].map(similar::shown);
    if versions.is_empty() {
        return Missing::Name {
            field: "browserName",
            what: format!("no browser is called {browser:?}"),
            similar: similar::closest(asked.browser, known.keys()),
            listed: similar::browsers(&known),
            known: known.into_keys().collect(),
        };
    }
    Missing::Name {
        field: "browserVersion",
        what: format!("{browser} has no version {version:?}"),
        similar: similar::closest(asked.version, &versions),
        listed: similar::list(&versions),
        known: versions,
    }
}

impl Missing {
    /// Returns what is missing and a few names that there are, the likeliest first, for warnings of one line.
    pub(crate) fn brief(&self) -> String {
        let Self::Name {
            what,
            similar,
            known,
            ..
        } = self
        else {
            return self.to_string();
        };
        let others = known.iter().filter(|name| similar.as_ref() != Some(*name));
        let known = similar::few(similar.iter().chain(others));
        match similar {
            Some(name) => {
                let name = similar::shown(name);
                format!("{what}, did you mean {name:?}? available: {known}")
            }
            None => format!("{what}, available: {known}"),
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configs => f.write_str("the namespace has no BrowserConfig"),
            Self::Name {
                what,
                similar,
                listed,
                ..
            } => {
                write!(f, "{what}, ")?;
                if let Some(name) = similar {
                    write!(f, "did you mean {:?}? ", similar::shown(name))?;
                }
                write!(f, "available: {listed}")
            }
        }
    }
}

#[cfg(test)]
mod tests;
