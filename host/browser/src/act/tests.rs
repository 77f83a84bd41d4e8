use k8s_openapi::api::core::v1::Pod;
use podloom_engine::kind::Source;
use podloom_engine::testing::context;
use podloom_mutation::PodRejection;
use podloom_scripted::{client, status};

use super::ActionOutcome;
use crate::kind::tests::{browser, controller_of};

/// What creating a pod comes to where the API server refuses it so: a refusal, or none, which is an error to be tried again.
async fn check(code: u16, reason: &str, expected: Option<PodRejection>) {
    let (client, _) = client(code, status(code, reason, "no"));
    let kind = controller_of(None);
    let ctx = context(client);
    let world = kind
        .look_around(&ctx, &browser(), Source::Cache)
        .await
        .unwrap();
    let done = kind.create_pod(&ctx, &world, &Pod::default(), None).await;
    let refusal = match done {
        Ok(ActionOutcome::PodRejected(refusal)) => Some(refusal),
        Ok(outcome) => panic!("{code} came to {outcome:?}"),
        Err(_) => None,
    };
    assert_eq!(refusal, expected, "{code} {reason}");
}

#[tokio::test]
async fn a_pod_that_the_api_server_refuses_is_no_error() {
    let invalid = || Some(PodRejection::Invalid("no".to_owned()));
    let forbidden = || Some(PodRejection::Forbidden("no".to_owned()));
    check(400, "BadRequest", invalid()).await;
    check(403, "Forbidden", forbidden()).await;
    check(413, "RequestEntityTooLarge", invalid()).await;
    check(422, "Invalid", invalid()).await;
    check(500, "InternalError", forbidden()).await;
}

/// Webhooks deny with any status, and proxies answer for an API server that is away. Whatever it is, the Browser's status says it
/// and the creation timeout ends it.
#[tokio::test]
async fn any_other_failure_to_create_a_pod_is_said_and_tried_again() {
    for (code, reason) in [
        (401, "Unauthorized"),
        (404, "NotFound"),
        (409, "Conflict"),
        (429, "TooManyRequests"),
        (502, ""),
        (503, "ServiceUnavailable"),
        (504, "Timeout"),
    ] {
        check(code, reason, Some(PodRejection::Forbidden("no".to_owned()))).await;
    }
}
