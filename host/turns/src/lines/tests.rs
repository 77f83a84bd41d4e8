mod rate;

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use tracing_subscriber::fmt::MakeWriter;

use super::{Cause, Lines, OF_ONE_NAMESPACE, OF_ONE_PEER, PERIOD};

fn cause(peer: u8, namespace: &str) -> Cause {
    Cause {
        about: "pod denied",
        plugin: None,
        peer: Some([10, 0, 0, peer].into()),
        namespace: Some(namespace.to_owned()),
    }
}

/// How many of so many lines are logged.
fn logged(lines: &Lines, count: usize, cause: impl Fn(usize) -> Cause) -> u64 {
    let may = (0..count).filter(|&number| lines.may(cause(number)));
    u64::try_from(may.count()).expect("few")
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Runs it, and returns what is logged meanwhile.
async fn log_of(work: impl Future<Output = ()>) -> String {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(log.clone())
        .with_ansi(false);
    let logs = tracing::subscriber::set_default(subscriber.finish());
    work.await;
    drop(logs);
    let text = log.0.lock().expect("no panic").clone();
    String::from_utf8(text).expect("text")
}

/// Seen: 22,000 lines in five seconds from somebody without an account.
#[tokio::test(start_paused = true)]
async fn a_stranger_writes_few_lines_whatever_namespaces_it_invents_and_the_rest_is_counted() {
    let lines = Lines::default();
    let log = log_of(async {
        let of_stranger = logged(&lines, 22_000, |number| cause(66, &number.to_string()));
        assert_eq!(of_stranger, OF_ONE_PEER);
        assert_eq!(logged(&lines, 5, |_| cause(1, "team-a")), 5, "another peer");
        tokio::time::sleep(PERIOD * 2).await;
    });
    let log = log.await;
    assert_eq!(log.lines().count(), 1, "{log}");
    assert!(
        log.contains("peer=10.0.0.66") && log.contains("left_out=21900"),
        "{log}"
    );
    assert_eq!(
        logged(&lines, 1, |_| cause(66, "team-a")),
        1,
        "another period"
    );
}

/// The lines of the next period come before anybody has counted those of the last one.
#[tokio::test(start_paused = true)]
async fn in_a_flood_without_end_each_line_is_logged_or_counted_once() {
    let (lines, mut passed) = (Lines::default(), 0);
    let log = log_of(async {
        for _ in 0..6 {
            passed += logged(&lines, 1000, |number| cause(66, &number.to_string()));
            tokio::time::sleep(PERIOD / 2).await;
        }
        tokio::time::sleep(PERIOD * 2).await;
    });
    let log = log.await;
    let counts = log.lines().filter_map(|line| line.rsplit_once("left_out="));
    let counts: Vec<u64> = counts.map(|(_, n)| n.parse().expect("a number")).collect();
    assert_eq!(passed, OF_ONE_PEER * 3);
    assert_eq!(counts, [2000 - OF_ONE_PEER; 3], "{log}");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_leaves_lines_to_the_others_of_its_peer() {
    let lines = Lines::default();
    assert_eq!(
        logged(&lines, 1000, |_| cause(1, "team-a")),
        OF_ONE_NAMESPACE
    );
    assert_eq!(
        logged(&lines, 1000, |number| cause(1, &number.to_string())),
        OF_ONE_PEER - OF_ONE_NAMESPACE
    );
}
