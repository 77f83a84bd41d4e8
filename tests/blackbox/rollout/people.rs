//! People hold a rollout, end it, and begin it again, with `podloom rollout`.

use std::process::Command;

use podloom_tests::binary;

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

        setting.commands(&["abort"]);
        let (code, printed) = setting.command(&["status", "--wait"]);
        assert_eq!(code, Some(4), "{printed}");
        assert!(
            printed.contains("main Aborted 1/1: somebody gave it up by hand"),
            "{printed}"
        );
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
        setting.followed(1).await;
        assert_eq!(stamp(&setting.pod("c").await.unwrap()), candidate);
        let printed = setting.commands(&["status", "-o", "json"]);
        let status: Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(
            (&status["phase"], &status["attempt"]),
            (&json!("Completed"), &json!(1))
        );
    });
}
