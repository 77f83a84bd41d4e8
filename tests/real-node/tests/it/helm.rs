//! The Helm chart is installed, upgraded, rolled back and uninstalled as deploy/README.md says, while a session runs.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::cluster::{Cluster, SYSTEM, cluster};
use crate::guide;
use crate::sessions::NAMESPACE;
use crate::webhooks::{CONFIGURATIONS, TEAM, pod};

/// The webhooks of the second release.
const SECOND: &str = "team-podloom-webhook";

/// More duties, and the directories of their kinds.
const MORE: [(&str, &str); 3] = [
    ("portal.enabled", "crds/portal"),
    ("infrastructure.enabled", "crds/infrastructure"),
    ("cleaner.enabled", "crds/cleaner"),
];

/// The kinds without a namespace of which a release has objects.
const CLUSTER_WIDE: &str = "crd,clusterrole,clusterrolebinding,flowschema,mutatingwebhookconfiguration,validatingwebhookconfiguration";

impl Cluster {
    /// The names of our cluster-wide objects, each with its kind.
    #[track_caller]
    fn left(&self) -> Vec<String> {
        let all = self.kubectl(&["get", CLUSTER_WIDE, "--output=name"]);
        let ours = |line: &&str| line.contains("podloom") || line.contains("selenosis");
        all.lines().filter(ours).map(str::to_owned).collect()
    }

    /// The arguments of each replica of the operator.
    #[track_caller]
    fn arguments(&self) -> Vec<String> {
        let pods = self.operators();
        let arguments = |pod: &Value| pod["spec"]["containers"][0]["args"].to_string();
        pods.iter().map(arguments).collect()
    }
}

#[test]
fn releases_are_installed_changed_rolled_back_and_uninstalled_under_a_session() {
    let Some(cluster) = cluster() else { return };
    let [install, label, upgrade, roll_back] = &guide::helm()[..] else {
        panic!("the guide has other commands")
    };
    let printed = cluster.helm(install);
    let next = "kubectl rollout status deployment/podloom --namespace podloom-system";
    assert!(printed.contains(next), "{printed}");
    cluster.shell(label);
    cluster.until_rolled_out();
    cluster.configure_sessions();
    let session = cluster.session("long");
    assert!(session["metadata"]["annotations"]["podloom.dev/chain"].is_string());
    let first = cluster.arguments();

    cluster.helm(upgrade);
    cluster.until_rolled_out();
    let changed = cluster.arguments();
    let has_flag = |arguments: &String| arguments.contains("--failed-retention=1h");
    assert!(changed.iter().all(has_flag), "{changed:?}");
    a_second_release_has_names_of_its_own(&cluster);

    cluster.helm(roll_back);
    cluster.until_rolled_out();
    assert_eq!(cluster.arguments(), first);
    cluster.session("new");
    cluster.assert_untouched(&session);
    uninstalling_leaves_the_kinds_and_their_objects(&cluster);
}

