//! Deletes without a hint.

use podloom_control_loop::Measurement;
use tokio::time::sleep;

use crate::support::{World, failed, looking_at, secs, settled, start};

#[tokio::test(start_paused = true)]
async fn an_id_that_vanishes_without_a_hint_is_deleted_once_at_the_next_resync() {
    let world = World::new([1, 2]);
    let mut control_loop = looking_at(&world, |_, _| async { settled() });
    control_loop.options.resync_interval = Some(secs(30));
    let running = start(control_loop);
    sleep(secs(10)).await;
    world.list([2]);
    world.store([2]);
    sleep(secs(300)).await;
    running.stop().await;
    let calls = world.calls();
    let of_one: Vec<bool> = calls
        .iter()
        .filter(|call| call.id == 1)
        .map(|call| call.present)
        .collect();
    assert_eq!(of_one, [true, false]);
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_deletes_nothing_that_is_in_storage() {
    let world = World::new([1]);
    let mut control_loop = looking_at(&world, |_, _| async { settled() });
    control_loop.options.resync_interval = Some(secs(30));
    let running = start(control_loop);
    sleep(secs(10)).await;
    world.list([]);
    sleep(secs(300)).await;
    running.stop().await;
    let calls = world.calls();
    assert!(calls.len() > 5, "{calls:?}");
    assert!(calls.iter().all(|call| call.present), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_fails_too_often_is_tried_at_every_resync_until_it_works() {
    for was_seen in [true, false] {
        let world = World::new([]);
        if was_seen {
            world.store([1]);
        }
        let deletes = std::sync::Arc::clone(&world);
        let mut control_loop = looking_at(&world, move |_, _| {
            let calls = deletes.calls();
            let deletes = calls.iter().filter(|call| !call.present).count();
            async move {
                if (1..4).contains(&deletes) {
                    failed()
                } else {
                    settled()
                }
            }
        });
        control_loop.options.resync_interval = Some(secs(30));
        control_loop.options.max_retries = Some(0);
        let running = start(control_loop);
        sleep(secs(1)).await;
        world.hint(1);
        sleep(secs(1)).await;
        world.store([]);
        sleep(secs(300)).await;
        running.stop().await;
        let calls = world.calls();
        let deletes = calls.iter().filter(|call| !call.present).count();
        assert_eq!(deletes, 4, "{calls:?}");
        assert_eq!(world.count(|one| *one == Measurement::Dropped), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hint_for_an_absent_id_cleans_up_and_is_then_forgotten() {
    let world = World::new([]);
    let mut control_loop = looking_at(&world, |_, _| async { settled() });
    control_loop.options.resync_interval = Some(secs(30));
    let running = start(control_loop);
    sleep(secs(1)).await;
    world.hint(9);
    sleep(secs(300)).await;
    running.stop().await;
    assert_eq!(world.times(9).len(), 1);
}
