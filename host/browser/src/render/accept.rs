//! Whether each BrowserConfig serves all that it defines, as data for its `Accepted` condition.

use std::collections::BTreeMap;
use std::fmt;

use podloom_api::{BrowserConfigSpec, NAME_MAX, names};
use sha2::{Digest as _, Sha256};

use super::check::{FOUND_MAX, Twins, problems};
use super::merge::merge;
use super::pod::{merged_size, sorted, version_of};
use super::resolve::{ConfigRef, Entry, Pair, by_age, entries};
use super::similar;
use super::warm::{POOLS_MAX, pool, pools, warm_problem, wrong_age};

/// Whether one BrowserConfig serves all that it defines.
#[derive(Clone, Debug)]
pub struct Acceptance<'a> {
    /// The BrowserConfig.
    pub config: ConfigRef<'a>,
    /// The hash of its merged configuration, for `status.version`.
    pub version: String,
    /// What is invalid, so that no pod can be made from it.
    pub problems: Vec<Problem<'a>>,
    /// What an older BrowserConfig serves already.
    pub duplicates: Vec<Duplicate<'a>>,
}

/// What is wrong, and with which versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem<'a> {
    /// The versions that are not served because of it; none if it is about the whole.
    pub pairs: Vec<Pair<'a>>,
    /// A sentence that says what to change.
    pub text: String,
}

/// A version that an older BrowserConfig defines too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplicate<'a> {
    /// The version that is defined twice.
    pub pair: Pair<'a>,
    /// The name of the BrowserConfig that serves it.
    pub served_by: &'a str,
}

/// A BrowserConfig with more bytes than this after merging is not merged, and not accepted.
pub(crate) const MERGED_MAX: usize = 32 << 20;

/// Checks for each BrowserConfig of one namespace whether it serves all that it defines, the oldest first.
pub fn accept<'a>(configs: &[ConfigRef<'a>]) -> Vec<Acceptance<'a>> {
    let configs = by_age(configs);
    let first = oldest(&configs, |_| true);
    configs
        .into_iter()
        .map(|config| accept_beside(config, &first))
        .collect()
}

/// Checks for one BrowserConfig whether it serves all that it defines, given those of its namespace in any order.
pub fn accept_one<'a>(config: ConfigRef<'a>, beside: &[ConfigRef<'a>]) -> Acceptance<'a> {
    let first = oldest(&by_age(beside), |pair| config.defines(pair));
    accept_beside(config, &first)
}

/// Which BrowserConfig is the oldest to define a version.
type Oldest<'a> = BTreeMap<Pair<'a>, ConfigRef<'a>>;

/// Finds the oldest BrowserConfig of each requested version. Each version of the namespace is looked at once: tenants may
/// have thousands of BrowserConfigs with thousands of versions.
fn oldest<'a>(by_age: &[ConfigRef<'a>], is_asked: impl Fn(Pair<'_>) -> bool) -> Oldest<'a> {
    let mut oldest = Oldest::new();
    for Entry { config, pair, .. } in by_age.iter().copied().flat_map(entries) {
        if is_asked(pair) {
            oldest.entry(pair).or_insert(config);
        }
    }
    oldest
}

fn accept_beside<'a>(config: ConfigRef<'a>, oldest: &Oldest<'a>) -> Acceptance<'a> {
    let duplicates = entries(config)
        .filter_map(|Entry { pair, .. }| {
            let first = oldest.get(&pair)?;
            (first.age() < config.age()).then(|| Duplicate {
                pair,
                served_by: first.name(),
            })
        })
        .collect();
    let (problems, version) = examine(config.spec);
    Acceptance {
        config,
        version,
        problems,
        duplicates,
    }
}

/// Merges each version once, and returns what is wrong with them, and the hash of all.
fn examine(spec: &BrowserConfigSpec) -> (Vec<Problem<'_>>, String) {
    let (mut found, mut hash) = (Problems::default(), Sha256::new());
    let size = merged_size(spec);
    if size > MERGED_MAX {
        hash.update(sorted(spec));
        let text = format!(
            "the versions have {} MiB once the template is merged into each, use at most {} MiB: define fewer versions, or split them across several BrowserConfigs",
            size >> 20,
            MERGED_MAX >> 20
        );
        let pairs = Vec::new();
        return (vec![Problem { pairs, text }], version_of(hash));
    }
    // Every field counts, since `status.version` changes when any pod would.
    let BrowserConfigSpec {
        template,
        browsers,
        session_options,
        // They make no pod another one.
        warm: _,
        network_policy: _,
    } = spec;
    if let Some(allowed) = session_options {
        hash.update(sorted(allowed));
    }
    let template = template.as_ref();
    let names = Twins::new("browsers", browsers);
    for (browser, versions) in browsers {
        let (twin, versions_by_case) = (names.of(browser), Twins::new("versions", versions));
        for (name, version) in versions {
            let pair = Pair {
                browser,
                version: name,
            };
            let effective = merge(template, version);
            hash.update(sorted((browser, name, &effective)));
            let twins = twin.clone().into_iter().chain(versions_by_case.of(name));
            let long = [("browser", browser), ("version", name)].map(long_name);
            for text in problems(template, version, &effective)
                .into_iter()
                .chain(twins)
                .chain(long.into_iter().flatten())
            {
                found.note(pair, text);
            }
            if let Some(pool) = pool(spec, pair) {
                let texts = warm_problem(&effective, pool.resources.as_ref()).into_iter();
                texts
                    .chain(wrong_age(pool))
                    .for_each(|text| found.note(pair, text));
            }
        }
    }
    found.problems.extend(undefined_pools(spec));
    found.problems.extend(too_many_pools(spec));
    (found.problems, version_of(hash))
}

/// More pools than there may be.
fn too_many_pools(spec: &BrowserConfigSpec) -> Option<Problem<'_>> {
    let count = pools(spec).count();
    (count > POOLS_MAX).then(|| Problem {
        pairs: Vec::new(),
        text: format!(
            "warm has {count} versions, use at most {POOLS_MAX}: the others have no warm pods"
        ),
    })
}

