use podloom_api::BrowserConfigObject;

use super::accept;
use crate::render::ConfigRef;
use crate::render::fixtures::{config, plain_config};

/// What the conditions say: name, reason and message of each BrowserConfig.
#[track_caller]
fn check(configs: &[BrowserConfigObject], expected: &[(&str, &str, &str)]) {
    let refs: Vec<ConfigRef<'_>> = configs.iter().map(ConfigRef::from).collect();
    let found = accept(&refs);
    let messages: Vec<String> = found.iter().map(super::Acceptance::message).collect();
    let told: Vec<_> = found
        .iter()
        .zip(&messages)
        .map(|(acceptance, message)| {
            (
                acceptance.config.name(),
                acceptance.reason(),
                message.as_str(),
            )
        })
        .collect();
    assert_eq!(told, expected);
    for acceptance in &found {
        assert_eq!(acceptance.is_accepted(), acceptance.reason() == "Valid");
    }
}

#[test]
fn a_valid_config_serves_all_its_versions() {
    check(
        &[
            plain_config("a", 1, &[("chrome", "139.0")]),
            plain_config("b", 2, &[("chrome", "140.0"), ("firefox", "118.0")]),
        ],
        &[
            ("a", "Valid", "serves 1 version"),
            ("b", "Valid", "serves 2 versions"),
        ],
    );
}

#[test]
fn the_younger_of_two_configs_with_the_same_pair_is_a_duplicate() {
    check(
        &[
            plain_config("young", 2, &[("chrome", "139.0"), ("chrome", "140.0")]),
            plain_config("old", 1, &[("chrome", "139.0")]),
            plain_config("youngest", 3, &[("chrome", "139.0"), ("chrome", "140.0")]),
        ],
        &[
            ("old", "Valid", "serves 1 version"),
            (
                "young",
                "DuplicateBrowser",
                "chrome 139.0 is served by the older BrowserConfig old",
            ),
            (
                "youngest",
                "DuplicateBrowser",
                "chrome 139.0 is served by the older BrowserConfig old; chrome 140.0 is served by the older BrowserConfig young",
            ),
        ],
    );
}

#[test]
fn configs_of_one_age_are_told_apart_by_name() {
    check(
        &[
            plain_config("b", 1, &[("chrome", "139.0")]),
            plain_config("a", 1, &[("chrome", "139.0")]),
        ],
        &[
            ("a", "Valid", "serves 1 version"),
            (
                "b",
                "DuplicateBrowser",
                "chrome 139.0 is served by the older BrowserConfig a",
            ),
        ],
    );
}

#[test]
fn keys_that_differ_in_case_alone_are_an_invalid_template() {
    check(
        &[plain_config(
            "a",
            1,
            &[
                ("chrome", "139.0"),
                ("Chrome", "140.0"),
                ("firefox", "118.0"),
            ],
        )],
        &[(
            "a",
            "InvalidTemplate",
            "Chrome 140.0, chrome 139.0: browsers Chrome and chrome differ in case alone, rename or merge them",
        )],
    );
}

#[test]
fn a_problem_of_the_template_is_told_once_and_before_duplicates() {
    let spec = "
template: { volumeMounts: [{ name: home, mountPath: /home/user }] }
browsers:
  chrome: { '139.0': { image: a }, '140.0': { image: a, volumes: [{ name: home, emptyDir: {} }] } }
  firefox: { '118.0': { image: a } }
";
    check(
        &[
            plain_config("old", 1, &[("chrome", "139.0")]),
            config("young", 2, spec),
        ],
        &[
            ("old", "Valid", "serves 1 version"),
            (
                "young",
                "InvalidTemplate",
                "chrome 139.0, firefox 118.0: container browser mounts volume home at /home/user, add it to volumes; chrome 139.0 is served by the older BrowserConfig old",
            ),
        ],
    );
}
