mod named;

use super::{DocumentKind, kind};
use crate::field_name;
use crate::parse::parse;
use crate::source::Source;

/// The kind of a document, the path of its template and the keys of its selector, as text.
#[track_caller]
fn check(text: &str, expected: &str) {
    let source = Source {
        name: "-".into(),
        text: text.into(),
    };
    let documents = parse(&source).checked().unwrap();
    let found = match kind(documents.first().unwrap()) {
        DocumentKind::Workload(template) => {
            format!("{} {:?}", field_name(&template.path), template.selector)
        }
        other => format!("{other:?}"),
    };
    assert_eq!(found, expected);
}

#[test]
fn documents_have_the_right_kind() {
    check("{apiVersion: selenosis.io/v1, kind: Browser}", "Browser");
    check(
        "{apiVersion: browser.selenosis.io/v1, kind: Browser}",
        "Browser",
    );
    check(
        "{apiVersion: browserconfig.selenosis.io/v1, kind: BrowserConfig}",
        "BrowserConfig",
    );
    check("{apiVersion: v1, kind: Namespace}", "Namespace");
    check("{apiVersion: v1, kind: Pod}", "Pod");
    check(
        "{apiVersion: infrastructure.podloom.dev/v1alpha1, kind: GlobalCloud}",
        "Infrastructure(GlobalCloud)",
    );
    check(
        "{apiVersion: infrastructure.podloom.dev/v1, kind: Cluster}",
        "Other",
    );
    check("{apiVersion: cluster.x-k8s.io/v1, kind: Cluster}", "Other");
    check("{apiVersion: v1, kind: Service}", "Other");
    check("{apiVersion: metrics.k8s.io/v1, kind: Pod}", "Other");
    check("{apiVersion: example.com/v1, kind: Deployment}", "Other");
}

#[test]
fn templates_are_found_and_their_selectors_kept() {
    check(
        "{apiVersion: apps/v1, kind: Deployment, spec: {selector: {matchLabels: {b: x, a: y}, matchExpressions: [{key: c, operator: Exists}, {key: a, operator: Exists}]}}}",
        r#"spec.template ["a", "b", "c", "pod-template-hash"]"#,
    );
    check(
        "{apiVersion: v1, kind: ReplicationController, spec: {selector: {app: web}}}",
        r#"spec.template ["app"]"#,
    );
    check(
        "{apiVersion: batch/v1, kind: CronJob, spec: {jobTemplate: {spec: {selector: {matchLabels: {a: b}}}}}}",
        r#"spec.jobTemplate.spec.template ["a", "batch.kubernetes.io/controller-uid"]"#,
    );
    check("{apiVersion: v1, kind: PodTemplate}", "template []");
    check(
        "{apiVersion: batch/v1, kind: Job}",
        r#"spec.template ["batch.kubernetes.io/controller-uid"]"#,
    );
    // The API server's default.
    for selector in ["", "selector: {}, ", "selector: null, "] {
        check(
            &format!(
                "{{apiVersion: v1, kind: ReplicationController, spec: {{{selector}template: {{metadata: {{labels: {{app: web}}}}}}}}}}"
            ),
            r#"spec.template ["app"]"#,
        );
    }
    check(
        "{apiVersion: argoproj.io/v1alpha1, kind: Rollout, spec: {selector: {matchLabels: {a: b}}, template: {spec: {containers: []}}}}",
        r#"spec.template ["a"]"#,
    );
}
