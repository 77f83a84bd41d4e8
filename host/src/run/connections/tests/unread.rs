use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http_body_util::BodyExt;
use tokio::time::{sleep, timeout};

use super::super::{Unread, Watched};

const LIMIT: Duration = Duration::from_secs(5);

fn answer(unread: &Arc<Unread>) -> Response<Watched> {
    unread.watch(Response::new(Body::from("an answer")))
}

/// Whether something is overdue within so many seconds.
async fn is_overdue(unread: &Unread, seconds: u64) -> bool {
    let overdue = timeout(Duration::from_secs(seconds), unread.overdue(LIMIT));
    overdue.await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_read_or_dropped_is_not_waited_for() {
    let unread = Arc::default();
    let read = answer(&unread).into_body().collect().await;
    assert_eq!(read.expect("it is whole").to_bytes(), "an answer");
    drop(answer(&unread));
    assert!(!is_overdue(&unread, 60).await);
}

#[tokio::test(start_paused = true)]
async fn one_that_waits_is_overdue_wherever_it_waits() {
    let unread = Arc::default();
    let body = answer(&unread);
    assert!(!is_overdue(&unread, 4).await && is_overdue(&unread, 2).await);
    drop(body);
    let mut body = answer(&unread).into_body();
    let part = body.frame().await.expect("a part").expect("it is there");
    drop(body);
    assert!(!is_overdue(&unread, 4).await && is_overdue(&unread, 2).await);
    drop(part);
    assert!(!is_overdue(&unread, 60).await);
}

#[tokio::test(start_paused = true)]
async fn each_answer_has_its_own_time() {
    let unread = Arc::default();
    let first = answer(&unread);
    let watching = tokio::spawn({
        let unread = Arc::clone(&unread);
        async move { unread.overdue(LIMIT).await }
    });
    sleep(LIMIT - Duration::from_secs(1)).await;
    let second = answer(&unread);
    drop(first);
    sleep(LIMIT - Duration::from_secs(1)).await;
    assert!(!watching.is_finished());
    sleep(Duration::from_secs(2)).await;
    assert!(watching.is_finished());
    drop(second);
}
