use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use super::*;
use crate::outcome::{Reason, Verdict};
use crate::program::compile_all;

fn programs(condition: &str) -> Arc<[Program]> {
    compile_all(&[condition], &["pods"])
        .expect("the condition compiles")
        .into()
}

fn pods(count: usize) -> Arc<Variables> {
    let pods: Vec<_> = (0..count)
        .map(|number| json!({ "number": number }))
        .collect();
    let mut variables = Variables::default();
    variables
        .insert("pods", &json!(pods))
        .expect("it is not deep");
    Arc::new(variables)
}

/// A condition that would take hours.
const ENDLESS: &str = "pods.all(a, pods.all(b, pods.all(c, pods.all(d, a.number < 100000))))";

/// What a future comes to, if that is known now.
fn futures_now<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.poll(&mut context) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

fn endless() -> Budget {
    Budget {
        steps: u64::MAX,
        time: Duration::from_millis(300),
    }
}

#[tokio::test]
async fn conditions_are_evaluated_beside_the_runtime() {
    let evaluator = Evaluator::new(2);
    let programs = programs("pods.exists(pod, pod.number == 3)");
    let evaluation = evaluator
        .evaluate_all(
            "a",
            programs,
            (pods(5), Timestamp::UNIX_EPOCH),
            Budget::EVALUATION,
        )
        .await;
    assert_eq!(evaluation.verdict(), Verdict::Met);
}

#[tokio::test]
async fn conditions_are_compiled_beside_the_runtime() {
    let evaluator = Evaluator::new(1);
    let conditions = ["pods == []", "podz == []"].map(str::to_owned).to_vec();
    let compiled = evaluator
        .compile_all((None, "a"), conditions, vec!["pods".to_owned()])
        .await;
    let messages: Vec<String> = compiled
        .expect_err("the second is wrong")
        .into_iter()
        .map(|failure| failure.message)
        .collect();
    let expected = r#"conditions[1]: 1:1: unknown name "podz"; known here: pods, time"#;
    assert_eq!(messages, [expected]);
}

#[tokio::test]
async fn a_search_runs_beside_the_runtime() {
    let evaluator = Evaluator::new(1);
    let programs = programs("time >= timestamp('1970-01-02T00:00:00Z')");
    let found = evaluator
        .next_true(
            "a",
            programs,
            (pods(0), Timestamp::UNIX_EPOCH),
            Budget::SEARCH,
        )
        .await;
    assert_eq!(found, Timestamp::from_second(86_400).ok());
}

#[tokio::test]
async fn an_endless_condition_ends_at_its_deadline() {
    let evaluator = Evaluator::new(1);
    let started = Instant::now();
    let evaluation = evaluator
        .evaluate_all(
            "a",
            programs(ENDLESS),
            (pods(1000), Timestamp::UNIX_EPOCH),
            endless(),
        )
        .await;
    let Verdict::Failed(failure) = evaluation.verdict() else {
        panic!("{evaluation:?}");
    };
    assert_eq!(failure.reason, Reason::BudgetExceeded);
    assert!(started.elapsed() >= Duration::from_millis(300));
    assert!(started.elapsed() < Duration::from_secs(30));
}

/// A dropped future gives its place back only when its thread has ended, so there are never more threads than places.
#[tokio::test]
async fn a_dropped_future_keeps_its_place_until_its_thread_ends() {
    let evaluator = Evaluator::new(1);
    let running = evaluator.evaluate_all(
        "a",
        programs(ENDLESS),
        (pods(1000), Timestamp::UNIX_EPOCH),
        endless(),
    );
    let dropped = tokio::time::timeout(Duration::from_millis(50), running).await;
    assert!(dropped.is_err(), "it cannot have ended");
    let next = evaluator.run((None, "a"), || ());
    let mut next = std::pin::pin!(next);
    assert!(futures_now(next.as_mut()).is_none(), "the place is taken");
    let next = tokio::time::timeout(Duration::from_secs(30), next).await;
    assert!(next.is_ok(), "the deadline has freed the place");
}

#[tokio::test]
async fn no_more_run_than_there_are_places() {
    let evaluator = Evaluator::new(2);
    let running = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (evaluator, running, most) =
            (evaluator.clone(), Arc::clone(&running), Arc::clone(&most));
        tasks.spawn(async move {
            let work = move || {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(20));
                running.fetch_sub(1, Ordering::SeqCst);
            };
            evaluator.run((None, "a"), work).await
        });
    }
    let results = tasks.join_all().await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(most.load(Ordering::SeqCst), 2);
}

/// Whatever one tenant evaluates, there is a place for another, whose work need not wait. A peer can invent as many tenants as it likes.
#[tokio::test]
async fn one_tenant_does_not_keep_another_waiting() {
    let stranger = Some([10, 0, 0, 66].into());
    for (threads, peer) in [(1, None), (2, None), (1, stranger), (2, stranger)] {
        let evaluator = Evaluator::new(threads);
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let ended = Arc::new(std::sync::Mutex::new(ended));
        let mut runaways = tokio::task::JoinSet::new();
        for number in 0..40 {
            let (evaluator, ended) = (evaluator.clone(), Arc::clone(&ended));
            // They end only when the other tenant is done.
            let work = move || drop(ended.lock().map(|ended| ended.recv()));
            let greedy = match peer {
                None => "greedy".to_owned(),
                Some(_) => format!("invented-{number}"),
            };
            runaways.spawn(async move { evaluator.run((peer, &greedy), work).await });
        }
        tokio::task::yield_now().await;
        for number in 0..10 {
            let done = evaluator.run((None, "simple"), move || number);
            let done = tokio::time::timeout(Duration::from_secs(60), done).await;
            assert!(
                matches!(done, Ok(Ok(found)) if found == number),
                "{number} of {threads}"
            );
        }
        drop(end);
        assert!(runaways.join_all().await.iter().all(Result::is_ok));
    }
}

#[tokio::test]
async fn a_panic_is_an_error_and_frees_its_place() {
    let evaluator = Evaluator::new(1);
    let broken: Result<(), _> = evaluator.run((None, "a"), || panic!("in the middle")).await;
    let message = broken.map_err(|broken| broken.to_string());
    assert_eq!(message, Err("an internal error: in the middle".to_owned()));
    assert!(matches!(evaluator.run((None, "a"), || 1).await, Ok(1)));
}

#[test]
fn that_no_thread_starts_says_nothing_about_conditions() {
    assert_eq!(
        none_compiled(&Broken::Full(podloom_turns::Full)).reason,
        Reason::EvaluationError
    );
    let start = Broken::Start(std::io::ErrorKind::WouldBlock.into());
    assert_eq!(none_compiled(&start).reason, Reason::EvaluationError);
    let panic = Broken::Panic("index out of bounds".to_owned());
    assert_eq!(none_compiled(&panic).reason, Reason::CompileError);
}
