//! Many Browsers at once, and an operator that is killed meanwhile.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use kube::ResourceExt;
use podloom_api::{Browser, Phase};
use podloom_tests::{Change, Cluster, Object, Scene, Seed, Signal, Watched, blackbox_on};

/// How long a thousand Browsers may take on a machine that is busy with other tests.
const LONG: Duration = Duration::from_secs(180);

fn runs(browser: &Browser) -> bool {
    let status = browser.status.as_ref();
    status.is_some_and(|status| status.phase == Some(Phase::Running) && status.pod_ip.is_some())
}

/// Creates many Browsers of a version, as fast as the API server accepts them.
async fn create(scene: &Scene, names: &[String], version: &str) {
    let created = stream::iter(names).map(|name| scene.browser(name, version));
    created.buffer_unordered(16).for_each(async |_| ()).await;
}

/// How many of these objects fulfil a condition in their last change.
fn count<K: ResourceExt>(
    changes: &[Change<K>],
    names: &[String],
    is: impl Fn(&Change<K>) -> bool,
) -> usize {
    let mut last: BTreeMap<String, bool> = names.iter().map(|name| (name.clone(), false)).collect();
    for change in changes {
        if let Some(known) = last.get_mut(&change.object().name_any()) {
            *known = is(change);
        }
    }
    last.values().filter(|is| **is).count()
}

async fn all_run(seen: &Watched<Browser>, names: &[String]) {
    let what = format!("all {} run", names.len());
    let is_running =
        |change: &Change<Browser>| matches!(change, Change::Is(browser) if runs(browser));
    seen.until_within(&what, LONG, |changes| {
        (count(changes, names, is_running) == names.len()).then_some(())
    })
    .await;
}

async fn all_gone<K: Object>(seen: &Watched<K>, names: &[String]) {
    let what = format!("all {} are gone", names.len());
    let is_gone = |change: &Change<K>| matches!(change, Change::Gone(_));
    seen.until_within(&what, LONG, |changes| {
        (count(changes, names, is_gone) == names.len()).then_some(())
    })
    .await;
}

fn numbered(letter: char, numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|number| format!("{letter}{number}")).collect()
}

#[test]
fn a_thousand_at_once_get_a_pod_each() {
    blackbox_on(Cluster::without_operator, "storm-thousand", async |scene| {
        let _operator = scene.operator(&[]).await;
        scene.behaviours().await;
        let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        let names = numbered('b', 0..1000);
        let begun = Instant::now();
        create(&scene, &names, "running").await;
        let created = begun.elapsed();
        all_run(&seen, &names).await;
        eprintln!(
            "1,000 Browsers: created after {created:?}, all Running after {:?}",
            begun.elapsed()
        );
        let owned = pods.by_owner();
        assert_eq!(owned.len(), 1000);
        pods.are_single();
        scene.delete_all_browsers().await;
        all_gone(&seen, &names).await;
        all_gone(&pods, &names).await;
        scene.nothing_is_left().await;
        pods.are_single();
    });
}

#[test]
fn an_operator_that_is_killed_repeatedly_finishes_its_work() {
    blackbox_on(Cluster::without_operator, "storm-killed", async |scene| {
        let mut seed = Seed::new("storm-killed");
        let mut operator = scene.operator(&["--concurrency", "4"]).await;
        scene.behaviours().await;
        let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        let mut alive: Vec<String> = Vec::new();
        let mut deleted: Vec<String> = Vec::new();
        for round in 0..8 {
            let new = numbered('b', round * 30..(round + 1) * 30);
            // A random moment among the changes to come: each new Browser is created, gets its finalizer, becomes Pending, and runs.
            let moment = seen.changes().len() + seed.below(100);
            create(&scene, &new, "running").await;
            alive.extend(new);
            for _ in 0..seed.below(20) {
                let victim = alive.swap_remove(seed.below(alive.len()));
                scene.delete_browser(&victim).await;
                deleted.push(victim);
            }
            seen.until("the changes until the next kill", |changes| {
                (changes.len() >= moment).then_some(())
            })
            .await;
            operator.kill();
            operator.restart();
        }
        all_run(&seen, &alive).await;
        all_gone(&seen, &deleted).await;
        pods.are_single();
        for name in &alive {
            scene.delete_browser(name).await;
        }
        all_gone(&seen, &alive).await;
        scene.nothing_is_left().await;
        pods.are_single();
    });
}

#[test]
fn a_graceful_end_finishes_running_passes() {
    blackbox_on(Cluster::without_operator, "storm-graceful", async |scene| {
        let mut operator = scene.operator(&["--concurrency", "2"]).await;
        scene.behaviours().await;
        let (seen, pods) = (scene.watch_browsers().await, scene.watch_pods().await);
        let names = numbered('b', 0..150);
        create(&scene, &names, "running").await;
        pods.until("the operator creates pods", |changes| {
            (changes.len() > 10).then_some(())
        })
        .await;
        operator.signal(Signal::Terminate);
        let begun = Instant::now();
        let status = operator.ended().await;
        assert!(status.success(), "{status}");
        assert!(
            begun.elapsed() < Duration::from_secs(25),
            "{:?}",
            begun.elapsed()
        );
        assert_eq!(operator.logged(&["stopped"]).len(), 1);
        // A pass that created a pod also wrote its status: no Browser is left in between.
        let browsers = scene
            .browsers()
            .list(&Default::default())
            .await
            .unwrap()
            .items;
        let made = scene
            .pods()
            .list_metadata(&Default::default())
            .await
            .unwrap()
            .items;
        let reported: Vec<String> = browsers
            .iter()
            .filter_map(|browser| browser.status.as_ref()?.pod_uid.clone())
            .collect();
        let unreported: Vec<String> = made
            .iter()
            .filter(|pod| !reported.contains(&pod.uid().unwrap_or_default()))
            .map(ResourceExt::name_any)
            .collect();
        assert!(unreported.is_empty(), "{unreported:?}");
        operator.restart();
        all_run(&seen, &names).await;
        pods.are_single();
    });
}
