//! Tightens chains of a plugin that uses more than it declares, on random pods and with random grants.

use std::sync::Arc;

use podloom_mutation::PodRequest;
use podloom_mutators::{Bundle, Chain, PluginGrants};
use serde_json::{Value, json};
use wit_component::StringEncoding;
use wit_parser::Resolve;

use super::Corpus;
use super::report;
use super::search::{Search, covers, first_difference};
use super::{tightened, verify};
use crate::chain::edit::have_read;
use crate::load;

const ALLOW: [&str; 12] = [
    "/metadata/labels",
    "/metadata/labels/a",
    "/metadata/labels/b",
    "/metadata/labels/seen",
    "/spec",
    "/spec/nodeName",
    "/spec/containers",
    "/spec/containers/*/image",
    "/spec/containers/[name=proxy]",
    "/spec/volumes",
    "/spec/volumes/[name=tmp]",
    "/spec/hostPID",
];

const READ: [&str; 6] = [
    "",
    "/spec",
    "/spec/hostNetwork",
    "/spec/containers/*/name",
    "/metadata/labels",
    "/spec/nodeName",
];

/// The plugin, with the prelude of the fixtures of `podloom-mutators`.
fn plugin() -> Vec<u8> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/mutators/tests/fixtures/");
    let read =
        |name: &str| std::fs::read_to_string(format!("{root}{name}.wat")).expect("a fixture");
    let parts = [
        "prelude",
        "default-cabi_realloc",
        "default-describe",
        "default-validate_config",
    ];
    let parts: Vec<String> = parts.map(read).into();
    let text = format!(
        "(module\n{}\n{})",
        parts.join("\n"),
        include_str!("tests/plugin.wat")
    );
    let mut module = wat::parse_str(text).expect("the plugin is WebAssembly text");
    let mut resolve = Resolve::default();
    let contract = concat!(env!("CARGO_MANIFEST_DIR"), "/../wit/0.1");
    let (package, _) = resolve.push_path(contract).expect("the contract");
    let world = resolve
        .select_world(&[package], Some("mutator"))
        .expect("the world");
    wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
        .expect("metadata");
    module
}

/// Numbers that are the same in each run.
struct Seed(u64);

impl Seed {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn some<'a>(&mut self, all: &[&'a str], one_in: u64) -> Vec<&'a str> {
        all.iter()
            .copied()
            .filter(|_| self.below(one_in) == 0)
            .collect()
    }

    fn pod(&mut self) -> Value {
        let mut pod = json!({
            "metadata": { "name": "p", "labels": { "app": "web" }, "annotations": {} },
            "spec": { "containers": [{ "name": "app", "image": "a" }] },
        });
        for name in "abcdefghijk".chars().filter(|_| self.below(4) == 0) {
            pod["metadata"]["annotations"][format!("do-{name}")] = json!("");
        }
        if self.below(2) == 0 {
            pod["spec"]["hostNetwork"] = json!(true);
        }
        if self.below(2) == 0 {
            pod["metadata"]["labels"]["gone"] = json!("x");
        }
        if self.below(2) == 0 {
            let containers = pod["spec"]["containers"].as_array_mut().expect("a list");
            containers.push(json!({ "name": "proxy", "image": "b" }));
        }
        pod
    }
}

struct Setting {
    bundle: Bundle,
    text: String,
    chain: Chain,
    corpus: Corpus,
    pods: Vec<Value>,
    request: Arc<PodRequest>,
}

impl Setting {
    fn new(
        engine: &Arc<podloom_mutators::Engine>,
        plugin: &[u8],
        entries: &str,
        pods: Vec<Value>,
    ) -> Self {
        let text =
            format!("apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins:\n{entries}");
        let bundle = Bundle::from_parts(&text, [("p.wasm".to_owned(), plugin.to_owned())])
            .expect("a bundle");
        let chain = Chain::load(engine, &bundle).expect("the chain loads");
        let request = Arc::new(PodRequest {
            kind: "Pod",
            namespace: "shop".to_owned(),
            ..PodRequest::default()
        });
        Self {
            bundle,
            text,
            chain,
            corpus: Corpus::of(&pods, &request),
            pods,
            request,
        }
    }

    /// What it is tightened to, with the report and the new text.
    fn tighten(&self) -> (Vec<PluginGrants>, String, String) {
        let (chain, corpus) = (&self.chain, &self.corpus);
        let search = Search::begin(chain, corpus, have_read(&self.text)).expect("it runs");
        let grants = search.run().expect("it runs");
        let report = report::text(&search, &grants);
        let text = tightened(&self.text, chain, &grants).expect("it can be changed in place");
        verify(&self.bundle, chain, &text, &grants).expect("it means what was tried");
        (
            grants,
            anstream::adapter::strip_str(&report).to_string(),
            text,
        )
    }

