use super::{Extent, summary};

#[test]
fn the_last_line_says_what_did_not_run() {
    assert_eq!(
        summary(Extent::Whole, "9.0 s", None, &[]),
        "all checks passed in 9.0 s"
    );
    assert_eq!(
        summary(
            Extent::Whole,
            "9.0 s",
            Some("this machine cannot run one: no runc"),
            &[]
        ),
        "all checks passed in 9.0 s; the real node did not run: this machine cannot run one: no runc"
    );
    assert_eq!(
        summary(Extent::Quick, "9.0 s", None, &[]),
        "all checks passed in 9.0 s; what needs a control plane or a real node was left out"
    );
}

#[test]
fn the_last_line_names_what_passed_only_alone() {
    let alone = ["a::b", "c"].map(str::to_owned);
    assert_eq!(
        summary(Extent::Whole, "9.0 s", None, &alone),
        "all checks passed in 9.0 s; failed among the others and passed alone, so look into it: a::b, c"
    );
}
