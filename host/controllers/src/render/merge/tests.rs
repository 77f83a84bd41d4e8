use podloom_api::{BrowserConfigSpec, PodSettings, VersionConfig};
use serde::Deserialize;

use super::{config_version, merge};

/// A case is a file whose name is the fact.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    template: Option<PodSettings>,
    version: VersionConfig,
}

#[test]
fn merged_as_the_file_name_says() {
    insta::glob!("cases/*.yaml", |path| {
        let text = std::fs::read_to_string(path).unwrap();
        let case: Case = serde_saphyr::from_str(&text).unwrap();
        let effective = merge(case.template.as_ref(), &case.version);
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_yaml_snapshot!("merge", effective);
        });
    });
}

#[test]
fn merging_again_changes_nothing() {
    insta::glob!("cases/*.yaml", |path| {
        let text = std::fs::read_to_string(path).unwrap();
        let case: Case = serde_saphyr::from_str(&text).unwrap();
        let effective = merge(case.template.as_ref(), &case.version);
        assert_eq!(merge(None, &effective), effective);
        assert_eq!(merge(Some(&effective.settings), &effective), effective);
    });
}

#[track_caller]
fn version_of(text: &str) -> String {
    let spec: BrowserConfigSpec = serde_saphyr::from_str(text).unwrap();
    config_version(&spec)
}

const IN_TEMPLATE: &str = "
template: { env: [{ name: TZ, value: UTC }] }
browsers: { chrome: { '139.0': { image: 'example/chrome:139.0' } } }
";

#[test]
fn hash_has_sixteen_digits_and_is_the_same_everywhere() {
    assert_eq!(version_of(IN_TEMPLATE), "3507ac233d96916d");
}

#[test]
fn hash_is_of_what_the_configuration_amounts_to() {
    let in_version = "
browsers: { chrome: { '139.0': { image: 'example/chrome:139.0', env: [{ name: TZ, value: UTC }] } } }
";
    assert_eq!(version_of(IN_TEMPLATE), version_of(in_version));
}

#[test]
fn hash_changes_with_any_pod() {
    let mut hashes: Vec<String> = [
        ("UTC", "CET"),
        ("139.0'", "140.0'"),
        ("chrome:139.0", "chrome:139.1"),
        ("{ chrome:", "{ firefox:"),
    ]
    .iter()
    .map(|(from, to)| version_of(&IN_TEMPLATE.replace(from, to)))
    .collect();
    hashes.push(version_of(IN_TEMPLATE));
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), 5);
}
