//! Reads a case: what is different about a Cluster that is ONLINE.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use podloom_api::names::infrastructure::reason;
use podloom_api::{CloudKind, CloudRef, CloudSpec, GenericCloud, ProviderKind, ProviderRef};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cluster::durable::Change;
use crate::cluster::memory::{
    At, Known, KubeconfigTrouble, OurSecret, Ownership, Probe, Search, Shortage, Undone,
};
use crate::cluster::world::{Learned, Prepared, SeenSecret, Wanted, World};
use crate::im::{ImState, Owner, Reading};
use crate::in_use::Guard;
use crate::resolve::{Backend, ImEndpoint, SecretKey, SecretUse, Trouble};

/// When the cases look at it.
const NOW: &str = "2026-01-01T01:00:00Z";
/// Its infrastructure.
const ID: &str = "22222222-2222-4222-8222-222222222222";
/// When its creation began.
const STARTED: &str = "2026-01-01T00:00:00.000000Z";

fn template() -> Value {
    json!({
        "tosca_definitions_version": "tosca_simple_yaml_1_0",
        "topology_template": {
            "node_templates": {
                "control_plane": { "type": "tosca.nodes.Compute" },
                "worker_0": { "type": "tosca.nodes.Compute" },
            },
            "outputs": { "kubeconfig": { "value": "text" } },
        },
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Setting {
    /// A merge-patch (RFC 7396).
    #[serde(default = "nothing")]
    cluster: Value,
    /// Whether there is a status before the patch.
    #[serde(default)]
    no_status: bool,
    #[serde(default)]
    backend: Cloud,
    #[serde(default)]
    secret: Kubeconfig,
    rival: Option<String>,
    #[serde(default)]
    known: Knows,
    #[serde(default)]
    learned: Lessons,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Cloud {
    #[default]
    There,
    Unbound,
    Missing,
    Deleted,
    /// The provider has another URL than before.
    Moved,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Kubeconfig {
    Unseen,
    Absent,
    Foreign,
    /// It is from another operation.
    Old,
    /// Somebody edited it.
    Edited,
    #[default]
    Current,
}

/// Whether machines are missing.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Lacks {
    #[default]
    Nothing,
    Seen,
    Found,
    Accepted,
}

/// What is remembered; ages and waits in seconds.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Knows {
    /// Nothing: the process has just started.
    #[serde(default)]
    nothing: bool,
    reading: Option<Read>,
    trouble: Option<String>,
    refusal: Option<String>,
    rest: Option<i64>,
    quiet: Option<i64>,
    missing_for: Option<i64>,
    gone_for: Option<i64>,
    /// How long IM has answered every request, in seconds.
    heard_for: Option<i64>,
    gone: Option<String>,
    /// No infrastructure has the name.
    #[serde(default)]
    clean: bool,
    log: Option<String>,
    #[serde(default)]
    unsure: bool,
    tried: Option<i64>,
    #[serde(default)]
    deleting: bool,
    /// So many accepted deletions were undone.
    #[serde(default)]
    undone: u32,
    #[serde(default)]
    busy: bool,
    #[serde(default)]
    no_template: bool,
    #[serde(default)]
    shortage: Lacks,
    #[serde(default)]
    to_add_owner: bool,
    #[serde(default)]
    secret_missing: bool,
    kubeconfig: Option<String>,
    probe: Option<Probed>,
    search: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    state: String,
    #[serde(default = "two")]
    machines: usize,
    #[serde(default)]
    age: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Probed {
    #[serde(default)]
    answers: bool,
    #[serde(default)]
    age: i64,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Lessons {
    #[serde(default)]
    asked: bool,
    #[serde(default)]
    prepared: bool,
    #[serde(default)]
    guarded: bool,
    #[serde(default)]
    gone: bool,
    /// This was recorded.
    #[serde(default)]
    recorded: bool,
}

/// A world to plan for.
pub(in crate::cluster) struct Case {
    pub(in crate::cluster) world: World,
    pub(in crate::cluster) now: Timestamp,
}

fn nothing() -> Value {
    json!({})
}

fn two() -> usize {
    2
}

impl Case {
    pub(in crate::cluster) fn read(text: &str) -> Self {
        let setting: Setting = serde_saphyr::from_str(text).unwrap();
        let now = NOW.parse().unwrap();
        Self {
            world: world(&setting, now),
            now,
        }
    }
}

fn base() -> Value {
    json!({
        "metadata": {
            "name": "edge",
            "namespace": "team",
            "uid": "11111111-1111-4111-8111-111111111111",
            "generation": 1,
            "resourceVersion": "7",
            "finalizers": ["infrastructure.podloom.dev/infrastructure-resources"],
        },
        "spec": {
            "tosca": template(),
            "cloudRef": { "kind": "Cloud", "name": "private" },
        },
        "status": {
            "state": "ONLINE",
            "observedGeneration": 1,
            "scheduledTo": { "kind": "Cloud", "name": "private" },
            "runningOn": { "kind": "Cloud", "name": "private" },
            "clusterId": ID,
            "providerUrl": URL,
            "lastAppliedTosca": template(),
            "operation": {
                "kind": "Create",
                "startedAt": STARTED,
                "lastCallAt": STARTED,
                "finishedAt": "2026-01-01T00:05:00.000000Z",
                "attempts": 0,
            },
            "imState": "configured",
            "vms": { "total": 2, "configured": 2 },
            "conditions": [
                condition("Scheduled", "True", "Bound", "Cloud private is used"),
                condition("TemplateApplied", "True", "Applied", "the Infrastructure Manager has the template"),
                condition("InfrastructureReady", "True", "Configured", "all machines are configured"),
                condition("KubeconfigReady", "True", "Stored", "the kubeconfig is in Secret edge-kubeconfig"),
                condition("Connected", "True", "ProbeSucceeded", "the API server of the cluster answers"),
                condition("Ready", "True", "Ready", "the API server of the cluster answers"),
                condition("Stalled", "False", "NotStalled", "nothing needs to be changed"),
            ],
        },
    })
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:05:00Z",
    })
}

fn world(setting: &Setting, now: Timestamp) -> World {
    let mut cluster = base();
    if setting.no_status {
        json_patch::merge(&mut cluster, &json!({ "status": null }));
    }
    json_patch::merge(&mut cluster, &setting.cluster);
    let cluster: podloom_api::ClusterObject = serde_json::from_value(cluster).unwrap();
    let mut known = known(&setting.known, &cluster, now);
    let durable = known.recall(&cluster);
    let mark = durable.mark();
    let learned = Learned {
        is_asked: setting.learned.asked,
        prepared: setting.learned.prepared.then_some(Prepared(None)),
        guard: setting.learned.guarded.then_some(Guard::InPlace),
        is_gone: setting.learned.gone,
        recorded: setting.learned.recorded.then_some(Change::Create),
        ..Learned::default()
    };
    if !setting.known.nothing {
        known.named.clone_from(&durable.id);
        known.kept = Some(OurSecret {
            mark: mark.clone(),
            version: Some("1".to_owned()),
        });
    }
    if setting.known.clean {
        known.clean = Some(durable.last_call_at());
    }
    let mut world = World {
        wanted: cluster.spec.tosca.as_ref().map(|it| Wanted::of(it, false)),
        cluster: Arc::new(cluster),
        backend: cloud(&setting.backend),
        durable,
        known,
        secret: secret(&setting.secret, mark),
        rival: setting.rival.as_ref().map(|name| format!("Cluster {name}")),
        learned,
    };
    if setting.known.unsure {
        world.known.unsure = world.wanted.as_ref().map(|it| it.template.clone());
    }
    world
}

fn known(knows: &Knows, cluster: &podloom_api::ClusterObject, now: Timestamp) -> Known {
    if knows.nothing {
        return Known::of(cluster);
    }
    let ago = |seconds: i64| now - SignedDuration::from_secs(seconds);
    let ahead = |seconds: i64| now + SignedDuration::from_secs(seconds);
    let default = Probed {
        answers: true,
        age: 1,
    };
    let probe = knows.probe.as_ref().unwrap_or(&default);
    Known {
        reading: knows.reading.as_ref().map(|read| At {
            what: reading(read),
            at: ago(read.age),
        }),
        trouble: knows.trouble.as_deref().map(trouble),
        refusal: knows.refusal.as_deref().map(trouble),
        rest: knows.rest.map(ahead),
        quiet: knows.quiet.map(ahead),
        missing_since: knows.missing_for.map(ago),
        gone_since: knows.gone_for.map(ago),
        heard_since: knows.heard_for.map(ago),
        gone: knows.gone.as_deref().map(trouble),
        log: knows.log.clone().map(|what| At { what, at: now }),
        tried: knows.tried,
        is_deleting: knows.deleting,
        undone: Undone {
            times: knows.undone,
            call: None,
        },
        is_busy: knows.busy,
        has_no_template: knows.no_template,
        shortage: match knows.shortage {
            Lacks::Nothing => Shortage::None,
            Lacks::Seen => Shortage::Seen(now),
            Lacks::Found => Shortage::Found,
            Lacks::Accepted => Shortage::Accepted(1),
        },
        owner: match knows.to_add_owner {
            true => Ownership::ToAdd,
            false => Ownership::Assumed,
        },
        missing: knows.secret_missing.then(|| Trouble {
            reason: reason::SECRET_NOT_FOUND,
            message: "Secret im in namespace team does not exist".to_owned(),
        }),
        kubeconfig: knows.kubeconfig.as_deref().map(|reason| KubeconfigTrouble {
            trouble: trouble(reason),
            mark: format!("{ID}/2026-01-01T00:00:00Z"),
            failures: 1,
            next: ahead(20),
        }),
        probe: probed(probe, ago(probe.age)),
        search: knows.search.map_or_else(Search::default, |age| Search {
            call: Some(ago(age)),
            ..Search::default()
        }),
        ..Known::default()
    }
}

fn probed(probe: &Probed, at: Timestamp) -> Probe {
    Probe {
        at: Some(at),
        answers: probe.answers,
        failures: u32::from(!probe.answers),
        message: (!probe.answers).then(|| "the API server does not answer".to_owned()),
    }
}

fn reading(read: &Read) -> Reading {
    let state = ImState::of(&read.state).unwrap();
    let vms = (0..read.machines).map(|number| (number.to_string(), state));
    Reading {
        state,
        vms: BTreeMap::from_iter(vms),
    }
}

/// What IM said.
fn trouble(named: &str) -> Trouble {
    let known = [
        reason::UNREACHABLE,
        reason::CREDENTIALS_REJECTED,
        reason::READ_ONLY,
        reason::TEMPLATE_REJECTED,
        reason::UPDATE_REFUSED,
        reason::FAILED,
        reason::ADOPTION_FAILED,
        reason::DUPLICATE_INFRASTRUCTURES,
        reason::ENDPOINT_CHANGED,
        reason::VANISHED,
        reason::OUTPUT_MISSING,
        reason::KUBECONFIG_UNSAFE,
        reason::SECRET_REJECTED,
    ];
    Trouble {
        reason: known.into_iter().find(|it| *it == named).unwrap(),
        message: "what it said".to_owned(),
    }
}

fn secret(kubeconfig: &Kubeconfig, mark: Option<String>) -> SeenSecret {
    let ours = |mark: Option<String>, version: &str| {
        SeenSecret::Ours(OurSecret {
            version: Some(version.to_owned()),
            mark,
        })
    };
    match kubeconfig {
        Kubeconfig::Unseen => SeenSecret::Unseen,
        Kubeconfig::Absent => SeenSecret::Absent,
        Kubeconfig::Foreign => SeenSecret::Foreign,
        Kubeconfig::Old => ours(Some("another/2025".to_owned()), "1"),
        Kubeconfig::Edited => ours(mark, "2"),
        Kubeconfig::Current => ours(mark, "1"),
    }
}

fn cloud(cloud: &Cloud) -> Option<Result<Backend, Trouble>> {
    let there = backend();
    Some(Ok(match cloud {
        Cloud::There => there,
        Cloud::Unbound => return None,
        Cloud::Missing => {
            return Some(Err(Trouble {
                reason: reason::CLOUD_NOT_FOUND,
                message: "Cloud private does not exist in namespace team".to_owned(),
            }));
        }
        Cloud::Deleted => Backend {
            going: Some("Cloud private".to_owned()),
            ..there
        },
        Cloud::Moved => {
            let written_url = "http://127.0.0.2:8800".to_owned();
            Backend {
                im: ImEndpoint {
                    written_url,
                    ..there.im.clone()
                },
                ..there
            }
        }
    }))
}

const URL: &str = "http://127.0.0.1:8800";

/// Where the tests' Clusters run.
pub(in crate::cluster) fn backend() -> Backend {
    let provider = ProviderRef {
        kind: ProviderKind::InfrastructureProvider,
        name: "im".to_owned(),
    };
    let password = SecretUse {
        secret: SecretKey {
            namespace: "team".to_owned(),
            name: "im".to_owned(),
        },
        key: "password".to_owned(),
    };
    Backend {
        cloud: CloudRef {
            kind: CloudKind::Cloud,
            name: "private".to_owned(),
        },
        cloud_namespace: Some("team".to_owned()),
        secret_namespace: "team".to_owned(),
        im: ImEndpoint {
            provider,
            namespace: Some("team".to_owned()),
            url: URL.parse().unwrap(),
            written_url: URL.to_owned(),
            ca_bundle: None,
            insecure_skip_tls_verify: false,
            allow_file_references: false,
            owner: Owner::Basic {
                username: "test".to_owned(),
                password: password.clone(),
            },
            previous: None,
        },
        login: CloudSpec {
            generic: Some(GenericCloud {
                type_: "Dummy".to_owned(),
                ..GenericCloud::default()
            }),
            ..CloudSpec::default()
        },
        secrets: vec![password],
        going: None,
        is_guarded: true,
    }
}
