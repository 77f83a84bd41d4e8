use k8s_openapi::api::core::v1::Service;
use podloom_api::PortalService;
use serde_json::{Value, json};

use super::check;

#[track_caller]
fn check_service(spec: Option<&Value>, expected: &str) {
    let wanted = PortalService {
        name: "web".to_owned(),
        port: 80,
    };
    let found: Option<Service> = spec.map(|spec| {
        let service =
            json!({ "apiVersion": "v1", "kind": "Service", "metadata": {}, "spec": spec });
        serde_json::from_value(service).unwrap()
    });
    let problem = check(&wanted, found.as_ref());
    let problem = problem.map(|problem| format!("{}: {}", problem.reason, problem.message));
    assert_eq!(problem.unwrap_or_default(), expected);
}

#[test]
fn a_service_is_there_and_has_the_port() {
    check_service(
        Some(&json!({ "ports": [{ "port": 443 }, { "port": 80, "protocol": "TCP" }] })),
        "",
    );
    check_service(Some(&json!({ "ports": [{ "port": 80 }] })), "");
    // It is another name in DNS, behind which anything may listen.
    check_service(
        Some(&json!({ "type": "ExternalName", "externalName": "example.com" })),
        "",
    );
    check_service(
        None,
        "ServiceNotFound: Service web does not exist; create it, or correct spec.app.service.name",
    );
    let no_port = "ServicePortNotFound: Service web has no TCP port 80; add it, or correct spec.app.service.port";
    check_service(Some(&json!({})), no_port);
    check_service(
        Some(&json!({ "ports": [{ "port": 80, "protocol": "UDP" }] })),
        no_port,
    );
    check_service(
        Some(&json!({ "ports": [{ "port": 8080, "targetPort": 80 }] })),
        no_port,
    );
}