    /// Whether some pod comes out differently with these grants.
    fn differs(&self, grants: &[PluginGrants]) -> bool {
        let other = self
            .chain
            .with_grants(grants)
            .expect("the plugin declares nothing");
        self.pods.iter().any(|pod| {
            let run = |chain: &Chain| chain.mutate(pod.clone(), Arc::clone(&self.request));
            first_difference(&run(&self.chain), &run(&other)).is_some()
        })
    }
}

fn entry(name: &str, allow: &[&str], read: Option<&[&str]>) -> String {
    let list = |paths: &[&str]| serde_json::to_string(paths).expect("JSON");
    let read = read
        .map(|read| format!("  read: {}\n", list(read)))
        .unwrap_or_default();
    format!(
        "- name: {name}\n  file: p.wasm\n  idempotent: false\n  allow: {}\n{read}",
        list(allow)
    )
}

/// The rule of the command: all pods come out the same, and each grant that is left changes at least one when it is removed.
#[test]
fn each_grant_that_is_left_makes_a_difference() {
    let (engine, plugin) = (load::engine().expect("an engine"), plugin());
    let mut seed = Seed(7);
    let mut left = 0;
    for case in 0..24 {
        let entries: String = ["one", "two"]
            .iter()
            .map(|name| {
                let allow = seed.some(&ALLOW, 3);
                let mut read = seed.some(&READ, 3);
                read.push("/metadata/annotations");
                entry(name, &allow, Some(&read))
            })
            .collect();
        let pods = (0..8).map(|_| seed.pod()).collect();
        let setting = Setting::new(&engine, &plugin, &entries, pods);
        let (grants, report, _) = setting.tighten();
        assert!(
            !setting.differs(&grants),
            "case {case}: {entries}\n{report}"
        );
        for (number, (before, after)) in setting.chain.grants().iter().zip(&grants).enumerate() {
            let covered = |path: &String, by: &[String]| by.iter().any(|wide| covers(wide, path));
            assert!(
                after.allow.iter().all(|path| covered(path, &before.allow)),
                "case {case}"
            );
            let readable = [before.read.as_slice(), &before.allow].concat();
            assert!(
                after.read.iter().all(|path| covered(path, &readable)),
                "case {case}"
            );
            for at in 0..after.allow.len() {
                let mut less = grants.clone();
                let path = less[number].allow.remove(at);
                assert!(
                    setting.differs(&less),
                    "case {case}: {path} is left\n{entries}\n{report}"
                );
            }
            for at in 0..after.read.len() {
                let mut less = grants.clone();
                let path = less[number].read.remove(at);
                assert!(
                    setting.differs(&less),
                    "case {case}: read {path:?} is left\n{entries}\n{report}"
                );
            }
            left += after.allow.len() + after.read.len();
        }
    }
    assert!(left > 50, "{left} grants were tried");
}

#[test]
fn a_report_names_what_is_kept_narrowed_dropped_and_moved() {
    let engine = load::engine().expect("an engine");
    let pod = |does: &[&str]| {
        let does = does.iter().map(|name| (format!("do-{name}"), json!("")));
        let annotations: Value = Value::Object(does.collect());
        json!({
            "metadata": { "name": "p", "annotations": annotations },
            "spec": { "hostNetwork": true, "containers": [{ "name": "proxy" }, { "name": "app" }] },
        })
    };
    let allow = [
        "/metadata/labels",
        "/spec/nodeName",
        "/spec/containers/*/image",
        "/spec/hostPID",
        "/spec/hostNetwork",
        "/metadata/annotations",
    ];
    let entries = entry("one", &allow, None);
    let pods = vec![pod(&["a", "c"]), pod(&["d", "f"]), pod(&["a", "b"])];
    let setting = Setting::new(&engine, &plugin(), &entries, pods);
    let (_, report, text) = setting.tighten();
    insta::assert_snapshot!(format!("{report}\n{text}"));
}

/// It keeps only what it declares, which is nothing.
#[test]
fn a_plugin_that_is_never_called_loses_its_grants() {
    let engine = load::engine().expect("an engine");
    let entries = format!(
        "{}  match: {{ namespaces: [other] }}\n",
        entry("one", &["/spec"], Some(&["/metadata"]))
    );
    let setting = Setting::new(&engine, &plugin(), &entries, vec![Seed(1).pod()]);
    let (grants, report, _) = setting.tighten();
    assert_eq!(grants, [PluginGrants::default()]);
    assert!(report.contains("called for 0 pods of 1"), "{report}");
}
