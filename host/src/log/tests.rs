use tracing_subscriber::filter::Targets;

use super::quieted;

#[track_caller]
fn check(asked: &str, expected: &[&str]) {
    let targets = quieted(asked.parse::<Targets>().expect("a filter"));
    let mut shown: Vec<String> = targets.to_string().split(',').map(str::to_owned).collect();
    shown.sort();
    assert_eq!(shown, expected, "{asked}");
}

#[test]
fn verbose_libraries_log_less_unless_they_are_named() {
    check("warn", &["warn"]);
    check("off", &["off"]);
    let all = [
        "cranelift=warn",
        "hyper=warn",
        "hyper_util=warn",
        "info",
        "kube_client=warn",
        "tower=warn",
        "wasmtime=warn",
    ];
    check("info", &all);
    check(
        "info,kube_client::client=debug",
        &[
            "cranelift=warn",
            "hyper=warn",
            "hyper_util=warn",
            "info",
            "kube_client::client=debug",
            "tower=warn",
            "wasmtime=warn",
        ],
    );
}
