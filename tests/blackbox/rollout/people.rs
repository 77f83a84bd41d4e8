//! People hold a rollout, end it, and begin it again, with `podloom rollout`.

use std::path::Path;
use std::process::Command;

use kube::Api;
use kube::api::{Patch, PatchParams};
use podloom_api::ChainRollout;
use podloom_tests::binary;
use podloom_tests::doors::health;
use podloom_tests::servers::client;

use super::*;

impl Setting<'_> {
    /// Runs `podloom rollout` as an administrator. Returns its exit code and what it printed.
    fn command(&self, words: &[&str]) -> (Option<i32>, String) {
        let output = Command::new(binary().unwrap())
            .arg("rollout")
            .args(words)
            .args(["--namespace", &self.webhook.home])
            .env("KUBECONFIG", self.scene.cluster.plane.kubeconfig())
            .output()
            .unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let printed = printed + &String::from_utf8(output.stderr).unwrap();
        (output.status.code(), printed)
    }

    #[track_caller]
    fn commands(&self, words: &[&str]) -> String {
        let (code, printed) = self.command(words);
        assert_eq!(code, Some(0), "{words:?}: {printed}");
        printed
    }
}

impl Setting<'_> {
    #[track_caller]
    fn is_refused(&self, words: &[&str], why: &str) {
        let (code, printed) = self.command(words);
        assert_eq!(code, Some(3), "{printed}");
        assert!(printed.contains(why), "{printed}");
    }

    /// What kubectl shows in the first columns.
    #[track_caller]
    fn is_shown(&self, expected: &[&str]) {
        let get = ["get", "chainrollouts", "-n", &self.webhook.home];
        let shown = self.scene.cluster.kubectl(&get);
        let words =
            |line: &str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
        let mut lines = shown.lines().map(words);
        let columns = ["NAME", "PHASE", "STEP", "PERCENT", "PODS", "VERDICT", "AGE"];
        assert_eq!(lines.next().unwrap(), columns);
        assert_eq!(lines.next().unwrap()[1..=expected.len()], *expected);
    }

    #[track_caller]
    fn lists_pod_a(&self, words: &[&str]) {
        let printed = self.commands(words);
        let expected = [self.scene.namespace.as_str(), "Pod/a", "a"];
        let mut lines = printed.lines();
        let is_listed = lines.any(|line| line.split_whitespace().eq(expected));
        assert!(is_listed, "{printed}");
    }

    /// What Flux and Argo CD see.
    #[track_caller]
    fn others_see(&self, flux: &str, argo: &str) {
        let get = [
            "get",
            "chainrollout",
            NAME,
            "-n",
            &self.webhook.home,
            "-o",
            "json",
        ];
        let rollout = serde_json::from_str(&self.scene.cluster.kubectl(&get)).unwrap();
        let seen = health(&rollout);
        assert_eq!((seen.flux.as_str(), seen.argo.as_str()), (flux, argo));
    }

    /// Waits until a new pod does not pass this chain.
    async fn passes_another(&self, digest: &str) {
        eventually("another chain serves", async || {
            let name = format!("b-{}", AFTER.fetch_add(1, Ordering::Relaxed));
            let pod = self.pod(&name).await.map_err(|it| it.to_string())?;
            (stamp(&pod) != digest)
                .then_some(())
                .ok_or_else(String::new)
        })
        .await;
    }
}

