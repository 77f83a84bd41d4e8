//! The webhooks with certificates of cert-manager, as the real kubectl builds the manifests.

use podloom_tests::{binary, kustomize};

/// The objects of an overlay as a user writes it.
fn built(base: &str) -> Vec<String> {
    let text = kustomize::build(base, &["options/cert-manager"]);
    text.split("---\n").map(str::to_owned).collect()
}

/// The lines of an object's metadata.
fn metadata(object: &str) -> String {
    let lines = object.lines().skip_while(|line| *line != "metadata:");
    let lines = lines.skip(1).take_while(|line| line.starts_with(' '));
    lines.fold("\n".to_owned(), |text, line| text + line + "\n")
}

/// The object with this kind and name.
fn find<'o>(objects: &'o [String], kind: &str, name: &str) -> Option<&'o str> {
    let (kind, name) = (format!("\nkind: {kind}\n"), format!("\n  name: {name}\n"));
    let mut objects = objects.iter().map(String::as_str);
    objects.find(|object| object.contains(&kind) && metadata(object).contains(&name))
}

#[test]
fn the_operator_loses_its_own_rights_and_the_authority_lasts() {
    if binary().is_none() {
        eprintln!("skipped: PODLOOM_BLACKBOX_BINARY is not set");
        return;
    }
    for base in ["deploy/webhook", "deploy/webhook/split"] {
        let objects = built(base);
        let of = |kind, name| find(&objects, kind, name);
        let role = of("ClusterRole", "podloom-webhook").unwrap();
        assert!(role.contains("- browserconfigs\n") && role.contains("- namespaces\n"));
        assert!(!role.contains("admissionregistration.k8s.io"), "{role}");
        for kind in ["Role", "RoleBinding"] {
            assert_eq!(of(kind, "podloom-webhook"), None, "{base}");
            assert!(of(kind, "podloom-webhook-leader").is_some(), "{base}");
        }
        let secrets = objects
            .iter()
            .find(|object| object.contains("Role\n") && object.contains("  - secrets\n"));
        assert_eq!(secrets, None, "{base}");
        let authority = of("Certificate", "podloom-webhook-ca").unwrap();
        for line in ["isCA: true", "duration: 87600h", "rotationPolicy: Never"] {
            assert!(authority.contains(line), "{authority}");
        }
        let issuer = of("Issuer", "podloom-webhook").unwrap();
        assert!(
            issuer.contains("  ca:\n    secretName: podloom-webhook-ca\n"),
            "{issuer}"
        );
        for kind in [
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
        ] {
            let configuration = of(kind, "podloom-webhook").unwrap();
            let injected = "cert-manager.io/inject-ca-from: podloom-system/podloom-webhook\n";
            assert!(configuration.contains(injected), "{configuration}");
        }
    }
}
