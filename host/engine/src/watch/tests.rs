mod watch_age;

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use podloom_scripted::{Broken, broken};
use tokio::time::{advance, timeout};

use super::{paced, watch_config, watch_events};
use crate::broken::{SAID, Seldom};

#[tokio::test(start_paused = true)]
async fn an_api_server_that_fails_is_asked_every_few_seconds() {
    for how in Broken::ALL {
        let (client, requests) = broken(how);
        let api: Api<Pod> = Api::all(paced(&client));
        let watching = watch_events(api, watch_config(), |_| {}, |_| {}).for_each(|_| async {});
        let _never_ends = timeout(Duration::from_mins(10), watching).await;
        let asked = requests.made().len();
        // Four to eight seconds apart, but for the first.
        assert!((75..=160).contains(&asked), "{how:?}: {asked} requests");
    }
}

#[tokio::test(start_paused = true)]
async fn of_many_equal_lines_one_is_logged_now_and_then_with_a_count() {
    let seldom = Seldom::default();
    assert_eq!(seldom.is_due(), Some(0));
    assert_eq!(seldom.is_due(), None);
    advance(SAID - Duration::from_secs(1)).await;
    assert_eq!(seldom.is_due(), None);
    advance(Duration::from_secs(1)).await;
    assert_eq!(seldom.is_due(), Some(2));
    assert_eq!(seldom.is_due(), None);
}
