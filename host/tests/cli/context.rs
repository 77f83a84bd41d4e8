//! What `podloom render` prints of what it reads: all of it, in its place, but for `--context` and `--only-changed`.

use std::fs;

use super::{Ran, fixtures, podloom_in};

const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, annotations: {helm.sh/resource-policy: keep}} # the chart's\n";
const CONFIG: &str = "apiVersion: selenosis.io/v1\nkind: BrowserConfig\nmetadata: {name: all, namespace: shop}\nspec: {browsers: {chrome: {\"139.0\": {image: \"example.com/chrome:139.0\"}}}}\n";
const BROWSER: &str = "apiVersion: selenosis.io/v1\nkind: Browser\nmetadata: {name: session, namespace: shop}\nspec: {browserName: chrome, browserVersion: \"139.0\"}\n";
const CLASS: &str = "apiVersion: portal.gosuda.org/v1alpha1\nkind: TunnelClass\nmetadata: {name: small}\nspec: {replicas: 1, size: small}\n";
const EXPOSE: &str = "apiVersion: portal.gosuda.org/v1alpha1\nkind: PortalExpose\nmetadata: {name: web, namespace: shop}\nspec:\n  app: {name: web, service: {name: web, port: 80}}\n  relay: {targets: [{name: primary, url: \"wss://portal.gosuda.org/relay\"}]}\n  tunnelClassName: small\n";
const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {ports: [{port: 80}]}\n";
const CONFIG_MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: shop, annotations: {helm.sh/hook: pre-install, config.kubernetes.io/index: '1'}}\n";
const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {template: {spec: {containers: [{name: a, image: b}]}}}\n";

fn render(more: &[&str], input: &str) -> Ran {
    podloom_in(&fixtures(), &[&["render", "-f", "-"], more].concat(), input)
}

fn kinds(ran: &Ran) -> Vec<&str> {
    assert_eq!(ran.code, 0, "{}", ran.text());
    let lines = ran.stdout.lines();
    lines.filter_map(|it| it.strip_prefix("kind: ")).collect()
}

/// As behind `helm template`, and as a post-renderer: what is missing from the output, Helm deletes.
#[test]
fn every_object_goes_out_in_its_place() {
    let chart = [
        NAMESPACE, CONFIG, BROWSER, CLASS, SERVICE, EXPOSE, CONFIG_MAP, DEPLOYMENT,
    ]
    .join("---\n");
    let ran = render(&["--no-expand"], &chart);
    assert_eq!((ran.code, &ran.stdout), (0, &chart), "{}", ran.text());
    let ran = render(&[], &chart);
    let expected = [
        "Namespace",
        "BrowserConfig",
        "Pod",
        "TunnelClass",
        "Service",
        "Deployment",
        "ConfigMap",
        "Deployment",
    ];
    assert_eq!(kinds(&ran), expected);
    let note = "note: 1 Browser, 1 PortalExpose: printed is what the operator makes of them; --no-expand prints";
    assert!(ran.stderr.contains(note), "{}", ran.text());
    let list = "apiVersion: v1\nkind: NamespaceList\nitems: [{metadata: {name: a}}, {metadata: {name: b}}]\n";
    assert_eq!(kinds(&render(&[], list)), ["Namespace", "Namespace"]);
}

#[test]
fn the_pods_of_what_is_not_expanded_are_checked_all_the_same() {
    let browser = BROWSER.replace("139.0", "1.0");
    let ran = render(&["--no-expand"], &[CONFIG, &browser].join("---\n"));
    assert_eq!(ran.code, 1, "{}", ran.text());
    assert!(ran.stderr.contains("1.0"), "{}", ran.text());
}

#[test]
fn only_what_changed_is_printed_on_request() {
    let files = [NAMESPACE, CONFIG, BROWSER, CONFIG_MAP, DEPLOYMENT].join("---\n");
    assert_eq!(kinds(&render(&["--only-changed"], &files)), ["Pod"]);
    let chained = render(&["--only-changed", "-p", "bundles/empty"], &files);
    assert_eq!(kinds(&chained), ["Pod", "Deployment"]);
    let nothing = render(&["--only-changed"], DEPLOYMENT);
    assert_eq!(nothing.stdout, "");
    assert!(
        nothing.stderr.contains("the chain changes no object"),
        "{}",
        nothing.text()
    );
}

#[test]
fn context_is_read_and_not_printed() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    write("config.yaml", &[NAMESPACE, CONFIG].join("---\n"));
    write("browser.yaml", BROWSER);
    write("other.yaml", &[DEPLOYMENT, CONFIG_MAP].join("---\n"));
    write("changed.yaml", &NAMESPACE.replace("keep", "delete"));
    let render = |arguments: &[&str]| {
        podloom_in(
            directory.path(),
            &[&["render"], arguments].concat(),
            NAMESPACE,
        )
    };
    let ran = render(&["-f", "browser.yaml", "--context", "config.yaml"]);
    assert_eq!(kinds(&ran), ["Pod"]);
    assert!(!ran.stderr.contains("warning"), "{}", ran.text());
    // What is given is printed, though it is context too, and is no duplicate of itself.
    let ran = render(&[
        "-f",
        "config.yaml",
        "browser.yaml",
        "--context",
        ".",
        "-f",
        "other.yaml",
    ]);
    assert_eq!(ran.code, 1, "{}", ran.text());
    fs::remove_file(directory.path().join("changed.yaml")).unwrap();
    let ran = render(&["-f", "config.yaml", "browser.yaml", "--context", "."]);
    assert_eq!(kinds(&ran), ["Namespace", "BrowserConfig", "Pod"]);
    let warning = "Deployment shop/web: left out, and 1 more of --context: context are Namespaces";
    assert!(ran.stderr.contains(warning), "{}", ran.text());
    let ran = render(&["-f", "browser.yaml", "--context", "config.yaml", "-f", "-"]);
    assert_eq!(kinds(&ran), ["Pod", "Namespace"]);
    let ran = render(&["-f", "-", "--context", "-"]);
    assert_eq!(ran.code, 2, "{}", ran.text());
}
