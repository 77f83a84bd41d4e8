//! The console of a real operator: what its events say of pods, objects and reloads.

mod page;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use podloom_tests::{Cluster, MountedBundle, Operator, Scene, Signal, blackbox_on, eventually};
use serde_json::Value;

/// What the configuration of a plugin says.
const SECRET: &str = "squirrel";

/// A chain whose first plugin writes two labels, and whose second one leaves Browsers alone.
fn chain(value: &str) -> String {
    format!(
        "\n- {{ name: labels, file: labels.wasm.gz, allow: [/metadata/labels], read: [/spec/containers], \
         config: {{ labels: [{{ key: team, value: {value} }}, {{ key: cost, value: {value} }}] }} }}\
         \n- {{ name: others, file: labels.wasm.gz, allow: [/metadata/labels], failurePolicy: Ignore, \
         match: {{ kinds: [Pod] }}, config: {{ labels: [{{ key: other, value: one }}] }} }}"
    )
}

const MISSING: &str = "\n- { name: labels, file: missing.wasm }";

/// What a page that listens would show.
struct Events {
    address: SocketAddr,
    latest: Arc<Mutex<Option<Value>>>,
}

impl Events {
    /// Listens until the operator ends.
    fn of(operator: &Operator) -> Self {
        let address = operator.listens("http").unwrap();
        let latest: Arc<Mutex<Option<Value>>> = Arc::default();
        let heard = Arc::clone(&latest);
        thread::spawn(move || while listen(address, &heard).is_ok() {});
        Self { address, latest }
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        eventually(what, async || {
            let latest = self.latest.lock().unwrap().clone();
            let latest = latest.ok_or_else(|| "no event".to_owned())?;
            let is_so = is_so(&latest);
            is_so.then_some(latest.clone()).ok_or(format!("{latest:#}"))
        })
        .await
    }
}

/// Listens once. HTTP/1.0, so that nothing comes between the events.
fn listen(address: SocketAddr, heard: &Mutex<Option<Value>>) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "GET /console/events HTTP/1.0\r\nHost: {address}\r\n\r\n"
    )?;
    for line in BufReader::new(stream).lines() {
        if let Some(state) = line?.strip_prefix("data: ") {
            *heard.lock().unwrap() = Some(serde_json::from_str(state).unwrap());
        }
    }
    Ok(())
}

async fn start(scene: &Scene, bundle: &MountedBundle, more: &[&str]) -> Operator {
    let plugins = ["--plugins", bundle.path().to_str().unwrap()];
    scene.operator(&[plugins.as_slice(), more].concat()).await
}

fn pod<'s>(state: &'s Value, name: &str) -> Option<&'s Value> {
    let mut pods = state["pods"].as_array()?.iter();
    pods.find(|pod| pod["name"] == name)
}

fn running(state: &Value) -> Option<u64> {
    let mut objects = state["objects"].as_array()?.iter();
    let browsers = objects.find(|of| of["controller"] == "browser")?;
    let mut phases = browsers["phases"].as_array()?.iter();
    phases.find(|of| of["phase"] == "Running")?["count"].as_u64()
}

#[test]
fn the_console_shows_pods_objects_and_what_became_of_the_chain() {
    blackbox_on(Cluster::without_operator, "console", async |scene| {
        let bundle = MountedBundle::of(&chain(SECRET));
        let more = ["--console", "--pod-name", "the-operator"];
        let mut operator = start(&scene, &bundle, &more).await;
        scene.behaviours().await;
        let events = Events::of(&operator);
        scene.browser("shown", "running").await;
        let state = events
            .until("the pod is shown and its Browser runs", |state| {
                pod(state, "shown").is_some() && running(state) == Some(1)
            })
            .await;
        let shown = pod(&state, "shown").unwrap();
        assert_eq!(shown["kind"], "Browser");
        assert_eq!(shown["namespace"], scene.namespace.as_str());
        assert_eq!(shown["verdict"], "allowed");
        let [labels, others] = shown["plugins"].as_array().unwrap().as_slice() else {
            panic!("{shown:#}")
        };
        assert_eq!(
            (&labels["name"], &labels["outcome"]),
            (&"labels".into(), &"mutated".into())
        );
        let paths = serde_json::json!(["/metadata/labels/team", "/metadata/labels/cost"]);
        assert_eq!((&labels["paths"], &labels["writes"]), (&paths, &2.into()));
        assert_eq!(
            (&others["name"], &others["outcome"]),
            (&"others".into(), &"skipped".into())
        );
        assert_eq!(state["replica"], "the-operator");
        assert!(!state.to_string().contains(SECRET), "{state:#}");
        shows_the_plugins(&state);
        shows_reloads(&bundle, &events, &state["chain"]["digest"]).await;

        // Somebody still listens.
        let began = Instant::now();
        operator.signal(Signal::Terminate);
        assert!(operator.ended().await.success());
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{:?}",
            began.elapsed()
        );
        assert!(TcpStream::connect(events.address).is_err());
    });
}

fn shows_the_plugins(state: &Value) {
    let labels = &state["chain"]["plugins"][0];
    assert_eq!(labels["name"], "labels");
    assert_eq!(labels["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(
        labels["allow"]["paths"],
        serde_json::json!(["/metadata/labels"])
    );
    assert_eq!(
        labels["read"]["paths"],
        serde_json::json!(["/spec/containers"])
    );
    assert_eq!(labels["failurePolicy"], "Fail");
    assert_eq!(state["chain"]["plugins"][1]["failurePolicy"], "Ignore");
    assert_eq!(state["ready"], true);
    let calls = |plugin: usize| {
        let latency = &state["latency"][plugin];
        let buckets = latency["buckets"].as_array().unwrap().iter();
        let calls = buckets.map(|bucket| bucket["calls"].as_u64().unwrap());
        (latency["plugin"].clone(), calls.sum::<u64>())
    };
    assert_eq!(calls(0), ("labels".into(), 1));
    assert_eq!(calls(1), ("others".into(), 0), "it was never called");
}

/// A bad chain is refused and a good one serves; both while pages listen.
async fn shows_reloads(bundle: &MountedBundle, events: &Events, serves: &Value) {
    bundle.update(MISSING);
    let state = events
        .until("the refusal is shown", |state| {
            !state["chain"]["error"].is_null()
        })
        .await;
    let message = state["chain"]["error"]["message"].as_str().unwrap();
    assert!(message.contains("missing.wasm"), "{message}");
    assert_eq!(state["chain"]["digest"], *serves);
    assert_eq!(state["reloads"][0]["outcome"], "invalid_bundle");
    assert_eq!(state["reloads"][0]["error"], message);

    bundle.update(&chain("badger"));
    let state = events
        .until("another chain serves", |state| {
            state["chain"]["error"].is_null()
        })
        .await;
    assert_ne!(state["chain"]["digest"], *serves);
    let outcomes = state["reloads"].as_array().unwrap().iter();
    let outcomes: Vec<&Value> = outcomes.map(|attempt| &attempt["outcome"]).collect();
    assert_eq!(outcomes, ["success", "invalid_bundle", "success"]);
    assert_eq!(state["reloads"][0]["chain"], state["chain"]["digest"]);
    assert!(state["reloads"][0]["milliseconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn without_the_option_there_is_no_console() {
    blackbox_on(Cluster::without_operator, "console-off", async |scene| {
        let operator = scene.operator(&[]).await;
        for path in ["/console", "/console/events"] {
            let (status, _) = operator.get(path).unwrap();
            assert_eq!(status, 404, "{path}");
        }
    });
}
