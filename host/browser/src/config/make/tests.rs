use super::*;

fn id() -> PoolId {
    PoolId {
        config: "browsers".to_owned(),
        uid: "c-1".to_owned(),
        browser: "Chrome".to_owned(),
        version: "139.0 (beta)".to_owned(),
    }
}

#[test]
fn a_warm_pod_has_a_name_that_kubernetes_takes_and_its_recipe() {
    assert_eq!(placeholder(&id()), "warm-chrome-139-0--beta");
    let name = placeholder(&id());
    let pod = json!({ "metadata": { "name": name }, "spec": { "hostname": name } });
    let recipe = Recipe::of(pod, None);
    let pod = named(&recipe, "warm-chrome-1");
    assert_eq!(pod["metadata"]["name"], "warm-chrome-1");
    assert_eq!(pod["spec"]["hostname"], "warm-chrome-1");
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!(annotations[names::annotation::RECIPE], recipe.hash);
    // A host name that somebody wants stays.
    let pod = json!({ "metadata": { "name": name }, "spec": { "hostname": "proxy" } });
    let pod = named(&Recipe::of(pod, None), "warm-chrome-1");
    assert_eq!(pod["spec"]["hostname"], "proxy");
}

#[test]
fn a_variable_that_a_plugin_gives_may_not_be_of_a_session() {
    let pod = |path: &str| {
        let field = json!({ "fieldRef": { "fieldPath": path } });
        let variable = json!({ "name": "TEAM", "valueFrom": field });
        json!({ "spec": {
            "containers": [{ "name": "browser" }],
            "initContainers": [{ "name": "proxy", "env": [variable] }],
        } })
    };
    let problem = problem_of_session(&pod("metadata.labels['team']"));
    assert_eq!(
        problem.as_deref(),
        Some(
            "a plugin gives container proxy the variable TEAM from metadata.labels['team'], and a warm pod has no session yet"
        )
    );
    assert_eq!(problem_of_session(&pod("status.podIP")), None);
}

#[test]
fn a_warm_pod_looks_like_that_of_no_session() {
    let labels = json!({ "selenosis.io/browser": "warm-chrome", "team": "x" });
    let mut pod = json!({ "metadata": { "labels": labels, "ownerReferences": [] } });
    as_warm(&mut pod, &id(), &OwnerReference::default());
    let labels = json!({ "selenosis.io/warm": "browsers", "team": "x" });
    assert_eq!(pod["metadata"]["labels"], labels);
}
