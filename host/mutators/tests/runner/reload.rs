//! Hot reload: a directory changes under a loader, in all the ways in which directories change.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use podloom_control_loop::NoRecorder;
use podloom_mutators::{Bundle, Loader, Reload, Signers, Slot, WatchMode};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::broken::BROKEN;
use crate::support::{assemble, directory, engine, fixture_text, plugin, pod, request};
use crate::volume::{Files, Volume};

/// More than the slowest machine needs.
const PATIENCE: Duration = Duration::from_secs(30);
/// So rarely that a change must have been noticed by the watch.
const SELDOM: Duration = Duration::from_secs(600);
const OFTEN: Duration = Duration::from_millis(100);

/// A loader at work.
struct Loading {
    slot: Arc<Slot>,
    reports: Arc<Mutex<Vec<Reload>>>,
    stop: CancellationToken,
    runtime: Runtime,
}

impl Loading {
    fn of(path: &Path, watch: WatchMode, scan_interval: Duration) -> Self {
        Self::within(PATIENCE, path, watch, scan_interval)
    }

    fn within(
        build_timeout: Duration,
        path: &Path,
        watch: WatchMode,
        scan_interval: Duration,
    ) -> Self {
        Self::start(build_timeout, path, None, (watch, scan_interval))
    }

    fn start(
        build_timeout: Duration,
        path: &Path,
        signers: Option<Signers>,
        (watch, scan_interval): (WatchMode, Duration),
    ) -> Self {
        let (slot, reports, stop) = (
            Arc::<Slot>::default(),
            Arc::default(),
            CancellationToken::new(),
        );
        let list: Arc<Mutex<Vec<Reload>>> = Arc::clone(&reports);
        let loader = Loader {
            name: "plugins",
            directory: path.to_owned(),
            engine: Arc::clone(engine()),
            slot: Arc::clone(&slot),
            signers,
            admit: Arc::new(|_| Box::pin(async { Ok(()) })),
            watch,
            scan_interval,
            build_timeout,
            report: Arc::new(move |reload| {
                list.lock()
                    .expect("no test panics in it")
                    .push(reload.clone())
            }),
            recorder: Arc::new(NoRecorder),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.spawn(loader.run(stop.clone()));
        Self {
            slot,
            reports,
            stop,
            runtime,
        }
    }

    /// Loads with notifications of the file system, and waits for the first attempt.
    fn watching(path: &Path) -> Self {
        let loading = Self::of(path, WatchMode::Notified, SELDOM);
        loading.runtime.block_on(loading.slot.attempted());
        loading
    }

    /// What the chain that serves now writes into the label, or why none does.
    fn serves(&self) -> Result<String, String> {
        let serving = self.slot.serving();
        let chain = serving.chain.as_ref().ok_or("nothing serves")?;
        let mutation = chain.mutate(pod(), request());
        let pod = mutation.map_err(|rejected| rejected.to_string())?.pod;
        Ok(pod["metadata"]["labels"]["fixture"].to_string())
    }

    #[track_caller]
    fn waits_until_it_serves(&self, label: &str) {
        let label = format!("{label:?}");
        self.waits_until(&format!("{label} is served"), || {
            self.serves().as_ref() == Ok(&label)
        });
    }

    /// Waits for a refusal with these words; what served before serves on.
    #[track_caller]
    fn waits_until_it_refuses(&self, words: &str) {
        self.waits_until(&format!("it says: {words}"), || {
            self.error().is_some_and(|error| error.contains(words))
        });
    }

    fn error(&self) -> Option<String> {
        let serving = self.slot.serving();
        serving
            .failed
            .as_ref()
            .map(|failed| failed.error.to_string())
    }

    #[track_caller]
    fn waits_until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(
                begun.elapsed() < PATIENCE,
                "waited for: {what}\nserves {:?}\nerror {:?}",
                self.serves(),
                self.error()
            );
            std::thread::yield_now();
        }
    }

    /// Waits for this many reports, and compares them. The slot is updated before the report.
    #[track_caller]
    fn reported(&self, expected: &[&str]) {
        self.waits_until(&format!("{} attempts are reported", expected.len()), || {
            self.outcomes().len() >= expected.len()
        });
        assert_eq!(self.outcomes(), expected);
    }

    fn outcomes(&self) -> Vec<&'static str> {
        self.reports
            .lock()
            .expect("no test panics in it")
            .iter()
            .map(Reload::as_str)
            .collect()
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A plugin that writes this word into the label `fixture`.
pub(crate) fn labelling(word: &str) -> Vec<u8> {
    assemble(&fixture_text("good").replace("22good", &format!("22{word}")))
}