/// Pools of versions that are not defined.
fn undefined_pools(spec: &BrowserConfigSpec) -> impl Iterator<Item = Problem<'_>> {
    let pairs = pools(spec).map(|(pair, _)| pair);
    let is_defined = |pair: &Pair<'_>| {
        let versions = spec.browsers.get(pair.browser);
        versions.is_some_and(|versions| versions.contains_key(pair.version))
    };
    let undefined = pairs.filter(move |pair| !is_defined(pair));
    undefined.take(FOUND_MAX).map(|pair| Problem {
        pairs: vec![pair],
        text: format!(
            "warm has {pair}, which browsers does not define: write both names as they are there, or remove it"
        ),
    })
}

/// The API server rejects such names now, but older objects may have them.
fn long_name((what, name): (&str, &String)) -> Option<String> {
    let length = name.chars().count();
    (length > NAME_MAX).then(|| {
        let name = similar::shown(name);
        format!("the name of {what} {name} has {length} characters, use at most {NAME_MAX}")
    })
}

/// The first [`FOUND_MAX`] problems in the order in which they were found; one of the template is one problem of many versions.
#[derive(Default)]
struct Problems<'a> {
    problems: Vec<Problem<'a>>,
    places: BTreeMap<String, usize>,
}

impl<'a> Problems<'a> {
    fn note(&mut self, pair: Pair<'a>, text: String) {
        let has_room = self.problems.len() < FOUND_MAX;
        let known = self.places.get(&text).copied();
        match known.and_then(|place| self.problems.get_mut(place)) {
            Some(known) => known.pairs.push(pair),
            None if has_room => {
                self.places.insert(text.clone(), self.problems.len());
                let pairs = vec![pair];
                self.problems.push(Problem { pairs, text });
            }
            None => {}
        }
    }
}

impl<'a> Acceptance<'a> {
    /// Returns whether the BrowserConfig serves all that it defines.
    pub fn is_accepted(&self) -> bool {
        self.problems.is_empty() && self.duplicates.is_empty()
    }

    /// Returns the condition's reason. Invalid comes before duplicate.
    pub fn reason(&self) -> &'static str {
        if !self.problems.is_empty() {
            names::reason::INVALID_TEMPLATE
        } else if !self.duplicates.is_empty() {
            names::reason::DUPLICATE_BROWSER
        } else {
            names::reason::VALID
        }
    }

    /// Returns the condition's message: all that is wrong, or how much is served.
    pub fn message(&self) -> String {
        if !self.is_accepted() {
            let problems = self.problems.iter().map(ToString::to_string);
            let duplicates = self.duplicates.iter().map(ToString::to_string);
            return similar::sentences(problems.chain(duplicates));
        }
        let versions: usize = self.config.spec.browsers.values().map(BTreeMap::len).sum();
        match versions {
            1 => "serves 1 version".to_owned(),
            _ => format!("serves {versions} versions"),
        }
    }
}

impl fmt::Display for Problem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.pairs.is_empty() {
            write!(f, "{}: ", similar::list(&self.pairs))?;
        }
        f.write_str(&self.text)
    }
}

impl fmt::Display for Duplicate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is served by the older BrowserConfig {}",
            self.pair, self.served_by
        )
    }
}

#[cfg(test)]
mod tests;
