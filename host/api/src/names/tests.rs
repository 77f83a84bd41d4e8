use super::label_value;

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(label_value(text), expected);
}

#[test]
fn valid_label_values_stay_as_they_are() {
    check("", "");
    check("chrome", "chrome");
    check("139.0", "139.0");
    check(
        "d568aeff-a91a-449b-834b-d79bf2d6d623",
        "d568aeff-a91a-449b-834b-d79bf2d6d623",
    );
    check(&"a".repeat(63), &"a".repeat(63));
}

#[test]
fn bad_characters_become_dashes_and_bad_ends_go() {
    check("139.0+build/7", "139.0-build-7");
    check("MiniBrowser (GTK)", "MiniBrowser--GTK");
    check("-chrome.", "chrome");
    check("été", "t");
    check("***", "");
}

#[test]
fn long_names_are_cut_and_stay_apart() {
    let one = label_value(&format!("{}-one", "a".repeat(70)));
    let two = label_value(&format!("{}-two", "a".repeat(70)));
    assert_eq!((one.len(), two.len()), (63, 63));
    assert_ne!(one, two);
    check(
        &format!("{}.{}", "a".repeat(53), "b".repeat(30)),
        &format!(
            "{}-{:08x}",
            "a".repeat(53),
            super::fnv1a(&format!("{}.{}", "a".repeat(53), "b".repeat(30)))
        ),
    );
}