/// It works only if its rights are for its own Lease, Secret and webhook configurations.
#[track_caller]
fn a_second_release_has_names_of_its_own(cluster: &Cluster) {
    cluster.kubectl(&["create", "namespace", TEAM]);
    cluster.kubectl(&["label", "namespace", TEAM, "podloom.dev/mutate=enabled"]);
    cluster.helm(&guide::helm_command("install team "));
    cluster.until_stamped(&pod());
    for kind in ["lease", "service", "deployment"] {
        cluster.kubectl(&["get", kind, SECOND, "--namespace", SYSTEM]);
    }
    let secret = format!("{SECOND}-tls");
    cluster.kubectl(&["get", "secret", &secret, "--namespace", SYSTEM]);

    // What the operator wrote into the configurations is no part of the chart, and upgrades leave it.
    let authorities = |cluster: &Cluster| -> BTreeMap<&str, Vec<String>> {
        let of = |kind| {
            let configuration = cluster.get(&[kind, SECOND]);
            let webhooks = configuration["webhooks"].as_array().unwrap().iter();
            let authority = |webhook: &Value| {
                webhook["clientConfig"]["caBundle"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            };
            (kind, webhooks.map(authority).collect())
        };
        CONFIGURATIONS.map(of).into()
    };
    let before = authorities(cluster);
    cluster.helm(&format!(
        "helm upgrade team deploy/helm --namespace {SYSTEM} --reuse-values --set webhook.timeoutSeconds=7"
    ));
    let timeout = "--output=jsonpath={.webhooks[0].timeoutSeconds}";
    assert_eq!(
        cluster.kubectl(&["get", CONFIGURATIONS[0], SECOND, timeout]),
        "7"
    );
    assert_eq!(authorities(cluster), before);

    one_deployment_runs_the_duties_of_all(cluster);
    cluster.helm(&format!("helm uninstall team --namespace {SYSTEM} --wait"));
    let left = cluster.left();
    assert!(
        left.iter().all(|name| !name.contains("team-podloom")),
        "{left:?}"
    );
    for (_, kinds) in MORE {
        cluster.kubectl(&["delete", "--kustomize", kinds]);
    }
    cluster.kubectl(&["delete", "namespace", TEAM, "--wait=false"]);
}

/// It is ready only if its account has the rights of all, and the kinds of all are there.
#[track_caller]
fn one_deployment_runs_the_duties_of_all(cluster: &Cluster) {
    let more = ["crds.install", "together.enabled"].into_iter();
    let more = more.chain(MORE.map(|(enabled, _)| enabled));
    let more: Vec<String> = more.map(|value| format!("{value}=true")).collect();
    cluster.helm(&format!(
        "helm upgrade team deploy/helm --namespace {SYSTEM} --reuse-values --set {} --wait",
        more.join(",")
    ));
    let selector = "--selector=app.kubernetes.io/instance=team";
    let deployments = ["get", "deployments", "--namespace", SYSTEM, selector];
    let names = cluster.kubectl(&[&deployments[..], &["--output=name"]].concat());
    assert_eq!(names, "deployment.apps/team-podloom\n");
    cluster.until_stamped(&pod());
}

#[track_caller]
fn uninstalling_leaves_the_kinds_and_their_objects(cluster: &Cluster) {
    let [sessions, uninstall, rest @ ..] = &guide::uninstall_helm()[..] else {
        panic!("the guide has other commands")
    };
    cluster.shell(sessions);
    cluster.helm(uninstall);
    let kinds = [
        "browserconfigs.selenosis.io",
        "browsers.selenosis.io",
        "chainexceptions.chain.podloom.dev",
    ];
    let kinds = kinds.map(|kind| format!("customresourcedefinition.apiextensions.k8s.io/{kind}"));
    assert_eq!(cluster.left(), kinds);
    cluster.kubectl(&["get", "browserconfig", "small", "--namespace", NAMESPACE]);

    // A release takes over what kubectl applied, and nothing is made again.
    cluster.kubectl(&["apply", "--kustomize", "deploy"]);
    let get = ["deployment", "podloom", "--namespace", SYSTEM];
    let applied = cluster.get(&get);
    cluster.helm(guide::helm_command("--take-ownership").trim_end_matches(" --wait"));
    let taken = cluster.get(&get);
    assert_eq!(taken["metadata"]["uid"], applied["metadata"]["uid"]);
    let labels = &taken["metadata"]["labels"];
    assert_eq!(labels["app.kubernetes.io/managed-by"], "Helm");

    cluster.helm(uninstall);
    assert_eq!(cluster.left(), kinds);
    // While pods terminate, the deletion of their namespace looks at it only now and then.
    let pods = [
        "wait",
        "pods",
        "--all",
        "--for=delete",
        "--namespace",
        SYSTEM,
    ];
    cluster.kubectl(&[&pods[..], &["--timeout=60s"]].concat());
    for line in rest {
        cluster.shell(line);
    }
    // The release has webhooks: so this kind goes too, as the guide says beside the command.
    cluster.shell("kubectl delete -k crds/webhook");
    assert_eq!(cluster.left(), [""; 0]);
    cluster
        .try_kubectl(&["get", "namespace", SYSTEM])
        .unwrap_err();
}
