use podloom_api::{BrowserConfigObject, PodSettings};

use super::{accept, accept_one};
use crate::render::ConfigRef;
use crate::render::fixtures::{config, plain_config};

/// What the conditions say: name, reason and message of each BrowserConfig.
#[track_caller]
fn check(configs: &[BrowserConfigObject], expected: &[(&str, &str, &str)]) {
    let refs: Vec<ConfigRef<'_>> = configs.iter().map(ConfigRef::from).collect();
    let found = accept(&refs);
    let messages: Vec<String> = found.iter().map(super::Acceptance::message).collect();
    let found_texts: Vec<_> = found
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
    assert_eq!(found_texts, expected);
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
            "Chrome 140.0, chrome 139.0: browsers Chrome and chrome differ only in case, rename or merge them",
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

#[test]
fn a_name_that_the_api_server_would_not_let_in_serves_and_is_told() {
    let name = "v".repeat(254);
    let shown = "v".repeat(64);
    let message = format!(
        "chrome {}…: the name of version {shown}… has 254 characters, use at most 253",
        "v".repeat(57)
    );
    check(
        &[plain_config("a", 1, &[("chrome", &name)])],
        &[("a", "InvalidTemplate", &message)],
    );
}

#[test]
fn a_message_has_a_limit() {
    let versions: Vec<String> = (0..1000).map(|number| format!("v{number:03}")).collect();
    let pairs: Vec<_> = versions
        .iter()
        .map(|version| ("chrome", version.as_str()))
        .collect();
    let all = [
        plain_config("old", 1, &pairs),
        plain_config("young", 2, &pairs),
    ];
    let refs: Vec<ConfigRef<'_>> = all.iter().map(ConfigRef::from).collect();
    let message = accept_one(refs[1], &refs).message();
    assert!(
        message.ends_with("; chrome v011 is served by the older BrowserConfig old and 988 more")
    );
}

#[test]
fn many_problems_are_not_collected() {
    let names: Vec<String> = (0..1000).map(|number| format!("v{number}")).collect();
    let pairs: Vec<_> = names.iter().map(|name| ("chrome", name.as_str())).collect();
    let mut config = plain_config("a", 1, &pairs);
    for (name, version) in config.spec.browsers.get_mut("chrome").unwrap() {
        version.settings.labels = Some([(format!("{name}/"), String::new())].into());
    }
    let found = accept_one(ConfigRef::from(&config), &[]);
    assert_eq!(found.problems.len(), 256);
}

/// A hundred million lookups would take longer than anybody waits.
#[test]
fn versions_are_not_searched_for_in_each_older_config() {
    let names: Vec<String> = (0..10_000).map(|number| number.to_string()).collect();
    let pairs: Vec<_> = names.iter().map(|name| ("chrome", name.as_str())).collect();
    let (young, old) = (
        plain_config("young", 2, &pairs),
        plain_config("old", 1, &[("chrome", "7")]),
    );
    let beside = vec![ConfigRef::from(&old); 10_000];
    let started = std::time::Instant::now();
    let found = accept_one(ConfigRef::from(&young), &beside);
    assert_eq!(found.duplicates.len(), 1);
    let took = started.elapsed();
    assert!(took < std::time::Duration::from_secs(40), "took {took:?}");
}

/// A template of 40 KiB, merged into each of a thousand versions.
#[test]
fn what_would_take_too_long_to_merge_is_told_and_has_a_version_all_the_same() {
    let value = "x".repeat(40 << 10);
    let too_large = |value: &str| {
        let versions: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
        let pairs: Vec<_> = versions
            .iter()
            .map(|version| ("chrome", version.as_str()))
            .collect();
        let mut config = plain_config("a", 1, &pairs);
        config.spec.template = Some(PodSettings {
            working_dir: Some(value.to_owned()),
            ..PodSettings::default()
        });
        config
    };
    let config = too_large(&value);
    check(
        std::slice::from_ref(&config),
        &[(
            "a",
            "InvalidTemplate",
            "the versions have 39 MiB once the template is merged into each, use at most 32 MiB: define fewer versions, or split them across several BrowserConfigs",
        )],
    );
    let version = |config| accept_one(ConfigRef::from(config), &[]).version;
    assert_eq!(version(&config).len(), 16);
    assert_ne!(
        version(&config),
        version(&too_large(&value.replace("xx", "yy")))
    );
}

#[track_caller]
fn version_of(text: &str) -> String {
    let config = config("a", 1, text);
    accept_one(ConfigRef::from(&config), &[]).version
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
fn hash_changes_with_what_sessions_may_ask_for() {
    let limited = |options: &str| version_of(&format!("{IN_TEMPLATE}sessionOptions: {options}"));
    let hashes = [
        version_of(IN_TEMPLATE),
        limited("{}"),
        limited("{ labels: [team] }"),
    ];
    assert_ne!(hashes[0], hashes[1]);
    assert_ne!(hashes[1], hashes[2]);
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

#[test]
fn warm_pods_are_of_versions_that_are_defined_and_know_no_session() {
    let text = |warm: &str, env: &str| {
        format!(
            "{{ metadata: {{ name: a, namespace: n, creationTimestamp: '2026-01-01T00:00:00Z' }}, spec: {{ template: {{ env: [{env}] }}, browsers: {{ chrome: {{ '1': {{ image: x }} }} }}, warm: {{ {warm} }} }} }}"
        )
    };
    let label =
        "{ name: TEAM, valueFrom: { fieldRef: { fieldPath: \"metadata.labels['team']\" } } }";
    for (warm, env, expected) in [
        ("chrome: { '1': { max: 1 } }", "", ""),
        (
            "chrome: { '2': { max: 1 } }",
            "",
            "warm has chrome 2, which browsers does not define",
        ),
        (
            "chrome: { '1': { max: 1, maxAge: 29s } }",
            "",
            "maxAge of warm is 29s, use at least 30s",
        ),
        (
            "chrome: { '1': { max: 1 } }",
            label,
            "variable TEAM of container browser is metadata.labels['team'], which is read when the container starts",
        ),
    ] {
        let config: BrowserConfigObject =
            serde_saphyr::from_str(&text(warm, env)).expect("a config");
        let configs = [ConfigRef::from(&config)];
        let all = accept(&configs);
        let problems: Vec<_> = all[0].problems.iter().map(|it| it.text.as_str()).collect();
        let found = problems.join("; ");
        assert!(
            found.contains(expected) && found.is_empty() == expected.is_empty(),
            "{found}"
        );
    }
    let many: Vec<String> = (0..65)
        .map(|number| format!("'{number}': {{ max: 1 }}"))
        .collect();
    let warm = format!("chrome: {{ {} }}", many.join(", "));
    let config: BrowserConfigObject = serde_saphyr::from_str(&text(&warm, "")).expect("a config");
    let all = accept(&[ConfigRef::from(&config)]);
    let last = all[0].problems.last().map(|it| it.text.as_str());
    assert_eq!(
        last,
        Some("warm has 65 versions, use at most 64: the others have no warm pods")
    );
}