#[test]
fn people_hold_it_end_it_and_begin_it_again() {
    blackbox_on(Cluster::without_operator, "rollout-people", async |scene| {
        let setting = Setting::new(&scene, &team("new"));
        setting.is_refused(&["status"], "there is no ChainRollout in namespace");
        let _replica = setting.answering("one").await;
        let _judge = setting.judge(&[]);
        setting.wants(&json!({ "steps": [step(100, 1)] }));
        setting.until("it begins", |it| it["percent"] == 100).await;
        setting.commands(&["pause"]);
        setting.until_phase("Paused").await;
        setting.followed(1).await;
        let pod = setting.pod("a").await.unwrap();
        let candidate = stamp(&pod).to_owned();
        setting.lists_pod_a(&["pods"]);
        let printed = setting.commands(&["status", NAME]);
        assert!(
            printed.starts_with("main Paused 1/1: spec.paused holds this step\n"),
            "{printed}"
        );
        assert!(
            printed.contains(&format!("candidate {}: up to 100", &candidate[..12])),
            "{printed}"
        );
        assert!(printed.contains("replica one: serving "), "{printed}");
        setting.is_shown(&["Paused", "1/1", "100"]);
        setting.others_see("Current", "Suspended");

        setting.commands(&["abort"]);
        let (code, printed) = setting.command(&["status", "--wait"]);
        assert_eq!(code, Some(4), "{printed}");
        assert!(
            printed.contains("main Aborted 1/1: somebody gave it up by hand"),
            "{printed}"
        );
        setting.others_see("Failed", "Degraded");
        setting.is_refused(&["promote"], "the phase is Aborted; to begin again");
        setting.passes_another(&candidate).await;

        // Again, from the first step on; this time to the end.
        setting.commands(&["resume"]);
        setting
            .until("it begins again", |it| it["rollout"] == 2)
            .await;
        let wait = ["status", "--wait", "--timeout", "1s"];
        setting.is_refused(&wait, "it was not over within 1s");
        setting.commands(&["promote"]);
        let printed = setting.commands(&["status", "--wait"]);
        assert!(
            printed.contains("main Completed 1/1: somebody had every pod pass it"),
            "{printed}"
        );
        setting.others_see("Current", "Healthy");
        setting.followed(1).await;
        assert_eq!(stamp(&setting.pod("c").await.unwrap()), candidate);
        setting.lists_pod_a(&["pods", "--candidate", &candidate[..8]]);
        setting.is_refused(&["pods", "--candidate", "nobody"], "knows no candidate");
        let printed = setting.commands(&["status", "-o", "json"]);
        let status: Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(
            (&status["phase"], &status["attempt"]),
            (&json!("Completed"), &json!(1))
        );
    });
}

#[test]
fn what_only_reports_decides_nothing() {
    blackbox_on(Cluster::without_operator, "rollout-policy", async |scene| {
        let setting = Setting::new(&scene, &team("new"));
        let home = setting.webhook.home.as_str();
        // As the guide has it; kubectl refuses fields that nobody knows.
        let page = include_str!("../../../deploy/CHANGES.md");
        let example = page
            .split("```yaml\n")
            .find(|it| it.contains("kind: ChainRollout"));
        let example = example.and_then(|it| it.split("```").next()).unwrap();
        let example = example.replace("namespace: podloom-system ", &format!("namespace: {home} "));
        scene.cluster.apply_text(&example);
        let write = async |account: &Path, status: Value, dry_run: bool| {
            let api = Api::<ChainRollout>::namespaced(client(account).await, home);
            let parameters = PatchParams {
                dry_run,
                ..PatchParams::default()
            };
            let patch = Patch::Merge(json!({ "status": status }));
            let written = api.patch_status(NAME, &parameters, &patch).await;
            written.map(drop).map_err(|error| error.to_string())
        };
        let plane = &scene.cluster.plane;
        let judge = plane.kubeconfig_for_service_account(home, "podloom-rollout");
        let judge = judge.unwrap();
        let replica = setting.webhook.kubeconfig.as_path();
        let serves = json!([{ "percent": 100 }]);
        let begun = json!({ "phase": "Progressing", "percent": 5, "shares": [] });
        write(&judge, begun, false).await.unwrap();

        eventually("the policy is in force", async || {
            match write(replica, json!({ "shares": serves }), true).await {
                Err(error) if error.contains("needs the right to judge chainrollouts") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        let entry = json!({ "one": { "rollout": 1, "beats": 1, "counts": {} } });
        for decided in [
            json!({ "phase": "RolledBack" }),
            json!({ "percent": null }),
            json!({ "rejected": ["a".repeat(64)] }),
            json!({ "replicas": entry, "judgements": 7 }),
            Value::Null,
        ] {
            let refused = write(replica, decided.clone(), true).await;
            let refused = refused.expect_err(&decided.to_string());
            assert!(
                refused.contains("may change only status.replicas of a ChainRollout"),
                "{refused}"
            );
        }
        write(replica, json!({ "replicas": entry }), false)
            .await
            .unwrap();
        write(replica, json!({ "replicas": null }), true)
            .await
            .unwrap();
        write(&judge, json!({ "shares": serves }), true)
            .await
            .unwrap();
    });
}
