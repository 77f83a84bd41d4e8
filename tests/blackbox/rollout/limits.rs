//! Each limit takes a candidate back, and pods pass the old chain at once.

use super::*;

/// What is limited, and the reason of a roll-back.
const LIMITS: [(&str, &str); 5] = [
    ("denied", "TooManyDenied"),
    ("failed", "TooManyFailed"),
    ("unready", "TooManyUnready"),
    ("restarted", "TooManyRestarted"),
    ("slow", "TooSlow"),
];

/// A plugin that runs into its time limit, and pods are made all the same. The pods on which a chain is proved have no such label.
const LOOPS: &str =
    "\n- { name: loops, file: loops.wasm, allow: [/metadata/labels], failurePolicy: Ignore }";

/// A spec with one step for everybody, which never ends, and one limit that is reached soon.
fn for_all(limited: &str) -> Value {
    let mut limits = json!({ "readyWithin": "1h" });
    for (name, _) in LIMITS {
        let pods = if name == limited { 2 } else { 1_000_000 };
        limits[name] = json!({ "pods": pods, "percent": 5 });
    }
    limits["slow"]["percent"] = json!(200);
    limits["slow"]["milliseconds"] = json!(5);
    // How slow it is shows only beside pods of the other chain.
    let percent = if limited == "slow" { 50 } else { 100 };
    json!({ "steps": [{ "percent": percent, "duration": "1h" }], "limits": limits })
}

/// Rolls a candidate out until it is taken back, and checks that no pod passes it from then on.
fn taken_back(limited: &'static str, candidate: &str) {
    let (_, reason) = LIMITS
        .into_iter()
        .find(|(name, _)| *name == limited)
        .unwrap();
    let name = format!("rollout-{limited}");
    blackbox_on(Cluster::without_operator, &name, async |scene| {
        scene.behaviours().await;
        let setting = Setting::new(&scene, candidate);
        let replica = setting.answering("one").await;
        let judge = setting.judge(&[]);
        setting.wants(&for_all(limited));
        let status = setting.until_phase("Progressing").await;
        let (old, new) = (status["serving"].clone(), status["candidate"].clone());
        setting.followed(1).await;
        let mut with_it = 0;
        for number in 0..12 {
            match setting.pod(&format!("p-{number}")).await {
                Ok(pod) => with_it += u32::from(stamp(&pod) == new),
                Err(error) => assert!(limited == "denied", "{error}"),
            }
        }
        assert!(with_it > 1 || limited == "denied", "{}", replica.tail(""));
        let status = setting.until_phase("RolledBack").await;
        assert_eq!(status["reason"], reason, "{status:#}");
        // The next review that begins after the replica knows.
        eventually("a pod passes the old chain", async || {
            let name = format!("after-{}", AFTER.fetch_add(1, Ordering::Relaxed));
            let pod = setting.pod(&name).await.map_err(|it| it.to_string())?;
            let is_old = stamp(&pod) == old;
            is_old.then_some(()).ok_or_else(|| replica.tail(""))
        })
        .await;
        for number in 0..10 {
            let pod = setting.pod(&format!("last-{number}")).await.unwrap();
            assert_eq!(stamp(&pod), old, "never again");
        }
        eventually("an Event says why", async || {
            let get = ["get", "events", "-n", &scene.namespace, "-o", "json"];
            let events: Value = serde_json::from_str(&scene.cluster.kubectl(&get)).unwrap();
            let mut events = events["items"].as_array().unwrap().iter();
            let is_told = events.any(|it| it["reason"] == reason && it["type"] == "Warning");
            is_told.then_some(()).ok_or_else(|| judge.tail(""))
        })
        .await;
    });
}

#[test]
fn one_that_denies_more_is_taken_back() {
    taken_back("denied", "\n- { name: denies, file: denies.wasm }");
}

#[test]
fn one_that_fails_is_taken_back() {
    taken_back("failed", LOOPS);
}

#[test]
fn one_that_is_slow_is_taken_back() {
    taken_back("slow", LOOPS);
}

#[test]
fn one_whose_pods_fail_is_taken_back() {
    taken_back("unready", &label("kubelet.test/behaviour", "failed"));
}

#[test]
fn one_whose_pods_restart_is_taken_back() {
    taken_back("restarted", &label("kubelet.test/behaviour", "crash-loop"));
}
