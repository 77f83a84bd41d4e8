//! Webhooks that answer only an API server that shows its certificate.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use podloom_control_plane::Options;
use podloom_tests::webhook::{Policy, Route, Webhook, address, dry_run, plain_pod};
use podloom_tests::{Cluster, blackbox_on, eventually, standard};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use tempfile::TempDir;

/// The common name of the API server.
const NAME: &str = "the-api-server";

/// An authority, and what the API server is told to show to webhooks.
struct Files(TempDir);

impl Files {
    /// Those of the one cluster.
    fn get() -> &'static Self {
        static FILES: OnceLock<Files> = OnceLock::new();
        FILES.get_or_init(Self::write)
    }

    fn write() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = authority.self_signed(&key).unwrap().pem();
        fs::write(files.path("ca.crt"), pem).unwrap();
        let issuer = Issuer::new(authority, key);

        let mut client = CertificateParams::default();
        client.distinguished_name.push(DnType::CommonName, NAME);
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let pem = client.signed_by(&key, &issuer).unwrap().pem();
        fs::write(files.path("client.crt"), pem).unwrap();
        fs::write(files.path("client.key"), key.serialize_pem()).unwrap();
        let [certificate, key] = ["client.crt", "client.key"].map(|name| files.path(name));
        let kubeconfig = format!(
            "{{apiVersion: v1, kind: Config, users: [{{name: '*', user: {{client-certificate: {certificate:?}, client-key: {key:?}}}}}]}}"
        );
        fs::write(files.path("kubeconfig"), kubeconfig).unwrap();
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

fn cluster() -> Arc<Cluster> {
    let options = Options {
        webhook_client: Some(Files::get().path("kubeconfig")),
        ..Options::default()
    };
    let cluster = Cluster::start(&options);
    cluster.install();
    Arc::new(cluster)
}

#[test]
fn an_api_server_without_the_right_certificate_gets_no_answer() {
    blackbox_on(cluster, "webhook-clients", async |scene| {
        let authority = Files::get().path("ca.crt");
        let authority = ["--webhook-client-ca", authority.to_str().unwrap()];
        let webhook = Webhook::new(&scene, Route::Url);
        let with = |name| [&authority[..], &["--webhook-client-name", name]].concat();
        // It waits until a pod passed the chain.
        let operator = webhook.operator(&standard(), &with(NAME)).await;
        drop(operator);

        let other = webhook.spawn(&standard(), &with("another-client"));
        webhook.configure(address(&other).await, Policy::Fail);
        eventually("it gets no answer", async || {
            let created = scene.pods().create(&dry_run(), &plain_pod("probe")).await;
            let error = created.map_or_else(|error| error.to_string(), |_| String::new());
            let is_refused =
                error.contains("failed calling webhook") && error.contains("remote error: tls");
            is_refused.then_some(()).ok_or(error)
        })
        .await;
    });
}
