//! The Pod Security Standards, written down once more for the tests: no code is shared with the plugin, so that a mistake in one
//! is found by the other. After pod-security-admission of Kubernetes 1.36.

use podloom_plugin_sdk::serde_json::{Value, json};

/// What a pod is held against.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standard {
    pub(super) restricted: bool,
    pub(super) minor: u32,
}

pub(super) const LATEST: u32 = 999;

/// Returns the checks that a pod fails.
pub(super) fn failed(standard: Standard, pod: &Value) -> Vec<&'static str> {
    let Standard { restricted, minor } = standard;
    let spec = &pod["spec"];
    let windows = spec["os"]["name"] == "windows";
    let user_namespace = spec["hostUsers"] == false;
    let relaxed = user_namespace && minor >= 35;
    let spared = windows && minor >= 25;
    // Restricted checks of a later version replace the baseline's.
    let strict_seccomp = restricted && minor >= 19;
    let strict_capabilities = restricted && minor >= 22;

    let checks = [
        ("hostNamespaces", host_namespaces(spec)),
        (
            "privileged",
            any_container(spec, |container| {
                container["securityContext"]["privileged"] == true
            }),
        ),
        (
            "capabilities baseline",
            !strict_capabilities && baseline_capabilities(spec),
        ),
        (
            "hostPath",
            volumes(spec, |volume| !volume["hostPath"].is_null()),
        ),
        ("hostPorts", any_container(spec, host_ports)),
        (
            "probe hosts",
            minor >= 34 && any_container(spec, handler_hosts),
        ),
        ("AppArmor", app_armor(pod)),
        (
            "SELinux",
            any_context(spec, |context| se_linux(context, minor)),
        ),
        ("procMount", (restricted || !relaxed) && proc_mount(spec)),
        (
            "seccomp annotations",
            minor < 19 && seccomp_annotations(pod),
        ),
        (
            "seccomp baseline",
            minor >= 19 && !strict_seccomp && any_context(spec, explicit_bad_seccomp),
        ),
        ("sysctls", sysctls(spec, minor)),
        (
            "hostProcess",
            any_context(spec, |context| {
                context["windowsOptions"]["hostProcess"] == true
            }),
        ),
        (
            "volume types",
            restricted && volumes(spec, forbidden_volume),
        ),
        (
            "allowPrivilegeEscalation",
            restricted
                && minor >= 8
                && !spared
                && any_container(spec, |container| {
                    container["securityContext"]["allowPrivilegeEscalation"] != false
                }),
        ),
        (
            "runAsNonRoot",
            restricted && !relaxed && run_as_non_root(spec),
        ),
        (
            "runAsUser",
            restricted
                && minor >= 23
                && !relaxed
                && any_context(spec, |context| context["runAsUser"] == 0),
        ),
        (
            "seccomp restricted",
            strict_seccomp && !spared && seccomp(spec),
        ),
        (
            "capabilities restricted",
            strict_capabilities && !spared && capabilities(spec),
        ),
    ];
    checks
        .into_iter()
        .filter(|(_, fails)| *fails)
        .map(|(name, _)| name)
        .collect()
}

/// Returns the pod with the best settings that a plugin may give it. What still fails, nobody can mend.
pub(super) fn ideal(pod: &Value) -> Value {
    let mut pod = pod.clone();
    let windows = pod["spec"]["os"]["name"] == "windows";
    let sysctls = pod["spec"]["securityContext"]["sysctls"].take();
    let mut context = json!({"runAsNonRoot": true, "sysctls": sysctls});
    if !windows {
        context["seccompProfile"] = json!({"type": "RuntimeDefault"});
    }
    pod["spec"]["securityContext"] = context;
    for list in ["initContainers", "containers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            container["securityContext"] = if windows {
                json!({})
            } else {
                json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}})
            };
        }
    }
    pod
}

pub(super) fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|list| spec[list].as_array().into_iter().flatten())
}

fn any_container(spec: &Value, fails: impl Fn(&Value) -> bool) -> bool {
    containers(spec).any(fails)
}

/// Whether the pod's context or one of its containers' fails.
fn any_context(spec: &Value, fails: impl Fn(&Value) -> bool) -> bool {
    fails(&spec["securityContext"])
        || containers(spec).any(|container| fails(&container["securityContext"]))
}

fn volumes(spec: &Value, fails: impl Fn(&Value) -> bool) -> bool {
    spec["volumes"].as_array().into_iter().flatten().any(fails)
}

