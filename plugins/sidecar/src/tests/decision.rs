//! Who is injected.

use podloom_plugin_sdk::serde_json::{Value, json};
use podloom_plugin_sdk::testing::Submitted;

use super::{check_note, inject, is_injected, pod, proxy, record, run, run_for, with};
use crate::INJECT;

/// What a run must come to: injected, or the reason why not.
#[track_caller]
fn check(config: Value, pod: Value, expected: Result<(), &str>) {
    check_for(&Submitted::default(), config, pod, expected);
}

#[track_caller]
fn check_for(submitted: &Submitted, config: Value, pod: Value, expected: Result<(), &str>) {
    let run = run_for(&with(proxy(), "", config), submitted, &pod);
    assert_eq!(run.result, Ok(()));
    assert_eq!(is_injected(&run.pod), expected.is_ok(), "{:?}", run.notes);
    match expected {
        Ok(()) => assert!(
            !run.remarks()
                .iter()
                .any(|note| note.starts_with("not injected"))
        ),
        Err(reason) => {
            check_note(&run, "not injected: ");
            check_note(&run, reason);
            assert!(run.writes.is_empty());
        }
    }
}

fn labelled(key: &str, value: &str) -> Value {
    with(pod(), "", json!({"metadata": {"labels": {key: value}}}))
}

fn annotated(key: &str, value: &str) -> Value {
    with(
        pod(),
        "",
        json!({"metadata": {"annotations": {key: value}}}),
    )
}

fn in_namespace(labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> Submitted {
    let map = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    };
    Submitted {
        namespace_labels: map(labels),
        namespace_annotations: map(annotations),
        ..Submitted::default()
    }
}

#[test]
fn policy_decides_about_a_pod_that_says_nothing() {
    check(json!({}), pod(), Ok(()));
    check(
        json!({"injectByDefault": false}),
        pod(),
        Err("injectByDefault is false"),
    );
}

#[test]
fn pod_on_the_host_network_is_skipped_even_if_it_asks() {
    let host = with(
        labelled(INJECT, "true"),
        "",
        json!({"spec": {"hostNetwork": true}}),
    );
    check(json!({}), host, Err("host's network"));
    check(
        json!({}),
        with(pod(), "", json!({"spec": {"hostNetwork": false}})),
        Ok(()),
    );
}

#[test]
fn ignored_namespace_is_skipped_even_if_the_pod_asks() {
    let system = Submitted {
        namespace: "kube-system".to_owned(),
        ..Submitted::default()
    };
    check_for(
        &system,
        json!({}),
        labelled(INJECT, "true"),
        Err("the namespace kube-system is ignored"),
    );
    check_for(&system, json!({"ignoredNamespaces": []}), pod(), Ok(()));
    check(
        json!({"ignoredNamespaces": ["default"]}),
        pod(),
        Err("the namespace default is ignored"),
    );
}

#[test]
fn mirror_pod_is_skipped() {
    check(
        json!({}),
        annotated("kubernetes.io/config.mirror", "x"),
        Err("mirror pod"),
    );
}

#[test]
fn pod_of_another_operating_system_is_skipped() {
    let on = |os: &str| with(pod(), "", json!({"spec": {"os": {"name": os}}}));
    let selecting = |os: &str| {
        with(
            pod(),
            "",
            json!({"spec": {"nodeSelector": {"kubernetes.io/os": os}}}),
        )
    };
    check(json!({}), on("windows"), Err("the images are for linux"));
    check(json!({}), on("linux"), Ok(()));
    check(
        json!({}),
        selecting("windows"),
        Err("the images are for linux"),
    );
    check(json!({"os": "windows"}), on("windows"), Ok(()));
    check(
        json!({"os": "windows"}),
        on("linux"),
        Err("the images are for windows"),
    );
}

#[test]
fn label_wins_over_annotation_and_both_over_selectors() {
    let both = |label: &str, annotation: &str| {
        with(
            labelled(INJECT, label),
            "",
            json!({"metadata": {"annotations": {INJECT: annotation}}}),
        )
    };
    check(json!({}), both("false", "true"), Err("the pod's label"));
    check(json!({}), both("true", "false"), Ok(()));
    check(
        json!({}),
        annotated(INJECT, "false"),
        Err("the pod's annotation"),
    );
    check(
        json!({"injectByDefault": false}),
        annotated(INJECT, "true"),
        Ok(()),
    );
    check(
        json!({"neverInject": [{}]}),
        labelled(INJECT, "true"),
        Ok(()),
    );
    check(
        json!({"alwaysInject": [{}]}),
        labelled(INJECT, "false"),
        Err("the pod's label"),
    );
}

#[test]
fn invalid_value_is_noted_and_means_the_default() {
    for pod in [labelled(INJECT, "yes"), annotated(INJECT, "")] {
        let run = run(&proxy(), &pod);
        assert!(is_injected(&run.pod));
        check_note(&run, "neither true nor false");
    }
}

