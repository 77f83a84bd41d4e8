//! No Deployment is half changed, whatever restarts.

use std::env;
use std::time::{Duration, Instant};

use podloom_tests::blackbox_within;
use tokio::time::sleep;

use super::*;

/// For how long, unless PODLOOM_ROLLOUT_SECONDS says otherwise.
const SECONDS: u64 = 40;

fn seconds() -> Duration {
    let given = env::var("PODLOOM_ROLLOUT_SECONDS").ok();
    Duration::from_secs(given.map_or(SECONDS, |it| it.parse().unwrap()))
}

/// How long nothing restarts, after each restart: a step takes no time while replicas come and go.
fn calm() -> Duration {
    seconds().min(Duration::from_mins(30)) / 120
}

/// What was seen of the Deployments of a rollout.
#[derive(Default)]
struct Story {
    /// Those whose pods passed the candidate.
    with_it: BTreeSet<String>,
    checked: usize,
    replaced: usize,
}

impl Setting<'_> {
    /// The step, and which rollout it is.
    fn place(&self) -> (Value, Value) {
        let status = self.status();
        (status["rollout"].clone(), status["percent"].clone())
    }

    /// Creates Deployments. Unless a step began meanwhile, each has pods of one chain.
    async fn one_batch(&self, new: &Value, story: &mut Story) {
        let before = self.place();
        let pods = self.deployments(4).await;
        if self.place() != before {
            return;
        }
        owners_with(&pods, new);
        story.checked += 4;
        let new = new.as_str().unwrap();
        let stamps = stamps(&pods).into_iter();
        let with_it = stamps.filter(|(_, stamps)| stamps.contains(new));
        story.with_it.extend(with_it.map(|(app, _)| app));
    }

    /// Restarts something, by the number of the round. Whoever answers afterwards is ready.
    async fn restart(&self, round: usize, replicas: &mut [Operator; 2], judge: &mut Operator) {
        // Now and then: one that never judges twice takes no step.
        if round % 8 == 7 {
            judge.kill();
            judge.restart();
            return;
        }
        let [one, two] = replicas;
        let (restarted, other) = match round % 2 {
            0 => (one, two),
            _ => (two, one),
        };
        // The API server asks the other one meanwhile.
        self.webhook.configure(address(other).await, Policy::Fail);
        self.webhook.serves().await;
        restarted.kill();
        restarted.restart();
        restarted.ready().await;
        self.webhook
            .configure(address(restarted).await, Policy::Fail);
        self.webhook.serves().await;
    }
}

#[test]
fn no_deployment_is_half_changed_while_everything_restarts() {
    let deadline = seconds() + 2 * PATIENCE;
    let cluster = Cluster::without_operator;
    blackbox_within(deadline, cluster, "rollout-storm", async |scene| {
        let setting = Setting::new(&scene, &team("new"));
        let mut replicas = [setting.answering("one").await, setting.replica("two").await];
        let mut judge = setting.judge(&[]);
        // Up to 95 percent, in steps that take most of the time.
        let least = format!("{}s", (seconds().as_secs() / 40).max(1));
        let grow = |it| json!({ "percent": 5 * it, "pods": 1, "duration": least });
        let steps = (1..20).map(grow).chain([step(95, 1_000_000)]);
        setting.wants(&json!({ "steps": steps.collect::<Value>() }));
        let status = setting.until_phase("Progressing").await;
        let new = status["candidate"].clone();
        setting.followed(2).await;
        let (begun, mut story, mut round) = (Instant::now(), Story::default(), 0);
        while begun.elapsed() < seconds() || story.checked == 0 {
            setting.one_batch(&new, &mut story).await;
            setting.restart(round, &mut replicas, &mut judge).await;
            setting.one_batch(&new, &mut story).await;
            // Whoever has the candidate keeps it, also when its pods are made again by another replica.
            if let Some(app) = story.with_it.pop_first() {
                setting.replaced(&app, &new).await;
                story.replaced += 1;
            }
            round += 1;
            sleep(calm()).await;
        }
        let status = setting.status();
        assert_eq!(status["rollout"], 1, "{status:#}");
        assert_eq!(status["phase"], "Progressing", "{status:#}");
        let (checked, replaced) = (story.checked, story.replaced);
        eprintln!(
            "{round} restarts, {checked} Deployments whole, {replaced} made again, at {} percent; counted: {}",
            status["percent"], status["replicas"]
        );
    });
}