const ONE: &str = "[{ name: label, file: label.wasm, allow: [/metadata/labels] }]";

pub(crate) fn manifest(plugins: &str) -> Vec<u8> {
    format!("apiVersion: podloom.dev/v1alpha1\nkind: MutatorChain\nplugins: {plugins}\n")
        .into_bytes()
}

/// A bundle of one plugin that writes this word.
pub(crate) fn bundle(word: &str) -> Files {
    Files::from([
        ("chain.yaml".to_owned(), manifest(ONE)),
        ("label.wasm".to_owned(), labelling(word)),
    ])
}

fn write(directory: &Path, files: &Files) {
    for (name, content) in files {
        fs::write(directory.join(name), content).expect("a file");
    }
}

fn plain(files: &Files) -> TempDir {
    let directory = TempDir::new().expect("a directory");
    write(directory.path(), files);
    directory
}

#[test]
fn each_update_of_a_volume_serves_at_once() {
    let volume = Volume::new(&bundle("one"));
    let loading = Loading::watching(volume.path());
    assert_eq!(loading.serves().as_deref(), Ok("\"one\""));
    // The second update is the one that a watch on a file would miss.
    for word in ["two", "three", "four"] {
        volume.update(&bundle(word), |_| {});
        loading.waits_until_it_serves(word);
    }
    loading.reported(&["success"; 4]);
}

#[test]
fn at_each_step_of_an_update_a_bundle_is_whole() {
    let whole = |content: &Files, read: &Bundle| {
        let files: Vec<_> = read.files().collect();
        read.manifest() == content["chain.yaml"]
            && files == [("label.wasm", content["label.wasm"].as_slice())]
    };
    let (old, mut new) = (bundle("one"), bundle("two"));
    let volume = Volume::new(&old);
    let loading = Loading::watching(volume.path());
    let mut steps = Vec::new();
    let mut look = |step: &str, old: &Files, new: &Files| {
        let read = Bundle::read(volume.path()).unwrap_or_else(|error| panic!("{step}: {error}"));
        assert!(whole(old, &read) || whole(new, &read), "{step}: {read:?}");
        steps.push((step.to_owned(), whole(new, &read)));
    };
    volume.update(&new, |step| look(step, &old, &new));
    loading.waits_until_it_serves("two");
    // A file more, which nobody names, and then one less.
    let named = new.clone();
    new.insert("README".to_owned(), b"of the bundle".to_vec());
    volume.update(&new, |step| look(step, &named, &named));
    volume.update(&old, |step| look(step, &named, &old));
    loading.waits_until_it_serves("one");
    assert_eq!(loading.error(), None);
    loading.reported(&["success"; 3]);
    let swaps = steps
        .iter()
        .filter(|(step, _)| step == "the link is swapped in");
    assert_eq!(swaps.count(), 3, "{steps:?}");
}

