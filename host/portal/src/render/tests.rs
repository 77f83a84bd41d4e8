use std::path::Path;
use std::time::Duration;

use podloom_api::{PortalExposeObject, RelayTarget, TunnelClassObject};
use podloom_mutation::MutatedPod;
use podloom_scripted::{difference, in_lines};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Rendered, Tunnel, finish, tunnel};
use crate::check::check;
use crate::class::choose;
use crate::settings::TunnelSettings;

const STAMPS: [&str; 2] = ["podloom.dev/chain", "podloom.dev/mutations"];

#[derive(Clone)]
struct Case {
    expose: PortalExposeObject,
    class: TunnelClassObject,
    checksum: Option<String>,
    settings: TunnelSettings,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    expose: Value,
    class: Value,
    checksum: Option<String>,
}

fn object<T: DeserializeOwned>(mut value: Value, kind: &str) -> T {
    value["apiVersion"] = "portal.gosuda.org/v1alpha1".into();
    value["kind"] = kind.into();
    serde_json::from_value(value).unwrap()
}

fn read(path: &Path) -> Case {
    let written: Written = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    Case {
        expose: object(written.expose, "PortalExpose"),
        class: object(written.class, "TunnelClass"),
        checksum: written.checksum,
        settings: TunnelSettings::default(),
    }
}

fn small() -> Case {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/render/cases");
    read(&cases.join(format!("{SMALL}.yaml")))
}

/// Renders as the reconciler does.
fn render(case: &Case) -> Tunnel {
    let wanted = case.class.metadata.name.as_deref();
    tunnel(
        &case.expose,
        &check(&case.expose.spec).unwrap(),
        &choose(wanted, [&case.class], &case.settings).unwrap(),
        case.checksum.as_deref(),
        &case.settings,
    )
}

/// The case that is shown whole. Of the others, what differs from it is shown.
const SMALL: &str = "a_small_tunnel_of_the_newest_client";

#[test]
fn rendered_as_the_file_name_says() {
    let base = in_lines(render(&small()).deployment);
    insta::glob!("cases/*.yaml", |path| {
        let tunnel = render(&read(path));
        assert_eq!(
            render(&read(path)),
            tunnel,
            "the same input gives the same bytes"
        );
        let shown = match path.file_stem().is_some_and(|name| name == SMALL) {
            true => tunnel.deployment,
            false => difference(&base, &in_lines(tunnel.deployment)),
        };
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_yaml_snapshot!("render", shown);
        });
    });
}

/// Other hashes would roll all tunnels when the operator is updated.
#[test]
fn hashes_stay_from_version_to_version() {
    let tunnel = render(&small());
    let input = "ed963bb8e0833d5835a0492ad01b643d1625ed20aa4f48491814a4b0970ce802";
    assert_eq!(tunnel.input_hash, input);
    let rendered = finish(&tunnel, MutatedPod::untouched(tunnel.pod())).unwrap();
    let template = "921ba3704214bbcb36712524cc606bede160fd57498193a378e2ba9ef5341eec";
    assert_eq!(rendered.template_hash, template);
}

/// A name of a relay is for the status alone: it must not restart the tunnel.
#[test]
fn the_name_of_a_relay_rolls_nothing() {
    let mut renamed = small();
    renamed.expose.spec.relay.targets[0].name = "other".to_owned();
    assert_eq!(render(&renamed), render(&small()));
}

/// Changes one thing.
type Edit = fn(&mut Case);

