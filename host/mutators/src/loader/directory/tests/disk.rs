use std::sync::mpsc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::super::*;

/// An access that does not return before this is dropped.
pub(super) async fn hang(disk: &Disk) -> OwnedSemaphorePermit {
    let turn = Arc::clone(&disk.0).acquire_owned().await;
    turn.expect("nobody closes it")
}

#[tokio::test]
async fn a_hanging_access_takes_one_thread_whatever_follows() {
    let disk = Disk::default();
    let (hangs, ends) = mpsc::channel::<()>();
    let (looks, looked) = mpsc::channel();
    let first = disk.look(move || ends.recv().is_err());
    let gave_up = timeout(Duration::from_millis(10), first).await;
    assert!(gave_up.is_err(), "it hangs");
    for _ in 0..3 {
        let looks = looks.clone();
        let next = disk.look(move || looks.send(()).is_ok());
        let gave_up = timeout(Duration::from_millis(10), next).await;
        assert!(gave_up.is_err(), "it waits");
    }
    assert!(looked.try_recv().is_err(), "nobody has looked");
    drop(hangs);
    assert!(disk.look(|| true).await.expect("it answers again"));
}
