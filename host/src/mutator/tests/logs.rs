//! What the operator's log says of a pod that passes the chain: plugins run on other threads than the reconcile that waits for them.

use std::sync::{Mutex, PoisonError};
use std::{io, mem};

use tracing::dispatcher::{self, Dispatch};
use tracing::{Instrument, info_span};
use wit_component::{ComponentEncoder, StringEncoding};
use wit_parser::Resolve;

use super::*;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// Logs JSON, with the names that fields have in the code.
    fn dispatch(&self) -> Dispatch {
        let writer = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_writer(move || writer.clone())
            .without_time();
        Dispatch::new(subscriber.finish())
    }

    /// The lines that plugins wrote.
    fn of_plugins(&self) -> Vec<Value> {
        let text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = text.split(|&byte| byte == b'\n');
        let parsed = lines.filter_map(|line| serde_json::from_slice(line).ok());
        parsed
            .filter(|line: &Value| line["target"] == "podloom::plugin")
            .collect()
    }
}

/// A runtime all of whose threads log to here.
fn logging(dispatch: Dispatch) -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .on_thread_start(move || mem::forget(dispatcher::set_default(&dispatch)))
        .build()
        .unwrap()
}

pub(in crate::mutator) fn plugin_that_logs() -> Vec<u8> {
    let mut module = wat::parse_str(include_str!("logs.wat")).unwrap();
    let mut resolve = Resolve::default();
    let contract = concat!(env!("CARGO_MANIFEST_DIR"), "/../wit/0.1");
    let (package, _) = resolve.push_path(contract).unwrap();
    let world = resolve.select_world(&[package], Some("mutator")).unwrap();
    let encoding = StringEncoding::UTF8;
    wit_component::embed_component_metadata(&mut module, &resolve, world, encoding).unwrap();
    module
}

/// A chain of one plugin, which may write there.
pub(in crate::mutator) fn chain_of(plugin: &[u8], allow: &str) -> podloom_mutators::Chain {
    let directory = tempfile::tempdir().unwrap();
    let manifest = format!(
        "apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins: [{{ name: logs, file: logs.wasm, allow: [{allow}] }}]\n"
    );
    fs::write(directory.path().join("chain.yaml"), manifest).unwrap();
    fs::write(directory.path().join("logs.wasm"), plugin).unwrap();
    let Ok(chain) = load::chain(directory.path()) else {
        panic!("a good chain")
    };
    chain
}

#[test]
fn a_line_of_a_plugin_names_the_pod_and_is_in_the_span_of_its_reconcile() {
    let module = plugin_that_logs();
    let component = ComponentEncoder::default()
        .module(&module)
        .and_then(ComponentEncoder::encode)
        .unwrap();
    for plugin in [module, component] {
        let mutator = ChainMutator::of(Some(chain_of(&plugin, "")));
        let lines = Lines::default();
        let runtime = logging(lines.dispatch());
        let request = PodRequest {
            kind: "Browser",
            name: "chrome".to_owned(),
            namespace: "shop".to_owned(),
            ..PodRequest::default()
        };
        let reconcile = async move {
            let span = info_span!("reconcile", attempt = 7);
            mutator.mutate(pod(), request).instrument(span).await
        };
        let mutated = runtime.block_on(async { runtime.spawn(reconcile).await.unwrap() });
        assert!(mutated.is_ok(), "{mutated:?}");
        assert_eq!(
            lines.of_plugins(),
            [json!({
                "level": "INFO",
                "target": "podloom::plugin",
                "message": "looking at the pod",
                "plugin": "logs",
                "kind": "Browser",
                "namespace": "shop",
                "name": "chrome",
                "spans": [{ "name": "reconcile", "attempt": 7 }],
            })]
        );
    }
}
