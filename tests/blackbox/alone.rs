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
                let mutations = status.mutations;
                status.phase == Some(Phase::Running)
                    && mutations.is_some_and(|mutations| mutations.plugins.len() == 3)
            },
        )
        .await;
    });
}
