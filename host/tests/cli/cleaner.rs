//! `podloom cleaner check`.

use serde_json::{Value, json};

use super::{Ran, fixtures, podloom_in, root};

const EXAMPLE: &str = "deploy/examples/cleaner";
const AT: &str = "2026-01-31T04:00:00Z";

fn check(arguments: &[&str], input: &str) -> Ran {
    let all = [&["cleaner", "check", "-f", "-"], arguments].concat();
    podloom_in(&fixtures(), &all, input)
}

fn report(input: &str) -> Value {
    report_at(AT, input)
}

fn report_at(time: &str, input: &str) -> Value {
    let ran = check(&["-o", "json", "--at", time], input);
    assert_eq!(ran.code, 0, "{}", ran.text());
    let mut report: Value = serde_json::from_str(&ran.stdout).expect("it is JSON");
    report["cleaners"][0].take()
}

/// A Cleaner with these lines in its spec, and a Job and a ConfigMap.
fn cleaner(spec: &str) -> String {
    let spec = spec.trim_matches('\n').replace('\n', "\n  ");
    format!(
        "\
apiVersion: cleaner.vtex.dev/v1alpha
kind: Cleaner
metadata: {{ name: a, namespace: team, creationTimestamp: '2026-01-30T04:00:00Z' }}
spec:
  {spec}
---
apiVersion: batch/v1
kind: Job
metadata: {{ name: job, namespace: team, labels: {{ app: a }} }}
status: {{ active: 0, completionTime: '2026-01-31T03:30:00Z' }}
---
apiVersion: v1
kind: ConfigMap
metadata: {{ name: map, namespace: team, labels: {{ app: a }}, annotations: {{ cleaner.vtex.dev/protect: 'false' }} }}
"
    )
}

const JOB: &str = "
ttl: 1h
retry: { period: 5m, monotonic: true }
targets:
- name: job
  includeWhenEvaluating: true
  delete: true
  reference: { apiGroup: batch, version: v1, kind: job, name: job }
";

#[test]
fn the_examples_have_no_mistake_and_show_what_holds_them_back() {
    let arguments = ["cleaner", "check", "--strict", "-f", EXAMPLE, "--at", AT];
    let ran = podloom_in(&root(), &arguments, "");
    assert_eq!(ran.code, 0, "{}", ran.text());
    insta::assert_snapshot!(ran.text());
}

#[test]
fn all_mistakes_are_listed_at_once() {
    let text = cleaner(
        "
ttl: 1 day
retry: { period: 300000w }
targets:
- name: job
  includeWhenEvaluating: true
  reference: { apiGroup: batch, version: v1, kind: Job, name: job }
- name: job
  delete: true
  reference: { version: v1, kind: Pod, matchLabels: {} }
conditions:
- 'true'
- jb.status.active == 0
- job.status.active =
cloudEventSink: http://
",
    );
    let ran = check(&[], &text);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{}", ran.text());
    insta::assert_snapshot!(ran.text());
}

/// What the API server would refuse by a rule is refused here, and said once.
#[test]
fn the_rules_of_its_definition_are_checked() {
    let text = cleaner(
        "
ttl: 1h
targets:
- name: while
  reference: { version: v1, kind: Pod, labelSelector: { matchExpressions: [{ key: a, operator: In }] } }
- name: pods
  reference: { version: v1, apiVersion: v1, kind: Pod, name: a }
",
    );
    let ran = check(&[], &text);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{}", ran.text());
    insta::assert_snapshot!(ran.text());
}

