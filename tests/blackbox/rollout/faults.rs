//! Restarts, other leaders, chains that change in the middle, and people.

use super::*;

/// Steps that wait for pods that never come, so that the shares stay.
fn half() -> Value {
    json!({ "steps": [step(50, 1_000_000)] })
}

/// Deletes all pods, and waits until as many new ones have the same chains as before.
async fn all_are_replaced(scene: &Scene, before: &BTreeMap<String, BTreeSet<String>>) {
    let delete = [
        "delete",
        "pods",
        "-n",
        &scene.namespace,
        "--all",
        "--wait=false",
    ];
    scene.cluster.kubectl(&delete);
    eventually("all pods are replaced", async || {
        let pods = scene.pods().list(&ListParams::default()).await;
        let mut alive = pods.unwrap().items;
        alive.retain(|it| it.metadata.deletion_timestamp.is_none());
        let stamps = stamps(&alive);
        let is_same = alive.len() == 2 * before.len() && stamps == *before;
        is_same.then_some(()).ok_or_else(|| format!("{stamps:?}"))
    })
    .await;
}

#[test]
fn owners_stay_where_they_are_while_replicas_and_the_leader_restart() {
    blackbox_on(
        Cluster::without_operator,
        "rollout-restarts",
        async |scene| {
            let setting = Setting::new(&scene, &team("new"));
            let mut one = setting.answering("one").await;
            let mut judge = setting.judge(&[]);
            setting.wants(&half());
            let status = setting.until("half", |it| it["percent"] == 50).await;
            let new = status["candidate"].clone();
            setting.followed(1).await;
            let before = setting.deployments(16).await;
            let with_it = owners_with(&before, &new);
            assert!(with_it > 0 && with_it < 16, "{with_it}");
            let before = stamps(&before);
            judge.kill();
            one.kill();
            one.restart();
            // It is ready only when it knows where pods go.
            one.ready().await;
            setting.webhook.configure(address(&one).await, Policy::Fail);
            setting.webhook.serves().await;
            all_are_replaced(&scene, &before).await;
            let judgements = |it: &Value| it["judgements"].as_i64();
            let known = judgements(&setting.status());
            judge.restart();
            // Nothing begins again.
            let status = setting
                .until("it is judged again", |it| judgements(it) > known)
                .await;
            assert_eq!(
                (&status["rollout"], &status["percent"]),
                (&json!(1), &json!(50))
            );
        },
    );
}

#[test]
fn another_serving_chain_ends_the_rollout_and_another_candidate_begins_one() {
    blackbox_on(
        Cluster::without_operator,
        "rollout-changes",
        async |scene| {
            let setting = Setting::new(&scene, &team("new"));
            let _one = setting.answering("one").await;
            let _judge = setting.judge(&[]);
            setting.wants(&json!({ "steps": [step(100, 1_000_000)] }));
            let status = setting.until("all", |it| it["percent"] == 100).await;
            let first = status["candidate"].clone();
            setting.followed(1).await;
            assert_eq!(stamp(&setting.pod("a").await.unwrap()), first);

            setting.candidate.update(&team("newer"));
            let status = setting.until("another one", |it| it["rollout"] == 2).await;
            assert_ne!(status["candidate"], first);
            setting.followed(1).await;
            assert_eq!(stamp(&setting.pod("b").await.unwrap()), status["candidate"]);

            setting.serving.update(&team("third"));
            let status = setting.until_phase("Aborted").await;
            assert_eq!(status["reason"], "ServingChainChanged");
            let third = status["replicas"]["one"]["serving"].clone();
            assert_eq!(stamp(&setting.pod("c").await.unwrap()), third);

            // A candidate that is broken is none: the last good one stays, and nothing begins.
            setting
                .candidate
                .update("\n- { name: labels, file: missing.wasm }");
            let rollout = setting.status()["rollout"].clone();
            assert_eq!(rollout, 2);
            assert_eq!(stamp(&setting.pod("d").await.unwrap()), third);
        },
    );
}

#[test]
fn a_replica_without_the_candidate_holds_the_step_and_gives_the_old_chain() {
    blackbox_on(
        Cluster::without_operator,
        "rollout-lacking",
        async |scene| {
            let setting = Setting::new(&scene, &team("new"));
            let _one = setting.answering("one").await;
            let _judge = setting.judge(&[]);
            setting.wants(&json!({ "steps": [step(100, 1)] }));
            setting.until("all", |it| it["percent"] == 100).await;
            // Its volume is not there yet.
            let missing = MountedBundle::of("\n- { name: labels, file: missing.wasm }");
            let arguments = [
                "--candidate",
                path(&missing),
                "--rollout",
                "--pod-name",
                "two",
            ];
            let two = setting.webhook.spawn(setting.serving.path(), &arguments);
            two.ready().await;
            let status = setting
                .until("it is waited for", |it| it["reason"] == "ReplicasDiffer")
                .await;
            let message = status["message"].as_str().unwrap();
            assert_eq!(message, "waits for replicas without this candidate: two");
            setting.webhook.configure(address(&two).await, Policy::Fail);
            setting.webhook.serves().await;
            let pod = setting.pod("a").await.unwrap();
            assert_eq!(stamp(&pod), status["serving"]);
            drop(two);
            setting
                .until("it is gone", |it| it["replicas"].get("two").is_none())
                .await;
        },
    );
}
