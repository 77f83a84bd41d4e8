use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use podloom_control_loop::NoRecorder;

use super::*;
use crate::engine::EngineOptions;
use crate::loader::{Slot, WatchMode};

const FIRST: Duration = Duration::from_secs(15);

fn builder() -> Builder {
    let engine = Engine::new(&EngineOptions::default()).expect("the engine starts");
    Builder::new(Loader {
        name: "chain",
        directory: PathBuf::from("/plugins"),
        engine,
        slot: Arc::<Slot>::default(),
        signers: None,
        admit: Arc::new(|_| Box::pin(async { Ok(()) })),
        watch: WatchMode::Scanned,
        scan_interval: FIRST,
        build_timeout: FIRST,
        report: Arc::new(|_| {}),
        recorder: Arc::new(NoRecorder),
    })
}

fn empty(comment: &str) -> Result<Bundle, BundleError> {
    let head = "apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain";
    Bundle::from_parts(&format!("{head}\nplugins: [] # {comment}\n"), [])
}

fn identity(read: Result<Bundle, BundleError>) -> String {
    Snapshot::of(read).content
}

/// An empty chain with these warnings: line and message.
fn built(builder: &Builder, warnings: &[(u64, &str)]) -> Built {
    let bundle = empty("one").expect("a bundle");
    let warnings = warnings.iter().map(|(line, message)| ChainWarning {
        plugin: "it".to_owned(),
        line: *line,
        message: (*message).to_owned(),
    });
    Built {
        chain: Chain::load(&builder.loader.engine, &bundle).expect("a chain"),
        warnings: warnings.collect(),
    }
}

fn refuse(builder: &Builder, content: &str) {
    let error = LoadError::broken(Path::new("/plugins"), "out of threads");
    builder.refuse(content.to_owned(), None, error);
}

#[tokio::test(start_paused = true)]
async fn refused_content_is_built_again_in_growing_pauses() {
    let (builder, content) = (builder(), identity(empty("one")));
    assert!(!builder.is_settled(&content));
    let mut pause = FIRST;
    for _ in 0..8 {
        refuse(&builder, &content);
        tokio::time::advance(pause - Duration::from_millis(1)).await;
        assert!(builder.is_settled(&content), "{pause:?} are not over");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!builder.is_settled(&content), "{pause:?} are over");
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    assert_eq!(pause, LONGEST_PAUSE);
}

#[tokio::test(start_paused = true)]
async fn new_content_is_built_at_once_and_restarts_the_pauses() {
    let builder = builder();
    let (one, two) = (identity(empty("one")), identity(empty("two")));
    refuse(&builder, &one);
    refuse(&builder, &one);
    assert!(!builder.is_settled(&two));
    refuse(&builder, &two);
    tokio::time::advance(FIRST).await;
    assert!(
        !builder.is_settled(&two),
        "the pause is the first one again"
    );
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_directory_is_reported_once_and_looked_for_soon() {
    let builder = builder();
    let after = async |error: io::Error| {
        let error = BundleError::Open {
            path: PathBuf::from("/plugins"),
            source: error,
        };
        let found = Snapshot::of(Err(error));
        let directory = Directory(Path::new("/plugins").into());
        let ctx = Ctx::default();
        let next = builder.handle(&ctx, &directory, Some(found));
        next.await.expect("it is no failure of the loop")
    };
    let missing = || io::Error::from(io::ErrorKind::NotFound);
    assert_eq!(after(missing()).await, Next::After(ABSENT_PAUSE));
    let reported = |slot: &Slot| slot.serving().failed.as_ref().map(|failed| failed.at);
    let first = reported(&builder.loader.slot).expect("it is reported");
    assert_eq!(after(missing()).await, Next::After(ABSENT_PAUSE));
    assert_eq!(reported(&builder.loader.slot), Some(first), "once");
}

#[tokio::test(start_paused = true)]
async fn the_serving_content_is_not_built_again() {
    let builder = builder();
    let content = identity(empty("one"));
    builder.swap(content.clone(), built(&builder, &[]), Duration::ZERO);
    assert!(builder.is_settled(&content));
    refuse(&builder, &identity(empty("two")));
    assert!(builder.loader.slot.serving().failed.is_some());
    assert!(builder.is_settled(&content));
    assert!(builder.loader.slot.serving().failed.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_chain_that_may_not_serve_yet_is_kept_and_serves_once_it_may() {
    let may: Arc<AtomicBool> = Arc::default();
    let mut builder = builder();
    let asked = Arc::clone(&may);
    builder.loader.admit = Arc::new(move |_| {
        let may = asked.load(Ordering::Relaxed);
        Box::pin(async move { may.then_some(()).ok_or("no right to it".to_owned()) })
    });
    let content = identity(empty("one"));
    let directory = Directory(Path::new("/plugins").into());
    let chain = built(&builder, &[]);
    let next = builder.admit(&directory, content.clone(), chain, Duration::ZERO);
    assert_eq!(next.await, Next::After(ADMIT_PAUSE));
    let slot = Arc::clone(&builder.loader.slot);
    let serving = slot.serving();
    let failed = serving.failed.as_ref().expect("it is reported");
    assert_eq!(failed.error.to_string(), "/plugins: no right to it");
    assert_eq!(failed.error.reason, "unmet");
    assert!(serving.chain.is_none());
    may.store(true, Ordering::Relaxed);
    let found = Snapshot::of(empty("one"));
    assert!(!builder.is_settled(&content));
    let ctx = Ctx::default();
    let next = builder.handle(&ctx, &directory, Some(found));
    assert_eq!(next.await.expect("no failure"), Next::Settled);
    assert!(slot.serving().chain.is_some() && slot.serving().failed.is_none());
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_warning_is_logged_when_it_is_new() {
    let builder = builder();
    let content = identity(empty("one"));
    let swap_logs = |warnings: &[(u64, &str)], expected: &[&str]| {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            builder.swap(content.clone(), built(&builder, warnings), Duration::ZERO);
        });
        let text = lines.0.lock().expect("nobody panics").clone();
        let text = String::from_utf8(text).expect("UTF-8");
        let logged: Vec<&str> = text.lines().collect();
        assert_eq!(logged.len(), expected.len(), "{text}");
        for (line, expected) in logged.iter().zip(expected) {
            assert!(line.contains(expected), "{expected}: {line}");
        }
    };
    swap_logs(
        &[(4, "one"), (4, "two")],
        &["chain.yaml:4: plugin it: one", "plugin it: two"],
    );
    // Only the lines have moved.
    swap_logs(&[(5, "one"), (5, "two")], &[]);
    swap_logs(&[(5, "one"), (5, "three")], &["plugin it: three"]);
    swap_logs(&[(5, "one")], &[]);
    swap_logs(&[(5, "one"), (5, "three")], &["plugin it: three"]);
}

#[test]
fn content_differs_if_a_file_or_its_name_does() {
    let content = |file: &str, bytes: &[u8]| {
        let manifest = format!(
            "apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins: [{{ name: a, file: {file} }}]\n"
        );
        identity(Bundle::from_parts(
            &manifest,
            [(file.to_owned(), bytes.to_vec())],
        ))
    };
    assert_eq!(content("a.wasm", b"1"), content("a.wasm", b"1"));
    assert_ne!(content("a.wasm", b"1"), content("a.wasm", b"2"));
    assert_ne!(content("a.wasm", b"1"), content("b.wasm", b"1"));
    assert_ne!(identity(empty("one")), identity(empty("two")));
}