#[test]
fn a_condition_that_is_false_holds_it_back_until_time_makes_it_true() {
    let text = cleaner(&format!(
        "{JOB}conditions: ['job.status.active == 0', \"time - timestamp(job.status.completionTime) >= duration('1h')\"]"
    ));
    let told = report(&text);
    assert_eq!(told["reason"], "WaitingForConditions");
    assert_eq!(told["message"], "conditions[1] is false");
    assert_eq!(told["conditions"][0]["result"], "True");
    assert_eq!(told["conditions"][1]["result"], "False");
    assert_eq!(told["due"], false);
    let next = json!({ "time": "2026-01-31T04:30:00Z", "cause": "Time" });
    assert_eq!(told["next"], next);
    assert_eq!(told["deletes"][0]["name"], "job");
    let told = report_at("2026-01-31T04:30:00Z", &text);
    assert_eq!(
        (&told["reason"], &told["due"]),
        (&json!("ConditionsMet"), &json!(true))
    );
    assert_eq!(told["next"], Value::Null);
}

#[test]
fn one_that_is_too_young_shows_its_conditions_too() {
    let text = cleaner(&format!(
        "{}conditions: ['job.status.active == 0']",
        JOB.replace("1h", "48h")
    ));
    let told = report(&text);
    assert_eq!(told["reason"], "NotExpired");
    let next = json!({ "time": "2026-02-01T04:00:00Z", "cause": "Expiry" });
    assert_eq!(told["next"], next);
    assert_eq!(told["conditions"][0]["result"], "True");
    assert_eq!(told["due"], false);
}

#[test]
fn a_condition_that_cannot_be_evaluated_is_an_error_and_the_report_is_printed() {
    let text = cleaner(&format!(
        "{JOB}conditions: ['true', 'job.status.failed == 0']"
    ));
    let ran = check(&["--at", AT], &text);
    assert_eq!(ran.code, 1, "{}", ran.text());
    assert!(
        ran.stdout.contains("ConditionEvaluationError: "),
        "{}",
        ran.text()
    );
    assert!(
        ran.stdout.contains("[1] Error  job.status.failed == 0"),
        "{}",
        ran.text()
    );
    let error = "Cleaner team/a, spec.conditions[1]: no such key \"failed\"; ask for it first";
    assert!(ran.stderr.contains(error), "{}", ran.text());
}

#[test]
fn a_missing_target_is_named_with_what_to_add() {
    let text = cleaner(&JOB.replace("name: job }", "name: other }"));
    let ran = check(&["--at", AT], &text);
    assert_eq!(ran.code, 0, "{}", ran.text());
    let hint = "target job: the files have no job other of batch/v1 in the namespace team; add a file with it, such as what this prints: kubectl get job.batch other --namespace team -o yaml";
    assert!(ran.stderr.contains("warning: -:"), "{}", ran.text());
    assert!(ran.stderr.contains(hint), "{}", ran.text());
    assert!(
        ran.stdout.contains(&format!("TargetResolveError: {hint}")),
        "{}",
        ran.text()
    );
    assert_eq!(check(&["--at", AT, "--strict"], &text).code, 1);
    // Of the same name, but of another version.
    let text = cleaner(&JOB.replace("version: v1,", "version: v2,"));
    let ran = check(&["--at", AT], &text);
    let hint = "the files have no job job of batch/v2 in the namespace team, only one of batch/v1 in the namespace team";
    assert!(ran.stderr.contains(hint), "{}", ran.text());
}