#[test]
fn never_comes_before_always_and_always_before_the_namespace_and_the_policy() {
    let web = labelled("tier", "web");
    let tier = json!([{"matchLabels": {"tier": "web"}}]);
    check(
        json!({"neverInject": tier, "alwaysInject": tier}),
        web.clone(),
        Err("neverInject"),
    );
    check(
        json!({"alwaysInject": tier, "injectByDefault": false}),
        web.clone(),
        Ok(()),
    );
    check(
        json!({"alwaysInject": tier, "injectByDefault": false}),
        pod(),
        Err("injectByDefault"),
    );
    let off = in_namespace(&[(INJECT, "false")], &[]);
    check_for(&off, json!({"alwaysInject": tier}), web, Ok(()));
}

#[test]
fn selectors_know_all_operators() {
    for (requirement, matches) in [
        (
            json!({"key": "tier", "operator": "In", "values": ["db", "web"]}),
            true,
        ),
        (
            json!({"key": "tier", "operator": "In", "values": ["db"]}),
            false,
        ),
        (
            json!({"key": "zone", "operator": "In", "values": ["a"]}),
            false,
        ),
        (
            json!({"key": "tier", "operator": "NotIn", "values": ["web"]}),
            false,
        ),
        (
            json!({"key": "zone", "operator": "NotIn", "values": ["a"]}),
            true,
        ),
        (json!({"key": "tier", "operator": "Exists"}), true),
        (json!({"key": "zone", "operator": "Exists"}), false),
        (json!({"key": "tier", "operator": "DoesNotExist"}), false),
        (json!({"key": "zone", "operator": "DoesNotExist"}), true),
    ] {
        let config = json!({"neverInject": [{"matchLabels": {"tier": "web"}, "matchExpressions": [requirement]}]});
        check(
            config,
            labelled("tier", "web"),
            if matches { Err("neverInject") } else { Ok(()) },
        );
    }
}

#[test]
fn namespace_has_a_default_that_the_pod_overrides() {
    let on = in_namespace(&[(INJECT, "true")], &[]);
    let off = in_namespace(&[], &[(INJECT, "false")]);
    check_for(&on, json!({"injectByDefault": false}), pod(), Ok(()));
    check_for(&off, json!({}), pod(), Err("the namespace's"));
    check_for(
        &on,
        json!({}),
        labelled(INJECT, "false"),
        Err("the pod's label"),
    );
    check_for(&off, json!({}), labelled(INJECT, "true"), Ok(()));
    check_for(
        &in_namespace(&[(INJECT, "true")], &[(INJECT, "false")]),
        json!({}),
        pod(),
        Ok(()),
    );
}

#[test]
fn pod_with_only_a_generated_name_is_injected() {
    let pod =
        json!({"metadata": {"generateName": "app-"}, "spec": {"containers": [{"name": "app"}]}});
    check(json!({}), pod, Ok(()));
}

#[test]
fn daemon_set_pod_is_injected_like_any_other() {
    let owner = json!({"metadata": {"ownerReferences": [{"kind": "DaemonSet", "name": "d", "uid": "1", "apiVersion": "apps/v1"}]}});
    check(json!({}), with(pod(), "", owner), Ok(()));
}

#[test]
fn opting_out_later_takes_out_what_was_injected_and_nothing_else() {
    let config = json!({
        "containers": [{"container": super::container("proxy"), "token": {"mountPath": "/token", "audience": "mesh"}}],
        "volumes": [{"name": "socket", "emptyDir": {}}],
        "addToContainers": {"env": [{"name": "PROXY", "value": "on"}], "volumeMounts": [{"name": "socket", "mountPath": "/run/proxy"}]},
    });
    let before = with(
        pod(),
        "",
        json!({"metadata": {"annotations": {"team": "web"}}, "spec": {"volumes": [{"name": "data", "emptyDir": {}}]}}),
    );
    let injected = inject(&config, &before);
    assert_eq!(record(&injected).len(), 5);

    let stripped = inject(
        &config,
        &with(
            injected,
            "",
            json!({"metadata": {"labels": {INJECT: "false"}}}),
        ),
    );
    let expected = with(
        before,
        "",
        json!({"metadata": {"labels": {INJECT: "false"}}, "spec": {"initContainers": []}}),
    );
    let mut expected = expected;
    expected["spec"]["containers"][0]["env"] = json!([]);
    expected["spec"]["containers"][0]["volumeMounts"] = json!([]);
    assert_eq!(stripped, expected);
}

/// Who asked and got nothing should act; who did not ask need not.
#[test]
fn a_pod_that_asked_and_was_not_injected_is_warned() {
    let on_host = |labels: Value| {
        let pod = with(pod(), "", json!({"spec": {"hostNetwork": true}}));
        run(
            &proxy(),
            &with(pod, "", json!({"metadata": {"labels": labels}})),
        )
    };
    let asked = on_host(json!({INJECT: "true"}));
    assert_eq!(
        asked.warnings,
        ["not injected: the pod is in the host's network"]
    );
    assert_eq!(on_host(json!({})).warnings, [""; 0]);
}
