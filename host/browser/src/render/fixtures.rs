//! Objects of tests, written as YAML.

use podloom_api::{BrowserConfigObject, BrowserObject, BrowserSpec};
use serde_json::Value;

use super::ConfigRef;

/// What a file of several documents holds.
pub(super) struct Objects {
    pub(super) configs: Vec<BrowserConfigObject>,
    pub(super) browsers: Vec<BrowserObject>,
}

pub(super) fn objects(text: &str) -> Objects {
    let (mut configs, mut browsers) = (Vec::new(), Vec::new());
    for document in serde_saphyr::from_multiple::<Value>(text).unwrap() {
        match document["kind"].as_str() {
            Some("BrowserConfig") => configs.push(serde_json::from_value(document).unwrap()),
            Some("Browser") => browsers.push(serde_json::from_value(document).unwrap()),
            kind => panic!("a document has kind {kind:?}"),
        }
    }
    Objects { configs, browsers }
}

impl Objects {
    pub(super) fn config_refs(&self) -> Vec<ConfigRef<'_>> {
        self.configs.iter().map(ConfigRef::from).collect()
    }
}

/// A BrowserConfig in short: its name, the day of its creation, its spec in YAML.
pub(super) fn config(name: &str, day: u8, spec: &str) -> BrowserConfigObject {
    let spec: Value = serde_saphyr::from_str(spec).unwrap();
    let metadata = serde_json::json!({
        "name": name,
        "creationTimestamp": format!("2026-01-{day:02}T00:00:00Z"),
    });
    serde_json::from_value(serde_json::json!({ "metadata": metadata, "spec": spec })).unwrap()
}

/// A BrowserConfig whose versions have only an image, named after the BrowserConfig.
pub(super) fn plain_config(name: &str, day: u8, pairs: &[(&str, &str)]) -> BrowserConfigObject {
    let mut object = config(name, day, "browsers: {}");
    for (browser, version) in pairs {
        let versions = object
            .spec
            .browsers
            .entry((*browser).to_owned())
            .or_default();
        versions.entry((*version).to_owned()).or_default().image =
            format!("{name}/{browser}:{version}");
    }
    object
}

pub(super) fn browser(name: &str, version: &str) -> BrowserSpec {
    BrowserSpec {
        browser_name: name.to_owned(),
        browser_version: version.to_owned(),
    }
}