#[test]
fn guards_hold_it_back_as_in_the_cluster() {
    const BOTH: &str = "
ttl: 1h
targets:
- name: jobs
  delete: true
  reference: { apiGroup: batch, version: v1, kind: Job, matchLabels: { app: a } }
- name: maps
  delete: true
  reference: { version: v1, kind: ConfigMap, labelSelector: { matchExpressions: [{ key: app, operator: Exists }] } }
";
    let told = report(&cleaner(BOTH));
    assert_eq!(told["due"], true);
    let names: Vec<&str> = told["deletes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["job", "map"]);
    let told = report(&cleaner(&format!("{BOTH}deletion: {{ maxObjects: 1 }}")));
    assert_eq!(told["reason"], "BlastRadiusExceeded");
    let told = report(&cleaner(&format!("{BOTH}dryRun: true")));
    assert_eq!(told["reason"], "DryRun");
    let protected = cleaner(BOTH).replace("protect: 'false'", "protect: 'true'");
    assert_eq!(report(&protected)["reason"], "TargetProtected");
}

#[test]
fn several_cleaners_are_told_in_the_order_of_the_files() {
    let one = cleaner(JOB);
    let two = one
        .replace("name: a,", "name: b,")
        .replace("kind: Job\n", "kind: CronJob\n");
    let ran = check(&["--at", AT, "-o", "json"], &format!("{one}---\n{two}"));
    assert_eq!(ran.code, 0, "{}", ran.text());
    let told: Value = serde_json::from_str(&ran.stdout).unwrap();
    let names: Vec<&Value> = told["cleaners"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn the_excluded_namespaces_are_those_of_the_flag() {
    let text = cleaner(JOB).replace("namespace: team", "namespace: kube-system");
    let ran = check(&["--at", AT], &text);
    assert_eq!(ran.code, 1, "{}", ran.text());
    assert!(
        ran.stderr.contains(
            "metadata.namespace: the operator deletes nothing in the namespace kube-system"
        ),
        "{}",
        ran.text()
    );
    let ran = check(&["--at", AT, "--cleaner-excluded-namespaces", ""], &text);
    assert_eq!(ran.code, 0, "{}", ran.text());
}

#[test]
fn a_check_that_looks_at_nothing_or_at_a_wrong_time_fails() {
    let ran = check(
        &[],
        "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: a }\n",
    );
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("no Cleaner in -"), "{}", ran.text());
    let ran = check(&["--at", "tomorrow"], &cleaner(JOB));
    assert_eq!(ran.code, 2);
    assert!(
        ran.stderr.contains("write a date, a time and its zone"),
        "{}",
        ran.text()
    );
    let ran = check(&[], &cleaner(JOB).replace("v1alpha\n", "v1\n"));
    assert_eq!(ran.code, 1);
    assert!(
        ran.stderr
            .contains("unknown version of Cleaner: write cleaner.vtex.dev/v1alpha"),
        "{}",
        ran.text()
    );
}

/// Else it would be found when its time is over, which may be after weeks.
#[test]
fn a_constant_that_can_never_be_evaluated_is_a_mistake() {
    let text = cleaner(&format!(
        "{JOB}\nconditions:\n- time - timestamp('2026-01-15') > duration('168h')\n- time - timestamp(job.status.completionTime) > duration('7d')"
    ));
    let ran = check(&["--at", AT], &text);
    assert_eq!(ran.code, 1, "{}", ran.text());
    for expected in [
        "write timestamp(\"2026-01-15T00:00:00Z\")",
        "write duration(\"168h\")",
    ] {
        assert!(ran.text().contains(expected), "{}", ran.text());
    }
    assert!(!ran.text().contains("Error {"), "{}", ran.text());
}

#[test]
fn a_condition_that_is_true_of_an_empty_list_says_what_is_safe() {
    let pods = "
ttl: 1h
retry: { period: 5m }
targets:
- name: pods
  includeWhenEvaluating: true
  reference: { version: v1, kind: Pod, matchLabels: { run: x } }
conditions:
- pods.items.all(pod, pod.status.phase == 'Succeeded')
- size(pods.items) > 0 && pods.items.all(pod, pod.status.phase == 'Succeeded')
";
    let report = report(&cleaner(pods));
    let conditions = &report["conditions"];
    let said = conditions[0]["message"].as_str().unwrap_or_default();
    let expected = "pods.items is empty, and pods.items.all(...) is true of an empty list; to wait for one object, write \
                    size(pods.items) > 0 && pods.items.all(...)";
    assert_eq!((&conditions[0]["result"], said), (&json!("True"), expected));
    assert_eq!(conditions[1]["result"], "False");
    assert_eq!(conditions[1]["message"], Value::Null);
    let strict = check(&["--strict", "--at", AT], &cleaner(pods));
    let warning = format!("spec.conditions[0]: {expected}");
    assert_eq!(strict.code, 1, "{}", strict.text());
    assert!(strict.text().contains(&warning), "{}", strict.text());
}
