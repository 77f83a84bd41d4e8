//! The API server stops and starts again.

use crate::behaviours::pod;
use crate::cluster::{apply, eventually, get, kubectl, start, try_kubectl};

#[test]
fn objects_outlive_the_api_server() {
    let plane = start();
    kubectl(&plane, &["create", "configmap", "kept"]);
    plane.stop_api_server().unwrap();
    assert!(try_kubectl(&mut plane.kubectl(), &["get", "configmap", "kept"]).is_err());
    plane.start_api_server().unwrap();
    kubectl(&plane, &["get", "configmap", "kept"]);
    // The scheduler and KWOK have reconnected.
    apply(&plane, &pod("default", "afterwards", None));
    eventually("\"Running\"", || {
        get(&plane, &["pod", "afterwards"])["status"]["phase"].to_string()
    });
    plane.check_alive().unwrap();
    plane.stop();
}