#[test]
fn what_did_not_change_is_not_compiled_again() {
    let two = "[{ name: label, file: label.wasm, allow: [/metadata/labels] }, { name: tolerant, file: tolerant.wasm, allow: [/metadata/labels] }]";
    let with_two = |word: &str| {
        let mut files = bundle(word);
        files.insert("chain.yaml".to_owned(), manifest(two));
        files.insert("tolerant.wasm".to_owned(), plugin("tolerant"));
        files
    };
    let volume = Volume::new(&with_two("one"));
    let loading = Loading::watching(volume.path());
    let compiled = || {
        let serving = loading.slot.serving();
        let chain = serving.chain.as_ref().expect("a chain");
        let plugins = chain.plugins().iter();
        plugins
            .filter(|plugin| plugin.compiled_in.is_some())
            .map(|plugin| plugin.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(compiled(), ["label", "tolerant"]);
    volume.update(&with_two("two"), |_| {});
    loading.waits_until_it_serves("two");
    assert_eq!(compiled(), ["label"]);
}

#[test]
fn files_that_are_written_piece_by_piece_are_read_when_they_are_whole() {
    let directory = plain(&bundle("one"));
    let loading = Loading::watching(directory.path());
    loading.waits_until_it_serves("one");
    let (path, new) = (directory.path().join("label.wasm"), labelling("two"));
    // As a slow copy does it: cut off, then longer and longer.
    for end in (0..new.len()).step_by(new.len() / 8) {
        fs::write(&path, &new[..end]).expect("a part of the file");
        assert_eq!(loading.serves().as_deref(), Ok("\"one\""));
        pause(Duration::from_millis(60));
    }
    fs::write(&path, &new).expect("the whole file");
    loading.waits_until_it_serves("two");
    // As an editor does it: beside it, then renamed over it, with a backup and a swap file.
    fs::write(directory.path().join(".label.wasm.swp"), b"editing").expect("a swap file");
    fs::rename(&path, directory.path().join("label.wasm~")).expect("a backup");
    fs::write(directory.path().join("4913"), labelling("three")).expect("a new file");
    fs::rename(directory.path().join("4913"), &path).expect("in its place");
    fs::remove_file(directory.path().join(".label.wasm.swp")).expect("the swap file");
    loading.waits_until_it_serves("three");
    // On a machine that stands still for a moment a part may look whole. It is refused, and never serves.
    loading.waits_until("three chains are reported", || {
        let outcomes = loading.outcomes();
        outcomes
            .iter()
            .filter(|outcome| **outcome == "success")
            .count()
            == 3
    });
}

/// Lets others write and look; nothing is asserted about how long it takes.
fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

#[test]
fn a_file_that_vanishes_leaves_the_last_good_chain_until_it_is_back() {
    let directory = plain(&bundle("one"));
    let loading = Loading::watching(directory.path());
    loading.waits_until_it_serves("one");
    fs::remove_file(directory.path().join("label.wasm")).expect("the file");
    loading.waits_until_it_refuses("names the file label.wasm, which is not in the bundle");
    assert_eq!(loading.serves().as_deref(), Ok("\"one\""));
    write(directory.path(), &bundle("one"));
    loading.waits_until("the refusal is forgotten", || loading.error().is_none());
    loading.reported(&["success", "invalid_bundle", "restored"]);
}

#[test]
fn a_directory_that_is_removed_and_made_again_is_followed() {
    let above = TempDir::new().expect("a directory");
    let directory = above.path().join("plugins");
    let make = |word: &str| {
        fs::create_dir(&directory).expect("the directory");
        write(&directory, &bundle(word));
    };
    make("one");
    let loading = Loading::of(&directory, WatchMode::Notified, OFTEN);
    loading.waits_until_it_serves("one");
    fs::remove_dir_all(&directory).expect("the directory");
    loading.waits_until_it_refuses("cannot open the plugin directory");
    assert_eq!(loading.serves().as_deref(), Ok("\"one\""));
    make("two");
    loading.waits_until_it_serves("two");
    // Another one in its place, which takes the watch to where it is no longer wanted.
    let other = above.path().join("other");
    fs::create_dir(&other).expect("a directory");
    write(&other, &bundle("three"));
    fs::rename(&directory, above.path().join("old")).expect("out of the way");
    fs::rename(&other, &directory).expect("into its place");
    loading.waits_until_it_serves("three");
    write(&directory, &bundle("four"));
    loading.waits_until_it_serves("four");
}

#[test]
fn a_directory_that_is_named_from_here_is_followed_without_a_scan() {
    let above = TempDir::new().expect("a directory");
    let directory = from_here(above.path()).join("plugins");
    let make = |word: &str| {
        fs::create_dir(&directory).expect("the directory");
        write(&directory, &bundle(word));
    };
    make("one");
    let loading = Loading::watching(&directory);
    loading.waits_until_it_serves("one");
    fs::remove_dir_all(&directory).expect("the directory");
    make("two");
    loading.waits_until_it_serves("two");
    write(&directory, &bundle("three"));
    loading.waits_until_it_serves("three");
}

/// The same directory, named from the current one.
fn from_here(path: &Path) -> PathBuf {
    let here = std::env::current_dir().expect("a current directory");
    let up = here.components().skip(1).map(|_| "..");
    let down = path.components().skip(1);
    up.collect::<PathBuf>().join(down.collect::<PathBuf>())
}

#[test]
fn a_link_that_leads_to_another_directory_is_followed() {
    let (above, one, two) = (
        TempDir::new().expect("a directory"),
        plain(&bundle("one")),
        plain(&bundle("two")),
    );
    let link = above.path().join("current");
    std::os::unix::fs::symlink(one.path(), &link).expect("a link");
    let loading = Loading::of(&link, WatchMode::Notified, OFTEN);
    loading.waits_until_it_serves("one");
    let new = above.path().join("new");
    std::os::unix::fs::symlink(two.path(), &new).expect("a link");
    fs::rename(&new, &link).expect("in its place");
    loading.waits_until_it_serves("two");
    write(two.path(), &bundle("three"));
    loading.waits_until_it_serves("three");
}

#[test]
fn a_file_system_without_notifications_is_scanned() {
    let (volume, directory) = (Volume::new(&bundle("one")), plain(&bundle("one")));
    let of = |path| Loading::of(path, WatchMode::Scanned, OFTEN);
    let (swapped, written) = (of(volume.path()), of(directory.path()));
    swapped.waits_until_it_serves("one");
    written.waits_until_it_serves("one");
    volume.update(&bundle("two"), |_| {});
    write(directory.path(), &bundle("two"));
    swapped.waits_until_it_serves("two");
    written.waits_until_it_serves("two");
}

#[test]
fn a_directory_that_is_not_there_yet_is_waited_for() {
    let above = TempDir::new().expect("a directory");
    let directory = above.path().join("plugins");
    let loading = Loading::of(&directory, WatchMode::Notified, OFTEN);
    loading.waits_until_it_refuses("cannot open the plugin directory");
    assert_eq!(loading.serves(), Err("nothing serves".to_owned()));
    fs::create_dir(&directory).expect("the directory");
    loading.waits_until_it_refuses("holds no chain.yaml");
    write(&directory, &bundle("one"));
    loading.waits_until_it_serves("one");
}

#[test]
fn the_last_good_chain_serves_whatever_is_wrong_with_a_bundle() {
    let volume = Volume::new(&bundle("one"));
    let loading = Loading::watching(volume.path());
    loading.waits_until_it_serves("one");
    loading.reported(&["success"]);
    for (change, reason, words) in &BROKEN {
        let before = loading.outcomes().len();
        volume.update(&change.made(), |_| {});
        loading.waits_until_it_refuses(words);
        loading.waits_until("it is reported", || loading.outcomes().len() > before);
        assert_eq!(loading.outcomes()[before..], [*reason], "{words}");
        assert_eq!(loading.serves().as_deref(), Ok("\"one\""), "{words}");
        volume.update(&bundle("one"), |_| {});
        loading.waits_until(&format!("fixed: {words}"), || loading.error().is_none());
        loading.waits_until("that is reported", || {
            loading.outcomes().last() == Some(&"restored")
        });
    }
    volume.update(&bundle("two"), |_| {});
    loading.waits_until_it_serves("two");
}

#[test]
fn a_plugin_may_say_that_it_is_not_idempotent() {
    let files = [("adds-up.wasm", plugin("adds-up"))];
    let files: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(name, bytes)| (*name, bytes.as_slice()))
        .collect();
    let bundle = directory(
        "\n- { name: adds-up, file: adds-up.wasm, allow: ['/spec/containers/*'], idempotent: false }",
        &files,
    );
    let loading = Loading::watching(bundle.path());
    assert_eq!(loading.error(), None);
    loading.reported(&["success"]);
}

#[test]
fn a_chain_that_takes_too_long_to_build_is_refused() {
    let volume = Volume::new(&bundle("one"));
    let timeout = PATIENCE / 6;
    let loading = Loading::within(timeout, volume.path(), WatchMode::Notified, SELDOM);
    loading.waits_until_it_serves("one");
    // Each of them takes a second, twice, which makes four times the patience of this test.
    let slow = |number| format!("{{ name: slow-{number}, file: slow.wasm }}");
    let slow: Vec<String> = (0..60).map(slow).collect();
    volume.update(
        &Files::from([
            (
                "chain.yaml".to_owned(),
                manifest(&format!("[{}]", slow.join(", "))),
            ),
            ("slow.wasm".to_owned(), plugin("endless-loop")),
        ]),
        |_| {},
    );
    loading.waits_until_it_refuses("ran longer than its limit of 1 s");
    loading.reported(&["success", "unproven"]);
    assert_eq!(loading.serves().as_deref(), Ok("\"one\""));
    volume.update(&bundle("two"), |_| {});
    loading.waits_until_it_serves("two");
}

#[test]
fn without_a_good_chain_from_the_start_nothing_serves_until_there_is_one() {
    let volume = Volume::new(&Files::new());
    let loading = Loading::watching(volume.path());
    loading.waits_until_it_refuses("holds no chain.yaml");
    assert_eq!(loading.serves(), Err("nothing serves".to_owned()));
    volume.update(&bundle("one"), |_| {});
    loading.waits_until_it_serves("one");
}
