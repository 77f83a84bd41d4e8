use std::cell::Cell;
use std::cmp::Ordering;

use podloom_api::{PodSettings, VersionConfig};
use serde::Deserialize;

use super::{last, merge, merge_lists};

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

/// A key that counts how often keys are compared.
#[derive(PartialEq, Eq)]
struct Counted<'a>(&'a str, &'a Cell<usize>);

impl PartialOrd for Counted<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Counted<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.1.set(self.1.get() + 1);
        self.0.cmp(other.0)
    }
}

/// Lists come from users: the square of 3,000 variables in each of 3,000 versions took a minute and a half.
#[test]
fn entries_are_not_searched_for_among_each_other() {
    let entries: Vec<String> = (0..4096).map(|number| number.to_string()).collect();
    let comparisons = Cell::new(0);
    let items = entries.iter().chain(&entries);
    let merged = merge_lists(items, |entry| Counted(entry, &comparisons), last);
    assert_eq!(merged, Some(entries));
    let each = comparisons.get() / 8192;
    assert!(each <= 24, "{each} comparisons for each entry");
}

#[test]
fn entries_of_one_key_are_united_in_their_order() {
    let version = "
image: example/chrome
hostAliases:
- { ip: 10.0.0.1, hostnames: [a, b] }
- { ip: 10.0.0.2, hostnames: [z, z] }
- { ip: 10.0.0.1, hostnames: [b, c] }
- { ip: 10.0.0.1, hostnames: [d, a] }
sidecars:
- { name: proxy, image: one, workingDir: /one, env: [{ name: A, value: '1' }] }
- { name: proxy, image: two, command: [run], env: [{ name: B }, { name: A, value: '2' }] }
- { name: proxy, image: three, env: [{ name: C }] }
";
    let version: VersionConfig = serde_saphyr::from_str(version).unwrap();
    let settings = merge(None, &version).settings;
    let aliases = serde_json::json!([
        { "ip": "10.0.0.1", "hostnames": ["a", "b", "c", "d"] },
        { "ip": "10.0.0.2", "hostnames": ["z", "z"] },
    ]);
    assert_eq!(
        serde_json::to_value(settings.host_aliases).unwrap(),
        aliases
    );
    let sidecars = serde_json::json!([{
        "name": "proxy", "image": "three", "workingDir": "/one", "command": ["run"],
        "env": [{ "name": "A", "value": "2" }, { "name": "B" }, { "name": "C" }],
    }]);
    assert_eq!(serde_json::to_value(settings.sidecars).unwrap(), sidecars);
}