#[test]
fn everything_else_is_in_the_hash() {
    let second = RelayTarget {
        name: "second".to_owned(),
        url: "wss://h.org".to_owned(),
    };
    let edits: [(&str, Edit); 13] = [
        ("application", |case| {
            case.expose.spec.app.name = "other".to_owned()
        }),
        ("service", |case| {
            case.expose.spec.app.service.name = "other".to_owned()
        }),
        ("port", |case| case.expose.spec.app.service.port = 81),
        ("relay", |case| {
            case.expose.spec.relay.targets[0].url = "wss://other.org".to_owned()
        }),
        ("identity", |case| case.checksum = Some("other".to_owned())),
        ("owner", |case| {
            case.expose.metadata.uid = Some("other".to_owned())
        }),
        ("replicas", |case| case.class.spec.replicas = 2),
        ("size", |case| {
            case.class.spec.size = podloom_api::TunnelSize::Large
        }),
        ("rollout", |case| {
            case.class.spec.rollout = podloom_api::TunnelRollout::Surge
        }),
        ("nodes", |case| {
            case.class.spec.node_selector = Some([("zone".to_owned(), "z".to_owned())].into());
        }),
        ("tolerations", |case| {
            case.class.spec.tolerations = Some(vec![Default::default()])
        }),
        ("image", |case| case.settings.image = "other".to_owned()),
        ("deadline", |case| {
            case.settings.progress_deadline = Duration::from_secs(1)
        }),
    ];
    let unchanged = render(&small()).input_hash;
    for (field, edit) in edits {
        let mut case = small();
        edit(&mut case);
        assert_ne!(render(&case).input_hash, unchanged, "{field}");
    }
    let [mut one, mut other] = [small(), small()];
    one.expose.spec.relay.targets.push(second.clone());
    other.expose.spec.relay.targets.insert(0, second);
    assert_ne!(
        render(&one).input_hash,
        render(&other).input_hash,
        "order of relays"
    );
}

/// What the chain returns for a pod: stamped, and changed.
fn mutated(mut pod: Value, chain: &str, change: impl FnOnce(&mut Value)) -> MutatedPod {
    for key in STAMPS {
        pod["metadata"]["annotations"][key] = format!("{key} of {chain}").into();
    }
    change(&mut pod);
    MutatedPod {
        chain: Some(chain.to_owned()),
        ..MutatedPod::untouched(pod)
    }
}

fn finished(chain: &str, change: impl FnOnce(&mut Value)) -> Rendered {
    let tunnel = render(&small());
    finish(&tunnel, mutated(tunnel.pod(), chain, change)).unwrap()
}

#[test]
fn without_a_chain_the_template_stays() {
    let tunnel = render(&small());
    let finished = finish(&tunnel, MutatedPod::untouched(tunnel.pod())).unwrap();
    assert_eq!(finished.object["spec"], tunnel.deployment["spec"]);
    let annotations = json!({
        "portal.gosuda.org/input-hash": tunnel.input_hash,
        "portal.gosuda.org/template-hash": finished.template_hash,
    });
    assert_eq!(finished.object["metadata"]["annotations"], annotations);
    assert_eq!(finished.chain, None);
}

#[test]
fn stamps_move_to_the_deployment() {
    let finished = finished("abc", |_| {});
    let annotations = &finished.object["metadata"]["annotations"];
    for key in STAMPS {
        assert_eq!(annotations[key], format!("{key} of abc"));
    }
    let template = &finished.object["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(
        *template,
        json!({ "portal.gosuda.org/identity-checksum": "c0ffee" })
    );
    assert_eq!(finished.chain.as_deref(), Some("abc"));
}

/// The template has no annotation of its own then; an empty map is no difference that rolls pods, but the hash must not see it.
#[test]
fn a_template_without_annotations_has_none_after_the_chain() {
    let case = Case {
        checksum: None,
        ..small()
    };
    let tunnel = render(&case);
    let finished = finish(&tunnel, mutated(tunnel.pod(), "abc", |_| {})).unwrap();
    assert_eq!(finished.object["spec"], tunnel.deployment["spec"]);
}

#[test]
fn a_new_chain_that_changes_nothing_leaves_the_template_hash() {
    let [one, other] = ["abc", "def"].map(|chain| finished(chain, |_| {}));
    assert_eq!(one.template_hash, other.template_hash);
    assert_eq!(one.object["spec"], other.object["spec"]);
    assert_ne!(one.object["metadata"], other.object["metadata"]);
}