fn host_namespaces(spec: &Value) -> bool {
    spec["hostNetwork"] == true || spec["hostPID"] == true || spec["hostIPC"] == true
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

fn baseline_capabilities(spec: &Value) -> bool {
    let allowed = "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID SYS_CHROOT";
    any_container(spec, |container| {
        strings(&container["securityContext"]["capabilities"]["add"])
            .iter()
            .any(|name| !allowed.split(' ').any(|allowed| allowed == *name))
    })
}

fn capabilities(spec: &Value) -> bool {
    any_container(spec, |container| {
        let capabilities = &container["securityContext"]["capabilities"];
        !strings(&capabilities["drop"]).contains(&"ALL")
            || strings(&capabilities["add"])
                .iter()
                .any(|name| *name != "NET_BIND_SERVICE")
    })
}

fn host_ports(container: &Value) -> bool {
    let ports = container["ports"].as_array().into_iter().flatten();
    ports
        .into_iter()
        .any(|port| port["hostPort"].as_i64().unwrap_or(0) != 0)
}

fn handler_hosts(container: &Value) -> bool {
    [
        "/livenessProbe",
        "/readinessProbe",
        "/startupProbe",
        "/lifecycle/postStart",
        "/lifecycle/preStop",
    ]
    .iter()
    .flat_map(|handler| ["httpGet", "tcpSocket"].map(|action| format!("{handler}/{action}/host")))
    .any(|host| {
        container
            .pointer(&host)
            .and_then(Value::as_str)
            .is_some_and(|host| !host.is_empty())
    })
}

fn app_armor(pod: &Value) -> bool {
    let annotated = annotations(pod).any(|(key, value)| {
        key.starts_with("container.apparmor.security.beta.kubernetes.io/")
            && !value.is_empty()
            && value != "runtime/default"
            && !value.starts_with("localhost/")
    });
    annotated
        || any_context(&pod["spec"], |context| {
            let profile = &context["appArmorProfile"];
            !profile.is_null()
                && profile["type"] != "RuntimeDefault"
                && profile["type"] != "Localhost"
        })
}

fn annotations(pod: &Value) -> impl Iterator<Item = (&str, &str)> {
    let annotations = pod["metadata"]["annotations"]
        .as_object()
        .into_iter()
        .flatten();
    annotations.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

fn se_linux(context: &Value, minor: u32) -> bool {
    let options = &context["seLinuxOptions"];
    let kind = options["type"].as_str().unwrap_or_default();
    let allowed = matches!(
        kind,
        "" | "container_t" | "container_init_t" | "container_kvm_t"
    ) || (kind == "container_engine_t" && minor >= 31);
    let set = |field: &str| !options[field].as_str().unwrap_or_default().is_empty();
    !allowed || set("user") || set("role")
}

fn proc_mount(spec: &Value) -> bool {
    any_container(spec, |container| {
        let mount = &container["securityContext"]["procMount"];
        !mount.is_null() && mount != "Default"
    })
}

fn seccomp_annotations(pod: &Value) -> bool {
    let mut keys = vec!["seccomp.security.alpha.kubernetes.io/pod".to_owned()];
    for container in containers(&pod["spec"]) {
        let name = container["name"].as_str().unwrap_or_default();
        keys.push(format!(
            "container.seccomp.security.alpha.kubernetes.io/{name}"
        ));
    }
    annotations(pod).any(|(key, value)| {
        keys.iter().any(|known| known == key)
            && value != "runtime/default"
            && value != "docker/default"
            && !value.starts_with("localhost/")
    })
}

fn good_seccomp(context: &Value) -> bool {
    let kind = &context["seccompProfile"]["type"];
    kind == "RuntimeDefault" || kind == "Localhost"
}

fn explicit_bad_seccomp(context: &Value) -> bool {
    !context["seccompProfile"].is_null() && !good_seccomp(context)
}

fn seccomp(spec: &Value) -> bool {
    let pod = &spec["securityContext"];
    any_context(spec, explicit_bad_seccomp)
        || (!good_seccomp(pod)
            && any_container(spec, |container| {
                !good_seccomp(&container["securityContext"])
            }))
}

fn sysctls(spec: &Value, minor: u32) -> bool {
    let ipv4 = |names: &[&str]| {
        names
            .iter()
            .map(|name| format!("net.ipv4.{name}"))
            .collect::<Vec<_>>()
    };
    let mut safe = ipv4(&[
        "ip_local_port_range",
        "tcp_syncookies",
        "ping_group_range",
        "ip_unprivileged_port_start",
    ]);
    safe.push("kernel.shm_rmid_forced".to_owned());
    if minor >= 27 {
        safe.extend(ipv4(&["ip_local_reserved_ports"]));
    }
    if minor >= 29 {
        safe.extend(ipv4(&[
            "tcp_keepalive_time",
            "tcp_fin_timeout",
            "tcp_keepalive_intvl",
            "tcp_keepalive_probes",
        ]));
    }
    if minor >= 32 {
        safe.extend(ipv4(&["tcp_rmem", "tcp_wmem"]));
    }
    let used = spec["securityContext"]["sysctls"]
        .as_array()
        .into_iter()
        .flatten();
    used.into_iter()
        .any(|sysctl| !safe.iter().any(|safe| sysctl["name"] == **safe))
}

fn forbidden_volume(volume: &Value) -> bool {
    let allowed =
        "configMap csi downwardAPI emptyDir ephemeral image persistentVolumeClaim projected secret";
    let mut sources = volume
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, value)| *key != "name" && !value.is_null())
        .map(|(key, _)| key)
        .peekable();
    // The API server makes an emptyDir of a volume without a source.
    sources.peek().is_some()
        && !sources.any(|source| allowed.split(' ').any(|allowed| allowed == source))
}

fn run_as_non_root(spec: &Value) -> bool {
    let pod = &spec["securityContext"]["runAsNonRoot"];
    any_context(spec, |context| context["runAsNonRoot"] == false)
        || (pod != true
            && any_container(spec, |container| {
                container["securityContext"]["runAsNonRoot"] != true
            }))
}
