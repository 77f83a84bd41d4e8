use serde_json::{Value, json};

use super::{Answer, NoAnswer, Submission, difference, warning};
use crate::compare::{Difference, OwnContainers, Verdict};

fn submission(metadata: &Value) -> Submission {
    Submission {
        namespace: "shop".to_owned(),
        name: "Deployment shop/web".to_owned(),
        user: None,
        pod: json!({ "metadata": metadata, "spec": { "containers": [{ "name": "a" }] } }),
    }
}

/// What an API server answers, and makes anew each time.
fn accepted(random: &str, team: &str, warnings: &[&str]) -> Answer {
    let token = format!("kube-api-access-{random}");
    let pod = json!({
        "metadata": {
            "name": format!("web-{random}"), "generateName": "web-", "uid": random, "resourceVersion": random,
            "creationTimestamp": random, "managedFields": [random], "annotations": { "podloom.dev/chain": random },
            "labels": { "team": team },
        },
        "spec": {
            "containers": [{ "name": "a", "volumeMounts": [{ "name": token, "mountPath": "/token" }] }],
            "volumes": [{ "name": token, "projected": {} }],
        },
        "status": { "phase": random },
    });
    let warnings = warnings.iter().map(|&it| it.to_owned()).collect();
    Answer::accepted(
        pod,
        warnings,
        &submission(&json!({ "generateName": "web-" })),
    )
}

fn between(old: &Answer, new: &Answer, ignored: &[&str]) -> Option<Difference> {
    let own = OwnContainers::of(&submission(&json!({})).pod);
    let ignored: Vec<String> = ignored.iter().map(|&it| it.to_owned()).collect();
    difference(&own, old, new, &ignored)
}

#[test]
fn what_is_made_anew_is_no_difference() {
    let (old, new) = (accepted("abcde", "a", &[]), accepted("fghij", "a", &[]));
    assert_eq!(old, new);
    assert_eq!(between(&old, &new, &[]), None);
    // A name that was sent stays.
    let pod = json!({ "metadata": { "name": "db-0" } });
    let answer = Answer::accepted(pod.clone(), Vec::new(), &submission(&pod["metadata"]));
    assert_eq!(
        serde_json::to_value(answer).unwrap()["accepted"]["pod"]["metadata"],
        pod["metadata"]
    );
}

#[test]
fn changes_and_warnings_are_differences() {
    let (old, new) = (
        accepted("abcde", "a", &[]),
        accepted("abcde", "b", &["old image"]),
    );
    let changed = between(&old, &new, &[]).unwrap();
    let paths: Vec<&str> = changed.changes.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(
        (changed.verdict, paths),
        (Verdict::Changed, vec!["/metadata/labels/team"])
    );
    for ignored in ["/metadata/labels", "/metadata/labels/team"] {
        let warned = between(&old, &new, &[ignored]).unwrap();
        assert_eq!(warned.verdict, Verdict::WarnedOtherwise);
        assert_eq!(warned.reason.unwrap(), "warned now: old image");
    }
    assert!(between(&old, &new, &["/metadata/labels/te"]).is_some_and(|it| !it.changes.is_empty()));
    assert_eq!(
        warning(r#"299 - "say \"please\"""#).unwrap(),
        r#"say "please""#
    );
}

const POLICY: &str = "pods \"web-x7k2p\" is forbidden: ValidatingAdmissionPolicy 'latest' with binding 'all' denied request: web-x7k2p has no tag";

/// How API servers say it: the code and the message; the cause and the reason.
const DENIALS: [(u16, &str, &str, &str); 7] = [
    (
        403,
        POLICY,
        "ValidatingAdmissionPolicy latest",
        "ValidatingAdmissionPolicy 'latest' with binding 'all' denied request: web-* has no tag",
    ),
    (
        401,
        POLICY,
        "ValidatingAdmissionPolicy latest",
        "ValidatingAdmissionPolicy 'latest' with binding 'all' denied request: web-* has no tag",
    ),
    (
        403,
        "pods \"web-x7k2p\" is forbidden: policy 'add' with binding 'add' denied request: no",
        "MutatingAdmissionPolicy add",
        "policy 'add' with binding 'add' denied request: no",
    ),
    (
        400,
        "admission webhook \"w.io\" denied the request: no: really",
        "webhook w.io",
        "no: really",
    ),
    (
        429,
        "admission webhook \"w.io\" denied the request without explanation",
        "webhook w.io",
        "without explanation",
    ),
    (
        403,
        "pods \"web-x7k2p\" is forbidden: exceeded quota: q, used: 1",
        "exceeded quota",
        "exceeded quota: q, used: 1",
    ),
    (
        422,
        "Pod \"web-x7k2p\" is invalid: spec.a: Required",
        "the pod is invalid",
        "spec.a: Required",
    ),
];

#[test]
fn what_rejects_a_pod_is_named() {
    let generated = submission(&json!({ "generateName": "web-" }));
    for (code, message, cause, reason) in DENIALS {
        let answer = Answer::rejected(code, message, &generated).unwrap();
        let said = json!({ "denied": { "cause": cause, "reason": reason } });
        assert_eq!(serde_json::to_value(answer).unwrap(), said);
    }
    let message =
        "Internal error occurred: failed calling webhook \"w.io\": failed to call webhook: timeout";
    let failed = Answer::rejected(500, message, &generated).unwrap();
    let said = json!({ "failed": { "cause": "webhook w.io", "reason": "failed to call webhook: timeout" } });
    assert_eq!(serde_json::to_value(&failed).unwrap(), said);
    let denied = |message: &str| Answer::rejected(403, message, &generated).unwrap();
    let (admitted, policy) = (accepted("abcde", "a", &[]), denied(POLICY));
    let verdict = |old, new| between(old, new, &[]).map(|it| it.verdict);
    assert_eq!(verdict(&admitted, &policy), Some(Verdict::DeniedNow));
    assert_eq!(verdict(&policy, &failed), Some(Verdict::FailsNow));
    assert_eq!(verdict(&failed, &admitted), Some(Verdict::FailsNoMore));
    let again = denied(&POLICY.replace("x7k2p", "q9w8e"));
    assert_eq!(verdict(&policy, &again), None);
}

#[test]
fn an_answer_that_says_nothing_about_the_pod_is_none() {
    let named = submission(&json!({ "name": "db-0" }));
    let dry_run = || NoAnswer::RefusesDryRun("w.io".to_owned());
    for (code, message, expected) in [
        (404, "namespaces \"shop\" not found", NoAnswer::NoNamespace),
        (
            403,
            "pods is forbidden: User \"me\" cannot create resource \"pods\" in API group \"\" in the namespace \"shop\"",
            NoAnswer::Forbidden,
        ),
        (
            403,
            "serviceaccounts \"a\" is forbidden: User \"me\" cannot impersonate resource \"serviceaccounts\"",
            NoAnswer::Forbidden,
        ),
        (
            400,
            "admission webhook \"w.io\" does not support dry run",
            dry_run(),
        ),
        (401, "Unauthorized", NoAnswer::Other),
        (503, "try later", NoAnswer::Other),
    ] {
        assert_eq!(Answer::rejected(code, message, &named), Err(expected));
    }
}