#[test]
fn what_plugins_write_is_in_the_template_and_its_hash() {
    let changed = finished("abc", |pod| {
        pod["metadata"]["labels"]["team"] = "a".into();
        pod["spec"]["containers"]
            .as_array_mut()
            .unwrap()
            .push(json!({ "name": "sidecar" }));
        pod["spec"]["restartPolicy"] = "Always".into();
        pod["spec"]["unknownField"] = json!({ "x": 1 });
    });
    assert_ne!(changed.template_hash, finished("abc", |_| {}).template_hash);
    let template = &changed.object["spec"]["template"];
    assert_eq!(template["metadata"]["labels"]["team"], "a");
    assert_eq!(template["spec"]["containers"][1]["name"], "sidecar");
    assert_eq!(template["spec"]["unknownField"]["x"], 1);
    let keys: Vec<&String> = template.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["metadata", "spec"]);
    // The selector is not that of the pod.
    let tunnel = render(&small());
    assert_eq!(
        changed.object["spec"]["selector"],
        tunnel.deployment["spec"]["selector"]
    );
}

#[track_caller]
fn check_problem(message: &str, change: impl FnOnce(&mut Value)) {
    let tunnel = render(&small());
    let problem = finish(&tunnel, mutated(tunnel.pod(), "abc", change)).unwrap_err();
    assert_eq!(problem.to_string(), message);
}

#[test]
fn a_pod_that_is_no_tunnel_any_more_is_refused() {
    let label = "the plugins changed the label app.kubernetes.io/component, by which the Deployment finds its pods; they must leave it \
                 as it is";
    check_problem(label, |pod| {
        pod["metadata"]["labels"]["app.kubernetes.io/component"] = "x".into();
    });
    check_problem(label, |pod| pod["metadata"]["labels"] = json!({}));
    check_problem(label, |pod| {
        pod.as_object_mut().unwrap().remove("metadata");
    });
    let container = "the plugins removed the container tunnel; they must keep it";
    check_problem(container, |pod| {
        pod["spec"]["containers"][0]["name"] = "x".into()
    });
    check_problem(container, |pod| pod["spec"] = Value::Null);
    check_problem(
        "the plugins set restartPolicy to Never, but pods of a Deployment are always restarted; they must leave it out",
        |pod| pod["spec"]["restartPolicy"] = "Never".into(),
    );
}

#[test]
fn the_chain_gets_a_pod_without_name() {
    let tunnel = render(&small());
    let pod = tunnel.pod();
    assert_eq!(
        (&pod["apiVersion"], &pod["kind"]),
        (&json!("v1"), &json!("Pod"))
    );
    assert_eq!(
        pod["metadata"],
        tunnel.deployment["spec"]["template"]["metadata"]
    );
    assert_eq!(pod["metadata"].get("name"), None);
    let request = tunnel.request();
    assert_eq!(
        (request.kind, &*request.name, &*request.namespace),
        ("Pod", "", "default")
    );
    assert_eq!(json!(request.labels), pod["metadata"]["labels"]);
    assert_eq!(json!(request.annotations), pod["metadata"]["annotations"]);
    assert_eq!(request.selector.len(), 4);
}

/// Plugins may write secrets into a pod, and debug texts end in logs.
#[test]
fn a_debug_text_has_nothing_of_the_pod() {
    let tunnel = render(&small());
    let mut pod = tunnel.pod();
    pod["spec"]["containers"][0]["args"] = json!(["hunter2"]);
    let finished = finish(&tunnel, MutatedPod::untouched(pod)).unwrap();
    assert!(finished.object.to_string().contains("hunter2"));
    let text = format!("{finished:?} {tunnel:?}");
    assert!(
        !text.contains("hunter2") && !text.contains("containers"),
        "{text}"
    );
    assert!(text.contains(&tunnel.input_hash) && text.contains(&finished.template_hash));
}
