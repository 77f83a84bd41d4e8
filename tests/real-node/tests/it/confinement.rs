//! What the kernel lets containers do: the operator's own, and one that takes too much memory.

use crate::cluster::{cluster, root};
use crate::sessions::GREEDY;

#[test]
fn the_operator_runs_confined_and_a_greedy_session_is_killed() {
    let Some(cluster) = cluster() else { return };
    cluster.install(&root().join("deploy"));

    let process = cluster.process(&cluster.operators()[0]);
    let status = cluster.inside(&["cat", &format!("/proc/{process}/status")]);
    for line in [
        "Uid:\t65532\t65532\t65532\t65532",
        "Gid:\t65532\t65532\t65532\t65532",
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "NoNewPrivs:\t1",
        // A filter: RuntimeDefault.
        "Seccomp:\t2",
    ] {
        assert!(
            status.lines().any(|found| found == line),
            "{line:?} is not in\n{status}"
        );
    }
    let mounts = cluster.inside(&["cat", &format!("/proc/{process}/mounts")]);
    let root_mount = mounts
        .lines()
        .find(|line| line.split(' ').nth(1) == Some("/"))
        .unwrap();
    let options = root_mount.split(' ').nth(3).unwrap();
    assert!(
        options.split(',').any(|option| option == "ro"),
        "{root_mount}"
    );
    let cgroups = cluster.inside(&["cat", &format!("/proc/{process}/cgroup")]);
    let memory = cgroups.lines().find_map(|line| line.split_once(":memory:"));
    let limit = format!(
        "/sys/fs/cgroup/memory{}/memory.limit_in_bytes",
        memory.unwrap().1
    );
    let limit: u64 = cluster.inside(&["cat", &limit]).trim().parse().unwrap();
    assert_eq!(limit, 384 * 1024 * 1024);

    cluster.configure_sessions();
    cluster.browse("greedy", GREEDY);
    let events = cluster.until_ended("greedy");
    assert!(
        events.iter().any(|event| event.contains("OOMKilled")),
        "{events:?}"
    );
}
