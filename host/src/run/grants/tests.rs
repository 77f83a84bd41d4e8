use super::{Change, Granted, Grants, changes};

fn grants(plugins: &[(&str, &[&str], &[&str])]) -> Grants {
    let owned = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
    let granted = plugins.iter().map(|(name, allow, read)| {
        let (allow, read) = (owned(allow), owned(read));
        ((*name).to_owned(), Granted { allow, read })
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
        allow_added: vec![],
        allow_removed: vec![],
        read_added: vec![],
        read_removed: vec![],
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
