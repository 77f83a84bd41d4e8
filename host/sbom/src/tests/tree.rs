use super::super::parse;

#[test]
fn crates_and_their_edges_are_read() {
    let text = "\
0mine v0.1.0 (/home/me/mine)
1serde v1.0.228
2serde_core v1.0.228
1json v2.0.0-rc.1+build (registry `ours`)
2serde v1.0.228 (*)
2git-crate v0.3.0 (https://example.com/x?branch=main#0123abcd)
1sibling v0.1.0 (/home/me/sibling) (*)
";
    let crates = parse(text).unwrap();
    let shown: Vec<String> = crates
        .packages
        .iter()
        .map(|package| {
            let source = String::from(package.source.clone());
            let root = if package.root { " root" } else { "" };
            format!(
                "{} {} {source}{root} {:?}",
                package.name, package.version, package.dependencies
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "mine 0.1.0 local root [1, 3, 5]",
            "serde 1.0.228 crates.io [2]",
            "serde_core 1.0.228 crates.io []",
            "json 2.0.0-rc.1+build registry [1, 4]",
            "git-crate 0.3.0 git []",
            "sibling 0.1.0 local []",
        ]
    );
}

#[test]
fn another_text_is_an_error_that_shows_the_line() {
    let error = parse("0mine v0.1.0\nwarning: hello\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "cargo tree printed something unknown: \"warning: hello\" is no line of a dependency tree"
    );
}
