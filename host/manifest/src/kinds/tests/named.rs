use super::super::NamedTemplate;

#[track_caller]
fn check_refused(text: &str, expected: &str) {
    let error = NamedTemplate::parse(text).unwrap_err();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn what_is_no_kind_and_path_is_refused() {
    for text in [
        "",
        "ScaledJob",
        "=/spec",
        "/ScaledJob=/spec",
        "a/b/C=/spec",
        "keda.sh/=/spec",
    ] {
        check_refused(text, "write GROUP/KIND=/path");
    }
    check_refused("keda.sh/scaledjob=/spec", "upper-case");
    check_refused("keda.sh/ScaledJob=spec", "starts with a slash");
    check_refused("keda.sh/ScaledJob=/spec/", "no empty part");
    check_refused("keda.sh/ScaledJob=/spec/[name=a]", "use *");
    for known in ["Pod", "apps/Deployment", "selenosis.io/Browser"] {
        check_refused(&format!("{known}=/spec"), "knows the kind");
    }
    assert!(NamedTemplate::parse("Thing=/template").is_ok());
    assert!(NamedTemplate::parse("keda.sh/ScaledJob=").is_ok());
}
