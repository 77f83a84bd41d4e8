//! Which configuration a Browser gets: a lookup derived from the BrowserConfigs as they are now.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use podloom_api::{
    BrowserConfigObject, BrowserConfigSpec, BrowserSpec, SessionOptions, VersionConfig,
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
    /// There is no browser of that name.
    Browser {
        /// The name that was asked for.
        name: String,
        /// A name that may have been meant.
        similar: Option<String>,
        /// All browsers that there are, and their versions.
        known: BTreeMap<String, BTreeSet<String>>,
    },
    /// The browser has no version of that name.
    Version {
        /// The browser's name.
        browser: String,
        /// The version that was asked for.
        version: String,
        /// A version that may have been meant.
        similar: Option<String>,
        /// All versions of the browser that there are.
        known: BTreeSet<String>,
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
    let BrowserConfigSpec {
        template,
        browsers,
        session_options,
    } = entry.config.spec;
    let effective = merge(template.as_ref(), entry.version);
    let mut problems = problems(template.as_ref(), entry.version, &effective);
    problems.extend(Twins::new("browsers", browsers).of(entry.pair.browser));
    let versions = browsers.get(entry.pair.browser);
    problems.extend(versions.and_then(|it| Twins::new("versions", it).of(entry.pair.version)));
    if problems.is_empty() {
        return Ok(Resolved {
            config: entry.config.name(),
            pair: entry.pair,
            effective,
            session_options: session_options.as_ref(),
        });
    }
    Err(ResolveError::Invalid {
        config: entry.config.name().to_owned(),
        problems,
    })
}

/// Merges and checks one version of a BrowserConfig, whatever others serve; none if no pod can be made from it.
pub(crate) fn resolve_pair<'a>(config: ConfigRef<'a>, pair: Pair<'a>) -> Option<Resolved<'a>> {
    let template = config.spec.template.as_ref();
    let version = config.spec.browsers.get(pair.browser)?.get(pair.version)?;
    let effective = merge(template, version);
    let resolved = problems(template, version, &effective).is_empty();
    resolved.then(|| Resolved {
        config: config.name(),
        pair,
        effective,
        session_options: config.spec.session_options.as_ref(),
    })
}

/// One version in one BrowserConfig.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) config: ConfigRef<'a>,
    pub(super) pair: Pair<'a>,
    pub(super) version: &'a VersionConfig,
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
    if versions.is_empty() {
        return Missing::Browser {
            name: asked.browser.to_owned(),
            similar: similar::closest(asked.browser, known.keys()),
            known,
        };
    }
    Missing::Version {
        browser: asked.browser.to_owned(),
        version: asked.version.to_owned(),
        similar: similar::closest(asked.version, &versions),
        known: versions,
    }
}

impl Missing {
    /// Returns what is missing and a few names that there are, the likeliest first, for warnings of one line.
    pub(crate) fn brief(&self) -> String {
        let (what, similar, known) = match self {
            Self::Configs => return self.to_string(),
            Self::Browser {
                name,
                similar,
                known,
            } => {
                let what = format!("no browser is called {:?}", similar::shown(name));
                (what, similar, similar_first(similar, known.keys()))
            }
            Self::Version {
                browser,
                version,
                similar,
                known,
            } => {
                let [browser, version] = [browser, version].map(|name| similar::shown(name));
                let what = format!("{browser} has no version {version:?}");
                (what, similar, similar_first(similar, known))
            }
        };
        let hint = match similar {
            Some(name) => format!("did you mean {:?}? ", similar::shown(name)),
            None => String::new(),
        };
        format!("{what}, {hint}available: {}", similar::few(known))
    }
}

fn similar_first<'a>(
    similar: &'a Option<String>,
    known: impl IntoIterator<Item = &'a String>,
) -> Vec<&'a String> {
    let others = known.into_iter();
    let others = others.filter(|name| similar.as_ref() != Some(*name));
    similar.iter().chain(others).collect()
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let did_you_mean = |similar: &Option<String>| match similar {
            Some(name) => format!(", did you mean {:?}? available", similar::shown(name)),
            None => ", available".to_owned(),
        };
        match self {
            Self::Configs => f.write_str("the namespace has no BrowserConfig"),
            Self::Browser {
                name,
                similar,
                known,
            } => {
                let known = similar::browsers(known);
                let (name, hint) = (similar::shown(name), did_you_mean(similar));
                write!(f, "no browser is called {name:?}{hint}: {known}")
            }
            Self::Version {
                browser,
                version,
                similar,
                known,
            } => {
                let known = similar::list(known);
                let hint = did_you_mean(similar);
                let [browser, version] = [browser, version].map(|name| similar::shown(name));
                write!(f, "{browser} has no version {version:?}{hint}: {known}")
            }
        }
    }
}

#[cfg(test)]
mod tests;
