use std::fs;

use super::own;

#[test]
fn each_mounted_hierarchy_has_a_cgroup_of_ours() {
    let mount = tempfile::tempdir().unwrap();
    for directory in [
        "memory/team/7",
        "systemd",
        "unified",
        "cpu,cpuacct",
        "freezer",
    ] {
        fs::create_dir_all(mount.path().join(directory)).unwrap();
    }
    let text =
        "9:name=systemd:/\n4:memory:/team/7\n2:cpu,cpuacct:/\n6:freezer:/gone\n3:rdma:/\n0::/\n";
    let expected = ["cpu,cpuacct/", "memory/team/7", "systemd/", "unified/"];
    let expected = expected.map(|path| mount.path().join(path));
    assert_eq!(own(text, mount.path()), expected);
    assert!(own("nonsense\n", mount.path()).is_empty());
}
