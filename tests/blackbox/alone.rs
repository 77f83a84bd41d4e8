//! The image's root folder has all that the operator needs: it runs there, and sees no other files.

use podloom_api::Phase;
use podloom_tests::{Cluster, blackbox_on};

#[test]
fn the_image_holds_all_that_the_operator_needs() {
    blackbox_on(Cluster::without_operator, "alone", async |scene| {
        let _operator = scene.operator_alone().await;
        scene.behaviours().await;
        let seen = scene.watch_browsers().await;
        scene.browser("b", "running").await;
        seen.until_is(
            "b",
            "runs, and all plugins of the image have run",
            |browser| {
                let status = browser.status.clone().unwrap_or_default();
                let plugins = status.mutations.map(|mutations| mutations.plugins);
                status.phase == Some(Phase::Running)
                    && plugins.is_some_and(|plugins| plugins.len() == 3)
            },
        )
        .await;
    });
}
