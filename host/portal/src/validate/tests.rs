use std::fmt::Write;

use k8s_openapi::api::core::v1::Service;
use podloom_api::{PortalExposeObject, TunnelClassObject};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Around, Candidate, Findings, portal_expose, tunnel_class};

/// One review: the object, what is stored of it, and what is around it, if that is known.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    new: Value,
    old: Option<Value>,
    classes: Option<Vec<Value>>,
    services: Option<Vec<Value>>,
    #[serde(default)]
    exposes: Vec<PortalExposeObject>,
}

fn typed<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn class(mut object: Value) -> TunnelClassObject {
    object["apiVersion"] = "portal.gosuda.org/v1alpha1".into();
    object["kind"] = "TunnelClass".into();
    typed(object)
}

fn service(mut object: Value) -> Service {
    object["apiVersion"] = "v1".into();
    object["kind"] = "Service".into();
    typed(object)
}

fn findings(case: Case) -> Findings {
    let classes = case
        .classes
        .map(|it| it.into_iter().map(class).collect::<Vec<_>>());
    let classes = classes.as_ref();
    let classes = classes.map(|it| it.iter().map(Candidate::from).collect::<Vec<_>>());
    let services = case
        .services
        .map(|it| it.into_iter().map(service).collect::<Vec<_>>());
    let services = services.as_ref().map(|it| it.iter().collect::<Vec<_>>());
    if case.new["kind"] == "TunnelClass" {
        let old = case.old.map(class);
        return tunnel_class(&class(case.new), old.as_ref(), &classes.unwrap_or_default());
    }
    let old: Option<PortalExposeObject> = case.old.map(typed);
    let exposes: Vec<&PortalExposeObject> = case.exposes.iter().collect();
    let around = Around {
        exposes: &exposes,
        classes: classes.as_deref(),
        services: services.as_deref(),
    };
    portal_expose(&typed(case.new), old.as_ref(), &around)
}

fn report(Findings { refusals, warnings }: Findings) -> String {
    let mut text = String::new();
    for refusal in refusals {
        writeln!(text, "refused: {refusal}").unwrap();
    }
    for warning in warnings {
        writeln!(text, "warning: {warning}").unwrap();
    }
    text
}

#[test]
fn found_as_the_file_name_says() {
    insta::glob!("cases/*.yaml", |path| {
        let text = std::fs::read_to_string(path).unwrap();
        let case: Case = serde_saphyr::from_str(&text).unwrap();
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!("findings", report(findings(case)));
        });
    });
}
