use serde_json::{Value, json};

use super::super::{Hook, HookDeletePolicy, HookEvent};
use crate::manifest::ManifestError;

fn hook(fields: &Value) -> Hook {
    let mut hook = json!({ "name": "migrate", "kind": "Job", "manifest": "" });
    let fields = fields.as_object().unwrap().clone();
    hook.as_object_mut().unwrap().extend(fields);
    serde_json::from_value(hook).unwrap()
}

fn of(manifest: &str) -> Hook {
    hook(&json!({ "manifest": manifest }))
}

#[test]
fn a_hook_runs_at_its_events() {
    let hook = hook(&json!({ "events": ["post-delete", "pre-upgrade", "of a later version"] }));
    assert!(hook.runs_at(HookEvent::PostDelete));
    assert!(!hook.runs_at(HookEvent::PreDelete));
}

#[test]
fn a_hook_without_a_policy_is_deleted_before_it_is_created() {
    use HookDeletePolicy::{BeforeHookCreation, HookFailed, HookSucceeded};
    for fields in [
        json!({}),
        json!({ "delete_policies": null }),
        json!({ "delete_policies": [] }),
    ] {
        let hook = hook(&fields);
        let found = [BeforeHookCreation, HookSucceeded, HookFailed].map(|it| hook.is_deleted(it));
        assert_eq!(found, [true, false, false]);
    }
    let succeeded = hook(&json!({ "delete_policies": ["hook-succeeded", "unheard-of"] }));
    let found = [BeforeHookCreation, HookSucceeded, HookFailed].map(|it| succeeded.is_deleted(it));
    assert_eq!(found, [false, true, false]);
    let definition =
        hook(&json!({ "kind": "CustomResourceDefinition", "delete_policies": ["hook-failed"] }));
    assert!(!definition.is_deleted(HookFailed));
}

#[test]
fn the_object_of_a_hook_is_read_as_helm_reads_it() {
    let job = "# Source: shop/templates/job.yaml\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: migrate\nspec:\n  \
               suspend: no\n  mode: 0755\n  text: 'no'\n  \
               commit: 83e2010\n  commits: [83e2010, 1e999]\n";
    let read = of(job).identity("demo").unwrap();
    assert_eq!((&*read.kind, &*read.namespace), ("Job", "demo"));
    assert_eq!(
        of(job).document("demo").unwrap(),
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": { "name": "migrate" },
            "spec": {
                "suspend": false, "mode": 493, "text": "no",
                "commit": "83e2010", "commits": ["83e2010", "1e999"],
            },
        })
    );
}

#[test]
fn a_hook_is_the_one_object_that_it_says() {
    let job = "{ apiVersion: batch/v1, kind: Job, metadata: { name: migrate } }\n";
    for (manifest, expected) in [
        (String::new(), ManifestError::NoHookObject),
        ("# nothing\n".to_owned(), ManifestError::NoHookObject),
        (format!("{job}---\n{job}"), ManifestError::NoHookObject),
        (
            job.replace("name:", "generateName:"),
            ManifestError::OtherHookObject,
        ),
        (
            job.replace("migrate", "web"),
            ManifestError::OtherHookObject,
        ),
        (job.replace("Job", "Secret"), ManifestError::OtherHookObject),
        ("{ kind: Job }".to_owned(), ManifestError::NoKind(1)),
    ] {
        let error = of(&manifest).document("demo").unwrap_err();
        assert_eq!(error, expected, "{manifest}");
    }
    for manifest in ["a: [", "text", "- a", "a: 1\na: {"] {
        let error = of(manifest).document("demo").unwrap_err();
        assert!(
            matches!(error, ManifestError::Syntax { .. }),
            "{manifest}: {error:?}"
        );
    }
    of(&format!("---\n---\n{job}---\n"))
        .document("demo")
        .unwrap();
}

#[test]
fn secrets_are_not_shown() {
    let hook =
        of("{ apiVersion: batch/v1, kind: Job, metadata: { name: migrate }, password: hunter2 }");
    let document = hook.document("demo").unwrap();
    assert!(document.to_string().contains("hunter2"));
    let shown = format!("{hook:?}");
    assert!(
        shown.contains("migrate") && !shown.contains("hunter2"),
        "{shown}"
    );
}

/// All of them are kept until it is created, and each takes a hundred times its text.
#[test]
fn a_hook_of_very_many_values_is_refused() {
    let manifest = |values: usize| {
        let values = "{a: 0},".repeat(values);
        of(&format!(
            "{{ apiVersion: batch/v1, kind: Job, metadata: {{ name: migrate }}, spec: [{values}] }}"
        ))
    };
    assert!(manifest(10_000).document("demo").is_ok());
    for refused in [
        manifest(30_000).document("demo").err(),
        manifest(30_000).identity("demo").err(),
    ] {
        assert!(
            matches!(refused, Some(ManifestError::Syntax { .. })),
            "{refused:?}"
        );
    }
}
