use podloom_mutators::PluginGrants;

use super::super::{Change, Grants, changes, listed};

fn grants(plugins: &[(&str, &[&str], &[&str])]) -> Grants {
    let owned = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
    let granted = plugins.iter().map(|(name, allow, read)| {
        let (allow, read) = (owned(allow), owned(read));
        ((*name).to_owned(), PluginGrants { allow, read })
    });
    granted.collect()
}

#[test]
fn only_what_changed_is_named() {
    let before = grants(&[
        ("labels", &["/metadata/labels"], &["/spec"]),
        ("old", &["/spec/volumes/*"], &[]),
        ("same", &["/spec/hostNetwork"], &["/metadata"]),
    ]);
    let after = grants(&[
        (
            "labels",
            &["/metadata/labels", "/metadata/annotations"],
            &[],
        ),
        ("new", &[], &[""]),
        ("same", &["/spec/hostNetwork"], &["/metadata"]),
    ]);
    let change = |plugin| Change {
        plugin,
        ..Change::default()
    };
    let expected = [
        Change {
            allow_added: vec!["/metadata/annotations"],
            read_removed: vec!["/spec"],
            ..change("labels")
        },
        Change {
            read_added: vec![""],
            ..change("new")
        },
        Change {
            allow_removed: vec!["/spec/volumes/*"],
            ..change("old")
        },
    ];
    assert_eq!(changes(&before, &after), expected);
    assert_eq!(changes(&after, &after), []);
}

#[test]
fn long_lists_of_long_paths_are_one_short_line() {
    assert_eq!(listed(&[]), "");
    assert_eq!(listed(&["", "/a\n\u{202e}b"]), r#""", "/a\n\u{202e}b""#);
    let long = format!("/{}", "é".repeat(500));
    let line = listed(&[long.as_str(); 256]);
    assert!(line.len() < 20 * 210, "{}", line.len());
    assert!(line.ends_with("... and 236 more"), "{line}");
}
